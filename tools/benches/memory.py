"""What voiced needs of memory: PSS and RSS of each process, one lane, after turns of ten seconds.

PSS counts a page that several processes share once in all, so its sum is what the machine has less of. What is told is the
greatest sum seen while the turns were heard and rewritten, looked at every quarter of a second, and what remains of it.
"""

from __future__ import annotations

import asyncio
import contextlib

import numpy as np
from voiced.events import TurnClosed
from voiced.units import RATE

from . import recordings
from .rows import Row
from .running import Daemon, hearing

LOOK_S = 0.25
TURN_S = 10.0
AIM_MB = 400.0

_Sizes = dict[str, tuple[float, float]]


def run(quick: bool) -> list[Row]:
    return asyncio.run(_run(1 if quick else 3))


async def _run(turns: int) -> list[Row]:
    sound = np.concatenate([recordings.long_turn(TURN_S)] * turns + [recordings.silence(60.0)])
    async with hearing(sound) as daemon:
        before = daemon.memory_mb()
        seen: list[_Sizes] = []
        looking = asyncio.create_task(_look(daemon, seen))
        heard = await daemon.turns(turns)
        looking.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await looking
        after = daemon.memory_mb()
    lengths = [(item.event.last - item.event.first) / RATE for item in heard if isinstance(item.event, TurnClosed)]
    peak = max(seen, key=_pss)
    note = f"turns of {', '.join(f'{length:.1f}' for length in lengths)} s; ready {_pss(before):.0f}, afterwards {_pss(after):.0f}"
    rows = [Row("memory", "PSS, all processes", _pss(peak), "MB", aim=AIM_MB, note=note)]
    rows += [Row("memory", f"PSS, {role}", pss, "MB", note=f"RSS {rss:.0f} MB") for role, (pss, rss) in peak.items()]
    return rows


async def _look(daemon: Daemon, seen: list[_Sizes]) -> None:
    while True:
        seen.append(daemon.memory_mb())
        await asyncio.sleep(LOOK_S)


def _pss(sizes: _Sizes) -> float:
    return sum(pss for pss, _ in sizes.values())
