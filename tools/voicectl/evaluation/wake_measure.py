"""How often a head misses its phrase, and how often it hears it where it is not: scores in, rates out.

What lives here: peaks of scores, thresholds for a number of false accepts, and the replay of a crossing through the real pipeline for what
the second stage says. What must not: which clips (wake_clips.py), tables (wake_report.py).

A crossing wants `hops` high scores in a row, so what counts of a track is the lowest of each `hops` neighbours. Two crossings of foreign
sound nearer than the refractory time are one false accept.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from voiced.api import AudioFrame, Library, ModelError, Pipeline, Port, Settings, Wake, WakeRefused, open_session, pipeline, windows

from .scores import Rate, share
from .wake_clips import Clip, Judged, scores_by_clip

HOP = 1280
_CHUNK = 2048
_LEAD_HOPS = 40
"""Replayed before a crossing: the two seconds that a score depends on, and the 1.5 s that the second stage looks back on."""
_PATIENCE_HOPS = 25
"""Replayed after it, until the pipeline says what it thinks."""

BUDGETS = (0.0, 0.5, 1.0)
"""False accepts an hour at which the misses are told."""


@dataclass(frozen=True, slots=True)
class Peak:
    """The highest point of a run of scores. `hop` is the last of its `hops` neighbours, counted from 0."""

    clip: Clip
    hop: int
    score: float

    @property
    def sample(self) -> int:
        return (self.hop + 1) * HOP


def head_scores(path: Path, judged: Judged) -> NDArray[np.float32]:
    """float32 (windows,): of every window. Raises ModelError where the file is no head."""
    try:
        session, count = open_session(path, inputs=[Port("", (2, 16, 96))]), _CHUNK  # takes any number of windows
    except ModelError:
        session, count = open_session(path, inputs=[Port("", (1, 16, 96))]), 1
    name = session.names[0]
    found = []
    for start, hops in zip(judged.tracks.starts, judged.tracks.hops, strict=True):
        seen = windows(judged.tracks.rows[start : start + hops + 15].astype(np.float32))
        for first in range(0, hops, count):
            block = np.ascontiguousarray(seen[first : first + count])
            found.append(session.run({name: block})[0].reshape(-1))
    return np.concatenate([np.zeros(0, np.float32), *found])


def lowest_of(scores: NDArray[np.float32], hops: int) -> NDArray[np.float32]:
    """(n,) → (n − hops + 1,): the lowest of each `hops` neighbours."""
    if len(scores) < hops:
        return np.zeros(0, np.float32)
    found: NDArray[np.float32] = np.lib.stride_tricks.sliding_window_view(scores, hops).min(1)
    return found


def peaks(judged: Judged, scores: NDArray[np.float32], *, hops: int, refractory_hops: int, least: float) -> list[Peak]:
    """Those of `least` or more, the highest first; within a clip no two are nearer than the refractory time."""
    found = []
    for clip, track in zip(judged.clips, scores_by_clip(judged, scores), strict=True):
        low = lowest_of(track, hops)
        order = [int(at) for at in np.argsort(-low, kind="stable") if low[at] >= least]
        kept: list[int] = []
        for at in order:
            if all(abs(at - other) >= refractory_hops for other in kept):
                kept.append(at)
                found.append(Peak(clip, at + hops - 1, float(low[at])))
    return sorted(found, key=lambda peak: -peak.score)


def best_of(judged: Judged, scores: NDArray[np.float32], hops: int) -> list[Peak]:
    """The highest point of each clip."""
    found = []
    for clip, track in zip(judged.clips, scores_by_clip(judged, scores), strict=True):
        low = lowest_of(track, hops)
        at = int(low.argmax()) if len(low) else 0
        found.append(Peak(clip, at + hops - 1, float(low[at]) if len(low) else 0.0))
    return found


def first_crossing(track: NDArray[np.float32], threshold: float, hops: int) -> int | None:
    """The first hop of a run of `hops` scores at the threshold or above."""
    low = np.nonzero(lowest_of(track, hops) >= threshold)[0]
    return int(low[0]) if len(low) else None


def above(false_scores: Sequence[float], allowed: int) -> float:
    """The score that must be passed so that at most `allowed` of these (the highest first) do."""
    return false_scores[allowed] if allowed < len(false_scores) else 0.0


@dataclass(frozen=True, slots=True)
class Point:
    """At one number of false accepts: what is missed, by condition. `over` is the score that a wake must pass."""

    budget: float
    accepts: int
    over: float
    missed: dict[str, Rate]


def points(false_scores: Sequence[float], true_scores: Mapping[str, Sequence[float]], hours: float) -> list[Point]:
    """false_scores: of all accepts in `hours`, the highest first; true_scores: a clip's best, 0 where nothing is accepted."""
    found = []
    for budget in BUDGETS:
        over = above(false_scores, int(budget * hours))
        missed = {name: share([score <= over for score in scores]) for name, scores in true_scores.items()}
        accepts = sum(score > over for score in false_scores)
        found.append(Point(budget, accepts, over, {name: rate for name, rate in missed.items() if rate}))
    return found


# ── the second stage ───────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Answer:
    """What the whole cascade made of a crossing: the sample at which it said so, and where it took the phrase to end (0 if refused).

    `heard` is false where the pipeline's own first stage did not cross: the gate was shut, or the run too short."""

    accepted: bool
    heard: bool
    sample: int
    phrase_end: int
    why: str


class Cascade:
    """The daemon's own pipeline with one phrase, asked about one place in a clip at a time. One thread."""

    def __init__(self, settings: Settings, library: Library, runtime_dir: Path, phrase: str, threshold: float) -> None:
        """phrase: the id of the head. Raises ModelError."""
        wanted = replace(settings.wake.phrases[0], phrase=phrase, threshold=threshold)
        models = replace(settings.models, second_pass="")
        self._pipeline: Pipeline = pipeline(
            replace(settings, wake=replace(settings.wake, phrases=(wanted,)), models=models), library, runtime_dir
        )

    def ask(self, clip: Clip, hop: int) -> Answer:
        """Replays the clip around a crossing that ends with this hop, and waits for the second stage."""
        return self._replay(clip, max(hop - _LEAD_HOPS, 0), hop + _PATIENCE_HOPS, hop)

    def hear(self, clip: Clip) -> Answer:
        """Replays the whole clip: its first wake, else what was refused last."""
        return self._replay(clip, 0, len(clip.sound()) // HOP, 0)

    def _replay(self, clip: Clip, first: int, last: int, least: int) -> Answer:
        sound, offset = clip.sound(), first * HOP
        self._pipeline.reset()
        answer = Answer(False, False, 0, 0, "the first stage did not cross its threshold")
        for at in range(first, min(last, len(sound) // HOP)):
            block = sound[at * HOP : (at + 1) * HOP].copy()
            for event in self._pipeline.feed(AudioFrame(at * HOP - offset, block)):
                if isinstance(event, Wake):
                    return Answer(True, True, event.sample + offset, event.phrase_end + offset, event.verdict)
                if isinstance(event, WakeRefused) and at >= least:
                    answer = Answer(False, True, event.sample + offset, 0, event.verdict)
                    if least:
                        return answer
        return answer
