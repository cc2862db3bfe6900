"""Ears alone, with a VAD that writes down what it is given."""

from __future__ import annotations

import numpy as np
import pytest
from voiced.audio import AudioFrame, Ring, Samples
from voiced.ears import UNIT, VAD_HOP, Ears, Spotting
from voiced.events import SpeechProbability, Trigger


class Listening:
    """Which windows it heard since its last reset, by their first sample (the sound counts VAD windows)."""

    def __init__(self) -> None:
        self.heard: list[int] = []

    def step(self, samples: Samples) -> float:
        self.heard.append(int(samples[0]))
        return 0.0

    def reset(self) -> None:
        self.heard = []


@pytest.mark.parametrize("at", [10 * VAD_HOP, 10 * VAD_HOP + UNIT], ids=["on the grid", "off the grid"])
def test_a_trigger_lets_the_vad_hear_each_window_once(at: int) -> None:
    vad = Listening()
    ears = Ears(Ring(64_000), vad, Spotting(None, None, (), (), 0))
    sound = (np.arange(20 * VAD_HOP) // VAD_HOP).astype(np.int16)
    assert not list(ears.hear(AudioFrame(0, sound[: at - UNIT].copy())))
    ears.command(Trigger(0))
    told = [fact for heard in ears.hear(AudioFrame(at - UNIT, sound[at - UNIT :].copy())) for fact in heard.facts]
    assert [type(fact) for fact in told[:2]] == [Trigger, SpeechProbability]
    assert told[0].sample == at
    assert vad.heard == list(range(20))
    assert [fact.sample for fact in told[1:]] == [VAD_HOP * window for window in range(11, 21)]
