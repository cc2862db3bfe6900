"""`voicectl wake eval` and `voicectl wake train`: how good wake heads are, and a head for a phrase of one's own. No daemon is needed.

What lives here: the commands, from their options to their answer. What must not: any figure (evaluation/), the recipe (voiced_train). Exit
codes: 0 measured or made; 2 options, or a phrase that cannot be said; 65 the folder's manifest cannot be read or lacks what is wanted; 66 a
model is missing, damaged or of another kind; 75 voices could not be fetched.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from voiced.api import InputError, UsageError, default_library, defaults, phrase_words

if TYPE_CHECKING:
    from voiced.api import Library

    from .evaluation.wake_clips import Material
    from .evaluation.wake_report import Figures
    from .evaluation.wake_run import HeadFile

_EVERYTHING_H = 1000.0


def eval_arguments(one: argparse.ArgumentParser) -> None:
    """Adds the options of `wake eval`."""
    _shared(one)
    one.add_argument(
        "--phrase", metavar="PHRASE", action="append", default=[], help="words or a head's id; may be repeated (default: all that ship)"
    )
    one.add_argument("--head", metavar="FILE", type=Path, help="measure this head; wants one --phrase")
    one.add_argument("--text", metavar="TEXT", action="append", default=[], help="measure a phrase without a head, as the daemon hears it")
    one.add_argument("--levels", action="store_true", help="recall of the phrase at -40, -50 and -60 dBFS")
    one.add_argument("--music", action="store_true", help="recall over music, 0, 5 and 10 dB below the phrase")
    one.add_argument("--rooms", action="store_true", help="recall from 1, 3 and 5 m, simulated with the folder's room responses")
    one.add_argument("--voices", action="store_true", help='recall of the phrase, and of it after a "hey", by voices that never train')
    one.add_argument(
        "--near", metavar="N", type=int, nargs="?", const=5, help="how often near words wake, each said by N voices that never train (5)"
    )
    one.add_argument("--grid", action="store_true", help="false accepts and misses at several thresholds of both stages")
    one.add_argument("--budget", metavar="X", type=float, help="false accepts an hour of the suggested threshold (default: 0.1)")
    one.add_argument("--boost", metavar="X", type=float, help="with --text: how far the search leans to its pieces (default: the daemon's)")


def train_arguments(one: argparse.ArgumentParser) -> None:
    """Adds the options of `wake train`."""
    one.add_argument("phrase", metavar="PHRASE", help='what shall wake, as one says it: "hey kitchen"')
    one.add_argument("--out", metavar="DIR", type=Path, required=True, help="where the head goes")
    one.add_argument("--recordings", metavar="DIR", type=Path, help="recordings of the phrase, one saying a file: they train and judge")
    one.add_argument("--no-voices", action="store_true", help="learn from recordings alone")
    one.add_argument("--seed", metavar="S", type=int, default=0, help="of the training (default: 0)")
    _shared(one)


def _shared(one: argparse.ArgumentParser) -> None:
    one.add_argument("--data", metavar="DIR", type=Path, required=True, help="folder with manifest.jsonl")
    one.add_argument("--threshold", metavar="X", type=float, help="score at which the first stage crosses (default: the daemon's)")
    one.add_argument(
        "--reads-h", metavar="H", type=float, default=_EVERYTHING_H, help="hours of what was read aloud, at most (default: all)"
    )
    one.add_argument("--limit", metavar="N", type=int, help="at most N recordings of a phrase")
    one.add_argument("--no-cascade", action="store_true", help="measure the first stage alone")
    one.add_argument("--cache", metavar="DIR", type=Path, help="where embeddings are kept (default: ~/.cache/voiced/wake)")
    one.add_argument("--plot", metavar="FILE", type=Path, help="draw false accepts against misses as a PNG (wants matplotlib)")
    one.add_argument("--path", metavar="DIR", default="", help="folder that is searched for models first (the setting models.path)")
    form = one.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="one JSON document")
    form.add_argument("--markdown", action="store_true", help="tables for a model's card")


def evaluate(options: argparse.Namespace) -> int:
    """Measures heads, or phrases given as text, and prints one report. Raises VoicedError."""
    _check(options)
    if options.text:
        from .wake_text import evaluate as evaluate_texts

        return evaluate_texts(options, meter())
    if options.head and len(options.phrase) != 1:
        raise UsageError("--head", f"wants one --phrase, got {len(options.phrase)}", '--phrase "what it listens for"')
    # by its head's id, "view-glass", its own recordings would be foreign sound
    _report(options, [phrase_words(one) for one in options.phrase], options.head)
    return 0


def train(options: argparse.Namespace) -> int:
    """Makes a head and measures it. Raises VoicedError."""
    _check(options)
    from voiced_train.near_words import normal
    from voiced_train.wake_train import RECIPE, default_cache, make, ready_voices, workshop

    phrase = normal(options.phrase)
    if options.no_voices and not options.recordings:
        raise UsageError("--no-voices", "leaves nobody to say the phrase", "give --recordings DIR")
    speaker = None if options.no_voices else ready_voices()
    shop = workshop(options.data, options.cache or default_cache(), speaker, meter())
    path = make(shop, phrase, options.out, options.recordings, RECIPE.seeded(options.seed))
    print(f"{path}: {path.stat().st_size / 1000:.0f} kB", file=sys.stderr)
    _report(options, [phrase], path)
    return 0


def _check(options: argparse.Namespace) -> None:
    """What must be true before anything is loaded."""
    if options.threshold is not None and not 0.02 <= options.threshold < 1:
        raise UsageError("--threshold", f"must be a score from 0.02 to below 1, got {options.threshold:g}")
    if options.limit is not None and options.limit < 1:
        raise UsageError("--limit", f"must be a number of recordings from 1, got {options.limit}")
    if getattr(options, "near", None) is not None and options.near < 1:
        raise UsageError("--near", f"must be a number of voices from 1, got {options.near}")
    budget = getattr(options, "budget", None)
    if budget is not None and not 0 <= budget < math.inf:
        raise UsageError("--budget", f"must be false accepts an hour from 0, got {budget:g}")
    of_heads = [f"--{name}" for name in ("levels", "music", "rooms", "voices", "near", "grid") if getattr(options, name, False)]
    if of_heads and getattr(options, "text", None):
        raise UsageError(of_heads[0], "measures heads, and --text has none", "leave one of them out")
    if getattr(options, "grid", False) and options.no_cascade:
        raise UsageError("--grid", "is of both stages, and --no-cascade measures the first alone", "leave one of them out")
    if options.reads_h < 0:
        raise UsageError("--reads-h", f"must be hours from 0, got {options.reads_h:g}")
    if options.plot:
        from .evaluation.wake_report import can_plot

        can_plot()


def _report(options: argparse.Namespace, phrases: list[str], head: Path | None) -> None:
    from voiced.api import WakeFeatures
    from voiced_train.wake_train import default_cache

    from .evaluation import wake_clips, wake_report, wake_run

    settings = defaults()
    with tempfile.TemporaryDirectory(prefix="voicectl-") as folder:
        library = default_library(options.path)
        if head:
            library = wake_run.library_with(head, phrases[0], Path(folder), options.path)
        features = WakeFeatures(library.find(settings.models.wake_embedding, "wake-embedding").files["model"])
        found = wake_clips.material(options.data, features, options.cache or default_cache(), meter())
        heads = wake_run.heads_of(library, phrases, wake_clips.phrases(found))
        threshold = settings.wake.phrases[0].threshold if options.threshold is None else options.threshold
        results = _measured(options, found, heads, threshold, library)
    line = (
        f"voicectl wake eval: test part of {options.data.name}, threshold {threshold:g}, {settings.wake.phrases[0].hops} scores in a row, "
        f"refractory {settings.wake.refractory_ms:g} ms."
    )
    if options.plot:
        wake_report.plot(options.plot, results)
    if options.json:
        print(json.dumps(wake_report.document(line, options.data, results), ensure_ascii=False))
    else:
        print(wake_report.markdown(line, results) if options.markdown else wake_report.plain(line, results))


def _measured(options: argparse.Namespace, found: Material, heads: list[HeadFile], threshold: float, library: Library) -> list[Figures]:
    from voiced_train.wake_train import own_recordings, ready_voices, spoken_to_judge

    from .evaluation import wake_cascade, wake_clips, wake_conditions, wake_run

    settings = defaults()
    kinds = [kind for kind in wake_conditions.KINDS if getattr(options, kind, False)]
    everything, others = wake_clips.foreign(found, options.reads_h * 3600), wake_clips.other_phrases(found)
    results = []
    said: dict[str, wake_clips.Judged] = {}
    hard: dict[str, dict[str, wake_clips.Judged]] = {}
    near: tuple[list[str], wake_clips.Judged] | None = None
    for at, head in enumerate(heads):
        if at == 0 or head.phrase != heads[at - 1].phrase:
            more = []
            if getattr(options, "recordings", None):
                more += own_recordings(options.recordings, "test")
            if head.phrase not in wake_clips.phrases(found) and not getattr(options, "no_voices", False):
                more += spoken_to_judge(head.phrase, found.cache, found.progress)
            said = {
                name: wake_clips.said_in(found, head.phrase, more, (name, ratio), options.limit) for name, ratio in wake_clips.CONDITIONS
            }
            if not next(iter(said.values())).clips:
                raise InputError(str(options.data), f"has no recording of {head.phrase!r} in its test part", "give --recordings DIR")
            hard = wake_conditions.said_in_each(found, options.data / "manifest.jsonl", head.phrase, more, kinds, options.limit)
            if getattr(options, "voices", False):
                hard["voices"] = wake_conditions.said_by_voices(found, head.phrase, ready_voices())
            near = (
                wake_conditions.near_words_said(found, head.phrase, ready_voices(), options.near)
                if getattr(options, "near", None)
                else None
            )
        foreign = wake_clips.against(found, everything, others, head.phrase)
        second = None if head.compared or options.no_cascade else wake_cascade.SecondStage(settings, library, head.id)
        budget = getattr(options, "budget", None)
        figures = wake_run.measured(
            head,
            said,
            foreign,
            settings,
            threshold,
            second,
            found.progress,
            wake_run.BUDGET if budget is None else budget,
            grid=getattr(options, "grid", False),
        )
        results.append(
            replace(
                figures,
                recalls=wake_conditions.recalls(head.path, hard, settings, threshold, second),
                near=wake_conditions.near_woke(head.path, *near, settings, threshold, second) if near else (),
            )
        )
    return results


def meter() -> Callable[[str, int, int], None]:
    """A Progress: one line on a terminal, written over itself at most ten times a second; nothing in a log."""
    last = 0.0

    def draw(what: str, done: int, total: int) -> None:
        nonlocal last
        if not sys.stderr.isatty() or (done < total and time.monotonic() - last < 0.1):
            return
        last = time.monotonic()
        width = max(os.get_terminal_size(sys.stderr.fileno()).columns or 80, 40)
        cells = 24 * done // max(total, 1)
        line = f"{what} [{'█' * cells}{'·' * (24 - cells)}] {done} of {total}"
        sys.stderr.write(f"\r{line[: width - 1]}\x1b[K" + ("\r\x1b[K" if done >= total else ""))
        sys.stderr.flush()

    return draw
