"""`voicectl endpoint eval` and `voicectl endpoint tune`: how soon turns end, how many are cut off, and better knobs. No daemon is needed.

What lives here: the commands, from their options to their answer. What must not: any figure (evaluation/endpoint_*.py). Exit codes: 0
measured (recordings left out are named), or tuned; 1 no settings stay within the budget; 2 options, or a library is not installed; 65 there
is nothing to measure by; 66 a model is missing, damaged or of another kind; 74 a file cannot be written; 78 the settings are wrong.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from voiced.api import (
    InputError,
    OutputError,
    UsageError,
    __version__,
    cache_directory,
    default_library,
    find_config,
    read_settings,
    runtime_directory,
)

from .asr import held_out
from .extras import need
from .wake import meter

if TYPE_CHECKING:
    from voiced.api import Library, Settings

    from .evaluation.alignment import Aligner
    from .evaluation.clips import LeftOut
    from .evaluation.endpoint_figures import Figures, Heard
    from .evaluation.endpoint_run import Asked
    from .evaluation.endpoint_tape import Library as Tapes
    from .evaluation.endpoint_tune import Judged

_LIMIT, _PAUSED = 20, 24
"""Recordings a set and recordings with pauses: some 250 turns, two minutes of processor time at the first run."""


def eval_arguments(one: argparse.ArgumentParser) -> None:
    """Adds the options of `endpoint eval`."""
    _shared(one)
    one.add_argument("--check", metavar="N", type=int, default=4, help="queries that the whole pipeline hears too (default: 4)")
    one.add_argument("--no-detector", action="store_true", help="leave the turn detector out, which computes more than all else")
    one.add_argument("--picture", metavar="FILE", type=Path, help="draw cut-offs against the wait as a PNG (wants matplotlib)")
    one.add_argument(
        "--ends",
        action="store_true",
        help="only how well alignment and ear know the ends that --synthetic's synthesizer knew, without --data (wants pocketsphinx)",
    )
    form = one.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="one JSON document, with every query")
    form.add_argument("--markdown", action="store_true", help="tables in Markdown")


def tune_arguments(one: argparse.ArgumentParser) -> None:
    """Adds the options of `endpoint tune`."""
    one.add_argument("recordings", metavar="FILE", type=Path, nargs="*", help="recordings of your own turns, one a file")
    _shared(one)
    one.add_argument(
        "--cutoff-budget",
        metavar="SHARE",
        type=_share,
        default=0.05,
        help="share of turns that may be cut off, as 5%% or 0.05 (default: 5%%)",
    )
    one.add_argument("--out", metavar="FILE", type=Path, help="write the knobs that were searched as a settings file")
    one.add_argument("--json", action="store_true", help="one JSON document")


def _shared(one: argparse.ArgumentParser) -> None:
    one.add_argument("--data", metavar="DIR", type=Path, help="folder with manifest.jsonl")
    one.add_argument("--synthetic", metavar="FILE", type=Path, help="a synthesizer's manifest.jsonl, with `speech` and `pauses`")
    one.add_argument("--config", metavar="FILE", type=Path, help="settings to judge (default: as voiced finds them)")
    one.add_argument(
        "--limit", metavar="N", type=int, default=_LIMIT, help=f"at most N recordings a set, drawn by the seed (default: {_LIMIT})"
    )
    one.add_argument(
        "--paused", metavar="N", type=int, default=_PAUSED, help=f"recordings that get a pause of each length (default: {_PAUSED})"
    )
    one.add_argument("--seed", metavar="S", type=int, default=0, help="of the draws and the noise (default: 0)")
    one.add_argument("--held-out", metavar="FILE", type=Path, help="speakers, recordings and sources that no model was trained on")
    one.add_argument("--cache", metavar="DIR", type=Path, help="where what the models heard is kept (default: ~/.cache/voiced/endpoint)")
    one.add_argument("--path", metavar="DIR", default="", help="folder that is searched for models first (the setting models.path)")


def evaluate(options: argparse.Namespace) -> int:
    """Measures and prints one report. Raises VoicedError."""
    _check(options)
    if options.ends:
        return _ends(options)
    _check_turns(options, "give --data DIR or --synthetic FILE")
    if options.check < 0:
        raise UsageError("--check", f"must be a number of queries from 0, got {options.check}")
    from .evaluation import endpoint_figures, endpoint_points, endpoint_report, endpoint_run

    if options.picture:
        endpoint_report.can_draw()
    with runtime_directory() as runtime:
        work = _work(options, runtime)
        detector = endpoint_run.has_detector(work.models) and not options.no_detector
        points = list(endpoint_points.compared(work.settings, detector=detector))
        found = endpoint_run.measured(points, work.heard, work.tapes, meter())
        swept = list(endpoint_points.swept(work.settings, detector=detector)) if options.picture or options.json else []
        curves = endpoint_run.curves(swept, work.heard, work.tapes, meter(), options.seed)
        checked = work.heard[: options.check]
        different = endpoint_run.check(work.settings, work.models, runtime, checked, work.tapes) if checked else []
    never = found[endpoint_points.NEVER]
    report = endpoint_report.Report(
        where=_where(options),
        heard=work.heard,
        points=points,
        figures=[endpoint_figures.figures(point.name, work.heard, found[point.name], never, options.seed) for point in points],
        found=found,
        sets=endpoint_figures.by_set(work.heard, found[endpoint_points.CONFIGURED], never, options.seed),
        curves=curves,
        left_out=work.left_out,
        checked=len(checked),
        different=different,
        seed=options.seed,
    )
    if options.picture:
        try:
            endpoint_report.draw(options.picture, report)
        except OSError as error:
            raise OutputError(str(options.picture), f"cannot be written: {error.strerror}") from None
    if options.json:
        print(json.dumps(endpoint_report.document(report), ensure_ascii=False))
    else:
        print(endpoint_report.markdown(report) if options.markdown else endpoint_report.plain(report))
    return 0


def _ends(options: argparse.Namespace) -> int:
    """Holds what labels ends against ends that are known. Raises VoicedError."""
    if not options.synthetic:
        raise UsageError("--ends", "wants ends that are known", "give --synthetic FILE")
    others = {"--data": options.data, "--picture": options.picture, "--no-detector": options.no_detector}
    if given := [name for name, value in others.items() if value]:
        raise UsageError("--ends", "measures the recordings of --synthetic, and their ends alone", f"leave {' and '.join(given)} out")
    need("pocketsphinx", "--ends", "aligns with")
    from .evaluation import endpoint_run, ends_check
    from .evaluation.clips import first_of, told
    from .evaluation.measure import vad_of
    from .evaluation.tables import aligned, marked_down

    settings = read_settings(find_config(options.config))
    vad = vad_of(default_library(options.path or settings.models.path).find(settings.models.vad, "vad").files["model"])
    left_out: list[LeftOut] = []
    aligner = _aligner(options)
    queries = endpoint_run.queries(_asked(options), vad, aligner, meter(), left_out)
    rows = ends_check.compare(queries, vad, aligner, options.seed)
    if not rows:
        raise InputError(str(options.synthetic), f"has no query to measure by{first_of(left_out)}", "name one that has some")
    if options.json:
        print(json.dumps(ends_check.document(_where(options), rows, left_out), ensure_ascii=False))
        return 0
    shown = marked_down if options.markdown else aligned
    print(
        f"voicectl endpoint eval --ends {__version__}: {_where(options)}, seed {options.seed}.", shown(ends_check.table(rows)), sep="\n\n"
    )
    print("", *told(left_out, "recording"), *ends_check.WHAT, sep="\n")
    return 0


def tune(options: argparse.Namespace) -> int:
    """Searches, and prints a difference. Exit code 1 where nothing stays within the budget. Raises VoicedError."""
    _check(options)
    _check_turns(options, "give --data DIR, --synthetic FILE, or recordings to tune by")
    from .evaluation import endpoint_run, endpoint_tune

    with runtime_directory() as runtime:
        work = _work(options, runtime)
        judge = endpoint_run.judge(work.heard, work.tapes, meter())
        best, judged, candidates = endpoint_tune.tune(work.settings, judge, options.cutoff_budget)
        before, after = endpoint_run.before_and_after(work.settings, best, work.heard, work.tapes, meter(), options.seed)
    kept = judged.cut <= options.cutoff_budget
    differences = endpoint_tune.differences(work.settings.endpoint, best.endpoint)
    remark = f"voicectl endpoint tune on {_where(options)}: {_told(after, judged)}"
    if options.out and kept:
        try:
            options.out.write_text(endpoint_tune.yaml_text(best.endpoint, remark), encoding="utf-8")
        except OSError as error:
            raise OutputError(str(options.out), f"cannot be written: {error.strerror}") from None
    if options.json:
        changed = {name: {"from": old, "to": new} for name, (old, new) in differences.items()}
        figures = {"before": asdict(before), "after": asdict(after), "cut": judged.cut, "kept": kept, "candidates": candidates}
        print(json.dumps({"voiced": __version__, "endpoint": changed, **figures}, ensure_ascii=False))
    else:
        now = judge(work.settings)
        print(endpoint_tune.yaml_diff(work.settings.endpoint, best.endpoint) or "No other settings wait less within the budget.")
        print(f"\nas they are: {_told(before, now)}\ntuned:       {_told(after, judged)}")
        print(f"{candidates} settings judged on {len(work.heard)} turns of {_where(options)}; {options.cutoff_budget:.1%} may be cut off.")
        if not kept:
            print("None stays within that budget: this is the one that cuts off least. Give it more, or turns that are more like yours.")
    return 0 if kept else 1


def _told(figures: Figures, judged: Judged) -> str:
    final = (
        "none ended" if figures.final is None else f"final {figures.final.median_ms:.0f} / {figures.final.p90_ms:.0f} ms after the speech"
    )
    return f"{judged.cut:.1%} cut off, {final} (median / 90th percentile)"


@dataclass(frozen=True, slots=True)
class _Work:
    settings: Settings
    models: Library
    tapes: Tapes
    heard: list[Heard]
    left_out: list[LeftOut]


def _work(options: argparse.Namespace, runtime: Path) -> _Work:
    """Everything on tape."""
    from .evaluation import alignment, endpoint_run, endpoint_tape

    settings = read_settings(find_config(options.config))
    models = default_library(options.path or settings.models.path)
    tapes = endpoint_tape.Library(endpoint_run.stages(settings, models, runtime), _cache(options))
    left_out: list[LeftOut] = []
    heard = endpoint_run.gather(_asked(options), tapes, meter(), left_out, _aligner(options) if alignment.installed() else None)
    return _Work(settings, models, tapes, heard, left_out)


def _cache(options: argparse.Namespace) -> Path:
    return Path(options.cache or cache_directory() / "endpoint")


def _aligner(options: argparse.Namespace) -> Aligner:
    from .evaluation.alignment import Aligner

    return Aligner(_cache(options) / "ends")


def _asked(options: argparse.Namespace) -> Asked:
    from .evaluation.endpoint_run import Asked

    files = tuple(getattr(options, "recordings", ()))
    return Asked(options.data, options.synthetic, files, held_out(options.held_out), options.limit, options.paused, options.seed)


def _where(options: argparse.Namespace) -> str:
    folders = [path.name for path in (options.data, options.synthetic and options.synthetic.parent) if path]
    files = len(getattr(options, "recordings", ()))
    return " and ".join([*folders, *([f"{files} recordings"] if files else [])])


def _check_turns(options: argparse.Namespace, advice: str) -> None:
    """Whether turns can be judged; `advice` says how they are named."""
    need("jiwer", "endpoint", "counts word errors with")
    if not (options.data or options.synthetic or getattr(options, "recordings", None)):
        raise UsageError("endpoint", "wants turns to judge by", advice)


def _check(options: argparse.Namespace) -> None:
    """What must be true before anything is loaded."""
    if options.limit < 1:
        raise UsageError("--limit", f"must be a number of recordings from 1, got {options.limit}")
    if options.paused < 0:
        raise UsageError("--paused", f"must be a number of recordings from 0, got {options.paused}")
    if options.seed < 0:
        raise UsageError("--seed", f"must be a number from 0, got {options.seed}")


def _share(text: str) -> float:
    try:
        share = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        share = -1.0
    if not 0 <= share < 1:
        raise argparse.ArgumentTypeError(f"must be a share such as 5% or 0.05; got {text!r}")
    return share
