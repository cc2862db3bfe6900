"""Turn ids that never repeat, also on a board whose clock begins anew with each start.

What lives here: where ids begin, and the note of how far they may have gone. What must not: turns. Ids begin with the clock, 8 a
millisecond, far faster than anybody speaks. A clock that was set back, or that nothing keeps while the power is off, would give them
again: so a file in the service's state folder has an id above all that were given, and they begin there where the clock is behind it.
Two daemons of one user share the file: each begins above what the other noted, and none takes the note back.
"""

from __future__ import annotations

import fcntl
import logging
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from .errors import reason_of

log = logging.getLogger("voiced")

LANE_SLOTS = 8
"""Lanes at the most; turn ids of a lane step by it, so that two lanes never give the same."""

AHEAD = 100_000 * LANE_SLOTS
"""Noted ahead of what is given: weeks of turns between two writes to the board's flash, and a hundred seconds of the clock's ids."""

HIGHEST = 1 << 53
"""What JSON keeps exactly; by the clock it is some 35,000 years away. A note beyond it was not written by us."""


LOCK_S = 1.0
"""Another daemon has the note for some milliseconds; one that was stopped just then keeps nobody from starting."""


def state_folder(environ: Mapping[str, str]) -> Path | None:
    """systemd's StateDirectory, else the user's; None for a user without a home."""
    if service := environ.get("STATE_DIRECTORY", "").split(":")[0]:
        return Path(service)
    user = environ.get("XDG_STATE_HOME", "")
    with suppress(RuntimeError):
        # the XDG specification has relative paths ignored
        return (Path(user) if Path(user).is_absolute() else Path.home() / ".local" / "state") / "voiced"
    return None


class TurnIds:
    """Runs in main's loop. Where the note cannot be kept, that is said once, and ids are as good as the clock.

    first   of the ids that may be given now
    """

    def __init__(self, folder: Path | None, clock_s: Callable[[], float] = time.time) -> None:
        self._path = folder / "turn-id" if folder else None
        with self._alone():
            self.first = max(int(clock_s() * 1000) * LANE_SLOTS, self._noted())
            self._limit = self.first + AHEAD
            self._note(self._limit)

    def given(self, turn: int) -> None:
        """That id is given: the note stays above it."""
        if turn >= self._limit - AHEAD // 2:
            self._limit = turn + AHEAD
            with self._alone():
                self._note(max(self._limit, self._noted()))

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """No other daemon reads or writes the note meanwhile; where the folder cannot be locked, that is left to luck."""
        folder = None
        with suppress(OSError):
            if self._path:
                self._path.parent.mkdir(parents=True, exist_ok=True)
                folder = os.open(self._path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
                _lock(folder)
        try:
            yield
        finally:
            if folder is not None:
                os.close(folder)

    def _noted(self) -> int:
        if self._path is None:
            return 0
        try:
            text = self._path.read_text(encoding="ascii").strip()
        except FileNotFoundError:
            return 0
        except (OSError, UnicodeDecodeError) as error:
            log.warning("%s cannot be read: %s; turn ids begin with the clock", self._path, reason_of(error))
            return 0
        if not text.isdigit() or int(text) > HIGHEST:
            log.warning("%s must hold a turn id; got %.40r; turn ids begin with the clock", self._path, text)
            return 0
        return -(-int(text) // LANE_SLOTS) * LANE_SLOTS

    def _note(self, limit: int) -> None:
        if self._path is None:
            return
        new = self._path.with_suffix(".new")
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with new.open("w", encoding="ascii") as file:
                file.write(f"{limit}\n")
                file.flush()
                os.fsync(file.fileno())  # a board loses its power at any time
            new.replace(self._path)
        except OSError as error:
            log.warning("%s cannot be written: %s; turn ids may come again where the clock is set back", self._path, error.strerror)
            self._path = None


def _lock(folder: int) -> None:
    """OSError where somebody else has it for too long."""
    deadline = time.monotonic() + LOCK_S
    while True:
        try:
            return fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise
        time.sleep(0.01)
