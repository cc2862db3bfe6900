"""Any rate to 16 kHz: tones stay tones, nothing folds down, blocks do not matter; by the Python binding and by the C library alone."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from voiced.errors import InternalError
from voiced.sources.resample import LibSoxr, Resampler, resampler
from voiced.units import RATE

RATES = [8_000, 11_025, 16_000, 22_050, 24_000, 32_000, 44_100, 48_000, 96_000]
INSIDE = slice(RATE // 10, -RATE // 10)

Sound = NDArray[np.float32]
Make = Callable[[int], Resampler]


def c_library(rate: int) -> Resampler:
    try:
        return LibSoxr(rate)
    except InternalError as error:
        pytest.skip(str(error))


@pytest.fixture(params=[resampler, c_library], ids=["package", "library"])
def make(request: pytest.FixtureRequest) -> Make:
    found: Make = request.param
    return found


def tone(hertz: float, rate: int, seconds: float = 2) -> Sound:
    return (8000 * np.sin(2 * np.pi * hertz * np.arange(round(seconds * rate)) / rate)).astype(np.float32)


def convert(stream: Resampler, sound: Sound, sizes: Sequence[int]) -> Sound:
    parts, at, number = [], 0, 0
    while at < len(sound):
        size = sizes[number % len(sizes)]
        parts.append(stream.resample_chunk(sound[at : at + size]))
        at, number = at + size, number + 1
    return np.concatenate([*parts, stream.resample_chunk(np.zeros(0, np.float32), last=True)])


def hertz_of(sound: Sound) -> float:
    """Of a tone, by the turn of its phase: exact to a hundredth."""
    wide = sound.astype(np.float64)[INSIDE]
    analytic = np.convolve(wide * np.exp(-2j * np.pi * 1000 * np.arange(len(wide)) / RATE), np.hanning(1600), "valid")
    phase = np.unwrap(np.angle(analytic))
    return float(1000 + (phase[-1] - phase[0]) / (2 * np.pi) * RATE / (len(phase) - 1))


@pytest.mark.parametrize("rate", RATES)
def test_a_kilohertz_stays_one(make: Make, rate: int) -> None:
    """CASES R1, R2, R6, H5: within 0.1 Hz (wanted: 1), at its level and in its place, from every rate."""
    got = convert(make(rate), tone(1000, rate), [rate // 25])
    assert abs(len(got) - 2 * RATE) <= 1
    assert hertz_of(got) == pytest.approx(1000, abs=0.1)
    wanted = 8000 * np.sin(2 * np.pi * 1000 * np.arange(len(got)) / RATE)
    assert np.abs(got - wanted)[INSIDE].max() < 1


@pytest.mark.parametrize("rate", [44_100, 48_000, 96_000])
@pytest.mark.parametrize("hertz", [9_000, 10_000, 15_000])
def test_what_would_fold_down_is_gone(make: Make, rate: int, hertz: float) -> None:
    """CASES R16: at least 80 dB down (wanted: 60), where linear interpolation leaves half of it."""
    got = convert(make(rate), tone(hertz, rate), [rate // 25])
    left = np.sqrt(np.mean(got.astype(np.float64)[INSIDE] ** 2))
    assert 20 * np.log10(left / (8000 / np.sqrt(2)) + 1e-12) < -80


@settings(max_examples=25)
@given(
    rate=st.sampled_from([rate for rate in RATES if rate != RATE]),
    sizes=st.lists(st.integers(1, 5000), min_size=1, max_size=8),
    make=st.sampled_from([resampler, c_library]),
)
def test_the_block_size_does_not_matter(rate: int, sizes: list[int], make: Make) -> None:
    sound = np.random.default_rng(1).normal(0, 3000, rate // 2).astype(np.float32)
    one, many = (convert(make(rate), sound, each) for each in ([len(sound)], sizes))
    assert len(one) == len(many)
    assert np.sqrt(np.mean((one - many) ** 2)) < 1e-4 * np.std(one)  # below -80 dB


@pytest.mark.parametrize("rate", [8_000, 44_100, 48_000])
def test_both_ways_compute_the_same(rate: int) -> None:
    sound = np.random.default_rng(2).normal(0, 3000, rate).astype(np.float32)
    package, library = (convert(make(rate), sound, [1920]) for make in (resampler, c_library))
    assert len(package) == len(library)
    assert np.abs(package - library).max() < 0.5  # of 32768: -96 dB


def test_without_the_package_the_library_takes_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    c_library(48_000)
    monkeypatch.setitem(sys.modules, "soxr", None)
    assert isinstance(resampler(48_000), LibSoxr)


def test_without_both_the_package_to_install_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "soxr", None)

    def absent(name: str) -> None:
        raise OSError(name)

    monkeypatch.setattr("ctypes.CDLL", absent)
    with pytest.raises(InternalError, match="neither its Python package nor its C library is installed; apt install libsoxr0"):
        resampler(48_000)


def test_a_rate_that_cannot_be_is_an_error_with_soxrs_own_words() -> None:
    c_library(48_000)
    with pytest.raises(InternalError, match="cannot convert -1 Hz to 16000 Hz"):
        LibSoxr(-1)
