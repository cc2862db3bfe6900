"""Counts and latencies of the running daemon, as numbers by name.

What lives here: counting. What must not: deciding. Latencies are kept apart by what they measure; each has the last
thousand values, from which percentiles are told.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Mapping

from .events import Event, Final, Partial

KEPT = 1000
"""Values a latency: hours of turns, and some tens of kilobytes."""

PERCENTILES = (50, 90, 95, 99)


def percentile(values: Iterable[float], percent: float) -> float:
    """Nearest rank: the least value that `percent` of all are not above. ValueError where there is none."""
    ordered = sorted(values)
    if not ordered:
        raise ValueError("a percentile wants at least one value")
    return ordered[max(0, math.ceil(len(ordered) * percent / 100) - 1)]


class Statistics:
    """Runs in main's loop."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self._latencies: defaultdict[str, deque[float]] = defaultdict(lambda: deque(maxlen=KEPT))
        self._lanes: dict[str, Mapping[str, float]] = {}

    def count(self, name: str, by: int = 1) -> None:
        self._counts[name] += by

    def event(self, event: Event, since_arrival_ms: float | None) -> None:
        """An event that is published, and how long ago the sound that led to it came."""
        self._counts[f"events_{type(event).__name__}"] += 1
        if isinstance(event, Partial) and since_arrival_ms is not None:
            self._latencies["partial_ms"].append(since_arrival_ms)
        if isinstance(event, Final):
            for name, value in event.measured.items():
                self._latencies[name].append(value)

    def beat(self, lane: str, beat: Mapping[str, float]) -> None:
        """What a lane says of itself twice a second."""
        self._lanes[lane] = beat

    def numbers(self) -> dict[str, float]:
        """Everything, flat: counts, `<latency>_p50` …, and each lane's own counts by `<lane>.<name>`."""
        flat: dict[str, float] = dict(self._counts)
        for name, values in self._latencies.items():
            ordered = sorted(values)  # once: percentile sorts what is sorted in no time
            flat |= {f"{name}_p{percent}": percentile(ordered, percent) for percent in PERCENTILES}
        for lane, beat in self._lanes.items():
            flat |= {f"{lane}.{name}": value for name, value in beat.items() if isinstance(value, int | float)}
        return flat
