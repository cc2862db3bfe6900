"""The command tools/soak: hours of sound and many turns through voiced, and what they leave behind.

What lives here: arguments, the run in one process, how a result is told. What must not: the sound and what must hold (soaked.py), the
daemon's run (soak_daemon.py), the pipeline.

Without options it is a whole daemon that hears: all its processes, its bus, a client. `--pipeline` has the same sound heard in one process
and one thread, all models in it, the second pass too: what grows there is not of links, queues and the bus.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np
from voiced import assembly
from voiced.audio import AudioFrame
from voiced.command import run_command
from voiced.events import Event, Final, TextSource, TurnClosed, Wake
from voiced.models import default_library
from voiced.settings import Settings
from voiced.units import to_samples

from . import soak_daemon
from .rows import machine
from .soaked import HOUR, LOOKS, Look, Period, Process, Result, day

CHECKOUT = Path(__file__).resolve().parents[2]


def run(periods: Sequence[Period], tell: soak_daemon.Tell = lambda _, __: None) -> Result:
    """In this process, in one thread. Raises VoicedError where the pipeline cannot be built."""
    settings = Settings()
    block = to_samples(settings.capture.block_ms)
    counts: Counter[type[Event]] = Counter()
    looks: list[Look] = []
    rewritten, at, due = 0, 0, 0.0
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="voiced-") as directory:
        pipeline = assembly.pipeline(settings, default_library(settings.models.path), Path(directory))
        for turn, period in enumerate(periods, 1):
            for piece in (*period.quiet, period.said, *period.talk):
                for first in range(0, len(piece), block):
                    frame = AudioFrame(at, np.ascontiguousarray(piece[first : first + block]))
                    at = frame.end
                    for event in pipeline.feed(frame):
                        counts[type(event)] += 1
                        rewritten += isinstance(event, Final) and event.source is TextSource.SECOND_PASS
            if turn >= due or turn == len(periods):
                looks.append(Look.at(os.getpid(), at / HOUR))
                due += len(periods) / LOOKS
                tell(at / HOUR, counts[Wake])
    process = Process.of("pipeline", looks)
    seconds = time.monotonic() - began
    return Result(at / HOUR, len(periods), counts[Wake], counts[Final], rewritten, counts[TurnClosed], (process,), seconds)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser("tools/soak", description="Hours of sound through a whole daemon, and what they leave behind.")
    parser.add_argument("--hours", metavar="N", type=float, default=24.0, help="of sound (default: %(default)g)")
    parser.add_argument("--turns", metavar="N", type=int, default=2000, help="said in them (default: %(default)s)")
    parser.add_argument("--pipeline", action="store_true", help="no daemon: all of it in one process")
    parser.add_argument("--pace", choices=["max"], default="max", help="as fast as it goes")
    parser.add_argument("--json", action="store_true", help="one JSON document")
    options = parser.parse_args(arguments)

    def tell(done: float, wakes: int) -> None:
        if sys.stderr.isatty():
            print(f"\r{done:.1f} of {options.hours:g} h, {wakes} wakes\x1b[K", end="\r", file=sys.stderr, flush=True)

    try:
        periods = list(day(options.hours, options.turns))
    except ValueError as error:
        parser.error(str(error))

    def work() -> int:
        result = (run if options.pipeline else soak_daemon.run)(periods, tell)
        wrong = result.broken()
        if options.json:
            print(json.dumps({"machine": machine(CHECKOUT), **asdict(result), "broken": wrong}, ensure_ascii=False))
        else:
            print(in_words(result, wrong))
        return 1 if wrong else 0

    return run_command("tools/soak", work)


def in_words(result: Result, wrong: Sequence[str]) -> str:
    about = ", ".join(f"{name} {value}" for name, value in machine(CHECKOUT).items())
    cells: list[tuple[str, ...]] = [("process", "own memory, MB", "resident, MB", "MB an hour once warm", "open files", "threads")]
    cells += [_cells(process) for process in result.processes]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    table = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in cells]
    lines = [
        f"{result.hours:.2f} h of sound in {result.seconds / 60:.1f} min, {3600 * result.hours / result.seconds:.0f} × real time ({about})",
        f"said {result.said} turns: {result.wakes} wakes, {result.finals} finals ({result.rewritten} of the second pass), "
        f"{result.closed} closed",
        *table,
        *(f"log: {one}" for one in result.log),
        *(f"broken: {one}" for one in wrong),
    ]
    return "\n".join(lines)


def _cells(process: Process) -> tuple[str, ...]:
    first, last = process.looks[0], process.looks[-1]
    memory = [f"{one:.1f} → {other:.1f}" for one, other in ((first.own_mb, last.own_mb), (first.rss_mb, last.rss_mb))]
    counts = [f"{one} → {other}" for one, other in ((first.files, last.files), (first.threads, last.threads))]
    return (process.name, *memory, f"{process.slope_mb:+.3f}", *counts)


if __name__ == "__main__":
    sys.exit(main())
