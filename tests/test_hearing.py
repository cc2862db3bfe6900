"""A lane that does not hear is found, within its patience and never before; whose fault it is depends on what comes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from voiced.hearing import OVERLOAD_S, SCRIBE_PATIENCE_S, Hearing, Overload, Verdict

PATIENCE = 3.0
BEAT = 0.5


def beats(hearing: Hearing, since: float, seconds: float, *, listened: bool, came: bool) -> float:
    """A lane's beats for so long; the time after the last."""
    count = round(seconds / BEAT)
    for number in range(1, count + 1):
        now = since + number * BEAT
        hearing.beat(now, round(16_000 * (now if listened else since)), round(25 * (now if came else since)), 0, 0)
    return since + count * BEAT


@given(st.integers(1, 1000), st.integers(0, 100))
def test_what_goes_on_hears(before: int, after: int) -> None:
    hearing = Hearing(PATIENCE)
    hearing.start(0.0)
    now = beats(hearing, 0.0, before * BEAT, listened=True, came=True)
    assert hearing.judge() is Verdict.HEARS
    beats(hearing, now, after * BEAT, listened=False, came=False)
    assert hearing.judge() is (Verdict.HEARS if after * BEAT < PATIENCE else Verdict.NO_SOUND)


def test_sound_that_nobody_listens_to_is_the_lanes_fault() -> None:
    hearing = Hearing(PATIENCE)
    hearing.start(0.0)
    now = beats(hearing, 0.0, 10, listened=True, came=True)
    now = beats(hearing, now, PATIENCE - BEAT, listened=False, came=True)
    assert hearing.judge() is Verdict.HEARS
    hearing.beat(now + BEAT, 10 * 16_000, round(25 * (now + BEAT)), 0, 0)
    assert hearing.judge() is Verdict.NO_EAR


def test_nothing_is_expected_of_a_lane_without_a_source_and_a_new_one_has_time() -> None:
    hearing = Hearing(PATIENCE)
    hearing.beat(0.0, 16_000, 25, 0, 0)
    hearing.beat(1000.0, 16_000, 25, 0, 0)
    assert hearing.judge() is Verdict.HEARS
    hearing.start(1000.0)
    hearing.beat(1000.0 + PATIENCE - BEAT, 16_000, 25, 0, 0)
    assert hearing.judge() is Verdict.HEARS
    hearing.beat(1000.0 + PATIENCE, 16_000, 25, 0, 0)
    assert hearing.judge() is Verdict.NO_SOUND, "not one block"
    hearing.stop()
    assert hearing.judge() is Verdict.HEARS


def test_a_lane_that_does_not_beat_is_not_judged() -> None:
    hearing = Hearing(PATIENCE)
    hearing.start(0.0)
    beats(hearing, 0.0, PATIENCE - BEAT, listened=False, came=False)
    assert hearing.judge() is Verdict.HEARS, "it is the lane that is stopped, which others see"


@given(st.integers(1, 100), st.integers(0, 60))
def test_a_scribe_that_takes_nothing_of_what_waits_is_the_lanes_fault(waiting: int, beats_on: int) -> None:
    """Sound comes and is listened to, and no turn would ever open."""
    hearing = Hearing(PATIENCE)
    hearing.start(0.0)
    now = beats(hearing, 0.0, 20, listened=True, came=True)
    for number in range(1, beats_on + 1):
        then = now + number * BEAT
        hearing.beat(then, round(16_000 * then), round(25 * then), waiting, 7)
    # the first of these beats says that it has taken seven
    expected = Verdict.HEARS if (beats_on - 1) * BEAT < SCRIBE_PATIENCE_S else Verdict.NO_SCRIBE
    assert hearing.judge() is expected


def test_a_scribe_that_is_slow_but_goes_on_is_left_alone() -> None:
    hearing = Hearing(PATIENCE)
    hearing.start(0.0)
    for number in range(1, 200):
        now = number * BEAT
        hearing.beat(now, round(16_000 * now), round(25 * now), 50, number)
    assert hearing.judge() is Verdict.HEARS


def test_a_lane_that_is_begun_again_has_time() -> None:
    """It counts from nothing, which may be what the one before had come to."""
    hearing = Hearing(PATIENCE)
    hearing.start(0.0)
    hearing.beat(1.0, 16_000, 25, 1, 0)
    hearing.stop()
    assert hearing.judge() is Verdict.HEARS
    hearing.start(1000.0)
    hearing.beat(1000.0, 16_000, 25, 1, 0)
    assert hearing.judge() is Verdict.HEARS


def test_what_waits_at_the_first_beat_has_just_come() -> None:
    """A clock that runs since the machine's start is no reason to be impatient."""
    hearing = Hearing(PATIENCE)
    hearing.start(100_000.0)
    assert hearing.judge() is Verdict.HEARS, "before any beat"
    hearing.beat(100_000.5, 16_000, 25, 3, 0)
    assert hearing.judge() is Verdict.HEARS


@given(st.lists(st.integers(0, 3), min_size=1, max_size=100))
def test_what_is_lost_for_want_of_time_counts_for_a_while(losses: list[int]) -> None:
    """CASES D9, R13, R14: overloaded from a loss on, until nothing was lost for ten seconds."""
    overload, lost = Overload(), 0
    last: float | None = None
    for number, more in enumerate(losses):
        now = 100 + number * BEAT
        lost += more
        last = now if more else last
        overload.beat(now, lost)
        assert overload.now == (last is not None and now - last < OVERLOAD_S)


def test_another_process_that_counts_from_zero_is_not_overloaded() -> None:
    overload = Overload()
    overload.beat(0, 5)
    overload.beat(OVERLOAD_S, 0)
    assert not overload.now
    overload.beat(OVERLOAD_S + BEAT, 1)
    assert overload.now


@given(st.floats(20, 1e6))
def test_who_could_not_hear_is_not_blamed(stood_still_s: float) -> None:
    """Neither for the sound nor for the facts that waited when the machine stood still."""
    hearing = Hearing(PATIENCE)
    hearing.start(0.0)
    hearing.beat(1.0, 16_000, 25, waiting=3, done=7)
    now = 1.0 + stood_still_s
    hearing.forgive(now)
    hearing.beat(now + BEAT, 16_000, 25, waiting=3, done=7)
    assert hearing.judge() is Verdict.HEARS
    hearing.beat(now + SCRIBE_PATIENCE_S, 17_000, 26, waiting=3, done=7)
    assert hearing.judge() is Verdict.NO_SCRIBE
