"""No first word lost and no phrase in the text: the rows P* of the collected cases, by the real pipeline (voicectl selftest handover)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from voicectl.evaluation.handover import Case, Handover, lost_words, words
from voicectl.selftest import _sayings
from voiced import assembly
from voiced.audio import AudioFrame, Samples
from voiced.events import Endpoint, Event, Final, Trigger, Wake
from voiced.models import Library
from voiced.pipeline import RING_SECONDS, Pipeline
from voiced.settings import Settings
from voiced.units import RATE, to_samples


@pytest.fixture(scope="module")
def pipeline(library: Library, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pipeline]:
    yield assembly.pipeline(Settings(), library, tmp_path_factory.mktemp("runtime"))


@pytest.mark.parametrize("gap_ms", [0, 800, *(pytest.param(gap, marks=pytest.mark.slow) for gap in (50, 100, 300))])
def test_one_breath_loses_no_word(pipeline: Pipeline, gap_ms: float) -> None:
    """CASES P1, P8, P9: the recognizer begins in the ring, where the phrase ended."""
    for saying in _sayings(None, None, "")[:2]:
        (row,) = Handover(pipeline).rows(saying, [Case(gap_ms)])
        assert row.good, row
        assert "jarvis" not in words(row.first_pass) + words(row.final)
        assert words(row.final) == words(saying.text)


@pytest.mark.parametrize("late_ms", [2047, pytest.param(10_000, marks=pytest.mark.slow)])
def test_the_ring_covers_a_late_beginning(pipeline: Pipeline, late_ms: float) -> None:
    """CASES P3: what is heard meanwhile is not lost, and the ring is much longer than the three seconds that it must be."""
    (row,) = Handover(pipeline).rows(_sayings(None, None, "")[1], [Case(0, late_ms=late_ms)])
    assert row.good, row
    assert RING_SECONDS >= 3


@pytest.mark.parametrize("which", [0, 1])
def test_a_phrase_whose_start_is_clipped_leaves_the_query_whole(pipeline: Pipeline, which: int) -> None:
    """CASES P4: a device opens late. The row has 200 ms, of which "jarvis" (560 ms here) does not wake at all. With 50 the first stage
    crosses a quarter of a second later than it would: an end of the phrase that were reckoned from there would cost the first word."""
    saying = _sayings(None, None, "")[which]
    (row,) = Handover(pipeline).rows(replace(saying, phrase=saying.phrase[to_samples(50) :]), [Case(100)])
    assert row.good, row


def test_a_plosive_without_anything_before_it_is_heard(pipeline: Pipeline, sample: Samples, truth: dict[str, Any]) -> None:
    """CASES P6: the stream begins at the first sample of the word; the lead-in of silence is ours."""
    turn = truth["turns"][0]
    query = sample[turn["speech_start"] : turn["speech_end"] + RATE]
    pipeline.reset()
    pipeline.ears.command(Trigger(0))
    events: list[Event] = []
    for first in range(0, len(query), 640):
        events += pipeline.feed(AudioFrame(first, query[first : first + 640].copy()))
    (endpoint,) = (event for event in events if isinstance(event, Endpoint))
    assert 0 not in lost_words(words("turn on the lights in the kitchen"), endpoint.text)


def test_a_chime_is_no_word(pipeline: Pipeline) -> None:
    """CASES P7: two tones, 150 ms after the wake; the text has nothing that the query alone has not."""
    (row,) = Handover(pipeline).rows(_sayings(None, None, "")[1], [Case(800, chime=True)])
    assert row.good, row


def test_the_offset_is_published(pipeline: Pipeline, sample: Samples, truth: dict[str, Any]) -> None:
    """CASES P8: where the phrase ended is in the wake, and the text begins there."""
    pipeline.reset()
    events: list[Event] = []
    for first in range(0, len(sample) // 2, 640):
        events += pipeline.feed(AudioFrame(first, sample[first : first + 640].copy()))
    (wake,) = (event for event in events if isinstance(event, Wake))
    (final,) = (event for event in events if isinstance(event, Final))
    assert abs(wake.phrase_end - truth["turns"][0]["phrase_end"]) < to_samples(150)
    assert words(final.text)[0] == "turn"
