"""One connection to a bus, that neither blocks nor dies of being busy.

What is ours here rather than the library's, and why:
  writing    theirs takes EAGAIN for the end of the connection (python-dbus-next #153): some 200 signals in one turn of the
             loop, or a bus that stands still, kill it. Our writer waits until the socket is writable; its queue is bounded.
  calls      theirs wait for ever after a disconnect (dbus-next) and have no timeout. Ours fail at once, or in time.
  handlers   theirs send a traceback to the caller (dbus-next). Ours go to the journal; the caller gets an error's name.
What must not live here: names and objects of voiced. All of it runs in one event loop.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Hashable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from ..errors import BusError, reason_of
from .library import TIMEOUT_S, Library, close_bus, load, open_bus
from .outbox import Outbox

log = logging.getLogger(__name__)

DAEMON = "org.freedesktop.DBus"
DAEMON_PATH = "/org/freedesktop/DBus"

_WRITES_A_TURN = 64  # so that draining a long queue leaves the loop to others now and then


class CallError(BusError):
    """The other side answered with an error. `name` is the D-Bus error name, `what` its text."""

    def __init__(self, where: str, what: str, advice: str = "", name: str = "") -> None:
        super().__init__(where, what, advice)
        self.name = name


@dataclass(frozen=True, slots=True)
class Value:
    """A variant on its way out: a value with its D-Bus signature."""

    signature: str
    value: Any


@dataclass(frozen=True, slots=True)
class Incoming:
    """A call or a signal that came in. Variants in `body` are unpacked, structs are lists."""

    is_call: bool
    sender: str
    path: str
    interface: str
    member: str
    signature: str
    body: list[Any]
    serial: int = 0
    wants_reply: bool = True


@dataclass(frozen=True, slots=True)
class ConnectionStatistics:
    """sent: messages handed to the bus; waiting, replaced, dropped: see outbox.py."""

    sent: int
    waiting: int
    replaced: int
    dropped: int


async def connect(address: str, library: str = "auto", *, timeout_s: float = TIMEOUT_S) -> Connection:
    """A connection to the first of the address's entries that answers. BusError says what was tried and what came."""
    loaded = load(library)
    return Connection(await open_bus(address, loaded, timeout_s), loaded, address)


class Connection:
    """One connection to a bus. `on_message(incoming) -> bool` is asked for every call and signal; True: it is dealt with.

    A handler must not block; what it raises goes to the log, and to a caller as the bare name Failed.
    """

    def __init__(self, bus: Any, library: Library, address: str) -> None:
        self.address, self.library = address, library.name
        self.unique_name: str = bus.unique_name
        self.disconnected = asyncio.Event()
        self.reason = ""
        """Why the connection ended."""
        self.on_message: Callable[[Incoming], bool] | None = None
        self.on_end: Callable[[], None] | None = None
        self._bus, self._library = bus, library
        self._loop = asyncio.get_running_loop()
        self._fd: int = bus._fd
        self._outbox = Outbox()
        self._rest = memoryview(b"")  # of the message that is half written
        self._sent = 0
        self._drained: asyncio.Future[None] | None = None
        self._pending: dict[int, asyncio.Future[Any]] = {}
        self._loop.remove_writer(self._fd)  # the library's writer has nothing to write and must not take ours away
        bus._writer = self
        bus.add_message_handler(self._receive)
        self._watcher = self._loop.create_task(self._watch(), name="bus connection")

    # ── out ──────────────────────────────────────────────────────────────────────────────────────────────────────────

    def signal(
        self,
        path: str,
        interface: str,
        member: str,
        signature: str,
        body: Sequence[Any],
        *,
        destination: str | None = None,
        key: Hashable = None,
    ) -> bool:
        """Sends a signal, to one addressee where `destination` is given. True when it left or waits; never blocks or raises
        for the state of the bus. `key`: see outbox.py."""
        return self._post(
            self._message("SIGNAL", signature, body, path=path, interface=interface, member=member, destination=destination), key
        )

    def reply(self, call: Incoming, signature: str = "", body: Sequence[Any] = ()) -> bool:
        return self._answer(call, "METHOD_RETURN", signature, body)

    def error(self, call: Incoming, name: str, text: str) -> bool:
        return self._answer(call, "ERROR", "s", [text], error_name=name)

    def _answer(self, call: Incoming, kind: str, signature: str, body: Sequence[Any], **more: Any) -> bool:
        if not call.wants_reply:
            return False
        return self._post(self._message(kind, signature, body, destination=call.sender, reply_serial=call.serial, **more))

    async def call(
        self, destination: str, path: str, interface: str, member: str, signature: str = "", *body: Any, timeout_s: float = TIMEOUT_S
    ) -> list[Any]:
        """Calls and waits for the answer's body; `interface` may be empty.

        CallError: the other side said no. BusError: no answer, no bus.
        """
        to = {"path": path, "interface": interface or None, "member": member, "destination": destination}
        message = self._message("METHOD_CALL", signature, body, **to)
        message.serial = serial = self._bus.next_serial()
        future = self._pending[serial] = self._loop.create_future()
        try:
            if not self._post(message):
                raise BusError(self.address, f"{member} was not sent: {self.reason or 'the queue is full'}")
            async with asyncio.timeout(timeout_s):
                reply = await future
        except TimeoutError:
            raise BusError(f"{destination} {member}", f"no answer within {timeout_s:g} s") from None
        finally:
            self._pending.pop(serial, None)
        if reply.message_type is self._library.kind.ERROR:
            text = reply.body[0] if reply.body and isinstance(reply.body[0], str) else ""
            raise CallError(member, text or reply.error_name, name=reply.error_name)
        return [_plain(value) for value in reply.body]

    async def ask(self, member: str, signature: str = "", *body: Any) -> list[Any]:
        """Calls the bus itself."""
        return await self.call(DAEMON, DAEMON_PATH, DAEMON, member, signature, *body)

    def send_call(self, destination: str, path: str, interface: str, member: str, signature: str = "", *body: Any) -> bool:
        """Calls and wants no answer."""
        message = self._message("METHOD_CALL", signature, body, path=path, interface=interface, member=member, destination=destination)
        message.flags = self._library.flags.NO_REPLY_EXPECTED
        return self._post(message)

    def tell(self, member: str, signature: str = "", *body: Any) -> bool:
        """Calls the bus itself and wants no answer."""
        return self.send_call(DAEMON, DAEMON_PATH, DAEMON, member, signature, *body)

    async def request_name(self, name: str) -> None:
        """Owns `name` or raises BusError: taken (by which process), or refused by the bus's policy. Never queues for it."""
        try:
            (answer,) = await self.ask("RequestName", "su", name, 4)  # DBUS_NAME_FLAG_DO_NOT_QUEUE
        except CallError as error:
            advice = "put systemd/org.voiced.Voice1.conf into /etc/dbus-1/system.d, or run as the user it names"
            raise BusError(name, f"the bus refuses the name to uid {os.getuid()}: {error.what}", advice) from None
        if answer in (1, 4):  # primary owner, already owner
            return
        owner = "another process"
        with suppress(BusError):
            (unique,) = await self.ask("GetNameOwner", "s", name)
            owner = f"process {(await self.ask('GetConnectionUnixProcessID', 's', unique))[0]}"
        raise BusError(name, f"the name is taken by {owner} on {self.address}", "stop it, or name another bus with --bus ADDRESS")

    async def add_match(self, rule: str) -> None:
        await self.ask("AddMatch", "s", rule)

    def statistics(self) -> ConnectionStatistics:
        waiting = self._outbox.statistics()
        return ConnectionStatistics(self._sent, waiting.waiting + bool(self._rest), waiting.replaced, waiting.dropped)

    async def drain(self, timeout_s: float) -> bool:
        """Waits until all is written; False when the time or the connection ends before."""
        if self.disconnected.is_set() or not (self._rest or len(self._outbox)):
            return not self.disconnected.is_set()
        if self._drained is None:
            self._drained = self._loop.create_future()
        with suppress(TimeoutError):
            await asyncio.wait_for(asyncio.shield(self._drained), timeout_s)
        return not (self._rest or len(self._outbox) or self.disconnected.is_set())

    def close(self) -> None:
        """Ends the connection and gives back the socket. May be called twice."""
        self._end("closed")

    # ── writing ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def schedule_write(self, message: Any = None, future: asyncio.Future[None] | None = None) -> None:
        """The library's own messages come here: this object stands where its writer was."""
        if message is not None:
            self._post(message)
        if future is not None and not future.done():
            future.set_result(None)

    def _message(self, kind: str, signature: str, body: Sequence[Any], **more: Any) -> Any:
        values = [_outgoing(value, self._library.variant) for value in body]
        return self._library.message(message_type=self._library.kind[kind], signature=signature, body=values, **more)

    def _post(self, message: Any, key: Hashable = None) -> bool:
        if self.disconnected.is_set():
            return False
        if not message.serial:
            message.serial = self._bus.next_serial()
        data = bytes(message._marshall(False))
        if not self._rest and not len(self._outbox):
            self._rest = memoryview(data)
            self._write()
            return not self.disconnected.is_set()
        return self._outbox.put(data, key)

    def _write(self) -> bool:
        """Writes what is half written; True when it is all gone. An error ends the connection."""
        try:
            done = self._bus._sock.send(self._rest)
        except BlockingIOError:
            done = 0
        except OSError as error:
            self._end(error.strerror or str(error))
            return False
        self._rest = self._rest[done:]
        if self._rest:
            self._loop.add_writer(self._fd, self._writable)
            return False
        self._sent += 1
        return True

    def _writable(self) -> None:
        for _ in range(_WRITES_A_TURN):
            if not self._rest:
                data = self._outbox.take()
                if data is None:
                    self._loop.remove_writer(self._fd)
                    if self._drained is not None:
                        self._drained.set_result(None)
                        self._drained = None
                    return
                self._rest = memoryview(data)
            if not self._write():
                return

    # ── in ───────────────────────────────────────────────────────────────────────────────────────────────────────────

    def _receive(self, message: Any) -> bool:
        kind = self._library.kind
        if message.message_type in (kind.METHOD_RETURN, kind.ERROR):
            future = self._pending.get(message.reply_serial)
            if future is not None and not future.done():
                future.set_result(message)
            return True
        if self.on_message is None:
            return False
        incoming = Incoming(
            message.message_type is kind.METHOD_CALL,
            message.sender or "",
            message.path or "",
            message.interface or "",
            message.member or "",
            message.signature,
            [_plain(value) for value in message.body],
            message.serial,
            not message.flags & self._library.flags.NO_REPLY_EXPECTED,
        )
        try:
            return self.on_message(incoming)
        except Exception:
            log.exception("handling %s of %s failed", incoming.member, incoming.sender)
            if incoming.is_call:
                self.error(incoming, f"{DAEMON}.Error.Failed", "internal error; the journal has it")
            return True

    async def _watch(self) -> None:
        try:
            await self._bus.wait_for_disconnect()
            reason = "closed"
        except (EOFError, OSError) as error:
            reason = reason_of(error) if str(error) else "the bus is gone"
        except Exception as error:  # a message that the library cannot read ends its connection
            reason = f"{type(error).__name__}: {error}"
        self._end(reason)

    def _end(self, reason: str) -> None:
        if self.disconnected.is_set():
            return
        self.reason = reason
        self.disconnected.set()
        self._rest = memoryview(b"")
        close_bus(self._bus)
        for future in self._pending.values():
            if not future.done():
                future.set_exception(BusError(self.address, f"the connection ended: {reason}"))
        if self._drained is not None and not self._drained.done():
            self._drained.set_result(None)
        if self.on_end is not None:
            self.on_end()


def _outgoing(value: Any, variant: Any) -> Any:
    """Our values as the library wants them. A text with NUL or a lone surrogate would cost the connection: they are replaced."""
    if isinstance(value, str):
        return value if value.isascii() and "\0" not in value else value.replace("\0", "\ufffd").encode(errors="replace").decode()
    if isinstance(value, Value):
        return variant(value.signature, _outgoing(value.value, variant))
    if isinstance(value, dict):
        return {_outgoing(key, variant): _outgoing(item, variant) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_outgoing(item, variant) for item in value]
    return value


def _plain(value: Any) -> Any:
    if type(value).__name__ == "Variant":
        return _plain(value.value)
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value
