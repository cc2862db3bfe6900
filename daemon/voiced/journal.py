"""What is for the journal only.

A user gets one line; whoever mends the program gets the traceback, where it is kept: in systemd's journal, or asked for by
VOICED_TRACE=1.
"""

from __future__ import annotations

import os
import sys
import traceback


def is_journal(fd: int = 2) -> bool:
    """Whether what is written there goes to the journal: systemd says which file that is, and a shell may have put another in its place."""
    try:
        there = os.fstat(fd)
    except OSError:
        return False
    return os.environ.get("JOURNAL_STREAM") == f"{there.st_dev}:{there.st_ino}"


def complain(text: str) -> None:
    """Lines on stderr that say why something ends: errors to the journal, which otherwise takes what a program prints for information."""
    before = "<3>" if is_journal() else ""
    sys.stderr.write("".join(f"{before}{line}\n" for line in text.splitlines()))


def trace() -> None:
    """The traceback of the exception that is being handled, on stderr."""
    if is_journal() or os.environ.get("VOICED_TRACE"):
        complain(traceback.format_exc())
