"""How late something is, over and over: mean, percentiles and the worst, in a few counters.

What lives here: one histogram. What must not: clocks, what is late.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass

STEP = 1.25
BOUNDS_MS = tuple(0.5 * STEP**step for step in range(44))
"""Upper bounds of the buckets, 0.5 ms to 7 s: a percentile is told to a quarter of itself, from above."""


@dataclass(frozen=True, slots=True)
class LatenessStatistics:
    """In milliseconds, since it was born; 0 where nothing was counted."""

    count: int
    mean_ms: float
    p50_ms: float
    p95_ms: float
    p99_ms: float
    worst_ms: float


class Lateness:
    """One thread counts; any may ask."""

    def __init__(self) -> None:
        self._buckets = [0] * (len(BOUNDS_MS) + 1)
        self._count = 0
        self._sum_ms = self._worst_ms = 0.0

    def add(self, late_ms: float) -> None:
        self._buckets[bisect_left(BOUNDS_MS, late_ms)] += 1
        self._count += 1
        self._sum_ms += late_ms
        self._worst_ms = max(self._worst_ms, late_ms)

    def statistics(self) -> LatenessStatistics:
        mean = self._sum_ms / self._count if self._count else 0.0
        p50, p95, p99 = (self._percentile(percent) for percent in (50, 95, 99))
        return LatenessStatistics(self._count, round(mean, 3), p50, p95, p99, round(self._worst_ms, 3))

    def _percentile(self, percent: float) -> float:
        seen = 0
        for bound, count in zip((*BOUNDS_MS, self._worst_ms), self._buckets, strict=True):
            seen += count
            if seen and seen >= self._count * percent / 100:
                return round(min(bound, self._worst_ms), 3)
        return 0.0
