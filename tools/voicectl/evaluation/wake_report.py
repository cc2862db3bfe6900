"""What was measured of wake heads, for people and for programs.

What lives here: the tables (plain or Markdown), the JSON document, the picture, and the sentences that say what each figure is. What must
not: scores, sound.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from voiced.api import __version__

from ..extras import need
from .report import rate_text
from .scores import Rate
from .tables import Table, aligned, marked_down
from .wake_measure import BUDGETS, Point, Suggestion

_NAMED = 100
"""False accepts that the tables name; the JSON names all."""

WHAT = (
    "Missed: phrases of the test part that do not wake, [a, b] Wilson's 95 % interval, where foreign sound wakes at most so often in all "
    "the hours there are; the score for that is chosen on the same hours.",
    "Hours: sound in which the phrase is not said, none of which any head learnt from; with no false accept in H hours their rate is below "
    "3 / H an hour with 95 % confidence.",
    "10 dB, 0 dB: noise or music of the test part over the phrase's recording, mean power of the phrase over that of the noise.",
    "Stage 1: as many scores in a row as the settings want, one each 80 ms, above a threshold. Stage 2: its own score, where a first stage "
    "with the loose threshold of 0.5 asks it. Cascade: each crossing of the first stage at the threshold judged by the daemon's own second "
    "stage on the same sound; measured, not multiplied; its table goes by stage 1's score.",
    "Lets through, loses: of what stage 1 let through at the threshold, the share of false accepts that the second stage lets through too, "
    "and the share of phrases (clean and 10 dB) that it loses.",
    "A head of openWakeWord's is heard beside ours where it is fetched, by its first stage; it wants the words of its own name, and most "
    'recordings say "jarvis" without the "hey" that its head listens for.',
    "Confirmed after, phrase end off: from the end of the phrase, by ear, to the sample at which the wake is certain, and to where it says "
    "that the phrase ended; median / 90th percentile, clean. Compute comes on top.",
)


OF_KIND = {
    "levels": "Levels: root mean square of the phrase. The whole recording has the same gain, its own noise too, and is rounded to 16 "
    "bits; the noise of a microphone and the gate are left out.",
    "music": "Music: as 10 dB and 0 dB, with music of the test part alone; added to the recording, not played in the room.",
    "rooms": "Metres are simulated: a measured response of a room (60 dB in 0.2 to 0.8 s; rooms have no test part, so training had these "
    "too), its direct sound falling with the distance, its reverberation not, both alike at 1 m; quiet at -70 dBFS around it.",
    "voices": "Voices: neural ones, none of which any head learnt from, each twice at speeds of its own, in a quiet room.",
    "grid": "Threshold, evidence: stage 1's score and stage 2's own, each pair on the same clips. What is chosen by this table is "
    "flattered by it a little.",
    "near": "Near words: each alone, by voices that never train. A head may have learnt from other voices to leave the same words alone.",
}
"""What else is said where it was asked for."""


@dataclass(frozen=True, slots=True)
class Recall:
    """The share of phrases that wake in one condition: by the first stage, and by both (None where that was not measured)."""

    kind: str
    condition: str
    stage1: Rate | None
    cascade: Rate | None


@dataclass(frozen=True, slots=True)
class NearWord:
    """How often one was said, and in how many of its sayings the first stage crossed, and the second accepted."""

    word: str
    sayings: int
    stage1: int
    cascade: int | None


@dataclass(frozen=True, slots=True)
class Pair:
    """A threshold of each stage: false crossings of the first, those that the second accepts, and what both miss, by condition."""

    threshold: float
    evidence: float
    crossings: int
    accepts: int
    missed: dict[str, Rate]


@dataclass(frozen=True, slots=True)
class Accept:
    """A false accept: where, and how sure."""

    clip: str
    kind: str
    seconds: float
    score: float
    stage2: bool | None


@dataclass(frozen=True, slots=True)
class Curve:
    """False accepts an hour against the share of phrases missed (clean), falling with the threshold."""

    label: str
    accepts_an_hour: tuple[float, ...]
    missed: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Figures:
    """Of one head. Rates by condition; `cascade` and what follows is None where only the first stage was measured."""

    phrase: str
    head: str
    hours: float
    foreign_clips: int
    clips: dict[str, int]
    threshold: float
    stage1: tuple[Point, ...]
    stage1_accepts: int
    stage1_missed: dict[str, Rate]
    crossing_ms: tuple[float, float] | None
    accepts: tuple[Accept, ...]
    curves: tuple[Curve, ...]
    stage2: tuple[Point, ...] | None = None
    cascade: tuple[Point, ...] | None = None
    cascade_accepts: int | None = None
    cascade_missed: dict[str, Rate] | None = None
    stage2_passes: Rate | None = None
    stage2_loses: Rate | None = None
    confirmed_ms: tuple[float, float] | None = None
    phrase_end_ms: tuple[float, float] | None = None
    suggested: Suggestion | None = None
    recalls: tuple[Recall, ...] = ()
    near: tuple[NearWord, ...] = ()
    grid: tuple[Pair, ...] = ()


def tables(all_figures: Sequence[Figures]) -> list[Table]:
    made = (_misses, _at_threshold, _times, _accepts, _recalls, _near, _grid)
    return [table for table in (make(all_figures) for make in made) if len(table) > 1]


def suggestions(all_figures: Sequence[Figures]) -> list[str]:
    """One line a head, for the settings file as it is."""
    return [_suggestion(row) for row in all_figures]


def _suggestion(row: Figures) -> str:
    one = row.suggested
    if one is None:
        return f"# {row.head}: no threshold keeps to the budget of false accepts"
    missed = ", ".join(f"{name} {rate.value:.1%}" for name, rate in one.missed.items())
    lowest = "; no lower one was judged" if one.least in (one.threshold, one.evidence) else ""
    stages = "both stages" if one.cascade else "stage 1"
    evidence = "" if one.evidence is None else f", verify_evidence: {one.evidence:g}"
    entry = f"wake: {{phrases: [{{phrase: {row.head}, threshold: {one.threshold:g}{evidence}}}]}}"
    return f"{entry}  # {stages}: {one.accepts} false accepts in {row.hours:.2f} h (budget {one.budget:g} an hour), missed {missed}{lowest}"


def what(all_figures: Sequence[Figures]) -> list[str]:
    """The sentences that say what each figure is, of those that are there."""
    kinds = {one.kind for row in all_figures for one in row.recalls} | {"near" for row in all_figures if row.near}
    kinds |= {"grid" for row in all_figures if row.grid}
    return [*WHAT, *(told for kind, told in OF_KIND.items() if kind in kinds)]


def _misses(all_figures: Sequence[Figures]) -> Table:
    conditions = list(dict.fromkeys(name for row in all_figures for name in row.clips))
    head = ["phrase", "head", "stage", "hours", "false accepts", *(f"missed {name}" for name in conditions), "score above"]
    table = [head]
    for row in all_figures:
        for stage, found, least in (("1", row.stage1, 0.0), ("2", row.stage2, -math.inf), ("1 and 2", row.cascade, row.threshold)):
            for budget, point in zip(BUDGETS, found or (), strict=bool(found)):
                bound = f" (< {3 / row.hours:.2g} an hour)" if not point.accepts else ""
                told = f"{point.accepts}{bound}" if not budget else f"{point.accepts} (≤ {budget:g} an hour)"
                misses = [rate_text(point.missed.get(name)) for name in conditions]
                table.append([row.phrase, row.head, stage, f"{row.hours:.2f}", told, *misses, f"{max(point.over, least):.4f}"])
    return table


def _at_threshold(all_figures: Sequence[Figures]) -> Table:
    conditions = list(dict.fromkeys(name for row in all_figures for name in row.clips))
    head = [
        "phrase",
        "head",
        "threshold",
        "stage",
        "false accepts",
        "an hour",
        *(f"missed {name}" for name in conditions),
        "stage 2 lets through",
        "loses",
    ]
    table = [head]
    for row in all_figures:
        first = [row.phrase, row.head, f"{row.threshold:g}"]
        misses = [rate_text(row.stage1_missed.get(name)) for name in conditions]
        table.append([*first, "1", str(row.stage1_accepts), _an_hour(row.stage1_accepts, row.hours), *misses, "", ""])
        if row.cascade_missed is not None and row.cascade_accepts is not None:
            misses = [rate_text(row.cascade_missed.get(name)) for name in conditions]
            second = [rate_text(row.stage2_passes), rate_text(row.stage2_loses)]
            table.append([*first, "1 and 2", str(row.cascade_accepts), _an_hour(row.cascade_accepts, row.hours), *misses, *second])
    return table


def _an_hour(accepts: int, hours: float) -> str:
    """With none, the bound that the hours give."""
    return f"{accepts / hours:.2f}" if accepts else f"0 (< {3 / hours:.2g})"


def _times(all_figures: Sequence[Figures]) -> Table:
    table = [["phrase", "head", "clips", "first score that counts", "confirmed after", "phrase end off"]]
    for row in all_figures:
        times = [f"{pair[0]:+.0f} / {pair[1]:+.0f} ms" if pair else "" for pair in (row.crossing_ms, row.confirmed_ms, row.phrase_end_ms)]
        table.append([row.phrase, row.head, str(max(row.clips.values(), default=0)), *times])
    return table


def _accepts(all_figures: Sequence[Figures]) -> Table:
    table = [["phrase", "head", "false accept in", "at", "score", "stage 2"]]
    for row in all_figures:
        for one in row.accepts[:_NAMED]:
            second = "" if one.stage2 is None else "lets it through" if one.stage2 else "refuses"
            table.append([row.phrase, row.head, one.clip, f"{one.seconds:.1f} s", f"{one.score:.4f}", second])
        if len(row.accepts) > _NAMED:
            table.append([row.phrase, row.head, f"… and {len(row.accepts) - _NAMED} more: --json names all", "", "", ""])
    return table


def _recalls(all_figures: Sequence[Figures]) -> Table:
    table = [["phrase", "head", "threshold", "condition", "clips", "heard by stage 1", "by both"]]
    for row in all_figures:
        for one in row.recalls:
            count = str(one.stage1.whole) if one.stage1 else "0"
            table.append([row.phrase, row.head, f"{row.threshold:g}", one.condition, count, rate_text(one.stage1), rate_text(one.cascade)])
    return table


def _near(all_figures: Sequence[Figures]) -> Table:
    table = [["phrase", "head", "near word", "said", "woke stage 1", "woke both"]]
    for row in all_figures:
        for one in row.near:
            table.append(
                [row.phrase, row.head, one.word, str(one.sayings), str(one.stage1), "" if one.cascade is None else str(one.cascade)]
            )
        if row.near:
            table.append([row.phrase, row.head, *_all_near(row.near)])
    return table


def _all_near(near: Sequence[NearWord]) -> list[str]:
    said, first = sum(one.sayings for one in near), sum(one.stage1 for one in near)
    cells = [f"all {len(near)}", str(said), f"{first} ({first / said:.1%})"]
    if any(one.cascade is None for one in near):
        return [*cells, ""]
    both = sum(one.cascade or 0 for one in near)
    refused = f"; stage 2 refuses {first - both} of {first}" if first else ""
    return [*cells, f"{both} ({both / said:.1%}){refused}"]


def _grid(all_figures: Sequence[Figures]) -> Table:
    conditions = list(dict.fromkeys(name for row in all_figures for one in row.grid for name in one.missed))
    table = [["phrase", "head", "threshold", "evidence", "false crossings", "false accepts", *(f"missed {name}" for name in conditions)]]
    for row in all_figures:
        for one in row.grid:
            misses = [rate_text(one.missed.get(name)) for name in conditions]
            table.append([row.phrase, row.head, f"{one.threshold:g}", f"{one.evidence:g}", str(one.crossings), str(one.accepts), *misses])
    return table


def plain(head: str, all_figures: Sequence[Figures]) -> str:
    """Aligned columns, for a terminal."""
    blocks = [head, *map(aligned, tables(all_figures)), "\n".join(suggestions(all_figures))]
    return "\n\n".join([*blocks, "\n".join(what(all_figures))])


def markdown(head: str, all_figures: Sequence[Figures]) -> str:
    blocks = [head, *map(marked_down, tables(all_figures)), "\n".join(f"    {line}" for line in suggestions(all_figures))]
    return "\n\n".join([*blocks, "\n".join(f"- {line}" for line in what(all_figures))])


def document(head: str, data: Path, all_figures: Sequence[Figures]) -> dict[str, Any]:
    """Everything, in plain values; keys may be added, none changes its meaning. Times are milliseconds, rates 0 … 1."""
    return {
        "voiced": __version__,
        "head": head,
        "data": str(data),
        "figures": [asdict(row) for row in all_figures],
        "what": what(all_figures),
    }


def can_plot() -> None:
    """Raises UsageError where matplotlib is not installed."""
    need("matplotlib", "--plot", "is drawn with", "leave --plot out")


def plot(path: Path, all_figures: Sequence[Figures]) -> None:
    """The curves as a PNG: false accepts an hour to the right (logarithmic), the share missed upwards."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(8, 6))
    for row in all_figures:
        for curve in row.curves:
            axes.step([max(x, 0.05) for x in curve.accepts_an_hour], [100 * y for y in curve.missed], where="post", label=curve.label)
    axes.set_xscale("log")
    axes.set_xlabel("false accepts an hour (0.05 stands for none)")
    axes.set_ylabel("phrases missed, %")
    axes.set_ylim(0, 30)
    axes.grid(True, alpha=0.3)
    axes.legend(fontsize="small")
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    pyplot.close(figure)
