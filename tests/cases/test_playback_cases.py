"""The device's own voice: rows W5 and E15 of the collected cases, by the real pipeline."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from voiced import assembly
from voiced.audio import AudioFrame, Samples
from voiced.events import Event, Final, NearMiss, Trigger, TurnClosed, Wake, WakeRefused
from voiced.models import Library
from voiced.pipeline import Pipeline
from voiced.settings import Settings, parse
from voiced.units import RATE, to_samples

BLOCK = 640
TAIL = to_samples(Settings().playback.echo_ms)


@pytest.fixture(scope="module")
def made(library: Library, tmp_path_factory: pytest.TempPathFactory) -> Pipeline:
    return assembly.pipeline(Settings(), library, tmp_path_factory.mktemp("runtime"))


@pytest.fixture
def pipeline(made: Pipeline) -> Iterator[Pipeline]:
    made.reset()
    yield made
    made.ears.playback(active=False)


class Room:
    """Sound that a pipeline hears in blocks; `now` is how far."""

    def __init__(self, pipeline: Pipeline) -> None:
        self.pipeline, self.now, self.events = pipeline, 0, list[Event]()

    def hear(self, sound: Samples) -> None:
        whole = np.concatenate((sound, np.zeros(-len(sound) % BLOCK, np.int16)))
        for first in range(0, len(whole), BLOCK):
            self.events += self.pipeline.feed(AudioFrame(self.now, whole[first : first + BLOCK].copy()))
            self.now += BLOCK

    def quiet(self, seconds: float) -> None:
        self.hear(np.zeros(round(seconds * RATE), np.int16))

    def of(self, *kinds: type) -> list[Any]:
        return [event for event in self.events if isinstance(event, kinds)]


def query(sample: Samples, truth: dict[str, Any]) -> Samples:
    """What was asked, without the phrase."""
    turn = truth["turns"][0]
    return sample[turn["speech_start"] : turn["speech_end"] + RATE // 5]


def test_the_devices_own_phrase_does_not_wake_it(pipeline: Pipeline, phrases: list[Samples]) -> None:
    """CASES W5: refused, with a reason that can be asked for; the same sound wakes when nothing is played any more."""
    room = Room(pipeline)
    room.quiet(1)
    pipeline.ears.playback(active=True)
    room.hear(phrases[0])
    room.quiet(0.5)
    pipeline.ears.playback(active=False)
    (refused,) = room.of(WakeRefused)
    assert (refused.phrase, refused.verdict) == ("jarvis", "heard while a client played sound")
    assert refused.scores["stage1"] >= refused.scores["stage1_threshold"]
    assert not room.of(Wake)
    room.quiet(2)
    room.hear(phrases[0])
    room.quiet(1)
    assert [wake.phrase for wake in room.of(Wake)] == ["jarvis"]


def test_a_phrase_in_the_echo_does_not_wake_it_either(pipeline: Pipeline, phrases: list[Samples]) -> None:
    """CASES W5: what was played is still in the room for a while; the row's sound ends with the playback."""
    room = Room(pipeline)
    room.quiet(1)
    pipeline.ears.playback(active=True)
    room.hear(phrases[0])
    pipeline.ears.playback(active=False)
    room.quiet(1)
    assert not room.of(Wake) and len(room.of(WakeRefused)) == 1


def test_a_follow_up_hears_nothing_of_what_was_played(pipeline: Pipeline, sample: Samples, truth: dict[str, Any]) -> None:
    """CASES E15: asked for while the device speaks; the tail of 400 ms is speech, too, and is in no turn."""
    room = Room(pipeline)
    asked = query(sample, truth)
    room.quiet(1)
    pipeline.ears.playback(active=True)
    room.hear(asked)
    pipeline.ears.command(Trigger(0, 7, follow_up=True))
    assert pipeline.ears.echoing
    room.hear(asked)
    assert not room.of(Wake)
    pipeline.ears.playback(active=False)
    end = room.now
    room.hear(asked[RATE // 2 : RATE // 2 + TAIL])  # the echo
    room.hear(asked)
    room.quiet(3)
    (wake,) = room.of(Wake)
    assert (wake.phrase, wake.verdict) == ("", "a follow-up, asked for by a client")
    assert end + TAIL <= wake.phrase_end <= end + TAIL + 2 * BLOCK
    assert list(pipeline.scribe.triggered) == [(7, wake.turn)]
    (final,) = room.of(Final)
    assert final.text == "Turn on the lights in the kitchen."


def test_a_follow_up_where_nothing_is_played_is_at_once(pipeline: Pipeline) -> None:
    room = Room(pipeline)
    room.quiet(1)
    assert not pipeline.ears.echoing
    pipeline.ears.command(Trigger(0, 7, follow_up=True))
    room.quiet(0.1)
    (wake,) = room.of(Wake)
    assert wake.phrase_end <= RATE + BLOCK
    room.quiet(6)
    assert [closed.reason.value for closed in room.of(TurnClosed)] == ["no speech"], "and ends by itself"


def test_playback_that_begins_again_is_waited_for_and_a_trigger_is_not_kept_waiting(pipeline: Pipeline) -> None:
    """Somebody who presses a button while the device speaks wants to be heard now."""
    room = Room(pipeline)
    room.quiet(1)
    pipeline.ears.playback(active=True)
    pipeline.ears.command(Trigger(0, 1, follow_up=True))
    room.quiet(1)
    pipeline.ears.playback(active=False)
    room.quiet(0.3)
    pipeline.ears.playback(active=True)
    room.quiet(1)
    assert not room.of(Wake)
    pipeline.ears.command(Trigger(0, 2))
    room.quiet(0.1)
    (wake,) = room.of(Wake)
    assert wake.verdict == "asked for by a client"
    pipeline.ears.playback(active=False)
    room.quiet(7)
    assert room.of(Wake) == [wake], "the follow-up that waited is no more"


def test_a_follow_up_is_forgotten_with_its_sound(pipeline: Pipeline) -> None:
    room = Room(pipeline)
    pipeline.ears.playback(active=True)
    pipeline.ears.command(Trigger(0, 1, follow_up=True))
    room.quiet(0.5)
    pipeline.ears.withdraw()
    pipeline.ears.playback(active=False)
    room.quiet(2)
    assert not room.of(Wake, NearMiss)


def test_where_speech_opens_turns_the_devices_own_opens_none(
    library: Library, tmp_path_factory: pytest.TempPathFactory, sample: Samples, truth: dict[str, Any]
) -> None:
    """CASES W5, E15 of a lane that wants no phrase: what is played, and its echo, is in no turn."""
    settings = parse("lanes: [{name: a, listen: always}]", "f")
    pipeline = assembly.pipeline(settings, library, tmp_path_factory.mktemp("runtime"), lane="a")
    room, asked = Room(pipeline), query(sample, truth)
    room.quiet(1)
    pipeline.ears.playback(active=True)
    room.hear(asked)
    pipeline.ears.playback(active=False)
    end = room.now
    room.hear(asked[RATE // 2 : RATE // 2 + TAIL])  # the echo
    assert not room.of(Wake)
    room.hear(asked)
    room.quiet(3)
    (wake,) = room.of(Wake)
    assert wake.phrase_end >= end + TAIL
    (final,) = room.of(Final)
    assert final.text == "Turn on the lights in the kitchen."
