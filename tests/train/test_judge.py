"""Figures by hand: word errors, intervals, slots, shares of end tokens, and the table."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from voiced_train.judge import Clip, Figures, Heard, figures, interval, slots_right, table, with_pause
from voiced_train.sound import RATE


def heard(
    text: str, token_ms: float | None, *, early: bool = False, wanted: str | None = "turn it on", slots: tuple[str, ...] = ()
) -> Heard:
    """A clip of 2 s whose speech ends after 1 s."""
    token = None if token_ms is None else RATE + round(token_ms * RATE / 1000)
    told = None if token is None else token + 4800
    return Heard(Clip("a.flac", wanted, slots), text, RATE, token, told, early, 2.0, 0.1)


def test_figures_by_hand() -> None:
    pytest.importorskip("jiwer", reason="word errors want jiwer: pip install '.[train]'")
    rows = [
        heard("turn it on", 100),
        heard("turn on", 300),
        heard("turn it off now", 700),
        heard("turn it on", None),
        heard("turn it on", -500, early=True),
    ]
    found = figures(rows, {500: 0.25})

    assert found.wer is not None
    assert found.wer == pytest.approx(3 / 15)
    assert found.wer_low is not None
    assert found.wer_high is not None
    assert found.wer_low <= found.wer <= found.wer_high
    assert found.within == {200: 0.2, 400: 0.4, 800: 0.6}
    assert found.early == 0.2
    assert found.told_ms == pytest.approx(600)
    assert found.real_time_factor == pytest.approx(0.05)


def test_orders_have_slots_and_no_words() -> None:
    rows = [heard("a light roast coffee", 0, wanted=None, slots=("light roast", "mocha")), heard("mocha", 0, wanted=None, slots=("mocha",))]
    assert [slots_right(row) for row in rows] == [(1, 2), (1, 1)]
    found = figures(rows, {})
    assert found.wer is None
    assert found.slots == pytest.approx(2 / 3)


def test_a_slot_is_whole_words() -> None:
    assert slots_right(heard("a latte please", 0, wanted=None, slots=("late", "latte"))) == (1, 2)


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(1, 9)), min_size=1, max_size=30))
def test_the_interval_holds_the_ratio_of_equal_parts(values: list[tuple[int, int]]) -> None:
    low, high = interval(values)
    ratios = [part / whole for part, whole in values]
    assert min(ratios) - 1e-9 <= low <= high <= max(ratios) + 1e-9


def test_a_pause_is_put_into_the_quietest_moment() -> None:
    rng = np.random.default_rng(0)
    sound = (0.2 * rng.standard_normal(2 * RATE)).astype(np.float32)
    sound[:4000] *= 0.001
    sound[-4000:] *= 0.001
    sound[15000:16000] *= 0.01
    longer, start, end = with_pause(sound, 500)
    assert end - start == RATE // 2
    assert len(longer) == len(sound) + RATE // 2
    assert 15000 <= start <= 16000
    assert np.abs(longer[start:end]).max() < 0.01


def test_the_table_has_a_line_a_set_and_model() -> None:
    row = Figures(3, 0.25, 0.2, 0.3, None, {200: 0.5, 400: 0.75, 800: 1.0}, 0.0, 310.0, {500: 0.05}, 0.0241)
    lines = table({"old": {"orders": row}, "new": {"orders": row}}).splitlines()
    assert len(lines) == 4
    assert lines[2] == "| orders | old | 3 | 25.0% (20.0% … 30.0%) |  | 50% | 75% | 100% | 0% | 310 ms | 5% | 0.024 |"
