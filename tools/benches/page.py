"""What was measured last, and the block of README.md that tells it: `tools/bench --readme`.

What lives here: figures.json, which keeps the rows of each bench with the machine and the moment they are of, and the Markdown made of it.
What must not: measuring, and a figure that is not in that file.

    PYTHONPATH=daemon:tools .venv/bin/python -m benches.page     writes the block anew from what is kept
"""

from __future__ import annotations

import importlib
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from .rows import COLUMNS, Row, table, told

FIGURES = Path(__file__).with_name("figures.json")
README = Path(__file__).resolve().parents[2] / "README.md"

_BLOCK = re.compile(r"(?<=<!-- bench -->\n).*?(?=<!-- /bench -->)", re.DOTALL)

_MOMENT = ("date", "load", "voiced", "note")
"""Of a machine's description, what changes from one bench to the next."""

Kept = dict[str, dict[str, Any]]
"""By bench: `machine`, as in rows.machine, and `rows`, as in Row.plain."""


def kept() -> Kept:
    figures: Kept = json.loads(FIGURES.read_text(encoding="utf-8"))
    return figures


def keep(bench: str, machine: Mapping[str, str], rows: Sequence[Row]) -> None:
    """In the place of what this bench gave before."""
    figures = kept() | {bench: {"machine": dict(machine), "rows": [row.plain() for row in rows]}}
    FIGURES.write_text(json.dumps(figures, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


def write() -> None:
    README.write_text(_BLOCK.sub(lambda _: block(kept()), README.read_text(encoding="utf-8")), encoding="utf-8")


def written() -> str:
    """The block as README.md has it."""
    return "".join(_BLOCK.findall(README.read_text(encoding="utf-8")))


def block(figures: Kept) -> str:
    """A machine in a line wherever it is another than before; of each bench what it is (its file's first words), when, its table."""
    lines: list[str] = []
    before: dict[str, str] = {}
    for bench, found in figures.items():
        machine = {name: value for name, value in found["machine"].items() if name not in _MOMENT}
        if machine != before:
            lines += ["", f"On {told(machine)}:"]
            before = machine
        moment = told({name: value for name, value in found["machine"].items() if name in _MOMENT})
        lines += ["", f"**{bench}**: {_about(bench)} ({moment})", ""]
        lines += table([COLUMNS, *(Row.from_plain(row).cells() for row in found["rows"])])
    return "\n".join([*lines, "", ""])


def _about(bench: str) -> str:
    words = importlib.import_module(f"benches.{bench}").__doc__ or ""
    return " ".join(words.split("\n\n")[0].split())


if __name__ == "__main__":
    write()
