"""The log's way to standard error, on which nobody waits: not for a pipe whose reader stands still, a terminal at ^S, a slow disk.

What lives here: what a line looks like, a bounded queue of them, and the thread that writes. What must not: what is told. Lines that
cannot be written are lost and counted, and the count is told when somebody reads again.
"""

from __future__ import annotations

import logging
import os
import select
import sys
import threading
from collections import deque

from .journal import is_journal

log = logging.getLogger("voiced")

WAITING = 1000
"""Lines that may wait for a slow reader, some 100 kB. A turn has one, a start a dozen."""

FLUSH_S = 1.0
"""What still waits at the end has so long to be read."""


class LogWriter(logging.Handler):
    """Any thread may log. The descriptor is written past Python's own stream, whose lock a thread that hangs would keep to the end."""

    def __init__(self, fd: int = 2) -> None:
        super().__init__()
        self.lost = 0
        """Lines since the start."""
        self._fd = fd
        self._encoding = getattr(sys.stderr, "encoding", None) or "utf-8"
        self._waiting: deque[bytes] = deque()
        self._writing = self._torn = False
        self._told = 0  # of those that are lost
        self._change = threading.Condition()
        # a daemon: who never reads must not keep us from ending
        threading.Thread(target=self._run, name="log", daemon=True).start()

    def emit(self, record: logging.LogRecord) -> None:
        line = self._encoded(record)
        with self._change:
            if len(self._waiting) >= WAITING:
                self.lost += 1
                return
            self._waiting.append(line)
            self._change.notify_all()

    def flush(self) -> None:
        """Returns when all is written, or after FLUSH_S."""
        with self._change:
            self._change.wait_for(lambda: not (self._waiting or self._writing), FLUSH_S)

    def _encoded(self, record: logging.LogRecord) -> bytes:
        return f"{self.format(record)}\n".encode(self._encoding, "backslashreplace")

    def _run(self) -> None:
        while True:
            with self._change:
                self._writing = False
                self._change.notify_all()
                self._change.wait_for(lambda: self._waiting)
                line, self._writing = self._waiting.popleft(), True
            written = self._write(line)
            with self._change:
                self.lost += not written
                lost, last = self.lost, not self._waiting
            if written and last and lost > self._told and self._write(self._gap(lost - self._told)):
                self._told = lost

    def _gap(self, lost: int) -> bytes:
        told = f"{lost} lines are missing here: nobody read the log in time, or its disk was full"
        return self._encoded(logging.LogRecord(log.name, logging.WARNING, __file__, 0, told, None, None))

    def _write(self, line: bytes) -> bool:
        left = b"\n" + line if self._torn else line
        while left:
            try:
                done = os.write(self._fd, left)
            except BlockingIOError:  # whoever shares the file has made it so
                select.select([], [self._fd], [])
                continue
            except OSError:
                return False
            left = left[done:]
            self._torn = bool(left)
        return True


class _Journal(logging.Formatter):
    """`<N>` before each line, N the syslog priority: systemd's way to tell them apart."""

    _PRIORITY = {logging.DEBUG: 7, logging.INFO: 6, logging.WARNING: 4, logging.ERROR: 3}

    def format(self, record: logging.LogRecord) -> str:
        priority = f"<{self._PRIORITY.get(record.levelno, 3)}>"
        return "\n".join(priority + line for line in super().format(record).splitlines())  # a traceback has several


def start_log(level: str, *, terminal: bool) -> LogWriter:
    """One line an entry on stderr. `terminal`: where the conversation is shown; it gets warnings only, as any command's."""
    handler = LogWriter()
    if is_journal():
        handler.setFormatter(_Journal("%(message)s"))
    elif terminal:
        handler.setFormatter(logging.Formatter("voiced: %(message)s"))
    else:
        handler.setFormatter(logging.Formatter("%(asctime)s %(message)s", "%H:%M:%S"))
    log.addHandler(handler)
    set_level(level, terminal=terminal)
    return handler


def set_level(level: str, *, terminal: bool) -> None:
    """See start_log."""
    log.setLevel("WARNING" if terminal and level == "info" else level.upper())
