"""What a lane has told and the main process has not read yet.

What lives here: one bounded queue, in order, that never blocks. What must not: what is told.
"""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import asdict, replace

from . import wire
from .events import Event, Partial
from .plain import encode
from .receipts import Stamps

LIMIT = 1000
"""Events that may wait for a main process that does not read: hours of turns. Partials only replace each other."""


class EventBox:
    """Events to the main process, in order, never blocking: the newest partial only, at most LIMIT of the others.

    Any thread may put; a full socket keeps what is left for the next put or `flush`.
    """

    def __init__(self, link: wire.Link) -> None:
        self._link = link
        self._lock = threading.Lock()
        self._waiting: deque[tuple[Event, Stamps]] = deque()
        self.lost = 0

    def put(self, event: Event, stamps: Stamps) -> None:
        with self._lock:
            if self._waiting and isinstance(event, Partial) and isinstance(self._waiting[-1][0], Partial):
                self._waiting.pop()
            if len(self._waiting) >= LIMIT:
                self._waiting.popleft()
                self.lost += 1
            self._waiting.append((event, replace(stamps, lost_events=self.lost)))
            self._flush()

    def flush(self) -> None:
        with self._lock:
            self._flush()

    def _flush(self) -> None:
        while self._waiting:
            event, stamps = self._waiting[0]
            if not self._link.send({"event": encode(event), "stamps": asdict(stamps)}):
                return
            self._waiting.popleft()
