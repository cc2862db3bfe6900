"""Tables as people read them: aligned for a terminal, or in Markdown.

What lives here: rows of cells made into lines. What must not: what a cell says.
"""

from __future__ import annotations

from collections.abc import Sequence

Table = list[list[str]]
"""Rows of cells, the first its head."""


def aligned(table: Sequence[Sequence[str]]) -> str:
    """Columns as wide as their widest cell, for a terminal."""
    widths = [max(len(row[column]) for row in table) for column in range(len(table[0]))]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in table)


def marked_down(table: Sequence[Sequence[str]]) -> str:
    first, *rest = table
    lines = [first, ["---"] * len(first), *rest]
    return "\n".join(f"| {' | '.join(cell.replace('|', '/') for cell in line)} |" for line in lines)


def without_empty(table: Sequence[Sequence[str]]) -> Table:
    """Without the columns that have a head alone."""
    kept = [column for column in range(len(table[0])) if any(row[column] for row in table[1:])]
    return [[row[column] for column in kept] for row in table]
