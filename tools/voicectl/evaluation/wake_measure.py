"""How often a head misses its phrase, and how often it hears it where it is not: scores in, rates out.

What lives here: peaks of scores, thresholds for a number of false accepts. What must not: which clips (wake_clips.py), the second stage
(wake_cascade.py), tables (wake_report.py).

A crossing wants `hops` high scores in a row, so what counts of a track is the lowest of each `hops` neighbours. Two crossings of foreign
sound nearer than the refractory time are one false accept.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from voiced.api import ModelError, Port, open_session, windows

from .scores import Rate, share
from .wake_clips import Clip, Judged, scores_by_clip

HOP = 1280
STEPS = 10_000
"""A suggested threshold is a whole number of these parts of one."""
EVIDENCE_STEPS, LEAST_EVIDENCE, MOST_EVIDENCE = 100, -5.5, 5
"""Of the second stage's. Below the least more than one in ten of what a loose first stage hears by mistake wakes."""
_CHUNK = 2048
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


def above(false_scores: Sequence[float], allowed: int, nothing: float = 0.0) -> float:
    """The score that must be passed so that at most `allowed` of these (the highest first) do."""
    return false_scores[allowed] if allowed < len(false_scores) else nothing


@dataclass(frozen=True, slots=True)
class Point:
    """At one number of false accepts: what is missed, by condition. `over` is the score that a wake must pass."""

    budget: float
    accepts: int
    over: float
    missed: dict[str, Rate]


def points(false_scores: Sequence[float], true_scores: Mapping[str, Sequence[float]], hours: float, nothing: float = 0.0) -> list[Point]:
    """false_scores: of all accepts in `hours`, the highest first; true_scores: a clip's best, `nothing` where nothing is accepted."""
    found = []
    for budget in BUDGETS:
        over = above(false_scores, int(budget * hours), nothing)
        missed = {name: share([score <= over for score in scores]) for name, scores in true_scores.items()}
        accepts = sum(score > over for score in false_scores)
        found.append(Point(budget, accepts, over, {name: rate for name, rate in missed.items() if rate}))
    return found


@dataclass(frozen=True, slots=True)
class Suggestion:
    """The lowest threshold that keeps to a budget of false accepts an hour, and what it costs, by condition.

    threshold  of the first stage: the chosen one, or the one behind which the second stage's was chosen
    evidence   of the second stage; None where the first was measured alone
    least      nothing below this was measured; where it was chosen, a lower one may do too
    """

    budget: float
    threshold: float
    evidence: float | None
    accepts: int
    cascade: bool
    least: float
    missed: dict[str, Rate]


def suggested(
    false_scores: Sequence[float],
    true_scores: Mapping[str, Sequence[float]],
    hours: float,
    budget: float,
    *,
    least: float,
    behind: float | None = None,
) -> Suggestion | None:
    """At a threshold, unlike at a Point, a score that is equal counts. false_scores: the highest first; they are the second stage's
    where the first stage's threshold, `behind`, is given.

    None where no threshold keeps to the budget."""
    steps, most = (STEPS, 1) if behind is None else (EVIDENCE_STEPS, MOST_EVIDENCE)
    over = above(false_scores, int(budget * hours), least - 1)
    step = math.floor(over * steps) + 1
    while step / steps <= over:  # the product was rounded down
        step += 1
    chosen = max(step / steps, least) or 1 / steps  # 0 is the usual one
    if chosen > most:
        return None
    missed = {name: share([score < chosen for score in scores]) for name, scores in true_scores.items()}
    accepts = sum(score >= chosen for score in false_scores)
    rates = {name: rate for name, rate in missed.items() if rate}
    if behind is None:
        return Suggestion(budget, chosen, None, accepts, False, least, rates)
    return Suggestion(budget, behind, chosen, accepts, True, least, rates)
