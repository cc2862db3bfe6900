"""The capture process: reads one sound device all day and hands its raw frames to the lanes that share it.

What lives here: the reading loop, the lanes' sockets, and the only use of the sound library (sounddevice). What must not:
models, NumPy, resampling; nothing that could delay a read.

Two threads, because a read can hang for ever inside the sound library. The main thread owns the link to main: it attaches
lanes, sees the link close and sees that reads have stopped, and it can end the process whatever the other thread is stuck
in. The device's thread opens the device, reads and sends. Reads block (callbacks need memory that is both writable and
executable, which a hardened unit forbids); sends never do: what does not fit into a lane's socket is counted as lost for
that lane alone.

The link (wire.Link), from main:
    {"device", "block_ms", "rate", "channels", "stall_ms", "placement": {"cores", "nice"}}   the job, first and once
    {"attach": LANE} with one SOCK_SEQPACKET descriptor (again after a lane's restart: replaces), {"detach": LANE}
    closing it ends the process
to main:
    {"opened": {"device", "host", "rate", "channels", "why", "placement"}}
    {"lost": n, "lanes": {LANE: n}}   totals of frames lost in the device, and for a lane; at most once a second
    {"failed": {"error", "errno"}}    after which the process ends with the error's exit code
"""

from __future__ import annotations

import contextlib
import errno
import os
import select
import signal
import socket
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, NoReturn, Protocol

from ..errors import DeviceError, InternalError, VoicedError
from ..wire import Link
from .blocks import DATAGRAM_LIMIT, Block, pack, split
from .devices import Device, attempts, choose
from .frameclock import FrameClock

_SOCKET_BYTES = 32 * DATAGRAM_LIMIT
"""Asked of a lane's socket; the kernel gives what net.core.wmem_max allows (mostly 416 KiB): seconds of 16 kHz mono, half a
second of 8 channels at 48 kHz. A lane's reader empties it at once, so more would only hide a dead one."""

_TICKS = 4  # looks a stall time; a stall is seen after 1 to 1.25 of it

_PATIENCE = 10
"""Stall times that opening and the first block may take: a sound server's first block has taken 1.3 s, and a sleeping Bluetooth
headset more."""

_SERVER_BUFFER_S = 0.1
"""Latency asked of the sound library, which sizes its buffer by it: at 0.1 s PipeWire holds 200 ms for a late reader and still
hands over each block when it is full; 0.2 s would bring two blocks at a time."""


@dataclass(frozen=True, slots=True)
class Job:
    """What main asks for. `rate` None: a lane's own (16 kHz) or, where refused, the device's. `channels`: the least."""

    device: str = "auto"
    block_ms: int = 40
    rate: int | None = None
    channels: int = 1
    stall_ms: int = 1000
    placement: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Opened:
    """A device that is open: its name and host API, frames a second, samples a frame, and why this one and so."""

    device: str
    host: str
    rate: int
    channels: int
    why: str


class Stream(Protocol):
    """An open device."""

    def read(self, frames: int) -> tuple[Any, bool]:
        """Blocks until there are `frames`; returns (a buffer of int16, interleaved; overflowed).

        No bytes at all mean that the device has ended. Raises OSError with the device's errno.
        """


Opener = Callable[[Job], tuple[Stream, Opened]]


class _Lane:
    """The way to one lane: only the device's thread offers, under the lock of Capture."""

    def __init__(self, sock: socket.socket) -> None:
        sock.setblocking(False)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SOCKET_BYTES)
        self.sock = sock
        self.lost = 0
        self._sequence = 0
        self._untold = 0

    def offer(self, block: Block) -> bool:
        """Sends, or counts as lost what does not fit; False when the lane has gone."""
        self._untold += block.lost
        self.lost += block.lost
        try:
            self.sock.send(pack(replace(block, sequence=self._sequence, lost=self._untold)))
            self._untold = 0
        except BlockingIOError:
            self._untold += block.frames
            self.lost += block.frames
        except OSError:
            return False
        self._sequence += 1
        return True


class Capture:
    """One device and its lanes. `run` is the life of the process; `clock` gives CLOCK_MONOTONIC in nanoseconds."""

    def __init__(self, link: Link, opener: Opener, clock: Callable[[], int] = time.monotonic_ns) -> None:
        self._link, self._opener, self._clock = link, opener, clock
        self._lock = threading.Lock()  # of _lanes and their sockets: a socket is never closed while the other thread sends
        self._lanes: dict[str, _Lane] = {}
        self._ended = os.eventfd(0, os.EFD_CLOEXEC)  # the device's thread has failed
        self._code = 0
        self._reads = 0

    def run(self) -> int:
        """Serves until the link closes or the device fails; returns the exit code. On the main thread.

        The device's thread may still be inside the sound library then: the caller ends the process.
        """
        try:
            first = self._link.receive()
            assert first is not None  # without a timeout there is a message or EOFError
            job = Job(**first.body)
            threading.Thread(target=self._hear, args=(job,), name="capture", daemon=True).start()
            return self._serve(job)
        except EOFError:
            return 0

    def _serve(self, job: Job) -> int:
        seen, quiet = -1, 0
        while True:
            ready, _, _ = select.select([self._link.fileno(), self._ended], [], [], job.stall_ms / 1000 / _TICKS)
            if self._ended in ready:
                return self._code
            if ready:
                self._obey()
            elif self._reads != seen:
                seen, quiet = self._reads, 0
            else:
                quiet += 1
                if quiet >= _TICKS * (1 if seen else _PATIENCE):
                    silent_s = quiet * job.stall_ms / 1000 / _TICKS
                    what = f"no sound for {silent_s:.1f} s" if seen else f"not open after {silent_s:.1f} s"
                    error = DeviceError(job.device, what, "it is opened again; if that goes on, look at the sound server")
                    self._tell(error, errno.ETIMEDOUT)
                    return error.exit_code

    def _obey(self) -> None:
        message = self._link.receive(0)
        if message is None:
            return
        match message.body:
            case {"attach": str(name)} if len(message.fds) == 1:
                self._place(name, _Lane(socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET, fileno=message.fds[0])))
            case {"detach": str(name)}:
                self._place(name, None)
            case unknown:
                for fd in message.fds:
                    os.close(fd)
                what = f"the message {unknown} with {len(message.fds)} descriptors, attach (with one) or detach expected"
                raise InternalError("capture", what)

    def _place(self, name: str, lane: _Lane | None) -> None:
        with self._lock:
            before = self._lanes.pop(name, None)
            if lane:
                self._lanes[name] = lane
        if before:
            before.sock.close()

    # ── the device's thread ────────────────────────────────────────────────────────────────────────────────────────────

    def _hear(self, job: Job) -> None:
        name = job.device
        try:
            placement = _pin(job)
            stream, opened = self._opener(job)
            name = opened.device
            self._link.send({"opened": {**asdict(opened), "placement": placement}})
            self._pump(stream, opened, job)
        except VoicedError as error:
            number = error.__cause__.errno if isinstance(error.__cause__, OSError) else 0
            self._fail(error, number or 0)
        except OSError as error:
            self._fail(DeviceError(name, error.strerror or str(error)), error.errno or 0)
        except Exception as error:
            traceback.print_exc()
            self._fail(InternalError("capture", f"{type(error).__name__}: {error}", "this is a fault of ours: see the journal"), 0)

    def _pump(self, stream: Stream, opened: Opened, job: Job) -> NoReturn:
        size = max(1, job.block_ms * opened.rate // 1000)
        frame_bytes = 2 * opened.channels
        frameclock = FrameClock(opened.rate, size)
        first, lost_all, told_at = 0, 0, self._clock()
        told: tuple[int, dict[str, int]] = (0, {})
        while True:
            buffer, _overflowed = stream.read(size)  # the flag is no measure: PipeWire never sets it, the frame clock sees every loss
            now = self._clock()
            data = bytes(buffer)
            frames, rest = divmod(len(data), frame_bytes)
            if rest:
                raise DeviceError(opened.device, f"{len(data)} bytes came, whole frames of {opened.channels} channels expected")
            if not frames:
                raise DeviceError(opened.device, f"it has ended: no frame came, {size} expected", "it is opened again")
            lost = frameclock.feed(frames, now)
            first += lost
            lost_all += lost
            self._hand_out(Block(now, first, opened.rate, opened.channels, data, lost=lost))
            first += frames
            self._reads += 1
            if now - told_at >= 1_000_000_000:
                with self._lock:
                    counts = (lost_all, {name: lane.lost for name, lane in self._lanes.items() if lane.lost})
                if counts != told and self._link.send({"lost": counts[0], "lanes": counts[1]}):
                    told_at, told = now, counts

    def _hand_out(self, block: Block) -> None:
        with self._lock:
            for part in split(block):
                gone = [name for name, lane in self._lanes.items() if not lane.offer(part)]
                for name in gone:  # main sees the lane end by itself and will attach its successor
                    self._lanes.pop(name).sock.close()

    def _fail(self, error: VoicedError, number: int) -> None:
        self._code = error.exit_code
        self._tell(error, number)
        os.eventfd_write(self._ended, 1)

    def _tell(self, error: VoicedError, number: int) -> None:
        self._link.send({"failed": {"error": str(error), "errno": number}})


def _pin(job: Job) -> dict[str, Any]:
    """Puts this thread, whose helpers in the sound library inherit it, on its cores; the row of what is, read back."""
    from ..placement import pin

    return asdict(pin("capture", job.placement.get("cores", ()), nice=job.placement.get("nice", 0), process="capture"))


# ── the sound library ──────────────────────────────────────────────────────────────────────────────────────────────────


def list_devices() -> list[Device]:
    """Every device that can record, as the sound library found them when it was loaded. Raises DeviceError without PortAudio."""
    sounddevice = _library()
    hosts = [host["name"] for host in sounddevice.query_hostapis()]
    return [
        Device(entry["index"], entry["name"], hosts[entry["hostapi"]], entry["max_input_channels"], round(entry["default_samplerate"]))
        for entry in sounddevice.query_devices()
        if entry["max_input_channels"] > 0
    ]


def open_device(job: Job) -> tuple[Stream, Opened]:
    """Opens what the job names, at the first of `devices.attempts` that the device takes.

    Raises DeviceError; its cause is an OSError with the device's errno where there is one.
    """
    sounddevice = _library()
    device, why = choose(job.device, list_devices())
    tried: list[str] = []
    for rate, channels in attempts(device, job.rate, job.channels):
        try:
            stream = _PortAudio(sounddevice, device, rate, channels, job.block_ms)
        except OSError as error:
            tried.append(f"{rate} Hz {channels} ch: {error.strerror}")
            cause = error
            if error.errno in {errno.EBUSY, errno.ENODEV}:
                break  # another format will not help
            continue
        refused = f" ({'; '.join(tried)})" if tried else ""
        return stream, Opened(device.name, device.host, rate, channels, why + refused)
    advice = "another program holds it" if cause.errno == errno.EBUSY else "name another device as the source of the lane"
    raise DeviceError(device.name, f"it cannot be opened ({'; '.join(tried)})", advice) from cause


class _PortAudio:
    """A device opened by sounddevice; every error of the library comes out as an OSError."""

    def __init__(self, sounddevice: Any, device: Device, rate: int, channels: int, block_ms: int) -> None:
        self._error = sounddevice.PortAudioError
        latency = max(_SERVER_BUFFER_S, 2.5 * block_ms / 1000)
        block = block_ms * rate // 1000
        with self._translated(), _quiet():
            self._stream = sounddevice.RawInputStream(
                samplerate=rate, channels=channels, dtype="int16", blocksize=block, device=device.index, latency=latency
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


def _library() -> Any:
    try:
        import sounddevice
    except OSError as error:  # the binding is there and the C library is not
        raise DeviceError("capture", f"the sound library is missing ({error})", "install the package libportaudio2") from None
    return sounddevice


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """PortAudio writes each refused format to standard error, three lines of C at a time: we tell it ourselves, once."""
    keep = os.dup(2)
    null = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(null, 2)
        yield
    finally:
        os.dup2(keep, 2)
        os.close(keep)
        os.close(null)


def main(fd: int) -> NoReturn:
    """The capture process, from the descriptor of its link to its exit.

    Ends by os._exit: the library's own exit handler would wait for a read that hangs.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a Ctrl-C goes to the whole group; main ends us by closing the link
    code = InternalError.exit_code
    try:
        with contextlib.closing(Link.from_fd(fd)) as link:
            code = Capture(link, open_device).run()
    except VoicedError as error:
        os.write(2, f"{error}\n".encode())
        code = error.exit_code
    except Exception:
        traceback.print_exc()
    finally:
        os._exit(code)
