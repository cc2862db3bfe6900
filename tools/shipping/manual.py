"""The manual pages voiced(8), voicectl(1), voiced-setup(8) and voiced.yaml(5), from the parsers and the table of settings.

What lives here: the pages' order and the few sentences that no parser has. What must not: an option, a verb or a knob by name: they
come from where they are declared, so a page is never older than its program.

`python -m shipping.manual FOLDER` writes them.
"""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from voicectl.__main__ import parser as voicectl_parser
from voiced import __version__, knobs
from voiced.__main__ import parser as voiced_parser
from voiced.settings import Settings, defaults

from .commandline import Command, Option, read

COLUMNS = 100
"""Width that argparse is told to format for: its answer must not depend on whose terminal it is."""

SECTIONS = {1: "User commands", 5: "File formats", 8: "System administration"}

FILES = (
    ("~/.config/voiced/voiced.yaml", "A user's settings; they are looked for first."),
    ("/etc/voiced/voiced.yaml", "The machine's settings, read where the user has none. See voiced.yaml(5)."),
    ("/etc/voiced/voiced.yaml.d/*.yaml", "Settings read after these, in the order of their names."),
    ("/usr/share/voiced/models", "The models that come with voiced, and the list of all that it knows."),
    ("~/.cache/voiced", "What can be had again: fetched models (models), what tools keep (endpoint, wake, voices)."),
)

ENVIRONMENT = (
    ("VOICED_CACHE", "Folder in place of ~/.cache/voiced."),
    ("VOICED_TRACE", "1: a fault of voiced's own is told with its traceback."),
    ("DBUS_SESSION_BUS_ADDRESS", "The session bus."),
    ("XDG_RUNTIME_DIR", "Folder of the session bus where the address is not set, and of the private bus."),
)

SIGNALS = (
    ("SIGTERM, SIGINT", "An open turn still gets its final; then voiced ends with 0."),
    ("SIGHUP", "The settings file is read anew, as by voicectl reload. On a terminal: as SIGTERM."),
)

VOICED = """voiced listens on a microphone, wakes on a phrase, publishes the words while they are spoken, knows when the speaker has
finished, and publishes the final text on D-Bus as org.voiced.Voice1. Everything happens on this machine."""

VOICECTL = """voicectl speaks to a running voiced, and measures and makes what voiced hears with. What measures, makes, fetches or
examines needs no running voiced."""

YAML = """Settings of voiced(8). A key that is left out has its default. A mistake is told with its line; with one, voiced does not
start and a running voiced keeps the settings that it has. voiced --check-config FILE tells all of them."""


def pages(day: str = "") -> dict[str, str]:
    """Text of each page by its file name. `day`: YYYY-MM-DD that is printed at the foot; else SOURCE_DATE_EPOCH's, else today."""
    from voiced_setup.__main__ import parser as setup_parser

    day = day or time.strftime("%Y-%m-%d", time.gmtime(int(os.environ.get("SOURCE_DATE_EPOCH") or time.time())))
    width, os.environ["COLUMNS"] = os.environ.get("COLUMNS"), str(COLUMNS)
    try:
        voiced, voicectl, setup = read(voiced_parser()), read(voicectl_parser()), read(setup_parser())
    finally:
        os.environ.pop("COLUMNS") if width is None else os.environ.__setitem__("COLUMNS", width)
    return {
        "voiced.8": _page("VOICED", 8, day, _program(voiced, VOICED, "voicectl(1), voiced.yaml(5), voiced\\-setup(8)")),
        "voicectl.1": _page("VOICECTL", 1, day, _program(voicectl, VOICECTL, "voiced(8), voiced.yaml(5), voiced\\-setup(8)")),
        "voiced-setup.8": _page("VOICED-SETUP", 8, day, _program(setup, setup.about, "voiced(8), voicectl(1)")),
        "voiced.yaml.5": _page("VOICED.YAML", 5, day, _settings()),
    }


# ── roff ───────────────────────────────────────────────────────────────────────────────────────────────────────────────


def text(plain: str) -> str:
    """A text as roff prints it: nothing of it is a request, and a hyphen can be copied into a shell."""
    escaped = (
        plain.replace("\\", "\\e")
        .replace("-", "\\-")
        .replace("'", "\\(aq")
        .replace("^", "\\(ha")
        .replace("~", "\\(ti")
        .replace("`", "\\(ga")
    )
    return re.sub(r"^([.'])", r"\\&\1", escaped, flags=re.MULTILINE)


def _page(name: str, section: int, day: str, body: Iterator[str]) -> str:
    head = f'.TH {text(name)} {section} {day} "voiced {__version__}" "{SECTIONS[section]}"'
    return "\n".join(['.\\" Generated: see tools/shipping/manual.py.', head, ".nh", ".ad l", *body]) + "\n"


def _paragraph(words: str) -> str:
    return text(" ".join(words.split()))


def _list(rows: tuple[tuple[str, str], ...]) -> Iterator[str]:
    for term, about in rows:
        yield ".TP"
        yield f"\\fB{text(term)}\\fR"
        yield _paragraph(about)


# ── a program ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def _program(top: Command, about: str, also: str) -> Iterator[str]:
    short = top.about.rstrip(".").split(". ")[0]
    yield from (".SH NAME", f"{text(top.path[0])} \\- {text(short[0].lower() + short[1:])}")
    yield from (".SH SYNOPSIS", text(top.usage))
    yield from (".SH DESCRIPTION", _paragraph(about))
    yield ".SH OPTIONS"
    yield from _options(top)
    if top.verbs:
        yield ".SH COMMANDS"
        for leaf in top.leaves():
            yield f".SS {text(' '.join(leaf.path[1:]))}"
            yield text(leaf.usage)
            yield ".PP"
            yield _paragraph(f"{leaf.about[:1].upper()}{leaf.about[1:].rstrip('.')}{'' if leaf.about.endswith('?') else '.'}")
            yield from _options(replace(leaf, options=tuple(option for option in leaf.options if "--help" not in option.flags)))
    codes = tuple(exit_codes(top.epilog))
    if codes:
        yield ".SH EXIT STATUS"
        yield from _list(codes)
    yield from (".SH FILES", *_list(FILES), ".SH ENVIRONMENT", *_list(ENVIRONMENT))
    if top.path == ("voiced",):
        yield from (".SH SIGNALS", *_list(SIGNALS))
    yield from (".SH SEE ALSO", also)


def _options(command: Command) -> Iterator[str]:
    for option in (*command.operands, *command.options):
        yield ".TP"
        yield _term(option)
        said = option.about or "See the description."
        yield _paragraph(f"{said[0].upper()}{said[1:].rstrip('.')}.")


def _term(option: Option) -> str:
    value = f" \\fI{text(option.value)}\\fR" if option.value else ""
    return ", ".join(f"\\fB{text(flag)}\\fR{value}" for flag in option.flags) or value.strip()


def exit_codes(epilog: str) -> Iterator[tuple[str, str]]:
    """(number, meaning) from a parser's own words: `Exit codes: 0 done, 2 usage.`"""
    found = re.search(r"Exit codes: (.*)", epilog, re.DOTALL)
    for code, meaning in re.findall(r"(\d+) (.*?)(?:, (?=\d)|\.?$)", found[1] if found else ""):
        yield code, f"{meaning[0].upper()}{meaning[1:]}."


# ── the settings ───────────────────────────────────────────────────────────────────────────────────────────────────────


def _settings() -> Iterator[str]:
    yield from (".SH NAME", "voiced.yaml \\- settings of voiced")
    yield from (".SH SYNOPSIS", "\\fI/etc/voiced/voiced.yaml\\fR, \\fI\\(ti/.config/voiced/voiced.yaml\\fR")
    yield from (".SH DESCRIPTION", _paragraph(YAML), ".PP")
    yield _paragraph("A knob that says live is applied to a running voiced by voicectl reload; the others take effect at the next start.")
    yield ".SH KNOBS"
    for name, row in knobs.rows(Settings).items():
        yield f".SS {name}"
        yield _paragraph(f"{row.knob.sentence.rstrip('.')}.")
        value = getattr(defaults(), name)
        if row.item:
            yield _paragraph(f"A list of {row.knob.low or 0:g} to {row.knob.high:g} entries, each with:")
            yield from _knobs(row.item, value[0] if value else row.item())
        else:
            yield from _knobs(type(value), value)
    yield from (".SH FILES", *_list(FILES[:3]), ".SH SEE ALSO", "voiced(8), voicectl(1)")


def _knobs(section: type, value: object, prefix: str = "") -> Iterator[str]:
    for name, row in knobs.rows(section).items():
        usual = getattr(value, name)
        yield ".TP"
        if row.section:
            yield f"\\fB{prefix}{name}\\fR"
            yield _paragraph(row.knob.sentence)
            continue
        if row.item:
            yield f"\\fB{prefix}{name}\\fR"
            yield _paragraph(knobs.explain(row))
            yield from _knobs(row.item, usual[0] if usual else row.item(), f"{prefix}{name}[].")
            continue
        yield f"\\fB{prefix}{name}\\fR: {text(knobs.show(usual))}"
        yield _paragraph(knobs.explain(row) + (" Live." if row.knob.live else ""))


def main(folder: Path) -> int:
    folder.mkdir(parents=True, exist_ok=True)
    for name, page in pages().items():
        (folder / name).write_text(page)
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
