"""What a debugger does to a process: it holds all its threads, for as long as it likes."""

from __future__ import annotations

import ctypes
import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

PTRACE_ATTACH, PTRACE_DETACH = 16, 17
WALL = 0x40000000
"""Of waitpid: threads, too."""


@contextmanager
def held(pid: int, *, but_first: bool = False) -> Iterator[None]:
    """All threads that the process has now are stopped by us, with `but_first` all but its first. Skips where nobody may do that."""
    libc = ctypes.CDLL(None, use_errno=True)
    threads = [int(task.name) for task in Path(f"/proc/{pid}/task").iterdir() if not (but_first and int(task.name) == pid)]
    taken: list[int] = []
    try:
        for tid in threads:
            if libc.ptrace(PTRACE_ATTACH, tid, None, None):
                if ctypes.get_errno() == errno.ESRCH:  # that one has ended meanwhile
                    continue
                pytest.skip(f"nobody may debug here: {os.strerror(ctypes.get_errno())}")
            taken.append(tid)
            os.waitpid(tid, WALL)
        yield
    finally:
        for tid in reversed(taken):  # the first thread last: of one that was killed meanwhile it ends after the others
            if libc.ptrace(PTRACE_DETACH, tid, None, None):
                os.waitpid(tid, WALL)  # and its parent hears of it when we have
