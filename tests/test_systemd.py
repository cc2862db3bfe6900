"""systemd.py against a real datagram socket, by path and by abstract name."""

from __future__ import annotations

import os
import secrets
import socket
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from voiced.systemd import Notifier


@pytest.fixture(params=["path", "abstract"])
def manager(request: pytest.FixtureRequest) -> Iterator[tuple[socket.socket, Notifier]]:
    with tempfile.TemporaryDirectory(prefix="voiced-") as directory, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        name = f"@voiced-{secrets.token_hex(8)}" if request.param == "abstract" else str(Path(directory) / "notify")
        sock.bind("\0" + name[1:] if name.startswith("@") else name)
        sock.setblocking(False)
        yield sock, Notifier({"NOTIFY_SOCKET": name})


def test_each_message_is_one_datagram(manager: tuple[socket.socket, Notifier]) -> None:
    sock, notifier = manager
    assert notifier.ready("2 lanes")
    assert notifier.status("kitchen:\nno microphone")
    assert notifier.stopping()
    assert notifier.watchdog()
    assert notifier.extend_timeout(5_000_000)
    got = [sock.recv(4096).decode() for _ in range(5)]
    assert got == ["READY=1\nSTATUS=2 lanes", "STATUS=kitchen: no microphone", "STOPPING=1", "WATCHDOG=1", "EXTEND_TIMEOUT_USEC=5000000"]


def test_reloading_carries_the_monotonic_clock(manager: tuple[socket.socket, Notifier]) -> None:
    sock, notifier = manager
    before = time.monotonic_ns() // 1000
    assert notifier.reloading()
    first, second = sock.recv(4096).decode().split("\n")
    assert first == "RELOADING=1"
    assert before <= int(second.removeprefix("MONOTONIC_USEC=")) <= time.monotonic_ns() // 1000


def test_a_full_socket_never_blocks(manager: tuple[socket.socket, Notifier]) -> None:
    sock, notifier = manager
    sent = 0
    while notifier.watchdog():  # ends only because a send that would block returns False
        sent += 1
    assert sent > 0
    sock.recv(4096)
    assert notifier.watchdog()


@pytest.mark.parametrize("environ", [{}, {"NOTIFY_SOCKET": ""}, {"NOTIFY_SOCKET": "/nonexistent/notify"}])
def test_nobody_listens(environ: dict[str, str]) -> None:
    notifier = Notifier(environ)
    assert not notifier.ready("x")
    assert not notifier.watchdog()


@pytest.mark.parametrize(
    ("environ", "seconds"),
    [
        ({}, None),
        ({"WATCHDOG_USEC": "10000000"}, 10.0),
        ({"WATCHDOG_USEC": "10000000", "WATCHDOG_PID": str(os.getpid())}, 10.0),
        ({"WATCHDOG_USEC": "10000000", "WATCHDOG_PID": "1"}, None),
        ({"WATCHDOG_USEC": "0"}, None),
        ({"WATCHDOG_USEC": "soon"}, None),
    ],
)
def test_watchdog_period(environ: dict[str, str], seconds: float | None) -> None:
    assert Notifier(environ).watchdog_s == seconds
