"""A real bus for each test, both libraries, and a small desk that keeps what it is told."""

from __future__ import annotations

import asyncio
import dataclasses
import importlib.util
import os
import signal
import tempfile
from collections.abc import Callable, Coroutine, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from voiced.bus.private import PrivateBus, start_private_bus
from voiced.bus.service import Service
from voiced.desk import HealthChanged, LaneChanged, LaneView, News, PlacementRow, Published, Snapshot
from voiced.errors import ConfigError, DeviceError, UsageError, VoicedError
from voiced.events import Event
from voiced.receipts import Receipt, Stamps
from voiced.turnbook import TurnBook


class MemoryDesk:
    """A Desk without processes behind it: lanes are records, news is told when a test says so."""

    def __init__(self, *lanes: str) -> None:
        views = tuple(LaneView(name, "asleep", "ok", False, ("jarvis",), "microphone") for name in lanes)
        self.now = Snapshot(
            "0.1.0",
            "ok",
            False,
            views,
            placement=(PlacementRow("ears", "lane kitchen", 10, 11, (2,), (2,)), PlacementRow("bus", "main", 9, 9, (), (0, 1))),
            models={"wake": "jarvis-1"},
            statistics={"turns": 3.0},
        )
        self.listeners: list[Callable[[News], None]] = []
        self.sequence: dict[str, int] = {}
        self.asked: list[tuple[Any, ...]] = []
        self.mistakes: tuple[str, ...] = ()
        self.decisions: list[Published] = []
        self.book, self.keep = TurnBook(), 3
        self.entered = asyncio.Event()
        self.release = asyncio.Event()

    def snapshot(self) -> Snapshot:
        return self.now

    def listen(self, callback: Callable[[News], None]) -> None:
        self.listeners.append(callback)

    async def trigger(self, lane: str, options: Mapping[str, Any]) -> int:
        self.asked.append(("trigger", lane, dict(options)))
        match options.get("do"):
            case "wait":
                self.entered.set()
                await self.release.wait()
            case "device":
                raise DeviceError(lane, "no microphone", "plug one in")
            case "usage":
                raise UsageError(lane, "unknown option")
            case "busy":
                raise VoicedError(lane, "is restarting", "try again")
            case "bug":
                raise ZeroDivisionError("secret detail in /some/path")
            case "gone":
                raise KeyError(lane)
        if options.get("hold"):
            self.change(dataclasses.replace(self._view(lane), turn=42))
        return 42

    async def stop(self, lane: str) -> None:
        self.asked.append(("stop", lane))

    async def cancel(self, lane: str, turn: int = 0) -> None:
        self.asked.append(("cancel", lane, turn))

    async def follow_up(self, lane: str) -> int:
        self.asked.append(("follow up", lane))
        return 0

    async def withdraw(self, lane: str) -> None:
        self.asked.append(("withdraw", lane))

    async def playback(self, lane: str, active: bool) -> None:
        self._view(lane)
        self.asked.append(("playback", lane, active))

    def levels(self, wanted: bool) -> None:
        self.asked.append(("levels", wanted))

    def _view(self, lane: str) -> LaneView:
        """KeyError(lane) where there is none."""
        return {view.name: view for view in self.now.lanes}[lane]

    async def mute(self, lane: str | None, muted: bool) -> None:
        self.asked.append(("mute", lane, muted))
        for view in self.now.lanes:
            if lane in (None, view.name):
                self.change(dataclasses.replace(view, muted=muted, health="muted" if muted else "ok"))

    async def reload(self) -> tuple[str, ...]:
        self.asked.append(("reload",))
        if self.mistakes:
            raise ConfigError("f", "mistakes", lines=self.mistakes)
        return ("models.vad",)

    def explain(self, lane: str | None, limit: int) -> list[Published]:
        found = [one for one in self.decisions if self._there(lane) in (None, one.lane)]
        return found[-limit:] if limit else found

    def turn(self, turn: int) -> Receipt:
        return self.book.get(turn)

    def turns(self, lane: str | None, limit: int) -> list[Receipt]:
        return self.book.newest(self._there(lane), limit)

    def latencies(self, lane: str | None) -> list[dict[str, Any]]:
        return self.book.latencies(self._there(lane))

    def _there(self, lane: str | None) -> str | None:
        if lane not in (None, *(view.name for view in self.now.lanes)):
            raise KeyError(lane)
        return lane

    def tell(self, news: News) -> None:
        for listener in self.listeners:
            listener(news)

    def publish(self, lane: str, event: Event) -> Published:
        self.sequence[lane] = self.sequence.get(lane, 0) + 1
        news = Published(lane, self.sequence[lane], event, 1_000, 2_000)
        self.book.follow(lane, event, Stamps(published_ns=1_000_000, realtime_us=2_000), self.keep)
        self.tell(news)
        return news

    def change(self, view: LaneView) -> None:
        others = tuple(item for item in self.now.lanes if item.name != view.name)
        self.now = dataclasses.replace(self.now, lanes=tuple(sorted((*others, view), key=lambda item: item.name)))
        self.tell(LaneChanged(view))

    def become(self, **changes: Any) -> None:
        self.now = dataclasses.replace(self.now, **changes)
        self.tell(HealthChanged(self.now))


@dataclass
class Bus:
    """A private bus whose dbus-daemon a test may stop, go on with and kill."""

    private: PrivateBus

    @property
    def address(self) -> str:
        return self.private.address

    def signal(self, number: signal.Signals) -> None:
        assert self.private.pid is not None
        os.kill(self.private.pid, number)

    def kill(self) -> None:
        self.signal(signal.SIGKILL)
        while self.private.pid is not None:  # ends when the kernel has it: SIGKILL cannot be refused
            pass


@pytest.fixture
def bus() -> Iterator[Bus]:
    with tempfile.TemporaryDirectory(prefix="voiced-") as directory:  # a socket's name must be short
        private = start_private_bus(Path(directory) / "b")
        try:
            yield Bus(private)
        finally:
            if private.pid is not None:
                os.kill(private.pid, signal.SIGCONT)
            private.close()


@pytest.fixture(params=["dbus-fast", "dbus-next"])
def library(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    if importlib.util.find_spec(name.replace("-", "_")) is None:
        pytest.skip(f"{name} is not installed")
    return name


@pytest.fixture
def go() -> Callable[[Coroutine[Any, Any, None]], None]:
    """Runs a test's coroutine; what hangs ends as a failure after three minutes."""

    def run(test: Coroutine[Any, Any, None]) -> None:
        async def limited() -> None:
            async with asyncio.timeout(180):
                await test

        asyncio.run(limited())

    return run


class Serving:
    """`async with Serving(desk, address, library) as service:` a started service that runs beside the test."""

    def __init__(self, desk: MemoryDesk, address: str, library: str, **options: Any) -> None:
        self.service = Service(desk, address, library=library, **options)

    async def __aenter__(self) -> Service:
        await self.service.start()
        self.task = asyncio.create_task(self.service.run())
        return self.service

    async def __aexit__(self, *_: object) -> None:
        self.task.cancel()
        await asyncio.wait([self.task])
        if not self.task.cancelled() and self.task.exception() is not None:
            raise AssertionError("the service ended by itself") from self.task.exception()


@pytest.fixture
def desk() -> MemoryDesk:
    return MemoryDesk("kitchen", "living-room")


@pytest.fixture
def serving() -> type[Serving]:
    return Serving
