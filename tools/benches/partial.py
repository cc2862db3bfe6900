"""How long a word that was heard waits to be shown: from the arrival of the block that made a partial to the partial.

The daemon counts it as partial_ms (statistics.py): queues, threads, the transducer, the way to the main process. Chunk and
look-ahead are not in it, they are the model's own waiting. Beside it stands what the bare model takes for one chunk, at the
same pace, in a process that does nothing else.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from voiced.audio import Samples
from voiced.events import Partial
from voiced.settings import Settings
from voiced.statistics import percentile
from voiced.units import RATE

from . import recordings
from .hearing import Step, record
from .replay import Call, Player
from .rows import Row
from .running import hearing

PERCENTILES = (50, 99)


def run(quick: bool) -> list[Row]:
    sound = recordings.sample()
    statistics, partials = asyncio.run(_daemon(np.tile(sound, 1 if quick else 4), 2 if quick else 8))
    with tempfile.TemporaryDirectory(prefix="voiced-") as directory:
        chunks = decode_ms(record(Settings(), sound, Path(directory)))
    note = f"{partials} partials; bare: {len(chunks)} chunks decoded by the model alone"
    return [
        Row("partial", f"block to partial, p{at}", statistics[f"partial_ms_p{at}"], "ms", bare=percentile(chunks, at), note=note)
        for at in PERCENTILES
    ]


async def _daemon(sound: Samples, turns: int) -> tuple[dict[str, float], int]:
    async with hearing(np.concatenate((sound, recordings.silence(10.0)))) as daemon:
        heard = await daemon.turns(turns)
        return dict(await daemon.statistics()), sum(isinstance(item.event, Partial) for item in heard)


def decode_ms(steps: Sequence[Step]) -> list[float]:
    """Milliseconds of each frame's calls of the streaming transducer, where a chunk was decoded; each at its time."""
    player = Player()
    found = []
    streams = {call.makes for step in steps for call in step.calls if call.makes is not None and _is_streaming(call)}
    began = time.monotonic()
    for step in steps:
        calls = [call for call in step.calls if _is_streaming(call) or call.owner in streams]
        time.sleep(max(0.0, began + step.frame.end / RATE - time.monotonic()))
        before = time.monotonic_ns()
        player.play(calls)
        took = (time.monotonic_ns() - before) / 1e6
        if any(call.verb == "decode_stream" for call in calls):
            found.append(took)
    return found


def _is_streaming(call: Call) -> bool:
    return type(call.owner).__name__ == "OnlineRecognizer"
