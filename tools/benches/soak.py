"""The command tools/soak: hours of sound and many turns through the whole pipeline, and what they leave behind.

What lives here: the day's sound, what is counted, what must hold. What must not: the pipeline. It runs in one thread, as fast as it goes,
with all its models; a turn is one of the recordings that come with voiced, said after a piece of a quiet room or of digital silence, and
now and then there is talk that must wake nobody.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from voiced import assembly
from voiced.audio import AudioFrame, Samples
from voiced.errors import VoicedError
from voiced.events import Event, Final, TurnClosed, Wake
from voiced.models import default_library
from voiced.settings import Settings
from voiced.units import RATE, to_samples

from . import recordings
from .rows import machine

HOUR = 3600 * RATE
SLOPE_MB = 1.0
"""Memory that an hour of sound may add."""
_GRAIN_MB = 20.0
"""Memory that comes and goes with one turn: in a short run no slope stands out of it."""
_LOOKS = 50
_WARM = 0.2
"""Of the run, before memory is looked at: buffers fill, and the allocator takes what the longest turn needs."""
_TALK_EVERY = 10
_BEFORE, _AFTER = to_samples(500), to_samples(2500)
CHECKOUT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True, slots=True)
class Look:
    """At this process after so many hours of sound: memory in MB (resident set), open files, threads."""

    hours: float
    rss_mb: float
    files: int
    threads: int


@dataclass(frozen=True, slots=True)
class Result:
    """What was said, what came of it, and what the process was like meanwhile. `slope_mb` is memory an hour of sound, after it was warm."""

    hours: float
    said: int
    wakes: int
    finals: int
    closed: int
    slope_mb: float
    looks: tuple[Look, ...]
    seconds: float

    def broken(self) -> list[str]:
        """What does not hold, in words."""
        wrong = []
        for what, count in (("wakes", self.wakes), ("finals", self.finals), ("closed turns", self.closed)):
            if count != self.said:
                wrong.append(f"{count} {what}, expected {self.said}")
        if self.slope_mb > SLOPE_MB and self.slope_mb * self.hours > _GRAIN_MB:
            wrong.append(f"memory grows by {self.slope_mb:.2f} MB an hour of sound, at most {SLOPE_MB:g} expected")
        warm = [look for look in self.looks if look.hours >= _WARM * self.hours]
        for what, counts in (("open files", {look.files for look in warm}), ("threads", {look.threads for look in warm})):
            if len(counts) > 1:
                wrong.append(f"{what} went from {min(counts)} to {max(counts)}, expected to stay")
        return wrong


def pieces() -> tuple[list[Samples], Samples]:
    """The turns of the sample, each from a little before its phrase to a while after its query, and its talk."""
    sound, facts = recordings.sample(), recordings.facts()
    turns = [sound[turn["phrase_start"] - _BEFORE : turn["speech_end"] + _AFTER] for turn in facts["turns"]]
    talk = facts["talk"][0]
    before_next = min(turn["phrase_start"] for turn in facts["turns"] if turn["phrase_start"] > talk["speech_end"]) - _BEFORE
    return turns, sound[talk["speech_start"] - _BEFORE : min(talk["speech_end"] + _AFTER, before_next)]


def day(hours: float, turns: int) -> Iterator[Samples]:
    """Pieces of sound, of `hours` together, with so many turns in equal distances. Raises ValueError where they do not fit."""
    said, talk = pieces()
    period = round(hours * HOUR / turns)
    longest = max(map(len, said)) + len(talk)
    if period < longest:
        raise ValueError(f"{turns} turns do not fit into {hours:g} hours: each takes {longest / RATE:.1f} s")
    room = recordings.room(60.0)
    for turn in range(turns):
        own = [said[turn % len(said)], *([talk] if turn % _TALK_EVERY == 0 else [])]
        quiet = period - sum(map(len, own))
        for start in range(0, quiet, len(room)):
            piece = room[: min(len(room), quiet - start)]
            yield np.zeros_like(piece) if turn % 2 else piece
        yield from own


def slope(looks: Sequence[Look]) -> float:
    """MB an hour of sound, by least squares (numpy.polyfit); 0 for fewer than three looks."""
    if len(looks) < 3:
        return 0.0
    return float(np.polyfit([look.hours for look in looks], [look.rss_mb for look in looks], 1)[0])


def look(hours: float) -> Look:
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return Look(hours, pages * os.sysconf("SC_PAGE_SIZE") / 2**20, len(list(Path("/proc/self/fd").iterdir())), threading.active_count())


def run(hours: float, turns: int) -> Result:
    """Raises VoicedError where the pipeline cannot be built, ValueError where the turns do not fit."""
    settings = Settings()
    block = to_samples(settings.capture.block_ms)
    told: Counter[type[Event]] = Counter()
    looks: list[Look] = []
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="voiced-") as directory:
        pipeline = assembly.pipeline(settings, default_library(settings.models.path), Path(directory))
        at, due = 0, 0.0
        for piece in day(hours, turns):
            for first in range(0, len(piece), block):
                frame = AudioFrame(at, np.ascontiguousarray(piece[first : first + block]))
                at = frame.end
                told.update(type(event) for event in pipeline.feed(frame))
            if at / HOUR >= due:
                looks.append(look(at / HOUR))
                due += hours / _LOOKS
                _tell(at / HOUR, hours, told[Wake])
    warm = [one for one in looks if one.hours >= _WARM * hours]
    seconds = time.monotonic() - began
    return Result(at / HOUR, turns, told[Wake], told[Final], told[TurnClosed], slope(warm), tuple(looks), seconds)


def _tell(done: float, hours: float, wakes: int) -> None:
    if sys.stderr.isatty():
        print(f"\r{done:.1f} of {hours:g} h, {wakes} wakes\x1b[K", end="\r", file=sys.stderr, flush=True)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser("tools/soak", description="Hours of sound through the whole pipeline, and what they leave behind.")
    parser.add_argument("--hours", metavar="N", type=float, default=24.0, help="of sound (default: %(default)g)")
    parser.add_argument("--turns", metavar="N", type=int, default=2000, help="said in them (default: %(default)s)")
    parser.add_argument("--pace", choices=["max"], default="max", help="as fast as it goes")
    parser.add_argument("--json", action="store_true", help="one JSON document")
    options = parser.parse_args(arguments)
    if not (0 < options.hours < math.inf and options.turns > 0):
        parser.error(f"--hours and --turns must be more than 0, got {options.hours:g} and {options.turns}")
    try:
        result = run(options.hours, options.turns)
    except ValueError as error:
        parser.error(str(error))
    except VoicedError as error:
        print(f"tools/soak: {error}", file=sys.stderr)
        return error.exit_code
    wrong = result.broken()
    if options.json:
        print(json.dumps({"machine": machine(CHECKOUT), **asdict(result), "broken": wrong}, ensure_ascii=False))
    else:
        print(told_in_words(result, wrong))
    return 1 if wrong else 0


def told_in_words(result: Result, wrong: Sequence[str]) -> str:
    first, last = result.looks[0], result.looks[-1]
    about = ", ".join(f"{name} {value}" for name, value in machine(CHECKOUT).items())
    lines = [
        f"{result.hours:.2f} h of sound in {result.seconds / 60:.1f} min, {3600 * result.hours / result.seconds:.0f} × real time ({about})",
        f"said {result.said} turns: {result.wakes} wakes, {result.finals} finals, {result.closed} closed",
        f"memory {first.rss_mb:.1f} → {last.rss_mb:.1f} MB, {result.slope_mb:+.3f} MB an hour of sound once warm",
        f"open files {first.files} → {last.files}, threads {first.threads} → {last.threads}",
        *(f"broken: {one}" for one in wrong),
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
