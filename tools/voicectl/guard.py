"""`voicectl asr guard`: words that nobody said, with the guard of the second pass and without. No daemon is needed.

What lives here: the command, from its options to its answer. What must not: any figure (evaluation/guard_measure.py). Exit codes:
0 measured (files left out are named); 2 options, or jiwer is not installed; 65 the manifest cannot be read, or has nothing to measure by;
66 a model is missing or damaged.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from pathlib import Path

from voiced.api import InputError, UsageError, default_library, defaults, runtime_directory

from .asr import held_out, progress
from .extras import need


def arguments(one: argparse.ArgumentParser) -> None:
    """Adds the options of `asr guard`."""
    one.add_argument("--data", metavar="DIR", type=Path, required=True, help="folder with manifest.jsonl: noise, music and speech")
    one.add_argument("--model", metavar="ID", default="", help="id of a second-pass model (default: the daemon's)")
    one.add_argument("--limit", metavar="N", type=int, help="at most N clips of speech a set; 0: noise alone")
    one.add_argument("--per-file", metavar="N", type=int, help="at most N pieces of 10 s of a file of noise")
    one.add_argument("--seed", metavar="S", type=int, default=0, help="of the draws and the quiet put after a clip (default: 0)")
    one.add_argument("--held-out", metavar="FILE", type=Path, help="speakers, recordings and sources that no model was trained on")
    one.add_argument("--tapes", metavar="DIR", type=Path, help="keep there what the models heard, so that another run is quick")
    one.add_argument("--path", metavar="DIR", default="", help="folder that is searched for models first (the setting models.path)")
    one.add_argument("--json", action="store_true", help="one JSON document, with every piece and clip")


def evaluate(options: argparse.Namespace) -> int:
    """Runs it and prints one report. Raises VoicedError."""
    _check(options)
    from .evaluation import clips, endpoint_run, guard_measure
    from .evaluation.endpoint_tape import Library
    from .evaluation.tables import aligned

    settings = defaults()
    if options.model:
        settings = replace(settings, models=replace(settings.models, second_pass=options.model))
    model = settings.models.second_pass
    models = default_library(options.path)
    models.find(model, "second-pass")
    known = clips.read_clips(options.data, held_out(options.held_out))
    chosen = clips.choose(known, (), options.limit, options.seed).sets if known.sets and options.limit != 0 else {}
    left_out: list[clips.LeftOut] = []
    with runtime_directory() as runtime:
        library = Library(endpoint_run.stages(settings, models, runtime), options.tapes)
        noise = guard_measure.hear_noises(options.data, options.per_file, library, settings, progress, left_out.append)
        speech = guard_measure.hear_clips(chosen, library, settings, options.seed, progress, left_out.append)
    if not noise and not speech:
        raise InputError(str(options.data), "has no noise, music or speech to measure by", "name a folder whose manifest lists some")
    if options.json:
        print(json.dumps(guard_measure.document(options.data, model, noise, speech, left_out), ensure_ascii=False))
        return 0
    print(f"voicectl asr guard: {model} after {settings.models.transducer}.")
    for table in guard_measure.tables(noise, speech):
        print("", aligned(table), sep="\n")
    print("", *guard_measure.WHAT, *clips.told(left_out, "file"), sep="\n")
    return 0


def _check(options: argparse.Namespace) -> None:
    """What must be true before anything is loaded."""
    need("jiwer", "asr guard", "counts word errors with")
    for name, least in (("limit", 0), ("per_file", 1), ("seed", 0)):
        value = getattr(options, name)
        if value is not None and value < least:
            raise UsageError(f"--{name.replace('_', '-')}", f"must be a number from {least}, got {value}")
