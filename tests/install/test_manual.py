"""The manual pages: whole, well-formed, and no older than the parsers and the settings they are made of."""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from shipping import commandline, manual
from voicectl.__main__ import parser as voicectl_parser
from voiced import errors, knobs
from voiced.__main__ import parser as voiced_parser
from voiced.settings import Settings, defaults
from voiced_setup.__main__ import parser as setup_parser

PARSERS = {"voiced.8": voiced_parser, "voicectl.1": voicectl_parser, "voiced-setup.8": setup_parser}
PAGES = manual.pages("2026-11-30")


def plain(page: str) -> str:
    """A page's words as they are read, one space between them."""
    words = re.sub(r"\\f[BIR]", "", page).replace("\\-", "-").replace("\\(aq", "'").replace("\\(ga", "`").replace("\\(ha", "^")
    return " ".join(words.replace("\\(ti", "~").replace("\\&", "").replace("\\e", "\\").split())


def actions(parser: argparse.ArgumentParser) -> list[tuple[argparse.ArgumentParser, argparse.Action]]:
    """Every option and operand of a parser and of the parsers below it, found without the reader that is tested."""
    found = []
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            found += [pair for child in action.choices.values() for pair in actions(child)]
        else:
            found.append((parser, action))
    return found


@pytest.mark.parametrize("name", PARSERS)
def test_every_option_of_every_verb_is_in_its_page(name: str) -> None:
    page = plain(PAGES[name])
    for parser, action in actions(PARSERS[name]()):
        if action.help == argparse.SUPPRESS:
            continue
        for flag in action.option_strings:
            assert flag in page, f"{parser.prog} {flag}"
        about = " ".join((action.help or "").replace("%%", "%").split())
        assert about.rstrip(".")[1:] in page or "%(" in about, f"{parser.prog}: {about}"


def test_a_verb_that_is_added_to_a_parser_is_in_the_page_at_once() -> None:
    top = argparse.ArgumentParser("tool", description="Does things.", epilog="Exit codes: 0 yes, 3 no, or not yet.")
    verb = top.add_subparsers(required=True).add_parser("sing", help="sing until ^C")
    verb.add_argument("--loud", metavar="DB", help="-3 and 'more'")
    page = "\n".join(manual._program(commandline.read(top), "It does.", "tool(1)"))
    assert ".SS sing" in page
    assert "\\fB\\-\\-loud\\fR \\fIDB\\fR\n\\-3 and \\(aqmore\\(aq." in page
    assert list(manual.exit_codes(top.epilog or "")) == [("0", "Yes."), ("3", "No, or not yet.")]


def test_every_knob_is_in_the_page_with_its_default_and_what_it_may_be() -> None:
    page = plain(PAGES["voiced.yaml.5"])
    for name, section in knobs.rows(Settings).items():
        assert f".SS {name}" in PAGES["voiced.yaml.5"]
        for knob in knobs.rows(section.item or section.type).values():
            assert " ".join(knobs.explain(knob).split()) in page, f"{name}.{knob.name}"
    assert f"silence_ms: {knobs.show(defaults().endpoint.silence_ms)}" in page


def test_the_exit_codes_of_the_pages_are_those_of_the_errors() -> None:
    known = {0, 1, 130} | {
        kind.exit_code for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, errors.VoicedError)
    }
    for name in PARSERS:
        codes = [int(code) for code in re.findall(r"^\\fB(\d+)\\fR$", PAGES[name], re.MULTILINE)]
        assert codes == sorted(set(codes)) and len(codes) > 4, name
        assert set(codes) <= known, name


@pytest.mark.parametrize("name", PAGES)
@pytest.mark.parametrize("linter", [("mandoc", "-Tlint", "-Wwarning"), ("groff", "-man", "-ww", "-Kutf8", "-z", "-Tutf8")])
def test_the_linters_of_manual_pages_find_nothing(name: str, linter: tuple[str, ...], tmp_path: Path) -> None:
    if shutil.which(linter[0]) is None:
        pytest.skip(f"{linter[0]} is not installed")
    (tmp_path / name).write_text(PAGES[name])
    done = subprocess.run([*linter, name], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_what_a_text_holds_is_no_request() -> None:
    assert manual.text(".so /etc/passwd\n'x -1 \\n") == "\\&.so /etc/passwd\n\\(aqx \\-1 \\en"


def test_a_page_is_the_same_whoever_makes_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1796083200")
    assert manual.pages() == manual.pages("2026-12-01")
