"""What listening for a phrase costs, beside openWakeWord's own Python loop on the same sound.

The whole pipeline hears the sound, hop by hop, and in the same process, right before or after it, so does openWakeWord's Model.predict with
one head (openwakeword.py); whichever goes first finds a processor that has forgotten its models, so they take turns at it. No turn is
heard: where a phrase wakes it is cancelled at once, so of the recognizer nothing is in the figures but opening a stream.

The first seconds are not counted: our gate is open to learn the room, and their loop has not filled its ten seconds of sound.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
from voiced import assembly
from voiced.audio import AudioFrame, Samples
from voiced.errors import FetchError
from voiced.events import Cancel, Wake
from voiced.models import default_library
from voiced.pipeline import Pipeline
from voiced.settings import Settings
from voiced.units import RATE

from . import openwakeword, recordings
from .rows import Row

HOP = 1280
SETTLE_S = 12.0
HOUR_S = 3600
SILENCE_AIM, SPEECH_AIM = 0.1, 0.5


def run(quick: bool) -> list[Row]:
    seconds, rounds = (8.0, 2) if quick else (30.0, 5)
    settings = Settings()
    try:
        theirs = openwakeword.predict()
    except FetchError as error:
        return [Row("wake", "all", float("nan"), "core-s/h", note=f"not measured: {error}")]
    talk, turns = recordings.talk(), recordings.sample()
    sounds = (
        ("digital silence", recordings.silence(seconds), SILENCE_AIM),
        ("a room at -70 dBFS", recordings.room(seconds), SILENCE_AIM),
        ("speech without a pause, no phrase", _filled(talk, seconds), SPEECH_AIM),
        (f"the phrase every {len(turns) / RATE / 2:.1f} s, both stages", _filled(turns, seconds), SPEECH_AIM),
    )
    with tempfile.TemporaryDirectory(prefix="voiced-") as directory:
        pipeline = assembly.pipeline(
            replace(settings, models=replace(settings.models, second_pass="")), default_library(settings.models.path), Path(directory)
        )
        return [_row(name, _Ours(pipeline), theirs, sound, rounds, aim) for name, sound, aim in sounds]


def _filled(sound: Samples, seconds: float) -> Samples:
    count = round(seconds * RATE)
    return np.resize(sound, count)


class _Ours:
    """The pipeline as a loop over hops; a turn ends as it begins."""

    def __init__(self, pipeline: Pipeline) -> None:
        self._pipeline = pipeline
        pipeline.reset()
        self._at = self.wakes = 0

    def __call__(self, hop: Samples) -> None:
        frame = AudioFrame(self._at, hop)
        self._at = frame.end
        if any(isinstance(event, Wake) for event in self._pipeline.feed(frame)):
            self._pipeline.ears.command(Cancel(0))
            self.wakes += 1


def _row(name: str, ours: _Ours, theirs: openwakeword.Predict, sound: Samples, rounds: int, aim: float) -> Row:
    """Rounds over the same sound, one after the other: the median of their costs and of their ratios."""
    settle = np.resize(sound, round(SETTLE_S * RATE))
    _spent(ours, theirs, settle)
    woken = ours.wakes
    found = [_spent(ours, theirs, sound) for _ in range(rounds)]
    ratio = statistics.median(mine / bare for mine, bare in found)
    value = statistics.median(mine for mine, _ in found) * HOUR_S / (len(sound) / RATE)
    note = f"median of {rounds} × {len(sound) / RATE:.0f} s; beside {openwakeword.RELEASE} with one head"
    if woken < ours.wakes:
        note += f"; {ours.wakes - woken} wakes"
    return Row("wake", name, value, "core-s/h", bare=value / ratio, aim=aim, note=note)


def _spent(ours: _Ours, theirs: openwakeword.Predict, sound: Samples) -> tuple[float, float]:
    """Processor seconds of ours and theirs."""
    spent = [0, 0]
    for at in range(len(sound) // HOP):
        hop = sound[at * HOP : (at + 1) * HOP].copy()
        work: tuple[Callable[[], object], ...] = (partial(ours, hop), partial(theirs, hop))
        for which in (at % 2, 1 - at % 2):
            began = time.process_time_ns()
            work[which]()
            spent[which] += time.process_time_ns() - began
    return spent[0] / 1e9, spent[1] / 1e9
