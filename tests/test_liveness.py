"""Who is stopped, who is in a debugger's hands, who only waits, by what the kernel says at two looks; how long each may be silent."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import cast

import pytest
from debugger import held
from hypothesis import given
from hypothesis import strategies as st
from livedaemon import until
from voiced.children import START_SECONDS, Child
from voiced.hearing import Hearing, Verdict
from voiced.lanestate import HUNG_SECONDS, LATE_SECONDS, LaneState
from voiced.ledger import Ledger
from voiced.liveness import Look, Standing, share, standing, wanting
from voiced.settings import LaneSettings

PATIENCE_S = 3.0

looks = st.builds(Look, st.sampled_from("RSDTtZ"), st.integers(0, 9), st.floats(0, 9), st.floats(0, 9))


def look(state: str, switches: int) -> Look:
    return Look(state, switches, 0.0, 0.0)


# ── what two looks mean ────────────────────────────────────────────────────────────────────────────────────────────────


@given(st.lists(looks, min_size=2))
def test_only_what_never_ran_between_two_looks_is_stopped(seen: list[Look]) -> None:
    before = None
    for now in seen:
        stopped = before is not None and (before.state, before.switches) == (now.state, now.switches) and now.state == "T"
        assert (standing(before, now) is Standing.STOPPED) == stopped
        before = now


@given(st.none() | looks, st.integers(0, 9))
def test_a_debuggers_stop_is_none_of_ours(before: Look | None, switches: int) -> None:
    assert standing(before, look("t", switches)) is Standing.HELD


@given(st.none() | looks, st.sampled_from("RD"), st.integers(0, 9))
def test_what_waits_for_a_core_or_a_disk_is_not_asleep(before: Look | None, state: str, switches: int) -> None:
    assert standing(before, look(state, switches)) is Standing.AWAKE


def test_what_slept_all_the_time_is_asleep_and_what_ran_is_not() -> None:
    assert standing(look("S", 7), look("S", 7)) is Standing.ASLEEP
    assert standing(look("S", 7), look("S", 8)) is standing(None, look("S", 7)) is Standing.AWAKE


@given(st.floats(0, 1e6), st.floats(0.01, 1e4), st.floats(0, 8))
def test_the_share_of_a_core_is_what_was_run_of_what_has_passed(at_s: float, passed_s: float, cores: float) -> None:
    before, now = Look("R", 1, 3.0, at_s), Look("R", 2, 3.0 + cores * passed_s, at_s + passed_s)
    assert share(before, now) == pytest.approx(cores, rel=1e-3, abs=1e-3)
    assert share(None, now) == share(now, now) == 1.0, "nothing is known"


# ── what the kernel says ───────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def sleeper() -> Iterator[int]:
    """A process that waits for ever, until the test is over."""
    process = subprocess.Popen([sys.executable, "-c", "print(flush=True); input()"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout
    process.stdout.readline()  # it has begun: until then it may wait for a disk
    in_state(process.pid, "S")
    yield process.pid
    process.kill()
    process.communicate()


def in_state(pid: int, state: str) -> Look:
    """It has come to rest in it: the kernel writes the state down before it takes the process off its core."""

    def at_rest() -> Look | None:
        one, other = Look.at(pid), Look.at(pid)
        same = (one.state, one.switches, one.ran_s) == (other.state, other.switches, other.ran_s)
        return other if same and other.state == state else None

    return until(at_rest, f"the state {state}", lambda: Look.at(pid))


def test_a_stop_is_seen_at_the_second_look(sleeper: int) -> None:
    asleep = Look.at(sleeper)
    os.kill(sleeper, signal.SIGSTOP)
    first = in_state(sleeper, "T")
    assert standing(asleep, first) is Standing.AWAKE
    assert standing(first, Look.at(sleeper)) is Standing.STOPPED
    os.kill(sleeper, signal.SIGCONT)
    assert standing(first, in_state(sleeper, "S")) is Standing.AWAKE


def test_what_is_stopped_and_let_go_again_and_again_is_slowed_down_and_not_stopped(sleeper: int) -> None:
    """As cpulimit does it, also to a process that has nothing to do: every look finds it stopped."""
    before = None
    for _ in range(20):
        os.kill(sleeper, signal.SIGSTOP)
        now = in_state(sleeper, "T")
        assert standing(before, now) is Standing.AWAKE
        before = now
        os.kill(sleeper, signal.SIGCONT)
        in_state(sleeper, "S")


def test_a_debugger_is_told_from_a_stop(sleeper: int) -> None:
    with held(sleeper):
        first = in_state(sleeper, "t")
        assert standing(first, Look.at(sleeper)) is Standing.HELD
    assert standing(first, in_state(sleeper, "S")) is Standing.AWAKE


def test_one_that_is_gone_is_nothing_in_particular() -> None:
    process = subprocess.Popen(["true"])
    process.wait()
    assert (Look.at(process.pid).state, wanting(process.pid)) == ("", False)


def test_one_that_computes_has_its_share_and_one_that_waits_has_none(sleeper: int) -> None:
    assert not wanting(sleeper)
    at_rest = in_state(sleeper, "S")
    busy = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        first = Look.at(busy.pid)
        until(lambda: Look.at(busy.pid).ran_s > first.ran_s + 0.05, "its computing")
        assert wanting(busy.pid)
        assert share(first, Look.at(busy.pid)) > 0
    finally:
        busy.kill()
        busy.wait()
    assert share(at_rest, Look.at(sleeper)) == 0


# ── how long a lane may be silent ──────────────────────────────────────────────────────────────────────────────────────

Silent = Callable[..., LaneState]


class Process:
    """What a Child is to a lane that watches it: heard last at 0 s."""

    def __init__(self, *, starved: bool) -> None:
        self.heard, self.starved = 0.0, starved

    def forgive(self, now: float) -> None:
        self.heard = now


@pytest.fixture
def silent() -> Silent:
    def silent(*, ready: bool = True, starved: bool = False) -> LaneState:
        lane = LaneState(LaneSettings("desk"), Ledger(1, 8), Hearing(PATIENCE_S), ready=ready)
        lane.child = cast(Child, Process(starved=starved))
        lane.hearing.start(0.0)
        return lane

    return silent


def test_a_lane_that_could_beat_and_does_not_is_stuck(silent: Silent) -> None:
    assert not silent().stuck(HUNG_SECONDS)
    assert silent().stuck(HUNG_SECONDS + 1) == "it has not answered for 11 s"


def test_a_lane_that_loads_has_its_time_and_no_more(silent: Silent) -> None:
    for starved in (False, True):
        assert not silent(ready=False, starved=starved).stuck(START_SECONDS)
        assert silent(ready=False, starved=starved).stuck(START_SECONDS + 1)


@given(st.integers(1, 100), st.integers(0, 30))
def test_while_a_lane_starves_its_time_stands_still(starved_s: int, after_s: int) -> None:
    """It has all of it again when it gets a core."""
    lane = LaneState(LaneSettings("desk"), Ledger(1, 8), Hearing(PATIENCE_S), ready=True)
    process = Process(starved=True)
    lane.child = cast(Child, process)
    assert not any(lane.stuck(float(now)) for now in range(starved_s + 1))
    process.starved = False
    begun = process.heard
    assert starved_s - begun <= LATE_SECONDS
    assert bool(lane.stuck(begun + after_s)) == (after_s > HUNG_SECONDS)


@pytest.mark.parametrize(
    ("position", "blocks", "waiting", "verdict"),
    [(0, 100, 0, Verdict.NO_EAR), (100, 100, 3, Verdict.NO_SCRIBE), (0, 0, 0, Verdict.NO_SOUND)],
)
@pytest.mark.parametrize("starved", [False, True])
def test_what_a_lane_does_not_do_while_it_starves_says_nothing(
    silent: Silent, position: int, blocks: int, waiting: int, verdict: Verdict, starved: bool
) -> None:
    """It does not listen to what comes, it does not take what is heard, or nothing comes to it; and it beats all the time."""
    lane = silent(starved=starved)
    stuck = ""
    for at in range(1, 13):
        assert lane.child
        lane.child.heard = float(at)
        lane.hearing.beat(float(at), at * position, at * blocks, waiting, 7)
        stuck = stuck or lane.stuck(float(at))
    assert lane.hearing.judge() is (Verdict.HEARS if starved else verdict)
    assert stuck == ("" if starved or verdict is Verdict.NO_SOUND else verdict.value)


def test_how_long_it_has_waited_is_as_of_its_last_beat() -> None:
    hearing = Hearing(PATIENCE_S)
    assert hearing.waited_s == 0
    hearing.start(10.0)
    hearing.beat(11.0, 16_000, 25, 0, 1)
    assert hearing.waited_s == 0
    hearing.beat(13.0, 16_000, 25, 0, 1)
    assert hearing.waited_s == 2
    hearing.beat(14.0, 32_000, 50, 3, 1)
    hearing.beat(15.0, 48_000, 75, 3, 1)
    assert hearing.waited_s == 2, "at 13 s nothing waited for the scribe"
    hearing.stop()
    assert hearing.waited_s == 0
