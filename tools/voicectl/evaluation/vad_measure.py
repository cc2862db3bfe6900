"""What a VAD misses and what it invents, against labels: seconds, and one cost of both.

What lives here: labels and segments compared, sample by sample; the tables. What must not: how segments are made (voiced.segments), files
other than the manifest's own. Positions are samples at 16 kHz.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from voiced.api import RATE, InputError, Samples, SegmentRules, Settings, Vad, __version__, read_audio, segments, to_samples

from .clips import LeftOut, lines_of
from .report import rate_text
from .scores import Rate, rate
from .sounds import VAD_HOP
from .tables import Table

MISS_WEIGHT, FALSE_ALARM_WEIGHT = 0.75, 0.25
"""Speech that is missed is lost for good; a false alarm costs some computing. NIST OpenSAT's weights for speech activity detection."""

_SEED = 0
"""Of the intervals: the same labels give the same figures."""

WHAT = (
    "Missed: labelled speech in no segment, as a share of labelled speech. False alarm: segments where the labels say silence, as a share "
    "of that silence. Every sample counts: there is no collar around a label's edge, so a VAD that lets go late pays for it.",
    f"Cost: {MISS_WEIGHT} of the missed share and {FALSE_ALARM_WEIGHT} of the false-alarm share (NIST OpenSAT).",
    "[a, b]: 95 % interval, by drawing files with replacement.",
)

Span = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Rules:
    """A way to make segments of probabilities. `about` says where its numbers are from."""

    name: str
    about: str
    rules: SegmentRules


@dataclass(frozen=True, slots=True)
class Labelled:
    """A file with speech labels: its probabilities, a window of VAD_HOP each, and [start, end) of its speech."""

    name: str
    samples: int
    probabilities: tuple[float, ...]
    speech: tuple[Span, ...]


@dataclass(frozen=True, slots=True)
class Figures:
    rules: str
    missed_s: float
    speech_s: float
    false_alarm_s: float
    silence_s: float
    missed: Rate
    false_alarm: Rate
    cost: float


def all_rules(settings: Settings) -> tuple[Rules, ...]:
    """The daemon's own, without bridging and padding (the heart reads the raw hysteresis), and Silero's published defaults."""
    vad = settings.vad
    ours = SegmentRules(vad.on, vad.off, min_silence=0, min_speech=to_samples(vad.min_speech_ms), pad=0)
    silero = SegmentRules(0.5, 0.35, min_silence=to_samples(100), min_speech=to_samples(250), pad=to_samples(30))
    return (
        Rules("ours", f"vad.on {vad.on:g}, vad.off {vad.off:g}, vad.min_speech_ms {vad.min_speech_ms:g}", ours),
        Rules("Silero's defaults", "get_speech_timestamps: 0.5 and 0.35, speech 250 ms, silence 100 ms, 30 ms put around", silero),
    )


def spans(labels: str) -> tuple[Span, ...]:
    """`name,start,end,flag,start,end,flag…` in seconds, flag 1 for speech → the speech, in samples. ValueError for anything else."""
    parts = labels.split(",")[1:]
    if not parts or len(parts) % 3:
        raise ValueError("its vad_labels are not start, end, flag, again and again")
    rows = list(zip(parts[::3], parts[1::3], parts[2::3], strict=True))
    found = tuple((to_samples(1000 * float(start)), to_samples(1000 * float(end))) for start, end, flag in rows if flag == "1")
    if any(start >= end for start, end in found) or any(before[1] > after[0] for before, after in pairwise(found)):
        raise ValueError("its vad_labels go backwards")
    if not found:
        raise ValueError("its vad_labels have no speech")
    return found


def read(data: Path, vad: Vad, left_out: list[LeftOut]) -> Iterator[Labelled]:
    """Every file of the manifest that has labels, through the VAD. Raises InputError where the manifest cannot be read."""
    for number, line in enumerate(lines_of(data / "manifest.jsonl"), 1):
        name = f"manifest.jsonl:{number}"
        try:
            entry = json.loads(line) if line.strip() else {}
            if "vad_labels" not in entry:
                continue
            name = str(entry["path"])
            speech = spans(entry["vad_labels"])
            samples, _ = read_audio(data / name)
            yield _heard(name, samples, vad, speech)
        except json.JSONDecodeError as error:
            left_out.append(LeftOut("", name, f"is not JSON: {error.msg}"))
        except InputError as error:
            left_out.append(LeftOut("", name, error.what))
        except (ValueError, TypeError, AttributeError, KeyError) as error:
            left_out.append(LeftOut("", name, str(error)))


def _heard(name: str, samples: Samples, vad: Vad, speech: tuple[Span, ...]) -> Labelled:
    return Labelled(name, len(samples), vad.track(samples), clipped(speech, len(samples) // VAD_HOP * VAD_HOP))


def clipped(found: Sequence[Span], end: int) -> tuple[Span, ...]:
    """What of the spans lies before `end`: a rest shorter than a window is judged by nobody."""
    return tuple((start, min(last, end)) for start, last in found if start < end)


def total(found: Sequence[Span]) -> int:
    return sum(end - start for start, end in found)


def overlap(one: Sequence[Span], other: Sequence[Span]) -> int:
    """Samples that lie in both; each side in order and without overlaps of its own."""
    shared = at = 0
    for start, end in one:
        while at < len(other) and other[at][1] <= start:
            at += 1
        for first, last in other[at:]:
            if first >= end:
                break
            shared += min(end, last) - max(start, first)
    return shared


def figures(files: Sequence[Labelled], rules: Rules) -> Figures:
    """`files` is not empty, and has speech and silence."""
    missed, false_alarms = [], []
    for one in files:
        found = segments(one.probabilities, rules.rules, VAD_HOP)
        whole, speech, both = len(one.probabilities) * VAD_HOP, total(one.speech), overlap(one.speech, found)
        missed.append((speech - both, speech))
        false_alarms.append((total(found) - both, whole - speech))
    misses, alarms = rate(missed, _SEED), rate(false_alarms, _SEED)
    if misses is None or alarms is None:
        raise InputError("manifest.jsonl", "its labelled files have no speech, or no silence", "label both")
    return Figures(
        rules.name,
        misses.part / RATE,
        misses.whole / RATE,
        alarms.part / RATE,
        alarms.whole / RATE,
        misses,
        alarms,
        MISS_WEIGHT * misses.value + FALSE_ALARM_WEIGHT * alarms.value,
    )


def table(rows: Sequence[Figures]) -> Table:
    head = ["segments", "missed speech", "of", "share", "false alarms", "of silence", "share", "cost"]
    return [head] + [
        [
            row.rules, f"{row.missed_s:.2f} s", f"{row.speech_s:.1f} s", rate_text(row.missed), f"{row.false_alarm_s:.2f} s",
            f"{row.silence_s:.1f} s", rate_text(row.false_alarm), f"{row.cost:.4f}",
        ]
        for row in rows
    ]  # fmt: skip


def document(data: Path, files: int, rules: Sequence[Rules], rows: Sequence[Figures], left_out: Sequence[LeftOut]) -> Mapping[str, Any]:
    """Everything, in plain values; keys may be added, none changes its meaning. Rates 0 … 1."""
    return {
        "voiced": __version__,
        "data": str(data),
        "files": files,
        "rules": {one.name: one.about for one in rules},
        "figures": [asdict(row) for row in rows],
        "left_out": [asdict(one) for one in left_out],
        "what": list(WHAT),
    }
