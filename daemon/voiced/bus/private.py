"""A bus of our own where there is none, and how a client finds it.

What lives here: the choice of the bus, the directory, the dbus-daemon process. What must not: connections. Where no session
bus is at hand (root, a server, a container) voiced starts a dbus-daemon in a directory that only its user may enter, at a
path that voicectl knows too. It dies with voiced, even by SIGKILL: the kernel sees to that (prctl PR_SET_PDEATHSIG).
Standard library only.
"""

from __future__ import annotations

import fcntl
import os
import select
import shutil
import stat
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import IO
from xml.sax.saxutils import escape

from ..errors import BusError
from .address import alive, session_address, system_address

START_S = 5.0
"""A dbus-daemon says its address some 10 ms after it was started."""

_SOCKET_NAME_LIMIT = 107  # bytes: sockaddr_un has 108, the last one is NUL

_CONFIG = """<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN"
 "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
<busconfig>
  <type>session</type>
  <keep_umask/>
  <listen>unix:path={path}</listen>
  <auth>EXTERNAL</auth>
  <policy context="default">
    <allow user="{user}"/>
    <allow own="*"/>
    <allow send_destination="*"/>
    <allow receive_sender="*"/>
  </policy>
  <limit name="max_outgoing_bytes">16777216</limit>
</busconfig>
"""
# Only our own uid is let in; a client that does not read costs the bus 16 MB at the most, instead of a session bus's 1 GB.

_LAUNCH = """import ctypes, os, signal, sys
ctypes.CDLL(None).prctl(1, signal.SIGTERM, 0, 0, 0)
if os.getppid() == int(sys.argv[1]): os.execv(sys.argv[2], sys.argv[2:])
"""
# Run by a Python of its own between fork and dbus-daemon: preexec_fn would run our code in a copy of a process with threads.
# The parent is looked at after prctl: one that died before it sends no signal any more.


def find_bus(explicit: str | None = None) -> str | None:
    """The address that both voiced and voicectl use, in this order: the one named (an address, or the words "session" and
    "system"), the session bus if somebody answers there, the private one if it runs. None: no bus; voiced then starts one,
    and for a client there is no daemon. BusError when what was asked for by name cannot be."""
    if explicit == "system":
        return system_address()
    session = session_address()
    if explicit == "session":
        if session is None:
            raise BusError("session bus", "neither DBUS_SESSION_BUS_ADDRESS nor XDG_RUNTIME_DIR is set", "log in, or use --bus ADDRESS")
        return session
    if explicit is not None:
        return explicit
    if session is not None and _answers(session):
        return session
    return next((address for address in map(_address, _directories()) if _ours(address) and alive(address)), None)


class PrivateBus:
    """A running dbus-daemon of ours. Its methods may be called in any thread, one that lives as long as the bus is to live: the
    kernel ends a bus with the thread that began it. (An event loop's threads for `asyncio.to_thread` live as long as the loop.)"""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._process: subprocess.Popen[bytes] | None = None
        self._mutex = threading.Lock()
        self._closed = False
        self.address = _address(directory)

    @property
    def pid(self) -> int | None:
        """None when another process's bus is used, or when ours is dead."""
        return self._process.pid if self._process is not None and self._process.poll() is None else None

    def ensure(self) -> None:
        """Starts it where nothing answers at the address; takes some 40 ms, at the worst thrice START_S. BusError says what is in
        the way. After `close` it does nothing."""
        program = shutil.which("dbus-daemon")
        if program is None:
            raise BusError("dbus-daemon", "not found, and there is no session bus", "install it (Debian, Ubuntu: apt install dbus)")
        path = self._directory / "bus"
        if len(os.fsencode(path)) > _SOCKET_NAME_LIMIT:
            raise BusError(str(path), f"a socket's name has at most {_SOCKET_NAME_LIMIT} bytes", "set XDG_RUNTIME_DIR to a shorter path")
        try:
            with self._mutex:
                if not self._closed:
                    self._ensure(program, path)
        except OSError as error:  # a full disk, a folder that may not be written
            raise BusError(
                str(error.filename or self._directory), error.strerror or str(error), "make room or mend it, or use --bus ADDRESS"
            ) from None

    def _ensure(self, program: str, path: Path) -> None:
        _make_private(self._directory)
        with (self._directory / "lock").open("w") as lock:  # two daemons at once: one starts the bus, the other finds it
            _hold(lock)
            if alive(self.address):
                return
            path.unlink(missing_ok=True)  # what a killed one left behind
            config = self._directory / "bus.conf"
            config.write_text(_CONFIG.format(path=escape(str(path)), user=os.geteuid()))
            self._end()
            self._start(program, config)

    def _start(self, program: str, config: Path) -> None:
        log = self._directory / "bus.log"
        launch = [sys.executable, "-I", "-S", "-c", _LAUNCH, str(os.getpid())]
        read, write = os.pipe()
        try:
            with log.open("wb") as complaints:
                self._process = subprocess.Popen(
                    [*launch, program, f"--config-file={config}", "--nofork", "--nopidfile", "--nosyslog", f"--print-address={write}"],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=complaints,
                    pass_fds=[write],
                    start_new_session=True,  # the keyboard's interrupt is for voiced, which says goodbye on the bus first
                )
            os.close(write)
            write = -1
            if select.select([read], [], [], START_S)[0] and os.read(read, 1):
                return
        finally:
            for descriptor in (read, write):
                if descriptor >= 0:
                    os.close(descriptor)
        self._end()
        said = " ".join(log.read_text(errors="replace").split()) or f"no address within {START_S:g} s"
        raise BusError("dbus-daemon", f"did not start: {said}", "use --bus ADDRESS")

    def close(self) -> None:
        """Ends our dbus-daemon, if there is one, and takes its socket away; for good."""
        with self._mutex:
            self._closed = True
            self._end()

    def _end(self) -> None:
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(START_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process = None
        with suppress(OSError):
            (self._directory / "bus").unlink()


def _hold(lock: IO[str]) -> None:
    """Takes the lock as soon as nobody else has it. BusError where its holder keeps it (a stopped process)."""
    deadline = time.monotonic() + START_S
    while True:
        try:
            return fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise BusError(lock.name, f"another voiced has held it for {START_S:g} s", "end that one, or use --bus ADDRESS") from None
        time.sleep(0.02)


def start_private_bus(directory: Path | None = None) -> PrivateBus:
    """A bus at the well-known place (or in `directory`), started now; `close` ends it."""
    bus = PrivateBus(_directories()[0] if directory is None else directory)
    bus.ensure()
    return bus


def _directories() -> list[Path]:
    """Where a private bus may be, the first choice first: the user's runtime directory, else one made for the user."""
    uid = os.geteuid()
    fallback = Path("/run" if uid == 0 else "/tmp") / f"voiced-{uid}"  # noqa: S108  _make_private checks whose it is
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    with suppress(OSError):  # not there, or not to be looked at
        found = Path(runtime).stat()
        if runtime and stat.S_ISDIR(found.st_mode) and found.st_uid == uid:
            return [Path(runtime) / "voiced", fallback]
    return [fallback]


def _address(directory: Path) -> str:
    return f"unix:path={directory}/bus"


def _answers(address: str) -> bool:
    with suppress(BusError):  # an address in the environment that we cannot use is the same as none
        return alive(address)
    return False


def _ours(address: str) -> bool:
    """A socket in a directory that another user could write is no bus to speak to."""
    directory = Path(address.removeprefix("unix:path=")).parent
    return _objection(directory) is None


def _objection(directory: Path) -> str | None:
    try:
        found = directory.lstat()
    except OSError as error:
        return error.strerror or str(error)
    if not stat.S_ISDIR(found.st_mode):
        return "is no directory" if not stat.S_ISLNK(found.st_mode) else "is a symbolic link"
    if found.st_uid != os.geteuid():
        return f"belongs to uid {found.st_uid}, not to uid {os.geteuid()}"
    if found.st_mode & 0o077:
        return f"may be entered by others (mode {stat.S_IMODE(found.st_mode):o}, expected 700)"
    return None


def _make_private(directory: Path) -> None:
    """A directory for us alone. One that was there before is looked at and not repaired: whoever made it may hold it open."""
    try:
        directory.mkdir(mode=0o700)
    except FileExistsError:
        pass
    except OSError as error:
        raise BusError(str(directory), f"cannot be made: {error.strerror}", "set XDG_RUNTIME_DIR, or use --bus ADDRESS") from None
    objection = _objection(directory)
    if objection is not None:
        raise BusError(str(directory), objection, "remove it, or use --bus ADDRESS")
