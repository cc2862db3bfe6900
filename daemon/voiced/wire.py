"""Messages between our own processes: one JSON object a datagram, over a SOCK_SEQPACKET pair, with file descriptors beside it.

What lives here: framing only. What must not: meaning. Datagrams keep their borders, a closed end is seen at once, and a
send never blocks: what does not fit is told to the sender, who counts it. Large things (a turn's sound) go by descriptor
(`share` and `shared`), so no message comes near the socket's buffer.
"""

from __future__ import annotations

import array
import json
import mmap
import os
import select
import socket
from dataclasses import dataclass
from typing import Any

from .errors import InternalError

LIMIT = 1 << 16
"""Bytes of one message at the most: the longest text of a turn is some kilobytes."""

MAX_FDS = 8

_FD_BYTES = array.array("i").itemsize


@dataclass(frozen=True, slots=True)
class Message:
    body: dict[str, Any]
    fds: tuple[int, ...] = ()


class Link:
    """One end of a pair. Not thread safe for receiving; sending is one system call, so any thread may."""

    def __init__(self, sock: socket.socket) -> None:
        sock.setblocking(False)
        self._sock = sock

    @classmethod
    def from_fd(cls, fd: int) -> Link:
        """Takes over an inherited descriptor."""
        return cls(socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET, fileno=fd))

    @classmethod
    def pair(cls) -> tuple[Link, socket.socket]:
        """Our end, and the socket for a child (pass its descriptor, then close it here)."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        return cls(ours), theirs

    def fileno(self) -> int:
        return self._sock.fileno()

    def send(self, body: dict[str, Any], fds: tuple[int, ...] = ()) -> bool:
        """True when the other end has it; False when its buffer is full, it is gone, or this end was closed. Never blocks.

        The caller keeps its descriptors. Raises InternalError for a message over LIMIT.
        """
        data = json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()
        if len(data) > LIMIT:
            raise InternalError("wire", f"a message of {len(data)} bytes, at most {LIMIT} expected")
        ancillary = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
        try:
            self._sock.sendmsg([data], ancillary, socket.MSG_NOSIGNAL)
        except OSError:
            return False
        return True

    def send_all(self, body: dict[str, Any]) -> bool:
        """Waits until the other end takes it: for a child that has nothing better to do. False when an end is closed."""
        while not self.send(body):
            if self._sock.fileno() < 0:
                return False
            poll = select.poll()
            poll.register(self._sock, select.POLLOUT)
            if any(event & (select.POLLHUP | select.POLLERR) for _, event in poll.poll()):
                return False
        return True

    def receive(self, timeout: float | None = None) -> Message | None:
        """The next message; None when `timeout` seconds passed. EOFError when the other end is closed.

        `timeout` None waits for ever, 0 only looks.
        """
        if timeout != 0 and not select.select([self._sock], [], [], timeout)[0]:
            return None
        try:
            # not socket.recv_fds: it drops the flag, and the descriptors would go on to whatever this process starts
            data, ancillary, flags, _ = self._sock.recvmsg(LIMIT + 1, socket.CMSG_LEN(MAX_FDS * _FD_BYTES), socket.MSG_CMSG_CLOEXEC)
        except BlockingIOError:
            return None
        except ConnectionResetError:
            raise EOFError from None
        fds = array.array("i")
        for _, _, some in ancillary:
            fds.frombytes(some[: len(some) - len(some) % _FD_BYTES])
        if not data:
            raise EOFError
        if flags & (socket.MSG_TRUNC | socket.MSG_CTRUNC):
            for fd in fds:
                os.close(fd)
            raise InternalError("wire", "a message was cut off on its way")
        return Message(json.loads(data), tuple(fds))

    def close(self) -> None:
        self._sock.close()


def share(data: bytes | memoryview) -> int:
    """A descriptor of anonymous memory that holds `data`; the caller closes it after sending. OSError: there is none to be had."""
    fd = os.memfd_create("voiced", os.MFD_CLOEXEC)
    view = memoryview(data).cast("B")
    try:
        while view:
            view = view[os.write(fd, view) :]
    except OSError:
        os.close(fd)
        raise
    return fd


def shared(fd: int) -> bytes:
    """What a descriptor from `share` holds; closes it."""
    try:
        size = os.fstat(fd).st_size
        if not size:
            return b""
        with mmap.mmap(fd, size, prot=mmap.PROT_READ) as memory:
            return memory[:]
    finally:
        os.close(fd)
