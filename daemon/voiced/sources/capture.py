"""The capture process: reads one sound device all day and hands its raw frames to the lanes that share it.

What lives here: the reading loop and the lanes' sockets. What must not: models, NumPy, resampling; nothing that could delay a read.

Three threads, because a read can hang for ever inside the sound library, and so can the sound server. The main thread owns the link to
main: it attaches lanes, sees the link close and sees that reads have stopped, and it can end the process whatever the others are stuck
in. The device's thread looks for the device until it is there, opens it, reads and sends. Reads block; sends never do: what does not fit
into a lane's socket is counted as lost for that lane alone. The server's thread hears from the sound server which source the device's
thread really records: one that was moved to another microphone without a word is ended.

The link (wire.Link), from main:
    a soundcard.Job, its "placement" {"cores", "nice"}        the job, first and once
    {"attach": LANE} with one SOCK_SEQPACKET descriptor (again after a lane's restart: replaces), {"detach": LANE}
    closing it ends the process
to main:
    {"opened": a soundcard.Opened with "placement"}
    {"late": seconds}                 it is open and has not given a block yet; one that comes ends that
    {"looking": n}                    the device was looked for so often; after {"failed": …} the process goes on looking
    {"lost": n, "lanes": {LANE: n}}   totals of frames lost in the device, and by each lane that did not read in time; once a second at most
    {"silent": bool, "muted": bool}   nothing but zeros has come for ten seconds; whether the server says that the source is muted
    {"failed": {"error", "errno", "health"}}   it is not there, or not any more; then the process ends with the error's exit code
"""

from __future__ import annotations

import contextlib
import errno
import os
import select
import signal
import socket
import sys
import threading
import time
import traceback
from collections.abc import Callable
from dataclasses import asdict, replace
from typing import Any, NoReturn

from ..errors import DeviceError, InternalError, VoicedError
from ..wire import Link
from .attendant import Attendant
from .blocks import DATAGRAM_LIMIT, Block, pack, split
from .devices import PLUGINS
from .frameclock import FrameClock, RateError
from .soundcard import Job, Opened, SoundCard, Stream
from .surroundings import Surroundings

_SOCKET_BYTES = 32 * DATAGRAM_LIMIT
"""Asked of a lane's socket; the kernel gives what net.core.wmem_max allows (mostly 416 KiB): seconds of 16 kHz mono, half a
second of 8 channels at 48 kHz. A lane's reader empties it at once, so more would only hide a dead one."""

_TICKS = 4  # looks a stall time; a stall is seen after 1 to 1.25 of it

_PATIENCE = 10
"""Stall times that opening and the first block may take: a sound server's first block has taken 1.3 s, and a sleeping Bluetooth
headset more."""

_LATE = 2
"""Stall times after which an open device that has given nothing yet is said to be late."""

_SILENCE_S = 10
"""So long of zeros alone, in every channel, is digital silence: the noise of a microphone that is alive flips a bit much sooner."""

_SLEPT_S = 0.5
"""What CLOCK_BOOTTIME may gain on CLOCK_MONOTONIC before the machine has slept: the two are read one after the other."""

_LOOK_UP_S = 0.1
"""How often the surroundings are looked at while there is no device."""

_SURE, _RARELY = 3, 8
"""After so many looks a server that was asked to tell does so; from then on it is looked at for itself so much more rarely: a look costs
tens of milliseconds of computing, and a machine may be without a microphone for weeks."""

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
    """One device and its lanes. `run` is the life of the process.

    clock    CLOCK_MONOTONIC in nanoseconds
    asleep   nanoseconds that the machine has slept since it started: CLOCK_BOOTTIME goes on then, CLOCK_MONOTONIC does not
    """

    def __init__(
        self, link: Link, opener: Opener, clock: Callable[[], int] = time.monotonic_ns, asleep: Callable[[], int] | None = None
    ) -> None:
        self._link, self._opener, self._clock, self._asleep = link, opener, clock, asleep or _asleep_ns
        self._attendant = Attendant(self._moved)
        self._lock = threading.Lock()  # of _lanes and their sockets: a socket is never closed while the other thread sends
        self._lanes: dict[str, _Lane] = {}
        self._ended = os.eventfd(0, os.EFD_CLOEXEC)  # the device's thread has failed
        self._code = 0
        self._reads = self._looks = self._waits = 0
        self._name = ""  # of the device, as it was asked for and then as it is
        self._opened = False

    def run(self) -> int:
        """Serves until the link closes or the device fails; returns the exit code. On the main thread.

        The device's thread may still be inside the sound library then: the caller ends the process.
        """
        try:
            first = self._link.receive()
            assert first is not None  # without a timeout there is a message or EOFError
            job = Job(**first.body)
            self._name = job.device
            threading.Thread(target=self._hear, args=(job,), name="capture", daemon=True).start()
            return self._serve(job)
        except EOFError:
            return 0

    def _serve(self, job: Job) -> int:
        seen, quiet, told = -1, 0, False
        while True:
            ready, _, _ = select.select([self._link.fileno(), self._ended], [], [], job.stall_ms / 1000 / _TICKS)
            if self._ended in ready:
                return self._code
            if ready:
                self._obey()
            elif (signs := self._reads + self._looks + self._waits) != seen:
                seen, quiet = signs, 0
            else:
                quiet += 1
                if self._opened and not self._reads and not told and quiet >= _LATE * _TICKS:
                    told = self._link.send({"late": quiet * job.stall_ms / 1000 / _TICKS})
                if quiet >= _TICKS * (1 if self._reads else _PATIENCE):
                    silent_s = quiet * job.stall_ms / 1000 / _TICKS
                    what = f"no sound for {silent_s:.1f} s" if self._reads else f"not open after {silent_s:.1f} s"
                    error = DeviceError(self._name, what, "it is opened again; if that goes on, look at the sound server")
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
        try:
            placement = _pin(job)
            stream, opened = self._find(job)
            self._name, self._opened = opened.device, True
            self._link.send({"opened": {**asdict(opened), "placement": placement}})
            if opened.source:
                self._attendant.watch(opened, follows=job.device in ("auto", *PLUGINS))
            self._pump(stream, opened, job)
        except VoicedError as error:
            self._fail(error)
        except OSError as error:
            self._fail(DeviceError(self._name, error.strerror or str(error)), error.errno or 0)
        except Exception as error:
            traceback.print_exc()
            self._fail(InternalError("capture", f"{type(error).__name__}: {error}", "this is a fault of ours: see the journal"))

    def _find(self, job: Job) -> tuple[Stream, Opened]:
        """Looks until it is there and opens it, at each change of what there is, and now and then where nothing tells of one: another
        program lets go of a device without a word. Raises the last look's DeviceError."""
        surroundings = Surroundings()
        told = ""
        while True:
            try:
                return self._opener(job)
            except DeviceError as error:
                there = isinstance(error.__cause__, OSError)  # it refuses: nobody tells when it does no more
                self._looks += 1
                if self._looks >= job.looks:
                    raise
                if str(error) != told:
                    told = str(error)
                    self._tell(error)
                self._link.send({"looking": self._looks})
            pause_ms = min(job.reopen_ms << min(self._looks - 1, 16), job.reopen_max_ms)
            if self._looks > _SURE and self._attendant.told and not there:
                pause_ms *= _RARELY
            self._wait(pause_ms / 1000, surroundings)

    def _wait(self, seconds: float, surroundings: Surroundings) -> None:
        for _ in range(max(1, round(seconds / _LOOK_UP_S))):
            self._waits += 1
            if self._attendant.wait(_LOOK_UP_S) or surroundings.changed():
                self._attendant.wait(_LOOK_UP_S)  # what comes is seldom whole at once
                return

    def _pump(self, stream: Stream, opened: Opened, job: Job) -> NoReturn:
        size = max(1, job.block_ms * opened.rate // 1000)
        frame_bytes = opened.width * opened.channels
        frameclock = FrameClock(opened.rate, size)
        first, lost_all, told_at = 0, 0, self._clock()
        told: tuple[int, dict[str, int]] = (0, {})
        silence = _Silence(opened.rate)
        slept = self._asleep()
        while True:
            buffer, _overflowed = stream.read(size)  # the flag is no measure: PipeWire never sets it, the frame clock sees every loss
            now = self._clock()
            if (sleep_s := (self._asleep() - slept) / 1e9) > _SLEPT_S:
                raise DeviceError(opened.device, f"the machine has slept for {sleep_s:,.0f} s", "it is opened again")
            data = bytes(buffer)
            frames, rest = divmod(len(data), frame_bytes)
            if rest:
                raise RateError(opened.device, f"{len(data)} bytes came, whole frames of {opened.channels} channels expected")
            if not frames:
                raise DeviceError(opened.device, f"it has ended: no frame came, {size} expected", "it is opened again")
            lost = frameclock.feed(frames, now)
            first += lost
            lost_all += lost
            self._hand_out(Block(now, first, opened.rate, opened.channels, data, lost=lost, width=opened.width))
            first += frames
            self._reads += 1
            if silence.feed(data, frames):
                self._link.send({"silent": silence.told, "muted": silence.told and self._attendant.muted})
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

    def _moved(self, line: str) -> None:
        """In the server's thread."""
        self._fail(DeviceError(self._name, line, "it is opened again"))

    def _fail(self, error: VoicedError, number: int = 0) -> None:
        self._code = error.exit_code
        self._tell(error, number)
        os.eventfd_write(self._ended, 1)

    def _tell(self, error: VoicedError, number: int = 0) -> None:
        if not number and isinstance(error.__cause__, OSError):
            number = error.__cause__.errno or 0
        health = "stalled" if number == errno.ETIMEDOUT else "clock_mismatch" if isinstance(error, RateError) else "no_device"
        self._link.send({"failed": {"error": str(error), "errno": number, "health": health}})


class _Silence:
    """Whether nothing but zeros comes, in all channels. It is told and nothing more: a mute switch and some headsets give zeros for
    hours, and a device that is opened again and again loses what is said then."""

    def __init__(self, rate: int) -> None:
        self._least = _SILENCE_S * rate
        self._frames = 0
        self.told = False

    def feed(self, data: bytes, frames: int) -> bool:
        """True where `told` is another now."""
        self._frames = self._frames + frames if data.count(0) == len(data) else 0
        before, self.told = self.told, self._frames >= self._least
        return self.told != before


def _asleep_ns() -> int:
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) - time.monotonic_ns()


def _pin(job: Job) -> dict[str, Any]:
    """Puts this thread, whose helpers in the sound library inherit it, on its cores; the row of what is, read back."""
    from ..placement import pin

    return asdict(pin("capture", job.placement.get("cores", ()), nice=job.placement.get("nice", 0), process="capture"))


def main(fd: int) -> NoReturn:
    """The capture process, from the descriptor of its link to its exit.

    Ends by os._exit: the library's own exit handler would wait for a read that hangs.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a Ctrl-C goes to the whole group; main ends us by closing the link
    code = InternalError.exit_code
    try:
        _silence_libraries()
        with contextlib.closing(Link.from_fd(fd)) as link:
            code = Capture(link, SoundCard().open).run()
    except VoicedError as error:
        sys.stderr.write(f"{error}\n")
        code = error.exit_code
    except Exception:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def list_main(fd: int) -> int:
    """A process that answers what can record, as {"devices": [{…}, …], "server", "default"} or {"failed": {"error"}}, and ends: the sound
    library may hang where it looks."""
    _silence_libraries()
    with contextlib.closing(Link.from_fd(fd)) as link:
        card = SoundCard()
        try:
            devices, server = card.devices()
        except DeviceError as error:
            link.send_all({"failed": {"error": str(error)}})
            return error.exit_code
        told = [asdict(replace(device, rates=card.rates(device))) for device in devices]
        link.send_all({"devices": told, "server": server.name if server else "", "default": server.default if server else ""})
    return 0


def _silence_libraries() -> None:
    """PortAudio and ALSA write several lines of C at each refusal, which we tell ourselves, once: only Python has standard error."""
    sys.stderr = open(os.dup(2), "w", buffering=1)  # noqa: SIM115, PTH123  it lives as long as we do
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 2)
    os.close(null)
