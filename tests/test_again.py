"""Hearing again: after a cancel in any state, after a reset, one turn after the other. Never one-shot, never deaf."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import voiced
from sounds import noise, sound, to_int16
from voiced import assembly
from voiced.audio import AudioFrame, Samples
from voiced.events import Cancel, CloseReason, Endpoint, Event, Final, SpeechStarted, Trigger, TurnClosed, Wake
from voiced.models import Library
from voiced.pipeline import Pipeline
from voiced.settings import Settings
from voiced.stages.wake import Crossing, Stage1
from voiced.units import RATE, to_samples

DATA = Path(voiced.__file__).parent / "data"
FIRST, SECOND = json.loads((DATA / "sample.json").read_text())["turns"]
BLOCK = 640
LIVE_AGAIN = to_samples(300)


@pytest.fixture(scope="module")
def sample() -> Samples:
    return sound(DATA / "sample.flac")


@pytest.fixture(scope="module")
def quiet(sample: Samples) -> Samples:
    """A second and a half of the recording's own room."""
    return sample[FIRST["speech_end"] + 4000 : FIRST["speech_end"] + 28_000]


@pytest.fixture(scope="module")
def pipeline(library: Library, tmp_path_factory: pytest.TempPathFactory) -> Pipeline:
    return assembly.pipeline(Settings(), library, tmp_path_factory.mktemp("runtime"))


class Feeder:
    """Sound piece after piece, at positions that go on."""

    def __init__(self, pipeline: Pipeline) -> None:
        pipeline.reset()
        self.pipeline, self.at = pipeline, 0

    def feed(self, *pieces: Samples, until: Callable[[Event], bool] = lambda _: False) -> list[Event]:
        """All of it, or up to the block that gives the event."""
        told: list[Event] = []
        for piece in pieces:
            for first in range(0, len(piece), BLOCK):
                frame = AudioFrame(self.at, piece[first : first + BLOCK].copy())
                told += self.pipeline.feed(frame)
                self.at = frame.end
                if any(map(until, told)):
                    return told
        return told


def spoken(sample: Samples, turn: dict[str, int]) -> Samples:
    """The phrase and what is asked after it, with the room before and after."""
    return sample[turn["phrase_start"] - LIVE_AGAIN : turn["speech_end"] + RATE]


def kind(*kinds: type) -> Callable[[Event], bool]:
    return lambda event: isinstance(event, kinds)


@pytest.mark.parametrize("state", ["asleep", "awake", "hearing", "trailing", "asked by a client", "closed"])
def test_cancel_in_every_state_and_the_next_phrase_wakes(pipeline: Pipeline, sample: Samples, quiet: Samples, state: str) -> None:
    """D10: what is said 300 ms after it is heard, phrase and words."""
    feeder = Feeder(pipeline)
    feeder.feed(quiet)
    first = spoken(sample, FIRST)
    speech = first[: len(first) - RATE]
    match state:
        case "awake":
            feeder.feed(first, until=kind(Wake))
        case "hearing":
            feeder.feed(first, until=kind(SpeechStarted))
        case "trailing":
            feeder.feed(speech)
            while pipeline.scribe.machine.state.value == "hearing":
                feeder.feed(quiet[:BLOCK])
        case "asked by a client":
            pipeline.ears.command(Trigger(0))
            feeder.feed(quiet[:3200])
        case "closed":
            feeder.feed(first, quiet, until=kind(Endpoint))
    expected = {"asked by a client": "awake", "closed": "asleep"}.get(state, state)
    assert pipeline.scribe.machine.state.value == expected
    pipeline.ears.command(Cancel(0))
    closed = feeder.feed(quiet[:BLOCK])
    assert [event.reason for event in closed if isinstance(event, TurnClosed)] == [CloseReason.CANCELLED] * (expected != "asleep")
    assert pipeline.scribe.machine.state.value == "asleep"
    told = feeder.feed(spoken(sample, SECOND), quiet)  # its phrase begins 300 ms from here
    assert [event.phrase for event in told if isinstance(event, Wake)] == [SECOND["phrase"]]
    assert [event.text for event in told if isinstance(event, Final)] == [SECOND["text"]]


def test_five_turns_back_to_back(pipeline: Pipeline, sample: Samples, quiet: Samples) -> None:
    """D4: five of five, and nothing is open after each."""
    feeder = Feeder(pipeline)
    turn = np.concatenate((spoken(sample, SECOND), quiet))
    for number in range(1, 6):
        told = feeder.feed(turn)
        assert [(event.turn, event.phrase) for event in told if isinstance(event, Wake)] == [(number, SECOND["phrase"])]
        assert [event.text for event in told if isinstance(event, Final)] == [SECOND["text"]]
        assert pipeline.idle
        assert not pipeline.ears.attending


RESETS = 1000


@pytest.mark.slow  # 25,000 hops
def test_a_stage_that_was_reset_never_wakes_in_silence(library: Library, sample: Samples) -> None:
    """D14: a thousand times, with a phrase or a noise before it, and two seconds of silence after it; the score stays far below any
    threshold from the first hop on, since a window that holds nothing yet is as silence."""
    stage = Stage1({"jarvis": library.find("jarvis").files["model"]}, library.find(Settings().models.wake_embedding).files["model"])
    stage.warm_up()
    crossing = Crossing(threshold=0.5, hops=1, wait_hops=1)
    phrase = sample[FIRST["phrase_start"] : FIRST["phrase_end"]]
    hiss = to_int16(0.1 * noise(len(phrase), "white"))
    silence = np.zeros(stage.hop, np.int16)
    before = [sound[at : at + stage.hop] for sound in (phrase, hiss) for at in range(0, len(sound) - stage.hop + 1, stage.hop)]
    highest = 0.0
    for number in range(RESETS):
        stage.step(before[number % len(before)])
        stage.reset()
        crossing.reset()
        for hop in range(2 * RATE // stage.hop):
            (score,) = stage.step(silence)
            highest = max(highest, score)
            assert crossing.step(hop, score) is None
    assert highest < 0.1
