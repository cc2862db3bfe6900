"""A real daemon for a bench: started as a user would, on a bus of its own, and looked at from outside.

What lives here: the processes, their processor time and their memory. What must not: what is concluded from them.
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from voiced.api import Client, Published, TurnClosed
from voiced.audio import Samples
from voiced.bus.private import start_private_bus
from voiced.errors import InternalError

from .recordings import write

VOICED = (sys.executable, "-P", "-m", "voiced")
"""-P: of PYTHONPATH and no other place, whichever folder the bench was started in."""

READY_S = 60.0
"""Loading all models takes a second or two, and some ten times that on a small board."""

TURNS_S = 120.0
"""Some times what the longest sound of a bench takes."""

END_S = 30.0
"""Its processes end in milliseconds; the greatest of its own patiences there is two seconds."""

RECEIPTS = 200
"""Turns that it keeps to be asked for: all that a bench has."""

_TOO_SLOW = "measure on a machine that has more time"

_LANE = """  - name: "{name}"
    source: "{source}"
"""


class Daemon:
    """A running daemon, and what its processes cost (of several lanes `pids` has the last). `client` is connected to it."""

    def __init__(self, process: asyncio.subprocess.Process, client: Client, said: asyncio.Task[bytes]) -> None:
        self._process, self._said = process, said
        self.client = client

    async def end(self) -> tuple[int, list[str]]:
        """Ends it as a service manager does: its exit code, and what it wrote since it was ready. Raises InternalError."""
        if self._process.returncode is None:
            self._process.terminate()
        try:
            async with asyncio.timeout(END_S):
                return await self._process.wait(), (await self._said).decode(errors="replace").splitlines()
        except TimeoutError:
            raise InternalError("voiced", f"it did not end within {END_S:.0f} s of SIGTERM", "see what its processes do") from None

    def pids(self) -> dict[str, int]:
        """Process ids by role: main, lane, second-pass, capture."""
        main = self._process.pid
        children = Path(f"/proc/{main}/task/{main}/children").read_text(encoding="ascii").split()
        found = {"main": main}
        for child in map(int, children):
            words = Path(f"/proc/{child}/cmdline").read_bytes().decode().split("\0")
            role = next((word.removeprefix(":") for word in words if word.startswith(":")), "")
            if role:
                found[role] = child
        return found

    def cpu_s(self) -> dict[str, float]:
        """Processor seconds (user and system) that each process has had, by role."""
        return {role: process_seconds(pid) for role, pid in self.pids().items()}

    def memory_mb(self) -> dict[str, tuple[float, float]]:
        """(PSS, RSS) of each process in MB (10^6 bytes), by role. PSS shares what several processes have among them."""
        return {role: (_smaps(pid, "Pss"), _smaps(pid, "Rss")) for role, pid in self.pids().items()}

    async def cost(self, seconds: float) -> tuple[dict[str, float], float]:
        """Lets it run; processor seconds by role that it took, and the seconds that have passed."""
        before, began = self.cpu_s(), time.monotonic()
        await asyncio.sleep(seconds)
        after, passed = self.cpu_s(), time.monotonic() - began
        return {role: after[role] - before[role] for role in after if role in before}, passed

    async def turns(self, count: int) -> list[Published]:
        """Waits until so many turns are closed; all events since. Raises InternalError where they are not."""
        heard: list[Published] = []
        try:
            async with asyncio.timeout(TURNS_S):
                async for item in self.client.watch():
                    if isinstance(item, Published):
                        heard.append(item)
                        count -= isinstance(item.event, TurnClosed)
                        if not count:
                            break
        except TimeoutError:
            raise InternalError("voiced", f"{count} turns more were expected within {TURNS_S:.0f} s", _TOO_SLOW) from None
        return heard

    async def processes(self) -> list[tuple[str, int]]:
        """(role, process id) of each that says where it runs: main, lane NAME, second pass, capture."""
        rows = (await self.client.status())["placement"]
        return list(dict.fromkeys((str(row[1]), int(row[2])) for row in rows))

    async def statistics(self) -> Mapping[str, float]:
        return dict((await self.client.status())["statistics"])


def process_seconds(pid: int) -> float:
    """What utime + stime of /proc/PID/stat say in ticks of 10 ms, in nanoseconds: the process's own clock.

    Its id is (~pid << 3) | 2 (clock_getcpuclockid(3), CPUCLOCK_SCHED).
    """
    return time.clock_gettime_ns((~pid << 3) | 2) / 1e9


def pss_mb(pid: int) -> float:
    """What the machine has less of because of it; a page that several share counts in part."""
    return _smaps(pid, "Pss")


def rss_mb(pid: int) -> float:
    return _smaps(pid, "Rss")


def own_mb(pid: int) -> float:
    """What it holds that is in no file: how much of its files is in memory is the system's choice, and with whom it is shared others'."""
    return _smaps(pid, "Anonymous") + _smaps(pid, "Pss_Shmem")


def _smaps(pid: int, name: str) -> float:
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) * 1024 / 1e6 for line in lines if line.startswith(f"{name}:"))


@asynccontextmanager
async def hearing(sound: Samples, environment: Mapping[str, str] = os.environ) -> AsyncIterator[Daemon]:
    """A daemon whose lane hears this sound at the pace of speech, from the moment the block is entered."""
    with tempfile.TemporaryDirectory(prefix="voiced-") as directory:
        source = f"file:{write(Path(directory) / 'sound.wav', sound)}"
        async with listening(source, Path(directory), environment) as daemon:
            yield daemon


@asynccontextmanager
async def listening(source: str, directory: Path, environment: Mapping[str, str]) -> AsyncIterator[Daemon]:
    """A daemon with default settings and this source; ended at the block's end. InternalError where it does not start."""
    async with several({"bench": source}, directory, environment) as daemon:
        yield daemon


@asynccontextmanager
async def several(
    sources: Mapping[str, str], directory: Path, environment: Mapping[str, str] = os.environ, more: str = ""
) -> AsyncIterator[Daemon]:
    """The same with lanes by their names; `more`: sections of settings."""
    config = directory / "bench.yaml"
    lanes = "".join(_LANE.format(name=name, source=source) for name, source in sources.items())
    config.write_text(f"lanes:\n{lanes}second_pass:\n  queue: 8\nlog:\n  receipts: {RECEIPTS}\n{more}", encoding="utf-8")
    bus = start_private_bus(directory / "b")
    process = await asyncio.create_subprocess_exec(
        *VOICED, "--config", str(config), "--bus", bus.address, stderr=asyncio.subprocess.PIPE, env=environment
    )
    try:
        assert process.stderr is not None
        await _ready(process.stderr)
        reading = asyncio.create_task(process.stderr.read())
        async with Client(bus.address) as client:
            yield Daemon(process, client, reading)
        reading.cancel()
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()
        bus.close()


async def _ready(said: asyncio.StreamReader) -> None:
    """Waits for the line that says so. Raises InternalError."""
    lines: list[str] = []
    try:
        async with asyncio.timeout(READY_S):
            while not lines or not lines[-1].endswith(" ready"):
                line = await said.readline()
                if not line:
                    raise InternalError("voiced", f"it did not start: {'; '.join(lines)}")
                lines.append(line.decode().strip())
    except TimeoutError:
        raise InternalError("voiced", f"it was not ready within {READY_S:.0f} s", _TOO_SLOW) from None
