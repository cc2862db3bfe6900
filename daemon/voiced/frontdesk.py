"""The desk of the running daemon: what clients ask, given to the lane it is for, and what is kept answered from memory.

What lives here: desk.Desk, over what the supervisor has. What must not: processes, D-Bus, who asks.
"""

from __future__ import annotations

import itertools
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from .desk import News, Published, Snapshot
from .lanestate import LaneState
from .publisher import Publisher
from .receipts import Receipt


class FrontDesk:
    """Runs in main's loop.

    snapshot, reload, mute   the supervisor's, which do what Desk says of them
    """

    def __init__(
        self,
        lanes: Mapping[str, LaneState],
        publisher: Publisher,
        snapshot: Callable[[], Snapshot],
        reload: Callable[[], Awaitable[tuple[str, ...]]],
        mute: Callable[[str | None, bool], None],
    ) -> None:
        self._lanes, self._publisher, self.snapshot = lanes, publisher, snapshot
        self._reload, self._mute = reload, mute
        self._tokens = itertools.count(1)

    def listen(self, callback: Callable[[News], None]) -> None:
        self._publisher.listen(callback)

    async def trigger(self, lane: str, options: Mapping[str, Any]) -> int:
        del options  # room to grow
        return await self._lanes[lane].trigger(next(self._tokens))

    async def stop(self, lane: str) -> None:
        self._lanes[lane].send({"command": "stop"})

    async def cancel(self, lane: str, turn: int = 0) -> None:
        self._lanes[lane].send({"command": "cancel", "turn": turn})

    async def follow_up(self, lane: str) -> int:
        return await self._lanes[lane].trigger(next(self._tokens), "follow up")

    async def withdraw(self, lane: str) -> None:
        self._lanes[lane].send({"command": "withdraw"})

    async def playback(self, lane: str, active: bool) -> None:
        self._lanes[lane].play(active=active)
        self._publisher.tell_lane(self._lanes[lane])

    def levels(self, wanted: bool) -> None:
        for lane in self._lanes.values():
            lane.tell_levels(wanted=wanted)

    async def mute(self, lane: str | None, muted: bool) -> None:
        self._mute(lane, muted)

    async def reload(self) -> tuple[str, ...]:
        return await self._reload()

    def explain(self, lane: str | None, limit: int) -> list[Published]:
        return self._publisher.decisions(lane, limit)

    def turn(self, turn: int) -> Receipt:
        return self._publisher.turns.get(turn)

    def turns(self, lane: str | None, limit: int) -> list[Receipt]:
        return self._publisher.turns.newest(self._named(lane), limit)

    def latencies(self, lane: str | None) -> list[dict[str, Any]]:
        return self._publisher.turns.latencies(self._named(lane))

    def _named(self, lane: str | None) -> str | None:
        """KeyError(lane) where there is none of that name."""
        return None if lane is None else self._lanes[lane].settings.name
