"""Every process is killed and is stopped in every state: no final is lost, no state is stuck, and the next turn is whole.

`tools/faults` runs this and prints what happened in each case, and after how long the process was replaced. A stopped lane is given ten
seconds to answer (supervisor.HUNG_SECONDS) and a second pass its deadline; a stopped capture is a stall.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from daemon.test_daemon_lane import CLOCK, Room, room
from livedaemon import alive, until
from voiced.events import CloseReason, Endpoint, Final, LikelyEnd, Partial, TurnClosed, Wake

__all__ = ["room"]

STATES: dict[str, Callable[[Room, int], object]] = {
    "awake": lambda room, turn: None,
    "hearing": lambda room, turn: room.listener.event(Partial, turn),
    "trailing": lambda room, turn: room.listener.event(LikelyEnd, turn),
    "pending": lambda room, turn: room.listener.event(Endpoint, turn),
}
"""What is waited for after the wake."""
Fault = tuple[str, str, str, str, str, float]
VICTIMS = ("ears", "second_pass", "capture")
SIGNALS = (signal.SIGKILL, signal.SIGSTOP)


@pytest.mark.slow
@pytest.mark.parametrize("number", SIGNALS, ids=lambda number: number.name)
@pytest.mark.parametrize("victim", VICTIMS)
@pytest.mark.parametrize("state", ["asleep", *STATES])
@pytest.mark.parametrize("room", [2_000], indirect=True)
def test_a_process_that_dies_or_stands_still(
    room: Room, kitchen: Path, clock: Path, state: str, victim: str, number: signal.Signals, faults: list[Fault]
) -> None:
    listener = room.listener
    before = listener.pids()
    turn = 0
    if state == "asleep":
        listener.mark()
    else:
        room.say(kitchen)
        turn = listener.event(Wake).turn
        STATES[state](room, turn)
    os.kill(before[victim], number)
    began = time.monotonic()
    closed = listener.event(TurnClosed, turn) if turn else None
    told = listener.events(turn) if turn else []
    if victim == "second_pass" and number == signal.SIGSTOP:  # nobody finds out before somebody asks it
        room.turn(clock)
    until(lambda: not alive(before[victim]), f"{victim}'s end", lambda: room.process.err)
    until(lambda: listener.pids().get(victim, before[victim]) != before[victim], f"a new {victim}", listener.pids)
    # what is played into the sink is over: its monitor gives nothing but zeros
    until(lambda: listener.status()["health"] in ("ok", "digital_silence"), "health", listener.status)
    seconds = time.monotonic() - began
    finals = [event for event in told if isinstance(event, Final)]
    if any(isinstance(event, Partial) and event.text for event in told) and closed and closed.reason is not CloseReason.NO_TEXT:
        assert [final.turn for final in finals] == [turn], told  # whatever was heard has its final, once
    final = (finals[0].note or finals[0].source.value) if finals else ""
    faults.append((state, victim, number.name, closed.reason.value if closed else "", final, seconds))
    room.quiet()
    after, _ = room.turn(clock)
    assert after.text == CLOCK, after


@pytest.mark.slow
@pytest.mark.parametrize("room", [20_000], indirect=True)
def test_c11_a_hog_on_every_core_costs_no_sound(room: Room, clock: Path) -> None:
    """How much later the ears then are, `tools/bench late` prints."""
    room.turn(clock)
    before = room.listener.status()["statistics"]
    hogs = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in os.sched_getaffinity(0)]
    try:
        final, _ = room.turn(clock)
    finally:
        for hog in hogs:
            hog.kill()
            hog.wait()
    after = room.listener.status()["statistics"]
    assert final.text == CLOCK
    for name in ("desk.samples_lost", "desk.blocks_dropped", "desk.overrun"):
        assert after[name] == before[name], name
