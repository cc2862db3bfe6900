"""Levels of sounds whose level is known."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from voiced.loudness import FLOOR_DBFS, STRETCH_MS, Level, Loudness
from voiced.units import to_samples

STRETCH = to_samples(STRETCH_MS)


def level(sound: np.ndarray) -> Level | None:
    return Loudness().step(sound.astype(np.int16))


@pytest.mark.parametrize("dbfs", [0, -20, -60])
def test_a_sine_is_three_decibels_below_its_peak(dbfs: int) -> None:
    peak = 32767 * 10 ** (dbfs / 20)
    found = level(np.round(peak * np.sin(2 * np.pi * 440 * np.arange(STRETCH) / 16_000)))
    assert found
    assert found.peak_dbfs == pytest.approx(dbfs, abs=0.3) and found.rms_dbfs == pytest.approx(dbfs - 3.01, abs=0.3)


def test_the_softest_and_the_loudest() -> None:
    assert level(np.zeros(STRETCH)) == Level(FLOOR_DBFS, FLOOR_DBFS)
    assert level(np.full(STRETCH, -32768)) == Level(0.0, 0.0)


@given(st.lists(st.integers(0, 1500), max_size=20))
def test_blocks_of_any_length_are_told_once_a_stretch(blocks: list[int]) -> None:
    loudness, since = Loudness(), 0
    for block in blocks:
        since += block
        told = loudness.step(np.full(block, 1000, np.int16))
        assert (told is not None) == (since >= STRETCH)
        since = 0 if told else since
