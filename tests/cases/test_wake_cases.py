"""Wakes that must be one and not two, not late and not for nothing: the rows W* of the collected cases, by the real pipeline."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from sounds import at_level, noise, sound, to_int16
from voiced import assembly
from voiced.audio import AudioFrame, Samples
from voiced.events import Cancel, Event, Wake
from voiced.models import Library
from voiced.pipeline import Pipeline
from voiced.settings import Settings
from voiced.stages.wake import Crossing
from voiced.units import RATE, to_samples

SETTINGS = Settings()
BLOCK = 1280
IDLE = 600 * RATE
"""Ten minutes: a whole number of hops and of VAD windows."""


@pytest.fixture(scope="module")
def pipeline(library: Library, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pipeline]:
    settings = replace(SETTINGS, models=replace(SETTINGS.models, second_pass=""))
    yield assembly.pipeline(settings, library, tmp_path_factory.mktemp("runtime"))


def wakes(pipeline: Pipeline, *pieces: Samples) -> list[Wake]:
    """What wakes in these pieces, one after the other; each turn is cancelled as it begins."""
    pipeline.reset()
    samples = np.concatenate(pieces)
    found: list[Wake] = []
    for first in range(0, len(samples) - BLOCK + 1, BLOCK):
        told: list[Event] = pipeline.feed(AudioFrame(first, samples[first : first + BLOCK].copy()))
        woke = [event for event in told if isinstance(event, Wake)]
        if woke:
            pipeline.ears.command(Cancel(0))
        found += woke
    return found


def quiet(seconds: float, seed: int = 0) -> Samples:
    return to_int16(noise(round(seconds * RATE), "pink", seed) * 10 ** (-65 / 20))


@pytest.mark.parametrize("count", [8, pytest.param(100, marks=pytest.mark.slow)])
def test_so_many_phrases_are_so_many_wakes(pipeline: Pipeline, phrases: list[Samples], count: int) -> None:
    """CASES W3: each phrase wakes once, at any level and after any pause."""
    random = np.random.default_rng(3)
    pieces = [quiet(2)]
    for at in range(count):
        pieces += [to_int16(at_level(phrases[at % 2], random.uniform(-45, -15))), quiet(random.uniform(1.6, 3), at)]
    assert len(wakes(pipeline, *pieces)) == count


@pytest.mark.parametrize("spike", [1, SETTINGS.wake.phrases[0].hops - 1])
def test_a_spike_shorter_than_the_settings_want_is_no_crossing(spike: int) -> None:
    """CASES W7."""
    phrase = SETTINGS.wake.phrases[0]
    crossing = Crossing(threshold=phrase.threshold, hops=phrase.hops, wait_hops=phrase.hops)
    track = [0.05] * 10 + [1.0] * spike + [0.05] * 10 + [1.0] * phrase.hops
    crossed = [at for at, score in enumerate(track) if crossing.step((at + 1) * BLOCK, score)]
    assert crossed == [len(track) - 1]


def test_after_ten_minutes_of_silence_the_phrase_wakes_as_it_does_at_once(pipeline: Pipeline, phrases: list[Samples]) -> None:
    """CASES W8 and W13: the same sample, within 300 ms of the phrase's end, the same end, the same scores, hot and cold."""
    said = (quiet(1), phrases[0], quiet(1))
    end = 5 * RATE + len(phrases[0])
    (hot,) = wakes(pipeline, np.zeros(4 * RATE, np.int16), *said)  # the gate has closed
    (cold,) = wakes(pipeline, np.zeros(4 * RATE + IDLE, np.int16), *said)
    assert (cold.sample - IDLE, cold.phrase_end - IDLE, cold.verdict) == (hot.sample, hot.phrase_end, hot.verdict)
    assert cold.score == pytest.approx(hot.score, abs=1e-4)
    assert hot.sample <= end + to_samples(300)


@pytest.mark.slow
def test_recall_after_silence_is_recall_without(pipeline: Pipeline, data_dir: Path) -> None:
    """CASES W8, on fifty real recordings; half a minute of silence and of noise stands for ten, the gate being closed after two seconds."""
    clips = sorted((data_dir / "wake" / "picovoice-wake-word-benchmark" / "jarvis").glob("*.opus"))[::3][:50]
    assert len(clips) == 50
    counts = []
    for silence in (quiet(2), np.zeros(30 * RATE, np.int16), quiet(30)):
        counts.append(sum(len(wakes(pipeline, silence, sound(clip), quiet(1))) >= 1 for clip in clips))
    assert min(counts) >= max(counts) - 1  # 2 %
    assert min(counts) > 40


@pytest.mark.parametrize("dbfs", [-40, -50, -60])
def test_a_soft_phrase_wakes_behind_the_gate_too(pipeline: Pipeline, phrases: list[Samples], dbfs: int) -> None:
    """CASES W11: gain alone; `voicectl wake eval --levels` has the recall on real recordings."""
    gate_has_closed = np.zeros(4 * RATE, np.int16)
    assert len(wakes(pipeline, gate_has_closed, to_int16(at_level(phrases[0], dbfs)), np.zeros(RATE, np.int16))) == 1


@pytest.mark.parametrize("replays", [2, pytest.param(25, marks=pytest.mark.slow)])
def test_replays_are_alike(pipeline: Pipeline, phrases: list[Samples], replays: int) -> None:
    """CASES W9: twenty levels and noises, so many times each (slow: 500 in all)."""
    woke = 0
    for at in range(20 if replays > 2 else 4):
        level, below = (-20 - 10 * (at % 4), 5 + 5 * (at // 4))
        clip = np.concatenate((np.zeros(2 * RATE), at_level(phrases[0], level), np.zeros(RATE)))
        mixed = to_int16(clip + noise(len(clip), "pink", at) * 10 ** ((level - below) / 20))
        first, *others = (wakes(pipeline, mixed) for _ in range(replays))
        assert all(other == first for other in others)
        woke += len(first)
    assert woke


@pytest.mark.parametrize("minutes", [1, pytest.param(40, marks=pytest.mark.slow)])
@pytest.mark.parametrize("room", ["silence", "white", "pink"])
def test_nothing_wakes_in_a_room_where_nobody_speaks(pipeline: Pipeline, room: str, minutes: int) -> None:
    """CASES W16: two hours in all where the slow ones run."""
    count = minutes * 60 * RATE
    empty = np.zeros(count, np.int16) if room == "silence" else to_int16(noise(count, room, minutes) * 10 ** (-45 / 20))
    assert wakes(pipeline, empty) == []
