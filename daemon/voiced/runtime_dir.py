"""A directory for what lives as long as the process: systemd's where it gave one, else a new one that goes away again.

What lives here: making it, and clearing away those of processes that could not (SIGKILL). What must not: what is in it. Each is
locked (flock) by its owner as long as that lives, so that nobody's process id has to be trusted, in whatever namespace it runs.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from .errors import OutputError

_PREFIX = "voiced-run-"

_AGE_S = 60.0
"""Younger ones may be about to be locked."""

_AT_ONCE = 16
"""So many are cleared away at a start at the most: each is small, and the rest can wait."""


@contextlib.contextmanager
def runtime_directory() -> Iterator[Path]:
    """Raises OutputError where none can be made."""
    given = os.environ.get("RUNTIME_DIRECTORY", "").split(":")[0]
    if given:
        yield Path(given)
        return
    try:
        clear_away(Path(tempfile.gettempdir()))
        directory = tempfile.TemporaryDirectory(prefix=_PREFIX, ignore_cleanup_errors=True)
    except OSError as error:  # gettempdir says of all it has tried that none is usable
        where = error.filename or "TMPDIR"
        raise OutputError(where, f"cannot be written: {error.strerror}", "make room, or name another folder in TMPDIR") from None
    with directory as made:
        lock = os.open(made, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield Path(made)
        finally:
            os.close(lock)


def clear_away(folder: Path) -> None:
    """Removes what this user's killed processes left in `folder`. Never raises: it is a service, not a duty."""
    with contextlib.suppress(OSError):
        left = sorted(path for path in folder.glob(f"{_PREFIX}*") if _ours_and_old(path))
        for path in left[:_AT_ONCE]:
            _remove(path)


def _ours_and_old(path: Path) -> bool:
    with contextlib.suppress(OSError):
        found = path.lstat()
        return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid() and time.time() - found.st_mtime > _AGE_S
    return False


def _remove(path: Path) -> None:
    with contextlib.suppress(OSError):
        lock = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # its owner lives: BlockingIOError
            shutil.rmtree(path, ignore_errors=True)
        finally:
            os.close(lock)
