"""A bus of our own: found by those who should, refused to others, ended with its owner."""

from __future__ import annotations

import asyncio
import fcntl
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest
from descriptors import opened
from voiced.bus import private
from voiced.bus.address import SYSTEM_SOCKETS, alive, is_system, system_address
from voiced.bus.connection import connect
from voiced.bus.private import find_bus, start_private_bus
from voiced.errors import BusError


@pytest.fixture
def runtime(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A runtime directory of a user without a session bus; short, for a socket's name must be."""
    with tempfile.TemporaryDirectory(prefix="voiced-") as directory:
        monkeypatch.setenv("XDG_RUNTIME_DIR", directory)
        monkeypatch.delenv("DBUS_SESSION_BUS_ADDRESS", raising=False)
        yield Path(directory)


def test_both_find_it_and_it_serves(runtime: Path, go: Callable[[Coroutine[Any, Any, None]], None]) -> None:
    bus = start_private_bus()
    try:
        assert find_bus() == bus.address == f"unix:path={runtime}/voiced/bus"
        assert (runtime / "voiced").stat().st_mode & 0o777 == 0o700

        async def test() -> None:
            connection = await connect(bus.address)
            await connection.request_name("org.voiced.Voice1")
            connection.close()

        go(test())
    finally:
        bus.close()
    assert find_bus() != bus.address
    assert not (runtime / "voiced" / "bus").exists()


def test_a_session_bus_goes_first(runtime: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own, session = start_private_bus(), start_private_bus(runtime / "session")
    try:
        monkeypatch.setenv("DBUS_SESSION_BUS_ADDRESS", session.address)
        assert find_bus() == find_bus("session") == session.address
        assert find_bus("unix:path=/some/where") == "unix:path=/some/where"
        assert find_bus("system") == system_address()
        session.close()
        assert find_bus() == own.address
        monkeypatch.setenv("DBUS_SESSION_BUS_ADDRESS", "tcp:host=localhost")
        assert find_bus() == own.address
        monkeypatch.delenv("DBUS_SESSION_BUS_ADDRESS")
        monkeypatch.delenv("XDG_RUNTIME_DIR")
        with pytest.raises(BusError, match="neither DBUS_SESSION_BUS_ADDRESS nor XDG_RUNTIME_DIR"):
            find_bus("session")
    finally:
        own.close()
        session.close()


def test_a_second_one_uses_the_first(runtime: Path) -> None:
    first = start_private_bus()
    second = start_private_bus()
    assert first.pid is not None
    assert second.pid is None
    second.close()
    assert alive(first.address)
    first.close()


def test_what_a_killed_one_left_is_replaced(runtime: Path) -> None:
    bus = start_private_bus()
    assert bus.pid is not None
    os.kill(bus.pid, signal.SIGKILL)
    while bus.pid is not None:  # SIGKILL cannot be refused
        pass
    assert (runtime / "voiced" / "bus").exists()
    assert not alive(bus.address)
    bus.ensure()
    assert alive(bus.address)
    assert bus.pid is not None
    bus.close()


@pytest.mark.parametrize("thread", ["main", "another"])
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_it_dies_with_its_owner(runtime: Path, how: signal.Signals, thread: str) -> None:
    start = "start()" if thread == "main" else "await asyncio.to_thread(start)"  # as the service does it
    code = (
        "import asyncio\nfrom voiced.bus.private import start_private_bus as start\n"
        f"async def live():\n    print(({start}).pid, flush=True)\n    await asyncio.sleep(3600)\nasyncio.run(live())"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdout is not None
        watched = os.pidfd_open(int(owner.stdout.readline()))
        try:
            assert alive(f"unix:path={runtime}/voiced/bus")
            owner.send_signal(how)
            owner.wait()

            async def ended() -> None:
                done = asyncio.Event()
                asyncio.get_running_loop().add_reader(watched, done.set)  # a pidfd is readable when its process has ended
                async with asyncio.timeout(30):
                    await done.wait()

            asyncio.run(ended())
        finally:
            os.close(watched)
    assert not alive(f"unix:path={runtime}/voiced/bus")


def test_a_directory_that_others_may_use_is_refused(runtime: Path) -> None:
    directory = runtime / "voiced"
    elsewhere = runtime / "elsewhere"
    elsewhere.mkdir(mode=0o700)
    directory.symlink_to(elsewhere)
    with pytest.raises(BusError, match=rf"{directory}: is a symbolic link; remove it"):
        start_private_bus()
    directory.unlink()
    directory.write_text("")
    with pytest.raises(BusError, match="is no directory"):
        start_private_bus()
    directory.unlink()
    directory.mkdir()
    directory.chmod(0o755)
    with pytest.raises(BusError, match=r"may be entered by others \(mode 755, expected 700\)"):
        start_private_bus()
    directory.chmod(0o700)
    bus = start_private_bus()
    directory.chmod(0o770)
    assert find_bus() != bus.address, "a client must not speak to it either"
    directory.chmod(0o700)
    assert find_bus() == bus.address
    bus.close()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a directory away")
def test_a_directory_of_another_user_is_refused(runtime: Path) -> None:
    directory = runtime / "voiced"
    directory.mkdir(mode=0o700)
    os.chown(directory, 65534, -1)
    with pytest.raises(BusError, match="belongs to uid 65534, not to uid 0"):
        start_private_bus()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_another_user_is_not_let_in(runtime: Path) -> None:
    bus = start_private_bus()
    try:
        runtime.chmod(0o755)
        (runtime / "voiced").chmod(0o755)
        (runtime / "voiced" / "bus").chmod(0o777)
        send = f"dbus-send --bus={bus.address} --print-reply --dest=org.freedesktop.DBus / org.freedesktop.DBus.GetId"
        assert subprocess.run(send.split(), capture_output=True, check=False).returncode == 0
        refused = subprocess.run(send.split(), capture_output=True, check=False, user=65534)
        assert refused.returncode != 0
    finally:
        bus.close()


def test_without_dbus_daemon(runtime: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(runtime))
    with pytest.raises(BusError, match="dbus-daemon: not found, and there is no session bus; install it"):
        start_private_bus()


def test_a_dbus_daemon_that_does_not_start(runtime: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = runtime / "dbus-daemon"
    program.write_text("#!/bin/sh\necho it is broken >&2\nexit 3\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{runtime}:{os.environ['PATH']}")
    before = opened("pipe:", "socket:", str(runtime))
    with pytest.raises(BusError, match="did not start: it is broken"):
        start_private_bus()
    assert opened("pipe:", "socket:", str(runtime)) <= before


def test_a_folder_that_cannot_be_written_is_one_line(runtime: Path) -> None:
    (runtime / "voiced").mkdir(mode=0o700)
    (runtime / "voiced" / "lock").mkdir()
    with pytest.raises(BusError, match=rf"^{runtime}/voiced/lock: Is a directory; make room or mend it, or use --bus ADDRESS$"):
        start_private_bus()


def test_a_stopped_neighbour_is_not_waited_for_without_end(runtime: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(private, "START_S", 0.1)
    (runtime / "voiced").mkdir(mode=0o700)
    with (runtime / "voiced" / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(BusError, match=r"lock: another voiced has held it for 0.1 s"):
            start_private_bus()


def test_closed_it_is_not_begun_again(runtime: Path) -> None:
    bus = start_private_bus()
    bus.close()
    bus.ensure()  # as a thread does that was late
    assert bus.pid is None
    assert not alive(bus.address)


def test_a_runtime_directory_that_cannot_be_looked_at_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", f"/{300 * 'x'}")
    assert [directory.name for directory in private._directories()] == [f"voiced-{os.geteuid()}"]


def test_the_system_bus_is_known_by_whatever_path(runtime: Path) -> None:
    socket = runtime / "system_bus_socket"
    socket.touch()
    (runtime / "link").symlink_to(socket)
    environ = {"DBUS_SYSTEM_BUS_ADDRESS": f"unix:path={runtime}/link"}
    assert is_system(f"unix:path={socket}", environ)
    assert is_system(f"unix:path={runtime}/other;unix:path={runtime}/./link,guid=00", environ)
    assert is_system(f"unix:path={str(socket).replace('_', '%5f')}", environ)
    assert not is_system(f"unix:path={runtime}/other", environ)
    for path in SYSTEM_SOCKETS:
        assert is_system(f"unix:path={path}", environ)
        assert is_system(f"unix:path={path}", {"DBUS_SYSTEM_BUS_ADDRESS": "tcp:host=somewhere"})
    assert is_system("unix:abstract=/a", {"DBUS_SYSTEM_BUS_ADDRESS": "unix:abstract=/a"})
    assert not is_system("unix:abstract=/b", {"DBUS_SYSTEM_BUS_ADDRESS": "unix:abstract=/a"})


def test_a_socket_name_that_is_too_long(runtime: Path) -> None:
    with pytest.raises(BusError, match="at most 107 bytes"):
        start_private_bus(runtime / ("x" * 100))
    assert find_bus(f"unix:path={runtime / ('x' * 100)}/bus") is not None


def test_the_fallback_is_the_users_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    (directory,) = private._directories()
    assert directory.name == f"voiced-{os.geteuid()}"
    assert str(directory.parent) == ("/run" if os.geteuid() == 0 else "/tmp")
