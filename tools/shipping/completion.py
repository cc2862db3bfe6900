"""Completion of our commands for bash and zsh, from their parsers.

What lives here: two printers of commandline.Command. What must not: a command, a verb or an option by name. Both shells get the same
facts: which words may follow which, which options take a value, what a value may be.

`python -m shipping.completion FOLDER` writes them.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from voicectl.__main__ import parser as voicectl_parser
from voiced.__main__ import parser as voiced_parser
from voiced_setup.__main__ import parser as setup_parser

from .commandline import Command, Option, read


def scripts() -> dict[str, dict[str, str]]:
    """Text of each script by its file name, for each shell."""
    programs = [read(parser()) for parser in (voiced_parser, voicectl_parser, setup_parser)]
    return {
        "bash": {program.path[0]: bash(program) for program in programs},
        "zsh": {f"_{program.path[0]}": zsh(program) for program in programs},
    }


def _quote(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


# ── bash ───────────────────────────────────────────────────────────────────────────────────────────────────────────────

_BASH = """# bash completion for {program}. Generated: see tools/shipping/completion.py.
{function}() {{
    local word path={program} skip= i current=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD-1]}}
    COMPREPLY=()
    for ((i = 1; i < COMP_CWORD; i++)); do
        word=${{COMP_WORDS[i]}}
        if [[ $skip ]]; then skip=; continue; fi
        case "$path $word" in
{steps}
        esac
    done
    case "$path $before" in
{values}
    esac
    case "$path" in
{words}
    esac
}}
complete -F {function} {program}
"""


_BASH_FILES = (
    '[[ $current == -* ]] || { mapfile -t -O "${#COMPREPLY[@]}" COMPREPLY < <(compgen -f -- "$current"); '
    "compopt -o filenames 2>/dev/null; }"
)


def bash(program: Command) -> str:
    """For /usr/share/bash-completion/completions. Works without the package bash-completion, too."""
    steps, values, words = [], [], []
    for command in program.walk():
        path = " ".join(command.path)
        steps += [f'            {_quote(" ".join(verb.path))}) path+=" $word" ;;' for verb in command.verbs]
        takers = [option for option in command.options if option.value and not option.value.startswith("[")]
        if takers:
            flags = "|".join(_quote(f"{path} {flag}") for option in takers for flag in option.flags)
            steps.append(f"            {flags}) skip=1 ;;")
        for option in takers:
            flags = "|".join(_quote(f"{path} {flag}") for flag in option.flags)
            values.append(f"        {flags}) {_bash_values(option)}; return ;;")
        offered = [verb.path[-1] for verb in command.verbs] + [flag for option in command.options for flag in option.flags]
        also = [choice for operand in command.operands for choice in operand.choices]
        files = any(operand.wants for operand in command.operands)
        words.append(f'        {_quote(path)}) mapfile -t COMPREPLY < <(compgen -W {_quote(" ".join([*offered, *also]))} -- "$current")')
        words[-1] += f"; {_BASH_FILES} ;;" if files else " ;;"
    name = program.path[0]
    return _BASH.format(
        program=name, function=f"_{name.replace('-', '_')}", steps="\n".join(steps), values="\n".join(values), words="\n".join(words)
    )


def _bash_values(option: Option) -> str:
    if option.choices:
        return f'COMPREPLY=($(compgen -W {_quote(" ".join(option.choices))} -- "$current"))'
    kind = {"file": "-f", "folder": "-d"}.get(option.wants)
    return f'mapfile -t COMPREPLY < <(compgen {kind} -- "$current"); compopt -o filenames 2>/dev/null' if kind else ":"


# ── zsh ────────────────────────────────────────────────────────────────────────────────────────────────────────────────


def zsh(program: Command) -> str:
    """For a folder of zsh's fpath: a function for each command that has verbs, and the arguments of each that has none."""
    lines = [f"#compdef {program.path[0]}", "# Generated: see tools/shipping/completion.py."]
    for command in program.walk():
        lines += ["", f"{_function(command)}() {{", *_zsh_body(command), "}"]
    return "\n".join([*lines, "", f'{_function(program)} "$@"']) + "\n"


def _function(command: Command) -> str:
    return "_" + "_".join(command.path).replace("-", "_")


def _zsh_body(command: Command) -> Iterator[str]:
    specs = [spec for option in command.options for spec in _zsh_option(option)]
    if not command.verbs:
        specs += [_zsh_operand(operand) for operand in command.operands]
        yield "    _arguments -s " + " ".join(map(_quote, specs or ["*: :"]))
        return
    yield "    local context state state_descr line"
    yield "    typeset -A opt_args"
    yield "    _arguments -C " + " ".join(map(_quote, [*specs, "1:command:->command", "*::argument:->argument"]))
    yield "    case $state in"
    verbs = " ".join(_quote(f"{_plain(verb.path[-1])}:{verb.about}") for verb in command.verbs)
    yield f"        command) local -a verbs=({verbs}); _describe command verbs ;;"
    yield "        argument) case $line[1] in"
    yield from (f"            {_quote(verb.path[-1])}) {_function(verb)} ;;" for verb in command.verbs)
    yield "        esac ;;"
    yield "    esac"


def _zsh_option(option: Option) -> Iterator[str]:
    """One spec a flag: `--lane[which lane]:NAME:`."""
    exclusive = f"({' '.join(option.flags)})" if len(option.flags) > 1 else ""
    star = "*" if option.many else ""
    for flag in option.flags:
        value = f":{_plain(option.value)}:{_zsh_values(option)}" if option.value else ""
        yield f"{star or exclusive}{flag}[{_plain(option.about)}]{value}"


def _zsh_operand(operand: Option) -> str:
    return f"{'*' if operand.many else ''}:{_plain(operand.value)}:{_zsh_values(operand)}"


def _zsh_values(option: Option) -> str:
    if option.choices:
        return f"({' '.join(option.choices)})"
    return {"file": "_files", "folder": "_files -/"}.get(option.wants, "")


def _plain(words: str) -> str:
    """What may stand in a spec: its own brackets and colons are escaped."""
    return words.replace("\\", "\\\\").replace("[", "\\[").replace("]", "\\]").replace(":", "\\:")


def main(folder: Path) -> int:
    for shell, found in scripts().items():
        (folder / shell).mkdir(parents=True, exist_ok=True)
        for name, script in found.items():
            (folder / shell / name).write_text(script)
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
