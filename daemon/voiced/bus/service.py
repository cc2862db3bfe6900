"""The daemon on the bus: owns the name, publishes the desk's news, comes back when the bus does.

What lives here: the life of the connection, signals, subscribers. What must not: what objects say and how calls are
answered (dispatch.py), names (interface.py). Nothing here ever waits for the bus in the way of the desk: a signal is
written at once or waits in a bounded queue, and what is lost is counted and published in Manager.Statistics (bus_…).
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..desk import Desk, HealthChanged, LaneChanged, LevelHeard, News, Published, Reloaded, Snapshot
from ..errors import BusError
from . import bodies
from . import interface as names
from .clients import Clients
from .connection import DAEMON, Connection, ConnectionStatistics, Incoming, connect
from .dispatch import Dispatcher, Values, interfaces_of, lane_values, manager_values, status_values, tree

log = logging.getLogger(__name__)

BACK_OFF_S = (0.1, 1.0)
"""First and longest pause between attempts to come back; it doubles. Connecting to a local socket in vain costs a fraction of a
millisecond, and clients want us back within two seconds of the bus."""

FLUSH_S = 0.5
"""What may still be written when we leave: the last turn's events, unless the bus stands still."""

_REPLACED_BY_NEWER = frozenset(("Partial",))
_CONSTANT = frozenset(prop.name for item in names.OURS for prop in item.properties if prop.emits != "true")


@dataclass(frozen=True, slots=True)
class ServiceState:
    """connected: the name is ours now. reason: why not, where it is not. The counts are since the start: sent (messages
    written), replaced and dropped (outbox.py), unheard (published while there was no bus), reconnects."""

    connected: bool
    address: str
    library: str
    reason: str
    subscribers: int
    waiting: int
    sent: int
    replaced: int
    dropped: int
    unheard: int
    reconnects: int


class Service:
    """`await start()`, which raises BusError, then `await run()` until cancelled. All in one event loop.

    address   a D-Bus address (address.py)
    library   auto, dbus-fast or dbus-next
    unicast   the system bus: lanes and the manager speak to subscribers only, and only Status broadcasts
    revive    called in another thread before each attempt to come back, for a bus of our own that may have to be started again
    """

    def __init__(
        self, desk: Desk, address: str, *, library: str = "auto", unicast: bool = False, revive: Callable[[], object] | None = None
    ) -> None:
        self._desk, self._address, self._wanted, self._unicast, self._revive = desk, address, library, unicast, revive
        self._connection: Connection | None = None
        self._before = ConnectionStatistics(0, 0, 0, 0)  # of the connections that are gone
        self._clients = Clients(desk)
        self._lanes = {view.name for view in desk.snapshot().lanes}
        self._unheard = self._reconnects = 0
        self._library = library
        self._reason = "not started"
        self._dispatcher = Dispatcher(desk, self._counts, self._clients)
        desk.listen(self._news)

    async def start(self, patience_s: float = 0.0, on_wait: Callable[[], None] = lambda: None) -> None:
        """Connects and owns the name. BusError: no bus, the name is taken, or the bus's policy refuses it.

        A bus that is not there is waited for so long; `on_wait` is called at each try in vain.
        """
        deadline, pause = time.monotonic() + patience_s, BACK_OFF_S[0]
        while True:
            try:
                connection = await connect(self._address, self._wanted)
                break
            except BusError:
                if time.monotonic() >= deadline:
                    raise
            on_wait()
            await asyncio.sleep(pause)
            pause = min(2 * pause, BACK_OFF_S[1])
        connection.on_message = lambda message: self._receive(connection, message)  # before the name: no call meets nobody
        try:
            await connection.request_name(names.NAME)
        except BaseException:
            connection.close()
            raise
        self._connection, self._library, self._reason = connection, connection.library, ""
        self._clients.connected(connection)

    async def run(self) -> None:
        """Serves until cancelled, and heals what happens to the bus meanwhile. On its way out it writes what is written yet to be."""
        try:
            if self._connection is None:
                await self.start()
            while True:
                assert self._connection is not None
                await self._connection.disconnected.wait()
                self._leave()
                log.warning("the bus is gone (%s); trying to come back", self._reason)
                await self._come_back()
                self._reconnects += 1
                log.info("back on the bus %s", self._address)
        finally:
            await self._dispatcher.close()
            if self._connection is not None:
                await self._connection.drain(FLUSH_S)
                self._connection.close()
                self._leave()

    def state(self) -> ServiceState:
        now = self._connection.statistics() if self._connection else ConnectionStatistics(0, 0, 0, 0)
        return ServiceState(
            connected=self._connection is not None and not self._connection.disconnected.is_set(),
            address=self._address,
            library=self._library,
            reason=self._reason,
            subscribers=len(self._clients.subscribers),
            waiting=now.waiting,
            sent=self._before.sent + now.sent,
            replaced=self._before.replaced + now.replaced,
            dropped=self._before.dropped + now.dropped,
            unheard=self._unheard,
            reconnects=self._reconnects,
        )

    def _counts(self) -> dict[str, float]:
        state = self.state()
        counted = ("subscribers", "waiting", "sent", "replaced", "dropped", "unheard", "reconnects")
        return {f"bus_{name}": float(getattr(state, name)) for name in counted}

    # ── the connection ───────────────────────────────────────────────────────────────────────────────────────────────

    def _leave(self) -> None:
        if self._connection is None:
            return
        last, before = self._connection.statistics(), self._before
        self._reason = self._connection.reason
        # what still waited is lost with its connection
        self._before = ConnectionStatistics(
            before.sent + last.sent, 0, before.replaced + last.replaced, before.dropped + last.dropped + last.waiting
        )
        self._connection = None
        self._clients.disconnected()

    async def _come_back(self) -> None:
        pause, longest = BACK_OFF_S
        while True:
            try:
                if self._revive is not None:
                    await asyncio.to_thread(self._revive)
                await self.start()
                return
            except (BusError, OSError) as error:
                if self._reason != str(error):
                    log.warning("%s", error)
                self._reason = str(error)
            await asyncio.sleep(pause)
            pause = min(2 * pause, longest)

    def _receive(self, connection: Connection, message: Incoming) -> bool:
        if message.is_call:
            self._dispatcher.answer(connection, message)
            return True
        if message.sender == DAEMON and message.member == "NameOwnerChanged" and not message.body[2]:
            self._clients.gone(message.body[0])
        return False

    # ── news ─────────────────────────────────────────────────────────────────────────────────────────────────────────

    def _news(self, news: News) -> None:
        """Called by the desk; neither blocks nor raises. A value that cannot be sent is a bug: logged and counted, not spread."""
        self._clients.news(news)
        try:
            match news:
                case Published():
                    self._publish(news)
                case LevelHeard():
                    self._emit(
                        names.lane_path(news.lane),
                        names.LANE.name,
                        "Level",
                        *bodies.to_level(news),
                        key=(news.lane, "Level"),
                        tell_all=False,
                    )
                case LaneChanged(view):
                    if view.name not in self._lanes:
                        self._lanes_changed(self._desk.snapshot())
                    self._changed(names.lane_path(view.name), names.LANE, lane_values(view))
                case Reloaded():
                    self._changed(names.ROOT, names.MANAGER, manager_values(self._desk.snapshot(), {}))
                case HealthChanged(snapshot):
                    self._lanes_changed(snapshot)
                    self._changed(names.ROOT, names.MANAGER, manager_values(snapshot, {}))
                    self._changed(names.STATUS_PATH, names.STATUS, status_values(snapshot))
        except Exception:
            self._unheard += 1
            log.exception("%s was not published", type(news).__name__)

    def _publish(self, news: Published) -> None:
        member, body = bodies.to_signal(news)
        key = (news.lane, member) if member in _REPLACED_BY_NEWER else None
        self._emit(names.lane_path(news.lane), names.LANE.name, member, bodies.SIGNATURES[member], body, key=key)

    def _changed(self, path: str, interface: names.Interface, values: Values) -> None:
        """All values that change at all, not only the changed ones: so a newer message can replace one that waits."""
        changing = {name: value for name, value in values.items() if name not in _CONSTANT}
        body = [interface.name, changing, []]
        self._emit(path, names.PROPERTIES.name, "PropertiesChanged", "sa{sv}as", body, key=(path, "PropertiesChanged"))

    def _lanes_changed(self, snapshot: Snapshot) -> None:
        """InterfacesAdded and InterfacesRemoved come from the manager's path, where clients listen for them."""
        now = {view.name for view in snapshot.lanes}
        objects = tree(snapshot, {})
        for lane in sorted(now - self._lanes):
            path = names.lane_path(lane)
            body = [path, interfaces_of(objects[path])]
            self._emit(names.ROOT, names.OBJECT_MANAGER.name, "InterfacesAdded", "oa{sa{sv}}", body)
        for lane in sorted(self._lanes - now):
            body = [names.lane_path(lane), list(interfaces_of({names.LANE: {}}))]
            self._emit(names.ROOT, names.OBJECT_MANAGER.name, "InterfacesRemoved", "oas", body)
        self._lanes = now

    def _emit(
        self,
        path: str,
        interface: str,
        member: str,
        signature: str,
        body: list[Any],
        *,
        key: tuple[str, str] | None = None,
        tell_all: bool = True,
    ) -> None:
        if self._connection is None or self._connection.disconnected.is_set():
            self._unheard += 1
            return
        if tell_all and (not self._unicast or path == names.STATUS_PATH):
            self._connection.signal(path, interface, member, signature, body, key=key)
            return
        for who in self._clients.subscribers:
            self._connection.signal(path, interface, member, signature, body, destination=who, key=key and (who, *key))
