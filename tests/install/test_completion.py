"""Completion, asked of real shells: what may follow which words."""

from __future__ import annotations

import os
import pty
import re
import select
import shutil
import subprocess
import time
from pathlib import Path

import pytest
from shipping import commandline, completion
from voicectl.__main__ import parser as voicectl_parser

SCRIPTS = completion.scripts()

ASK = """
source "$1"; shift
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1))
_{function}
printf '%s\\n' "${{COMPREPLY[@]}}"
"""


def ask(tmp_path: Path, *words: str) -> list[str]:
    """What bash offers for the last word."""
    script = tmp_path / "script"
    script.write_text(SCRIPTS["bash"][words[0]])
    command = ["bash", "--norc", "-c", ASK.format(function=words[0].replace("-", "_")), "bash", str(script), *words]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    return done.stdout.split("\n")[:-1]


def test_bash_offers_every_verb_and_option_of_every_command(tmp_path: Path) -> None:
    top = commandline.read(voicectl_parser())
    for command in top.walk():
        offered = set(ask(tmp_path, *command.path, ""))
        assert {verb.path[-1] for verb in command.verbs} <= offered, command.path
        assert {flag for option in command.options for flag in option.flags} <= offered, command.path


def test_bash_completes_a_word_a_value_and_a_file(tmp_path: Path) -> None:
    (tmp_path / "a file.wav").touch()
    (tmp_path / "folder").mkdir()
    assert ask(tmp_path, "voicectl", "sta") == ["status", "stats"]
    assert ask(tmp_path, "voicectl", "--bus", "system", "models", "ver") == ["verify"]
    assert ask(tmp_path, "voiced", "--board", "") == ["auto", "generic", "k3"]
    assert ask(tmp_path, "voiced", "--board", "k") == ["k3"]
    assert ask(tmp_path, "voiced", "--config", "a") == ["a file.wav"]
    assert ask(tmp_path, "voicectl", "wake", "eval", "--data", "") == ["folder"]
    assert ask(tmp_path, "voicectl", "--bus", "") == [""], "an address is nobody's to guess"
    assert ask(tmp_path, "voiced-setup", "--dry") == ["--dry-run"]


@pytest.mark.parametrize("name", SCRIPTS["zsh"])
def test_zsh_reads_its_scripts(name: str, tmp_path: Path) -> None:
    if shutil.which("zsh") is None:
        pytest.skip("zsh is not installed")
    (tmp_path / name).write_text(SCRIPTS["zsh"][name])
    subprocess.run(["zsh", "-n", tmp_path / name], check=True, capture_output=True)


@pytest.mark.parametrize(
    ("typed", "becomes"),
    [
        ("voicectl unm", "voicectl unmute "),
        ("voicectl models ver", "voicectl models verify "),
        ("voicectl --bus system wake ch", "voicectl --bus system wake check "),
        ("voiced --board k", "voiced --board k3 "),
        ("voiced --chec", "voiced --check-config "),
    ],
)
def test_zsh_completes(typed: str, becomes: str, tmp_path: Path) -> None:
    """In a terminal of its own: zsh's completion runs in its line editor only."""
    if shutil.which("zsh") is None:
        pytest.skip("zsh is not installed")
    for name, script in SCRIPTS["zsh"].items():
        (tmp_path / name).write_text(script)
    start = f"PS1='READY '; fpath=({tmp_path} $fpath); autoload -Uz compinit; compinit -u -d {tmp_path}/dump"
    # ^X writes the line as it stands and ends
    show = "show() { print -r -- \"<$BUFFER>\" > $OUT; exit }; zle -N show; bindkey '^X' show"
    out = tmp_path / "out"
    pid, terminal = pty.fork()
    if pid == 0:
        os.execvpe("zsh", ["zsh", "-f", "-i"], {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "TERM": "dumb", "OUT": str(out)})
    try:
        os.write(terminal, f"{start}; {show}; print 'GO''ING'\n".encode())
        seen = until(terminal, rb"GOING\r\n.*READY ")
        os.write(terminal, f"{typed}\t\x18".encode())
        seen += until(terminal, rb"\Z.", closed=True)
        assert out.is_file(), seen
        assert out.read_text().strip() == f"<{becomes}>"
    finally:
        os.close(terminal)
        os.waitpid(pid, 0)


def until(terminal: int, pattern: bytes, *, closed: bool = False) -> bytes:
    """Reads until the pattern has come, or the terminal is closed."""
    seen, deadline = b"", time.monotonic() + 40
    while not re.search(pattern, seen, re.DOTALL):
        assert time.monotonic() < deadline, seen
        if not select.select([terminal], [], [], 1)[0]:
            continue
        try:
            read = os.read(terminal, 4096)
        except OSError:
            read = b""
        if not read:
            assert closed, seen
            return seen
        seen += read
    return seen
