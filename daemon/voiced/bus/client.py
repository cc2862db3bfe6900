"""A client's side: calls to a running daemon, and its events as they happen.

What lives here: what voicectl needs of the bus. What must not: printing, arguments. A client outlives the daemon: `watch`
says when it goes and when it is back, by the signal NameOwnerChanged of the bus, and connects again when the bus itself
went away (a private one dies with its daemon). One event loop.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from ..desk import LevelHeard, Published
from ..errors import BusError, ConfigError, DeviceError, InternalError, UsageError, VoicedError
from . import bodies
from . import interface as names
from .connection import DAEMON, DAEMON_PATH, CallError, Connection, Incoming, Value, connect

CALL_S, RELOAD_S = 25.0, 55.0
"""Longer than the daemon takes to give up by itself (dispatch.py)."""

BACK_OFF_S = (0.1, 2.0)

WAITING = 1_000
"""Events that wait for a slow reader; what comes then is lost and counted."""

_ABSENT = frozenset(f"{names.STANDARD_ERROR}.{name}" for name in ("ServiceUnknown", "NameHasNoOwner", "NoReply"))
_EXIT_CODES = {
    names.NO_SUCH_LANE: UsageError.exit_code,
    names.NO_SUCH_TURN: UsageError.exit_code,
    names.BAD_ARGUMENT: UsageError.exit_code,
    names.BAD_SETTINGS: ConfigError.exit_code,
    names.NO_DEVICE: DeviceError.exit_code,
    names.FAILED: InternalError.exit_code,
    names.BUSY: VoicedError.exit_code,
}
"""A daemon that answers with an error is there: the exit code says whose fault it was, not that there is no bus."""

_SIGNATURES = {bool: "b", int: "x", float: "d", str: "s"}


@dataclass(frozen=True, slots=True)
class Presence:
    """The daemon is there, or went away. Sequence numbers begin anew after it was away."""

    there: bool


@dataclass(frozen=True, slots=True)
class Changed:
    """Properties of an object as they are now: a lane's, or the daemon's (lane None)."""

    lane: str | None
    values: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Unknown:
    """A signal of a newer daemon that this client does not understand."""

    lane: str
    member: str
    body: list[Any]


Heard = Published | Presence | Changed | LevelHeard | Unknown


class Client:
    """`async with Client(address) as client:`; BusError when there is no bus, or, by a call, no daemon.

    lost   events that a slow reader of `watch` missed
    """

    def __init__(self, address: str, *, library: str = "auto") -> None:
        self._address, self._library = address, library
        self._connection: Connection | None = None
        self._heard: deque[Heard] = deque()
        self._news = asyncio.Event()
        self._watching = False
        self._there: bool | None = None
        self._owner = ""
        self.lost = 0

    @property
    def address(self) -> str:
        return self._address

    async def __aenter__(self) -> Client:
        await self._connect()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._connection is not None:
            self._connection.close()

    # ── calls ────────────────────────────────────────────────────────────────────────────────────────────────────────

    async def status(self) -> dict[str, Any]:
        """Everything: version, health, muted, lanes (a list of dicts: name, path, state, …), placement, models, statistics."""
        (status,) = await self._call(names.ROOT, names.MANAGER, "GetStatus")
        return dict(status)

    async def trigger(self, lane: str | None = None, options: Mapping[str, Any] | None = None) -> int:
        """Opens a turn; its id. `lane` None: the only one there is. The options' values are bool, int, float or str."""
        given = {name: Value(_SIGNATURES[type(value)], value) for name, value in (options or {}).items()}
        (turn,) = await self._call(await self._path(lane), names.LANE, "Trigger", "a{sv}", given)
        return int(turn)

    async def follow_up(self, lane: str | None = None) -> int:
        """Listens again without a phrase, as soon as what is played is over; the turn's id, 0 where that is later."""
        (turn,) = await self._call(await self._path(lane), names.LANE, "FollowUp", "a{sv}", {})
        return int(turn)

    async def playback(self, active: bool, lane: str | None = None) -> None:
        """This client plays sound itself, or no more."""
        await self._call(await self._path(lane), names.LANE, "Playback", "b", active)

    async def stop(self, lane: str | None = None) -> None:
        await self._call(await self._path(lane), names.LANE, "Stop")

    async def cancel(self, lane: str | None = None) -> None:
        await self._call(await self._path(lane), names.LANE, "Cancel")

    async def mute(self, muted: bool, lane: str | None = None) -> None:
        """`lane` None: all of them."""
        path, interface = (names.ROOT, names.MANAGER) if lane is None else (names.lane_path(lane), names.LANE)
        await self._call(path, interface, "Mute", "b", muted)

    async def reload(self) -> list[str]:
        """Has the settings file read anew; the keys that have changed in it and take effect at the next start.

        ConfigError has a line for each mistake of the file, and then nothing has changed.
        """
        try:
            (restart,) = await self._call(names.ROOT, names.MANAGER, "Reload", patience_s=RELOAD_S)
        except CallError as error:
            if error.name != names.BAD_SETTINGS:
                raise
            raise ConfigError("", "", lines=tuple(error.what.splitlines())) from None
        return list(restart)

    async def explain(self, lane: str | None = None, limit: int = 0) -> list[dict[str, Any]]:
        """The newest wakes, refusals and near misses of a lane (None: of all), oldest first, `limit` at the most (0: all kept).

        Each has `event` (Wake, WakeRefused, NearMiss), `lane`, `sample`, `realtime_us`; where a phrase was heard or nearly heard also
        `phrase`, `scores` (what was reckoned and its `…_threshold`) and `margin`, stage 1's.
        """
        (decisions,) = await self._call(names.ROOT, names.MANAGER, "Explain", "su", lane or "", limit)
        return list(decisions)

    async def turn(self, turn: int) -> dict[str, Any]:
        """The receipt of a turn that is over (receipts.Receipt in its plain form: what is not known is not there); UsageError's exit code
        where the daemon has none."""
        (found,) = await self._call(names.ROOT, names.MANAGER, "GetTurn", "t", turn)
        return dict(found)

    async def turns(self, lane: str | None = None, limit: int = 0) -> list[dict[str, Any]]:
        """The newest turns of a lane (None: of all), oldest first, `limit` at the most (0: all kept): receipts.brief of each."""
        (found,) = await self._call(names.ROOT, names.MANAGER, "ListTurns", "su", lane or "", limit)
        return list(found)

    async def latencies(self, lane: str | None = None) -> list[dict[str, Any]]:
        """Percentiles of a lane's turns (None: of all): rows with `latency`, `length`, `count`, `p50`, … in milliseconds."""
        (found,) = await self._call(names.ROOT, names.MANAGER, "GetLatencies", "s", lane or "")
        return list(found)

    async def _path(self, lane: str | None) -> str:
        if lane is not None:
            return names.lane_path(lane)
        there = [str(item["name"]) for item in (await self.status())["lanes"]]
        if len(there) != 1:
            raise BusError("lane", f"expected one of {', '.join(there) or '(no lanes)'}, got none", "name the lane")
        return names.lane_path(there[0])

    async def _call(
        self, path: str, interface: names.Interface, member: str, signature: str = "", *body: Any, patience_s: float = CALL_S
    ) -> list[Any]:
        assert self._connection is not None, "use `async with`"
        try:
            return await self._connection.call(names.NAME, path, interface.name, member, signature, *body, timeout_s=patience_s)
        except CallError as error:
            if error.name in _ABSENT:
                raise BusError(names.NAME, f"voiced does not run on {self._address}", "start it: voiced") from None
            error.exit_code = _EXIT_CODES.get(error.name, error.exit_code)
            raise

    # ── events ───────────────────────────────────────────────────────────────────────────────────────────────────────

    async def watch(self) -> AsyncGenerator[Heard, None]:
        """All events from now on, for ever; begins with a Presence. One at a time. A slow reader loses events (`lost`).

        BusError when the daemon refuses to tell us.
        """
        self._watching, self._there = True, None
        try:
            while True:
                if self._connection is None:
                    await self._come_back()
                connection = self._connection
                assert connection is not None
                connection.on_end = self._news.set
                await self._listen(connection)
                while self._heard or not connection.disconnected.is_set():
                    if self._heard:
                        yield self._heard.popleft()
                        continue
                    self._news.clear()
                    await self._news.wait()
                self._connection = None
                self._present(False)
        finally:
            self._watching = False
            self._heard.clear()

    async def _connect(self) -> None:
        connection = await connect(self._address, self._library)
        connection.on_message = self._receive
        self._connection = connection

    async def _come_back(self) -> None:
        pause, longest = BACK_OFF_S
        while self._connection is None:
            await asyncio.sleep(pause)
            pause = min(2 * pause, longest)
            with suppress(BusError):
                await self._connect()

    async def _listen(self, connection: Connection) -> None:
        watched = f"type='signal',sender='{DAEMON}',path='{DAEMON_PATH}',interface='{DAEMON}',member='NameOwnerChanged',arg0='{names.NAME}'"
        try:
            await connection.add_match(watched)
            await connection.add_match(f"type='signal',sender='{names.NAME}',path_namespace='{names.ROOT}'")
            (self._owner,) = await connection.ask("GetNameOwner", "s", names.NAME)
            await connection.call(names.NAME, names.ROOT, names.MANAGER.name, "Subscribe")
        except CallError as error:
            if error.name not in _ABSENT:
                raise
            self._owner = ""  # we are told when it comes
        except BusError:
            if not connection.disconnected.is_set():
                raise
            return  # and begin again
        self._present(bool(self._owner))

    def _receive(self, message: Incoming) -> bool:
        if message.is_call:
            return False
        if message.sender == DAEMON and message.member == "NameOwnerChanged" and message.body[0] == names.NAME:
            self._owner = message.body[2]
            if self._owner and self._connection is not None:  # a broadcast says that it is back; a system bus wants us to ask again
                self._connection.send_call(names.NAME, names.ROOT, names.MANAGER.name, "Subscribe")
            self._present(bool(self._owner))
        elif message.sender == self._owner and self._owner:  # anyone may send us a signal: only the name's owner is believed
            self._understand(message)
        return False

    def _understand(self, message: Incoming) -> None:
        lane = names.lane_of(message.path)
        if message.interface == names.LANE.name and lane is not None:
            try:
                if message.member == "Level":
                    self._put(bodies.from_level(lane, message.body))
                    return
                self._put(bodies.from_signal(lane, message.member, message.body))
            except (ValueError, KeyError, TypeError):
                self._put(Unknown(lane, message.member, message.body))
        elif message.member == "PropertiesChanged" and message.signature == "sa{sv}as" and message.path != names.STATUS_PATH:
            self._put(Changed(lane, message.body[1]))

    def _present(self, there: bool) -> None:
        if there is not self._there:
            self._there = there
            self._put(Presence(there))

    def _put(self, item: Heard) -> None:
        if not self._watching:
            return
        if isinstance(item, LevelHeard):  # a newer one takes its place, or they would fill the queue of a reader that is busy for minutes
            stale = [one for one in self._heard if isinstance(one, LevelHeard) and one.lane == item.lane]
            for one in stale:
                self._heard.remove(one)
        if len(self._heard) >= WAITING:
            self.lost += 1
            return
        self._heard.append(item)
        self._news.set()
