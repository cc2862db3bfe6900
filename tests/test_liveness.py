"""Who is stopped, who is in a debugger's hands, who only waits, by what the kernel says at two looks; how long each may be silent."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest
from debugger import held
from hypothesis import given
from hypothesis import strategies as st
from livedaemon import until
from voiced.children import START_SECONDS, Child
from voiced.hearing import Hearing
from voiced.lanestate import HUNG_SECONDS, LaneState
from voiced.ledger import Ledger
from voiced.liveness import Look, Standing, standing
from voiced.settings import LaneSettings

looks = st.builds(Look, st.sampled_from("RSDTtZ"), st.integers(0, 9))


# ── what two looks mean ────────────────────────────────────────────────────────────────────────────────────────────────


@given(st.lists(looks, min_size=2))
def test_only_what_never_ran_between_two_looks_is_stopped(seen: list[Look]) -> None:
    before = None
    for now in seen:
        stopped = before is not None and before == now and now.state == "T"
        assert (standing(before, now) is Standing.STOPPED) == stopped
        before = now


@given(st.none() | looks, st.integers(0, 9))
def test_a_debuggers_stop_is_none_of_ours(before: Look | None, switches: int) -> None:
    assert standing(before, Look("t", switches)) is Standing.HELD


@given(st.none() | looks, st.sampled_from("RD"), st.integers(0, 9))
def test_what_waits_for_a_core_or_a_disk_is_not_asleep(before: Look | None, state: str, switches: int) -> None:
    assert standing(before, Look(state, switches)) is Standing.WANTING


def test_what_slept_all_the_time_is_asleep_and_what_ran_stirs() -> None:
    assert standing(Look("S", 7), Look("S", 7)) is Standing.ASLEEP
    assert standing(Look("S", 7), Look("S", 8)) is standing(Look("R", 7), Look("S", 7)) is standing(None, Look("S", 7)) is Standing.STIRRING


# ── what the kernel says ───────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def sleeper() -> Iterator[int]:
    """A process that waits for ever, until the test is over."""
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    until(lambda: Look.at(process.pid).state == "S", "its sleep", lambda: Look.at(process.pid))
    yield process.pid
    process.kill()
    process.communicate()


def in_state(pid: int, state: str) -> Look:
    until(lambda: Look.at(pid).state == state, f"the state {state}", lambda: Look.at(pid))
    return Look.at(pid)


def test_a_stop_is_seen_at_the_second_look(sleeper: int) -> None:
    asleep = Look.at(sleeper)
    os.kill(sleeper, signal.SIGSTOP)
    first = in_state(sleeper, "T")
    assert standing(asleep, first) is Standing.STIRRING
    assert standing(first, Look.at(sleeper)) is Standing.STOPPED
    os.kill(sleeper, signal.SIGCONT)
    assert standing(first, in_state(sleeper, "S")) is Standing.STIRRING


def test_what_is_stopped_and_let_go_again_and_again_is_slowed_down_and_not_stopped(sleeper: int) -> None:
    """As cpulimit does it, also to a process that has nothing to do: every look finds it stopped."""
    before = None
    for _ in range(20):
        os.kill(sleeper, signal.SIGSTOP)
        now = in_state(sleeper, "T")
        assert standing(before, now) is Standing.STIRRING
        before = now
        os.kill(sleeper, signal.SIGCONT)
        in_state(sleeper, "S")


def test_a_debugger_is_told_from_a_stop(sleeper: int) -> None:
    with held(sleeper):
        first = in_state(sleeper, "t")
        assert standing(first, Look.at(sleeper)) is Standing.HELD
    assert standing(first, in_state(sleeper, "S")) is Standing.STIRRING


def test_one_that_is_gone_is_nothing_in_particular() -> None:
    process = subprocess.Popen(["true"])
    process.wait()
    assert Look.at(process.pid) == Look("", 0)


# ── how long a lane may be silent ──────────────────────────────────────────────────────────────────────────────────────

Silent = Callable[[Standing, bool], LaneState]


@pytest.fixture
def silent() -> Silent:
    def silent(standing: Standing, ready: bool) -> LaneState:
        """A lane whose process stands so, and was heard last at 0 s."""
        lane = LaneState(LaneSettings("desk"), Ledger(1, 8), Hearing(3.0), ready=ready)
        child: Any = SimpleNamespace(heard=0.0, standing=standing)
        lane.child = cast(Child, child)
        return lane

    return silent


@pytest.mark.parametrize("how", [Standing.STIRRING, Standing.ASLEEP])
def test_a_lane_that_could_beat_and_does_not_is_stuck(silent: Silent, how: Standing) -> None:
    assert not silent(how, True).stuck(HUNG_SECONDS)
    assert silent(how, True).stuck(HUNG_SECONDS + 1) == "it has not answered for 11 s"


def test_a_lane_that_waits_for_a_core_is_never_stuck(silent: Silent) -> None:
    assert not silent(Standing.WANTING, True).stuck(100 * HUNG_SECONDS)


def test_one_that_loads_has_its_time_and_no_more(silent: Silent) -> None:
    for how in (Standing.WANTING, Standing.ASLEEP):
        assert not silent(how, False).stuck(START_SECONDS)
        assert silent(how, False).stuck(START_SECONDS + 1)
