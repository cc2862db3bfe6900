"""What the kernel says of a process that says nothing: stopped, in a debugger's hands, busy, or asleep.

What lives here: one look at a process, and what two of them mean. What must not: how long silence may last (lanestate.py, rewriter.py),
what is done about it (supervisor.py). A process that only waits for its turn must never be taken for a dead one.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from pathlib import Path


class Standing(Enum):
    """Of a process, in words for the log."""

    STOPPED = "it is stopped by a signal"
    HELD = "it is stopped by a debugger"
    WANTING = "it runs, or waits for a core or a disk"
    STIRRING = "it has run a moment ago"
    ASLEEP = "it sleeps"


@dataclass(frozen=True, slots=True)
class Look:
    """A process's first thread at one moment.

    state      the kernel's letter for it (proc_pid_status(5)); "" where the process is gone
    switches   how often it has been taken off a core so far: the same twice, and it did not run between; each stop is one more
    """

    state: str
    switches: int

    @classmethod
    def at(cls, pid: int) -> Look:
        try:
            lines = Path(f"/proc/{pid}/status").read_text(encoding="utf-8", errors="replace").splitlines()
        except (FileNotFoundError, ProcessLookupError):
            return cls("", 0)
        told = dict(line.split(":\t", 1) for line in lines if ":\t" in line)
        return cls(told["State"][0], int(told["voluntary_ctxt_switches"]) + int(told["nonvoluntary_ctxt_switches"]))


def standing(before: Look | None, now: Look) -> Standing:
    """How it stands; `before` is the look before, some tenths of a second ago or more, None where there is none.

    One look is not enough for a stop: a process that is slowed down by stopping it again and again, or whose stop is about to end, is
    seen stopped as well, and works.
    """
    if now.state == "t":
        return Standing.HELD
    if now.state in ("R", "D"):
        return Standing.WANTING
    if now != before:
        return Standing.STIRRING
    return Standing.STOPPED if now.state == "T" else Standing.ASLEEP
