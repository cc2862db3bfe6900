"""What a microphone gave, and what is said about it: built sounds whose figures are known."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from voiced.soundcheck import Sound, clipped, dbfs, drift_of, hum_of, measure, place_of

RATE = 16_000
SECONDS = 4
WINDOWS = SECONDS * 1000 // 32

Floats = NDArray[np.float64]


def noise(level_dbfs: float, seed: int = 1, rate: int = RATE) -> Floats:
    return np.random.default_rng(seed).normal(0, 32768 * 10 ** (level_dbfs / 20), SECONDS * rate)


def tone(hertz: float, level_dbfs: float, rate: int = RATE) -> Floats:
    return 32768 * math.sqrt(2) * 10 ** (level_dbfs / 20) * np.sin(2 * np.pi * hertz * np.arange(SECONDS * rate) / rate)


def int16(*channels: Floats) -> Sound:
    return np.clip(np.rint(np.stack(channels, axis=1)), -32768, 32767).astype(np.int16)


def talk(level_dbfs: float, seed: int = 2) -> tuple[Floats, list[bool]]:
    """Noise for speech, in every other half second."""
    spoken = [at // 16 % 2 == 1 for at in range(WINDOWS)]
    return noise(level_dbfs, seed) * np.repeat(spoken, 512), spoken


@settings(max_examples=30)
@given(st.floats(-80, -10), st.floats(0, 60), st.integers(0, 100))
def test_noise_and_speech_are_told_apart(noise_dbfs: float, above_db: float, seed: int) -> None:
    voice, spoken = talk(min(noise_dbfs + above_db, -12), seed)
    (channel,) = measure(int16(noise(noise_dbfs, seed + 1) + voice), RATE, spoken).channels
    assert channel.noise == pytest.approx(noise_dbfs, abs=1.5)  # the least tenth lies below the mean
    if above_db > 10 and noise_dbfs + above_db < -12:
        assert channel.speech == pytest.approx(noise_dbfs + above_db, abs=1)
        assert channel.snr == pytest.approx(above_db, abs=2)


def test_zeros_are_no_rooms_noise() -> None:
    """A server that is just starting, and a headset's gate, give some."""
    voice, spoken = talk(-30)
    sound = noise(-60) + voice
    sound[: 2 * RATE] = 0
    (channel,) = measure(int16(sound), RATE, [False] * (WINDOWS // 2) + spoken[WINDOWS // 2 :]).channels
    assert channel.noise == pytest.approx(-60, abs=1.5)


def test_where_nobody_spoke_nothing_is_said_of_speech() -> None:
    (channel,) = measure(int16(noise(-60)), RATE, [False] * WINDOWS).channels
    assert channel.speech is None and channel.snr is None
    assert channel.level == pytest.approx(-60, abs=0.1)


def test_digital_silence_and_a_bit_that_flips_are_dead() -> None:
    """CASES H4."""
    flips = np.where(np.arange(SECONDS * RATE) % 2, 1.0, -1.0)
    found = measure(int16(np.zeros(SECONDS * RATE), flips, noise(-70)), RATE, [])
    assert [channel.level for channel in found.channels] == [-120, pytest.approx(-90.3, abs=0.1), pytest.approx(-70, abs=0.2)]
    assert [channel.dead for channel in found.channels] == [True, True, False]
    assert found.best == 2


@pytest.mark.parametrize("live", range(6))
def test_the_live_channel_is_found(live: int) -> None:
    """CASES R8, R10."""
    voice, spoken = talk(-30)
    constant = np.full(SECONDS * RATE, 9000.0)
    channels = [np.zeros(SECONDS * RATE), constant, noise(-80), noise(-45), np.zeros(SECONDS * RATE)]
    channels.insert(live, voice + noise(-60))
    found = measure(int16(*channels), RATE, spoken)
    assert found.best == live
    assert sum(channel.dead for channel in found.channels) == 3


@given(st.floats(-0.3, 0.3))
def test_a_constant_voltage_is_no_sound(part: float) -> None:
    (channel,) = measure(int16(noise(-50) + part * 32768), RATE, []).channels
    assert channel.dc == pytest.approx(part, abs=0.001)
    assert channel.level == pytest.approx(-50, abs=0.2)


def test_channels_of_opposite_phase_are_named() -> None:
    voice, spoken = talk(-30)
    found = measure(int16(voice + noise(-60, 3), -0.5 * voice + noise(-60, 4), voice * 0.5, noise(-40, 5)), RATE, spoken)
    assert (found.best, found.opposite) == (0, (1,))


@given(st.floats(0.05, 0.9))
@settings(max_examples=20)
def test_clipping_is_the_part_that_is_cut_off(part: float) -> None:
    """Of a sine: what is above the limit, wherever the converter has its limit."""
    sine = np.sin(2 * np.pi * 100 * np.arange(RATE) / RATE)
    limit = math.cos(part * math.pi / 2)
    for full in (32767, 20_000):
        assert clipped(np.clip(sine / limit * full, -full, full)) == pytest.approx(part, abs=0.03)


def test_loud_is_not_clipped() -> None:
    assert clipped(32767 * np.sin(2 * np.pi * 1000.7 * np.arange(RATE) / RATE)) == 0
    assert clipped(noise(-12)) == 0
    assert clipped(np.full(RATE, 100.0)) == 0  # flat, and not at an end


@pytest.mark.parametrize("mains", [50, 60])
@pytest.mark.parametrize("rate", [8_000, 16_000, 44_100, 48_000])
def test_hum_is_found_with_its_level(mains: int, rate: int) -> None:
    sound = noise(-60, 1, rate) + tone(mains, -40, rate) + tone(2 * mains, -46, rate)
    hertz, level = hum_of(sound, rate)
    assert hertz == mains
    assert level == pytest.approx(10 * math.log10(1e-4 + 10**-4.6), abs=0.5)


@pytest.mark.parametrize("sound", [noise(-50), tone(55, -30), tone(1000, -20), np.zeros(SECONDS * RATE)])
def test_what_is_no_hum(sound: Floats) -> None:
    assert hum_of(sound, RATE)[0] == 0
    assert hum_of(sound[: RATE // 2], RATE) == (0, -120)  # too short to tell


@settings(max_examples=30)
@given(st.floats(-5000, 5000), st.integers(0, 1000))
def test_drift_is_told_with_its_error(ppm: float, seed: int) -> None:
    """A device at another speed, whose reads return up to 20 ms late, some of them in bursts."""
    random = np.random.default_rng(seed)
    due = np.arange(1, 501) * 640 / (RATE * (1 + ppm / 1e6)) * 1e9
    at = np.maximum.accumulate(due + random.exponential(2e6, 500).clip(0, 2e7) * (random.random(500) < 0.7))
    found, error = drift_of([(640 * (number + 1), int(time)) for number, time in enumerate(at)], RATE)
    assert error < 500
    assert abs(found - ppm) <= max(2 * error, 5)


def test_of_a_second_no_drift_can_be_told() -> None:
    assert drift_of([(640 * number, number * 40_000_000) for number in range(25)], RATE) == (0, math.inf)


@given(st.integers(0, 20_000), st.floats(0.05, 1), st.integers(0, 50))
@settings(max_examples=30)
def test_a_burst_is_found_to_the_sample(at: int, gain: float, seed: int) -> None:
    burst = np.random.default_rng(99).normal(0, 3000, 800)
    sound = np.random.default_rng(seed).normal(0, 30, 30_000)
    sound[at : at + 800] += gain * burst
    place, clearly = place_of(burst, sound)
    assert place == at
    assert clearly > 3


def test_noise_has_no_burst() -> None:
    burst = np.random.default_rng(99).normal(0, 3000, 800)
    assert place_of(burst, np.random.default_rng(1).normal(0, 300, 30_000))[1] < 1.5
    assert place_of(burst, np.zeros(30_000))[1] < 1.5


def test_a_level_is_that_of_a_square_wave() -> None:
    assert dbfs(32768.0**2) == 0
    assert dbfs(0) == -120


@pytest.mark.parametrize("shape", [(0, 2), (5,)])
def test_what_cannot_be_measured_is_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="measure wants sound of shape"):
        measure(np.zeros(shape, np.int16), RATE, [])
