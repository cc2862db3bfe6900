"""The real daemon for tests: its processes, a listener on its bus, and the environment they share.

Nothing here is faked or timed: what is waited for is an event, and a wait that is too long fails with what was seen so far.
"""

from __future__ import annotations

import asyncio
import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar, cast

import numpy as np
import pytest
import soundfile
from voiced.bus.client import Changed, Client, Heard, Presence
from voiced.bus.private import start_private_bus
from voiced.desk import Published
from voiced.errors import BusError
from voiced.events import Endpoint, Event, Final, LikelyEnd, Partial, TurnClosed, Wake
from voiced.models import cache_directory

SAMPLE = Path(__file__).resolve().parents[1] / "daemon" / "voiced" / "data" / "sample.flac"
"""Two turns and some talk between them; data/sample.json says where."""

PATIENCE = 120
"""Seconds after which a wait fails. A daemon starts in two and a turn takes four, on a machine that does nothing else."""

PATIENT = "second_pass: {deadline_ms: 20000}\n"
"""Settings in which no second pass is late: the usual three seconds are not much where others work on the same cores."""

Found = TypeVar("Found")

EventKind = TypeVar("EventKind", Wake, Partial, LikelyEnd, Endpoint, Final, TurnClosed)


def clock_and_silence(path: Path) -> Path:
    """Writes a WAV there: a quarter of a second of silence, "jarvis, what time is it", and silence without end."""
    samples, rate = soundfile.read(SAMPLE, dtype="int16", start=152_000, stop=181_840)
    soundfile.write(path, np.concatenate((samples, np.zeros(600 * rate, np.int16))), rate)
    return path


def environment(runtime: Path, base: Mapping[str, str] = os.environ, **more: str) -> dict[str, str]:
    """A user's, with nothing of the one who runs the tests but the models: no bus, no sound server, no settings."""
    foreign = (
        "PULSE_",
        "PIPEWIRE_",
        "XDG_",
        "DBUS_",
        "ALSA_",
        "DISPLAY",
        "JOURNAL_STREAM",
        "NOTIFY_SOCKET",
        "WATCHDOG_",
        "RUNTIME_DIRECTORY",
        "STATE_DIRECTORY",
        "VOICED_",
    )
    env = {key: value for key, value in base.items() if not key.startswith(foreign)}
    path = os.pathsep.join(part for part in sys.path if part)
    return env | {
        "HOME": str(runtime),
        "XDG_RUNTIME_DIR": str(runtime),
        "PYTHONPATH": path,
        "VOICED_CACHE": str(cache_directory()),
        "PYTHONWARNINGS": "error::ResourceWarning",
        **more,
    }


def run(module: str, *arguments: str | Path, env: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    """Runs `voiced` or `voicectl` to its end."""
    command = [sys.executable, "-m", module, *map(str, arguments)]
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=2 * PATIENCE, check=False, stdin=subprocess.DEVNULL)


def until(look: Callable[[], Found | None], what: str, seen: Callable[[], object] = lambda: "") -> Found:
    """Looks until there is something; for what sends no event (a file, a process that ends)."""
    deadline = time.monotonic() + PATIENCE
    while True:
        found = look()
        if found:
            return found
        if time.monotonic() > deadline:
            pytest.fail(f"waited {PATIENCE} s for {what}; seen: {seen()}")
        time.sleep(0.01)


def alive(pid: int) -> bool:
    """A zombie has ended."""
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False


@contextmanager
def throttled(pid: int, share: float, period_s: float = 0.1) -> Iterator[None]:
    """The process gets that share of a core at the most; it may end meanwhile."""
    over = threading.Event()

    def run() -> None:
        with suppress(ProcessLookupError):
            while not over.is_set():
                os.kill(pid, signal.SIGSTOP)
                over.wait((1 - share) * period_s)
                os.kill(pid, signal.SIGCONT)
                over.wait(share * period_s)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def started_with(runtime: Path) -> set[int]:
    """Process ids of all that live and have this runtime directory in their environment: what a `voiced` left behind."""
    found = set()
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if f"\0XDG_RUNTIME_DIR={runtime}\0".encode() in b"\0" + (process / "environ").read_bytes():
                found.add(int(process.name))
        except OSError:  # ended meanwhile, or another user's
            continue
    return found


def descendants(pid: int) -> set[int]:
    """Process ids of all children, and theirs."""
    found: set[int] = set()
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(FileNotFoundError, ProcessLookupError):  # ended meanwhile
            for child in map(int, task.read_text().split()):
                found |= {child} | descendants(child)
    return found


class Process:
    """A `voiced` or `voicectl` that runs; its output goes to files, so that it never waits for a reader."""

    def __init__(self, directory: Path, module: str, *arguments: str | Path, env: Mapping[str, str], before: Sequence[str] = ()) -> None:
        """`before`: what runs it, another command's words."""
        number = len(list(directory.glob("*.out")))
        self._out, self._err = directory / f"{number}-{module}.out", directory / f"{number}-{module}.err"
        command = [*before, sys.executable, "-m", module, *map(str, arguments)]
        with self._out.open("wb") as out, self._err.open("wb") as err:
            self._process = subprocess.Popen(command, env=env, stdin=subprocess.DEVNULL, stdout=out, stderr=err)
        self.pid = self._process.pid

    @property
    def out(self) -> str:
        return self._out.read_text()

    @property
    def err(self) -> str:
        return self._err.read_text()

    def objects(self) -> list[dict[str, Any]]:
        """Its output, one JSON object a line; a line that is being written is left out."""
        return [json.loads(line) for line in self.out.splitlines(keepends=True) if line.endswith("\n")]

    def says(self, text: str) -> None:
        """Waits until it is on its output or in its complaints."""
        until(lambda: text in self.out + self.err or self.ended, f"{text!r}", lambda: self.out + self.err)
        assert text in self.out + self.err, self.out + self.err

    @property
    def ended(self) -> bool:
        return self._process.poll() is not None

    def wait(self) -> int:
        try:
            return self._process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            pytest.fail(f"process {self.pid} does not end; it said: {self.out}{self.err}")

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Its exit code."""
        self._process.send_signal(number)
        return self.wait()

    def end(self) -> None:
        """For a fixture: whatever happened, nothing is left."""
        if not self.ended:
            left = descendants(self.pid)
            self._process.kill()
            self._process.wait()
            for pid in left:  # stopped ones, too
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)


class ServiceManager:
    """systemd's end of the notify protocol. `told` are the datagrams so far, each with the CLOCK_MONOTONIC seconds at which it was read."""

    def __init__(self, path: Path) -> None:
        self._sock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._sock.bind(str(path))
        self._sock.settimeout(PATIENCE)
        self.path = path
        self.told: list[tuple[float, list[str]]] = []

    def env(self, watchdog_s: float = 0) -> dict[str, str]:
        return {"NOTIFY_SOCKET": str(self.path)} | ({"WATCHDOG_USEC": str(round(watchdog_s * 1e6))} if watchdog_s else {})

    def next(self, *wanted: str) -> list[str]:
        """The lines of the next datagram that begins so ("READY=1"); without: but status, watchdog and more time."""
        while True:
            try:
                lines = self._sock.recv(4096).decode().splitlines()
            except TimeoutError:
                pytest.fail(f"waited {PATIENCE} s for {wanted}; told: {self.told}")
            self.told.append((time.monotonic(), lines))
            if lines[0].startswith(wanted) if wanted else not lines[0].startswith(("STATUS=", "WATCHDOG=", "EXTEND_TIMEOUT_USEC=")):
                return lines

    def drain(self) -> list[tuple[float, list[str]]]:
        """What has been told and was not read yet."""
        first = len(self.told)
        while select.select([self._sock], [], [], 0)[0]:
            self.told.append((time.monotonic(), self._sock.recv(4096).decode().splitlines()))
        return self.told[first:]

    def close(self) -> None:
        self._sock.close()


class Listener:
    """What a client of the bus hears, and its calls. Its event loop is a thread's, so that a test reads from top to bottom.

    It may be there before the daemon; `mark` says where `wait` looks from.
    """

    def __init__(self, address: str) -> None:
        self._address = address
        self._heard: list[Heard] = []
        self._change = threading.Condition()
        self._from = 0
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()
        self._client = self.call(self._open())
        self._task = asyncio.run_coroutine_threadsafe(self._watch(), self._loop)
        self.wait(lambda item: isinstance(item, Presence), "the bus")

    async def _open(self) -> Client:
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                return await Client(self._address).__aenter__()
            except BusError:
                if time.monotonic() > deadline:
                    raise
                await asyncio.sleep(0.01)

    async def _watch(self) -> None:
        async for item in self._client.watch():
            with self._change:
                self._heard.append(item)
                self._change.notify()

    def call(self, call: Coroutine[Any, Any, Found]) -> Found:
        return asyncio.run_coroutine_threadsafe(call, self._loop).result(PATIENCE)

    def run(self, what: Callable[[], object]) -> None:
        """In the loop's thread."""

        async def do() -> None:
            what()

        self.call(do())

    def close(self) -> None:
        self._task.cancel()
        self.call(self._client.__aexit__(None, None, None))
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    # ── what was heard ───────────────────────────────────────────────────────────────────────────────────────────────

    def mark(self) -> None:
        """From now on `wait` looks at what comes after this."""
        with self._change:
            self._from = len(self._heard)

    def wait(self, wanted: Callable[[Heard], bool], what: str, *then: Callable[[Heard], bool]) -> Heard:
        """The first since the mark that is wanted; with `then`, the last of several that come in this order."""
        found: list[Heard | None] = []

        def look() -> bool:
            items = iter(self._heard[self._from :])
            found[:] = [next((item for item in items if one(item)), None) for one in (wanted, *then)]
            return found[-1] is not None

        with self._change:
            if not self._change.wait_for(look, PATIENCE):
                pytest.fail(f"waited {PATIENCE} s for {what}; heard: {self._heard[self._from :]}")
        last = found[-1]
        assert last is not None
        return last

    def event(self, kind: type[EventKind], turn: int = 0) -> EventKind:
        """The first event of this kind since the mark, of this turn if it is named."""

        def wanted(item: Heard) -> bool:
            return isinstance(item, Published) and isinstance(item.event, kind) and turn in (0, item.event.turn)

        return cast(EventKind, cast(Published, self.wait(wanted, kind.__name__)).event)

    def lane(self, **values: object) -> None:
        """Waits until a lane says that its properties are these."""
        self.wait(_lane_is(values), f"{values}")

    def healths(self, *healths: str) -> None:
        """Waits until a lane's health was the first, then the next, and so on."""
        first, *then = (_lane_is({"Health": health}) for health in healths)
        self.wait(first, " then ".join(healths), *then)

    def events(self, turn: int = 0) -> list[Event]:
        """Since the mark."""
        with self._change:
            events = [item.event for item in self._heard[self._from :] if isinstance(item, Published)]
        return [event for event in events if not turn or getattr(event, "turn", 0) == turn]

    def heard(self) -> list[Heard]:
        """All there ever was."""
        with self._change:
            return list(self._heard)

    def published(self) -> list[Published]:
        """All there ever was."""
        with self._change:
            return [item for item in self._heard if isinstance(item, Published)]

    # ── calls ────────────────────────────────────────────────────────────────────────────────────────────────────────

    def status(self) -> dict[str, Any]:
        return self.call(self._client.status())

    def pids(self) -> dict[str, int]:
        """Of each role's process. The rows are (role, process, pid, tid, wanted, actual, …)."""
        return {row[0]: row[2] for row in self.status()["placement"]}

    def turns(self) -> list[dict[str, Any]]:
        return self.call(self._client.turns())

    def reload(self) -> list[str]:
        return self.call(self._client.reload())

    def trigger(self) -> int:
        return self.call(self._client.trigger())

    def stop(self) -> None:
        self.call(self._client.stop())

    def cancel(self) -> None:
        self.call(self._client.cancel())

    def mute(self, muted: bool, lane: str | None = None) -> None:
        self.call(self._client.mute(muted, lane))


Start = Callable[..., Process]
"""The fixture `start`."""


@pytest.fixture
def start(env: dict[str, str], tmp_path: Path) -> Iterator[Start]:
    """start("voiced", "--demo"): a process that ends with the test. A conftest takes this by importing it, and has an `env`."""
    started: list[Process] = []

    def begin(module: str, *arguments: str | Path, env: dict[str, str] = env) -> Process:
        started.append(Process(tmp_path, module, *arguments, env=env))
        return started[-1]

    yield begin
    for process in reversed(started):
        process.end()


@contextmanager
def runtime_of_a_user() -> Iterator[Path]:
    """A user's runtime directory; short, since sockets lie in it."""
    directory = Path(tempfile.mkdtemp(prefix="voiced-"))
    try:
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)


@contextmanager
def own_bus(runtime: Path) -> Iterator[str]:
    """The address of a bus that is the test's."""
    private = start_private_bus(runtime / "own")
    try:
        yield private.address
    finally:
        private.close()


Listen = Callable[[str], Listener]
"""The fixture `listen`."""


def _lane_is(values: Mapping[str, object]) -> Callable[[Heard], bool]:
    return lambda item: isinstance(item, Changed) and item.lane is not None and values.items() <= dict(item.values).items()


def assert_whole(events: Sequence[Event]) -> None:
    """One turn's events are complete and in order: Wake, Partials, Endpoint, Final, TurnClosed."""
    names = [type(event).__name__ for event in events if not isinstance(event, Partial)]
    signs = ("SpeechStarted", "LikelyEnd", "Resumed")  # none, or several
    assert [name for name in names if name not in signs] == ["Wake", "Endpoint", "Final", "TurnClosed"], events
    last_partial = max((at for at, event in enumerate(events) if isinstance(event, Partial)), default=0)
    assert last_partial < next(at for at, event in enumerate(events) if isinstance(event, Endpoint))
