"""Whether lanes that ask for the second pass wait alike: eight of them, each with a short turn every few seconds.

A wait is from asking to the answer, its decoding with it. The mean wait of the lane that waited longest stands beside that of the one that
waited least; the lanes' turns are of lengths of their own, or the same ones would meet each time. And what the queue promises
(fairqueue.py) is counted: how often a lane was served twice while another waited.
"""

from __future__ import annotations

import asyncio
import statistics
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from voiced.api import Published
from voiced.events import TurnClosed

from . import recordings
from .lanes import listen
from .rows import Row
from .running import Daemon, several
from .soaked import pieces

LANES = 8
STAGGER_S = 0.3
SETTLE_S = 3.0

AIM = 2.0
"""No lane waits twice as long as another."""

LEAST = 3
"""Requests of a lane, before its mean is told: one alone says who came first."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A request that was begun, by one clock for all; `done_ms` None: nobody waited for its end."""

    lane: str
    queued_ms: float
    started_ms: float
    done_ms: float | None


def run(quick: bool) -> list[Row]:
    return rows(asyncio.run(_asked(14.0 if quick else 120.0)))


async def _asked(seconds: float) -> list[Asked]:
    turns, _ = pieces()
    with tempfile.TemporaryDirectory(prefix="voiced-") as directory:
        sources = {}
        for number in range(LANES):
            sound = np.concatenate([*turns, recordings.silence(STAGGER_S * number)])
            path = recordings.write(Path(directory) / f"{number}.wav", np.roll(sound, -len(sound) * number // LANES))
            sources[f"lane{number + 1}"] = f"loop:{path}"
        async with several(sources, Path(directory)) as daemon:
            await asyncio.sleep(SETTLE_S)
            return await _requests(daemon, await listen(daemon, seconds))


async def _requests(daemon: Daemon, heard: Iterable[Published]) -> list[Asked]:
    """Of all turns that ended. A receipt counts from its turn's first sample; that its end was told at the same moment joins them."""
    found = []
    for item in heard:
        if isinstance(item.event, TurnClosed):
            receipt: dict[str, Any] = await daemon.client.turn(item.event.turn)
            closed = next(mark for mark in receipt["marks"] if mark["what"] == "closed")
            first_ms = item.monotonic_us / 1000 - closed["clock_ms"]
            for one in receipt["attempts"]:
                if "started_ms" in one:
                    done_ms = first_ms + one["done_ms"] if "done_ms" in one else None
                    found.append(Asked(item.lane, first_ms + one["queued_ms"], first_ms + one["started_ms"], done_ms))
    return found


def overtaken(asked: Sequence[Asked]) -> int:
    """How often a lane was served once more while another waited that it had been served before already."""
    count = 0
    for waiting in asked:
        served = Counter(one.lane for one in asked if one.lane != waiting.lane and waiting.queued_ms < one.started_ms < waiting.started_ms)
        count += sum(times - 1 for times in served.values())
    return count


def rows(asked: Sequence[Asked]) -> list[Row]:
    """Both figures; NaN where no two lanes have asked often enough."""
    waits: defaultdict[str, list[float]] = defaultdict(list)
    for one in asked:
        if one.done_ms is not None:
            waits[one.lane].append(one.done_ms - one.queued_ms)
    means = sorted(statistics.mean(of_lane) for of_lane in waits.values() if len(of_lane) >= LEAST)
    few = len(means) < 2
    least, most = (float("nan"),) * 2 if few else (means[0], means[-1])
    note = f"{sum(map(len, waits.values()))} requests of {len(means)} lanes"
    return [
        Row(
            "fair", "mean wait, the lane that waited longest", most, "ms", bare=None if few else least, aim=AIM, note=f"{note}; bare: least"
        ),
        Row("fair", "served twice while another waited", overtaken(asked), "times", aim=0, note=note),
    ]
