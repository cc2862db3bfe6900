"""Arithmetic on sound: levels, bounds, joins, noise."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from voiced_train.sound import RATE, at_16k, at_level, faded, room_noise, silence, speech_bounds, speech_level_db, trimmed

HALF_WINDOW = RATE // 100  # an edge is known to half of a 20 ms window


def tone(samples: int, amplitude: float = 0.5) -> np.ndarray:
    return (amplitude * np.sin(2 * np.pi * 440 * np.arange(samples) / RATE)).astype(np.float32)


@given(st.integers(0, 8000), st.integers(1600, 16000), st.integers(0, 8000))
def test_bounds_find_what_was_placed(before: int, length: int, after: int) -> None:
    sound = np.concatenate([np.zeros(before, np.float32), tone(length), np.zeros(after, np.float32)])
    start, end = speech_bounds(sound)
    assert abs(start - before) <= HALF_WINDOW + 80
    assert abs(end - (before + length)) <= HALF_WINDOW + 80
    assert 0 <= start < end <= len(sound)


@given(st.integers(1, 400))
def test_bounds_of_very_short_sound_are_inside_it(length: int) -> None:
    start, end = speech_bounds(np.ones(length, np.float32))
    assert 0 <= start < end <= length


@pytest.mark.parametrize("sound", [np.zeros(0, np.float32), np.zeros(5000, np.float32)])
def test_silence_has_no_bounds(sound: np.ndarray) -> None:
    with pytest.raises(ValueError, match="silence"):
        speech_bounds(sound)


@given(st.floats(-60, -10), st.floats(0.001, 1))
def test_level_is_what_was_asked_for(dbfs: float, amplitude: float) -> None:
    levelled = at_level(tone(8000, amplitude), dbfs)
    assert speech_level_db(levelled) == pytest.approx(dbfs, abs=0.2)


def test_level_never_clips() -> None:
    click = np.concatenate([tone(8000, 0.01), np.ones(1, np.float32)])
    assert np.abs(at_level(click, -3)).max() <= 0.99 + 1e-6


def test_fade_begins_and_ends_near_zero_and_keeps_the_middle() -> None:
    sound = np.ones(1000, np.float32)
    out = faded(sound, 5)
    assert out[0] < 0.001
    assert out[-1] < 0.001
    assert (out[80:-80] == 1).all()
    assert (sound == 1).all()


def test_noise_has_its_level_and_falls_with_frequency() -> None:
    noise = room_noise(RATE * 4, -65, np.random.default_rng(1))
    assert 20 * np.log10(np.sqrt((noise.astype(float) ** 2).mean())) == pytest.approx(-65, abs=0.1)
    power = np.abs(np.fft.rfft(noise)) ** 2
    hertz = np.fft.rfftfreq(len(noise), 1 / RATE)
    octaves = [power[(hertz >= low) & (hertz < 2 * low)].mean() for low in (250, 1000, 4000)]
    assert octaves[0] / octaves[1] == pytest.approx(4, rel=0.2)
    assert octaves[1] / octaves[2] == pytest.approx(4, rel=0.2)


def test_resampling_keeps_time_and_pitch() -> None:
    second = np.sin(2 * np.pi * 1000 * np.arange(24_000) / 24_000).astype(np.float32)
    resampled = at_16k(second, 24_000)
    assert len(resampled) == RATE
    assert np.abs(np.fft.rfft(resampled)).argmax() == 1000


def test_trimmed_joins_to_exact_lengths() -> None:
    piece = trimmed(np.concatenate([silence(100), tone(4000), silence(50)]))
    assert len(np.concatenate([piece, silence(300), piece])) == 2 * len(piece) + 4800
