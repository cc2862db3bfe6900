"""What was measured, for people and for programs.

What lives here: the tables (plain, or Markdown for a model's card), the JSON document, and the sentences that say what each figure is. What
must not: arithmetic on sound or words.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from voiced.api import RATE, __version__

from .clips import Clips, LeftOut, told
from .measure import WITHIN_MS, Figures, Heard, Rules
from .recognizers import Export
from .scores import Rate, Spread
from .tables import Table, aligned, marked_down, without_empty
from .tracks import EARLY

_LIBRARIES = ("sherpa-onnx", "onnxruntime", "numpy", "jiwer", "rapidfuzz")

WHAT = (
    "WER: word errors on the clip as it is (the model's tail of silence brings its last word out), both texts in lower case without "
    "punctuation.",
    "Slots: values of an order's slots that stand in the text.",
    "[a, b]: 95 % interval over clips: of WER and slots by drawing clips with replacement (percentile bootstrap), of shares Wilson's.",
    "End token: on the clip and 2 s of its own quiet, shares of complete sentences. Within: it stands at most so long after the end of "
    f"speech, and none was early. Early: one stood {EARLY * 1000 // RATE} ms or more before the end, taken back or not. Never: none, or "
    "taken back. Stands after, known after: from the end of speech to its place, and to the moment it was told.",
    "End of speech: the manifest's labels; else the last 10 ms that stand out of the clip's quiet, 200 ms before to 96 ms after Silero VAD "
    "lets go.",
    "In a pause: so much of the clip's own quiet put between two words of the middle; share of sentences in which a token stood there.",
    "Last word after: from the end of speech to the partial that has it, where it is the right word. Delay: of that, what the wait for a "
    "chunk and its look-ahead does not explain. First word after: from the start of speech. In sound heard, so computing is apart; "
    "median / 90th percentile.",
    "RTF: processor time over length of sound, one thread, on the machine named above.",
)
"""What each figure is, a sentence or two a figure."""


@dataclass(frozen=True, slots=True)
class Report:
    """All that a run gives."""

    data: Path
    clips: Clips
    exports: Sequence[Export]
    rules: Rules
    limit: int | None
    figures: Sequence[Figures]
    heard: Sequence[Heard]
    left_out: Sequence[LeftOut]

    def labels(self) -> list[str]:
        """A name a model, with its form where a name comes twice."""
        names = [export.name for export in self.exports]
        return [f"{export.name} {export.form}" if names.count(export.name) > 1 else export.name for export in self.exports]


# ── tables ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def tables(report: Report) -> list[Table]:
    """Those that have something to say."""
    return [table for table in (_words(report), _ends(report), _pauses(report), _delays(report), _models(report)) if len(table) > 1]


def _rows(report: Report) -> list[tuple[str, Figures]]:
    labels = report.labels()
    return [(labels[row.model], row) for row in report.figures]


def _words(report: Report) -> Table:
    head = ["set", "clips", "model", "WER", "substituted/left out/put in", "slots", "orders with all"]
    table = [head]
    for label, row in _rows(report):
        mine = [one.errors for one in report.heard if one.errors and one.model == row.model and one.clip.set == row.set]
        kinds = (sum(getattr(one, kind) for one in mine) for kind in ("substitutions", "deletions", "insertions"))
        table.append([
            row.set, str(row.clips), label, rate_text(row.wer),
            "/".join(map(str, kinds)) if mine else "", rate_text(row.slots), rate_text(row.orders),
        ])  # fmt: skip
    return without_empty(table)


def _ends(report: Report) -> Table:
    head = [
        "set",
        "model",
        *(f"`</s>` within {ms} ms" for ms in WITHIN_MS),
        "early",
        "never",
        "at a cut-off",
        "stands after",
        "known after",
    ]
    table = [head]
    for label, row in _rows(report):
        if (token := row.end_token) is not None:
            shares = [*(token.within[ms] for ms in WITHIN_MS), token.early, token.never, token.cut_off]
            table.append([row.set, label, *map(rate_text, shares), spread_text(token.stands), spread_text(token.known)])
    return without_empty(table)


def _pauses(report: Report) -> Table:
    lengths = sorted({ms for row in report.figures for ms in row.pauses})
    table = [["set", "model", *(f"`</s>` in a pause of {ms} ms" for ms in lengths)]]
    table += [[row.set, label, *(rate_text(row.pauses.get(ms)) for ms in lengths)] for label, row in _rows(report) if row.pauses]
    return table


def _delays(report: Report) -> Table:
    table = [["set", "model", "last word after", "delay", "first word after", "RTF", "to the first model's"]]
    base = {row.set: row.real_time_factor for row in report.figures if row.model == 0}
    for label, row in _rows(report):
        ratio = f"{row.real_time_factor / base[row.set]:.2f} ×" if row.model else ""
        spreads = map(spread_text, (row.last_word, row.emission_delay, row.first_word))
        table.append([row.set, label, *spreads, f"{row.real_time_factor:.3f}", ratio])
    return without_empty(table)


def _models(report: Report) -> Table:
    """WER against latency: one line a model, by what it makes one wait at the most."""
    sets = list(dict.fromkeys(row.set for row in report.figures if row.wer is not None))
    found = {(row.model, row.set): row.wer for row in report.figures}
    table = [["model", "chunk", "look-ahead", "wait at most", "size", *(f"WER {name}" for name in sets)]]
    order = sorted(range(len(report.exports)), key=lambda at: report.exports[at].chunk_ms + report.exports[at].lookahead_ms)
    for at in order:
        export = report.exports[at]
        wait = export.chunk_ms + export.lookahead_ms
        facts = [f"{export.chunk_ms:.0f} ms", f"{export.lookahead_ms:.0f} ms", f"{wait:.0f} ms", f"{export.size / 1e6:.1f} MB"]
        table.append([report.labels()[at], *facts, *(_percent(found.get((at, name))) for name in sets)])
    return table


def _percent(rate: Rate | None) -> str:
    return "" if rate is None else f"{rate.value:.1%}"


def rate_text(rate: Rate | None) -> str:
    return "" if rate is None else f"{rate.value:.1%} [{100 * rate.low:.1f}, {100 * rate.high:.1f}]"


def spread_text(spread: Spread | None) -> str:
    return "" if spread is None else f"{spread.median_ms:.0f} / {spread.p90_ms:.0f} ms"


def remarks(report: Report) -> list[str]:
    """What must be known of the clips: whose speakers may have been trained on, and what was left out."""
    lines = []
    for name, clips in report.clips.sets.items():
        if name in report.clips.trained:
            lines.append(f"{name}: held-out speakers only; {report.clips.trained[name]} clips of others are not measured.")
        elif not any(clip.held_out for clip in clips):
            lines.append(f"{name}: no list of held-out speakers names its own; a model may have been trained on them.")
    return [*lines, *told(report.left_out, "clip")]


def head(report: Report) -> str:
    chosen = "all clips" if report.limit is None else f"at most {report.limit} clips a set"
    versions = _versions()
    libraries = ", ".join(f"{name} {versions[name]}" for name in _LIBRARIES[:2] if name in versions)
    on = machine()
    return (
        f"voicectl asr eval {__version__}: {chosen}, seed {report.rules.seed}, end token from log-probability {report.rules.threshold:g}; "
        f"{libraries}; {on['processor']}, {on['cores']} cores."
    )


def plain(report: Report) -> str:
    """Aligned columns, for a terminal."""
    blocks = [head(report), *map(aligned, tables(report))]
    notes = ["\n".join(lines) for lines in (remarks(report), WHAT) if lines]
    return "\n\n".join([*blocks, *notes]).replace("`", "")


def markdown(report: Report) -> str:
    blocks = [head(report), *map(marked_down, tables(report))]
    notes = [f"- {line}" if not line.startswith(" ") else f"  - {line.strip()}" for line in remarks(report)]
    notes += [f"- {line}" for line in WHAT]
    return "\n\n".join([*blocks, "\n".join(notes)])


# ── for programs ───────────────────────────────────────────────────────────────────────────────────────────────────────


def document(report: Report) -> dict[str, Any]:
    """Everything, in plain values; keys may be added, none changes its meaning. Times are milliseconds, rates 0 … 1."""
    labels = report.labels()
    return {
        "voiced": __version__,
        "versions": _versions(),
        "machine": machine(),
        "data": str(report.data),
        "limit": report.limit,
        "seed": report.rules.seed,
        "token_threshold": report.rules.threshold,
        "models": [
            {"label": labels[at], "size": export.size, **asdict(export), "files": {part: str(path) for part, path in export.files.items()}}
            for at, export in enumerate(report.exports)
        ],
        "sets": {
            name: {"clips": len(clips), "held_out": any(clip.held_out for clip in clips), "not_held_out": report.clips.trained.get(name, 0)}
            for name, clips in report.clips.sets.items()
        },
        "figures": [{**asdict(row), "model": labels[row.model]} for row in report.figures],
        "clips": [_clip(one, labels) for one in report.heard],
        "left_out": [asdict(one) for one in report.left_out],
        "not_speech": dict(report.clips.other),
        "what": list(WHAT),
    }


def _clip(one: Heard, labels: Sequence[str]) -> dict[str, Any]:
    ending = None
    if one.ending is not None:
        stands, known = (None if at is None else at / 16 for at in (one.ending.stands, one.ending.known))
        ending = {"stands_ms": stands, "known_ms": known, "early": one.ending.early}
    return {
        "clip": one.clip.name,
        "set": one.clip.set,
        "model": labels[one.model],
        "reference": one.clip.text,
        "slots_wanted": list(one.clip.slots),
        "text": one.text,
        "errors": one.errors and asdict(one.errors),
        "slots_found": one.slots,
        "end_token": ending,
        "pauses": dict(one.pauses),
        "seconds": one.seconds,
        "cpu_seconds": one.cpu_seconds,
    }


def _versions() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for name in _LIBRARIES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:  # a board's own build
            continue
    return found


def machine() -> Mapping[str, Any]:
    """What a figure of time was measured on: processor, architecture, cores."""
    processor = platform.processor() or platform.machine()
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
        named = (line.partition(":")[2].strip() for line in lines if line.startswith(("model name", "uarch")))
        processor = next(named, processor)
    except OSError:
        pass
    return {"processor": processor, "architecture": platform.machine(), "cores": os.cpu_count()}
