"""A device heard by a program other than the daemon, and by the same way: a capture process of its own.

What lives here: one such process, from its start to its end, and the list of what there is. What must not: asyncio, what is done with the
sound. A list or a device that hangs ends with its process, in time.
"""

from __future__ import annotations

import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from .children import command, environment
from .errors import DeviceError, InternalError
from .sources.blocks import DATAGRAM_LIMIT, Block, unpack
from .sources.devices import Device
from .sources.soundcard import Opened
from .wire import Link

OPEN_SECONDS = 15.0
"""A capture process gives up after ten seconds by itself; a list has no clock of its own."""


@dataclass(frozen=True, slots=True)
class Found:
    """All that can record; the server's name and its default source, "" where there is none."""

    devices: tuple[Device, ...]
    server: str
    default: str


def find_devices() -> Found:
    """What there is now. Raises DeviceError where the sound library is missing or hangs."""
    with _child("devices") as link:
        body = _answer(link, "the sound library did not say which devices there are")
    if "failed" in body:
        raise _failure(body)
    devices = tuple(Device(**{**one, "rates": tuple(one["rates"])}) for one in body["devices"])
    return Found(devices, body["server"], body["default"])


@dataclass(frozen=True, slots=True)
class Burst:
    """One that was played: CLOCK_MONOTONIC when it was handed to the output, and what the output says it takes from there to the air."""

    given_ns: int
    latency_ns: int


def play_bursts(count: int, gap_ms: int) -> Iterator[Burst]:
    """Plays `bursts.burst` on the default output so often, each told as it is played. Raises DeviceError without an output."""
    with _child("bursts") as link:
        link.send({"count": count, "gap_ms": gap_ms})
        for _ in range(count):
            body = _answer(link, "nothing was played")
            if "failed" in body:
                raise _failure(body)
            yield Burst(*body["played"])


class Recording:
    """A device that is open: enter, then `read`. One thread.

    device, channels, rate, block_ms   as in soundcard.Job; channels 0: all that there are
    """

    def __init__(self, device: str = "auto", *, channels: int = 0, rate: int | None = None, block_ms: int = 40) -> None:
        self._job: dict[str, Any] = {"device": device, "channels": channels, "rate": rate, "block_ms": block_ms}
        self._context = _child("capture")
        self.opened: Opened
        self.lost = 0
        """Frames that were lost, in the device or because `read` came too late."""

    def __enter__(self) -> Recording:
        """Raises DeviceError, whose line says what is wrong and what there is."""
        self._link = self._context.__enter__()
        try:
            self._open()
        except BaseException:
            self._context.__exit__(None, None, None)
            raise
        return self

    def _open(self) -> None:
        self._link.send(self._job)
        body = _answer(self._link, f"{self._job['device']} did not open")
        if "opened" not in body:
            raise _failure(body)
        what = {key: value for key, value in body["opened"].items() if key != "placement"}
        self.opened = Opened(**what)
        theirs, self._sock = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 32 * DATAGRAM_LIMIT)
        with theirs:
            self._link.send({"attach": "recording"}, (theirs.fileno(),))

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._sock.close()
        self._context.__exit__(kind, error, trace)

    def read(self, timeout: float) -> Block | None:
        """The next block; None when `timeout` seconds passed without one. Raises DeviceError when the device has gone."""
        self._sock.settimeout(timeout)
        try:
            datagram = self._sock.recv(DATAGRAM_LIMIT)
        except TimeoutError:
            return None
        except ConnectionResetError:
            datagram = b""
        if not datagram:
            raise self._end()
        block = unpack(datagram)
        self.lost += block.lost
        return block

    def _end(self) -> DeviceError:
        try:
            while message := self._link.receive(1.0):
                if "failed" in message.body:
                    return _failure(message.body)
        except EOFError:
            pass
        return DeviceError(self.opened.device, "its capture process ended without a word", "see the journal")


def _failure(body: dict[str, Any]) -> DeviceError:
    return DeviceError("", str(body["failed"]["error"]))


def _answer(link: Link, what: str) -> dict[str, Any]:
    """The first message that is one of these. Raises DeviceError with `what` where none comes in time."""
    deadline = time.monotonic() + OPEN_SECONDS
    while (left := deadline - time.monotonic()) > 0:
        try:
            message = link.receive(left)
        except EOFError:
            raise InternalError("sound", "the process that was to ask the sound library ended without a word", "see the journal") from None
        if message and {"opened", "failed", "devices", "played"} & set(message.body):
            return message.body
    raise DeviceError("sound", f"{what} within {OPEN_SECONDS:.0f} s", "look at the sound server")


@contextmanager
def _child(role: str) -> Iterator[Link]:
    """A process of ours, which ends when its link closes, and is killed where it hangs."""
    link, theirs = Link.pair()
    with theirs:
        process = subprocess.Popen(
            command(role, theirs.fileno()), stdin=subprocess.DEVNULL, pass_fds=[theirs.fileno()], start_new_session=True, env=environment()
        )
    try:
        yield link
    finally:
        link.close()
        try:
            process.wait(1.0)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
