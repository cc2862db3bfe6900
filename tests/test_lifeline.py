"""What the service manager is told: how it stands, and the watchdog only while every lane that should hear does."""

from __future__ import annotations

import asyncio
import re
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from voiced import lifeline
from voiced.bus.interface import LANE
from voiced.desk import LaneChanged, LaneView, Reloaded, Reloading
from voiced.hearing import Hearing
from voiced.lanestate import RECOVERY_SECONDS, LaneState
from voiced.ledger import Ledger
from voiced.lifeline import Lifeline, standing
from voiced.settings import LaneSettings
from voiced.systemd import Notifier

PATIENCE_S = 3.0


@pytest.fixture
def sock() -> Iterator[tuple[socket.socket, dict[str, str]]]:
    with tempfile.TemporaryDirectory(prefix="voiced-") as directory, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        sock.bind(f"{directory}/notify")
        sock.setblocking(False)
        yield sock, {"NOTIFY_SOCKET": str(Path(directory) / "notify"), "WATCHDOG_USEC": "30000000"}


def told(sock: socket.socket) -> list[str]:
    found = []
    while True:
        try:
            found.append(sock.recv(4096).decode())
        except BlockingIOError:
            return found


def a_lane(now: float = 0.0) -> LaneState:
    """Ready, and hears its first sound now."""
    lane = LaneState(LaneSettings("desk"), Ledger(1, 8), Hearing(PATIENCE_S), ready=True, lost_at=now, advanced_at=now)
    lane.hears(now)
    lane.hearing.start(now)
    return lane


def beat(lane: LaneState, now: float, position: int, *, waiting: int = 0, done: int = 0, blocks: int = 1) -> None:
    """As the supervisor hears it."""
    lane.beat(position, now)
    lane.hearing.beat(now, position, position * blocks, waiting, done)


def view(name: str, health: str) -> LaneView:
    return LaneView(name, "asleep", health, health == "muted", (), "auto")


def test_how_it_stands_in_one_line() -> None:
    assert standing([view("desk", "ok")]) == standing([view("desk", "ok"), view("door", "ok")]) == "listening"
    assert standing([view("desk", "no_device")]) == "waiting for microphone"
    assert standing([view("desk", "ok"), view("door", "muted")]) == "desk: listening, door: muted"
    assert standing([view("desk", "of a newer kind")]) == "listening (of a newer kind)"
    told = re.findall(r"[a-z_]{2,}", next(item.says for item in LANE.properties if item.name == "Health").partition(";")[0])
    assert set(told) - {"or"} == set(lifeline._SAYS), "each health that is told on the bus has its words"


def test_a_lane_that_advances_is_well_and_one_that_stands_still_is_deaf() -> None:
    """CASES D3: by main's own clock, also where the lane's process says nothing any more."""
    lane = a_lane()
    for tick in range(1, 20):
        beat(lane, tick / 2, tick * 8_000)
        assert not lane.deaf(tick / 2 + 0.4)
    assert not lane.deaf(9.5 + PATIENCE_S - 0.1)
    assert lane.deaf(9.5 + PATIENCE_S) == "nothing was heard for 3 s"
    beat(lane, 13.0, 19 * 8_000)  # it answers, and its frames do not advance
    assert lane.deaf(13.1)
    beat(lane, 13.5, 20 * 8_000)
    assert not lane.deaf(13.6)


def test_sound_that_nobody_takes_is_deafness() -> None:
    lane = a_lane()
    for tick in range(1, 30):
        beat(lane, tick / 2, tick * 8_000, waiting=5, done=7)
    assert lane.deaf(14.6) == "what is heard is not taken"


@pytest.mark.parametrize("declared", ["muted", "no_device", "stalled", "ended"])
def test_what_is_declared_is_no_deafness(declared: str) -> None:
    lane = a_lane()
    lane.muted, lane.ended = declared == "muted", declared == "ended"
    if declared in ("no_device", "stalled"):
        lane.source_health = declared
    assert not lane.deaf(1e6)


def test_a_lane_that_is_begun_again_has_time_and_not_for_ever() -> None:
    lane = a_lane()
    lane.lost(100.0)
    assert not lane.deaf(100.0 + RECOVERY_SECONDS - 1)
    lane.lost(130.0)  # its successor ended, too: what counts is how long there is no sound
    assert lane.deaf(100.0 + RECOVERY_SECONDS) == "it has been without sound for 150 s"
    lane.ready = True  # warm, and its device is not open yet
    assert lane.deaf(100.0 + RECOVERY_SECONDS)
    lane.hears(260.0)
    assert not lane.deaf(261.0)


def test_the_watchdog_is_fed_while_nothing_is_deaf(sock: tuple[socket.socket, dict[str, str]], caplog: pytest.LogCaptureFixture) -> None:
    deaf: list[str] = []
    lifeline = Lifeline(Notifier(sock[1]), lambda: [view("desk", "ok")], lambda _: deaf)
    lifeline.feed(0.0)
    deaf.append("lane desk: nothing was heard for 4 s")
    lifeline.feed(1.0)
    assert told(sock[0]) == ["WATCHDOG=1"]
    assert "the watchdog is not fed: lane desk: nothing was heard for 4 s" in caplog.text


def test_more_time_while_models_load_then_ready_then_what_changes(sock: tuple[socket.socket, dict[str, str]]) -> None:
    """CASES H9: ready once warm; a microphone that is not there yet is said, and that it came."""

    async def test() -> None:
        now = view("desk", "no_device")
        lifeline = Lifeline(Notifier(sock[1]), lambda: [now], lambda _: [])
        running = asyncio.create_task(lifeline.run())
        lifeline.waiting("waiting for the bus")
        lifeline.news(LaneChanged(now))  # not told before all is ready
        await asyncio.sleep(0)
        assert told(sock[0]) == ["STATUS=waiting for the bus", "EXTEND_TIMEOUT_USEC=15000000"]
        lifeline.ready()
        assert told(sock[0]) == ["READY=1\nSTATUS=waiting for microphone"]
        lifeline.news(LaneChanged(now))
        now = view("desk", "ok")
        lifeline.news(LaneChanged(now))
        assert [line for line in told(sock[0]) if line != "WATCHDOG=1"] == ["STATUS=listening"]
        lifeline.news(Reloading())
        lifeline.news(Reloaded(("f:1: no such section",), ()))
        reloading, ready = told(sock[0])
        assert reloading.startswith("RELOADING=1\nMONOTONIC_USEC=")
        assert ready == "READY=1\nSTATUS=listening; the settings stay as they were: f:1: no such section"
        lifeline.stopping()
        lifeline.news(LaneChanged(view("desk", "no_device")))
        assert told(sock[0]) == ["STOPPING=1\nSTATUS=finishing open turns"]
        running.cancel()

    asyncio.run(test())
