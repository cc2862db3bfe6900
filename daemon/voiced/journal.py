"""What is for the journal only.

A user gets one line; whoever mends the program gets the traceback, where it is kept: in systemd's journal, or asked for by
VOICED_TRACE=1.
"""

from __future__ import annotations

import os
import traceback


def trace() -> None:
    """The traceback of the exception that is being handled, on stderr."""
    if "JOURNAL_STREAM" in os.environ or os.environ.get("VOICED_TRACE"):
        traceback.print_exc()
