"""Every process is killed and is stopped in every state: no final is lost, no state is stuck, and the next turn is whole.

`tools/faults` runs this and prints what happened in each case, and after how long the process was replaced. A stopped one is seen at two
looks, half a second apart (liveness.py).
"""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from daemon.test_daemon_lane import CLOCK, Room, room
from debugger import held
from faulttable import Fault
from livedaemon import PATIENCE, Listen, alive, assert_whole, until
from voiced.events import CloseReason, Endpoint, Event, Final, LikelyEnd, Partial, TextSource, TurnClosed, Wake
from voiced.lanestate import HUNG_SECONDS

__all__ = ["room"]

STATES: dict[str, Callable[[Room, int], object]] = {
    "awake": lambda room, turn: None,
    "hearing": lambda room, turn: room.listener.event(Partial, turn),
    "trailing": lambda room, turn: room.listener.event(LikelyEnd, turn),
    "pending": lambda room, turn: room.listener.event(Endpoint, turn),
}
"""What is waited for after the wake."""
VICTIMS = ("ears", "second_pass", "capture")
SIGNALS = (signal.SIGKILL, signal.SIGSTOP)


def reach(room: Room, path: Path, state: str) -> int:
    """Says it, up to that state: the turn; asleep says nothing, and there is none."""
    if state == "asleep":
        room.listener.mark()
        return 0
    room.say(path)
    turn = room.listener.event(Wake).turn
    STATES[state](room, turn)
    return turn


@contextlib.contextmanager
def lasting(room: Room, state: str) -> Iterator[None]:
    """A turn that is said meanwhile is pending for as long as this lasts, where that state is wanted: the second pass is held."""
    with held(room.listener.pids()["second_pass"]) if state == "pending" else contextlib.nullcontext():
        yield


def told_of(events: list[Event], turn: int) -> tuple[str, str]:
    """Of a turn that is over, for the table: why it closed, and where its final is from. Whatever was heard has its final, once."""
    (closed,) = [event for event in events if isinstance(event, TurnClosed)]
    finals = [event for event in events if isinstance(event, Final)]
    if any(isinstance(event, Partial) and event.text for event in events) and closed.reason is not CloseReason.NO_TEXT:
        assert [final.turn for final in finals] == [turn], events
    return closed.reason.value, (finals[0].note or finals[0].source.value) if finals else ""


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
    with lasting(room, state):
        turn = reach(room, kitchen, state)
    os.kill(before[victim], number)
    began = time.monotonic()
    happened = ("", "")
    if turn:
        listener.event(TurnClosed, turn)
        happened = told_of(listener.events(turn), turn)
    until(lambda: not alive(before[victim]), f"{victim}'s end", lambda: room.process.err)
    until(lambda: listener.pids().get(victim, before[victim]) != before[victim], f"a new {victim}", listener.pids)
    # what is played into the sink is over: its monitor gives nothing but zeros
    until(lambda: listener.status()["health"] in ("ok", "digital_silence"), "health", listener.status)
    seconds = time.monotonic() - began
    faults.append(Fault(state, victim, number.name, *happened, seconds))
    room.quiet()
    after, _ = room.turn(clock)
    assert after.text == CLOCK, after


@pytest.mark.slow  # it is held for longer than a lane may be silent
@pytest.mark.parametrize("victim", VICTIMS)
def test_a_process_in_a_debuggers_hands_is_left_alone(room: Room, clock: Path, victim: str, faults: list[Fault]) -> None:
    listener = room.listener
    pids = listener.pids()
    with held(pids[victim]):
        time.sleep(HUNG_SECONDS + 2)
    began = time.monotonic()
    until(lambda: listener.status()["health"] in ("ok", "digital_silence"), "health", listener.status)
    faults.append(Fault("asleep", victim, "held by a debugger", "goes on", seconds=time.monotonic() - began))
    assert room.turn(clock)[0].text == CLOCK
    assert listener.pids() == pids, room.process.err


@pytest.mark.slow
@pytest.mark.parametrize("room", [20_000], indirect=True)
def test_c11_a_hog_on_every_core_costs_no_sound(room: Room, clock: Path, faults: list[Fault]) -> None:
    """How late a wake is then, `tools/bench busy` prints."""
    room.turn(clock)
    before = room.listener.status()["statistics"]
    hogs = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in os.sched_getaffinity(0)]
    try:
        final, events = room.turn(clock)
    finally:
        for hog in hogs:
            hog.kill()
            hog.wait()
    after = room.listener.status()["statistics"]
    assert final.text == CLOCK
    for name in ("desk.samples_lost", "desk.blocks_dropped", "desk.overrun"):
        assert after[name] == before[name], name
    faults.append(Fault("any", "every core", "a hog", *told_of(events, final.turn), seconds=0.0))


@pytest.mark.slow  # it stands still for longer than a lane may
@pytest.mark.parametrize("state", ["asleep", *STATES])
@pytest.mark.parametrize("who", ["main", "all"])
@pytest.mark.parametrize("room", [2_000], indirect=True)
def test_a_main_process_that_stands_still_blames_nobody(
    room: Room, kitchen: Path, clock: Path, state: str, who: str, faults: list[Fault]
) -> None:
    """By itself: what its lanes have told meanwhile waits for it. With all the others, as a machine that is paused: they had nothing to
    tell. That it heard nothing of them was its own doing."""
    listener = room.listener
    pids = listener.pids()
    stopped = [room.process.pid, *({*pids.values()} - {room.process.pid} if who == "all" else ())]
    with lasting(room, state):
        turn = reach(room, kitchen, state)
    for pid in stopped:
        os.kill(pid, signal.SIGSTOP)
    if not turn and who == "main":
        room.say(clock)
    time.sleep(HUNG_SECONDS + 2)
    for pid in stopped:
        os.kill(pid, signal.SIGCONT)
    began = time.monotonic()
    happened = ("", "")
    if turn or who == "main":
        turn = listener.event(TurnClosed, turn).turn
        happened = told_of(listener.events(turn), turn)
    until(lambda: listener.status()["health"] in ("ok", "digital_silence"), "health", listener.status)
    faults.append(Fault(state, who, "SIGSTOP, then SIGCONT", *happened, time.monotonic() - began))
    room.quiet()
    assert room.turn(clock)[0].text == CLOCK
    assert listener.pids() == pids, room.process.err
    numbers = [item.sequence for item in listener.published()]
    assert numbers == list(range(1, len(numbers) + 1)), "nothing was dropped"


def test_a_log_that_nobody_reads_keeps_nobody_waiting(
    env: dict[str, str], listen: Listen, bus: str, clock: Path, tmp_path: Path, faults: list[Fault]
) -> None:
    """The reader of standard error stands still, as a terminal at ^S: turns go on, who asks is answered, a process that dies is replaced;
    and when it goes on it has every line."""
    config = tmp_path / "voiced.yaml"
    config.write_text(f"lanes: [{{name: desk, source: 'loop:{clock}'}}]\n")
    listener = listen(bus)
    reader, stderr = os.pipe()
    os.set_blocking(stderr, False)
    with contextlib.suppress(BlockingIOError):
        while True:
            os.write(stderr, b"." * 4096)
    os.set_blocking(stderr, True)
    command = [sys.executable, "-m", "voiced", "--config", str(config), "--bus", bus]
    voiced = subprocess.Popen(command, env=env, stdin=subprocess.DEVNULL, stderr=stderr)
    os.close(stderr)
    try:
        listener.lane(Health="ok")
        pid = listener.pids()["second_pass"]
        os.kill(pid, signal.SIGKILL)
        for _ in range(2):
            turn = listener.event(Wake).turn
            listener.event(TurnClosed, turn)
            assert_whole(listener.events(turn))
            listener.mark()
        until(lambda: listener.pids().get("second_pass", pid) != pid, "a new second pass", listener.pids)
        voiced.send_signal(signal.SIGTERM)
        with os.fdopen(reader, "rb") as log:
            said = log.read().lstrip(b".").decode()  # to the end: it goes on as it is told to end
        assert voiced.wait(PATIENCE) == 0
    finally:
        voiced.kill()
        voiced.wait()
    assert said.count(" turn ") >= 2 and "ready" in said and "second-pass: the process was killed by SIGKILL" in said, said
    faults.append(Fault("any", "log's reader", "stands still", "turns go on, it has every line", seconds=0.0))


LIMITS = {"no descriptor is left": resource.RLIMIT_NOFILE, "no memory for its sound": resource.RLIMIT_FSIZE}


@pytest.mark.slow
@pytest.mark.parametrize("room", [20_000], indirect=True)
@pytest.mark.parametrize("limit", LIMITS)
def test_a_lane_that_cannot_hand_over_its_sound_keeps_its_turn(
    room: Room, kitchen: Path, clock: Path, limit: str, faults: list[Fault]
) -> None:
    """What a lane shares with the second pass is a file in memory, and a descriptor of it."""
    listener = room.listener
    pids = listener.pids()
    room.say(kitchen)
    turn = listener.event(Wake).turn
    before = resource.prlimit(pids["ears"], LIMITS[limit])
    resource.prlimit(pids["ears"], LIMITS[limit], (0, before[1]))
    listener.event(TurnClosed, turn)
    resource.prlimit(pids["ears"], LIMITS[limit], before)
    assert_whole(listener.events(turn))
    final = listener.event(Final, turn)
    assert (final.source, final.note) == (TextSource.FIRST_PASS, "the second pass cannot be reached")
    faults.append(Fault("hearing", "ears", limit, *told_of(listener.events(turn), turn), seconds=0.0))
    room.assert_well(clock, CLOCK)
    assert listener.pids() == pids
