"""The transducer's filter banks: kaldi's numbers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from voiced.audio import Samples
from voiced.stages.filterbank import BINS, filter_banks


def noise(samples: int, seed: int = 0) -> Samples:
    return (np.random.default_rng(seed).standard_normal(samples) * 3000).clip(-32768, 32767).astype(np.int16)


def by_definition(samples: Samples, frame: int) -> NDArray[np.float64]:
    """One frame from the definition, in float64, a band at a time with a plain DFT."""
    at = np.arange(frame * 160 - 120, frame * 160 + 280)
    at = np.where(at < 0, -at - 1, at)
    at = np.where(at >= len(samples), 2 * len(samples) - 1 - at, at)
    x = samples[at] / 32768
    x = x - x.mean()
    x = np.append(x[0] - 0.97 * x[0], x[1:] - 0.97 * x[:-1])
    x = x * (0.5 - 0.5 * np.cos(2 * np.pi * np.arange(400) / 399)) ** 0.85
    power = np.abs(np.exp(-2j * np.pi * np.outer(np.arange(256), np.arange(400)) / 512) @ x) ** 2
    mel = 1127 * np.log(1 + np.arange(256) * 16000 / 512 / 700)
    low, high = 1127 * np.log(1 + 20 / 700), 1127 * np.log(1 + 7600 / 700)
    step = (high - low) / (BINS + 1)
    bands = [(power * np.maximum(1 - np.abs(mel - (low + step * (band + 1))) / step, 0)).sum() for band in range(BINS)]
    return np.log(np.maximum(bands, 2.0**-23))


@pytest.mark.parametrize("frame", [0, 1, 37, 99])
def test_is_what_the_definition_gives(frame: int) -> None:
    sound = noise(16_000)
    assert np.allclose(filter_banks(sound)[frame], by_definition(sound, frame), atol=2e-3)


def test_numbers_of_kaldi_native_fbank() -> None:
    """A 440 Hz tone of half the height, 0.1 s; computed once by kaldi-native-fbank 1.23.0."""
    tone = np.round(16_384 * np.sin(2 * np.pi * 440 * np.arange(1600) / 16_000)).astype(np.int16)
    frames = filter_banks(tone)
    assert frames.shape == (10, BINS)
    assert frames[5, [0, 10, 14, 15, 40, 79]] == pytest.approx([-11.0152, -4.8208, 4.3466, 3.9100, -15.9424, -13.7620], abs=5e-3)


def test_silence_is_kaldis_floor() -> None:
    assert np.unique(filter_banks(np.zeros(1600, np.int16))) == pytest.approx([-15.9424], abs=1e-4)


@given(samples=st.integers(280, 5000))
@settings(max_examples=12)
def test_frames_are_one_each_10_ms_and_the_inner_ones_do_not_depend_on_the_length(samples: int) -> None:
    sound = noise(5200)
    frames, whole = filter_banks(sound[:samples]), filter_banks(sound)
    assert frames.shape == ((samples + 80) // 160, BINS)
    inner = max((samples - 280) // 160 + 1, 0)
    assert np.allclose(frames[:inner], whole[:inner], atol=1e-3)


@given(samples=st.integers(280, 5000), seed=st.integers(0, 9))
@settings(max_examples=12)
def test_is_what_kaldi_native_fbank_gives(samples: int, seed: int) -> None:
    pytest.importorskip("kaldi_native_fbank", reason="compares with kaldi-native-fbank where that is installed")
    from voiced_train.features import filter_banks as kaldis

    sound = noise(samples, seed)
    assert np.allclose(filter_banks(sound), kaldis((sound / 32768).astype(np.float32)), atol=2e-3)


@pytest.mark.parametrize("wrong", [np.zeros(279, np.int16), np.zeros(1600, np.float32), np.zeros((2, 1600), np.int16)])
def test_anything_else_is_refused_by_name(wrong: Samples) -> None:
    with pytest.raises(ValueError, match="filter_banks wants int16"):
        filter_banks(wrong)
