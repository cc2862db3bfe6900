"""A lane that hears a real sound server: turns, clients' calls, and what becomes of a turn when a process dies.

What is said is played into a null sink, of which the lane hears the monitor. The cases' names are those of the catalogue of what
goes wrong for people (D4 one-shot, D6 mute, D8 nobody speaks, D10 cancel, E13 stop).
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from debugger import held
from livedaemon import PATIENCE, Listen, Listener, Process, Start, alive, assert_whole, descendants, environment, until
from soundserver import SoundServer
from voiced.bus.connection import CallError
from voiced.errors import BusError
from voiced.events import CloseReason, Endpoint, Event, Final, Partial, TextSource, TurnClosed, Wake

KITCHEN, CLOCK = "Turn on the lights in the kitchen.", "What time is it?"

CONFIG = """
lanes:
  - name: desk
    source: auto
endpoint:
  no_speech_ms: 1000
second_pass:
  deadline_ms: {deadline_ms}
"""


class Room:
    """A daemon that hears a sink. `launch` starts it."""

    def __init__(self, launch: Callable[[], Process], listener: Listener, server: SoundServer) -> None:
        self.listener, self._launch, self._server = listener, launch, server
        self._player: subprocess.Popen[bytes] | None = None
        self.start()

    def start(self) -> None:
        """Until it hears; again where it has ended."""
        self.listener.mark()
        self.process = self._launch()
        self.listener.lane(Health="ok")

    def quiet(self) -> None:
        """Waits until what is played is over."""
        if self._player:
            assert self._player.wait(PATIENCE) == 0
            self._player = None

    def say(self, path: Path) -> None:
        """Begins to play it; the listener looks at what comes from now on."""
        self.quiet()
        self.listener.mark()
        self._player = self._server.play(path, "mic16")

    def turn(self, path: Path) -> tuple[Final, list[Event]]:
        """Plays it and waits for the end of its turn: the final, and all events of the turn."""
        self.say(path)
        turn = self.listener.event(Wake).turn
        self.listener.event(TurnClosed, turn)
        events = self.listener.events(turn)
        assert_whole(events)
        return self.listener.event(Final, turn), events

    def assert_well(self, path: Path, text: str) -> None:
        """The next turn works, second pass and all."""
        final, events = self.turn(path)
        assert (final.text, final.source, final.note) == (text, TextSource.SECOND_PASS, ""), events


@pytest.fixture
def room(request: pytest.FixtureRequest, pipewire: SoundServer, start: Start, listen: Listen, bus: str, tmp_path: Path) -> Iterator[Room]:
    """Parametrize it with the second pass's deadline, in milliseconds."""
    config = tmp_path / "voiced.yaml"
    # a second is nothing where others work on the same two cores: what a test does not want late must not be
    config.write_text(CONFIG.format(deadline_ms=getattr(request, "param", 20_000)))
    pipewire.listen_to("mic16")
    listener = listen(bus)
    env = pipewire.env | pick(environment(tmp_path), "PYTHONPATH", "VOICED_CACHE")
    room = Room(lambda: start("voiced", "--config", config, "--bus", bus, env=env), listener, pipewire)
    yield room
    room.quiet()
    said = room.process.err
    assert room.process.ended or room.process.stop() == 0, said
    assert "Traceback" not in room.process.err, room.process.err


def pick(values: dict[str, str], *names: str) -> dict[str, str]:
    return {name: values[name] for name in names}


# ── turns ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def resources(pids: dict[str, int]) -> dict[str, tuple[int, int]]:
    """Open descriptors and threads by role."""
    return {
        role: (len(list(Path(f"/proc/{pid}/fd").iterdir())), len(list(Path(f"/proc/{pid}/task").iterdir()))) for role, pid in pids.items()
    }


def test_five_turns_back_to_back(room: Room, clock: Path) -> None:
    """D4: each wakes; C6: no descriptor and no thread is left by a turn; each is one line of the log, without its words."""
    listener, turns = room.listener, []
    first: dict[str, tuple[int, int]] = {}

    def no_more() -> bool:
        """Than after the first turn; what is asked of the sound server comes and goes."""
        now = resources(listener.pids())
        return now.keys() == first.keys() and all(
            files <= first[role][0] and threads <= first[role][1] for role, (files, threads) in now.items()
        )

    for _ in range(5):
        final, _events = room.turn(clock)
        assert (final.text, final.source) == (CLOCK, TextSource.SECOND_PASS)
        turns.append(final.turn)
        first = first or resources(listener.pids())
    assert turns == sorted(set(turns))
    until(no_more, "what four turns more have taken to be given back", lambda: (first, resources(listener.pids())))
    numbers = [item.sequence for item in listener.published()]
    assert numbers == list(range(1, len(numbers) + 1))
    until(lambda: room.process.err.count(" turn ") == len(turns), "the last line of the log", lambda: room.process.err)
    lines = [line for line in room.process.err.splitlines() if " turn " in line]
    assert [int(line.split(" turn ")[1].split(":")[0]) for line in lines] == turns
    assert all("second pass" in line and "endpoint_ms" in line for line in lines)
    assert "time is it" not in room.process.err.lower()


# ── clients' calls ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_trigger_stop_and_cancel(room: Room, kitchen: Path, clock: Path) -> None:
    listener = room.listener

    # Trigger opens a turn without a phrase; again, while it is open: the same turn. D8: nobody speaks, and it ends by itself
    listener.mark()
    turn = listener.trigger()
    wake = listener.event(Wake, turn)
    assert (wake.phrase, listener.trigger()) == ("", turn)
    assert listener.event(TurnClosed, turn).reason is CloseReason.NO_SPEECH
    assert not [event for event in listener.events(turn) if isinstance(event, Final)]

    # E13: Stop in the middle gives the final at once, with every word that was seen
    room.say(kitchen)
    turn = listener.event(Wake).turn
    partial = listener.event(Partial, turn)
    listener.stop()
    assert listener.event(TurnClosed, turn).reason is CloseReason.STOPPED
    assert_whole(listener.events(turn))
    seen = [event.text for event in listener.events(turn) if isinstance(event, Partial)]
    final = listener.event(Final, turn)
    assert seen[0] == partial.text and final.first_pass.startswith(seen[-1]) and final.text
    listener.stop()  # nothing is open: nothing happens

    # D10: Cancel while words are heard: no final, and the phrase wakes again
    room.say(kitchen)
    turn = listener.event(Wake).turn
    listener.event(Partial, turn)
    listener.cancel()
    assert listener.event(TurnClosed, turn).reason is CloseReason.CANCELLED
    room.say(clock)
    turn = listener.event(Wake).turn
    listener.cancel()  # as soon as it is awake
    assert listener.event(TurnClosed, turn).reason is CloseReason.CANCELLED
    listener.cancel()  # asleep
    room.assert_well(clock, CLOCK)
    assert not [item for item in listener.published() if isinstance(item.event, Final) and item.event.turn == turn]


def test_mute_ends_the_capture_process_and_unmute_hears_again(room: Room, kitchen: Path, clock: Path) -> None:
    """CASES D6, and mute in the middle of a turn."""
    listener = room.listener
    pids = listener.pids()
    room.say(kitchen)
    turn = listener.event(Wake).turn
    listener.event(Partial, turn)
    listener.mute(True)
    assert listener.event(TurnClosed, turn).reason is CloseReason.CANCELLED
    listener.lane(Muted=True, Health="muted")
    until(lambda: not alive(pids["capture"]), "the capture process's end")
    until(lambda: "capture" not in listener.pids(), "the news of it", listener.pids)
    with pytest.raises((BusError, CallError), match=r"no sound now.*muted") as refused:
        listener.trigger()
    assert "\n" not in str(refused.value)
    room.say(clock)
    room.quiet()
    assert not listener.events(), "nobody listened"
    listener.mark()
    listener.mute(False)
    listener.lane(Muted=False, Health="ok")
    room.assert_well(clock, CLOCK)
    after = listener.pids()
    assert after.pop("capture") != pids.pop("capture")
    assert after == pids


# ── deaths ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def begin(room: Room, path: Path) -> tuple[int, Partial, dict[str, int]]:
    """A turn up to its first partial, and the processes that there are."""
    pids = room.listener.pids()
    assert set(pids) == {"bus", "capture", "ears", "transducer", "second_pass"}
    room.say(path)
    turn = room.listener.event(Wake).turn
    return turn, room.listener.event(Partial, turn), pids


def others(before: dict[str, int], after: dict[str, int], *but: str) -> None:
    """All but these are the same processes, and these are not."""
    assert {role for role in before if before[role] != after[role]} == set(but)


def test_the_second_pass_is_killed_in_a_turn(room: Room, kitchen: Path, clock: Path) -> None:
    listener = room.listener
    turn, _, pids = begin(room, kitchen)
    os.kill(pids["second_pass"], signal.SIGKILL)
    closed = listener.event(TurnClosed, turn)
    assert closed.reason in (CloseReason.SILENCE, CloseReason.END_TOKEN)
    assert_whole(listener.events(turn))
    # the turn went on for longer than a new process needs: nothing was lost
    final = listener.event(Final, turn)
    assert (final.source, final.text) == (TextSource.SECOND_PASS, KITCHEN)
    others(pids, listener.pids(), "second_pass")

    # now while it has the turn's sound in its hands: it is held, so that it cannot be done before it is killed
    turn, _, pids = begin(room, kitchen)
    with held(pids["second_pass"]):
        endpoint = listener.event(Endpoint, turn)
        os.kill(pids["second_pass"], signal.SIGKILL)
    closed = listener.event(TurnClosed, turn)
    assert closed.reason is endpoint.reason
    final = listener.event(Final, turn)
    assert (final.source, final.text, final.note) == (TextSource.FIRST_PASS, endpoint.text, "the second pass died")
    room.assert_well(clock, CLOCK)
    others(pids, listener.pids(), "second_pass")
    assert room.process.err.count("second-pass: the process was killed by SIGKILL; it is started again") == 2


@pytest.mark.parametrize("room", [500], indirect=True)
def test_a_second_pass_that_does_not_move_is_late_and_one_that_is_stopped_is_replaced(room: Room, kitchen: Path, clock: Path) -> None:
    listener = room.listener
    turn, _, pids = begin(room, kitchen)
    with held(pids["second_pass"]):
        listener.event(TurnClosed, turn)
    assert_whole(listener.events(turn))
    final = listener.event(Final, turn)
    assert (final.source, final.note) == (TextSource.FIRST_PASS, "the second pass was late")
    assert final.text == final.first_pass == listener.event(Endpoint, turn).text
    others(pids, listener.pids())
    os.kill(pids["second_pass"], signal.SIGSTOP)
    after = until(
        lambda: found if (found := listener.pids()).get("second_pass", pids["second_pass"]) != pids["second_pass"] else None,
        "a new second pass",
        lambda: room.process.err,
    )
    others(pids, after, "second_pass")
    assert not alive(pids["second_pass"])
    final, _ = room.turn(clock)
    assert final.text  # whoever was in time


def test_capture_is_killed_in_a_turn(room: Room, kitchen: Path, clock: Path) -> None:
    listener = room.listener
    turn, partial, pids = begin(room, kitchen)
    os.kill(pids["capture"], signal.SIGKILL)
    assert listener.event(TurnClosed, turn).reason is CloseReason.AUDIO_LOST
    assert_whole(listener.events(turn))
    final = listener.event(Final, turn)
    assert final.text and final.first_pass.startswith(partial.text[:1])
    listener.healths("no_device", "ok")
    room.assert_well(clock, CLOCK)
    others(pids, listener.pids(), "capture")


def test_capture_is_stopped_in_a_turn(room: Room, kitchen: Path, clock: Path) -> None:
    """D1, of the process: it is there and gives nothing."""
    listener = room.listener
    turn, _, pids = begin(room, kitchen)
    os.kill(pids["capture"], signal.SIGSTOP)
    assert listener.event(TurnClosed, turn).reason is CloseReason.AUDIO_LOST
    assert_whole(listener.events(turn))
    listener.healths("no_device", "ok")
    assert not alive(pids["capture"])
    room.process.says("capture auto: it is stopped by a signal; it is killed")
    room.assert_well(clock, CLOCK)
    others(pids, listener.pids(), "capture")


def test_the_lane_is_stopped_in_a_turn(room: Room, kitchen: Path, clock: Path) -> None:
    listener = room.listener
    turn, _, pids = begin(room, kitchen)
    os.kill(pids["ears"], signal.SIGSTOP)
    assert listener.event(TurnClosed, turn).reason is CloseReason.RESTARTED
    assert_whole(listener.events(turn))
    listener.healths("restarting")
    # what was played is over for so long that the sink's zeros may have been told
    until(lambda: listener.status()["health"] in ("ok", "digital_silence"), "its return", listener.status)
    room.assert_well(clock, CLOCK)
    others(pids, listener.pids(), "ears", "transducer")


def test_the_lane_is_killed_in_a_turn(room: Room, kitchen: Path, clock: Path) -> None:
    listener = room.listener
    turn, _, pids = begin(room, kitchen)
    os.kill(pids["ears"], signal.SIGKILL)
    assert listener.event(TurnClosed, turn).reason is CloseReason.RESTARTED
    events = listener.events(turn)
    assert_whole(events)
    final = listener.event(Final, turn)
    last = [event.text for event in events if isinstance(event, Partial)][-1]
    assert (final.text, final.source, final.note) == (last, TextSource.FIRST_PASS, "the lane was restarted")
    listener.healths("restarting", "ok")
    room.assert_well(clock, CLOCK)
    others(pids, listener.pids(), "ears", "transducer")
    after = listener.event(Wake)
    assert after.turn > turn and after.sample > final.sample, "ids and positions go on"
    numbers = [item.sequence for item in listener.published()]
    assert numbers == list(range(1, len(numbers) + 1))


def test_when_main_is_killed_nothing_is_left(room: Room, kitchen: Path) -> None:
    begin(room, kitchen)
    children = descendants(room.process.pid)
    assert len(children) >= 3  # and what asks the sound server
    room.process.stop(signal.SIGKILL)
    until(lambda: not any(alive(pid) for pid in children), "every child's end", lambda: [pid for pid in children if alive(pid)])


# ── the end ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_told_to_end_in_a_turn_it_gives_the_final(room: Room, kitchen: Path, number: signal.Signals) -> None:
    turn, partial, _ = begin(room, kitchen)
    children = descendants(room.process.pid)
    assert room.process.stop(number) == 0, room.process.err
    assert room.listener.event(TurnClosed, turn).reason is CloseReason.SHUTDOWN
    assert_whole(room.listener.events(turn))
    final: Any = room.listener.event(Final, turn)
    assert (final.source, final.note) == (TextSource.FIRST_PASS, "shutting down") and final.text.startswith(partial.text[:1])
    until(lambda: not any(alive(pid) for pid in children), "every child's end", lambda: [pid for pid in children if alive(pid)])
