"""`voicectl asr eval`: how good recognizers are, on a folder of recordings. No daemon is needed.

What lives here: the command, from its options to its answer. What must not: any figure (evaluation/). What is measured, and how, is said
in evaluation/report.py and under the tables. Exit codes: 0 measured (clips left out are named); 2 options, or jiwer is not installed;
65 the folder's manifest cannot be read, or has no clip that can be measured; 66 a model is missing, damaged or of another kind.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path

from voiced.api import InputError, UsageError, default_library, defaults, runtime_directory

from .extras import need

HELD_OUT = Path(__file__).resolve().parents[1] / "train" / "held-out.txt"
"""In a checkout; elsewhere there is none, and all clips are measured."""

PAUSES_MS = (300, 500, 800, 1200)


def arguments(one: argparse.ArgumentParser) -> None:
    """Adds the options of `asr eval`."""
    one.add_argument("--data", metavar="DIR", type=Path, required=True, help="folder with manifest.jsonl")
    one.add_argument(
        "--model",
        metavar="ID",
        action="append",
        default=[],
        help="id, folder of an export, or NAME=FOLDER; may be repeated (default: the daemon's)",
    )
    one.add_argument(
        "--paths",
        metavar="N",
        type=int,
        nargs="+",
        default=[defaults().transducer.paths],
        help="hypotheses that the search keeps, a row each (default: the daemon's)",
    )
    one.add_argument(
        "--language",
        metavar="X",
        type=float,
        nargs="+",
        default=[defaults().transducer.language],
        help="weight of the language model of those that have one, a row each (default: the daemon's)",
    )
    one.add_argument(
        "--sets", metavar="NAME", nargs="+", default=[], help="sets to measure, or all (default: the four of speech and commands)"
    )
    one.add_argument("--limit", metavar="N", type=int, help="at most N clips a set, drawn by the seed")
    one.add_argument("--seed", metavar="S", type=int, default=0, help="of the draws, the noise and the intervals (default: 0)")
    one.add_argument("--held-out", metavar="FILE", type=Path, help="speakers, recordings and sources that no model was trained on")
    one.add_argument(
        "--pause-ms", metavar="MS", type=int, nargs="*", default=list(PAUSES_MS), help="pauses put in (default: 300 500 800 1200)"
    )
    one.add_argument(
        "--token-threshold", metavar="X", type=float, help="log-probability of an end token that counts (default: the daemon's)"
    )
    one.add_argument("--path", metavar="DIR", default="", help="folder that is searched for models first (the setting models.path)")
    form = one.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="one JSON document, with every clip")
    form.add_argument("--markdown", action="store_true", help="tables for a model's card")


def evaluate(options: argparse.Namespace) -> int:
    """Runs it and prints one report. Raises VoicedError."""
    _check(options)
    from .evaluation import clips, measure, recognizers, report

    library = default_library(options.path)
    exports = [export for asked in options.model or [defaults().models.transducer] for export in recognizers.find(asked, lambda: library)]
    for export in exports:
        recognizers.try_out(export)
    told = (", {0} paths" if len(options.paths) > 1 else "") + (", language {1:g}" if len(options.language) > 1 else "")
    exports = [
        recognizers.searched(export, paths, language, told.format(paths, language))
        for export in exports
        for paths in options.paths
        for language in options.language
    ]
    known = clips.read_clips(options.data, held_out(options.held_out))
    chosen = clips.choose(known, options.sets, options.limit, options.seed)
    threshold = defaults().endpoint.token_threshold if options.token_threshold is None else options.token_threshold
    rules = measure.Rules(threshold, tuple(sorted(set(options.pause_ms))), options.seed)
    left_out = list(chosen.left_out)
    vad = measure.vad_of(library.find(defaults().models.vad, "vad").files["model"])
    with runtime_directory() as runtime:
        models = [(export, recognizers.load(export, runtime)) for export in exports]
        heard = list(measure.measure(chosen.sets, models, vad, rules, progress, left_out.append))
    if not heard:
        raise InputError(str(options.data), f"none of its clips can be measured; {left_out[-1].name}: {left_out[-1].why}")
    result = report.Report(options.data, chosen, exports, rules, options.limit, measure.all_figures(heard, options.seed), heard, left_out)
    if options.json:
        print(json.dumps(report.document(result), ensure_ascii=False))
    else:
        print(report.markdown(result) if options.markdown else report.plain(result))
    return 0


def _check(options: argparse.Namespace) -> None:
    """What must be true before anything is loaded."""
    need("jiwer", "asr eval", "counts word errors with")
    if options.limit is not None and options.limit < 1:
        raise UsageError("--limit", f"must be a number of clips from 1, got {options.limit}")
    if wrong_paths := [paths for paths in options.paths if not 1 <= paths <= 16]:
        raise UsageError("--paths", f"must be 1 to 16, got {wrong_paths[0]}")
    if wrong_weights := [weight for weight in options.language if not 0 <= weight <= 1]:
        raise UsageError("--language", f"must be 0 to 1, got {wrong_weights[0]:g}")
    if options.seed < 0:
        raise UsageError("--seed", f"must be a number from 0, got {options.seed}")
    if wrong := [ms for ms in options.pause_ms if not 100 <= ms <= 5000]:
        raise UsageError("--pause-ms", f"must be 100 to 5000, got {wrong[0]}")


def held_out(file: Path | None = None) -> frozenset[str]:
    """What no model was trained on: by the file that is named, else the checkout's own; nothing where there is none. Raises InputError."""
    from .evaluation.clips import read_held_out

    file = file or (HELD_OUT if HELD_OUT.is_file() else None)
    return read_held_out(file) if file else frozenset()


def progress(name: str, done: int, total: int) -> None:
    """One line on a terminal, written over itself; nothing in a log."""
    if not sys.stderr.isatty():
        return
    width = max(os.get_terminal_size(sys.stderr.fileno()).columns or 80, 40)
    cells = 24 * done // total
    line = f"{name} [{'█' * cells}{'·' * (24 - cells)}] {done} of {total} clips"
    sys.stderr.write(f"\r{line[: width - 1]}\x1b[K" + ("\r\x1b[K" if done == total else ""))
    sys.stderr.flush()
