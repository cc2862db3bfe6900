"""What was measured of turns' ends, for people and for programs.

What lives here: the tables, the JSON document, the picture, and the sentences that say what each figure is. What must not: sound, words, a
decision.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from voiced.api import __version__

from ..extras import install, need
from .clips import LeftOut, told
from .endpoint_figures import HIDDEN_MS, Figures, Heard, Outcomes, Point, SetFigures
from .endpoint_points import NEVER, SILENCE_ONLY
from .endpoint_run import Difference
from .report import machine, rate_text, spread_text
from .scores import Rate
from .tables import Table, aligned, marked_down, without_empty
from .true_ends import NO_ALIGNER, TrueEnd, counts

MEDIAN_MS, P90_MS, CUT, CUT_AT_500_MS, LOST = 300.0, 600.0, 0.03, 0.05, 0.005
"""What is aimed at: end of speech to final, cut-offs of complete queries and at pauses of half a second, word errors lost to cutting."""

WHAT = (
    "Queries are heard by the daemon's own VAD and recognizer once; each row is its turn machine on what they said, in sample time. A turn "
    "begins 0.3 s before the speech, without a wake phrase, and is followed by 3 s of the recording's own quiet.",
    "End of speech: the synthesizer's, else the manifest's labels, else the end of the text's last word by forced alignment, else by ear: "
    "the last 10 ms that stand out of the recording's quiet, 200 ms before to 96 ms after the VAD lets go. Where the two are more than 300 "
    "ms apart, the text is not what was said, and the ear is believed; --ends holds both against a synthesizer's.",
    "Cut off: closed before the end of speech, [a, b] Wilson's 95 % interval. Open: nothing closed it within the 3 s. Times are of the "
    "others, from the end of speech, median / 90th percentile: sample time, and on top the processor time on the machine named above of "
    "the recognizer's last chunk and its tail, of a turn detector, and of what the second pass had not done by then.",
    "Likely end: the early sign that starts the second pass, where the speaker did not go on. Hidden: finals at most "
    f"{HIDDEN_MS:.0f} ms after their endpoint.",
    "At a pause: so much of the recording's own quiet put before a word of the middle, where the recognizer says that it begins and 60 ms "
    "are quietest; closed before the end of speech, in the pause or elsewhere. Spelled: names, numbers and addresses with the speakers' "
    "own pauses.",
    "WER: of the turn as it closed, of queries whose words are known; lost: above that of the same turns never cut. A first pass that "
    "closed before its last word came is decoded anew, a second pass once for each span of sound.",
    "K3 application: its rules of 1.0 s without a word, 0.5 s after one, 10 s at most; its recognizer counts silence by its own blanks, "
    "here the VAD does.",
)


@dataclass(frozen=True, slots=True)
class Report:
    """All that a run gives. `sets`: endpoint_figures.by_set of the settings as they are; checked: queries heard by the whole pipeline."""

    where: str
    heard: Sequence[Heard]
    points: Sequence[Point]
    figures: Sequence[Figures]
    found: Mapping[str, Outcomes]
    sets: Mapping[str, SetFigures]
    curves: Sequence[tuple[Point, Figures]]
    left_out: Sequence[LeftOut]
    checked: int
    different: Sequence[Difference]
    seed: int


# ── tables ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def tables(report: Report) -> list[Table]:
    rows = report.figures
    return [table for table in (_waits(rows), _cuts(rows), _words(rows), _sets(report), _ends(report)) if len(table) > 1]


def _waits(rows: Sequence[Figures]) -> Table:
    table = [["settings", "cut off", "open", "likely end", "endpoint", "final", "hidden", "closed by", "misses"]]
    for row in rows:
        reasons = ", ".join(f"{reason} {count}" for reason, count in row.reasons.items())
        spreads = [spread_text(one) for one in (row.likely, row.endpoint, row.final)]
        hidden = "" if row.hidden is None else f"{row.hidden.value:.0%}"
        missed = "" if row.point == NEVER else ", ".join(misses(row)) or "nothing"
        table.append([row.point, rate_text(row.cut), _percent(row.open), *spreads, hidden, reasons, missed])
    return table


def _cuts(rows: Sequence[Figures]) -> Table:
    lengths = sorted({ms for row in rows for ms in row.pauses})
    table = [["settings", *(f"cut at a pause of {ms} ms" for ms in lengths), "spelled"]]
    for row in rows:
        if row.point != NEVER:
            table.append([row.point, *(rate_text(row.pauses.get(ms)) for ms in lengths), rate_text(row.spelled)])
    return without_empty(table)


def _words(rows: Sequence[Figures]) -> Table:
    table = [["settings", "WER first pass", "lost", "WER final", "lost", "second pass a turn", "dropped a turn"]]
    for row in rows:
        lost = ["" if one is None or row.point == NEVER else f"{one:+.1%}" for one in (row.lost_first, row.lost_final)]
        words = [rate_text(row.wer_first), lost[0], rate_text(row.wer_final), lost[1]]
        table.append([row.point, *words, f"{row.second_pass_a_turn_ms:.0f} ms", f"{row.wasted_a_turn:.2f}"])
    return without_empty(table)


def _sets(report: Report) -> Table:
    table = [["set, settings as they are", "queries", "cut off", "endpoint", "final", "WER final lost"]]
    for name, row in report.sets.items():
        lost = "" if row.lost_final is None else f"{row.lost_final:+.1%}"
        table.append([name, str(row.queries), rate_text(row.cut), spread_text(row.endpoint), spread_text(row.final), lost])
    return table


def _ends(report: Report) -> Table:
    return [["end of speech by", "queries"], *([by, str(count)] for by, count in _counted(report).items())]


def _counted(report: Report) -> dict[str, int]:
    """Of the queries as they are: one with a pause put in has the end of the same recording."""
    queries = [one.query for one in report.heard if not one.query.pause_ms]
    return counts(TrueEnd(query.end, query.ends_by, query.ends_why) for query in queries)


def _percent(rate: Rate | None) -> str:
    return "" if rate is None else f"{rate.value:.1%}"


def misses(row: Figures) -> list[str]:
    """The aims that these settings miss; what was not measured counts as missed."""
    found = []
    if row.final is None or row.final.median_ms > MEDIAN_MS:
        found.append("median")
    if row.final is None or row.final.p90_ms > P90_MS:
        found.append("p90")
    if row.cut is None or row.cut.value > CUT:
        found.append("cut-offs")
    pause = row.pauses.get(500)
    if pause is None or pause.value > CUT_AT_500_MS:
        found.append("pauses")
    if row.lost_final is None or row.lost_final > LOST:
        found.append("words")
    return found


def remarks(report: Report) -> list[str]:
    lines = [
        f"Aimed at: final {MEDIAN_MS:.0f} ms after the end of speech at the median, {P90_MS:.0f} at the 90th percentile, {CUT:.0%} cut "
        f"off, {CUT_AT_500_MS:.0%} at pauses of 500 ms, {LOST:.1%} of words lost."
    ]
    alone = next((row for row in report.figures if row.point == SILENCE_ONLY), None)
    if alone and alone.final and alone.cut:
        for row in report.figures:
            if row.final and row.cut and 2 * row.final.median_ms <= alone.final.median_ms and row.cut.value <= alone.cut.value:
                lines.append(f"{row.point}: at least twice as fast as {SILENCE_ONLY}, at no more cut-offs.")
    if report.checked:
        same = report.checked - len(report.different)
        lines.append(f"Checked: {same} of {report.checked} queries end the same in the whole pipeline.")
        lines += [f"  {one.query}: replayed {one.replayed}; whole {one.whole}" for one in report.different]
    if any(NO_ALIGNER in by for by in _counted(report)):
        lines.append(f"Ends by alignment want pocketsphinx: {install('pocketsphinx')}")
    return [*lines, *told(report.left_out, "recording")]


def head(report: Report) -> str:
    plain = sum(not one.query.pause_ms for one in report.heard)
    on = machine()
    return (
        f"voicectl endpoint eval {__version__}: {plain} queries of {report.where}, {len(report.heard) - plain} with a pause, "
        f"seed {report.seed}; {on['processor']}, {on['cores']} cores."
    )


def plain(report: Report) -> str:
    """Aligned columns, for a terminal."""
    return "\n\n".join([head(report), *map(aligned, tables(report)), "\n".join(remarks(report)), "\n".join(WHAT)])


def markdown(report: Report) -> str:
    notes = [f"- {line}" if not line.startswith(" ") else f"  - {line.strip()}" for line in (*remarks(report), *WHAT)]
    return "\n\n".join([head(report), *map(marked_down, tables(report)), "\n".join(notes)])


# ── for programs ───────────────────────────────────────────────────────────────────────────────────────────────────────


def document(report: Report) -> dict[str, Any]:
    """Everything, in plain values; keys may be added, none changes its meaning. Times are milliseconds, rates 0 … 1."""
    return {
        "voiced": __version__,
        "machine": machine(),
        "where": report.where,
        "seed": report.seed,
        "figures": [{**asdict(row), "misses": misses(row), "endpoint_knobs": _knobs(report, row.point)} for row in report.figures],
        "ends": _counted(report),
        "curves": [{"curve": point.curve, **asdict(row)} for point, row in report.curves],
        "sets": {name: asdict(row) for name, row in report.sets.items()},
        "queries": [_query(report, at) for at in range(len(report.heard))],
        "checked": report.checked,
        "different": [asdict(one) for one in report.different],
        "left_out": [asdict(one) for one in report.left_out],
        "what": list(WHAT),
    }


def _knobs(report: Report, name: str) -> dict[str, Any]:
    return next((asdict(point.settings.endpoint) for point in report.points if point.name == name), {})


def _query(report: Report, at: int) -> dict[str, Any]:
    query = report.heard[at].query
    return {
        "name": query.name,
        "set": query.set,
        "text": query.text,
        "ends_by": query.ends_by,
        "ends_why": query.ends_why,
        "pause_ms": query.pause_ms,
        "own_pause_ms": query.own_pause_ms,
        "outcomes": {name: asdict(found[at]) for name, found in report.found.items()},
    }


# ── the picture ────────────────────────────────────────────────────────────────────────────────────────────────────────


def can_draw() -> None:
    """Raises UsageError where matplotlib is not installed."""
    need("matplotlib", "--picture", "is drawn with", "leave --picture out")


def draw(path: Path, report: Report) -> None:
    """A PNG: the wait to the right, cut-offs upwards; a line a way to end turns, its points from quick to patient."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, panels = pyplot.subplots(1, 2, figsize=(13, 5.5), sharex=True)
    for axes, title in zip(panels, ("complete queries", "with a pause of 500 ms"), strict=True):
        for name in dict.fromkeys(point.curve for point, _ in report.curves):
            line = [row for point, row in report.curves if point.curve == name and row.endpoint]
            waits = [row.endpoint.median_ms for row in line if row.endpoint]
            axes.plot(waits, [100 * _cut(row, title) for row in line], marker=".", label=name)
        for row in report.figures:
            if row.endpoint and row.point != NEVER:
                axes.plot(row.endpoint.median_ms, 100 * _cut(row, title), "k+")
                axes.annotate(row.point, (row.endpoint.median_ms, 100 * _cut(row, title)), fontsize="x-small", rotation=30)
        axes.set_title(title)
        axes.set_xlabel("end of speech to endpoint, median, ms")
        axes.set_ylabel("cut off, %")
        axes.set_ylim(bottom=-1)
        axes.grid(True, alpha=0.3)
    panels[0].legend(fontsize="small")
    figure.tight_layout()
    figure.savefig(path, format="png", dpi=120)
    pyplot.close(figure)


def _cut(row: Figures, title: str) -> float:
    rate = row.cut if title == "complete queries" else row.pauses.get(500)
    return rate.value if rate else float("nan")
