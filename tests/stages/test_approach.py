"""Near misses: told once, never of a crossing."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st
from voiced.stages.approach import SHARE, Approach
from voiced.stages.wake import Crossing


def told(
    scores: Sequence[float], *, hops: int = 2, wait_hops: int = 3, refractory_hops: int = 18
) -> tuple[list[tuple[int, float]], list[int]]:
    """Near misses (hop and peak), and the hops at which a crossing was told, as the ears have it."""
    crossing = Crossing(threshold=0.9, hops=hops, wait_hops=wait_hops)
    approach = Approach(threshold=0.9, wait_hops=wait_hops, refractory_hops=refractory_hops)
    misses, crossings = [], []
    for hop, score in enumerate(scores):
        crossed = crossing.step(hop, score)
        missed = approach.step(score, crossed=crossed is not None)
        if crossed:
            crossings.append(hop)
        if missed is not None:
            misses.append((hop, missed))
    return misses, crossings


QUIET = [0.0] * 30


def test_a_score_that_comes_near_and_goes_is_told_once_with_its_peak() -> None:
    assert told([*QUIET, 0.5, 0.86, 0.7, *QUIET]) == ([(35, 0.86)], [])


def test_a_spike_that_is_too_short_is_a_near_miss() -> None:
    """W7, the other side of it: it does not wake, and it can be asked about."""
    assert told([*QUIET, 0.99, *QUIET]) == ([(33, 0.99)], [])


def test_less_than_half_of_the_way_is_nothing() -> None:
    assert told([*QUIET, *[0.9 * SHARE - 0.01] * 5, *QUIET]) == ([], [])


def test_a_crossing_is_no_near_miss_however_soon_the_score_falls() -> None:
    for high in range(2, 12):
        misses, crossings = told([*QUIET, 0.6, *[0.95] * high, *QUIET])
        assert (misses, len(crossings)) == ([], 1)


def test_one_at_the_most_in_the_refractory_time() -> None:
    once = [0.7, 0.7, *[0.0] * 4]
    assert len(told(once * 3)[0]) == 1
    assert len(told((once + QUIET) * 3)[0]) == 3


@given(st.lists(st.floats(0, 1), max_size=200), st.integers(1, 4), st.integers(0, 4), st.integers(0, 30))
def test_none_within_the_refractory_time_of_another_or_of_a_crossing(scores: list[float], hops: int, more: int, refractory: int) -> None:
    misses, crossings = told(scores, hops=hops, wait_hops=hops + more, refractory_hops=refractory)
    at = [hop for hop, _ in misses]
    assert all(later - earlier > refractory for earlier, later in itertools.pairwise(at))
    assert not any(0 <= miss - crossing < refractory for miss in at for crossing in crossings)
    assert all(peak >= SHARE * 0.9 for _, peak in misses)


def test_reset_forgets_what_was_coming() -> None:
    approach = Approach(threshold=0.9, wait_hops=2, refractory_hops=0)
    approach.step(0.8, crossed=False)
    approach.reset()
    assert [approach.step(0.0, crossed=False) for _ in range(5)] == [None] * 5
