"""`voicectl cue`: a sound or a command at each change of a lane's state, for who does not look at a screen.

What lives here: which change is told, the tones, and running what makes the sound. What must not: D-Bus (voiced.api has a client).
"""

from __future__ import annotations

import argparse
import asyncio
import math
import os
import shutil
import struct
import sys
import tempfile
import wave
from contextlib import AsyncExitStack, aclosing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from voiced.api import RATE, Changed, OutputError, UsageError

from .client import arrive, of_lane

PLAYERS = ("pw-play", "paplay", "aplay")
"""Whichever is there first; each plays a WAV file and ends."""

TONES = {"awake": (880, 1320), "asleep": (660, 440), "muted": (330, 330), "no_device": (330, 220), "stalled": (330, 220)}
"""Hertz, one after the other. Between awake and asleep somebody speaks, and hears no tone."""

TONE_S, LOUDNESS = 0.07, 0.2


@dataclass(frozen=True, slots=True)
class Cue:
    """What a lane is now (a state; a health where that is not ok), and why, in words that can be spoken."""

    lane: str
    now: str
    why: str


def cue_of(item: Changed, before: Any) -> Cue | None:
    """What is to be told of a lane's properties; None where neither its state nor its health is another than `before` (the same pair)."""
    assert item.lane is not None
    state, health = item.values["State"], item.values["Health"]
    if before == (state, health):
        return None
    if health != "ok" and (not before or before[1] != health):
        return Cue(item.lane, health, item.values.get("Reason", ""))
    return Cue(item.lane, state, item.values.get("StateReason", ""))


async def cue(options: argparse.Namespace) -> int:
    """Until ^C, or --count cues."""
    with tempfile.TemporaryDirectory(prefix="voicectl-") as made:
        player = None if options.run else _player()
        if options.sounds and not options.sounds.is_dir():
            raise UsageError("--sounds", f"expected a folder; got {options.sounds}")
        sounds = options.sounds or _tones(Path(made))
        told = 0
        now: dict[str, tuple[str, str]] = {}
        async with AsyncExitStack() as stack:
            client = await arrive(stack, options)
            async for item in await stack.enter_async_context(aclosing(of_lane(client, options.lane))):
                if not isinstance(item, Changed) or item.lane is None or options.lane not in (None, item.lane):
                    continue
                found = cue_of(item, now.get(item.lane))
                now[item.lane] = item.values["State"], item.values["Health"]
                if found is None:
                    continue
                if options.run:
                    await _run(options.run, found)
                elif player and (sound := sounds / f"{found.now}.wav").is_file():
                    await _play(player, sound)
                told += 1
                if told == options.count:
                    return 0
    return 0


async def _run(command: str, found: Cue) -> None:
    beside = {"VOICED_LANE": found.lane}
    process = await asyncio.create_subprocess_exec("sh", "-c", command, "voicectl", found.now, found.why, env={**os.environ, **beside})
    if code := await process.wait():
        print(f"voicectl: {command}: exit code {code}", file=sys.stderr, flush=True)


def _player() -> str:
    found = next((path for path in map(shutil.which, PLAYERS) if path), None)
    if found is None:
        raise OutputError(
            "sound", f"none of {', '.join(PLAYERS)} is here", "install pipewire-bin, pulseaudio-utils or alsa-utils; or --exec CMD"
        )
    return found


async def _play(player: str, sound: Path) -> None:
    null = asyncio.subprocess.DEVNULL
    process = await asyncio.create_subprocess_exec(player, str(sound), stdin=null, stdout=null, stderr=asyncio.subprocess.PIPE)
    _, said = await process.communicate()
    if process.returncode:
        lines = said.decode(errors="replace").strip().splitlines() or [f"exit code {process.returncode}"]
        print(f"voicectl: {player} {sound}: {lines[-1]}", file=sys.stderr, flush=True)


def _tones(folder: Path) -> Path:
    """A file for each of TONES."""
    for name, pitches in TONES.items():
        samples = b"".join(_tone(hertz) for hertz in pitches)
        with wave.open(str(folder / f"{name}.wav"), "wb") as file:
            file.setnchannels(1)
            file.setsampwidth(2)
            file.setframerate(RATE)
            file.writeframes(samples)
    return folder


def _tone(hertz: float) -> bytes:
    """Swells and fades, so that it does not click."""
    count = round(TONE_S * RATE)
    shape = (math.sin(math.pi * at / count) * math.sin(2 * math.pi * hertz * at / RATE) for at in range(count))
    return b"".join(struct.pack("<h", round(32767 * LOUDNESS * value)) for value in shape)


def arguments(one: argparse.ArgumentParser) -> None:
    how = one.add_mutually_exclusive_group()
    how.add_argument(
        "--exec",
        metavar="CMD",
        dest="run",
        help="run CMD by the shell instead: $1 is what the lane is now (awake, hearing, trailing, asleep, muted, no_device, …), "
        "$2 why, in words that can be spoken; VOICED_LANE is set",
    )
    how.add_argument(
        "--sounds", metavar="DIR", type=Path, help="play DIR/awake.wav, DIR/asleep.wav, … where there is one, instead of tones"
    )
