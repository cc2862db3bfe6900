"""Silero VAD hears speech, and hears it only with its context."""

from __future__ import annotations

import numpy as np
import pytest
from sounds import hops, noise, to_int16
from voiced.audio import Samples
from voiced.models import Library
from voiced.stages.session import Tensor, open_session
from voiced.stages.vad import _INPUTS, CONTEXT, Vad

SPEECH = slice(32_080, 56_080)
"""The first query of the sample (sample.json)."""


def test_speech_is_speech_and_the_pause_is_not(vad: Vad, sample: Samples) -> None:
    vad.reset()
    probabilities = np.array([vad.step(hop) for hop in hops(sample, vad.hop)])
    speech = probabilities[SPEECH.start // vad.hop + 1 : SPEECH.stop // vad.hop]
    assert np.mean(speech > 0.5) > 0.9
    assert np.max(probabilities[64_000 // vad.hop : 92_000 // vad.hop]) < 0.5  # between the turns


@pytest.mark.parametrize("colour", ["white", "pink"])
def test_steady_noise_is_not_speech(vad: Vad, colour: str) -> None:
    assert max(vad.track(to_int16(noise(32_000, colour) * 0.03))) < 0.5


def test_without_the_context_nothing_fails_and_nothing_is_speech(library: Library, vad: Vad, sample: Samples) -> None:
    """So that a stage which forgot it would be noticed: the same windows, the 64 samples before each left out."""
    session = open_session(library.find("silero-vad").files["model"], inputs=_INPUTS)
    state = np.zeros((2, 1, 128), np.float32)
    bare = []
    for hop in hops(sample[SPEECH], vad.hop):
        feeds: dict[str, Tensor] = {"input": hop[None].astype(np.float32) / 32768, "state": state, "sr": np.array(16_000, np.int64)}
        output, state = session.run(feeds)
        bare.append(float(output[0, 0]))
    assert max(bare) < 0.12
    assert max(vad.track(sample[SPEECH])) > 0.9
    assert CONTEXT == 64


def test_track_is_stepping_from_birth_to_birth(vad: Vad, sample: Samples) -> None:
    vad.reset()
    stepped = tuple(vad.step(hop) for hop in hops(sample[SPEECH], vad.hop))
    assert vad.track(sample[SPEECH]) == stepped
    assert vad.step(sample[: vad.hop]) == vad.track(sample[: vad.hop])[0]


def test_warm_up_leaves_it_as_at_birth(vad: Vad, sample: Samples) -> None:
    first = vad.track(sample[SPEECH])
    vad.step(sample[SPEECH][: vad.hop])
    vad.warm_up()
    assert tuple(vad.step(hop) for hop in hops(sample[SPEECH], vad.hop)) == first


def test_another_size_or_type_is_refused_by_name(vad: Vad) -> None:
    with pytest.raises(ValueError, match=r"Vad wants int16 of shape \(512,\); got int16 \(480,\)"):
        vad.step(np.zeros(480, np.int16))
    with pytest.raises(ValueError, match=r"got float32 \(512,\)"):
        vad.step(np.zeros(512, np.float32))


def test_counts(library: Library, sample: Samples) -> None:
    vad = Vad(library.find("silero-vad").files["model"])
    probabilities = vad.track(sample[SPEECH])
    counted = vad.statistics()
    assert counted.windows == len(probabilities)
    assert counted.speech_windows == sum(probability >= 0.5 for probability in probabilities) > 0
