"""What a lane's trouble costs the others: in one run, partials of two lanes in calm and while there is trouble beside them, turn about.

Each of these stretches of time is as long as the sound that the lanes hear over and over: they hear the same in calm and in trouble. Each
lane is at another place of it, so that they do not all decode at the same moment.

Troubles: a third lane's process is killed as soon as it is back, so that it loads its models again and again; a fourth lane's source sends
half a frame and closes, over and over; of a folder that is heard, the disk for the results stands still. A lane's lateness is reckoned as
in late.py; of the lanes in trouble it does not count. The note says between what the ratio lies with a probability of 90 %: of what is
rare, as a late partial is, a few more or less decide.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import math
import os
import signal
import tempfile
import time
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from voiced.api import Client, Published
from voiced.audio import Samples
from voiced.bus.private import start_private_bus
from voiced.events import Partial
from voiced.statistics import percentile
from voiced.units import RATE

from . import late, recordings
from .rows import Row
from .running import READY_S, VOICED, Daemon, several

AIM = 1.1
SETTLE_S = 14.0
"""A turn and its second pass: what is done for the first time is over."""

PAUSE_S = 1.0
"""Between two deaths, and before a phase counts: what the one before began is over."""

PIPE_BYTES = 4096
"""The least that a pipe holds."""

DRAWS = 2000

Trouble = Callable[[], Coroutine[Any, Any, None]]
"""Lasts until it is cancelled."""


def run(quick: bool) -> list[Row]:
    return asyncio.run(_run(1 if quick else 5))


async def _run(rounds: int) -> list[Row]:
    with tempfile.TemporaryDirectory(prefix="voiced-") as directory:
        sound = np.concatenate((recordings.long_turn(10.0), recordings.silence(0.5)))
        lanes = dict(zip(("one", "two", "third"), _each_elsewhere(sound, 3, Path(directory)), strict=True))
        half = Path(directory) / "half"
        async with several({name: f"loop:{path}" for name, path in lanes.items()} | {"half": f"unix:{half}"}, Path(directory)) as daemon:
            await asyncio.sleep(SETTLE_S)
            troubles: dict[str, Trouble] = {
                "a lane dies": partial(_kill, daemon),
                "a source sends half a frame": partial(_half_frames, half),
            }
            found = await _compare(daemon.client, ("one", "two"), troubles, len(sound) / RATE, rounds)
        return found + await _slow_disk(rounds, Path(directory))


def _each_elsewhere(sound: Samples, lanes: int, directory: Path, times: int = 1) -> list[Path]:
    """The sound, so many times, for so many lanes; each begins at another place of it."""
    begun = [np.roll(sound, -len(sound) * lane // lanes) for lane in range(lanes)]
    return [recordings.write(directory / f"{lane}.wav", np.tile(one, times)) for lane, one in enumerate(begun)]


async def _compare(client: Client, lanes: Collection[str], troubles: Mapping[str, Trouble], seconds: float, rounds: int) -> list[Row]:
    """Calm, a trouble, calm, the next trouble, so many times; each for `seconds`, the pause after it with it."""
    heard: list[tuple[str, Published]] = []
    phase = ""

    async def watch() -> None:
        async for item in client.watch():
            if isinstance(item, Published) and isinstance(item.event, Partial) and item.lane in lanes:
                heard.append((phase, item))

    watching = asyncio.create_task(watch())
    due = time.monotonic()
    try:
        for phase in [phase for _ in range(rounds) for name in troubles for phase in ("", name)]:
            due += seconds
            task = asyncio.create_task(troubles[phase]()) if phase else None
            await asyncio.sleep(due - PAUSE_S - time.monotonic())
            if task:
                await _cancelled(task)
            phase = "between"
            await asyncio.sleep(due - time.monotonic())
    finally:
        await _cancelled(watching)
    return [row for name in troubles for row in rows(name, heard)]


async def _cancelled(task: asyncio.Task[None]) -> None:
    """Raises what ended it, where it had ended before."""
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


def rows(name: str, heard: Sequence[tuple[str, Published]]) -> list[Row]:
    """The trouble of this name beside calm (""): partials by the phase that they were heard in. Lateness is reckoned over all phases, then
    told apart: a lane has one earliest."""
    lanes = late.partials([item for _, item in heard])
    order = {lane: iter(points) for lane, points in lanes.items()}
    by_phase: dict[str, list[float]] = {"": [], name: []}
    for phase, item in heard:
        _, late_ms = next(order[item.lane])
        by_phase.setdefault(phase, []).append(late_ms)
    calm, trouble = by_phase[""], by_phase[name]
    if not (calm and trouble):
        return [Row("isolation", name, float("nan"), "ms", note="no partial was heard")]
    found = []
    for at in (50, 95):
        low, high = spread(trouble, calm, at)
        note = f"{len(trouble)} partials of lanes without trouble of their own, beside {len(calm)} in calm; ratio {low:.2f} to {high:.2f}"
        value, bare = percentile(trouble, at), percentile(calm, at)
        found.append(Row("isolation", f"{name}: partial late, p{at}", value, "ms", bare=bare, aim=AIM, note=note))
    return found


def spread(trouble: Sequence[float], calm: Sequence[float], at: float) -> tuple[float, float]:
    """Between which two numbers nine in ten of the ratios lie that samples drawn from these would have (a bootstrap)."""
    drawn = np.random.default_rng(0)
    first, second = (
        np.percentile(drawn.choice(values, (DRAWS, len(values))), at, axis=1, method="inverted_cdf") for values in (trouble, calm)
    )
    low, high = np.percentile(first / np.maximum(second, 1e-9), (5, 95))
    return float(low), float(high)


async def _kill(daemon: Daemon) -> None:
    while True:
        for role, pid in await daemon.processes():
            if role == "lane third":
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        await asyncio.sleep(PAUSE_S)


async def _half_frames(path: Path) -> None:
    path.unlink(missing_ok=True)
    async with await asyncio.start_unix_server(_half, path) as server:
        await server.serve_forever()


async def _half(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"\0")
    writer.close()


# ── the disk ───────────────────────────────────────────────────────────────────────────────────────────────────────────


async def _slow_disk(rounds: int, directory: Path) -> list[Row]:
    """A folder is heard by two lanes."""
    recorded, results = directory / "in", directory / "out"
    recorded.mkdir()
    once = np.concatenate((recordings.talk(), recordings.silence(1.0)))
    period_s = 2 * len(once) / RATE
    length_s = 2 * rounds * period_s + SETTLE_S + 30.0  # it must not end before we do
    _each_elsewhere(once, 2, recorded, math.ceil(length_s * RATE / len(once)))
    bus = start_private_bus(directory / "d")
    job = ("--lanes", "2", "--input-dir", str(recorded), "--results", str(results), "--headless", "--bus", bus.address)
    process = await asyncio.create_subprocess_exec(*VOICED, *job, stderr=asyncio.subprocess.DEVNULL)
    disk = None
    try:
        async with asyncio.timeout(READY_S):
            while not (results / "config.json").exists():  # the last that is made before somebody has spoken
                await asyncio.sleep(0.05)
        disk = Disk([*(results / "results").iterdir(), *(results / "model_outputs").iterdir()])
        async with Client(bus.address) as client:
            await asyncio.sleep(SETTLE_S)
            return await _compare(client, ("lane1", "lane2"), {"a disk stands still": disk.stand_still}, period_s, rounds)
    finally:
        process.kill()
        await process.wait()
        bus.close()
        if disk:
            disk.close()


class Disk:
    """Pipes in the place of these files. What is written to one is taken at once, but while it stands still: then whoever writes waits."""

    def __init__(self, files: Collection[Path]) -> None:
        self._pipes = []
        for file in files:
            file.unlink()
            os.mkfifo(file)
            fd = os.open(file, os.O_RDWR | os.O_NONBLOCK)  # both ends: it has a reader and a writer whoever else comes and goes
            fcntl.fcntl(fd, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
            self._pipes.append(fd)
        self._flow()

    def _flow(self) -> None:
        for fd in self._pipes:
            asyncio.get_running_loop().add_reader(fd, os.read, fd, PIPE_BYTES)

    def _stop(self) -> None:
        for fd in self._pipes:
            asyncio.get_running_loop().remove_reader(fd)

    async def stand_still(self) -> None:
        """Until it is cancelled."""
        self._stop()
        for fd in self._pipes:
            with contextlib.suppress(BlockingIOError):
                while True:
                    os.write(fd, b"\n")
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            self._flow()

    def close(self) -> None:
        self._stop()
        for fd in self._pipes:
            os.close(fd)
