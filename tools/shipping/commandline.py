"""A command line as data: what an argparse parser knows, without argparse.

What lives here: records, and the one function that reads a parser. What must not: any form they are printed in (manual.py,
completion.py), any command by name.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Option:
    """flags: as typed; none for an operand. value: what follows it, in words ("" for a switch). many: it takes several."""

    flags: tuple[str, ...]
    value: str
    about: str
    choices: tuple[str, ...] = ()
    many: bool = False

    @property
    def wants(self) -> str:
        """What a shell may offer for its value: `file`, `folder` or ""."""
        word = self.value.strip("[]…").split(" ")[0].strip("[]….")
        return {"FILE": "file", "F": "file", "DIR": "folder"}.get(word, "")


@dataclass(frozen=True, slots=True)
class Command:
    """One command or verb. `path` is what is typed to reach it, its program's name first."""

    path: tuple[str, ...]
    about: str
    usage: str
    epilog: str
    options: tuple[Option, ...]
    operands: tuple[Option, ...]
    verbs: tuple[Command, ...]

    def leaves(self) -> Iterator[Command]:
        """The commands below it that do something, in the order declared."""
        for verb in self.verbs:
            if verb.verbs:
                yield from verb.leaves()
            else:
                yield verb

    def walk(self) -> Iterator[Command]:
        """Itself and all below it."""
        yield self
        for verb in self.verbs:
            yield from verb.walk()


def read(parser: argparse.ArgumentParser, path: tuple[str, ...] = (), about: str = "") -> Command:
    """The command that a parser is of. argparse has no public way to be asked: its lists of actions are what every generator reads."""
    path = path or (parser.prog,)
    options: list[Option] = []
    operands: list[Option] = []
    verbs: list[Command] = []
    for action in parser._actions:
        if action.help == argparse.SUPPRESS:
            continue
        if isinstance(action, argparse._SubParsersAction):
            helps = {choice.dest: choice.help or "" for choice in action._choices_actions}
            verbs = [read(child, (*path, name), helps.get(name, "")) for name, child in action.choices.items()]
            continue
        one = _option(action)
        (options if one.flags else operands).append(one)
    # from Python 3.14 on it may be coloured
    usage = " ".join(re.sub("\x1b\\[[0-9;]*m", "", parser.format_usage()).removeprefix("usage: ").split())
    return Command(path, about or parser.description or "", usage, parser.epilog or "", tuple(options), tuple(operands), tuple(verbs))


def _option(action: argparse.Action) -> Option:
    choices = tuple(map(str, action.choices)) if action.choices else ()
    metavar = action.metavar if isinstance(action.metavar, str) else " ".join(action.metavar or ())
    word = metavar or ("|".join(choices) if choices else action.dest.upper())
    about = " ".join(
        ((action.help or "") % {"default": action.default, "prog": ""} if "%(" in (action.help or "") else action.help or "").split()
    )
    about = about.replace("%%", "%")
    many = action.nargs in ("*", "+")
    if action.nargs == 0:
        value = ""
    elif action.nargs == "?":
        value = f"[{word}]"
    elif action.nargs == "*":
        value = f"[{word} …]"
    elif action.nargs == "+":
        value = f"{word} …"
    elif isinstance(action.nargs, int) and action.nargs > 1 and not isinstance(action.metavar, tuple):
        value = " ".join([word] * action.nargs)
    else:
        value = word
    return Option(tuple(action.option_strings), value, about, choices, many)
