"""Until when the second pass is waited for: by the newest order, from the turn's end, and never for what is here."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from voiced.deadlines import Deadlines
from voiced.events import Rewrite


def order(turn: int, attempt: int = 1) -> Rewrite:
    return Rewrite(0, turn, attempt, 0, 16_000)


def test_nothing_is_waited_for_before_the_turn_ends() -> None:
    waits = Deadlines()
    assert (waits.patience(0), waits.late(0)) == (None, None)
    waits.ask(order(8))
    assert (waits.patience(100), waits.late(100)) == (None, None)
    waits.end(8, 101.5)
    assert (waits.patience(100), waits.late(101.4)) == (1.5, None)
    assert (waits.patience(102), waits.late(102)) == (0, order(8))
    assert (waits.patience(102), waits.late(102)) == (None, None)  # once


def test_an_answer_that_waits_for_the_scribe_is_not_late() -> None:
    waits = Deadlines()
    waits.ask(order(8, attempt=2))
    waits.end(8, 1)
    waits.answer(8, 1)  # of an attempt that was dropped
    assert waits.patience(0) == 1
    waits.answer(8, 2)
    assert (waits.patience(0), waits.late(2)) == (None, None)


def test_a_deadline_made_shorter_does_not_wait_for_a_longer_one() -> None:
    waits = Deadlines()
    for turn, until in ((8, 60.0), (16, 1.0)):
        waits.ask(order(turn))
        waits.end(turn, until)
    assert (waits.patience(0), waits.late(1)) == (1, order(16))
    waits.close(8)
    assert (waits.patience(0), waits.late(100)) == (None, None)


def test_a_later_attempt_keeps_the_time_and_one_that_is_closed_is_nobodys() -> None:
    waits = Deadlines()
    waits.ask(order(8))
    waits.end(8, 1)
    waits.ask(order(8, attempt=2))
    assert waits.late(1) == order(8, attempt=2)
    waits.close(8)
    waits.answer(8, 2)
    waits.end(8, 0)
    assert (waits.patience(0), waits.late(100)) == (None, None)


@given(st.dictionaries(st.integers(0, 50), st.floats(0, 10), max_size=8), st.sets(st.integers(0, 50)), st.floats(0, 11))
def test_late_are_all_whose_time_is_over_and_that_did_not_answer(ends: dict[int, float], answered: set[int], now: float) -> None:
    waits = Deadlines()
    for turn, until in ends.items():
        waits.ask(order(turn))
        waits.end(turn, until)
    for turn in answered:
        waits.answer(turn, 1)
    late = []
    while found := waits.late(now):
        late.append(found.turn)
    assert sorted(late) == sorted(turn for turn, until in ends.items() if until <= now and turn not in answered)
    assert [ends[turn] for turn in late] == sorted(ends[turn] for turn in late)
    left = [until for turn, until in ends.items() if until > now and turn not in answered]
    assert waits.patience(now) == (min(left) - now if left else None)
