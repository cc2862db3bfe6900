"""Who is next: lanes that wait for the one second pass.

What lives here: at most one request a lane waits, a newer one takes its place, and lanes take turns. What must not: processes, sound,
answers. So the queue is as long as there are lanes at the most (8), and a lane that asks often keeps nobody waiting.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Request:
    """A turn's sound to be heard again. `fd` holds it (wire.share); whoever takes the request out of the queue closes it."""

    lane: str
    turn: int
    attempt: int
    sample: int
    fd: int


class FairQueue:
    """The lane that was served the longest ago is next; of those that never were, the one that asked first."""

    def __init__(self) -> None:
        self._waiting: dict[str, Request] = {}
        self._served: dict[str, int] = {}  # by lane: the number of its last request
        self._count = 0

    def __len__(self) -> int:
        return len(self._waiting)

    def has(self, lane: str) -> bool:
        return lane in self._waiting

    def put(self, request: Request) -> Request | None:
        """Returns the request whose place it takes: the lane's own older one."""
        before = self._waiting.get(request.lane)
        self._waiting[request.lane] = request
        return before

    def take(self, busy: Collection[str] = ()) -> Request | None:
        """The next lane's request, of lanes that are not `busy`; None where none of them waits."""
        free = [lane for lane in self._waiting if lane not in busy]
        if not free:
            return None
        lane = min(free, key=lambda lane: self._served.get(lane, 0))
        self._count += 1
        self._served[lane] = self._count
        return self._waiting.pop(lane)

    def drop(self, lane: str, turn: int, attempt: int) -> Request | None:
        """Takes out the lane's request if it is this one; None where it is not (any more)."""
        request = self._waiting.get(lane)
        if request is None or (request.turn, request.attempt) != (turn, attempt):
            return None
        return self._waiting.pop(lane)

    def forget(self, lane: str | None) -> list[Request]:
        """Takes out what a lane (None: every lane) waits for."""
        return [self._waiting.pop(name) for name in list(self._waiting) if lane in (None, name)]
