"""`voicectl vad eval`: what the VAD misses and what it invents, on recordings with speech labels, and how late it lets go. No daemon is
needed.

What lives here: the command, from its options to its answer. What must not: any figure (evaluation/vad_measure.py, vad_lateness.py). Exit
codes: 0 measured (files left out are named); 2 options, or a library is not installed; 65 the folder's manifest cannot be read, or has no
file with labels; 66 the model is missing or damaged.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from voiced.api import InputError, UsageError, cache_directory, counted, default_library, defaults

from .asr import held_out
from .extras import need
from .wake import meter

if TYPE_CHECKING:
    from voiced.api import Vad

    from .evaluation.clips import LeftOut
    from .evaluation.vad_lateness import Late
    from .evaluation.vad_measure import Rules

_LIMIT = 20
"""Recordings a set: a minute of processor time for some hundred."""


def arguments(one: argparse.ArgumentParser) -> None:
    """Adds the options of `vad eval`."""
    one.add_argument("--data", metavar="DIR", type=Path, required=True, help="folder with manifest.jsonl, whose files have vad_labels")
    one.add_argument("--lateness", action="store_true", help="also how late the VAD lets go after the end of speech (wants pocketsphinx)")
    one.add_argument("--synthetic", metavar="FILE", type=Path, help="for --lateness: a synthesizer's manifest.jsonl, with `speech`")
    one.add_argument("--limit", metavar="N", type=int, default=_LIMIT, help=f"for --lateness: N recordings a set (default: {_LIMIT})")
    one.add_argument("--path", metavar="DIR", default="", help="folder that is searched for models first (the setting models.path)")
    one.add_argument("--json", action="store_true", help="one JSON document")


def evaluate(options: argparse.Namespace) -> int:
    """Runs it and prints one report. Raises VoicedError."""
    if options.lateness:
        need("pocketsphinx", "--lateness", "aligns with")
    if options.limit < 1:
        raise UsageError("--limit", f"must be a number of recordings from 1, got {options.limit}")
    if options.synthetic and not options.lateness:
        raise UsageError("--synthetic", "is measured for --lateness alone", "add --lateness, or leave --synthetic out")
    from .evaluation import vad_lateness, vad_measure
    from .evaluation.clips import first_of, told
    from .evaluation.measure import vad_of
    from .evaluation.tables import aligned

    settings = defaults()
    vad = vad_of(default_library(options.path).find(settings.models.vad, "vad").files["model"])
    left_out: list[LeftOut] = []
    files = list(vad_measure.read(options.data, vad, left_out))
    if not files:
        raise InputError(
            str(options.data), f"has no file with vad_labels{first_of(left_out)}", "label some: name,start,end,flag,… in seconds"
        )
    rules = vad_measure.all_rules(settings)
    rows = [vad_measure.figures(files, one) for one in rules]
    late, by_ear = _lateness(options, vad, rules, left_out) if options.lateness else ([], 0)
    if options.json:
        document = vad_measure.document(options.data, len(files), rules, rows, left_out)
        lateness = {"lateness": [asdict(row) for row in late], "by_ear": by_ear} if options.lateness else {}
        print(json.dumps({**document, **lateness}, ensure_ascii=False))
        return 0
    tables = [vad_measure.table(rows), *([vad_lateness.table(late)] if late else [])]
    notes = [*(f"{one.name}: {one.about}." for one in rules), *told(left_out, "file")]
    print(f"voicectl vad eval: {settings.models.vad} on {counted(len(files), 'file')}.", *map(aligned, tables), sep="\n\n")
    print("", *notes, *vad_measure.WHAT, sep="\n")
    if options.lateness:
        print(*vad_lateness.WHAT, f"Not counted, their end being known by ear alone: {counted(by_ear, 'recording')}.", sep="\n")
    return 0


def _lateness(options: argparse.Namespace, vad: Vad, rules: Sequence[Rules], left_out: list[LeftOut]) -> tuple[list[Late], int]:
    """Of the queries that `endpoint eval` draws from the same folder."""
    from .evaluation import endpoint_run, vad_lateness
    from .evaluation.alignment import Aligner

    asked = endpoint_run.Asked(options.data, options.synthetic, (), held_out(), options.limit, 0, 0)
    aligner = Aligner(cache_directory() / "endpoint" / "ends")
    return vad_lateness.lateness(endpoint_run.queries(asked, vad, aligner, meter(), left_out), vad, rules)
