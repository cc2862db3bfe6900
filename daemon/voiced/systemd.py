"""What we tell systemd: ready, status, reloading, stopping, the watchdog. Standard library only.

What lives here: one datagram to $NOTIFY_SOCKET (man sd_notify). What must not: deciding when. Without that variable every
call does nothing, and a send never blocks: a full socket loses the message and says so by returning False. What the
watchdog is fed with (frames that advance, never a timer alone) is lifeline.py's business.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Mapping


class Notifier:
    """The service manager's ear. Every method returns True when the message left, False when nobody listens."""

    def __init__(self, environ: Mapping[str, str] | None = None) -> None:
        environ = os.environ if environ is None else environ
        self._address = environ.get("NOTIFY_SOCKET", "")
        self.watchdog_s = _watchdog_s(environ)
        """Seconds after which systemd kills a silent service (feed it at half of that); None where there is no watchdog."""

    @property
    def listened_to(self) -> bool:
        return bool(self._address)

    def ready(self, status: str = "") -> bool:
        return self._send("READY=1", _status(status))

    def status(self, text: str) -> bool:
        """One line that `systemctl status` shows."""
        return self._send(_status(text))

    def reloading(self) -> bool:
        """Say `ready` when done. Without the time stamp `systemctl reload` of a notify-reload unit hangs."""
        return self._send("RELOADING=1", f"MONOTONIC_USEC={time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000}")

    def stopping(self, status: str = "") -> bool:
        return self._send("STOPPING=1", _status(status))

    def watchdog(self) -> bool:
        return self._send("WATCHDOG=1")

    def extend_timeout(self, microseconds: int) -> bool:
        """Asks for that much more time from now, while models load or turns drain."""
        return self._send(f"EXTEND_TIMEOUT_USEC={microseconds}")

    def _send(self, *lines: str) -> bool:
        if not self._address:
            return False
        address = "\0" + self._address[1:] if self._address.startswith("@") else self._address
        data = "\n".join(line for line in lines if line).encode(errors="replace")
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sock:
                sock.sendto(data, socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL, address)
        except OSError:  # full, or the manager is gone: nothing we could do about it
            return False
        return True


def _status(text: str) -> str:
    return f"STATUS={' '.join(text.splitlines())}" if text else ""


def _watchdog_s(environ: Mapping[str, str]) -> float | None:
    """WATCHDOG_USEC where it is meant for this process; a variable that is no number counts as absent, as in sd_notify."""
    if environ.get("WATCHDOG_PID", str(os.getpid())) != str(os.getpid()):
        return None
    microseconds = environ.get("WATCHDOG_USEC", "")
    return int(microseconds) / 1e6 if microseconds.isascii() and microseconds.isdigit() and int(microseconds) > 0 else None
