"""Processes of ours, seen from the main process: started by exec, heard by their link, their death noticed at once.

What lives here: one child and its life in an event loop. What must not: what it is for, whether it is begun again. There is no
fork without exec and no multiprocessing: a killed holder of one of its locks would hang the rest.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Collection
from typing import Any

from . import placement, wire
from .errors import InternalError
from .liveness import STARVED_SHARE, Look, Standing, share, standing, wanting
from .preflight import isa

log = logging.getLogger("voiced")

# glibc gives each thread an arena of its own, 64 MiB of addresses that are never given back; two are enough for two threads.
# Weights (over 4 MiB) are mapped and unmapped; what a run computes stays in the heap: with glibc's first thresholds of 128 KiB,
# which naming one of them pins, every run fetched its pages from the kernel anew, and a lane cost 30 % more.
ENVIRONMENT = {
    "MALLOC_ARENA_MAX": "2",
    "MALLOC_MMAP_THRESHOLD_": str(4 << 20),
    "MALLOC_TRIM_THRESHOLD_": str(8 << 20),
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
}


def command(role: str, fd: int) -> list[str]:
    """What runs a process of ours with `fd` for its link. -P: nothing is imported from the folder that we were started in."""
    return [sys.executable, "-P", "-m", "voiced", f":{role}", str(fd)]


def environment() -> dict[str, str]:
    """What it runs in: a user's own variables stand."""
    return {**ENVIRONMENT, **os.environ, **placement.environment()}


START_SECONDS = 60.0
"""A process that is not ready says what it loads, a model after the other; the largest on the slowest board takes some seconds."""


class Child:
    """A running `voiced :ROLE`. One that cannot be started is one that ends at once: `failure` says why.

    on_message   called in the loop for each message; takes over its descriptors
    on_exit      called once in the loop when the process has ended and its last message was heard
    """

    def __init__(
        self,
        role: str,
        name: str,
        job: dict[str, Any],
        on_message: Callable[[Child, wire.Message], None],
        on_exit: Callable[[Child], None],
    ) -> None:
        self.role, self.name = role, name
        self.loading = ""
        """What it said last that it was loading: the culprit where a library ended the process."""
        self.started = time.monotonic()
        self.heard = self.started
        """CLOCK_MONOTONIC seconds of its last message."""
        self.standing = Standing.AWAKE
        """As `look` found it last."""
        self._looked: Look | None = None
        self._share = 1.0  # of a core, as it has had it before that
        self.status: int | None = None
        self._on_message, self._on_exit = on_message, on_exit
        self.failure = ""
        self._loop = asyncio.get_running_loop()
        self._process: subprocess.Popen[bytes] | None = None
        self.pid = 0
        self._link: wire.Link | None = None
        try:
            self._start(job)
        except OSError as error:  # too many files or processes: the same as a death, so whoever waits for that tries again
            self.failure = error.strerror or str(error)
            self._loop.call_soon(self._not_started)

    def _start(self, job: dict[str, Any]) -> None:
        self._link, theirs = wire.Link.pair()
        with theirs:
            # a session of its own: ^C in a terminal is for the main process, which ends its children in order
            self._process = subprocess.Popen(
                command(self.role, theirs.fileno()),
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
                env=environment(),
            )
        self.pid = self._process.pid
        self._pidfd = os.pidfd_open(self.pid)
        self._loop.add_reader(self._pidfd, self._exited)
        self._loop.add_reader(self._link.fileno(), self._hear)
        self._link.send(job)

    def send(self, body: dict[str, Any], fds: tuple[int, ...] = ()) -> bool:
        """As wire.Link.send; False also when it was never started."""
        return self._link is not None and self._link.send(body, fds)

    def _not_started(self) -> None:
        if self._process:
            self._process.kill()
            self._process.wait()
        self._unlink()
        self.status = InternalError.exit_code
        self._on_exit(self)

    @property
    def label(self) -> str:
        """What it is called in the log."""
        return f"{self.role} {self.name}".strip()

    @property
    def alive(self) -> bool:
        return self.status is None

    def describe_end(self) -> str:
        """How it ended, in words."""
        return f"could not be started: {self.failure}" if self.failure else ended(self.status or 0, self.loading)

    def kill(self) -> None:
        """Ends it now; on_exit follows."""
        if self.alive and self._process:
            self._process.kill()

    def kill_if_stopped(self) -> None:
        """By its last look."""
        if self.standing is Standing.STOPPED:
            log.error("%s: %s; it is killed", self.label, self.standing.value)
            self.kill()

    def catch_up(self) -> None:
        """Hears what it has said by now. Before it is judged by its silence: a main process that itself stood still (stopped, or starved of
        its processor) has not listened, and its loop lets timers run before it does."""
        self._hear()

    def look(self) -> Standing:
        """How it stands: to be asked at regular intervals."""
        before, self._looked = self._looked, Look.at(self.pid)
        self.standing, self._share = standing(before, self._looked), share(before, self._looked)
        return self.standing

    @property
    def starved(self) -> bool:
        """It would go on if it got a core: another in its place would get no more of one."""
        return self._share < STARVED_SHARE and wanting(self.pid)

    def forgive(self, now: float) -> None:
        """It could not say anything until now; in seconds of CLOCK_MONOTONIC."""
        self.heard, self._looked, self.standing = now, None, Standing.AWAKE

    def _hear(self) -> None:
        while self._link:
            try:
                message = self._link.receive(0)
            except EOFError:
                self._unlink()
                return
            if message is None:
                return
            self.heard = time.monotonic()
            if "loading" in message.body:
                self.loading = message.body["loading"]
            else:
                self._on_message(self, message)

    def _exited(self) -> None:
        self._loop.remove_reader(self._pidfd)
        os.close(self._pidfd)
        self._hear()  # what it said before it ended
        self._unlink()
        assert self._process
        self.status = self._process.wait()
        self._on_exit(self)

    def _unlink(self) -> None:
        if self._link:
            self._loop.remove_reader(self._link.fileno())
            self._link.close()
            self._link = None


def ended(status: int, loading: str) -> str:
    """How a process ended, in words; `loading` is what it said last that it was loading, "" where it was done with that."""
    how = f"was killed by {signal.Signals(-status).name}" if status < 0 else f"ended with status {status}"
    if status == -signal.SIGILL:
        how += f" (a library was built for another processor: this one has {isa() or 'no isa line in /proc/cpuinfo'}; see voicectl doctor)"
    return f"{how} while loading {loading}" if loading else how


async def wait_ended(children: Collection[Child], seconds: float) -> None:
    """Returns when all have ended, or so many seconds have passed."""
    deadline = time.monotonic() + seconds
    while any(child.alive for child in children) and time.monotonic() < deadline:
        await asyncio.sleep(0.01)


class Timers:
    """Calls that are due later, until they are closed. In one event loop."""

    def __init__(self) -> None:
        self._waiting: set[asyncio.TimerHandle] = set()
        self._closed = False

    def later(self, seconds: float, call: Callable[[], None]) -> None:
        """Calls back once, unless closed by then."""

        def due() -> None:
            self._waiting.discard(handle)
            if not self._closed:
                call()

        handle = asyncio.get_running_loop().call_later(seconds, due)
        self._waiting.add(handle)

    def close(self) -> None:
        self._closed = True
        for timer in self._waiting:
            timer.cancel()


class Backoff:
    """How long to wait before something is begun again: doubled each time, from the start once it has lived for a while."""

    def __init__(self, first_s: float, longest_s: float, healthy_s: float = 30.0) -> None:
        self._first, self._longest, self._healthy = first_s, longest_s, healthy_s
        self._next = first_s

    def delay(self, lived_s: float) -> float:
        """Seconds to wait, given how long it lived."""
        if lived_s >= self._healthy:
            self._next = self._first
        delay, self._next = self._next, min(2 * self._next, self._longest)
        return delay
