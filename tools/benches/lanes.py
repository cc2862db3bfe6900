"""How many lanes are heard in real time, what a lane costs, and how many a board has room for.

Each lane hears the phrase and five seconds of talk, over and over, each at another place of it: stage 1 of the wake phrase runs all the
time, the recognizer nearly so, and the second pass now and then (whether that is fair: fair.py). A number of lanes keeps up when the
lateness of its partials does not grow with the time of the sound (late.py). The greatest is found by bisection: it is the knee.

Frame latency is what the vendor's application for the K3 aims at 50 ms with (voiced.results): how long sound waits for the recognizer to
be done with it, once it is there; that a chunk has to be full is not in it.

The condition for real time is held against the knee: N lanes want N ≤ W·B·chunk/t, with W cores, B streams decoded in one call (1 here),
and t the processor time that a lane has for a chunk of sound, nearly all of it the recognizer's. It says nothing of the second pass and of
who else works here, so the knee lies below. From what was measured follows what a board has room for, by computing and by memory.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import tempfile
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from voiced.api import Published
from voiced.models import default_library
from voiced.results import TARGETS, mean_ms
from voiced.settings import Settings
from voiced.statistics import percentile
from voiced.units import counted

from . import late, recordings
from .rows import Row, number
from .running import Daemon, process_seconds, pss_mb, rss_mb, several

MOST = 8
KEEPS_UP_MS = 10.0
"""Lateness that may be gained in a second of sound: 1 %, above what the scatter of a minute of partials gives."""

SETTLE_S = 3.0
TURN_S = 5.0
BOARDS_MB = (512, 2048, 8192)
FREE = 0.5
"""Of a board's memory, what the system and all else leave."""


@dataclass(frozen=True, slots=True)
class Measured:
    """So many lanes for `seconds`. Costs by process; `ended`: processes that did not live to the end, of which there is no cost."""

    lanes: int
    seconds: float
    late: dict[str, list[late.Late]]
    numbers: Mapping[str, float]
    cpu_s: Mapping[str, float]
    pss_mb: Mapping[str, float]
    rss_mb: Mapping[str, tuple[float, float]]
    ended: int = 0

    @property
    def slope(self) -> float:
        return late.slope(self.late)

    @property
    def keeps_up(self) -> bool:
        """NaN (nobody was heard) does not, nor lanes of which one had to be started again."""
        return self.slope <= KEEPS_UP_MS and len(self.late) == self.lanes and not self.ended

    def a_lane(self, costs: Mapping[str, float]) -> tuple[float, float]:
        """Of a cost by process: one lane's, and what there is once."""
        own = sum(cost for name, cost in costs.items() if name.startswith("lane "))
        return own / self.lanes, sum(costs.values()) - own


@dataclass(frozen=True, slots=True)
class Look:
    """At a process that lives."""

    name: str
    pid: int
    cpu_s: float
    pss_mb: float
    rss_mb: float

    @classmethod
    def at(cls, name: str, pid: int) -> Look | None:
        """None where it has ended."""
        try:
            return cls(name, pid, process_seconds(pid), pss_mb(pid), rss_mb(pid))
        except OSError:
            return None


def run(quick: bool) -> list[Row]:
    return asyncio.run(_run(14.0 if quick else 60.0, 2 if quick else MOST))


async def _run(seconds: float, most: int) -> list[Row]:
    found, tried = await knee(lambda lanes: measure(lanes, seconds), most)
    told = [row for lanes in sorted(tried) for row in rows(tried[lanes])]
    sized = tried[max(found, 1)]
    return [*told, condition(found, most, tried[1]), *([] if sized.ended else sizing(sized))]


async def knee(take: Callable[[int], Awaitable[Measured]], most: int) -> tuple[int, dict[int, Measured]]:
    """The greatest number of lanes, up to `most`, that keeps up (0: not even one), and all that were measured for it: one lane, the most,
    and then half way between what keeps up and what does not."""
    tried: dict[int, Measured] = {}

    async def keeps_up(lanes: int) -> bool:
        tried[lanes] = tried.get(lanes) or await take(lanes)
        return tried[lanes].keeps_up

    if not await keeps_up(1):
        return 0, tried
    low, high = (most, most + 1) if await keeps_up(most) else (1, most)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if await keeps_up(middle) else (low, middle)
    return low, tried


async def measure(lanes: int, seconds: float) -> Measured:
    sound = np.concatenate((recordings.long_turn(TURN_S), recordings.silence(0.5)))
    with tempfile.TemporaryDirectory(prefix="voiced-") as directory:
        sources = {}
        for number in range(lanes):
            path = recordings.write(Path(directory) / f"{number}.wav", np.roll(sound, -len(sound) * number // lanes))
            sources[f"lane{number + 1}"] = f"loop:{path}"
        async with several(sources, Path(directory)) as daemon:
            await asyncio.sleep(SETTLE_S)
            before, began = [look for name, pid in await daemon.processes() if (look := Look.at(name, pid))], time.monotonic()
            heard = await listen(daemon, seconds)
            passed = time.monotonic() - began
            pairs = [(first, last) for first in before if (last := Look.at(first.name, first.pid))]
            return Measured(
                lanes,
                passed,
                late.partials(heard),
                await daemon.statistics(),
                {last.name: last.cpu_s - first.cpu_s for first, last in pairs},
                {last.name: last.pss_mb for _, last in pairs},
                {last.name: (first.rss_mb, last.rss_mb) for first, last in pairs},
                len(before) - len(pairs),
            )


async def listen(daemon: Daemon, seconds: float) -> list[Published]:
    """All events of so many seconds."""
    heard: list[Published] = []
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            async for item in daemon.client.watch():
                if isinstance(item, Published):
                    heard.append(item)
    return heard


def rows(one: Measured) -> list[Row]:
    """How late its lanes were."""
    values = late.of(one.late)
    what = counted(one.lanes, "lane")
    names = [f"lane{each + 1}" for each in range(one.lanes)]
    ears = [one.numbers.get(f"{name}.ears_late_p99_ms", float("nan")) for name in names]
    frame_ms, waited_ms = (mean_ms(one.numbers, names, of) for of in ("scribe_late", "scribe_waits"))
    nan = float("nan")
    latency = nan if frame_ms is None else frame_ms
    note = f"{len(values)} partials in {one.seconds:.0f} s; {sum(one.cpu_s.values()) / one.seconds:.2f} cores"
    if one.ended:
        note += f"; {one.ended} processes did not live to the end"
    p50, p95 = (percentile(values, at) if values else nan for at in (50, 95))
    of_frames = f"mean over windows of 32 ms, arrival to done, without the chunk's own wait; {number(waited_ms)} of it before its turn came"
    found = [
        Row("lanes", f"{what}: lateness gained", one.slope, "ms/s", aim=KEEPS_UP_MS, note=note),
        Row("lanes", f"{what}: partial late, p95", p95, "ms", note=f"p50 {p50:.0f}; beyond the lane's earliest"),
        Row("lanes", f"{what}: frame latency", latency, "ms", aim=TARGETS["frame_latency_ms"], note=of_frames),
        Row("lanes", f"{what}: wake hop late, p99", max(ears), "ms", note="the worst lane; since its sound came, all else at work"),
    ]
    return found


def condition(knee: int, most: int, one: Measured) -> Row:
    """The knee, beside what one lane's cost gives for it."""
    settings = Settings()
    chunk_ms = default_library(settings.models.path).model(settings.models.transducer).chunk_ms
    cores, t = len(os.sched_getaffinity(0)), one.a_lane(one.cpu_s)[0] / one.seconds * chunk_ms
    note = f"beside N ≤ W·B·chunk/t: W {cores} cores, B 1, chunk {chunk_ms:g} ms, t {t:.1f} ms"
    if knee == most:
        note += f"; no more than {most} were tried"
    return Row("lanes", "in real time (the knee)", knee, "lanes", bare=cores * chunk_ms / t, aim=1.0, note=note)


def sizing(one: Measured) -> list[Row]:
    """What a board has room for, reckoned from the run of so many lanes."""
    lane_cores, shared_cores = one.a_lane({name: cost / one.seconds for name, cost in one.cpu_s.items()})
    each = lane_cores + shared_cores / one.lanes
    lane_mb, shared_mb = one.a_lane(one.pss_mb)
    note = f"of {one.lanes}: {lane_cores:.2f} its own, {shared_cores:.2f} main and second pass together"
    found = [Row("sizing", "a lane that hears talk", each, "cores", note=note)]
    found.append(Row("sizing", "lanes a core", 1 / each, "lanes", note="1 / the figure above; on a core like these"))
    for board in BOARDS_MB:
        what = f"lanes in {board} MB"
        room = max(0, int((FREE * board - shared_mb) / lane_mb))
        note = f"({FREE:g}·{board} - {shared_mb:.0f}) / {lane_mb:.0f} MB (PSS) a lane"
        note += f" give {room}; no more than {MOST} are allowed" if room > MOST else "; memory is what limits" * (room < MOST)
        found.append(Row("sizing", what, min(room, MOST), "lanes", note=note))
    greatest = max((name for name in one.rss_mb if name.startswith("lane ")), key=lambda name: one.rss_mb[name][1])
    for name, (first, last) in one.rss_mb.items():
        if name == greatest or not name.startswith("lane "):
            what = f"RSS, {'the greatest lane' if name == greatest else name}"
            grown = f"PSS {one.pss_mb[name]:.0f}; {last - first:+.1f} in {one.seconds:.0f} s"
            found.append(Row("sizing", what, last, "MB", note=grown))
    return found
