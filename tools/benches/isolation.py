"""What a lane's trouble costs the others: in one run, partials of two lanes in calm and while a third is in trouble, turn about.

Troubles: its process is killed as soon as it is back, so that it loads its models again and again; a fourth lane's source sends half a
frame and closes, over and over. Beside them, of a folder that is heard: the disk for its results stands still, and then does not. A lane's
lateness is reckoned as in late.py; of the lanes in trouble it does not count.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import tempfile
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import numpy as np
from voiced.api import Client, Published
from voiced.bus.private import start_private_bus
from voiced.events import Partial
from voiced.statistics import percentile
from voiced.units import RATE

from . import late, recordings
from .rows import Row
from .running import READY_S, Daemon, several

AIM = 1.1
SETTLE_S = 14.0
"""A turn and its second pass: what is done for the first time is over."""

PAUSE_S = 1.0
"""Between two deaths, and before a phase counts: what the one before began is over."""

Trouble = Callable[[Daemon], Coroutine[Any, Any, None]]


def run(quick: bool) -> list[Row]:
    return asyncio.run(_run(4.0 if quick else 20.0, 1 if quick else 3))


async def _run(seconds: float, rounds: int) -> list[Row]:
    with tempfile.TemporaryDirectory(prefix="voiced-") as directory:
        sound = recordings.write(Path(directory) / "talk.wav", np.concatenate((recordings.long_turn(10.0), recordings.silence(0.5))))
        lanes = dict.fromkeys(("one", "two", "third"), f"loop:{sound}")
        async with several(lanes | {"half": f"unix:{directory}/half"}, Path(directory)) as daemon:
            await asyncio.sleep(SETTLE_S)
            rows = await _compare(daemon, Path(directory) / "half", seconds, rounds)
        return rows + await _slow_disk(seconds, Path(directory))


async def _compare(daemon: Daemon, half: Path, seconds: float, rounds: int) -> list[Row]:
    heard: list[tuple[str, Published]] = []
    phase = ""

    async def watch() -> None:
        async for item in daemon.client.watch():
            if isinstance(item, Published) and isinstance(item.event, Partial) and item.lane in ("one", "two"):
                heard.append((phase, item))

    async def half_frames(_: Daemon) -> None:
        half.unlink(missing_ok=True)
        async with await asyncio.start_unix_server(_half, half) as server:
            await server.serve_forever()

    troubles: dict[str, Trouble] = {"a lane dies": _kill, "a source sends half a frame": half_frames}
    watching = asyncio.create_task(watch())
    try:
        for _ in range(rounds):
            for name, trouble in troubles.items():
                for phase in ("", name):
                    task = asyncio.create_task(trouble(daemon)) if phase else None
                    await asyncio.sleep(seconds)
                    if task:
                        task.cancel()
                        with contextlib.suppress(asyncio.CancelledError):
                            await task
                    phase = "between"
                    await asyncio.sleep(PAUSE_S)
    finally:
        watching.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await watching
    return [row for name in troubles for row in _rows(name, heard)]


def _rows(name: str, heard: list[tuple[str, Published]]) -> list[Row]:
    """Lateness is reckoned over all phases, then told apart: a lane has one earliest."""
    lanes = late.partials([item for _, item in heard])
    order = {lane: iter(points) for lane, points in lanes.items()}
    by_phase: dict[str, list[float]] = {"": [], name: []}
    for phase, item in heard:
        _, late_ms = next(order[item.lane])
        by_phase.setdefault(phase, []).append(late_ms)
    calm, trouble = by_phase[""], by_phase[name]
    if not (calm and trouble):
        return [Row("isolation", name, float("nan"), "ms", note="no partial was heard")]
    note = f"{len(trouble)} partials of lanes without trouble of their own, beside {len(calm)} in calm"
    return [
        Row("isolation", f"{name}: partial late, p{at}", percentile(trouble, at), "ms", bare=percentile(calm, at), aim=AIM, note=note)
        for at in (50, 95)
    ]


async def _slow_disk(seconds: float, directory: Path) -> list[Row]:
    """A folder is heard, and the files of its results are pipes that nobody reads; then somebody does."""
    recorded, results = directory / "in", directory / "out"
    recorded.mkdir()
    sound = np.resize(np.concatenate((recordings.talk(), recordings.silence(1.0))), round((2 * seconds + 60) * RATE))
    for number in range(2):
        recordings.write(recorded / f"{number}.wav", sound)
    bus = start_private_bus(directory / "d")
    job = ("--lanes", "2", "--input-dir", str(recorded), "--results", str(results), "--headless", "--bus", bus.address)
    process = await asyncio.create_subprocess_exec(sys.executable, "-m", "voiced", *job, stderr=asyncio.subprocess.DEVNULL)
    reading: list[int] = []
    name = "a disk stands still"
    try:
        async with asyncio.timeout(READY_S):
            while not (results / "config.json").exists():  # the last that is made before somebody has spoken
                await asyncio.sleep(0.05)
        files = [*(results / "results").iterdir(), *(results / "model_outputs").iterdir()]
        for file in files:
            file.unlink()
            os.mkfifo(file)
        heard: list[tuple[str, Published]] = []
        phase, began_us = name, 0
        async with Client(bus.address) as client, asyncio.timeout(READY_S + 2 * seconds):
            async for item in client.watch():
                if not (isinstance(item, Published) and isinstance(item.event, Partial)):
                    continue
                began_us = began_us or item.monotonic_us
                passed_s = (item.monotonic_us - began_us) / 1e6
                if passed_s > seconds and phase:
                    phase = ""
                    reading += [os.open(file, os.O_RDONLY | os.O_NONBLOCK) for file in files]
                if passed_s > 2 * seconds:
                    break
                heard.append((phase, item))
    finally:
        process.kill()
        await process.wait()
        bus.close()
        for fd in reading:
            os.close(fd)
    return _rows(name, heard)


async def _kill(daemon: Daemon) -> None:
    while True:
        for role, pid in await daemon.processes():
            if role == "lane third":
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        await asyncio.sleep(PAUSE_S)


async def _half(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"\0")
    writer.close()
