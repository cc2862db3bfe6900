"""Which test holds which row of the catalogue of what goes wrong for people: found by the rows that tests name, told as a table.

    python tests/cases/rows.py > tests/cases/README.md

What lives here: the rows' names, and the search. A test holds a row where its name or docstring, or its file's docstring, has it (`W3`,
`test_w3_…`). What must not: what a row says; it is in the test that holds it.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]

ROWS = """
D1 D2 D3 D4 D6 D7 D8 D9 D10 D11 D13 D14
H1 H2 H4 H5 H6 H8 H9 H10 H12
R1 R2 R3 R4 R6 R7 R8 R10 R11 R13 R14 R15 R16
S2 S3 S5 S6 S7 S8 S9 S10 S11 S12 S13 S14 S15
W1 W3 W5 W6 W7 W8 W9 W10 W11 W12 W13 W14 W15 W16
P1 P3 P4 P6 P7 P8 P9
E1 E2 E3 E4 E5 E7 E8 E9 E11 E12 E13 E15 E16
C1 C2 C3 C4 C6 C7 C8 C10 C11 C12 C13 C14
B1 B2 B3 B4 B7 B8 B9 B10 B11 B12
""".split()  # noqa: SIM905

ABOUT = {
    "D": "the device dies, hangs, is muted",
    "H": "hot-plug, Bluetooth, USB",
    "R": "rates and channels",
    "S": "which device, rights, services, settings",
    "W": "false and missed wakes",
    "P": "the first word, the phrase, a chime",
    "E": "cut off, late, never ends, last word",
    "C": "processor, memory, invented words",
    "B": "D-Bus and clients",
}

NOT_BUILT = {"C10": "there are no hot words", "E5": "nothing adapts to the speaker"}

_ROW = re.compile(r"\b([DHRSWPECB]\d{1,2})\b")
_IN_NAME = re.compile(r"(?<=_)([dhrswpecb]\d{1,2})(?=_|$)")


def found() -> dict[str, list[str]]:
    """Row → tests that hold it, `file::test`, or the file where its docstring has the row."""
    held: defaultdict[str, list[str]] = defaultdict(list)
    for path in sorted(TESTS.rglob("test_*.py")):
        name = path.relative_to(TESTS).as_posix()
        for row, test in _of(ast.parse(path.read_text(encoding="utf-8"))):
            if row in ROWS:
                held[row].append(f"{name}::{test}" if test else name)
    return held


def _of(module: ast.Module) -> Iterator[tuple[str, str]]:
    tests = [node for node in module.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_")]
    own = set()
    for test in tests:
        words = ast.get_docstring(test) or ""
        rows = dict.fromkeys([*_ROW.findall(words), *(row.upper() for row in _IN_NAME.findall(test.name))])
        own |= set(rows)
        yield from ((row, test.name) for row in rows)
    yield from ((row, "") for row in dict.fromkeys(_ROW.findall(ast.get_docstring(module) or "")) if row not in own)


def table() -> str:
    held = found()
    lines = ["# Which test holds which row of the catalogue", "", "Made by `python tests/cases/rows.py`; a test compares."]
    for letter, about in ABOUT.items():
        lines += ["", f"## {letter}: {about}", "", "| row | tests |", "|---|---|"]
        for row in (row for row in ROWS if row[0] == letter):
            tests = ", ".join(f"`{test}`" for test in held.get(row, [])) or NOT_BUILT.get(row, "**none**")
            lines.append(f"| {row} | {tests} |")
    return "\n".join(lines)


if __name__ == "__main__":
    print(table())
