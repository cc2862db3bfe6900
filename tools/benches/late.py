"""How late partials are, lane by lane, as a client sees it.

What lives here: arithmetic on events. What must not: a daemon. A lane's sound comes at the pace of the clock, so the time at which a
partial is heard of, less its sample's time, is a constant and its lateness; the least of a lane's is taken for the constant. A lane that
falls behind is later the longer it hears: the slope of its lateness against the time of its sound is 0 for one that keeps up.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from voiced.api import Published
from voiced.events import Partial
from voiced.units import RATE

Late = tuple[float, float]
"""Seconds of sound, milliseconds of lateness."""


def partials(heard: Iterable[Published]) -> dict[str, list[Late]]:
    """By lane, in order."""
    raw: defaultdict[str, list[tuple[float, float]]] = defaultdict(list)
    for item in heard:
        if isinstance(item.event, Partial):
            audio_s = item.event.sample / RATE
            raw[item.lane].append((audio_s, item.monotonic_us / 1e6 - audio_s))
    found = {}
    for lane, points in raw.items():
        least = min(late for _, late in points)
        found[lane] = [(audio_s, (late - least) * 1000) for audio_s, late in points]
    return found


def slope(lanes: Mapping[str, Sequence[Late]]) -> float:
    """Milliseconds of lateness for a second of sound, over all lanes, each about its own mean; NaN for fewer than two points in one."""
    along: list[float] = []
    late: list[float] = []
    for points in lanes.values():
        if len(points) > 1:
            x, y = np.array(points).T
            along += list(x - x.mean())
            late += list(y - y.mean())
    x, y = np.array(along), np.array(late)
    return float(x @ y / (x @ x)) if len(x) and x.any() else float("nan")


def of(lanes: Mapping[str, Sequence[Late]]) -> list[float]:
    """All lateness, whichever the lane."""
    return [late for points in lanes.values() for _, late in points]
