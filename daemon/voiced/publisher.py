"""What the main process tells: events on their way out, changes of a lane or of the daemon, and why each wake was or was not one.

What lives here: who listens, what they were told last, what is kept to be asked for. What must not: processes, the bus.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import replace

from .desk import HealthChanged, LaneChanged, News, Published, Snapshot
from .events import Endpoint, Event, NearMiss, TurnClosed, Wake, WakeRefused
from .lanestate import LaneState
from .ledger import summary
from .receipts import Stamps
from .statistics import Statistics
from .turnbook import TurnBook

log = logging.getLogger("voiced")

DECISIONS = 256
"""Wakes, refusals and near misses that are kept of a lane, each below a kilobyte: a day of a household. They come once a refractory
time (1.5 s) at the most, so that even where one follows the other it is six minutes."""

WORST_FIRST = ("restarting", "starting", "stalled", "no_device", "clock_mismatch", "overloaded", "digital_silence", "muted", "ok")


class Publisher:
    """Runs in main's loop.

    lanes     by name
    snapshot  the whole daemon as it is now
    turns     what is kept of those that are over
    """

    def __init__(self, lanes: Mapping[str, LaneState], statistics: Statistics, snapshot: Callable[[], Snapshot]) -> None:
        self._lanes, self._statistics, self._snapshot = lanes, statistics, snapshot
        self._listeners: list[Callable[[News], None]] = []
        self._decisions: dict[str, deque[Published]] = {name: deque(maxlen=DECISIONS) for name in lanes}
        self._told: tuple[object, ...] = ("starting", False)
        self.turns = TurnBook()

    def listen(self, callback: Callable[[News], None]) -> None:
        self._listeners.append(callback)

    def send(self, news: News) -> None:
        for listener in self._listeners:
            listener(news)

    def publish(self, lane: LaneState, event: Event, stamps: Stamps, *, text: bool, receipts: int) -> None:
        """An event of a lane, as its process stamped it; `text`: the log may hold its words; `receipts`: of so many turns they are kept."""
        over = lane.ledger.follow(event)
        if isinstance(event, Wake):
            lane.state, lane.why = "awake", f"{event.phrase} was heard" if event.phrase else event.verdict
        elif lane.turn == 0:
            if isinstance(event, Endpoint | TurnClosed) and lane.state != "asleep":
                lane.why = event.reason.value
            lane.state = "asleep"
        lane.sequence += 1
        now = time.monotonic_ns()
        stamps = replace(stamps, published_ns=now, realtime_us=time.time_ns() // 1000)
        self._statistics.event(event, (now - stamps.arrived_ns) / 1e6 if stamps.arrived_ns else None)
        self.turns.follow(lane.settings.name, event, stamps, max(1, receipts))  # who is told of a turn's end may ask for its receipt
        published = Published(lane.settings.name, lane.sequence, event, now // 1000, stamps.realtime_us)
        if isinstance(event, Wake | WakeRefused | NearMiss):
            self._decisions[lane.settings.name].append(published)
        self.send(published)
        self.turns.keep(receipts)
        if over and isinstance(event, TurnClosed):
            log.info("lane %s %s", lane.settings.name, summary(event, over.final, text=text))
        self.tell_lane(lane)

    def decisions(self, lane: str | None, limit: int) -> list[Published]:
        """The newest wakes, refusals and near misses of a lane (None: of all), in the order they came. KeyError(lane)."""
        kept = self._decisions.values() if lane is None else [self._decisions[lane]]
        found = sorted((one for each in kept for one in each), key=lambda one: one.monotonic_us)
        return found[-limit:] if limit else found

    def tell_lane(self, lane: LaneState) -> None:
        """Where something of it has changed."""
        view = lane.view()
        if view != lane.told:
            lane.told = view
            self.send(LaneChanged(view))
            self.tell()

    def tell(self) -> None:
        """Where something of the daemon itself has changed."""
        now = self.health()
        if now != self._told:
            self._told = now
            self.send(HealthChanged(self._snapshot()))

    def health(self) -> tuple[str, bool]:
        """The worst lane's, and whether all are muted."""
        lanes = self._lanes.values()
        return min((lane.health for lane in lanes), key=WORST_FIRST.index), all(lane.muted for lane in lanes)
