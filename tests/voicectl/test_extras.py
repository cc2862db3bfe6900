"""Libraries that some commands want: what is said where one is missing."""

from __future__ import annotations

import configparser
import os
import sys
from pathlib import Path

import pytest
from voicectl import extras
from voiced.errors import UsageError

CHECKOUT = Path(__file__).resolve().parents[2]


def test_they_are_those_of_the_extras_eval_and_align() -> None:
    setup = configparser.ConfigParser()
    setup.read(CHECKOUT / "setup.cfg")
    extra = setup["options.extras_require"]
    wanted = {line.replace(" ", "") for name in ("eval", "align") for line in extra[name].splitlines() if line}
    assert wanted == set(extras.EXTRAS.values())
    assert all(wanted.startswith(name) for name, wanted in extras.EXTRAS.items())


def test_one_is_installed_where_this_command_runs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "a voice" / "bin" / "python"))
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    monkeypatch.chdir("/")
    assert extras.install("jiwer") == f"'{tmp_path.relative_to('/')}/a voice/bin/python' -m pip install 'jiwer>=3,<5'"
    monkeypatch.chdir(tmp_path / "..")
    monkeypatch.setattr(sys, "executable", "/opt/voiced/bin/python")
    monkeypatch.setattr(os, "access", lambda *_: False)
    assert extras.install("jiwer") == "sudo /opt/voiced/bin/python -m pip install 'jiwer>=3,<5'"


def test_what_is_there_is_not_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(extras.EXTRAS, "json", "json")
    extras.need("json", "--x", "wants")
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(UsageError, match=r"^--x: wants json, which is not installed; .* -m pip install json$"):
        extras.need("json", "--x", "wants")
