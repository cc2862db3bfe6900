"""`voicectl wake eval --text`: how well phrases are heard that no head was trained for, by the whole pipeline.

What lives here: the recordings played to the pipeline, and what it answered. What must not: heads (wake.py). Each recording of a phrase is
heard by itself, a second of quiet around it; then everything in which the phrase is not said. What the first stage heard is a wake or a
refused one; what woke passed both. Phrases are measured one at a time: together they share one search, and hide each other's hits.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from voiced.api import (
    RATE,
    AudioFrame,
    Cancel,
    InputError,
    PhraseSettings,
    Pipeline,
    Samples,
    Settings,
    Wake,
    WakeRefused,
    default_library,
    defaults,
    pipeline,
    runtime_directory,
    speller,
)

from .evaluation.scores import share
from .wake_check import rate, said

if TYPE_CHECKING:
    from voiced_train.wake_split import Recording

Progress = Callable[[str, int, int], None]

_AROUND = RATE
_QUIET_DBFS = -70.0


@dataclass(frozen=True, slots=True)
class Figures:
    """Of one text.

    said, heard, woke     recordings of it; those that the first stage heard, and that passed the second too
    hours, false_heard, false_woke   of foreign sound, and what was heard in it
    delay_ms              median from the end of the recording's loud part to the wake; 0 where nothing woke
    cost                  processor seconds a second of sound, whether the gate let it through or not
    """

    text: str
    boost: float
    threshold: float
    said: int
    heard: int
    woke: int
    hours: float
    false_heard: int
    false_woke: int
    delay_ms: float
    cost: float


def evaluate(options: argparse.Namespace, progress: Progress) -> int:
    """Measures texts and prints a table, or one JSON object each. Raises VoicedError."""
    from voiced_train.wake_data import at_most
    from voiced_train.wake_split import draw, read, without_phrase

    recordings = read(options.data / "manifest.jsonl")
    for wanted in options.text:
        text = said(wanted)
        rate(text, speller(default_library(options.path), defaults().models.wake_text))  # refuses what cannot be spelled
        mine = sorted((one for one in recordings if one.phrase == text), key=lambda one: draw(one.name))[: options.limit]
        others = [one for one in without_phrase(recordings, text, "test") if one.phrase != text and text not in one.words]
        if not mine:
            raise InputError(str(options.data), f"has no recording of {text!r}", "record some, or name one that it has")
        entry = PhraseSettings(text=text, threshold=options.threshold or 0, boost=options.boost or 0)
        with runtime_directory() as runtime:
            figures = _measured(entry, mine, at_most(others, options.reads_h * 3600), options.path, runtime, progress)
        print(json.dumps(asdict(figures), ensure_ascii=False) if options.json else told(figures), flush=True)
    return 0


def _measured(
    entry: PhraseSettings, mine: Sequence[Recording], others: Sequence[Recording], path: str, runtime: Path, progress: Progress
) -> Figures:
    usual = defaults()
    settings: Settings = replace(usual, wake=replace(usual.wake, phrases=(entry,)), models=replace(usual.models, second_pass=""))
    running = pipeline(settings, default_library(path), runtime)
    began, length = time.process_time(), 0
    heard, woke, delays = [], [], []
    for at, (sound, end) in enumerate(_clips(mine)):
        events = list(_played(running, sound))
        wakes = [event for event in events if isinstance(event, Wake)]
        heard.append(bool(events))
        woke.append(bool(wakes))
        delays += [(wakes[0].sample - end) * 1000 / RATE] if wakes else []
        length += len(sound)
        progress(f"saying {entry.text}", at + 1, len(mine))
    false_heard = false_woke = foreign = 0
    for at, (sound, _) in enumerate(_clips(others)):
        events = list(_played(running, sound))
        false_heard += len(events)
        false_woke += sum(isinstance(event, Wake) for event in events)
        foreign += len(sound)
        progress(f"not saying {entry.text}", at + 1, len(others))
    cost = (time.process_time() - began) * RATE / (length + foreign)
    return Figures(
        entry.name, entry.boost, entry.threshold, len(mine), sum(heard), sum(woke), foreign / RATE / 3600, false_heard, false_woke,
        float(np.median(delays)) if delays else 0.0, cost,
    )  # fmt: skip


def _clips(recordings: Sequence[Recording]) -> Iterator[tuple[Samples, int]]:
    """The sound with quiet around it, and where its loud part ends, a sample."""
    from voiced_train.features import read_sound
    from voiced_train.sound import room_noise
    from voiced_train.wake_tracks import pcm

    for one in recordings:
        sound = np.pad(read_sound(one.path), _AROUND).astype(np.float32)
        loud = np.flatnonzero(np.abs(sound) > 0.1 * np.abs(sound).max())
        yield pcm(sound + room_noise(len(sound), _QUIET_DBFS, np.random.default_rng(0))), int(loud[-1]) if len(loud) else len(sound)


def _played(running: Pipeline, sound: Samples) -> Iterator[Wake | WakeRefused]:
    """What the pipeline heard in a recording; a turn ends as it begins."""
    running.next_source()
    hop = 1280
    for at in range(0, len(sound), hop):
        for event in running.feed(AudioFrame(at, sound[at : at + hop])):
            if isinstance(event, Wake | WakeRefused):
                yield event
            if isinstance(event, Wake):
                running.ears.command(Cancel(0))


def told(figures: Figures) -> str:
    """One block for people."""
    f = figures

    def of(part: int) -> str:
        found = share([True] * part + [False] * (f.said - part))
        assert found is not None
        return f"{found.value:.0%} ({found.low:.0%} … {found.high:.0%})"

    bound = f", fewer than {3 / f.hours:.2f} an hour at 95 %" if f.hours and not f.false_woke else ""
    return "\n".join(
        (
            f'"{f.text}", boost {f.boost:g}, threshold {f.threshold:g}',
            f"  said {f.said} times: the first stage heard {of(f.heard)}, both {of(f.woke)}; {f.delay_ms:.0f} ms after its end (median)",
            f"  not said in {f.hours:.2f} h: the first stage heard {f.false_heard}, both {f.false_woke}{bound}",
            f"  processor: {f.cost:.3f} s a second of sound",
        )
    )
