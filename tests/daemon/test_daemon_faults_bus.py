"""The bus stands still, and dies, in every state: lanes never stop hearing, every final is told or can be asked for.

The bus is somebody else's, as a session bus is. What happens to a turn meanwhile is seen in the log.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from daemon.test_daemon_faults import STATES, lasting, reach, told_of
from daemon.test_daemon_lane import CLOCK, Room, room
from faulttable import Fault
from livedaemon import assert_whole, until
from voiced.bus.client import Presence
from voiced.bus.private import PrivateBus, start_private_bus
from voiced.events import TurnClosed

__all__ = ["room"]


@pytest.fixture
def private(runtime: Path) -> Iterator[PrivateBus]:
    private = start_private_bus(runtime / "own")
    yield private
    if private.pid is not None:
        os.kill(private.pid, signal.SIGCONT)
    private.close()


@pytest.fixture
def bus(private: PrivateBus) -> str:
    return private.address


def turns(room: Room) -> int:
    """That are over, as the log has them."""
    return room.process.err.count(" turn ")


def through_a_turn(room: Room, private: PrivateBus, state: str, sounds: tuple[Path, Path], fault: signal.Signals) -> int:
    """The fault in that state of a turn of the first sound, until that turn is over; asleep, until one of the second is, that begins and
    ends while nobody hears of it. Returns the turn that was open, 0 asleep."""
    first, second = sounds
    before = turns(room)
    with lasting(room, state):
        turn = reach(room, first, state)
        assert private.pid
        os.kill(private.pid, fault)
    if not turn:
        room.say(second)
    until(lambda: turns(room) > before, "the turn's end", lambda: room.process.err)
    return turn


@pytest.mark.slow
@pytest.mark.parametrize("state", ["asleep", *STATES])
def test_a_bus_that_stands_still_keeps_no_lane_waiting(
    room: Room, private: PrivateBus, kitchen: Path, clock: Path, state: str, faults: list[Fault]
) -> None:
    listener = room.listener
    pids = listener.pids()
    turn = through_a_turn(room, private, state, (kitchen, clock), signal.SIGSTOP)
    assert private.pid
    os.kill(private.pid, signal.SIGCONT)
    began = time.monotonic()
    closed = listener.event(TurnClosed, turn)
    seconds = time.monotonic() - began
    assert_whole(listener.events(closed.turn))
    faults.append(Fault(state, "bus", "SIGSTOP for a turn", *told_of(listener.events(closed.turn), closed.turn), seconds))
    assert room.turn(clock)[0].text == CLOCK
    assert listener.pids() == pids
    numbers = [item.sequence for item in listener.published()]
    assert numbers == list(range(1, len(numbers) + 1)), "nothing was dropped"


@pytest.mark.slow
@pytest.mark.parametrize("state", ["asleep", *STATES])
def test_a_bus_that_dies_takes_no_final_along(
    room: Room, private: PrivateBus, kitchen: Path, clock: Path, state: str, faults: list[Fault]
) -> None:
    """CASES B4."""
    listener = room.listener
    pids = listener.pids()
    turn = through_a_turn(room, private, state, (kitchen, clock), signal.SIGKILL)
    private.ensure()
    began = time.monotonic()
    listener.wait(lambda item: item == Presence(False), "its end and its return", lambda item: item == Presence(True))
    seconds = time.monotonic() - began
    receipt = listener.turns()[-1]
    assert turn in (0, receipt["turn"])
    assert receipt["text"]
    faults.append(Fault(state, "bus", "SIGKILL for a turn", receipt["reason"], receipt["source"], seconds))
    assert room.turn(clock)[0].text == CLOCK
    assert listener.pids() == pids
