"""A lane that wants no phrase: speech opens its turns, one after the other, and no word is lost where one is cut."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from voiced import assembly
from voiced.batch import until_idle
from voiced.events import CloseReason, Event, Final, SpeechStarted, TurnClosed, Wake
from voiced.models import Library
from voiced.pipeline import LEAD_WINDOWS
from voiced.settings import listens_always, parse
from voiced.sources.wavfile import WavSource
from voiced.units import to_samples

SAMPLE = Path(assembly.__file__).parent / "data" / "sample.flac"


def heard(library: Library, directory: Path, block: int = 640, **endpoint: float) -> list[Event]:
    knobs = ", ".join(f"{name}: {value}" for name, value in endpoint.items())
    settings = parse(f"lanes: [{{name: a, listen: always, endpoint: {{{knobs}}}}}, {{name: b}}]", "f")
    pipeline = assembly.pipeline(settings, library, directory, lane="a")
    return [event for frame in until_idle(WavSource(SAMPLE, block), block, pipeline) for event in pipeline.feed(frame)]


@pytest.fixture(scope="module")
def events(library: Library, tmp_path_factory: pytest.TempPathFactory) -> list[Event]:
    return heard(library, tmp_path_factory.mktemp("runtime"))


def test_one_lane_listens_always_and_another_for_its_phrase() -> None:
    settings = parse("lanes: [{name: a, listen: always}, {name: b}]", "f")
    assert [listens_always(settings, name) for name in ("a", "b", "")] == [True, False, False]


def test_whoever_speaks_is_heard_without_a_phrase(events: list[Event]) -> None:
    texts = [event.text.lower() for event in events if isinstance(event, Final)]
    assert len(texts) == 3
    for text, words in zip(texts, ("lights in the kitchen", "the bread is almost done", "what time is it"), strict=True):
        assert words in text
    wakes = [event for event in events if isinstance(event, Wake)]
    assert {(wake.phrase, wake.verdict) for wake in wakes} == {("", "somebody speaks")}


def test_a_turn_begins_before_its_speech_and_not_in_the_one_before(events: list[Event]) -> None:
    wakes = [event for event in events if isinstance(event, Wake)]
    speech = [event for event in events if isinstance(event, SpeechStarted)]
    for wake, first in zip(wakes, speech, strict=True):
        assert wake.phrase_end == wake.sample - LEAD_WINDOWS * 512 < first.first < wake.sample + to_samples(100)
    closed = [event for event in events if isinstance(event, TurnClosed)]
    assert all(before.last <= after.first for before, after in pairwise(closed))


def test_blocks_do_not_matter(library: Library, events: list[Event], tmp_path: Path) -> None:
    again = heard(library, tmp_path, 1000)
    assert [(type(event), event.sample) for event in again] == [(type(event), event.sample) for event in events]


def test_who_speaks_longer_than_a_turn_may_be_is_heard_on_in_the_next(library: Library, tmp_path: Path) -> None:
    """One turn ends where the next begins: within the window in which the VAD hears that speech goes on."""
    closed = [
        event
        for event in heard(library, tmp_path, too_long_ms=1300, silence_open_ms=1200, no_speech_ms=1000)
        if isinstance(event, TurnClosed)
    ]
    cut = [
        (before, after)
        for before, after in pairwise(closed)
        if before.reason is CloseReason.TOO_LONG and after.first - before.last < 16_000
    ]
    assert len(cut) >= 3
    assert all(after.first == before.last for before, after in cut)
