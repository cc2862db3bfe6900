"""`voicectl vad eval`: what the VAD misses and what it invents, on recordings with speech labels. No daemon is needed.

What lives here: the command, from its options to its answer. What must not: any figure (evaluation/vad_measure.py). Exit codes: 0 measured
(files left out are named); 65 the folder's manifest cannot be read, or has no file with labels; 66 the model is missing or damaged.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from voiced.api import InputError, counted, default_library, defaults


def arguments(one: argparse.ArgumentParser) -> None:
    """Adds the options of `vad eval`."""
    one.add_argument("--data", metavar="DIR", type=Path, required=True, help="folder with manifest.jsonl, whose files have vad_labels")
    one.add_argument("--path", metavar="DIR", default="", help="folder that is searched for models first (the setting models.path)")
    one.add_argument("--json", action="store_true", help="one JSON document")


def evaluate(options: argparse.Namespace) -> int:
    """Runs it and prints one report. Raises VoicedError."""
    from .evaluation import vad_measure
    from .evaluation.clips import LeftOut, first_of, told
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
    if options.json:
        print(json.dumps(vad_measure.document(options.data, len(files), rules, rows, left_out), ensure_ascii=False))
        return 0
    notes = [*(f"{one.name}: {one.about}." for one in rules), *told(left_out, "file")]
    print(f"voicectl vad eval: {settings.models.vad} on {counted(len(files), 'file')}.", aligned(vad_measure.table(rows)), sep="\n\n")
    print("", *notes, *vad_measure.WHAT, sep="\n")
    return 0
