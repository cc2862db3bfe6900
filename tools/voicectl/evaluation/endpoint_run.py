"""From a folder to queries on tape, and from settings to figures: the order of the measurement.

What lives here: which recordings are taken and how many, the daemon's stages, the loops. What must not: how a query is made, judged or told
(endpoint_queries, endpoint_replay, endpoint_report).
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path

from voiced.api import (
    AudioFrame,
    Final,
    InputError,
    ModelError,
    Pipeline,
    SecondPassStage,
    Settings,
    Trigger,
    TurnClosed,
    TurnDetector,
    Vad,
    pipeline,
    second_pass,
    transducer,
)
from voiced.api import Library as Models

from . import endpoint_queries
from .alignment import Aligner
from .clips import FIRST_SETS, Clip, LeftOut, choose, draw, first_of, read_clips
from .endpoint_figures import Figures, Heard, Outcomes, Point, figures, outcomes
from .endpoint_points import NEVER, never
from .endpoint_queries import PAUSES_MS, SPELLED, Query
from .endpoint_replay import OPEN, replay
from .endpoint_tape import FIRST, Library, Stages, digest
from .endpoint_tune import Judge, Judged
from .measure import vad_of
from .scores import spread
from .sounds import VAD_HOP

Progress = Callable[[str, int, int], None]

_TURN_DETECTOR = "smart-turn"

OWN = "recordings"
"""The set of somebody's own turns."""

_TUNED_PAUSE_MS = 500
"""Up to which a pause that was put in counts when knobs are searched: one that is longer, few settings bear."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What to measure by.

    data, synthetic  a folder with manifest.jsonl, and a synthesizer's manifest; either may be absent
    files      recordings of somebody's own turns
    held_out   names that no model was trained on (clips.read_held_out)
    limit      recordings a set, at most; paused: recordings that get pauses put in
    """

    data: Path | None
    synthetic: Path | None
    files: tuple[Path, ...]
    held_out: frozenset[str]
    limit: int | None
    paused: int
    seed: int


def has_detector(models: Models) -> bool:
    """The turn detector is optional: it is measured where it was fetched."""
    try:
        models.find(_TURN_DETECTOR, "turn-detector")
    except ModelError:
        return False
    return True


def stages(settings: Settings, models: Models, runtime: Path) -> Stages:
    """The daemon's own; second pass and turn detector are loaded when they are first asked. Raises ModelError."""
    vad_file = models.find(settings.models.vad, "vad").files["model"]
    first = models.find(settings.models.transducer, "transducer").files
    second = models.find(settings.models.second_pass, "second-pass").files if settings.models.second_pass else {}
    detector_files = models.find(_TURN_DETECTOR, "turn-detector").files if has_detector(models) else {}

    @cache
    def rewriter() -> SecondPassStage:
        return second_pass(settings, models, runtime, lambda _: None)

    @cache
    def detector() -> TurnDetector:
        stage = TurnDetector(models.find(_TURN_DETECTOR, "turn-detector").files["model"])
        stage.warm_up()
        return stage

    recognizer = transducer(settings, models, runtime, lambda _: None)
    heard_by = digest([vad_file, *first.values()], repr((settings.transducer, models.model(settings.models.transducer))))
    rewritten_by = repr(models.model(settings.models.second_pass)) if second else ""
    answers = {"second_passes": digest(second.values(), rewritten_by), "scores": digest(detector_files.values(), "")}
    return Stages(vad_of(vad_file), recognizer, rewriter, detector, heard_by, answers)


def gather(asked: Asked, library: Library, progress: Progress, left_out: list[LeftOut], aligner: Aligner | None = None) -> list[Heard]:
    """All queries, on tape: as they are, and some with pauses put in. Without an aligner the ear says where speech ends that nobody has
    labelled. Raises InputError where there are none."""
    whole = queries(asked, library.stages.vad, aligner, progress, left_out)
    heard = [Heard(query, library.tape(query.samples)) for query in whole]
    if not heard:
        where = str(asked.data or asked.synthetic or asked.files[0])
        raise InputError(where, f"has no query to measure by{first_of(left_out)}", "name a folder that has some")
    return heard + list(_paused(asked, library, heard, progress))


def queries(asked: Asked, vad: Vad, aligner: Aligner | None, progress: Progress, left_out: list[LeftOut]) -> Iterator[Query]:
    """All recordings that can be one, as they are; the others go to `left_out`."""
    for name, recordings in _recordings(asked, vad, aligner, left_out):
        for row, (clip, make) in enumerate(recordings):
            progress(name, row, len(recordings))
            try:
                yield make()
            except InputError as error:
                left_out.append(LeftOut(name, clip.name, error.what))
            except ValueError as error:
                left_out.append(LeftOut(name, clip.name, str(error)))
        progress(name, len(recordings), len(recordings))


Recordings = list[tuple[Clip, Callable[[], Query]]]


def _recordings(asked: Asked, vad: Vad, aligner: Aligner | None, left_out: list[LeftOut]) -> Iterator[tuple[str, Recordings]]:
    """Sets of recordings, each with what makes a query of it."""
    if asked.data:
        known = read_clips(asked.data, asked.held_out)
        chosen = choose(known, (), asked.limit, asked.seed)
        left_out += [one for one in chosen.left_out if one.set in FIRST_SETS]
        spelled = endpoint_queries.spelled(asked.data)
        for name, clips in {**chosen.sets, SPELLED: draw(spelled, asked.limit, asked.seed) if spelled else ()}.items():
            yield name, [(clip, partial(endpoint_queries.of_clip, clip, vad, asked.seed, aligner)) for clip in clips]
    if asked.synthetic:
        by_set: dict[str, Recordings] = {}
        for clip, make in endpoint_queries.synthetic(asked.synthetic, left_out.append, asked.seed):
            by_set.setdefault(clip.set, []).append((clip, make))
        for name, recordings in by_set.items():
            kept = {clip.name for clip in draw(tuple(clip for clip, _ in recordings), asked.limit, asked.seed)}
            yield name, [(clip, make) for clip, make in recordings if clip.name in kept]

    if asked.files:
        own = [Clip(path, str(path), OWN, None) for path in asked.files]
        yield OWN, [(clip, partial(endpoint_queries.of_clip, clip, vad, asked.seed)) for clip in own]


def _paused(asked: Asked, library: Library, heard: Sequence[Heard], progress: Progress) -> Iterator[Heard]:
    """Some of the queries once more for each length of a pause."""

    def drawn(one: Heard) -> int:  # any order will do that is the same each time and has all sets mixed
        return zlib.crc32(f"{asked.seed} {one.query.name}".encode())

    whole = sorted((one for one in heard if one.query.set != SPELLED and not one.query.pause_ms), key=drawn)
    taken = 0
    for one in whole:
        if taken == asked.paused:
            break
        made = [endpoint_queries.with_pause(one.query, one.tape.whole, ms, (asked.seed, drawn(one))) for ms in PAUSES_MS]
        queries = [query for query in made if query]
        yield from (Heard(query, library.tape(query.samples)) for query in queries)
        taken += bool(queries)
        progress("pauses", taken, asked.paused)
    progress("pauses", 1, 1)


def measured(points: Sequence[Point], heard: Sequence[Heard], library: Library, progress: Progress) -> dict[str, Outcomes]:
    """Every query's outcome by each point's name, texts too. The tapes keep what the models were asked."""
    found: dict[str, Outcomes] = {}
    for point in points:
        found[point.name] = _outcomes(point, heard, library, progress, texts=True)
    for one in heard:
        library.keep(one.query.samples, one.tape)
    return found


def curves(points: Sequence[Point], heard: Sequence[Heard], library: Library, progress: Progress, seed: int) -> list[tuple[Point, Figures]]:
    """Each point of the picture, without texts."""
    return [(point, figures(point.name, heard, _outcomes(point, heard, library, progress, texts=False), None, seed)) for point in points]


def _outcomes(point: Point, heard: Sequence[Heard], library: Library, progress: Progress, *, texts: bool) -> Outcomes:
    done = 0

    def one_more() -> None:
        nonlocal done
        done += 1
        progress(point.name, done, len(heard))

    return outcomes(point.settings, library, heard, one_more, texts=texts)


# ── tuning ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def judge(heard: Sequence[Heard], library: Library, progress: Progress) -> Judge:
    """Judges settings on all turns as they were spoken, and on those with a pause of up to half a second.

    The wait is between the median and the 90th percentile of end of speech to endpoint: neither is to be bought with the other.
    """
    counted = [one for one in heard if one.query.pause_ms <= _TUNED_PAUSE_MS]

    def judged(settings: Settings) -> Judged:
        found = _outcomes(Point("candidates", settings), counted, library, progress, texts=False)
        waits = spread([one.endpoint_ms for one in found if not one.cut])
        wait_ms = math.inf if waits is None else (waits.median_ms + waits.p90_ms) / 2
        return Judged(sum(one.cut for one in found) / len(found), wait_ms)

    return judged


def before_and_after(
    before: Settings, after: Settings, heard: Sequence[Heard], library: Library, progress: Progress, seed: int
) -> tuple[Figures, Figures]:
    """Both in full, second pass and words too."""
    points = [Point(NEVER, never(before)), Point("before", before), Point("after", after)]
    found = measured(points, heard, library, progress)
    one, other = (figures(name, heard, found[name], found[NEVER], seed) for name in ("before", "after"))
    return one, other


# ── the whole pipeline ─────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Difference:
    """A query of which the whole pipeline made something else than the replay did."""

    query: str
    replayed: str
    whole: str


def check(settings: Settings, models: Models, runtime: Path, heard: Sequence[Heard], library: Library) -> list[Difference]:
    """The same queries through the daemon's whole pipeline, triggered by a client, frame by frame."""
    alone = replace(settings, wake=replace(settings.wake, phrases=()))
    whole = pipeline(alone, models, runtime)
    different = []
    for one in heard:
        outcome = replay(settings, library, one.query, one.tape)
        expected = f"{outcome.reason} at {outcome.closed}: {outcome.first_pass!r}, {outcome.final!r}"
        got = _whole(whole, one.query)
        if outcome.reason != OPEN and expected != got:
            different.append(Difference(one.query.name, expected, got))
    return different


_STEP = 256
"""Samples between two steps of the ears."""


def _whole(whole: Pipeline, query: Query) -> str:
    whole.next_source()
    reason, closed, first_pass, final = OPEN, 0, "", ""
    for first in range(0, len(query.samples) // VAD_HOP * VAD_HOP, _STEP):
        if first + _STEP == FIRST:  # what a client asks becomes a fact at the ears' next step
            whole.ears.command(Trigger(FIRST))
        for event in whole.feed(AudioFrame(first, query.samples[first : first + _STEP])):
            match event:
                case Final() if not final:
                    first_pass, final = event.first_pass, event.text
                case TurnClosed() if not closed:
                    reason, closed = event.reason.value, event.last
        if closed:
            break
    whole.reset()
    return f"{reason} at {closed}: {first_pass!r}, {final!r}"
