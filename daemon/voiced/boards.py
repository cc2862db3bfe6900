"""Which cores a board has, and what may run on them.

What lives here: a frozen record a board, and how to tell which one this is. What must not: settings (settings.py asks `Board`
about them), anything that changes a thread (placement.py).

The K3's numbers are the vendor's: cores 0-7 are X100, 8-15 are A100 ("AI"); an affinity mask that names an AI core is refused by
the kernel with EINVAL, and at most 8 threads may use the AI cores at once, each on a core of its own (SpacemiT K3 HMP user guide;
SpaceMIT Execution Provider, llama.cpp notes).
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

CPUINFO = Path("/proc/cpuinfo")
AI_CONTROL = Path("/proc/set_ai_thread")
"""Writing 0 to it moves the calling thread to the AI cores for good."""

CORES_VARIABLE = "VOICED_CORES"
"""Environment variable by which a process tells its children the cores it was started with, before it pinned itself."""

_K3_MARCHIDS = ("0x8000000058000002", "0x8000000041000002")  # X100, A100


def cores_at_start() -> tuple[int, ...]:
    """The cores this process may use, as it was started: what systemd, taskset or a container left it.

    Never os.cpu_count(): on the K3 that is 16, of which an ordinary thread may use 8.
    """
    told = os.environ.get(CORES_VARIABLE, "")
    if told and all(core.isdecimal() for core in told.split(",")):
        return tuple(int(core) for core in told.split(","))
    return tuple(sorted(os.sched_getaffinity(0)))


AT_START = cores_at_start()


@dataclass(frozen=True, slots=True)
class Board:
    """cores: those a mask may name; ai_cores: those behind the execution provider; ai_threads: the most it may have at once."""

    name: str
    cores: tuple[int, ...]
    ai_cores: tuple[int, ...] = ()
    ai_threads: int = 0

    def allows(self) -> str:
        """In words, for a message: what a mask may name here."""
        if self.ai_cores:
            ai = f"; {spell(self.ai_cores)} are AI cores, reached through second_pass_ai_cores"
            return f"cores {spell(self.cores)} on the {self.name}{ai}"
        return f"cores {spell(self.cores)} here"


K3 = Board("k3", tuple(range(8)), tuple(range(8, 16)), 8)


def detect(cpuinfo: Path = CPUINFO, control: Path = AI_CONTROL) -> str:
    """`k3` where the cores' marchid or the kernel's control file says so, else `generic`."""
    if control.exists():
        return "k3"
    try:
        text = cpuinfo.read_text(errors="replace")
    except OSError:  # hidden by the unit's ProcSubset: nothing says that it is a K3
        return "generic"
    return "k3" if any(marchid in text for marchid in _K3_MARCHIDS) else "generic"


def board(name: str = "auto", cpuinfo: Path = CPUINFO, control: Path = AI_CONTROL) -> Board:
    """The board of that name; `auto` looks at this machine."""
    name = detect(cpuinfo, control) if name == "auto" else name
    return K3 if name == "k3" else Board("generic", AT_START)


def spell(cores: Sequence[int]) -> str:
    """`0-3, 6` for (0, 1, 2, 3, 6)."""
    parts: list[tuple[int, int]] = []
    for core in sorted(cores):
        if parts and core == parts[-1][1] + 1:
            parts[-1] = (parts[-1][0], core)
        else:
            parts.append((core, core))
    return ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in parts)
