"""What the kernel says of a process that says nothing: stopped, in a debugger's hands, asleep, awake; and whether it starves.

What lives here: one look at a process, and what two of them mean. What must not: how long silence may last (lanestate.py, rewriter.py),
what is done about it (supervisor.py). A process that only waits for its turn must never be taken for a dead one.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

STARVED_SHARE = 0.1
"""Of a core: who gets more has had a second of one in the ten that a lane may be silent (lanestate.HUNG_SECONDS), more than anything takes
that it does in one piece."""


class Standing(Enum):
    """Of a process, in words for the log."""

    STOPPED = "it is stopped by a signal"
    HELD = "it is stopped by a debugger"
    ASLEEP = "it sleeps"
    AWAKE = "it is at work"


@dataclass(frozen=True, slots=True)
class Look:
    """A process at one moment.

    state      the kernel's letter for its first thread (proc_pid_status(5)); "" where the process is gone
    switches   how often that was taken off a core so far: the same twice, and it did not run between; each stop is one more
    ran_s      seconds that all its threads have run so far
    at_s       seconds of CLOCK_MONOTONIC
    """

    state: str
    switches: int
    ran_s: float
    at_s: float

    @classmethod
    def at(cls, pid: int) -> Look:
        now = time.monotonic()
        try:
            lines = Path(f"/proc/{pid}/status").read_text(encoding="utf-8", errors="replace").splitlines()
            # the process's own clock: clock_getcpuclockid(3), CPUCLOCK_SCHED
            ran = time.clock_gettime((~pid << 3) | 2)
        except OSError:
            return cls("", 0, 0.0, now)
        told = dict(line.split(":\t", 1) for line in lines if ":\t" in line)
        switches = sum(int(told.get(kind, 0)) for kind in ("voluntary_ctxt_switches", "nonvoluntary_ctxt_switches"))
        return cls(told.get("State", "")[:1], switches, ran, now)


def standing(before: Look | None, now: Look) -> Standing:
    """How it stands; `before` is the look before, some tenths of a second ago or more, None where there is none.

    One look is not enough for a stop: a process that is slowed down by stopping it again and again, or whose stop is about to end, is
    seen stopped as well, and works.
    """
    if now.state == "t":
        return Standing.HELD
    if before is None or now.switches != before.switches or now.state in ("R", "D"):
        return Standing.AWAKE
    return Standing.STOPPED if now.state == before.state == "T" else Standing.ASLEEP


def share(before: Look | None, now: Look) -> float:
    """Of a core, that it has had between two looks; 1 where that is not known."""
    return (now.ran_s - before.ran_s) / (now.at_s - before.at_s) if before and now.at_s > before.at_s else 1.0


def wanting(pid: int) -> bool:
    """Some thread of it runs, or waits for a core or a disk, at this moment."""
    return any(_state(task) in ("R", "D") for task in Path(f"/proc/{pid}/task").glob("*/stat"))


def _state(stat: Path) -> str:
    try:
        return stat.read_text(encoding="utf-8", errors="replace").rpartition(") ")[2][:1]
    except OSError:  # a thread that has ended meanwhile
        return ""
