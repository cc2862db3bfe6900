"""The table of tools/faults: what was done to a daemon, and what came of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

AIM_S = 5.0
"""Until it hears again, after whatever it was; printed, not asserted."""

HEAD = "| state | what | fault | what happened | its final | hears again after |\n|---|---|---|---|---|---|"


@dataclass(frozen=True, slots=True)
class Fault:
    """In which state what was done to whom, what came of it, and `seconds` from the fault (or, where that lasts, from its end) until the
    daemon was well again: 0 where it never was anything else, None where it ends, as it should."""

    state: str
    what: str
    fault: str
    happened: str
    final: str = ""
    seconds: float | None = None


rows: list[Fault] = []


def lines() -> Iterator[str]:
    """Nothing where nothing was done."""
    if rows:
        yield HEAD
    for row in rows:
        again = "—" if row.seconds is None else f"{row.seconds:.1f} s"
        yield f"| {row.state} | {row.what} | {row.fault} | {row.happened} | {row.final} | {again} |"
    if rows:
        most = max((row.seconds for row in rows if row.seconds is not None), default=0.0)
        yield f"{len(rows)} faults; hears again after {most:.1f} s at the most, {AIM_S:g} s are aimed at"
