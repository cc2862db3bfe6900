"""What an empty room costs: core-seconds for an hour of sound in which nobody speaks.

A whole daemon hears a file at the pace of speech, so capture is not in it: that is measured apart, on a real sound server
where one is at hand. Some tens of seconds are measured and stretched to an hour; the first seconds, in which the gate is
open to learn the room, are left out.
"""

from __future__ import annotations

import asyncio
import importlib
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from voiced.audio import Samples
from voiced.models import cache_directory

from . import recordings
from .rows import Row
from .running import hearing, listening

HOUR_S = 3600
SETTLE_S = 4.0
"""Twice the time for which the gate stays open after its birth."""

AIM_S = 36.0
"""1 % of one core."""


def run(quick: bool) -> list[Row]:
    seconds = 6.0 if quick else 40.0
    return asyncio.run(_run(seconds))


async def _run(seconds: float) -> list[Row]:
    length = SETTLE_S + seconds + 30.0  # it must not end before we do
    rows = []
    sounds = {"digital silence": recordings.silence(length), "a room at -70 dBFS": recordings.room(length)}
    for name, sound in sounds.items():
        costs, passed = await _cost(sound, seconds)
        total = sum(costs.values())
        note = f"{passed:.0f} s stretched to an hour; {_shares(costs, passed)}"
        rows.append(Row("idle", name, _an_hour(total, passed), "core-s/h", aim=AIM_S, note=note))
    return rows + await _capture(seconds)


async def _cost(sound: Samples, seconds: float) -> tuple[dict[str, float], float]:
    async with hearing(sound) as daemon:
        await asyncio.sleep(SETTLE_S)
        return await daemon.cost(seconds)


async def _capture(seconds: float) -> list[Row]:
    """A microphone that hears nothing: the monitor of a null sink."""
    unit = "core-s/h"
    try:
        sound: Any = importlib.import_module("soundserver")  # the fixture of the tests, which want pytest
    except ImportError as error:
        return [Row("idle", "capture", float("nan"), unit, note=f"not measured: {error}; tools/test installs it")]
    missing = [program for program in sound.PROGRAMS if not shutil.which(program)]
    if missing:
        return [Row("idle", "capture", float("nan"), unit, note=f"not measured: no {', '.join(missing)} (PipeWire) here")]
    with tempfile.TemporaryDirectory(prefix="voiced-") as directory:
        server = sound.SoundServer(Path(directory))
        try:
            server.start()
            server.null_sink("mic16", 16_000, 1)
            server.listen_to("mic16")
            environment = server.env | {"VOICED_CACHE": str(cache_directory())}  # its HOME is a new one
            async with listening("auto", Path(directory), environment) as daemon:
                await asyncio.sleep(SETTLE_S)
                costs, passed = await daemon.cost(seconds)
        except sound.pytest.fail.Exception as error:  # how the fixture says that a server does not come up
            return [Row("idle", "capture", float("nan"), unit, note=f"not measured: {error}")]
        finally:
            server.stop()
    capture = costs.pop("capture", float("nan"))
    rest = sum(costs.values())
    return [
        Row("idle", "capture", _an_hour(capture, passed), unit, note=f"the capture process alone; {passed:.0f} s of a PipeWire monitor"),
        Row("idle", "the others, on a microphone", _an_hour(rest, passed), unit, aim=AIM_S, note=_shares(costs, passed)),
    ]


def _an_hour(cpu_s: float, passed: float) -> float:
    return cpu_s / passed * HOUR_S


def _shares(costs: Mapping[str, float], passed: float) -> str:
    return ", ".join(f"{role} {_an_hour(cpu_s, passed):.1f}" for role, cpu_s in costs.items())
