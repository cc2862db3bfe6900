"""What voiced adds to the models: the cost of a turn, beside the bare calls that it makes of them.

The recording that comes with voiced goes through the pipeline once while every call of onnxruntime and sherpa-onnx is
written down with what it was given (replay.py). Then, in one process and frame by frame, each frame goes through a second
pipeline and its calls are made again, bare. The gate, the mel spectrogram, the turn machine and every copy of a sample count
as ours. Frames count from those in which a turn is open or pending: the second pass is among them.

After that a whole daemon hears the same sound at the pace of speech, and the bare calls are made once more at that pace: a
processor that slept between two blocks has forgotten what it knew.
"""

from __future__ import annotations

import asyncio
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from voiced import assembly
from voiced.audio import AudioFrame, Samples
from voiced.batch import until_idle
from voiced.models import default_library
from voiced.pipeline import Pipeline
from voiced.settings import Settings
from voiced.units import RATE, to_samples

from . import recordings
from .replay import Call, Player, recorded
from .rows import Row
from .running import hearing

AIM = 1.05


@dataclass(frozen=True, slots=True)
class Step:
    """A frame, the calls it led to, and whether a turn was heard."""

    frame: AudioFrame
    calls: tuple[Call, ...]
    heard: bool


def run(quick: bool) -> list[Row]:
    settings, sound = Settings(), recordings.sample()
    with tempfile.TemporaryDirectory(prefix="voiced-") as directory:
        steps = record(settings, sound, Path(directory))
        pipeline = build(settings, Path(directory))
        ours, bare = zip(*[_in_turns(pipeline, steps, turn % 2) for turn in range(2 if quick else 8)], strict=True)
    ratio = statistics.median(mine / theirs for mine, theirs in zip(ours, bare, strict=True))
    value = statistics.median(ours)
    seconds = sum(len(step.frame.samples) for step in steps if step.heard) / RATE
    calls = sum(len(step.calls) for step in steps if step.heard)
    note = f"median of {len(ours)}; {seconds:.1f} s of turns, {calls} calls"
    rows = [Row("hearing", "the pipeline, one process", value * 1000, "ms", bare=value / ratio * 1000, aim=AIM, note=note)]
    return rows + _paced(steps, sound)


def build(settings: Settings, directory: Path) -> Pipeline:
    return assembly.pipeline(settings, default_library(settings.models.path), directory)


def record(settings: Settings, sound: Samples, directory: Path) -> list[Step]:
    """The sound through the pipeline, and what each frame made it ask of the models."""
    block = to_samples(settings.capture.block_ms)
    frames = (AudioFrame(at, sound[at : at + block]) for at in range(0, len(sound), block))
    steps = []
    with recorded() as calls:
        pipeline = build(settings, directory)
        calls.clear()  # what warms up a model is not part of hearing
        for frame in until_idle(frames, block, pipeline):
            idle_before = pipeline.idle
            pipeline.feed(frame)
            steps.append(Step(frame, tuple(calls), not (idle_before and pipeline.idle)))
            calls.clear()
    return steps


def _in_turns(pipeline: Pipeline, steps: Sequence[Step], first: int) -> tuple[float, float]:
    """Processor seconds of the frames of turns: the pipeline's, and those of the bare calls.

    Whichever goes first finds a processor that has forgotten the models, so they take turns at it; `first` (0 or 1) begins.
    """
    pipeline.next_source()
    player = Player()
    ours = bare = 0
    for number, step in enumerate(steps, first):
        work: list[Callable[[], object]] = [partial(pipeline.feed, step.frame), partial(player.play, step.calls)]
        spent = [0, 0]
        for which in (number % 2, 1 - number % 2):
            began = time.process_time_ns()
            work[which]()
            spent[which] = time.process_time_ns() - began
        if step.heard:
            ours += spent[0]
            bare += spent[1]
    return ours / 1e9, bare / 1e9


def _paced(steps: Sequence[Step], sound: Samples) -> list[Row]:
    """The whole recording, turns and what is between them, at the pace of speech: all processes, and the bare calls in one."""
    costs, seconds = asyncio.run(_daemon(sound))
    player = Player()
    bare = 0
    began = time.monotonic()
    for step in steps:
        if step.frame.end > seconds * RATE:
            break
        time.sleep(max(0.0, began + step.frame.end / RATE - time.monotonic()))
        before = time.process_time_ns()
        player.play(step.calls)
        bare += time.process_time_ns() - before
    shares = ", ".join(f"{role} {cost * 1000:.0f}" for role, cost in costs.items())
    note = f"the whole recording at the pace of speech, D-Bus and one client included; {shares}"
    return [Row("hearing", "the daemon, all processes", sum(costs.values()) * 1000, "ms", bare=bare / 1e6, aim=AIM, note=note)]


async def _daemon(sound: Samples) -> tuple[dict[str, float], float]:
    """Processor seconds by role from the first block to the second turn's end, and how many seconds of sound that was."""
    async with hearing(sound) as daemon:
        before = daemon.cpu_s()
        heard = await daemon.turns(2)
        after = daemon.cpu_s()
    return {role: after[role] - before[role] for role in before}, heard[-1].event.sample / RATE
