"""`voicectl mic wake`: say the phrase and see what both wake stages make of it, live. No daemon is needed.

What lives here: the command. What must not: a decision of its own: the pipeline is the daemon's, with its settings. Exit codes: 0 it woke;
1 it did not; 2 options; 66 a model is missing; 74 no such device, or it has gone; 78 wrong settings.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from voiced.api import UsageError, default_library, find_config, read_settings, runtime_directory

from .mic import listening, seconds, shared, wanted

if TYPE_CHECKING:
    from voiced.api import Event, Pipeline, Recording, Samples

NO = 1


def arguments(one: argparse.ArgumentParser) -> None:
    """Adds the options of `mic wake`."""
    shared(one)
    one.add_argument("--seconds", metavar="S", type=seconds, help="end after so many seconds (default: at ^C)")
    one.add_argument("--count", metavar="N", type=int, default=0, help="end after N wakes")


def wake(options: argparse.Namespace) -> int:
    """Listens until it is told to end; 0 where it woke at all. Raises VoicedError."""
    from voiced.api import Recording, pipeline

    if options.count < 0:
        raise UsageError("--count", f"must be a whole number from 1; got {options.count}")
    settings = read_settings(find_config(options.config))
    if not settings.wake.phrases:
        raise UsageError("wake.phrases", "the settings have no phrase", "add one to the settings")
    settings = replace(settings, models=replace(settings.models, second_pass=""))
    names = ", ".join(phrase.name for phrase in settings.wake.phrases)
    device, heard = wanted(options)
    with runtime_directory() as runtime:
        print("loading the models …", file=sys.stderr)
        hearing = pipeline(settings, default_library(settings.models.path), runtime)
        with Recording(device) as recording:
            opened = recording.opened
            print(f"{opened.device} ({opened.host}), {opened.why}. Say: {names}. ^C ends it.", file=sys.stderr)
            wakes = _listen(recording, hearing, options, heard)
    return 0 if wakes else NO


def _listen(recording: Recording, hearing: Pipeline, options: argparse.Namespace, heard: str) -> int:
    """How often it woke, up to the end that was asked for or ^C."""
    from voiced.api import Cancel, NearMiss, Wake, WakeRefused

    scores = watch(hearing)
    wakes = 0
    with suppress(KeyboardInterrupt), listening(recording, heard) as pieces:
        for piece in pieces:
            events: list[Event] = [event for frame in piece.heard for event in hearing.feed(frame)]
            for event in events:
                if isinstance(event, Wake | WakeRefused | NearMiss):
                    pieces.meter.clear()
                    print(_json(event) if options.json else told(event), flush=True)
                if isinstance(event, Wake):
                    wakes += 1
                    hearing.ears.command(Cancel(0))  # no turn: it is the phrase that is looked at
            pieces.note = scores.line()
            if (options.count and wakes >= options.count) or (options.seconds and piece.ended >= options.seconds * recording.opened.rate):
                break
    return wakes


class Scores:
    """Stage 1 with its last scores to be seen; everything else is the stage's own."""

    def __init__(self, stage: Any, thresholds: Sequence[float]) -> None:
        self._stage, self._thresholds = stage, thresholds
        self._last: tuple[float, ...] = ()
        self._new = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stage, name)

    def step(self, samples: Samples) -> tuple[float, ...]:
        found: tuple[float, ...] = self._stage.step(samples)
        self._last, self._new = found, True
        return found

    def line(self) -> str:
        """The newest scores, beside their thresholds; where the gate has closed, there are none."""
        if not self._new:
            return "quiet"
        self._new = False
        pairs = zip(self._stage.phrases, self._last, self._thresholds, strict=True)
        return ", ".join(f"{name} {score:.2f}/{threshold:.2f}" for name, score, threshold in pairs)


def watch(hearing: Pipeline) -> Scores:
    """Has the pipeline's first stage show its scores. Where all phrases are texts, there are none."""
    spotting = hearing.ears.spotting
    scores = Scores(spotting.wake, [crossing.threshold for crossing in spotting.crossings])
    if spotting.wake is not None:
        hearing.ears.adopt(replace(spotting, wake=scores))
    return scores


def told(event: Event) -> str:
    """A wake, a refusal or a near miss in one line, with what it was decided by."""
    from voiced.api import NearMiss, Wake, WakeRefused, to_ms

    at = f"{to_ms(event.sample) / 1000:8.2f} s  "
    if isinstance(event, NearMiss):
        return f"{at}near miss  {event.phrase}: stage 1 {event.score:.2f}, {event.threshold:.2f} wanted"
    assert isinstance(event, Wake | WakeRefused)
    first = event.scores.get("stage1")
    stage1 = "" if first is None else f"stage 1 {first:.2f}, {event.scores.get('stage1_threshold', 0):.2f} wanted; "
    what = "wake       " if isinstance(event, Wake) else "refused    "
    return f"{at}{what}{event.phrase}: {stage1}stage 2 {event.score:.2f}: {event.verdict}"


def _json(event: Event) -> str:
    from voiced.api import encode

    return json.dumps(encode(event), ensure_ascii=False)
