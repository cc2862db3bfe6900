"""A soak of the whole daemon: all its processes, a bus of its own, and a client that is told what it hears.

What lives here: the sound's way into a running voiced, what a client is told and asks, what is left at the end. What must not: the sound,
and what must hold of a process (soaked.py).

Sound goes through a Unix socket, whose reader keeps its sender waiting: nothing is written to a disk, and no clock paces it. The ears of a
lane wait for nobody, its scribe least of all. So after each turn the sender waits until the bus says that it is closed, as a speaker
does who wants an answer; what is quiet goes as fast as it is heard.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from types import TracebackType

import numpy as np
from voiced.api import Client, Event, Final, Published, TurnClosed, Wake
from voiced.audio import Samples
from voiced.bus.client import Presence
from voiced.errors import VoicedError
from voiced.events import TextSource
from voiced.settings import Settings
from voiced.turnids import LANE_SLOTS
from voiced.units import to_samples

from .running import RECEIPTS, Daemon, several
from .soaked import HOUR, LOOKS, Look, Period, Process, Result

LANE = "soak"
PATIENCE_S = 120.0
"""For a piece of a minute to be heard, and a turn to close: each takes a second or two."""
SETTLE_S = 10.0
"""For what a turn leaves to do: a second pass that nobody waits for any more, a lane's next beat."""
NOTHING_LOST = (
    f"{LANE}.overrun",
    f"{LANE}.events_lost",
    "lane_restarts",
    "second_pass_refused",
    "second_pass_superseded",
    "second_pass_restarts",
    "bus_dropped",
    "bus_unheard",
    "bus_reconnects",
)
"""Of Manager.Statistics, what must be 0."""

_SETTINGS = "capture:\n  stall_ms: 60000\n"
"""A sender that waits for a turn's end is no gap."""

Tell = Callable[[float, int], None]


class Broken(Exception):
    """The run cannot go on; what is wrong, in words."""


class Sound:
    """The end of a socket that the lane connects to. `sent` are samples."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._came = asyncio.Event()
        self._writer: asyncio.StreamWriter
        self.connections = self.sent = 0

    async def __aenter__(self) -> Sound:
        self._server = await asyncio.start_unix_server(self._connected, self._path)
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._server.close()
        if self.connections:
            self._writer.close()

    async def _connected(self, _: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self._writer = writer
        self._came.set()

    async def send(self, samples: Samples) -> None:
        """Returns when nearly all of it is on its way. Raises Broken."""
        try:
            async with asyncio.timeout(PATIENCE_S):
                await self._came.wait()
                self._writer.write(samples.astype("<i2").tobytes())
                await self._writer.drain()
        except (TimeoutError, OSError) as error:
            why = str(error) or f"nobody took it for {PATIENCE_S:.0f} s"
            raise Broken(f"the lane hears no more, after {self.sent / HOUR:.2f} h: {why}") from None
        self.sent += len(samples)


class Told:
    """What a client of the bus was told, in the order it came."""

    def __init__(self) -> None:
        self.counts: Counter[type[Event]] = Counter()
        self.turns: list[int] = []
        self.rewritten = 0
        self.skipped = 0  # sequence numbers that never came
        self.away = False  # the daemon went
        self._sequence = 0
        self._there = False
        self._change = asyncio.Condition()

    async def follow(self, client: Client) -> None:
        async for item in client.watch():
            async with self._change:
                if isinstance(item, Presence):
                    self._there = item.there
                    self.away = self.away or not item.there
                elif isinstance(item, Published):
                    self.take(item)
                self._change.notify_all()

    def take(self, item: Published) -> None:
        self.skipped += item.sequence - self._sequence - 1
        self._sequence = item.sequence
        self.counts[type(item.event)] += 1
        if isinstance(item.event, Wake):
            self.turns.append(item.event.turn)
        elif isinstance(item.event, Final):
            self.rewritten += item.event.source is TextSource.SECOND_PASS

    async def there(self) -> None:
        await self._wait(lambda: self._there, "the daemon is not on the bus")

    async def closed(self, turns: int) -> None:
        await self._wait(
            lambda: self.counts[TurnClosed] >= turns or self.away, f"turn {turns} was not closed {PATIENCE_S:.0f} s after its end"
        )
        if self.away:
            raise Broken("the daemon went from the bus")

    async def _wait(self, wanted: Callable[[], bool], otherwise: str) -> None:
        try:
            async with asyncio.timeout(PATIENCE_S), self._change:
                await self._change.wait_for(wanted)
        except TimeoutError:
            raise Broken(otherwise) from None

    def wrong(self) -> list[str]:
        ids = self.turns
        steps = {after - before for before, after in pairwise(ids)} - {LANE_SLOTS}
        found = [f"turn ids go on by {', '.join(map(str, sorted(steps)))}, expected {LANE_SLOTS}"] if steps else []
        return [*found, *([f"{self.skipped} events were skipped on the bus"] if self.skipped else [])]


def run(periods: Sequence[Period], tell: Tell = lambda _, __: None) -> Result:
    """Raises VoicedError where voiced does not start."""
    return asyncio.run(_run(periods, tell))


async def _run(periods: Sequence[Period], tell: Tell) -> Result:
    with tempfile.TemporaryDirectory(prefix="voiced-") as name:
        own = Path(name) / "own"
        own.mkdir(0o700)
        environment = {**os.environ, "XDG_RUNTIME_DIR": str(own), "TMPDIR": str(own), "XDG_STATE_HOME": str(Path(name) / "state")}
        async with (
            Sound(Path(name) / "s") as sound,
            several({LANE: f"unix:{name}/s"}, Path(name), environment, _SETTINGS) as daemon,
        ):
            soak = _Soak(daemon, sound)
            result = await soak.run(periods, tell)
            left = [path.name for path in own.iterdir()]
        return replace(result, wrong=(*result.wrong, f"left behind: {', '.join(left)}")) if left else result


class _Soak:
    """One run."""

    def __init__(self, daemon: Daemon, sound: Sound) -> None:
        self._daemon, self._sound, self._told = daemon, sound, Told()
        self._pids: dict[str, int] = {}
        self._looks: dict[str, list[Look]] = {}
        self._wrong: list[str] = []

    async def run(self, periods: Sequence[Period], tell: Tell) -> Result:
        following = asyncio.create_task(self._told.follow(self._daemon.client))
        began = time.monotonic()
        try:
            await self._told.there()
            self._pids = dict(await self._daemon.processes())
            self._looks = {name: [] for name in self._pids}
            await self._say(periods, tell)
        except (Broken, VoicedError) as broken:
            self._wrong.append(str(broken))
        seconds = time.monotonic() - began
        log: list[str] = []
        for work in (self._ask(), self._end(log)):
            try:
                await work
            except VoicedError as error:
                self._wrong.append(str(error))
        following.cancel()
        with suppress(asyncio.CancelledError):
            await following
        told, counts = self._told, self._told.counts
        processes = tuple(Process.of(name, looks) for name, looks in self._looks.items() if looks)
        wrong = (*told.wrong(), *self._wrong)
        hours, said = self._sound.sent / HOUR, len(periods)
        return Result(hours, said, counts[Wake], counts[Final], told.rewritten, counts[TurnClosed], processes, seconds, wrong, tuple(log))

    async def _say(self, periods: Sequence[Period], tell: Tell) -> None:
        """All of it, and a look at the processes now and then. Raises Broken."""
        due = 0.0
        for turn, period in enumerate(periods, 1):
            for piece in (*period.quiet, period.said):
                await self._sound.send(piece)
            await self._told.closed(turn)
            for piece in period.talk:
                await self._sound.send(piece)
            if turn >= due or turn == len(periods):
                await self._settle()
                self._look()
                due += len(periods) / LOOKS
                tell(self._sound.sent / HOUR, self._told.counts[Wake])

    async def _settle(self) -> None:
        """Until the second pass has nothing to do: what it was given is a file more for each of three processes."""
        deadline = time.monotonic() + SETTLE_S
        while time.monotonic() < deadline:
            numbers = await self._daemon.statistics()
            if numbers["second_pass_started"] == numbers["second_pass_done"] and not numbers["second_pass_waiting"]:
                return
            await asyncio.sleep(0.1)

    def _look(self) -> None:
        for name, pid in self._pids.items():
            try:
                self._looks[name].append(Look.at(pid, self._sound.sent / HOUR))
            except OSError:
                raise Broken(f"{name}: the process has ended") from None

    async def _ask(self) -> None:
        """What a client may ask of it after all that."""
        client, sound = self._daemon.client, self._sound
        pids = dict(await self._daemon.processes())
        if pids != self._pids:
            self._wrong.append(f"processes were {self._pids}, and are {pids}")
        if sound.connections != 1:
            self._wrong.append(f"the lane connected {sound.connections} times, expected once")
        heard = await self._heard()
        if heard != sound.sent:
            self._wrong.append(f"{heard} samples of {sound.sent} were heard")
        numbers = await self._daemon.statistics()
        lost = {name: numbers.get(name, 0) for name in NOTHING_LOST} | {"client.lost": client.lost}
        self._wrong += [f"{name} is {count:g}, expected 0" for name, count in lost.items() if count]
        kept = [int(turn["turn"]) for turn in await client.turns()]
        if kept != self._told.turns[-RECEIPTS:]:
            self._wrong.append(f"{len(kept)} turns are kept, {kept[:1]} to {kept[-1:]}, expected the last {RECEIPTS}")
        for turn in self._told.turns[-RECEIPTS:]:
            try:
                receipt = await client.turn(turn)
            except VoicedError as error:
                self._wrong.append(str(error))
                continue
            if receipt["turn"] != turn or not receipt.get("text") or receipt.get("lost_samples", 0) or receipt.get("lost_events", 0):
                self._wrong.append(f"the receipt of turn {turn} is not whole: {receipt}")

    async def _heard(self) -> int:
        """The lane's position, when it has all that was sent; what is no whole block waits for more, so it gets the rest."""
        block = to_samples(Settings().capture.block_ms)
        with suppress(Broken):
            await self._sound.send(np.zeros(-self._sound.sent % block, np.int16))
        deadline = time.monotonic() + SETTLE_S
        while True:
            position = int((await self._daemon.statistics()).get(f"{LANE}.position", 0))
            if position >= self._sound.sent or time.monotonic() > deadline:
                return position
            await asyncio.sleep(0.1)

    async def _end(self, log: list[str]) -> None:
        """Ends it; into `log` goes what it wrote beside its line a turn."""
        code, said = await self._daemon.end()
        log += [line for line in said if f" lane {LANE} turn " not in line]
        if code:
            self._wrong.append(f"voiced ended with {code}, expected 0")
        alive = [name for name, pid in self._pids.items() if Path(f"/proc/{pid}").exists()]
        if alive:
            self._wrong.append(f"still there after the end: {', '.join(alive)}")
