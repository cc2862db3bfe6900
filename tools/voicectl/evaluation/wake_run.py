"""One head measured: its scores, its false accepts, what the cascade makes of them, and its times.

What lives here: the order of the measurement. What must not: how clips, peaks or tables are made (wake_clips, wake_measure, wake_report).
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from voiced.api import Library, ModelError, Settings, default_library, to_ms, to_samples

from .scores import Rate, share
from .wake_cascade import Answer, SecondStage, at, woken
from .wake_clips import Judged, scores_by_clip
from .wake_measure import HOP, LEAST_EVIDENCE, Peak, best_of, first_crossing, head_scores, peaks, points, suggested
from .wake_report import Accept, Curve, Figures, Pair

_LEAST = 0.02
"""Peaks lower than that are not counted: a threshold there would be no threshold."""
_CURVE_POINTS = 400

BUDGET = 0.1
"""False accepts an hour: one in ten hours, which others publish too."""

LOOSE = 0.5
"""Where the first stage crosses when the second is measured by its own score: so low that it loses next to nothing."""
GRID = (0.3, 0.5, 0.7, 0.9), (-5.4, -4.7, -4.0, -3.3)
"""Of the first stage and of the second, where they are to be chosen."""
_UNHEARD = -30.0
"""Below any score of the second stage: the first did not cross."""

Progress = Callable[[str, int, int], None]


@dataclass(frozen=True, slots=True)
class HeadFile:
    """id: of the model, as the library has it; `compared` where it is somebody else's, measured beside ours by its first stage alone."""

    phrase: str
    id: str
    path: Path
    compared: bool = False


def heads_of(library: Library, phrases: Sequence[str], recorded: Sequence[str]) -> list[HeadFile]:
    """Our heads of these phrases (none: of all that there are recordings of), each with openWakeWord's beside it where that is fetched.

    Raises ModelError for a phrase without a head.
    """
    ids = {model.id for model in library.models() if model.role == "wake-head"}
    wanted = phrases or [phrase for phrase in recorded if head_id(phrase) in ids]
    if not wanted:
        raise ModelError(
            "wake eval", "no head is of a phrase that the recordings have in their test part", "name one by --head FILE --phrase PHRASE"
        )
    found = []
    for phrase in wanted:
        found.append(HeadFile(phrase, head_id(phrase), library.find(head_id(phrase), "wake-head").files["model"]))
        for other in (f"{head_id(phrase)}-openwakeword", f"hey-{head_id(phrase)}-openwakeword"):
            if other in ids:
                try:
                    found.append(HeadFile(phrase, other, library.find(other).files["model"], compared=True))
                except ModelError:  # not fetched
                    continue
    return found


def head_id(phrase: str) -> str:
    return phrase.replace("'", "").replace(" ", "-")


def library_with(head: Path, phrase: str, folder: Path, models_path: str) -> Library:
    """The usual library, with this file as the phrase's head; `folder` is empty and its caller's. Raises ModelError where it is none."""
    if not head.is_file():
        raise ModelError(str(head), "there is no such head file", "voicectl wake train makes one")
    name = f"{head_id(phrase)}.onnx"
    shutil.copyfile(head, folder / name)
    digest = hashlib.sha256(head.read_bytes()).hexdigest()
    usual = default_library(models_path)
    (folder / "manifest.yaml").write_text(
        f"version: 1\nbases: {{}}\nmodels:\n  {head_id(phrase)}:\n    role: wake-head\n    kind: head\n    licence: the user's\n"
        f"    about: {phrase}\n    files:\n      model: {{name: {name}, bytes: {head.stat().st_size}, sha256: {digest}}}\n"
        "    sources:\n      - directory: .\n",
        encoding="utf-8",
    )
    return Library([folder, *usual.search], usual.cache)


def measured(
    head: HeadFile,
    said: dict[str, Judged],
    foreign: Judged,
    settings: Settings,
    threshold: float,
    second: SecondStage | None,
    progress: Progress,
    budget: float = BUDGET,
    *,
    grid: bool = False,
) -> Figures:
    """Everything about one head. `said` by condition, the clean one first; `budget`: false accepts an hour that a suggestion may cost;
    `grid`: at pairs of thresholds too."""
    hops = settings.wake.phrases[0].hops
    refractory = to_samples(settings.wake.refractory_ms) // HOP
    foreign_scores = head_scores(head.path, foreign)
    foreign_peaks = peaks(foreign, foreign_scores, hops=hops, refractory_hops=refractory, least=_LEAST)
    scores = {name: head_scores(head.path, judged) for name, judged in said.items()}
    best = {name: best_of(judged, scores[name], hops) for name, judged in said.items()}
    false_scores = [peak.score for peak in foreign_peaks]
    true_scores = {name: [peak.score for peak in found] for name, found in best.items()}
    accepts = [peak for peak in foreign_peaks if peak.score >= threshold]
    clean = next(iter(said))
    label = f"{head.phrase} ({head.id})"
    figures = Figures(
        phrase=head.phrase,
        head=head.id,
        hours=foreign.hours,
        foreign_clips=len(foreign.clips),
        clips={name: len(judged.clips) for name, judged in said.items()},
        threshold=threshold,
        stage1=tuple(points(false_scores, true_scores, foreign.hours)),
        stage1_accepts=len(accepts),
        stage1_missed=_missed({name: [score >= threshold for score in found] for name, found in true_scores.items()}),
        crossing_ms=_crossing_ms(said[clean], scores[clean], threshold, hops),
        accepts=tuple(_accept(peak, None) for peak in accepts),
        curves=(_curve(f"{label}, stage 1", false_scores, true_scores[clean], foreign.hours),),
        suggested=suggested(false_scores, true_scores, foreign.hours, budget, least=_LEAST),
    )
    if second is None:
        return figures
    judged = {name: _judged(second, found, scores[name], threshold, progress, f"{label} {name}") for name, found in said.items()}
    answers = {name: [woken(each) for each in found] for name, found in judged.items()}
    foreign_answers = dict(
        zip(foreign.clips, _judged(second, foreign, foreign_scores, threshold, progress, f"{label} foreign"), strict=True)
    )
    asked = [at(foreign_answers[peak.clip], peak.sample) for peak in accepts]
    passed = [peak.score for peak, answer in zip(accepts, asked, strict=True) if answer.accepted]
    kept = {name: [peak.score * wakes(answer) for peak, answer in zip(best[name], answers[name], strict=True)] for name in said}
    right = [(answer, clip) for answer, clip in zip(answers[clean], said[clean].clips, strict=True) if answer and answer.accepted]
    evidence = partial(_evidence, second, said, scores, foreign, foreign_scores, refractory, progress, label)
    alone, false_alone = evidence(LOOSE)
    true_behind, false_behind = (alone, false_alone) if threshold == LOOSE else evidence(threshold)
    return replace(
        figures,
        stage2=tuple(points(false_alone, alone, foreign.hours, _UNHEARD)),
        cascade=tuple(points(passed, kept, foreign.hours)),
        suggested=suggested(false_behind, true_behind, foreign.hours, budget, least=LEAST_EVIDENCE, behind=threshold),
        cascade_accepts=len(passed),
        cascade_missed=_missed({name: [wakes(answer) for answer in found] for name, found in answers.items()}),
        stage2_passes=share([answer.accepted for answer in asked]),
        stage2_loses=share([not answer.accepted for name in said if name != "0 dB" for answer in answers[name] if answer]),
        confirmed_ms=_spread([to_ms(answer.sample - clip.end) for answer, clip in right]),
        phrase_end_ms=_spread([to_ms(answer.phrase_end - clip.end) for answer, clip in right]),
        accepts=tuple(_accept(peak, answer) for peak, answer in zip(accepts, asked, strict=True)),
        grid=tuple(pair for loose in (GRID[0] if grid else ()) for pair in _pairs(loose, *evidence(loose))),
        curves=(
            *figures.curves,
            _curve(f"{label}, stage 2", false_alone, alone[clean], foreign.hours, _UNHEARD),
            _curve(f"{label}, cascade from {threshold:g}", passed, kept[clean], foreign.hours),
        ),
    )


def wakes(answer: Answer | None) -> bool:
    return answer is not None and answer.accepted


def _judged(
    second: SecondStage, judged: Judged, scores: NDArray[np.float32], threshold: float, progress: Progress, what: str
) -> list[list[Answer]]:
    """The answers to each clip's crossings."""
    found = []
    for done, (clip, track) in enumerate(zip(judged.clips, scores_by_clip(judged, scores), strict=True)):
        found.append(second.crossings(clip, track, threshold))
        progress(what, done + 1, len(judged.clips))
    return found


def _pairs(threshold: float, true: dict[str, list[float]], false: Sequence[float]) -> list[Pair]:
    """What `_evidence` found, at each threshold of the second stage."""
    return [
        Pair(
            threshold,
            least,
            len(false),
            sum(score >= least for score in false),
            _missed({name: [score >= least for score in found] for name, found in true.items()}),
        )
        for least in GRID[1]
    ]


def _evidence(
    second: SecondStage,
    said: dict[str, Judged],
    scores: dict[str, NDArray[np.float32]],
    foreign: Judged,
    foreign_scores: NDArray[np.float32],
    refractory: int,
    progress: Progress,
    label: str,
    loose: float,
) -> tuple[dict[str, list[float]], list[float]]:
    """The second stage's own scores behind a first one that crosses at `loose`: the best of each clip by condition; of foreign sound, the
    highest first."""
    true = {
        name: [
            max((answer.score for answer in found), default=_UNHEARD)
            for found in _judged(second, judged, scores[name], loose, progress, f"{label} {name} from {loose:g}")
        ]
        for name, judged in said.items()
    }
    false = []
    for answers in _judged(second, foreign, foreign_scores, loose, progress, f"{label} foreign from {loose:g}"):
        quiet_until = 0
        for answer in answers:
            if answer.first >= quiet_until:
                false.append(answer.score)
                quiet_until = answer.first + refractory * HOP
            else:
                false[-1] = max(false[-1], answer.score)
    return true, sorted(false, reverse=True)


def _missed(woke: dict[str, list[bool]]) -> dict[str, Rate]:
    rates = {name: share([not each for each in found]) for name, found in woke.items()}
    return {name: rate for name, rate in rates.items() if rate}


def _crossing_ms(judged: Judged, scores: NDArray[np.float32], threshold: float, hops: int) -> tuple[float, float] | None:
    """From the phrase's end to the end of the first hop of a crossing."""
    found = []
    for clip, track in zip(judged.clips, scores_by_clip(judged, scores), strict=True):
        if (at := first_crossing(track, threshold, hops)) is not None:
            found.append(to_ms((at + 1) * HOP - clip.end))
    return _spread(found)


def _spread(values: Sequence[float]) -> tuple[float, float] | None:
    return (float(np.quantile(values, 0.5)), float(np.quantile(values, 0.9))) if len(values) else None


def _accept(peak: Peak, answer: Answer | None) -> Accept:
    return Accept(peak.clip.name, peak.clip.kind, peak.sample / 16_000, peak.score, None if answer is None else answer.accepted)


def _curve(label: str, false_scores: Sequence[float], true_scores: Sequence[float], hours: float, nothing: float = 0.0) -> Curve:
    """At thresholds just above each of the highest false accepts."""
    found = sorted(false_scores, reverse=True)[:_CURVE_POINTS]
    rates: list[float] = []
    missed: list[float] = []
    true = np.array(true_scores)
    for accepts, over in enumerate([*found, nothing]):
        rates.append(accepts / hours)
        missed.append(float((true <= over).mean()))
    return Curve(label, tuple(rates), tuple(missed))
