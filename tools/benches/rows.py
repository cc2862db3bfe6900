"""What a bench found, as records, a Markdown table or JSON.

What lives here: how a figure is told. What must not: how it is measured.
"""

from __future__ import annotations

import math
import os
import platform
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from voiced import __version__

LIBRARIES = ("onnxruntime", "sherpa-onnx", "numpy", "dbus-fast", "dbus-next")

COLUMNS = ("what", "voiced", "bare", "unit", "ratio", "aim ≤", "met", "note")


@dataclass(frozen=True, slots=True)
class Row:
    """One figure. `bare` is what the same run gives without voiced; `aim` is the most that is wanted of the ratio to it, of
    `value` itself where there is no `bare`. NaN is a figure that could not be taken here; the note says why."""

    bench: str
    what: str
    value: float
    unit: str
    bare: float | None = None
    aim: float | None = None
    note: str = ""

    @property
    def ratio(self) -> float | None:
        return self.value / self.bare if self.bare else None

    @property
    def met(self) -> bool | None:
        """Whether the aim is met; None where there is none, or no figure."""
        held = self.value if self.bare is None else self.ratio
        return None if self.aim is None or held is None or math.isnan(held) else held <= self.aim

    def plain(self) -> dict[str, Any]:
        """For JSON, which knows no NaN."""
        value = None if math.isnan(self.value) else self.value
        return asdict(self) | {"value": value, "ratio": self.ratio, "met": self.met}

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> Row:
        known = {field.name: plain[field.name] for field in fields(cls)}
        return cls(**known | {"value": math.nan if plain["value"] is None else plain["value"]})

    def cells(self) -> tuple[str, ...]:
        """As in COLUMNS."""
        met = {True: "yes", False: "no", None: ""}[self.met]
        aim = "" if self.aim is None else f"{self.aim:g}"
        return (self.what, number(self.value), number(self.bare), self.unit, number(self.ratio), aim, met, self.note)


def machine(checkout: Path) -> dict[str, str]:
    """Where and when, as words."""
    about = {
        "date": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
        "processor": _processor(),
        "cores": str(len(os.sched_getaffinity(0))),
        "load": f"{os.getloadavg()[0]:.1f}",
        "system": f"{platform.system()} {platform.release().partition('-')[0]} {platform.machine()}",
        "python": platform.python_version(),
        "voiced": f"{__version__} {_commit(checkout)}".strip(),
    }
    for name in LIBRARIES:
        try:
            about[name] = version(name)
        except PackageNotFoundError:
            continue
    return about


def _processor() -> str:
    """As the kernel names it; the keys differ between architectures."""
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    named = dict(reversed([[part.strip() for part in line.split(":", 1)] for line in lines if ":" in line]))
    return next((named[key] for key in ("model name", "Model", "uarch", "Hardware") if named.get(key)), platform.machine())


def _commit(checkout: Path) -> str:
    try:
        done = subprocess.run(["git", "-C", str(checkout), "describe", "--always", "--dirty"], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return ""
    return done.stdout.strip()


def number(value: float | None) -> str:
    """Three digits that count, and no more zeros than that."""
    if value is None:
        return ""
    if math.isnan(value):
        return "—"
    digits = 2 if value == 0 else max(0, 2 - math.floor(math.log10(abs(value))))
    return f"{value:.{min(digits, 4)}f}"


def markdown(about: Mapping[str, str], rows: Sequence[Row]) -> str:
    """The machine in a line, then one table, in columns for the eye."""
    lines = [("bench", *COLUMNS), *((row.bench, *row.cells()) for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    padded = [[cell.ljust(width) for cell, width in zip(line, widths, strict=True)] for line in lines]
    return "\n".join([told(about), "", *table(padded)])


def told(about: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {value}" for name, value in about.items())


def table(lines: Sequence[Sequence[str]]) -> list[str]:
    """Lines of Markdown; the first are the columns' names."""
    head, *rest = (f"| {' | '.join(line)} |" for line in lines)
    return [head, "|" + "|".join("-" * (len(cell) + 2) for cell in lines[0]) + "|", *rest]
