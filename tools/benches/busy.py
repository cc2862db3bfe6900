"""How long after its phrase a wake comes while something else wants every core: in calm, and beside a program that only computes on each
core, turn about in one run.

The phrase is said over and over, and each turn is cancelled as it opens. A wake's time is from the end of its phrase, by its position, to
when it is told; what the fastest of all took to compute is in none of them (late.py), so the ratio is rather told too high. The programs
have the daemon's own nice level and no room of their own: a service that is given its share by the unit (CPUWeight) has it better.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from voiced.api import Client, Published
from voiced.events import Wake
from voiced.statistics import percentile
from voiced.units import RATE, to_samples

from . import recordings
from .rows import Row
from .running import several

AIM = 2.0
EVERY_S = 2.4
"""From phrase to phrase: more than both stages look back on."""

BEFORE_MS = 250
SETTLE_S, PAUSE_S = 6.0, 1.0
"""Until what is done for the first time is over; between two phases."""

CALM, BUSY, BETWEEN = "calm", "busy", "between"


def run(quick: bool) -> list[Row]:
    return rows(asyncio.run(_heard(*((1, 3) if quick else (10, 6)))))


async def _heard(rounds: int, wakes: int) -> list[tuple[str, Published]]:
    """So many phrases of each phase, so many times: each wake, and the phase that it was heard in."""
    turn = recordings.facts()["turns"][1]
    phrase = recordings.sample()[turn["phrase_start"] - to_samples(BEFORE_MS) : turn["speech_start"]]
    heard: list[tuple[str, Published]] = []
    phase = BETWEEN

    async def watch(client: Client) -> None:
        async for item in client.watch():
            if isinstance(item, Published) and isinstance(item.event, Wake):
                heard.append((phase, item))
                await client.cancel()

    with tempfile.TemporaryDirectory(prefix="voiced-") as directory:
        sound = np.concatenate((phrase, recordings.silence(EVERY_S - len(phrase) / RATE)))
        path = recordings.write(Path(directory) / "phrase.wav", sound)
        async with several({"bench": f"loop:{path}"}, Path(directory)) as daemon:
            watching = asyncio.create_task(watch(daemon.client))
            await asyncio.sleep(SETTLE_S)
            for _ in range(rounds):
                phase = CALM
                await asyncio.sleep(wakes * EVERY_S)
                phase = BETWEEN
                with hogs():
                    await asyncio.sleep(PAUSE_S)
                    phase = BUSY
                    await asyncio.sleep(wakes * EVERY_S)
                    phase = BETWEEN
                await asyncio.sleep(PAUSE_S)
            watching.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await watching
    return heard


@contextmanager
def hogs() -> Iterator[None]:
    """A program that computes and nothing else, for each core that we may use."""
    running = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in os.sched_getaffinity(0)]
    try:
        yield
    finally:
        for hog in running:
            hog.kill()
            hog.wait()


def rows(heard: Sequence[tuple[str, Published]]) -> list[Row]:
    """Of one lane's wakes by the phase that they were heard in."""
    times = [(phase, item.monotonic_us / 1000, item.event) for phase, item in heard if isinstance(item.event, Wake)]
    born_ms = min((told_ms - event.sample * 1000 / RATE for _, told_ms, event in times), default=0.0)
    after_ms: dict[str, list[float]] = {CALM: [], BUSY: [], BETWEEN: []}
    for phase, told_ms, event in times:
        after_ms[phase].append(told_ms - born_ms - event.phrase_end * 1000 / RATE)
    calm, busy = after_ms[CALM], after_ms[BUSY]
    if not (calm and busy):
        return [Row("busy", "wake after its phrase", float("nan"), "ms", note="nothing woke")]
    note = f"{len(busy)} wakes, beside {len(calm)} in calm"
    return [
        Row("busy", f"wake after its phrase, p{at}", percentile(busy, at), "ms", bare=percentile(calm, at), aim=AIM, note=note)
        for at in (50, 95)
    ]
