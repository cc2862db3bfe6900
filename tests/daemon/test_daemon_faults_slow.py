"""A second pass that is slower than speech, beside a first pass that is not: every final comes, the first pass's by the deadline, and what
waits is bounded.

Once it is our own, which gets a fraction of its processor's time; once a stand-in for llama-server, which takes a multiple of the sound's
length for each answer, one at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from daemon.test_daemon_reload import asked_again_and_again
from faulttable import Fault
from livedaemon import Listen, Start, assert_whole, throttled
from llamaserver import serve
from voiced.events import Final, TextSource, TurnClosed

__all__ = ["asked_again_and_again"]

TURNS = 4
DEADLINE_MS, QUEUE = 500, 1
LANES = ("one", "two", "three")

Hear = Callable[[str, Callable[[int], object]], tuple[list[Final], float]]


@pytest.fixture
def hear(start: Start, listen: Listen, bus: str, asked_again_and_again: Path, tmp_path: Path) -> Iterator[Hear]:
    """hear(settings, slow): the finals of some turns of each lane, and how many requests waited at the most. `slow` is called with the
    second pass's process id."""

    def hear(settings: str, slow: Callable[[int], object]) -> tuple[list[Final], float]:
        config = tmp_path / "voiced.yaml"
        lanes = ", ".join(f"{{name: {name}, source: 'file:{asked_again_and_again}'}}" for name in LANES)
        config.write_text(f"second_pass: {{{settings}, deadline_ms: {DEADLINE_MS}, queue: {QUEUE}}}\nlanes: [{lanes}]\n")
        listener = listen(bus)
        voiced = start("voiced", "--config", config, "--bus", bus)
        listener.lane(Health="ok")
        slow(listener.pids()["second_pass"])
        listener.mark()
        most = 0.0

        def closed(lane: str) -> list[int]:
            return [item.event.turn for item in listener.published() if item.lane == lane and isinstance(item.event, TurnClosed)]

        for count in range(1, TURNS + 1):
            listener.wait(lambda _: all(len(closed(lane)) >= count for lane in LANES), f"{count} turns of each lane")  # noqa: B023
            most = max(most, listener.status()["statistics"]["second_pass_waiting"])
        for lane in LANES:
            for turn in closed(lane):
                assert_whole(listener.events(turn))
        now = listener.status()
        assert now["health"] in ("ok", "overloaded") and now["statistics"].get("lane_restarts", 0) == 0, now  # others may work here, too
        assert voiced.stop() == 0
        assert "Traceback" not in voiced.err
        return [event for event in listener.events() if isinstance(event, Final)], most

    yield hear


def told(fault: str, finals: list[Final], most: float, faults: list[Fault]) -> None:
    notes = {final.note for final in finals if final.note}
    first = sum(final.source is TextSource.FIRST_PASS for final in finals)
    happened = f"{first} of {len(finals)} finals are the first pass's"
    faults.append(Fault("pending", "second pass", fault, happened, ", ".join(sorted(notes)), 0.0))
    assert {final.text.lower().rstrip("?") for final in finals} == {"what time is it"}
    assert "the second pass was late" in notes
    assert most <= QUEUE


@pytest.mark.slow  # some turns at the pace of speech
def test_our_own_with_a_twentieth_of_a_core(hear: Hear, faults: list[Fault]) -> None:
    with ExitStack() as stack:
        finals, most = hear("enabled: true", lambda pid: stack.enter_context(throttled(pid, 0.05)))
    told("a twentieth of a core", finals, most, faults)


@pytest.mark.slow  # some turns at the pace of speech
@pytest.mark.parametrize("pace", [1.5, 4.0])
def test_a_server_that_takes_longer_than_the_sound(hear: Hear, faults: list[Fault], pace: float) -> None:
    with serve() as server:
        server.slots = 1

        def slow(pid: int) -> None:
            server.pace = pace

        finals, most = hear(f"server: '{server.address}'", slow)
    assert all(final.source is TextSource.FIRST_PASS for final in finals)
    told(f"{pace:g} s for a second of sound", finals, most, faults)
