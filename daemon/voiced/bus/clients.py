"""Clients that have something here: a subscription, a turn that they hold, sound that they play. All of it ends with them.

What lives here: who has what, and the watch over their names on the bus. What must not: signals, and how a call is answered. A name
is watched from the first thing that its client has to the last, by a match rule of its own: on a busy bus nobody else's comings and
goings wake us.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Container, Mapping
from typing import Any

from ..desk import Desk, News, Published
from ..events import TurnClosed, Wake
from . import interface as names
from .connection import DAEMON, DAEMON_PATH, Connection

log = logging.getLogger(__name__)

LIMIT = 64
"""A subscriber costs a copy of every signal; a bus has some tens of clients at the most."""


class Refusal(Exception):
    """An error reply: a D-Bus error name and one line."""

    def __init__(self, name: str, text: str) -> None:
        super().__init__(text)
        self.name, self.text = name, text


class Clients:
    """One event loop. `who` is a client's unique name.

    subscribers   in the order in which they came
    """

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._connection: Connection | None = None
        self._rules: dict[str, str] = {}  # of each name that is watched, the match rule that tells us of its end
        self.subscribers: dict[str, None] = {}
        self._held: dict[str, tuple[str, int]] = {}  # by lane: who holds its open turn
        self._players: dict[str, set[str]] = {}  # by lane
        self._following: dict[str, set[str]] = {}  # by lane: who wants a follow-up that is not open yet
        self._asking: Counter[str] = Counter()  # calls under way that may give a client something
        self._order: dict[str, asyncio.Lock] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    # ── their names ──────────────────────────────────────────────────────────────────────────────────────────────────

    def connected(self, connection: Connection) -> None:
        self._connection = connection

    def disconnected(self) -> None:
        """Unique names belong to a bus that is gone, and so does everybody who had one. Subscribers come again when our name appears."""
        self._connection = None
        for who in list(self._rules):
            self.gone(who)

    async def _watch(self, who: str) -> None:
        """Returns when its end cannot be missed any more. Refusal: there are too many."""
        connection = self._connection
        if who in self._rules or connection is None:
            return
        if len(self._rules) >= LIMIT:
            raise Refusal(f"{names.STANDARD_ERROR}.LimitsExceeded", f"{LIMIT} clients have something here, which is the most")
        rule = f"type='signal',sender='{DAEMON}',path='{DAEMON_PATH}',interface='{DAEMON}',member='NameOwnerChanged',arg0='{who}'"
        self._rules[who] = rule
        there = False
        try:
            await connection.add_match(rule)
            (there,) = await connection.ask("NameHasOwner", "s", who)
        finally:
            if not there:  # it left before the match was made, or the bus fails us
                self.gone(who)

    @contextlib.asynccontextmanager
    async def _asks(self, who: str, *, watched: bool = True) -> AsyncIterator[None]:
        """One call after the other, as they came: a client need not wait for answers. `watched`: it may have something afterwards."""
        self._asking[who] += 1
        try:
            async with self._order.setdefault(who, asyncio.Lock()):
                if watched:
                    await self._watch(who)
            yield
        finally:
            self._asking[who] -= 1
            if not self._asking[who]:
                del self._asking[who], self._order[who]
                self._let_go(who)

    def _let_go(self, who: str) -> None:
        """Watches it no more where it has nothing here any more and asks for nothing."""
        several = (*self._following.values(), *self._players.values())
        has: tuple[Container[str], ...] = (self._asking, self.subscribers, [holder for holder, _ in self._held.values()], *several)
        if not any(who in things for things in has):
            self._unwatch(who)

    def _unwatch(self, who: str) -> None:
        rule = self._rules.pop(who, None)
        if rule is not None and self._connection is not None:
            self._connection.tell("RemoveMatch", "s", rule)

    def gone(self, who: str) -> None:
        """It vanished: its turn is cancelled, it plays nothing any more, and what it asked for is forgotten."""
        if who not in self._rules:
            return
        if self.subscribers.pop(who, 1) is None and not self.subscribers:
            self._desk.levels(wanted=False)
        for lane in [lane for lane, (holder, _) in self._held.items() if holder == who]:
            _, turn = self._held.pop(lane)
            log.info("lane %s: turn %d is cancelled: the client that held it is gone", lane, turn)
            self._soon(self._desk.cancel(lane, turn))
        for lane in list(self._following):
            if _leaves(self._following, lane, who):
                self._soon(self._withdraw(lane))
        for lane in list(self._players):
            if _leaves(self._players, lane, who):
                self._soon(self._tell_playing(lane))
        self._unwatch(who)

    def _soon(self, work: Awaitable[None]) -> None:
        async def do() -> None:
            try:
                await work
            except Exception:
                log.exception("what a client had cannot be ended")

        self._tasks.add(task := asyncio.get_running_loop().create_task(do()))
        task.add_done_callback(self._tasks.discard)

    # ── what they ask ────────────────────────────────────────────────────────────────────────────────────────────────

    async def subscribe(self, who: str) -> None:
        async with self._asks(who):
            if who in self._rules and who not in self.subscribers:
                self.subscribers[who] = None
                if len(self.subscribers) == 1:
                    self._desk.levels(wanted=True)

    async def unsubscribe(self, who: str) -> None:
        async with self._asks(who, watched=False):
            if self.subscribers.pop(who, 1) is None and not self.subscribers:
                self._desk.levels(wanted=False)

    async def trigger(self, who: str, lane: str, options: Mapping[str, Any]) -> int:
        """With the option `hold` the turn is the caller's from now on, and ends with it. Refusal: it is another's already."""
        hold = options.get("hold", False)
        if not isinstance(hold, bool):
            raise Refusal(names.BAD_ARGUMENT, f"hold must be a boolean (b); got {hold!r}")
        if not hold:
            return await self._desk.trigger(lane, options)
        self._held_by_another(who, lane)
        async with self._asks(who):
            turn = await self._desk.trigger(lane, options)
            self._held_by_another(who, lane)
            if who not in self._rules:
                self._soon(self._desk.cancel(lane, turn))
            elif self._open(lane) == turn:  # else it is over already
                self._held[lane] = who, turn
        return turn

    def _held_by_another(self, who: str, lane: str) -> None:
        holder, turn = self._held.get(lane, (who, 0))
        if holder != who:
            raise Refusal(names.BUSY, f"turn {turn} is held by another client; it ends with that, or by Stop or Cancel")

    def _open(self, lane: str) -> int:
        return next((view.turn for view in self._desk.snapshot().lanes if view.name == lane), 0)

    async def follow_up(self, who: str, lane: str) -> int:
        """The turn's id; 0 where it opens when playback is over, unless the caller is gone by then."""
        async with self._asks(who):
            if who in self._rules:  # before it is asked for: the end of another who waits takes nothing from it
                self._following.setdefault(lane, set()).add(who)
            turn = 1
            try:
                turn = await self._desk.follow_up(lane)
            finally:
                if turn:
                    _leaves(self._following, lane, who)
        return turn

    async def _withdraw(self, lane: str) -> None:
        if lane not in self._following:
            await self._desk.withdraw(lane)

    async def playback(self, who: str, lane: str, active: bool) -> None:
        """The caller plays sound itself, or no more. It counts for a lane while anybody does."""
        async with self._asks(who, watched=active):
            if not active:
                if _leaves(self._players, lane, who):
                    await self._tell_playing(lane)
            elif who in self._rules:
                self._players.setdefault(lane, set()).add(who)
                try:
                    await self._tell_playing(lane)
                except KeyError:
                    self._players.pop(lane)
                    raise

    async def _tell_playing(self, lane: str) -> None:
        """As it is when this runs: another may have begun since."""
        await self._desk.playback(lane, active=lane in self._players)

    # ── what happens meanwhile ───────────────────────────────────────────────────────────────────────────────────────

    def news(self, item: News) -> None:
        """A turn that is over is nobody's; a follow-up that has opened waits no more."""
        match item:
            case Published(lane=lane, event=TurnClosed(turn=turn)) if self._held.get(lane, ("", 0))[1] == turn:
                who, _ = self._held.pop(lane)
                self._let_go(who)
            case Published(lane=lane, event=Wake()) if lane in self._following:
                for follower in self._following.pop(lane):
                    self._let_go(follower)


def _leaves(several: dict[str, set[str]], lane: str, who: str) -> bool:
    """Whether it was the last that a lane had."""
    those = several.get(lane, set())
    if who not in those:
        return False
    those.discard(who)
    if not those:
        del several[lane]
    return not those
