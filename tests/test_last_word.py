"""The last word is never lost: a query whose sound ends with its last sample of speech, wherever that falls in a chunk."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import voiced
from sounds import sound
from voiced import assembly
from voiced.audio import AudioFrame, Samples
from voiced.events import Event, Final, Stop, Trigger
from voiced.guard import likeness
from voiced.models import Library
from voiced.pipeline import Pipeline
from voiced.settings import Settings
from voiced.stages.sherpa import provider
from voiced.stages.transducer import Transducer
from voiced.units import to_samples

DATA = Path(voiced.__file__).parent / "data"
TRUTH: dict[str, Any] = json.loads((DATA / "sample.json").read_text())
PHASES = 32
BLOCK = 640


@pytest.fixture(scope="module")
def queries() -> list[tuple[Samples, list[str]]]:
    """The recording's two queries, each from a little before its speech to the last sample of it, and their words."""
    whole = sound(DATA / "sample.flac")
    return [(whole[turn["phrase_end"] : turn["speech_end"]], words(turn["text"])) for turn in TRUTH["turns"]]


@pytest.fixture(scope="module")
def runtime_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("runtime")


@pytest.fixture(scope="module")
def pipeline(library: Library, runtime_dir: Path) -> Pipeline:
    return assembly.pipeline(Settings(), library, runtime_dir)


def has_last(text: str, said: list[str]) -> bool:
    """As far as a small model gets it: "kitchine" is no lost kitchen."""
    return likeness(words(text)[-1], said[-1]) > 0.6


def words(text: str) -> list[str]:
    return "".join(letter for letter in text.lower() if letter.isalpha() or letter == " ").split()


def after(quiet: int, query: Samples) -> Samples:
    """The query, so many samples later."""
    return np.concatenate((np.zeros(quiet, np.int16), query))


def feed(pipeline: Pipeline, samples: Samples, first: int = 0) -> list[Event]:
    told = []
    for at in range(0, len(samples), BLOCK):
        told += pipeline.feed(AudioFrame(first + at, samples[at : at + BLOCK].copy()))
    return told


def test_the_first_pass_keeps_it_at_every_place_in_a_chunk(
    library: Library, runtime_dir: Path, queries: list[tuple[Samples, list[str]]]
) -> None:
    """CASES E9, for the streaming recognizer: its own tail of silence, at 32 phases of its chunk."""
    found = library.find("starter-en")
    model = found.model
    stage = Transducer(
        model.kind,
        found.files,
        frame_ms=model.frame_ms,
        lookahead_ms=model.lookahead_ms,
        chunk_ms=model.chunk_ms,
        tail_ms=model.tail_ms,
        end_token=model.end_token,
        provider=provider(runtime_dir),
    )
    chunk = to_samples(model.chunk_ms)
    for query, said in queries:
        for phase in range(PHASES):
            stage.start(0)
            stage.step(after(phase * chunk // PHASES, query))
            assert has_last(stage.finish().text, said), f"phase {phase}"


def test_the_second_pass_keeps_it_at_every_place_in_a_frame(
    library: Library, runtime_dir: Path, queries: list[tuple[Samples, list[str]]]
) -> None:
    """CASES E9, for the second pass, which hears 384 samples as one."""
    stage = assembly.second_pass(Settings(), library, runtime_dir, lambda _: None)
    for query, said in queries:
        for phase in range(PHASES):
            assert has_last(stage.decode(after(phase * 384 // PHASES, query)), said), f"phase {phase}"


def test_a_stop_at_the_last_sample_of_speech_loses_no_word(pipeline: Pipeline, queries: list[tuple[Samples, list[str]]]) -> None:
    """CASES E9 and E13, through the whole pipeline, at 32 places of its grid: both passes have every word."""
    for query, said in queries:
        for phase in range(PHASES):
            pipeline.reset()
            pipeline.ears.command(Trigger(0))
            told = feed(pipeline, after(phase * 160, query)[:-256])
            pipeline.ears.command(Stop(0))  # becomes a fact at the next step of the ears' grid, 16 ms
            told += feed(pipeline, query[-256:], first=len(query) + phase * 160 - 256)
            final = final_of(told)
            assert has_last(final.first_pass, said) and has_last(final.text, said), f"phase {phase}: {final}"


def final_of(told: list[Event]) -> Final:
    (final,) = (event for event in told if isinstance(event, Final))
    return final


def test_a_second_sentence_is_heard_as_if_it_were_alone(pipeline: Pipeline, queries: list[tuple[Samples, list[str]]]) -> None:
    """CASES E11: 1.3 s after the first. The first turn's end leaves nothing in the second."""
    (first, _), (second, said) = queries
    gap, rest = np.zeros(to_samples(1300), np.int16), np.zeros(to_samples(1000), np.int16)

    def turn(sound: Samples, at: int) -> Final:
        pipeline.ears.command(Trigger(0))
        return final_of(feed(pipeline, sound, first=at))

    pipeline.reset()
    turn(np.concatenate((first, gap)), 0)
    after_another = turn(np.concatenate((second, rest)), len(first) + len(gap))
    pipeline.reset()
    alone = turn(np.concatenate((second, rest)), 0)
    assert (after_another.text, after_another.first_pass) == (alone.text, alone.first_pass)
    assert words(alone.text) == said
