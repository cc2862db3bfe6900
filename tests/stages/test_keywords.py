"""Phrases given as text, heard by the real model: where they end, once, and the same wherever a stream or a gate begins."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from voiced.audio import Samples
from voiced.errors import ModelError
from voiced.models import Library
from voiced.phrases import PhraseSettings
from voiced.spelling import spell, speller
from voiced.stages.keywords import HOP, Keywords, Said
from voiced.stages.sherpa import Spotter, provider
from voiced.units import RATE, to_samples

SAYS = "what time is it"
FIRST, LAST = 167_760, 181_840
"""Where it is said in the sample (sample.json)."""

CLIP = slice(FIRST - 24_000, LAST + 16_000)


@pytest.fixture(scope="module")
def spotter(library: Library, tmp_path_factory: pytest.TempPathFactory) -> Spotter:
    found = library.find("starter-en")
    return Spotter(found.model.kind, found.files, provider=provider(tmp_path_factory.mktemp("runtime")))


@pytest.fixture(scope="module")
def build(library: Library, spotter: Spotter) -> Callable[..., Keywords]:
    model = library.model("starter-en")

    def one(*texts: str) -> Keywords:
        phrases = spell([PhraseSettings(text=text) for text in texts], speller(library, model.id))
        return Keywords(phrases, spotter, chunk_ms=model.chunk_ms, frame_ms=model.frame_ms, tail_ms=model.tail_ms)

    return one


def hear(keywords: Keywords, first: int, samples: Samples) -> list[tuple[int, Said]]:
    """(end of the hop in which it was told, what was), of whole hops from `first` on and the rest at the end."""
    told = []
    for at in range(0, len(samples) - HOP + 1, HOP):
        told += [(first + at + HOP, said) for said in keywords.step(first + at, samples[at : at + HOP])]
    return told + [(first + len(samples), said) for said in keywords.finish()]


def test_a_text_is_heard_once_where_it_ends(build: Callable[..., Keywords], sample: Samples) -> None:
    keywords = build("turn the fan off", SAYS)
    first = CLIP.start // HOP * HOP
    ((told, said),) = hear(keywords, first, sample[first : CLIP.stop])
    assert said.phrase.name == SAYS
    assert abs(said.end - LAST) < to_samples(250)
    assert said.end <= told <= said.end + to_samples(320 + 160 + 160)  # a chunk, the look-ahead, two frames and a hop
    assert keywords.statistics().streams == 1


@pytest.mark.parametrize("into", [-16_000, -5_000, 7_000, 12_000])
def test_a_phrase_that_a_new_stream_cuts_is_heard_once(build: Callable[..., Keywords], sample: Samples, into: int) -> None:
    """The position where another begins lies before, in and after the phrase; where it ends stays the same within a hop."""
    keywords = build(SAYS)
    renewed = keywords._renew
    before = (FIRST - CLIP.start + into) // HOP * HOP
    clip = np.concatenate((np.zeros(3 * RATE // HOP * HOP, np.int16), sample[CLIP]))
    first = renewed - before - 3 * RATE // HOP * HOP
    ((_, said),) = hear(keywords, first, clip)
    assert keywords.statistics().streams == 2
    assert abs(said.end - (first + 3 * RATE // HOP * HOP + LAST - CLIP.start)) < to_samples(250)


@pytest.mark.parametrize("late", [0, 3, 9])
def test_a_gate_that_opens_in_the_phrase_changes_nothing(build: Callable[..., Keywords], sample: Samples, late: int) -> None:
    """CASES W8's rule for texts: primed from what the ring holds, it says within a hop what it says without a gate."""
    first = CLIP.start // HOP * HOP
    clip = sample[first : CLIP.stop]
    keywords = build(SAYS)
    ((told, said),) = hear(keywords, first, clip)
    keywords.reset()
    opened = (FIRST - first) // HOP * HOP + late * HOP
    keywords.prime(first + max(0, opened - keywords.history), clip[max(0, opened - keywords.history) : opened])
    ((told_late, said_late),) = hear(keywords, first + opened, clip[opened:])
    assert abs(told_late - told) <= HOP and abs(said_late.end - said.end) <= HOP


def test_a_gate_that_closes_right_after_the_phrase_loses_nothing(build: Callable[..., Keywords], sample: Samples) -> None:
    first = CLIP.start // HOP * HOP
    keywords = build(SAYS)
    closed = LAST // HOP * HOP
    ((told, _),) = hear(keywords, first, sample[first:closed])
    assert told == closed  # the silence that `finish` adds brings it out
    keywords.prime(first, sample[first : closed + HOP])
    assert not hear(keywords, closed + HOP, sample[closed + HOP : CLIP.stop])  # and opening again tells it no more


def test_silence_and_a_reset_say_nothing(build: Callable[..., Keywords]) -> None:
    """CASES D14's rule for texts."""
    keywords = build(SAYS, "hey computer")
    for _ in range(3):
        keywords.reset()
        assert not hear(keywords, 0, np.zeros(2 * RATE, np.int16))


def test_other_phrases_want_no_other_model(build: Callable[..., Keywords], sample: Samples) -> None:
    """CASES S15: what a reload does; the new phrase is live and the old one gone."""
    first = CLIP.start // HOP * HOP
    assert not hear(build("turn the fan off"), first, sample[first : CLIP.stop])
    assert [said.phrase.name for _, said in hear(build("time is it"), first, sample[first : CLIP.stop])] == ["time is it"]


@pytest.mark.parametrize("kind", ["nemo-transducer", "moonshine-v2", "whisper"])
def test_a_model_that_cannot_listen_for_texts_is_refused_before_sherpa_onnx_dies_of_it(library: Library, tmp_path: Path, kind: str) -> None:
    with pytest.raises(ModelError, match="not a kind of model for this role; expected one of conformer, "):
        Spotter(kind, library.find("starter-en").files, provider=provider(tmp_path))


def test_a_piece_that_the_model_does_not_have_is_refused(spotter: Spotter) -> None:
    from voiced.stages.sherpa import Keyword

    with pytest.raises(ValueError, match="encode"):
        spotter.stream([Keyword("0", ("▁qqq", "zzz", "a"), 1.0, 0.1)])
