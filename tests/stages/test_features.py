"""The wake features: the mel from first principles, and streaming equal to the whole."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sounds import hops
from voiced.audio import Samples
from voiced.errors import ModelError
from voiced.models import Library
from voiced.stages.features import (
    EMBEDDING_FRAMES,
    EMBEDDINGS,
    HISTORY_HOPS,
    HOP,
    MEL_BINS,
    TAIL,
    Floats,
    Mel,
    WakeFeatures,
    mel_filters,
    windows,
)
from voiced.stages.session import Port, open_session


@pytest.fixture(scope="module")
def features(embedding: Path) -> WakeFeatures:
    stage = WakeFeatures(embedding)
    stage.warm_up()
    return stage


def by_definition(samples: Floats) -> Floats:
    """The mel spectrogram, frame by frame with a plain DFT in float64."""
    window = np.zeros(512)
    window[56:456] = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(400) / 400)
    turns = np.exp(-2j * np.pi * np.outer(np.arange(257), np.arange(512)) / 512)
    frames = [samples[at : at + 512] * window for at in range(0, len(samples) - 511, 160)]
    power = np.abs(np.array(frames) @ turns.T) ** 2
    mel: Floats = (10 * np.log10(np.maximum(power @ mel_filters(), 1e-10)) / 10 + 2).astype(np.float32)
    return mel


def test_the_filters_are_triangles_of_unit_area_on_slaneys_scale() -> None:
    filters = mel_filters()
    assert filters.shape == (257, MEL_BINS)
    used = np.flatnonzero(filters.any(1)) * 31.25
    assert used[0] > 60
    assert used[-1] < 3800
    assert np.allclose(filters.sum(0)[20:] * 31.25, 1, atol=0.02)  # the wide ones: bins sample them finely
    peaks = filters.argmax(0) * 31.25
    assert np.all(np.diff(peaks) > 0)
    steps = np.diff(peaks[1:12])
    assert np.ptp(steps) <= 31.25  # linear below 1 kHz
    assert peaks[31] - peaks[30] > 2 * (peaks[5] - peaks[4])  # geometric above


@given(st.integers(0, 2**32 - 1), st.integers(512, 3000), st.floats(0.1, 30_000))
@settings(max_examples=25, deadline=None)
def test_the_mel_is_what_its_definition_says(seed: int, count: int, scale: float) -> None:
    samples = (np.random.default_rng(seed).uniform(-1, 1, count) * scale).astype(np.float32)
    assert np.allclose(Mel()(samples), by_definition(samples), atol=1e-4)


def test_the_mel_of_digital_silence_is_the_floor() -> None:
    assert np.allclose(Mel()(np.zeros(512, np.float32)), np.full((1, MEL_BINS), -8), atol=1e-5)


def test_the_mel_equals_openwakewords_where_that_does_not_clamp(sample: Samples) -> None:
    folder = os.environ.get("VOICED_OPENWAKEWORD", "")
    path = Path(folder) / "melspectrogram.onnx"
    if not folder or not path.is_file():
        pytest.skip("VOICED_OPENWAKEWORD names no folder with openWakeWord's melspectrogram.onnx to compare with")
    session = open_session(path, inputs=[Port("input", (None, None))])
    samples = sample[19_120:28_080].astype(np.float32)
    theirs = session.run({"input": samples[None]})[0].reshape(-1, MEL_BINS) / 10 + 2
    ours = Mel()(samples)
    clamp = ours.max() - 8
    assert np.abs(np.maximum(ours, clamp) - theirs).max() < 1e-4


def test_streamed_equals_the_model_that_it_was_made_from(features: WakeFeatures, library: Library, sample: Samples) -> None:
    """Google's model over each 76 frames anew, as openWakeWord runs it."""
    try:
        original = library.find("openwakeword-embedding").files["model"]
    except ModelError:
        pytest.skip("openwakeword-embedding is not here: voicectl models fetch openwakeword-embedding")
    session = open_session(original, inputs=[Port("input_1", (None, EMBEDDING_FRAMES, MEL_BINS, 1))])
    sound = sample[: 60 * HOP]
    mel = np.concatenate((np.ones((EMBEDDING_FRAMES, MEL_BINS), np.float32), Mel()(np.pad(sound, (TAIL, 0)).astype(np.float32))))
    seen = np.stack([mel[8 * hop : 8 * hop + EMBEDDING_FRAMES] for hop in range(1, 61)])
    whole = session.run({"input_1": seen[..., None]})[0].reshape(60, 96)
    features.reset()
    streamed = np.stack([features.step(hop)[-1].copy() for hop in hops(sound, HOP)])
    assert np.abs(streamed - whole).max() < 1e-4
    assert np.abs(whole).max() > 1  # there was something to get wrong


def test_the_embeddings_are_those_that_the_original_gave(features: WakeFeatures, sample: Samples) -> None:
    """Written down when it ran beside ours: in the middle of the phrase, and of the silence after it."""
    features.reset()
    found = [features.step(hop)[-1].copy() for hop in hops(sample, HOP)[:60]]
    assert found[20][:5] == pytest.approx([-7.329, 5.730, 18.695, 10.415, -9.845], abs=2e-3)
    assert found[50][:5] == pytest.approx([-6.577, 25.064, 7.675, -3.106, 5.453], abs=2e-3)


def test_a_model_that_is_no_embedding_is_refused(library: Library) -> None:
    """A head for other tensors, or the original in a configuration of old, is named before anything is heard."""
    with pytest.raises(ModelError, match=r"expected inputs frames \(1, any, 32, 1\), state_0"):
        WakeFeatures(library.find("jarvis").files["model"])


@pytest.mark.parametrize("count", [1, 3, 15, 16, 17, 40])
def test_priming_is_having_been_stepped(features: WakeFeatures, sample: Samples, count: int) -> None:
    blocks = hops(sample[20_000:], HOP)[: count + 1]
    features.reset()
    for hop in blocks[:-1]:
        features.step(hop)
    stepped = features.step(blocks[-1]).copy()
    features.prime(np.concatenate(blocks[:-1]))
    assert np.abs(features.step(blocks[-1]) - stepped).max() < 1e-4


@pytest.mark.parametrize("count", [1, 7, 8, 9, 40])
def test_a_track_is_having_been_stepped_from_birth(features: WakeFeatures, sample: Samples, count: int) -> None:
    blocks = hops(sample[20_000:], HOP)[:count]
    features.reset()
    stepped = np.stack([features.step(hop).copy() for hop in blocks])
    assert np.abs(windows(features.track(np.concatenate(blocks))) - stepped).max() < 1e-4
    assert np.abs(features.step(blocks[0]) - stepped[0]).max() < 1e-4  # and it leaves the stage as it was born


def test_nothing_older_than_the_history_matters(features: WakeFeatures, sample: Samples) -> None:
    blocks = hops(sample, HOP)[:60]
    features.reset()
    for hop in blocks[:-1]:
        features.step(hop)
    stepped = features.step(blocks[-1]).copy()
    features.prime(np.concatenate(blocks[-1 - HISTORY_HOPS : -1]))
    assert np.abs(features.step(blocks[-1]) - stepped).max() < 1e-4
    features.prime(np.concatenate(blocks[-1 - HISTORY_HOPS // 2 : -1]))
    assert np.abs(features.step(blocks[-1]) - stepped).max() > 1e-2


def test_birth_reset_and_warm_up_are_one_state(features: WakeFeatures, embedding: Path, sample: Samples) -> None:
    born = WakeFeatures(embedding).step(sample[:HOP]).copy()
    for again in (features.reset, features.warm_up, lambda: features.prime(np.zeros(0, np.int16))):
        features.step(sample[HOP : 2 * HOP])
        again()
        assert np.array_equal(features.step(sample[:HOP]), born)
    assert born.shape == (EMBEDDINGS, 96)


def test_another_size_is_refused_by_name(features: WakeFeatures) -> None:
    with pytest.raises(ValueError, match=r"WakeFeatures wants int16 of shape \(1280,\); got int16 \(1279,\)"):
        features.step(np.zeros(1279, np.int16))
    with pytest.raises(ValueError, match=r"WakeFeatures.prime wants int16 of whole hops of 1280; got int16 \(1281,\)"):
        features.prime(np.zeros(1281, np.int16))
    with pytest.raises(ValueError, match=r"WakeFeatures.track wants int16 of whole hops of 1280; got int16 \(1281,\)"):
        features.track(np.zeros(1281, np.int16))
