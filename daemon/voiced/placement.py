"""Roles onto cores: set for the calling thread, and read back from the kernel.

What lives here: affinity and nice level by kernel thread id, and the two ways to the K3's AI cores. What must not: which cores a
board has (boards.py), which role wants which (settings.py).

A model session's workers inherit the mask of the thread that makes it, so `pin` comes first. Linux applies what it can of a mask
and says nothing of the rest, therefore what counts is what is read back.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Collection, Sequence
from pathlib import Path

from .boards import AI_CONTROL, AT_START, CORES_VARIABLE, Board, board, spell
from .desk import PlacementRow
from .errors import PlacementError

_NICE_AT_START = os.getpriority(os.PRIO_PROCESS, 0)


def environment() -> dict[str, str]:
    """What a child's environment needs: a child inherits the mask of the thread that starts it, so it must be told the cores the
    daemon was started with to undo that."""
    return {CORES_VARIABLE: ",".join(str(core) for core in AT_START)}


def read_back(tid: int) -> tuple[int, ...]:
    """Cores on which the kernel may run that thread, ascending; PlacementError where there is no such thread (any more)."""
    try:
        return tuple(sorted(os.sched_getaffinity(tid)))
    except ProcessLookupError:
        raise PlacementError("placement", f"no thread {tid} to be asked for its cores") from None


def pin(role: str, cores: Collection[int], *, nice: int = 0, process: str = "", on: Board | None = None) -> PlacementRow:
    """Places the calling thread; call it before the thread makes a model session.

    cores   those wanted; none: all the daemon was started with
    nice    added to the level the daemon was started with
    on      the board whose rules a message tells; None: this machine's
    Returns what was wanted and what is; PlacementError where they differ.
    """
    tid = threading.get_native_id()
    wanted = tuple(sorted(cores))
    where = f"placement.{role}"
    before = read_back(tid)
    if wanted or before != AT_START:
        try:
            os.sched_setaffinity(tid, wanted or AT_START)
        except (OSError, OverflowError, ValueError):  # EINVAL: no core of the mask is to be had, or a K3 mask names an AI core
            raise _refused(where, wanted or AT_START, on) from None
    actual = read_back(tid)
    if wanted and actual != wanted:
        os.sched_setaffinity(tid, before)
        raise _refused(where, wanted, on)
    level = min(_NICE_AT_START + nice, 19)
    if level != os.getpriority(os.PRIO_PROCESS, tid):
        try:
            os.setpriority(os.PRIO_PROCESS, tid, level)  # on Linux of the thread alone
        except PermissionError:
            raise PlacementError(
                f"placement.nice_{role}", f"the system refuses the nice level {level}", "raise it, or set LimitNICE= in the unit"
            ) from None
    return PlacementRow(role, process, os.getpid(), tid, wanted, actual)


def _refused(where: str, cores: Sequence[int], on: Board | None) -> PlacementError:
    return PlacementError(where, f"must name {(on or board()).allows()}; got {spell(cores)}", "correct it, or set [] for any core")


def provider_options(provider: str, *, threads: int, ai_cores: Sequence[int] = ()) -> dict[str, str]:
    """The lines that a provider's file wants for its threads, by key; stages/sherpa.py writes the file.

    The SpaceMIT provider makes its own workers on the AI cores; where only onnxruntime's count is set, twice as many start.

    ai_cores   one core a thread, or none: the provider chooses. Raises PlacementError where the counts differ.
    """
    if ai_cores and len(ai_cores) != threads:
        what = f"must name one core a thread; got {len(ai_cores)} for {threads} threads"
        raise PlacementError("placement.second_pass_ai_cores", what)
    if provider != "spacemit":
        return {}
    options = {"SPACEMIT_EP_INTRA_THREAD_NUM": str(threads)}
    if ai_cores:
        options["SPACEMIT_EP_INTRA_THREAD_AFFINITY"] = ";".join(str(core) for core in ai_cores)
    return options


_LAUNCH = """
if ! [ -e "$0" ]; then
    echo "voiced: $0: this board has no AI cores, or a kernel without them; use the cpu provider" >&2; exit 78
fi
if ! { echo 0 > "$0"; } 2>/dev/null; then
    echo "voiced: $0: the kernel refuses the AI cores to this user; use the cpu provider" >&2; exit 78
fi
exec "$@"
"""


def ai_launcher(argv: Sequence[str], control: Path = AI_CONTROL) -> list[str]:
    """The command that runs `argv` on the AI cores: a shell moves itself there by the kernel's control file, then execs.

    It must be done before exec: vector registers saved on a 256-bit core are wrong on a 1024-bit one, so a running Python must
    never move itself. There is no way back. Where it cannot be, the command exits 78 with one line on stderr.
    """
    return ["sh", "-c", _LAUNCH, str(control), *argv]
