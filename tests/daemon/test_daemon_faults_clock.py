"""The wall clock jumps, as where a board without a clock of its own is told the time: nothing hears by it, and no turn id comes again.

Every process of the daemon has a wall clock of its own: a library loaded before the C library's adds to what the kernel says of
CLOCK_REALTIME. (A time namespace shifts the other clocks, and this one cannot be set without setting everybody's.) It is built here;
without a C compiler the tests skip.
"""

from __future__ import annotations

import shutil
import struct
import subprocess
import time
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

import pytest
from daemon.test_daemon_faults import told_of
from daemon.test_daemon_reload import EVERY, Begin, Daemon, asked_again_and_again, begin
from debugger import held
from faulttable import Fault
from livedaemon import assert_whole
from voiced.events import Endpoint, Event, LikelyEnd, Partial, TurnClosed, Wake

__all__ = ["asked_again_and_again", "begin"]

STEPS = {"an hour forth": 3600, "a day back": -86_400}


SHIM = """
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static const long long *ahead;

__attribute__((constructor)) static void begin(void) {
    int fd = open(getenv("WALL_CLOCK"), O_RDONLY);
    ahead = mmap(NULL, sizeof *ahead, PROT_READ, MAP_SHARED, fd, 0);
    close(fd);
}

int clock_gettime(clockid_t which, struct timespec *at) {
    int failed = syscall(SYS_clock_gettime, which, at);
    if (!failed && which == CLOCK_REALTIME) at->tv_sec += *ahead;
    return failed;
}
"""


class WallClock:
    """What the daemon takes for the time, in seconds from what it is."""

    def __init__(self, directory: Path) -> None:
        self._file, self._library = directory / "ahead", directory / "clock.so"
        self._file.write_bytes(bytes(8))
        (directory / "clock.c").write_text(SHIM)
        command = ["cc", "-shared", "-fPIC", "-O1", "-o", str(self._library), str(directory / "clock.c")]
        subprocess.run(command, check=True)

    def env(self) -> dict[str, str]:
        return {"LD_PRELOAD": str(self._library), "WALL_CLOCK": str(self._file)}

    def step(self, seconds: int) -> None:
        """In one: its processes have the file in their memory."""
        with self._file.open("r+b", buffering=0) as file:
            file.write(struct.pack("=q", seconds))


@pytest.fixture
def wall_clock(tmp_path: Path) -> WallClock:
    if shutil.which("cc") is None:
        pytest.skip("no C compiler (cc) here to make a wall clock with")
    return WallClock(tmp_path)


@pytest.fixture
def env(env: dict[str, str], wall_clock: WallClock) -> dict[str, str]:
    return env | wall_clock.env()


STATES: dict[str, Callable[[Daemon, int], object]] = {
    "asleep": lambda daemon, turn: daemon.listener.event(TurnClosed, turn),
    "awake": lambda daemon, turn: None,
    "hearing": lambda daemon, turn: daemon.listener.event(Partial, turn),
    "trailing": lambda daemon, turn: daemon.listener.event(LikelyEnd, turn),
    "pending": lambda daemon, turn: daemon.listener.event(Endpoint, turn),
}


def ahead(daemon: Daemon, event: Event) -> float:
    """Seconds by which the daemon's time was before ours when it told that, within those since."""
    (told,) = [item for item in daemon.listener.published() if item.event is event]
    return told.realtime_us / 1e6 - time.time()


@pytest.mark.slow  # four turns at the pace of speech
@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("state", STATES)
def test_a_wall_clock_that_jumps_moves_nothing(begin: Begin, wall_clock: WallClock, state: str, step: str, faults: list[Fault]) -> None:
    daemon = begin("")
    listener, pids = daemon.listener, daemon.listener.pids()
    wake = listener.event(Wake)
    assert ahead(daemon, wake) == pytest.approx(0, abs=60)
    with held(pids["second_pass"]) if state == "pending" else nullcontext():
        STATES[state](daemon, wake.turn)
        wall_clock.step(STEPS[step])
    listener.event(TurnClosed, wake.turn)
    assert_whole(listener.events(wake.turn))
    faults.append(Fault(state, "wall clock", step, *told_of(listener.events(wake.turn), wake.turn), seconds=0.0))
    for _ in range(2):
        before = wake
        listener.mark()
        wake = listener.event(Wake)
        assert ahead(daemon, wake) == pytest.approx(STEPS[step], abs=60), "it did jump"
        assert wake.turn > before.turn
        assert wake.phrase_end - before.phrase_end == pytest.approx(EVERY, abs=2_000)
        listener.event(TurnClosed, wake.turn)
        assert_whole(listener.events(wake.turn))
    assert listener.pids() == pids
    assert listener.status()["health"] == "ok"


@pytest.mark.slow
def test_a_start_in_1970_gives_no_id_again(begin: Begin, wall_clock: WallClock, faults: list[Fault]) -> None:
    daemon = begin("")
    last = daemon.listener.event(Wake).turn
    assert daemon.process.stop() == 0
    daemon.manager.next("STOPPING=1")
    wall_clock.step(-round(time.time()))
    daemon = begin("")
    wake = daemon.listener.event(Wake)
    assert ahead(daemon, wake) < -1e9, "it did jump"
    assert wake.turn > last
    faults.append(Fault("starting", "wall clock", "1970", "turn ids go on", seconds=0.0))
