"""The table of tools/fuzz: what each test was given, and what that left behind. One that hangs, or keeps what it was given, fails."""

from __future__ import annotations

import faulthandler
import gc
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

HANG_S = 1200.0
"""Some thousand cases take minutes at the most. Then every thread's stack is told, and the run ends."""

GROWTH_MB = 250.0
"""Of the tests' own process, where hypothesis keeps the tree of what it has tried: some 80 MB of 5,000 D-Bus calls. What a daemon may keep
is its own test's to say."""

HEAD = "| input | cases | seconds | memory |\n|---|---|---|---|"


@dataclass(frozen=True, slots=True)
class Fuzzed:
    test: str
    cases: int
    seconds: float
    growth_mb: float


rows: list[Fuzzed] = []


def own_mb(pid: int | str = "self") -> float:
    """Memory that a process has of its own, swapped or not: what it has of files comes and goes with the machine's need. OSError where it
    has ended."""
    told = dict(line.split(":\t", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines() if ":\t" in line)
    return sum(int(told[kind].split()[0]) for kind in ("RssAnon", "VmSwap") if kind in told) / 1024


@contextmanager
def measured(item: pytest.Item) -> Iterator[None]:
    """Around a test's call. `cases` and `growth_mb` are the test's own where it has recorded them (record_property)."""
    gc.collect()
    began, before = time.monotonic(), own_mb()
    faulthandler.dump_traceback_later(HANG_S, exit=True)
    try:
        yield
    finally:
        faulthandler.cancel_dump_traceback_later()
    gc.collect()
    own = dict(item.user_properties)
    growth = float(str(own.get("growth_mb", own_mb() - before)))
    told = re.findall(r"(\d+) passing", getattr(item, "hypothesis_statistics", ""))
    cases = int(str(own.get("cases", sum(map(int, told)))))
    rows.append(Fuzzed(item.nodeid.removeprefix("tests/"), cases, time.monotonic() - began, growth))
    assert growth < GROWTH_MB, f"{growth:.0f} MB more after {cases} cases"


def lines() -> Iterator[str]:
    if rows:
        yield HEAD
    for row in rows:
        yield f"| {row.test} | {row.cases} | {row.seconds:.1f} | {row.growth_mb:+.1f} MB |"
    yield f"{sum(row.cases for row in rows)} cases"
