"""Percentiles against their definition; counts and latencies apart."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from voiced.events import CloseReason, Final, Partial, TextSource, TurnClosed, Wake
from voiced.statistics import KEPT, Statistics, percentile

FINAL = Final(9, 1, "hello", TextSource.SECOND_PASS, "hello", "", {"second_pass_ms": 40.0, "endpoint_ms": 300.0})


@given(st.lists(st.floats(-1e9, 1e9), min_size=1, max_size=200), st.integers(1, 100))
def test_a_percentile_is_the_least_value_that_so_many_are_not_above(values: list[float], percent: int) -> None:
    found = percentile(values, percent)
    assert found in values
    assert 100 * sum(value <= found for value in values) >= percent * len(values)
    assert 100 * sum(value < found for value in values) < percent * len(values)


@given(st.lists(st.floats(-1e9, 1e9), min_size=1))
def test_the_ends_are_the_least_and_the_greatest(values: list[float]) -> None:
    assert percentile(values, 0) == min(values)
    assert percentile(iter(values), 100) == max(values)


def test_percentiles_of_a_hundred() -> None:
    hundred = list(range(100, 0, -1))
    assert [percentile(hundred, percent) for percent in (1, 50, 90, 95, 99)] == [1, 50, 90, 95, 99]


def test_nothing_has_no_percentile() -> None:
    with pytest.raises(ValueError, match="at least one value"):
        percentile([], 50)


def test_nothing_happened_is_no_number() -> None:
    assert Statistics().numbers() == {}


def test_events_are_counted_by_kind() -> None:
    statistics = Statistics()
    for event in (Wake(1, 1, "jarvis", 1, 1.0, ""), Partial(2, 1, "a"), Partial(3, 1, "a b"), TurnClosed(9, 1, CloseReason.STOPPED, 1, 9)):
        statistics.event(event, None)
    assert statistics.numbers() == {"events_Wake": 1, "events_Partial": 2, "events_TurnClosed": 1}


def test_partials_and_finals_have_latencies_of_their_own() -> None:
    statistics = Statistics()
    for since in range(1, 101):
        statistics.event(Partial(2, 1, "a"), float(since))
    statistics.event(FINAL, 5000.0)  # since its sound arrived says nothing: the final came later than its sound
    numbers = statistics.numbers()
    assert [numbers[f"partial_ms_p{percent}"] for percent in (50, 90, 95, 99)] == [50, 90, 95, 99]
    assert {numbers[f"second_pass_ms_p{percent}"] for percent in (50, 90, 95, 99)} == {40.0}
    assert {numbers[f"endpoint_ms_p{percent}"] for percent in (50, 90, 95, 99)} == {300.0}
    assert not any(math.isclose(value, 5000) for value in numbers.values())


def test_the_newest_thousand_are_kept() -> None:
    statistics = Statistics()
    for since in range(3 * KEPT):
        statistics.event(Partial(2, 1, "a"), float(since))
    assert statistics.numbers()["partial_ms_p50"] == 2.5 * KEPT - 1
    assert statistics.numbers()["events_Partial"] == 3 * KEPT


def test_lanes_say_their_own_counts_and_the_last_word_holds() -> None:
    statistics = Statistics()
    statistics.count("reconnects")
    statistics.count("reconnects", 2)
    statistics.beat("main", {"overrun": 1, "blocks": 10})
    statistics.beat("main", {"overrun": 3})
    statistics.beat("desk", {"overrun": 0})
    assert statistics.numbers() == {"reconnects": 3, "main.overrun": 3, "desk.overrun": 0}
