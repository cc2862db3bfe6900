"""The turn detector: Whisper's features from first principles, and a whole sentence told from one that is cut off."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sounds import noise, sound, to_int16
from voiced.audio import Samples
from voiced.errors import ModelError
from voiced.models import Library
from voiced.stages.features import Floats, mel_filters
from voiced.stages.turn_detector import BINS, FRAMES, WINDOW, TurnDetector, WhisperMel

LIGHTS = (30_480, 54_480)
"""Where "Turn on the lights in the kitchen." begins and ends in the sample (sample.json)."""
BREAD = (94_480, 121_440)
"""The same of "I think the bread is almost done."."""
QUIET = slice(58_000, 61_200)
"""Its room between the turns."""


@pytest.fixture(scope="module")
def detector(library: Library) -> TurnDetector:
    try:
        files = library.find("smart-turn", "turn-detector").files
    except ModelError as error:
        pytest.skip(f"the turn detector is optional: {error}")
    stage = TurnDetector(files["model"])
    stage.warm_up()
    return stage


def by_definition(samples: Samples) -> Floats:
    """The features, frame by frame with a plain DFT in float64."""
    whole = np.zeros(WINDOW)
    whole[WINDOW - len(samples) :] = samples / 32768
    level = (whole - whole.mean()) / np.sqrt(whole.var() + 1e-7)
    mirrored = np.concatenate((level[200:0:-1], level, level[-2:-202:-1]))
    window = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(400) / 400)
    turns = np.exp(-2j * np.pi * np.outer(np.arange(201), np.arange(400)) / 400)
    frames = np.array([mirrored[at : at + 400] * window for at in range(0, WINDOW, 160)])
    mel = np.log10(np.maximum(np.abs(frames @ turns.T) ** 2 @ mel_filters(BINS, 400, 0, 8000).astype(np.float64), 1e-10))
    features: Floats = ((np.maximum(mel, mel.max() - 8) + 4) / 4).T.astype(np.float32)
    return features


@settings(max_examples=5)
@given(st.integers(1, WINDOW), st.integers(0, 100))
def test_the_features_are_whispers(count: int, seed: int) -> None:
    samples = to_int16(noise(count, "white", seed) * np.linspace(0.001, 0.2, count))
    found = WhisperMel()(samples)
    assert found.shape == (BINS, FRAMES)
    assert found.dtype == np.float32
    assert np.abs(found - by_definition(samples)).max() < 1e-4


def test_silence_has_features() -> None:
    """A muted device has no variance to divide by."""
    assert np.ptp(WhisperMel()(np.zeros(100, np.int16))) == 0


def test_its_filters_are_triangles_of_unit_area_up_to_half_the_rate() -> None:
    filters = mel_filters(BINS, 400, 0, 8000)
    assert filters.shape == (201, BINS)
    assert filters[-1].max() < 1e-6  # the last triangle ends at 8 kHz
    assert np.allclose(filters.sum(0)[50:] * 40, 1, atol=0.1)  # the wide ones: bins sample them finely


@pytest.mark.parametrize("turn", [LIGHTS, BREAD])
def test_a_sentence_has_ended_where_it_ends(detector: TurnDetector, sample: Samples, turn: tuple[int, int]) -> None:
    """With 0.2 s of the room after it, as the heart asks."""
    assert detector.step(np.concatenate((sample[slice(*turn)], sample[QUIET]))) > 0.9


@pytest.mark.parametrize("words_ms", [900, 1000, 1100, 1200, 1300])
def test_it_has_not_ended_after_turn_on_the_lights_in_the(detector: TurnDetector, sample: Samples, words_ms: int) -> None:
    first = LIGHTS[0]
    assert detector.step(np.concatenate((sample[first : first + 16 * words_ms], sample[QUIET]))) < 0.2


@pytest.mark.slow
def test_whole_recordings_have_ended_rather_than_their_halves(detector: TurnDetector, data_dir: Path) -> None:
    """Sentences read aloud, whole and cut in the middle: chance would be right in half."""
    entries = [json.loads(line) for line in (data_dir / "manifest.jsonl").read_text(encoding="utf-8").splitlines()]
    reads = [one for one in entries if one["source"] == "ljspeech-subset" and 2 < one["seconds"] < 8][:16]
    whole, half = [], []
    for one in reads:
        samples = sound(data_dir / one["path"])
        whole.append(detector.step(samples))
        half.append(detector.step(samples[: len(samples) // 2]))
    right = np.sum(np.array(whole) >= 0.5) + np.sum(np.array(half) < 0.5)
    assert right >= 0.7 * 2 * len(reads) > 0
    assert np.mean(whole) > np.mean(half) + 0.3


def test_only_the_last_eight_seconds_count(detector: TurnDetector, sample: Samples) -> None:
    assert detector.step(sample[:WINDOW]) == detector.step(np.concatenate((sample[-WINDOW:], sample[:WINDOW])))


def test_nothing_is_kept_between_two_questions(detector: TurnDetector, sample: Samples) -> None:
    once = detector.step(sample[slice(*LIGHTS)])
    detector.step(sample[slice(*BREAD)])
    detector.warm_up()
    detector.reset()
    assert detector.step(sample[slice(*LIGHTS)]) == once


def test_another_model_is_refused_by_name(library: Library) -> None:
    path = library.find("silero-vad").files["model"]
    with pytest.raises(ModelError, match=r"silero_vad\.onnx: a model of another kind: expected inputs input_features \(any, 80, 800\)"):
        TurnDetector(path)


def test_another_type_is_refused_by_name(detector: TurnDetector) -> None:
    with pytest.raises(ValueError, match=r"TurnDetector wants int16 of shape \(n,\), n > 0; got float32 \(512,\)"):
        detector.step(np.zeros(512, np.float32))
    with pytest.raises(ValueError, match=r"got int16 \(0,\)"):
        detector.step(np.zeros(0, np.int16))


def test_counts(detector: TurnDetector, sample: Samples) -> None:
    before = detector.statistics()
    detector.step(sample[slice(*LIGHTS)])
    detector.step(sample[LIGHTS[0] : LIGHTS[0] + 16_000])
    after = detector.statistics()
    assert (after.asked - before.asked, after.finished - before.finished) == (2, 1)
