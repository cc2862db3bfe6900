"""A lane's end of a capture process: raw blocks in, frames of 16 kHz mono with true positions out.

What lives here: the channel, the resampling, the positions, and a ring of raw blocks between two threads. What must not: the
device, a decision about sound (how loud, whether speech). A position never goes back: what was lost, and the time in which
there was no device, advance it.

Two threads. The reader does nothing but move datagrams from the socket to the ring, so that a slow stage never makes capture
drop; `read` and everything else of `Microphone` run on the ears thread.
"""

from __future__ import annotations

import math
import socket
import threading
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..audio import AudioFrame, Samples
from ..units import RATE
from .blocks import DATAGRAM_LIMIT, FLOAT32, Block, unpack
from .channels import ChannelChoice, Interleaved
from .devices import no_channel
from .resample import Resampler, resampler

CAPACITY = 256
"""Raw blocks between reader and ears: 10 s of 40 ms blocks, 8 MB at the very most. Ears are never behind by more than a few
blocks but while a model is warmed up or the machine is overloaded, and sound older than a pre-roll (3 s) then helps nobody."""

SILENCE_DBFS = -120.0
"""What a level says of digital silence; a single bit that flips is -90."""

LOUDEST = 16.0
"""Of JACK's floats, whose full scale is 1 and may be passed. What a program puts beyond, or that is no number, must not spread through the
resampler's filter to the sound after it."""

Mono = NDArray[np.int16] | NDArray[np.float32]
"""One channel, shape (n,), in the range of int16."""


class Converter:
    """Raw blocks to frames; pure, on one thread.

    channel   "auto", "mix" (the mean of all), or a number from 0
    first     position of the first sample that is heard, or, with `first_ns`, the position at that CLOCK_MONOTONIC: a lane
              that starts again goes on where time is
    """

    def __init__(self, channel: str | int = "auto", first: int = 0, first_ns: int = 0) -> None:
        self._channel = channel
        self._choice = ChannelChoice()
        self._resampler: Resampler | None = None
        self._format = (0, 0)  # rate, channels of the run
        self._anchor = first  # position of the run's first frame: a run is a piece without gaps
        self._run_first = 0  # the device's index of that frame
        self._next = 0  # the device's index that goes on with it
        self._ended_ns = first_ns  # when the last block ended; 0: nothing was heard and no time is known
        self._at = first  # position of the next sample that goes out: the anchor, and what the run has given since
        self._end = first  # position after the last sample that went out
        self.lost = 0  # samples that positions skipped

    @property
    def channel(self) -> str | int:
        """The channel that is heard now, or "mix"."""
        return self._choice.chosen if self._channel == "auto" else self._channel

    @property
    def choice(self) -> str:
        """Which channel was chosen and by what, a line; empty while that is open, and where the settings say."""
        return self._choice.line if self._channel == "auto" else ""

    @property
    def rate(self) -> int:
        """The device's frames a second; 0 before the first block."""
        return self._format[0]

    def feed(self, block: Block, *, fresh: bool = False) -> list[AudioFrame]:
        """The frames of a block: one, none while the resampler fills, two where a gap lets out what it still held.

        fresh   the first block of a new capture process, whose indices have nothing to do with those before
        Raises DeviceError when the device has no such channel.
        """
        frames: list[AudioFrame] = []
        began_ns = block.ended_ns - block.frames * 1_000_000_000 // block.rate
        fresh = fresh or (block.rate, block.channels) != self._format or block.first < self._next
        if fresh or block.first > self._next:
            frames += self._tail()
            if not fresh:
                self._anchor = self._position(block.first)
            else:
                self._choice.reset()  # the order of channels may be another one now
                if self._ended_ns:
                    here = self._position(self._next)
                    self._anchor = here + max(0, round((began_ns - self._ended_ns) * RATE / 1_000_000_000))
            self._begin(block)
        sound = self._mono(block)
        if self._resampler:
            sound = self._resampler.resample_chunk(sound.astype(np.float32))
        self._next = block.end
        self._ended_ns = block.ended_ns
        return frames + self._out(to_int16(sound), block.ended_ns)

    def _begin(self, block: Block) -> None:
        """A new run at `_anchor`."""
        self._format = (block.rate, block.channels)
        self._run_first = block.first
        self._at = self._anchor
        self._resampler = resampler(block.rate) if block.rate != RATE else None

    def _position(self, index: int) -> int:
        """Of a frame of the run, or of one after it. soxr gives sample k of its output for position k, only later (30 ms)."""
        rate = self._format[0] or RATE
        return self._anchor + round((index - self._run_first) * RATE / rate)

    def _tail(self) -> list[AudioFrame]:
        """What the resampler still holds of a run that ends."""
        if not self._resampler:
            return []
        rest = to_int16(self._resampler.resample_chunk(np.zeros(0, np.float32), last=True))
        self._resampler = None
        return self._out(rest[: max(0, self._position(self._next) - self._at)], self._ended_ns)

    def _mono(self, block: Block) -> Mono:
        """One channel of a block, or the mean of all."""
        sound = interleaved(block)
        if self._channel == "mix":
            mean: NDArray[np.float32] = sound.mean(axis=1, dtype=np.float32)
            return mean
        number = self._choice.feed(sound, block.rate) if self._channel == "auto" else int(self._channel)
        if not 0 <= number < block.channels:
            raise no_channel("microphone", number, block.channels)
        return sound[:, number]

    def _out(self, samples: Samples, arrived_ns: int) -> list[AudioFrame]:
        """The frame of what comes next in the run; none of nothing."""
        if not len(samples):
            return []
        frame = AudioFrame(self._at, samples, self._at - self._end, arrived_ns)
        self.lost += frame.lost
        self._at = self._end = frame.end
        return [frame]


def interleaved(block: Block) -> Interleaved:
    """A block's sound, in the range of int16."""
    if block.width == FLOAT32:
        given = np.nan_to_num(np.frombuffer(block.data, np.float32), nan=0.0, posinf=LOUDEST, neginf=-LOUDEST)
        floats: NDArray[np.float32] = given.reshape(-1, block.channels).clip(-LOUDEST, LOUDEST) * np.float32(32768)
        return floats
    ints: NDArray[np.int16] = np.frombuffer(block.data, np.int16).reshape(-1, block.channels)
    return ints


def to_int16(sound: Mono) -> Samples:
    """A copy in int16, rounded and held within the range: a resampler overshoots at full scale."""
    if sound.dtype == np.int16:
        return sound.astype(np.int16)
    return np.clip(np.rint(sound), -32768, 32767).astype(np.int16)


@dataclass(frozen=True, slots=True)
class MicrophoneStatistics:
    """Since the lane started.

    blocks   raw blocks that came
    dropped  raw blocks that ears were too slow for
    deepest  most blocks that waited at once
    lost     samples that positions skipped: lost in the device or on the way, dropped here, or the time without a device
    rate     the device's frames a second; 0 before the first block
    channel  the one that is heard, or "mix"
    choice   why that one, a line; empty where nothing was to be chosen, or not yet
    level_dbfs  of the second before, about the mean; -120 for digital silence
    """

    blocks: int
    dropped: int
    deepest: int
    lost: int
    rate: int
    channel: str | int
    choice: str = ""
    level_dbfs: float = SILENCE_DBFS


class _Level:
    """Of whole seconds of frames."""

    def __init__(self) -> None:
        self.dbfs = SILENCE_DBFS
        self._sum = self._squares = 0.0
        self._count = 0

    def feed(self, samples: Samples) -> None:
        wide = samples.astype(np.float64)
        self._sum += float(wide.sum())
        self._squares += float(wide @ wide)
        self._count += len(samples)
        if self._count >= RATE:
            power = self._squares / self._count - (self._sum / self._count) ** 2
            self.dbfs = max(SILENCE_DBFS, 10 * math.log10(max(power, 1e-9) / 32768.0**2))
            self._sum = self._squares = 0.0
            self._count = 0


class Microphone:
    """The microphone of one lane.

    sock      a SOCK_SEQPACKET socket whose other end capture has; owned from here on. None: main gives one later
    channel   "auto", "mix", or a number from 0
    capacity  raw blocks that may wait; then the oldest goes, and positions jump over it
    first, first_ns  where positions begin, see Converter

    `read` and `frames` are for the ears thread, `statistics` for any, `replace` and `close` for any one thread at a time.
    """

    def __init__(
        self, sock: socket.socket | None = None, *, channel: str | int = "auto", capacity: int = CAPACITY, first: int = 0, first_ns: int = 0
    ) -> None:
        if capacity < 1:
            raise ValueError(f"Microphone wants a capacity of at least 1 block; got {capacity}")
        self._converter = Converter(channel, first, first_ns)
        self._level = _Level()
        self._capacity = capacity
        self._change = threading.Condition()
        self._ring: deque[tuple[int, bytes]] = deque()  # number of the socket, raw datagram
        self._blocks = self._dropped = self._deepest = 0
        self._sockets = 0  # how many there were
        self._heard = 0  # number of the one that `read` is at
        self._ended = False  # the socket has ended and `read` has not said so yet
        self._ready: deque[AudioFrame] = deque()  # at most the two of one block
        self._sock: socket.socket | None = None
        self._reader: threading.Thread | None = None
        if sock:
            self.replace(sock)

    def replace(self, sock: socket.socket) -> None:
        """Hears a new capture process from now on; what the old one sent is read first."""
        self._stop()
        with self._change:
            self._sockets += 1
            self._ended = False
        self._sock = sock
        self._reader = threading.Thread(target=self._listen, args=(sock, self._sockets), name="microphone", daemon=True)
        self._reader.start()

    def close(self) -> None:
        """Ends the reader and the socket; a waiting `read` ends with EOFError. What was not read by then is thrown away."""
        self._stop()
        with self._change:
            self._ring.clear()

    def _stop(self) -> None:
        if self._sock and self._reader:
            try:
                self._sock.shutdown(socket.SHUT_RDWR)  # wakes the reader
            except OSError:
                pass  # the other end has gone already
            self._reader.join()
            self._sock.close()
            self._sock = self._reader = None

    def _listen(self, sock: socket.socket, number: int) -> None:
        """The reader thread, one a socket."""
        while True:
            try:
                datagram = sock.recv(DATAGRAM_LIMIT)
            except ConnectionResetError:
                datagram = b""
            with self._change:
                if datagram:
                    self._blocks += 1
                    if len(self._ring) == self._capacity:
                        self._ring.popleft()
                        self._dropped += 1
                    self._ring.append((number, datagram))
                    self._deepest = max(self._deepest, len(self._ring))
                else:
                    self._ended = True
                self._change.notify()
                if self._ended:
                    return

    def read(self, timeout: float | None = None) -> AudioFrame | None:
        """The next frame; None when `timeout` seconds passed without one (None waits for ever, 0 only looks).

        Raises EOFError, once, when capture has ended and all it sent was read: a later read waits for `replace`.
        Raises DeviceError for a channel that is not there and InternalError for a datagram that is none.
        """
        while not self._ready:
            with self._change:
                if not self._change.wait_for(lambda: self._ring or self._ended, timeout):
                    return None
                if not self._ring:
                    self._ended = False
                    raise EOFError
                number, datagram = self._ring.popleft()
            fresh, self._heard = number != self._heard, number
            self._ready.extend(self._converter.feed(unpack(datagram), fresh=fresh))
        frame = self._ready.popleft()
        self._level.feed(frame.samples)
        return frame

    def frames(self) -> Iterator[AudioFrame]:
        """Every frame until capture ends."""
        while True:
            try:
                frame = self.read()
            except EOFError:
                return
            if frame:
                yield frame

    def statistics(self) -> MicrophoneStatistics:
        with self._change:
            blocks, dropped, deepest = self._blocks, self._dropped, self._deepest
        one = self._converter
        return MicrophoneStatistics(blocks, dropped, deepest, one.lost, one.rate, one.channel, one.choice, self._level.dbfs)
