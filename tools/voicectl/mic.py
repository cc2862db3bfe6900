"""`voicectl mic list` and `record`: which microphones there are, and a recording of one. No daemon is needed.

What lives here: these two commands, and the options that all of the family share. What must not: figures (voiced.api has them); `test`,
`wake` and `latency`, which have files of their own. Exit codes: 0 done; 1 there is no microphone; 2 options; 74 no such device, or it has
gone, or a full disk.
"""

from __future__ import annotations

import argparse
import json
import sys
import wave
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from voiced.api import DeviceError, OutputError, UsageError, find_config, read_settings

from .meter import Hold, Meter, Reading

if TYPE_CHECKING:
    from voiced.api import AudioFrame, Device, Recording, Samples

READ_S = 2.0
"""A device that gives nothing for so long has stalled: its capture process sees it after one, and says so."""

LONGEST_BYTES = 0xFFFFFFFF - 1024
"""Of a WAV file: the length in its header has 32 bits."""


def shared(one: argparse.ArgumentParser) -> None:
    """Adds the options of the family."""
    one.add_argument(
        "--device", metavar="NAME", help="id, name or part of a name, as `voicectl mic list` shows it (default: the settings')"
    )
    one.add_argument("--config", metavar="FILE", type=Path, help="settings (default: those that voiced would read)")
    one.add_argument("--json", action="store_true", help="one JSON object a line")


NO_DEVICE = ("file:", "loop:", "unix:", "tcp:")
"""How sources begin that are none."""


def wanted(options: argparse.Namespace) -> tuple[str, str]:
    """Device and channel: of the settings' first lane that has a device; a device that is named has them `auto`. Raises ConfigError."""
    if options.device:
        return str(options.device), "auto"
    lanes = read_settings(find_config(options.config)).lanes
    return next(((lane.source, lane.channel) for lane in lanes if not lane.source.startswith(NO_DEVICE)), ("auto", "auto"))


def channel(text: str) -> str:
    """As in the settings."""
    if text not in ("auto", "mix") and not (text.isascii() and text.isdecimal() and len(text) <= 3):
        raise argparse.ArgumentTypeError(f"must be auto, mix or a number from 0; got {text!r}")
    return text


# ── list ───────────────────────────────────────────────────────────────────────────────────────────────────────────────


def show(options: argparse.Namespace) -> int:
    """What there is, and what `auto` and the settings mean by it; 1 where nothing is a microphone. Raises VoicedError."""
    from voiced.api import choose_device, find_devices, where_are_they

    found = find_devices()
    shown = [device for device in found.devices if not device.plugin or not found.server]
    device_wanted, _ = wanted(options)
    chosen, why = None, ""
    try:
        chosen, why = choose_device(device_wanted, found.devices, found.default)
    except DeviceError as error:
        why = "; ".join(filter(None, (f"{device_wanted}: {error.what}", error.advice)))
    if options.json:
        for device in shown:
            print(json.dumps({**asdict(device), "default": device.source == found.default != "", "chosen": device == chosen}))
    else:
        for line in _told(shown, found.default, chosen):
            print(line)
        asked = (
            f"{found.server}, ALSA and JACK were asked" if found.server else "ALSA and JACK were asked; no sound server answers this user"
        )
        print(f"\n{asked}. {device_wanted} is {chosen.name}: {why.removeprefix('auto: ')}." if chosen else f"{asked}. {why}")
        if not found.devices:
            for card in _cards():
                print(f"the kernel knows the card {card}")
            if (where := where_are_they()) not in why:  # which tells it mostly
                print(where)
    return 0 if any(not device.monitor for device in shown) else 1


def _told(devices: list[Device], default: str, chosen: Device | None) -> Iterator[str]:
    """A line a device, in columns."""
    from .evaluation.tables import aligned

    if not devices:
        return
    rows = [["", "id", "name", "by", "channels", "Hz", ""]]
    for device in devices:
        notes = [
            note
            for note, holds in (
                ("the server's default", device.source == default != ""),
                ("what the machine plays", device.monitor),
                ("muted", device.muted),
            )
            if holds
        ]
        rates = " ".join(map(str, device.rates)) or "any" if device.plugin or device.rates else "busy"
        identity = device.id or str(device.index)
        rows.append(["→" if device == chosen else "", identity, device.name, device.host, str(device.channels), rates, ", ".join(notes)])
    yield aligned(rows)


def _cards() -> list[str]:
    try:
        lines = Path("/proc/asound/cards").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []
    return [line.strip() for line in lines if "]: " in line]


# ── record ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def record_arguments(one: argparse.ArgumentParser) -> None:
    """Adds the options of `mic record`."""
    shared(one)
    one.add_argument("file", metavar="FILE", type=Path, help="a WAV file, 16 bits, at the device's own rate and channels")
    one.add_argument("--seconds", metavar="S", type=seconds, help="end after so many seconds (default: at ^C)")
    one.add_argument("--heard", action="store_true", help="as voiced hears it: 16 kHz, the channel that it would choose")
    one.add_argument("--force", action="store_true", help="write over a file that is there")


def seconds(text: str) -> float:
    """A positive number of seconds, an hour at the most."""
    try:
        number = float(text)
    except ValueError:
        number = 0
    if not 0 < number <= 3600:
        raise argparse.ArgumentTypeError(f"must be a number of seconds up to 3600; got {text!r}")
    return number


def record(options: argparse.Namespace) -> int:
    """Records to its end or to ^C; what was lost is silence in the file, so that its time is true. Raises VoicedError."""
    from voiced.api import RATE, Recording

    file: Path = options.file
    if file.exists() and not options.force:
        raise UsageError(str(file), "is there already", "name another file, or add --force")
    device, heard_channel = wanted(options)
    with Recording(device) as recording:
        opened = recording.opened
        rate, channels = (RATE, 1) if options.heard else (opened.rate, opened.channels)
        print(f"{opened.device}: {opened.rate} Hz, {opened.channels} ch ({opened.why}); ^C ends it", file=sys.stderr)
        frame_bytes = 2 * channels
        left = most = min(LONGEST_BYTES // frame_bytes, int(options.seconds * rate) if options.seconds else LONGEST_BYTES)
        with _wav(file, rate, channels) as out, listening(recording, heard_channel) as pieces:
            for piece in pieces:
                if options.heard:
                    data = b"".join(bytes(2 * frame.lost) + frame.samples.tobytes() for frame in piece.heard)
                else:
                    data = bytes(frame_bytes * piece.lost) + piece.sound.tobytes()
                data = data[: frame_bytes * left]
                out.writeframesraw(data)
                left -= len(data) // frame_bytes
                if not left:
                    break
        lost_s = recording.lost / opened.rate
    lasted_s = (most - left) / rate
    if options.json:
        beside = {"file": str(file), "seconds": lasted_s, "rate": rate, "channels": channels, "lost_seconds": lost_s}
        print(json.dumps({**beside, "device": asdict(opened)}, ensure_ascii=False))
    else:
        told = f", of which {lost_s:.2f} s were lost" if lost_s else ""
        print(f"{file}: {lasted_s:.2f} s of {rate} Hz, {channels} ch{told}", file=sys.stderr)
    return 0


@contextmanager
def _wav(path: Path, rate: int, channels: int) -> Iterator[wave.Wave_write]:
    """Whole whatever happens; raises OutputError where the disk does not take it."""
    try:
        with path.open("wb") as raw, wave.open(raw, "wb") as out:
            out.setnchannels(channels)
            out.setsampwidth(2)
            out.setframerate(rate)
            with suppress(KeyboardInterrupt):  # that is how it is ended
                yield out
    except OSError as error:
        raise OutputError(str(path), f"cannot be written: {error.strerror}", "name another file") from None


# ── listening ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Piece:
    """What one read of the device gave.

    sound  int16, shape (n, channels)
    heard  the same as voiced hears it
    lost   frames that are missing before it
    ended  frames of the device so far, those that were lost among them
    ended_ns  CLOCK_MONOTONIC when the read returned
    """

    sound: Samples
    heard: list[AudioFrame]
    lost: int
    ended: int
    ended_ns: int


class Listener:
    """A device's sound piece by piece, on the meter meanwhile. `note` and `speech` are shown with the next piece."""

    def __init__(self, recording: Recording, meter: Meter, channel: str) -> None:
        self.note = ""
        self.speech: bool | None = None
        self.meter = meter
        self._recording, self._channel = recording, channel

    def __iter__(self) -> Iterator[Piece]:
        from voiced.api import Converter, glance, interleaved, to_int16

        converter, hold, frames = Converter(self._channel), Hold(), 0
        while True:
            block = self._recording.read(READ_S)
            if block is None:
                what = f"has given nothing for {READ_S:g} s"
                raise DeviceError(self._recording.opened.device, what, "is it busy, or suspended by the sound server?")
            sound = to_int16(interleaved(block))
            frames += block.frames + block.lost
            yield Piece(sound, converter.feed(block), block.lost, frames, block.ended_ns)
            level, peak, clips = glance(sound)
            at = frames / block.rate
            held, clipped = hold.feed(at, peak, clips=clips)
            self.meter.show(Reading(at, level, held, clipped, self.speech, self.note))


@contextmanager
def listening(recording: Recording, channel: str = "auto") -> Iterator[Listener]:
    """The meter is on standard error, so that standard output has results alone, and goes away with this. A channel that the device has not
    is left to choice."""
    meter = Meter(sys.stderr)
    if channel.isdecimal() and int(channel) >= recording.opened.channels:
        channel = "auto"
    try:
        yield Listener(recording, meter, channel)
    finally:
        meter.clear()
