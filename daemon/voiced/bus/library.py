"""The D-Bus library, opened and closed safely. The one file that imports dbus_next or dbus_fast.

Both have the same interface and give us the handshake and the encoding. What is repaired here: dbus-next connects with a
blocking call, reads an end of file during the handshake in an endless loop, and leaves its socket open after a disconnect
and after every failed attempt. What Connection repairs (writing, calls, handlers) is told there. What must not live here:
names and objects of voiced.
"""

from __future__ import annotations

import asyncio
import functools
import importlib
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from ..errors import BusError
from .address import entries, open_socket

LIBRARIES = ("dbus-fast", "dbus-next")
"""In the order of preference: dbus-fast costs a third of the time and is maintained."""

TIMEOUT_S = 5.0
"""For the handshake and for calls; a bus answers within a millisecond, so one that takes this long stands still."""


@dataclass(frozen=True, slots=True)
class Library:
    name: str
    message: Any
    kind: Any
    variant: Any
    flags: Any
    make: Callable[[str, bytes], Any]
    """(entry of an address, socket name) to a bus that is not connected yet."""


@functools.cache
def load(preference: str = "auto") -> Library:
    """The wanted library ("auto", "dbus-fast" or "dbus-next"); BusError when it cannot be imported."""
    if preference not in ("auto", *LIBRARIES):
        raise BusError("bus.library", f"expected auto, dbus-fast or dbus-next, got {preference!r}")
    reasons = []
    for name in LIBRARIES if preference == "auto" else (preference,):
        try:
            root = importlib.import_module(name.replace("-", "_"))
            aio = importlib.import_module(f"{root.__name__}.aio")
        except (ImportError, AttributeError) as error:  # AttributeError: dbus-next uses what Python 3.15 no longer has
            reasons.append(f"{name}: {error}")
            continue
        make = _dbus_next(aio.MessageBus) if name == "dbus-next" else lambda entry, _, bus=aio.MessageBus: bus(bus_address=entry)
        return Library(name, root.Message, root.MessageType, root.Variant, root.MessageFlag, make)
    raise BusError("D-Bus library", f"cannot be imported ({'; '.join(reasons)})", "pip install dbus-fast")


def _dbus_next(base: Any) -> Callable[[str, bytes], Any]:
    """dbus-next's bus on a socket that we connected, with a handshake that sees its end."""

    def setup_socket(bus: Any) -> None:
        bus._sock = bus._given
        bus._stream = bus._sock.makefile("rwb")
        bus._fd = bus._sock.fileno()

    async def auth_readline(bus: Any) -> str:
        line = b""
        while not line.endswith(b"\r\n"):
            chunk = await bus._loop.sock_recv(bus._sock, 256)  # the bus says nothing after the line until we answer it
            if not chunk:
                raise ConnectionResetError("closed during the handshake")
            line += chunk
        return line[:-2].decode()

    def make(entry: str, name: bytes) -> Any:
        repairs = {"_setup_socket": setup_socket, "_auth_readline": auth_readline, "_given": open_socket(name)}
        return type("MessageBus", (base,), repairs)(bus_address=entry)

    return make


async def open_bus(address: str, library: Library, timeout_s: float) -> Any:
    """The library's bus, connected to the first of the address's entries that answers. BusError says what was tried and what came."""
    failures = []
    for entry, name in entries(address):
        bus, opened = None, False
        try:
            async with asyncio.timeout(timeout_s):
                bus = library.make(entry, name)
                await bus.connect()
            opened = True
            return bus
        except TimeoutError:
            failures.append(f"no answer within {timeout_s:g} s")
        except (OSError, EOFError) as error:
            failures.append((error.strerror if isinstance(error, OSError) else None) or str(error) or "closed during the handshake")
        except Exception as error:  # the libraries' own (AuthError, InvalidAddressError, …): they share no base class
            failures.append(str(error) or type(error).__name__)
        finally:
            if bus is not None and not opened:
                close_bus(bus)
    raise BusError(address, f"no bus: {'; '.join(failures)}", "is dbus-daemon running, and is this the right address (--bus ADDRESS)?")


def close_bus(bus: Any) -> None:
    """Ends a bus and gives back its socket, whatever state it is in."""
    bus._user_disconnect = True
    bus._method_return_handlers.clear()
    if not bus._disconnected and bus._stream is not None:  # else it has left the loop, and its descriptor may be another's by now
        bus._finalize(None)
    for part in (bus._stream, bus._sock):
        with suppress(OSError, AttributeError):
            part.close()
    if bus._disconnect_future.done() and not bus._disconnect_future.cancelled():
        bus._disconnect_future.exception()  # asked for, so that asyncio does not report it
