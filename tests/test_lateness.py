"""The histogram of lateness: percentiles from above, never beyond the worst."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from voiced.lateness import STEP, Lateness, LatenessStatistics
from voiced.statistics import percentile


@given(st.lists(st.floats(0, 20_000), min_size=1, max_size=200))
def test_a_percentile_is_told_to_a_quarter_of_itself(values: list[float]) -> None:
    late = Lateness()
    for value in values:
        late.add(value)
    found = late.statistics()
    assert found.count == len(values)
    assert abs(found.mean_ms - sum(values) / len(values)) < 0.01
    assert found.worst_ms == round(max(values), 3)
    for percent, told in ((50, found.p50_ms), (95, found.p95_ms), (99, found.p99_ms)):
        true = percentile(values, percent)
        assert true - 0.001 <= told
        assert told <= max(STEP * true, 0.5) + 0.001 or true > 7000


def test_nothing_is_zero() -> None:
    assert Lateness().statistics() == LatenessStatistics(0, 0.0, 0.0, 0.0, 0.0, 0.0)
