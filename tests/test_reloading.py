"""One reload after the other: what is read, taken, kept and told."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import replace

import pytest
from voiced.desk import Reloaded
from voiced.errors import ConfigError, ModelError
from voiced.reloading import Reloader
from voiced.settings import Settings

BEFORE = Settings()
QUICKER = replace(BEFORE, vad=replace(BEFORE.vad, on=0.6))
ELSEWHERE = replace(QUICKER, models=replace(BEFORE.models, vad="another-vad"))


class Daemon:
    """What a reload talks to; `file` is what it reads next."""

    def __init__(self, file: Callable[[], Settings]) -> None:
        self.file = file
        self.said: list[str] = []
        self.taken: list[tuple[Settings, Settings]] = []
        self.refuse = False
        self.hold: asyncio.Event | None = None
        self.reloader = Reloader(BEFORE, self.read, self.take, lambda news: self.said.append(type(news).__name__))

    def read(self) -> Settings:
        self.said.append("read")
        return self.file()

    async def take(self, before: Settings, after: Settings) -> None:
        if self.hold:
            await self.hold.wait()
        if self.refuse:
            raise ModelError("model computer", "its files are not there")
        self.taken.append((before, after))


def bad() -> Settings:
    raise ConfigError("f", "2 mistakes", lines=("f:1: vad.on: must be a number", "f:2: no such section"))


def test_a_good_file_is_taken(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "voiced")
    daemon = Daemon(lambda: ELSEWHERE)
    assert asyncio.run(daemon.reloader.ask()) == ("models.vad",)
    assert daemon.taken == [(BEFORE, QUICKER)]
    assert daemon.reloader.settings == QUICKER
    assert daemon.reloader.last == Reloaded((), ("models.vad",))
    assert daemon.said == ["Reloading", "read", "Reloaded"]
    assert [record.getMessage() for record in caplog.records] == [
        "settings read anew: vad.on",
        "takes effect at the next start: models.vad",
    ]


def test_where_nothing_live_changed_nobody_is_bothered() -> None:
    daemon = Daemon(lambda: replace(BEFORE, models=ELSEWHERE.models))
    assert asyncio.run(daemon.reloader.ask()) == ("models.vad",)
    assert (daemon.taken, daemon.reloader.settings) == ([], BEFORE)


def test_a_bad_file_changes_nothing_and_every_mistake_is_told(caplog: pytest.LogCaptureFixture) -> None:
    daemon = Daemon(bad)
    with pytest.raises(ConfigError) as raised:
        asyncio.run(daemon.reloader.ask())
    assert raised.value.lines == ("f:1: vad.on: must be a number", "f:2: no such section")
    assert (daemon.taken, daemon.reloader.settings) == ([], BEFORE)
    assert daemon.reloader.last.mistakes == raised.value.lines
    assert daemon.said == ["Reloading", "read", "Reloaded"]
    assert [record.getMessage() for record in caplog.records] == [*raised.value.lines, "the settings stay as they were"]


def test_what_cannot_be_taken_changes_nothing_and_the_next_good_file_heals_it() -> None:
    async def test() -> None:
        daemon = Daemon(lambda: QUICKER)
        daemon.refuse = True
        with pytest.raises(ConfigError) as raised:
            await daemon.reloader.ask()
        assert raised.value.lines == ("model computer: its files are not there",)
        assert daemon.reloader.settings == BEFORE
        daemon.refuse = False
        assert await daemon.reloader.ask() == ()
        assert (daemon.reloader.settings, daemon.reloader.last) == (QUICKER, Reloaded())

    asyncio.run(test())


def test_whoever_asks_while_one_goes_on_shares_the_next() -> None:
    """A thousand cost two, and each is answered by a read that began after it asked."""

    async def test() -> None:
        daemon = Daemon(lambda: QUICKER)
        daemon.hold = asyncio.Event()
        first = asyncio.ensure_future(daemon.reloader.ask())
        while "read" not in daemon.said:
            await asyncio.sleep(0)
        daemon.file = lambda: ELSEWHERE
        others = [asyncio.ensure_future(daemon.reloader.ask()) for _ in range(1000)]
        await asyncio.sleep(0)
        daemon.hold.set()
        assert await first == ()
        assert await asyncio.gather(*others) == [("models.vad",)] * 1000
        assert daemon.said == ["Reloading", "read", "Reloaded"] * 2

    asyncio.run(test())


def test_one_who_stops_waiting_stops_nothing() -> None:
    async def test() -> None:
        daemon = Daemon(lambda: QUICKER)
        daemon.hold = asyncio.Event()
        asked = asyncio.ensure_future(daemon.reloader.ask())
        while "read" not in daemon.said:
            await asyncio.sleep(0)
        asked.cancel()
        daemon.hold.set()
        assert await daemon.reloader.ask() == ()
        assert daemon.reloader.settings == QUICKER

    asyncio.run(test())
