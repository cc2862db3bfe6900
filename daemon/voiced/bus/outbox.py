"""What waits to be written to the bus while it does not read.

What lives here: the policy of one bounded queue, without sockets or clocks. What must not: the content of messages.
A message with a key is one that a newer message of the same key makes worthless (a partial, a property change that
carries the whole state): it is replaced, and it gives way first when the queue is full. All others keep their order and
are refused when the queue is full: a client sees the gap in the sequence numbers and re-reads.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

LIMIT = 10_000
"""Messages. A turn has some six that must not be lost, each as often as there are subscribers: a burst of 500 for twenty of them, or
hours of turns of one while the bus stands still. At some 400 bytes each it is four megabytes."""


@dataclass(frozen=True, slots=True)
class OutboxStatistics:
    """waiting: messages in the queue now; replaced: keyed ones given up; dropped: others, refused because the queue was full."""

    waiting: int
    replaced: int
    dropped: int


class Outbox:
    """A queue of bytes, oldest first. One thread."""

    def __init__(self, limit: int = LIMIT) -> None:
        if limit < 1:
            raise ValueError(f"Outbox wants a limit of at least 1 message; got {limit}")
        self.limit = limit
        self.reset()

    def reset(self) -> None:
        self._waiting: dict[int, tuple[bytes, Hashable | None]] = {}  # in the order of arrival
        self._latest: dict[Hashable, int] = {}  # the number of the waiting message of each key, oldest first
        self._number = self._replaced = self._dropped = 0

    def __len__(self) -> int:
        return len(self._waiting)

    def put(self, data: bytes, key: Hashable | None = None) -> bool:
        """False when the queue is full of messages that must not be given up: the new one is lost, and counted."""
        if key in self._latest:
            self._give_up(key)
        elif len(self._waiting) >= self.limit:
            if not self._latest:
                self._dropped += key is None
                self._replaced += key is not None
                return False
            self._give_up(next(iter(self._latest)))
        self._number += 1
        self._waiting[self._number] = (data, key)
        if key is not None:
            self._latest[key] = self._number  # a new key goes to the end, and so does a replaced one: _give_up removed it
        return True

    def take(self) -> bytes | None:
        """The oldest message, which then is the caller's; None when nothing waits."""
        if not self._waiting:
            return None
        number = next(iter(self._waiting))
        data, key = self._waiting.pop(number)
        if key is not None:
            del self._latest[key]
        return data

    def statistics(self) -> OutboxStatistics:
        return OutboxStatistics(len(self._waiting), self._replaced, self._dropped)

    def _give_up(self, key: Hashable) -> None:
        del self._waiting[self._latest.pop(key)]
        self._replaced += 1
