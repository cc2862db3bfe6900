"""Coming back to a turn's sound after a question: all of it is heard, once, at a bounded pace."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from voiced.stages.catching_up import CatchingUp


@given(st.integers(0, 80_000), st.integers(0, 10_000), st.integers(512, 20_000), st.lists(st.integers(1, 512), min_size=1, max_size=200))
def test_all_is_heard_once_and_no_step_hears_more_than_its_pace(late: int, rest: int, pace: int, steps: list[int]) -> None:
    catching_up = CatchingUp(late, rest, pace)
    came = heard = 0
    for samples in steps:
        came += samples
        now = catching_up.step(samples)
        assert 0 <= now <= pace
        assert now == 0 or came >= rest
        heard += now
        assert catching_up.late == late + came - heard >= 0


def test_five_seconds_are_caught_up_with_in_a_pause() -> None:
    catching_up = CatchingUp(80_000, 0, 2 * 5120)
    steps = 0
    while catching_up.late:
        catching_up.step(512)
        steps += 1
    assert steps * 32 <= 288
