"""The sound library: what can record, and a device that is open.

What lives here: the only use of sounddevice (PortAudio), for cards, JACK, and the sources of a server, which are reached through its
plugin. What must not: the reading loop, lanes. Reads block, since callbacks need memory that is both writable and executable, which a
hardened unit forbids.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from ..errors import DeviceError
from ..units import RATE
from .blocks import FLOAT32, INT16
from .devices import CARDS, MOST_CHANNELS, PLUGINS, Device, all_devices, attempts, choose, where_are_they
from .servers import Server, ask, stream_name

_SERVER_BUFFER_S = 0.1
"""Latency asked of the sound library, which sizes its buffer by it: at 0.1 s PipeWire holds 200 ms for a late reader and still
hands over each block when it is full; 0.2 s would bring two blocks at a time."""


RATES = (8_000, 16_000, 24_000, 32_000, 44_100, 48_000, 96_000)


@dataclass(frozen=True, slots=True)
class Job:
    """What main asks for.

    rate       None: a lane's own (16 kHz) or, where refused, the device's; a server's source always at its own
    channels   the least that the lanes need; 0: all that there are
    looks      how often a device that is not there is looked for before the process ends, to begin afresh
    way        of several to the same server's sources, see devices.all_devices
    reopen_ms, reopen_max_ms   between two looks where nothing tells of a change: doubled each time, at the most
    """

    device: str = "auto"
    block_ms: int = 40
    rate: int | None = None
    channels: int = 1
    stall_ms: int = 1000
    looks: int = 1
    way: int = 0
    reopen_ms: int = 500
    reopen_max_ms: int = 1500
    placement: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Opened:
    """A device that is open: its name and host API, frames a second, samples a frame, why this one and so, its id and source (Device),
    bytes of a sample (blocks.INT16 or FLOAT32)."""

    device: str
    host: str
    rate: int
    channels: int
    why: str
    id: str = ""
    source: str = ""
    width: int = INT16


class Stream(Protocol):
    """An open device."""

    def read(self, frames: int) -> tuple[Any, bool]:
        """Blocks until there are `frames`; returns (a buffer of samples, interleaved; overflowed).

        No bytes at all mean that the device has ended. Raises OSError with the device's errno.
        """


class SoundCard:
    """The library as one process has it. `devices` and `open` find what is there at that moment; no stream may be open then."""

    def __init__(self) -> None:
        self._library: Any = None

    def devices(self, way: int = 0) -> tuple[list[Device], Server | None]:
        """Everything that can record, and the server. Raises DeviceError without PortAudio."""
        if self._library is None:
            self._library = _load()
        else:  # its list is as old as its last start
            self._library._terminate()
            self._library._initialize()
        hosts = [host["name"] for host in self._library.query_hostapis()]
        found = [
            Device(one["index"], one["name"], hosts[one["hostapi"]], one["max_input_channels"], round(one["default_samplerate"]))
            for one in self._library.query_devices()
            if one["max_input_channels"] > 0
        ]
        try:
            cards = CARDS.read_text()
        except OSError:  # no sound in this kernel
            cards = ""
        server = ask()
        return all_devices(found, server, cards, way), server

    def rates(self, device: Device) -> tuple[int, ...]:
        """The usual ones that it takes, all channels at once; its own one, of a server's source; none, where it is busy or leads to a
        server, which takes any. After `devices`."""
        if device.source:
            return (device.rate,)
        if device.plugin:
            return ()
        kind = "float32" if device.host.startswith("JACK") else "int16"
        taken = []
        for rate in RATES:
            with contextlib.suppress(self._library.PortAudioError):
                self._library.check_input_settings(device.index, min(device.channels, MOST_CHANNELS), kind, samplerate=rate)
                taken.append(rate)
        return tuple(taken)

    def open(self, job: Job) -> tuple[Stream, Opened]:
        """Opens what the job names, at the first of `devices.attempts` that the device takes.

        Raises DeviceError; its cause is an OSError with the device's errno where there is one.
        """
        found, server = self.devices(job.way)
        device, why = choose(job.device, found, server.default if server else "")
        _aim(device)
        tried: list[str] = []
        for rate, channels in attempts(device, job.rate, job.channels):
            try:
                stream = _PortAudio(self._library, device, rate, channels, job.block_ms)
            except OSError as error:
                tried.append(f"{rate} Hz {channels} ch: {error.strerror}")
                cause = error
                if error.errno not in (errno.EINVAL, errno.EIO):
                    break  # another format will not help
                continue
            refused = f" (refused: {'; '.join(tried)})" if tried else ""
            coarse = f"; at {rate} Hz words are heard less surely" if rate < RATE else ""
            why += refused + coarse
            return stream, Opened(device.name, device.host, rate, channels, why, device.id, device.source, stream.width)
        raise DeviceError(device.name, f"it cannot be opened ({'; '.join(tried)})", _advice(cause.errno or 0)) from cause

    @contextlib.contextmanager
    def output(self, rate: int, frames: int) -> Iterator[tuple[Callable[[bytes], None], float]]:
        """The default output, mono int16: what writes a block to it, blocking while it is full, and the seconds it takes from there.

        Raises DeviceError. Not on JACK, whose blocking writes crash in PortAudio.
        """
        self._library = self._library or _load()
        hosts = [host["name"] for host in self._library.query_hostapis()]
        names = {
            one["name"]: one["index"]
            for one in self._library.query_devices()
            if one["max_output_channels"] > 0 and not hosts[one["hostapi"]].startswith("JACK")
        }
        name = next((name for name in (*PLUGINS, *names) if name in names), None)
        if name is None:
            raise DeviceError("output", "there is no device that plays", "plug in a speaker, or start the sound server")
        try:
            with self._library.RawOutputStream(
                samplerate=rate, channels=1, dtype="int16", blocksize=frames, device=names[name], latency="low"
            ) as stream:
                yield stream.write, float(stream.latency)
        except self._library.PortAudioError as error:
            raise DeviceError(name, f"it cannot play: {as_oserror(error.args).strerror}") from None


def _advice(number: int) -> str:
    if number == errno.EBUSY:
        return "another program holds it"
    if number in (errno.EACCES, errno.EPERM):
        return where_are_they()
    return "name another device as the source of the lane"


def _aim(device: Device) -> None:
    """Points the servers' plugins at this source, for the next stream: they read it from the environment.

    `dont-reconnect` makes PipeWire end the stream with its source, where it would else go on with another microphone.
    """
    properties = f'node.name = "{stream_name()}" node.dont-reconnect = true'
    if device.source:
        name = device.source
        if name.endswith(".monitor") and device.host == "PipeWire":  # of PipeWire's a sink itself
            properties += f' target.object = "{name.removesuffix(".monitor")}" stream.capture.sink = true'
        else:
            properties += f' target.object = "{name}"'
        os.environ["PULSE_SOURCE"] = name
    os.environ["PIPEWIRE_ALSA"] = f"{{ {properties} }}"


class _PortAudio:
    """A device opened by sounddevice; every error of the library comes out as an OSError."""

    def __init__(self, sounddevice: Any, device: Device, rate: int, channels: int, block_ms: int) -> None:
        self._error = sounddevice.PortAudioError
        latency = max(_SERVER_BUFFER_S, 2.5 * block_ms / 1000)
        block = block_ms * rate // 1000
        # PortAudio's blocking reads of JACK take every sample for four bytes, and write beyond what two have room for
        self.width = FLOAT32 if device.host.startswith("JACK") else INT16
        kind = "float32" if self.width == FLOAT32 else "int16"
        with self._translated():
            self._stream = sounddevice.RawInputStream(
                samplerate=rate, channels=channels, dtype=kind, blocksize=block, device=device.index, latency=latency
            )
            try:
                self._stream.start()
            except self._error:
                self._stream.close(ignore_errors=True)  # or the next attempt would find it busy
                raise

    def read(self, frames: int) -> tuple[Any, bool]:
        with self._translated():
            buffer, overflowed = self._stream.read(frames)
        return buffer, bool(overflowed)

    @contextlib.contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except self._error as error:
            raise as_oserror(error.args) from None


_ERRNO = {-9999: errno.EIO, -9998: errno.EINVAL, -9997: errno.EINVAL, -9996: errno.ENODEV, -9985: errno.EBUSY}
"""PortAudio's codes: unanticipated host error, bad channel count, bad rate, no such device, device unavailable."""


def as_oserror(args: tuple[Any, ...]) -> OSError:
    """A PortAudioError's arguments (text, code, (host API, host's code, host's text)), the last ones not always there."""
    text = str(args[0]) if args else "sound library error"
    code = args[1] if len(args) > 1 else 0
    if len(args) > 2:
        _, host_code, host_text = args[2]
        return OSError(abs(host_code) or errno.EIO, f"{text}: {host_text}" if host_text else text)
    return OSError(_ERRNO.get(code, errno.EIO), text)


def _load() -> Any:
    try:
        import sounddevice
    except OSError as error:  # the binding is there and the C library is not
        raise DeviceError("capture", f"the sound library is missing ({error})", "install the package libportaudio2") from None
    return sounddevice
