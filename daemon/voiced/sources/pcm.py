"""Sound from a socket: a lane hears what another program sends, over TCP or a Unix socket.

What lives here: the connection, begun again for ever, and bytes that become samples. What must not: what the sound means, a device.

The stream is bare: 16-bit little-endian integers, one channel, 16,000 a second, no header, from the first byte to the last. The sender
listens and voiced connects (`tcp:HOST:PORT`, `unix:/PATH`), so `ffmpeg -re -i X -ac 1 -ar 16000 -f s16le tcp://0.0.0.0:PORT?listen` is one.
A sample is a frame. A stream that ends within one is told so, and the odd byte is thrown away. Its pace is the sender's, who should send
at the pace of speech (`-re`): nothing is dropped here, and the socket keeps waiting who sends faster than the ears hear; but these
are many times faster than the recognizers, and what waits for those beyond 16 s is lost and counted (`overrun`). A pause longer than
`stall_ms` and a new connection are gaps, whose length is told by CLOCK_MONOTONIC.
"""

from __future__ import annotations

import socket
import threading
import time
from collections import deque
from contextlib import suppress
from dataclasses import dataclass

import numpy as np

from ..audio import AudioFrame, frozen
from ..errors import DeviceError
from ..settings import CaptureSettings
from ..units import RATE, to_samples

FORM = "16-bit little-endian mono at 16 kHz, 2 bytes a sample"

BLOCKS = 8
"""Blocks that may wait for the ears (0.3 s); then the sender waits, whose socket has room of its own."""

CONNECT_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class PcmStatistics:
    """Since the lane got it: connections that gave sound, samples heard, odd bytes thrown away, samples that gaps skipped."""

    connections: int
    samples: int
    odd_bytes: int
    lost: int


@dataclass(frozen=True, slots=True)
class _Block:
    data: bytes
    arrived_ns: int
    fresh: bool  # the first after a gap


class PcmSocket:
    """The sound of one sender. `read` is for the ears thread, `close` and `statistics` for any.

    where  as the setting has it: tcp:HOST:PORT or unix:/PATH
    first  position of the first sample
    """

    def __init__(self, where: str, first: int, settings: CaptureSettings) -> None:
        self.where = where
        self.health = "no_device"
        """What the last DeviceError means for a lane's health: `no_device`, or `stalled` for a connection that gives nothing."""
        self._bytes = 2 * to_samples(settings.block_ms)
        self._stall_s = settings.stall_ms / 1000
        self._wait_s, self._longest_s = settings.reopen_ms / 1000, settings.reopen_max_ms / 1000
        self._position, self._last_ns = first, 0
        self._change = threading.Condition()
        self._waiting: deque[_Block | tuple[str, DeviceError]] = deque()
        self._closed = False
        self._sock: socket.socket | None = None
        self._connections = self._samples = self._odd = self._lost = 0
        self._came = 0  # blocks, as its thread counts them
        # a daemon: a name server that hangs holds this thread and nobody else
        threading.Thread(target=self._run, name="pcm", daemon=True).start()

    def read(self, timeout: float) -> AudioFrame | None:
        """The next block; None when `timeout` seconds passed without one. Raises DeviceError, once each time, where there is no more
        sound, and why; a later read waits for its return."""
        with self._change:
            if not self._change.wait_for(lambda: self._waiting, timeout):
                return None
            item = self._waiting.popleft()
            self._change.notify_all()
        if not isinstance(item, _Block):
            self.health, error = item
            raise error
        samples = frozen(np.frombuffer(item.data, "<i2").astype(np.int16))
        lost = 0
        if item.fresh and self._last_ns:
            lost = max(0, (item.arrived_ns - self._last_ns) * RATE // 1_000_000_000 - len(samples))
        frame = AudioFrame(self._position + lost, samples, lost, item.arrived_ns)
        self._position, self._last_ns = frame.end, item.arrived_ns
        self._samples += len(samples)
        self._lost += lost
        return frame

    def close(self) -> None:
        """Hears no more of it; at once, whatever it waits for."""
        with self._change:
            self._closed = True
            self._change.notify_all()
            if self._sock:
                with suppress(OSError):
                    self._sock.shutdown(socket.SHUT_RDWR)

    def statistics(self) -> PcmStatistics:
        return PcmStatistics(self._connections, self._samples, self._odd, self._lost)

    # ── its thread ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def _run(self) -> None:
        wait_s, why = self._wait_s, ""
        while not self._closed:
            before = self._came
            try:
                with _connect(self.where) as sock:
                    with self._change:
                        if self._closed:
                            return
                        self._sock = sock
                    said = self._pour(sock)
            except OSError as error:
                said = f"cannot be reached: {error.strerror or error}"
            finally:
                self._sock = None
            if self._closed:
                return
            if said != why or self._came > before:  # the same again is no news
                self._put(("no_device", DeviceError(self.where, said, "voiced connects again until it is there")))
            wait_s = self._wait_s if self._came > before else min(2 * wait_s, self._longest_s)
            why = said
            with self._change:
                self._change.wait_for(lambda: self._closed, wait_s)

    def _pour(self, sock: socket.socket) -> str:
        """Until it ends: how."""
        sock.settimeout(self._stall_s)
        held, fresh, stalled = b"", True, False
        while True:
            try:
                data = sock.recv(self._bytes - len(held))
            except TimeoutError:
                held, fresh = self._hand_over(held, fresh=fresh), True
                if not stalled:
                    what = f"gives no sound for {self._stall_s:g} s"
                    self._put(("stalled", DeviceError(self.where, what, f"it sends {FORM}, all the time")))
                stalled = True
                continue
            except OSError as error:
                data, how = b"", f"broke off: {error.strerror or error}"
            else:
                how = "was closed by its sender"
            held += data
            stalled = False
            if len(held) == self._bytes or not data:
                held, fresh = self._hand_over(held, fresh=fresh), False
            if not data:
                self._odd += len(held)
                return f"ended within a sample, after its first byte; expected {FORM}" if held else how
            if self._closed:
                return how

    def _hand_over(self, held: bytes, *, fresh: bool) -> bytes:
        """The whole samples to the ears; what is left."""
        whole = len(held) - len(held) % 2
        if whole:
            self._came += 1
            self._connections += fresh
            self._put(_Block(held[:whole], time.monotonic_ns(), fresh))
        return held[whole:]

    def _put(self, item: _Block | tuple[str, DeviceError]) -> None:
        """Waits until there is room: the sender's socket fills meanwhile."""
        with self._change:
            self._change.wait_for(lambda: len(self._waiting) < BLOCKS or self._closed)
            if not self._closed:
                self._waiting.append(item)
                self._change.notify_all()


def _connect(where: str) -> socket.socket:
    """OSError where nobody is there."""
    kind, _, rest = where.partition(":")
    if kind == "tcp":
        host, _, port = rest.rpartition(":")
        return socket.create_connection((host.strip("[]"), int(port)), CONNECT_SECONDS)
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        sock.settimeout(CONNECT_SECONDS)
        sock.connect(rest)
    except BaseException:
        sock.close()
        raise
    return sock
