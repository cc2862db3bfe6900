"""Calls: from a message to exactly one answer.

What lives here: the object tree as a Snapshot shows it, and the dispatch of calls by the tables of interface.py. What must
not: signals, connections, names on the bus. A caller gets a result or an error's name with one clear line, never a
traceback. What asks the desk to do something runs as a task, so that a slow call delays no other.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

from ..desk import Desk, LaneView, Snapshot
from ..errors import ConfigError, DeviceError, InputError, InternalError, ModelError, UsageError, VoicedError
from ..receipts import brief, to_plain
from . import bodies
from . import interface as names
from .clients import Clients, Refusal
from .connection import Connection, Incoming, Value
from .interface import INTROSPECTABLE, LANE, MANAGER, OBJECT_MANAGER, PEER, PROPERTIES, STATUS, Interface

log = logging.getLogger(__name__)

CALL_S = 20.0
"""A call that the desk has not answered by then is answered with an error: D-Bus clients give up after 25 s."""

RELOAD_S = 50.0
"""New models are loaded by a reload, which goes on whether its caller waits or not: below what systemd gives ExecReload, so that it is
told the truth."""

CALLS = 64
"""Calls under way at the same time, for all clients; one more is refused. Each is a task of some kilobytes."""

Values = dict[str, Value]

_MACHINE_ID = ("/etc/machine-id", "/var/lib/dbus/machine-id")
_STANDARD = (PROPERTIES, INTROSPECTABLE, PEER)
_WHOSE_FAULT = (
    ((ConfigError,), names.BAD_SETTINGS),
    ((UsageError, InputError), names.BAD_ARGUMENT),
    ((DeviceError,), names.NO_DEVICE),
    ((InternalError, ModelError), names.FAILED),
)


# ── what each object says ──────────────────────────────────────────────────────────────────────────────────────────────


def _values(interface: Interface, plain: Mapping[str, Any]) -> Values:
    return {prop.name: Value(prop.signature, plain[prop.name]) for prop in interface.properties}


def lane_values(view: LaneView) -> Values:
    return _values(
        LANE,
        {
            "State": view.state,
            "StateReason": view.why,
            "Health": view.health,
            "Muted": view.muted,
            "Phrases": list(view.phrases),
            "Playing": view.playing,
            "Source": view.source,
            "Turn": view.turn,
            "Reason": view.reason,
        },
    )


def status_values(snapshot: Snapshot) -> Values:
    return _values(STATUS, {"Version": snapshot.version, "Health": snapshot.health, "Muted": snapshot.muted})


def manager_values(snapshot: Snapshot, counts: Mapping[str, float]) -> Values:
    """`counts`: what the bus itself has counted, added to the statistics."""
    return _values(
        MANAGER,
        {
            "Version": snapshot.version,
            "Lanes": [names.lane_path(view.name) for view in snapshot.lanes],
            "Health": snapshot.health,
            "Muted": snapshot.muted,
            "Placement": [[row.role, row.process, row.pid, row.tid, row.wanted, row.actual, {}] for row in snapshot.placement],
            "Models": dict(snapshot.models),
            "Statistics": {name: float(value) for name, value in {**snapshot.statistics, **counts}.items()},
            "Mistakes": list(snapshot.reloaded.mistakes),
            "NextStart": list(snapshot.reloaded.restart),
        },
    )


def tree(snapshot: Snapshot, counts: Mapping[str, float]) -> dict[str, dict[Interface, Values]]:
    """All objects with their own interfaces and values, the manager's first."""
    return {
        names.ROOT: {MANAGER: manager_values(snapshot, counts), OBJECT_MANAGER: {}},
        names.STATUS_PATH: {STATUS: status_values(snapshot)},
        **{names.lane_path(view.name): {LANE: lane_values(view)} for view in snapshot.lanes},
    }


# ── calls ──────────────────────────────────────────────────────────────────────────────────────────────────────────────


class Dispatcher:
    """Answers calls. `counts` are the service's; `clients` answers what ends with its caller."""

    def __init__(self, desk: Desk, counts: Callable[[], Mapping[str, float]], clients: Clients) -> None:
        self._desk, self._counts = desk, counts
        self._tasks: set[asyncio.Task[None]] = set()
        self._now: dict[tuple[Interface, str], Callable[[Incoming], list[Any]]] = {
            (PEER, "Ping"): lambda _: [],
            (PEER, "GetMachineId"): lambda _: [_machine_id()],
            (INTROSPECTABLE, "Introspect"): lambda call: [self._introspect(call.path)],
            (PROPERTIES, "Get"): self._get,
            (PROPERTIES, "GetAll"): lambda call: [self._all(call.path, call.body[0])],
            (PROPERTIES, "Set"): self._set,
            (OBJECT_MANAGER, "GetManagedObjects"): lambda _: [self._managed()],
            (MANAGER, "GetStatus"): lambda _: [self._status()],
            (MANAGER, "Explain"): lambda call: [self._explain(*call.body)],
            (MANAGER, "GetTurn"): lambda call: [self._turn(*call.body)],
            (MANAGER, "ListTurns"): lambda call: [self._turns(*call.body)],
            (MANAGER, "GetLatencies"): lambda call: [self._latencies(*call.body)],
        }
        self._later: dict[tuple[Interface, str], Callable[[Incoming], Awaitable[Any]]] = {
            (MANAGER, "Subscribe"): lambda call: clients.subscribe(call.sender),
            (MANAGER, "Unsubscribe"): lambda call: clients.unsubscribe(call.sender),
            (MANAGER, "Mute"): lambda call: desk.mute(None, call.body[0]),
            (MANAGER, "Reload"): lambda _: desk.reload(),
            (LANE, "Trigger"): lambda call: clients.trigger(call.sender, _lane(call), call.body[0]),
            (LANE, "FollowUp"): lambda call: clients.follow_up(call.sender, _lane(call)),
            (LANE, "Playback"): lambda call: clients.playback(call.sender, _lane(call), call.body[0]),
            (LANE, "Stop"): lambda call: desk.stop(_lane(call)),
            (LANE, "Cancel"): lambda call: desk.cancel(_lane(call)),
            (LANE, "Mute"): lambda call: desk.mute(_lane(call), call.body[0]),
        }

    def answer(self, connection: Connection, call: Incoming) -> None:
        """Answers now, or begins a task that will: exactly one reply either way."""
        try:
            interface, method = self._find(call)
            gives = "".join(arg.signature for arg in method.gives)
            now = self._now.get((interface, method.name))
            if now is not None:
                connection.reply(call, gives, now(call))
                return
            if len(self._tasks) >= CALLS:
                raise Refusal(f"{names.STANDARD_ERROR}.LimitsExceeded", f"{CALLS} calls are under way; try again")
        except Exception as error:
            _refuse(connection, call, error)
            return
        task = asyncio.get_running_loop().create_task(self._run(connection, call, interface, gives), name=f"bus {call.member}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        """Cancels what is under way: each caller gets an error."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _run(self, connection: Connection, call: Incoming, interface: Interface, gives: str) -> None:
        patience_s = RELOAD_S if call.member == "Reload" else CALL_S
        try:
            async with asyncio.timeout(patience_s) as limit:
                result = await self._later[interface, call.member](call)
            connection.reply(call, gives, [list(result) if isinstance(result, tuple) else result] if gives else [])
        except asyncio.CancelledError:
            connection.error(call, names.FAILED, f"{call.member}: voiced is stopping")
            raise
        except Exception as error:
            if isinstance(error, TimeoutError) and limit.expired():
                error = Refusal(names.FAILED, f"{call.member}: not done within {patience_s:g} s")
            elif isinstance(error, KeyError) and error.args == (names.lane_of(call.path),):
                error = self._no_lane(_lane(call))
            _refuse(connection, call, error)

    # ── finding ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def _tree(self) -> dict[str, dict[Interface, Values]]:
        return tree(self._desk.snapshot(), self._counts())

    def _find(self, call: Incoming) -> tuple[Interface, names.Method]:
        offered: tuple[Interface, ...] = _STANDARD
        if call.interface != PEER.name:  # Peer is there on any path, by the specification
            objects = self._tree()
            if call.path not in objects and not self._children(call.path, objects):
                raise self._no_object(call.path)
            offered = (*objects.get(call.path, {}), *_STANDARD)
        found = [item for item in offered if call.interface in ("", item.name)]
        if not found:
            raise Refusal(f"{names.STANDARD_ERROR}.UnknownInterface", f"{call.path} has no interface {call.interface}")
        for interface in found:
            for method in interface.methods:
                if method.name == call.member:
                    if call.signature != method.signature:
                        text = f"{method.name} expects ({method.signature}), got ({call.signature})"
                        raise Refusal(f"{names.STANDARD_ERROR}.InvalidArgs", text)
                    return interface, method
        raise Refusal(f"{names.STANDARD_ERROR}.UnknownMethod", f"{call.interface or call.path} has no method {call.member}")

    @staticmethod
    def _children(path: str, objects: Mapping[str, Any]) -> tuple[str, ...]:
        below = path.rstrip("/") + "/"
        return tuple(dict.fromkeys(item[len(below) :].partition("/")[0] for item in objects if item.startswith(below)))

    def _no_object(self, path: str) -> Refusal:
        lane = names.lane_of(path)
        return Refusal(f"{names.STANDARD_ERROR}.UnknownObject", f"no object {path}") if lane is None else self._no_lane(lane)

    def _no_lane(self, lane: str) -> Refusal:
        there = ", ".join(view.name for view in self._desk.snapshot().lanes) or "none"
        return Refusal(names.NO_SUCH_LANE, f"no lane {lane!r}; the lanes are: {there}")

    # ── answers at once ──────────────────────────────────────────────────────────────────────────────────────────────

    def _introspect(self, path: str) -> str:
        objects = self._tree()
        own = tuple(objects.get(path, {}))
        return names.node_xml((*own, *_STANDARD) if own else _STANDARD[1:], self._children(path, objects))

    def _all(self, path: str, interface: str) -> Values:
        offered = self._tree().get(path, {})
        if interface and interface not in {item.name for item in (*offered, *_STANDARD)}:
            raise Refusal(f"{names.STANDARD_ERROR}.UnknownInterface", f"{path} has no interface {interface}")
        return {name: value for item, values in offered.items() if interface in ("", item.name) for name, value in values.items()}

    def _get(self, call: Incoming) -> list[Any]:
        interface, name = call.body
        values = self._all(call.path, interface)
        if name not in values:
            raise Refusal(f"{names.STANDARD_ERROR}.UnknownProperty", f"{interface or call.path} has no property {name}")
        return [values[name]]

    def _set(self, call: Incoming) -> list[Any]:
        self._get(Incoming(True, call.sender, call.path, call.interface, call.member, "ss", call.body[:2]))
        raise Refusal(f"{names.STANDARD_ERROR}.PropertyReadOnly", f"{call.body[1]} is read-only")

    def _managed(self) -> dict[str, dict[str, Values]]:
        """The objects below the manager; by the specification it does not list itself."""
        return {path: interfaces_of(offered) for path, offered in self._tree().items() if path != names.ROOT}

    def _explain(self, lane: str, limit: int) -> list[Values]:
        try:
            return [bodies.to_decision(one) for one in self._desk.explain(lane or None, limit)]
        except KeyError:
            raise self._no_lane(lane) from None

    def _turn(self, turn: int) -> Values:
        try:
            return bodies.to_row(to_plain(self._desk.turn(turn)))
        except KeyError:
            raise Refusal(names.NO_SUCH_TURN, f"no receipt of turn {turn}: it is not over, or kept no more") from None

    def _turns(self, lane: str, limit: int) -> list[Values]:
        try:
            return [bodies.to_row(brief(one)) for one in self._desk.turns(lane or None, limit)]
        except KeyError:
            raise self._no_lane(lane) from None

    def _latencies(self, lane: str) -> list[Values]:
        try:
            return [bodies.to_row(row) for row in self._desk.latencies(lane or None)]
        except KeyError:
            raise self._no_lane(lane) from None

    def _status(self) -> Values:
        """The manager's properties and each lane's, in lower case as is the custom for keys."""
        snapshot = self._desk.snapshot()
        status = {name.lower(): value for name, value in manager_values(snapshot, self._counts()).items()}
        lanes = [
            {
                "name": Value("s", view.name),
                "path": Value("o", names.lane_path(view.name)),
                **{name.lower(): value for name, value in lane_values(view).items()},
            }
            for view in snapshot.lanes
        ]
        return {**status, "lanes": Value("aa{sv}", lanes)}


def interfaces_of(offered: Mapping[Interface, Values]) -> dict[str, Values]:
    """Interface names to values, as ObjectManager gives them: the standard ones are there too, without properties."""
    return {interface.name: values for interface, values in offered.items()} | {interface.name: {} for interface in _STANDARD}


def _lane(call: Incoming) -> str:
    lane = names.lane_of(call.path)
    assert lane is not None  # _find gave us a lane's object
    return lane


def _machine_id() -> str:
    for path in _MACHINE_ID:
        try:
            return Path(path).read_text(encoding="ascii").strip()
        except OSError:
            continue
    raise Refusal(f"{names.STANDARD_ERROR}.Failed", "this machine has no machine-id")


def _refuse(connection: Connection, call: Incoming, error: Exception) -> None:
    """Our errors become names by whose fault they are. Any other is a bug: its traceback goes to the journal only."""
    if isinstance(error, Refusal):
        connection.error(call, error.name, " ".join(error.text.splitlines()))  # the caller's own names may have lines
    elif isinstance(error, VoicedError):
        name = next((name for kinds, name in _WHOSE_FAULT if isinstance(error, kinds)), names.BUSY)
        text = "\n".join(error.lines) if isinstance(error, ConfigError) else str(error)
        connection.error(call, name, text)
    else:
        log.error("%s of %s failed", call.member, call.sender, exc_info=error)
        connection.error(call, names.FAILED, f"{call.member}: internal error ({type(error).__name__}); the journal has it")
