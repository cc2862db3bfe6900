"""Has a device or a sound server come or gone?

What lives here: a look at what the kernel and the servers leave in the file system, which costs some microseconds. What must not: the
sound library, whose own look costs a thousand times as much.
"""

from __future__ import annotations

from pathlib import Path

from .devices import CARDS, NODES
from .servers import jack_sockets, sockets


class Surroundings:
    """As they were when `changed` was asked last."""

    def __init__(self) -> None:
        self._seen = self._look()

    def changed(self) -> bool:
        """Something has come, gone, or been made anew since the last call."""
        before, self._seen = self._seen, self._look()
        return before != self._seen

    def _look(self) -> tuple[object, ...]:
        try:
            cards = CARDS.read_text()
        except OSError:
            cards = ""
        return (cards, *map(_mark, (NODES, *sockets(), *jack_sockets())))


def _mark(path: Path) -> tuple[int, int, int]:
    """Of a file that is there: which one, and since when (a node's rights are set after it was made)."""
    try:
        found = path.stat()
    except OSError:
        return 0, 0, 0
    return found.st_ino, found.st_mtime_ns, found.st_ctime_ns
