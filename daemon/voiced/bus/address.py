"""Where a bus is: addresses, and whether somebody answers there.

What lives here: the unix part of D-Bus addresses (specification, "Server Addresses"), standard library only. What must not:
the D-Bus library. Transports that leave the machine are refused: what is said in a room stays on its board.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from contextlib import suppress
from urllib.parse import unquote_to_bytes

from ..errors import BusError, UsageError

SYSTEM_SOCKETS = ("/run/dbus/system_bus_socket", "/var/run/dbus/system_bus_socket")


def session_address(environ: Mapping[str, str] | None = None) -> str | None:
    """What the environment says of the session bus; None where it says nothing."""
    environ = os.environ if environ is None else environ
    if environ.get("DBUS_SESSION_BUS_ADDRESS"):
        return environ["DBUS_SESSION_BUS_ADDRESS"]
    directory = environ.get("XDG_RUNTIME_DIR")
    return f"unix:path={directory}/bus" if directory else None


def system_address(environ: Mapping[str, str] | None = None) -> str:
    environ = os.environ if environ is None else environ
    fallback = next((path for path in SYSTEM_SOCKETS if os.path.exists(path)), SYSTEM_SOCKETS[0])  # noqa: PTH110
    return environ.get("DBUS_SYSTEM_BUS_ADDRESS") or f"unix:path={fallback}"


def entries(address: str) -> list[tuple[str, bytes]]:
    """(entry, socket name) for each alternative of an address, in order; a name that begins with NUL is abstract.

    BusError for what is no address, and for a transport that is not a local socket: with the exit code of wrong usage, for
    no bus that comes later would answer there.
    """
    found = []
    for entry in filter(None, address.split(";")):
        transport, colon, rest = entry.partition(":")
        pairs = [part.partition("=") for part in rest.split(",") if part]
        options = {key: unquote_to_bytes(value) for key, _, value in pairs}
        if not colon or not all(equals for _, equals, _ in pairs):
            raise _no_address(address, f"expected an address such as unix:path=/run/user/1000/bus, got {entry!r}")
        if transport != "unix":
            raise _no_address(address, f"expected a local bus (unix:…), got the transport {transport!r}")
        if "path" in options:
            found.append((entry, options["path"]))
        elif "abstract" in options:
            found.append((entry, b"\0" + options["abstract"]))
        else:
            raise _no_address(address, f"expected path= or abstract= in a unix address, got {entry!r}")
    if not found:
        raise _no_address("bus address", f"expected an address such as unix:path=/run/user/1000/bus, got {address!r}")
    return found


def _no_address(where: str, what: str) -> BusError:
    return BusError(where, what, code=UsageError.exit_code)


def is_system(address: str, environ: Mapping[str, str] | None = None) -> bool:
    """True where an entry of the address is the system bus, by whatever path or symbolic link: many users listen there."""
    known = {os.path.realpath(os.fsencode(path)) for path in SYSTEM_SOCKETS}
    with suppress(BusError):  # what the environment says is no address: then it is nobody's bus
        known |= {_real(name) for _, name in entries(system_address(environ))}
    return any(_real(name) in known for _, name in entries(address))


def _real(name: bytes) -> bytes:
    return name if name.startswith(b"\0") else os.path.realpath(name)


def open_socket(name: bytes) -> socket.socket:
    """A connected, non-blocking socket. OSError says why not; EAGAIN means that the bus has stopped accepting.

    Connecting a local socket is one system call that either succeeds or fails at once: nothing is waited for.
    """
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    sock.setblocking(False)
    try:
        sock.connect(name)
    except BaseException:
        sock.close()
        raise
    return sock


def alive(address: str) -> bool:
    """True when something accepts connections at one of the address's entries."""
    for _, name in entries(address):
        try:
            open_socket(name).close()
        except BlockingIOError:  # somebody listens, however busily
            return True
        except (OSError, ValueError):
            continue
        return True
    return False
