"""Libraries that some commands want and voiced does not: the extras `eval` and `align` of setup.cfg.

What lives here: what is said where one is missing. What must not: what is done with one.
"""

from __future__ import annotations

import importlib.util
import os
import shlex
import sys
from contextlib import suppress
from pathlib import Path

from voiced.api import UsageError

EXTRAS = {"jiwer": "jiwer>=3,<5", "matplotlib": "matplotlib>=3.8,<4", "pocketsphinx": "pocketsphinx>=5.1,<6"}
"""As pip takes them."""


def need(library: str, who: str, why: str, otherwise: str = "") -> None:
    """Raises UsageError, `who: why LIBRARY, …`, where it is not installed; its advice is a command, `otherwise` what else will do."""
    if importlib.util.find_spec(library) is None:
        raise UsageError(who, f"{why} {library}, which is not installed", f"{install(library)}{otherwise and f', or {otherwise}'}")


def install(library: str) -> str:
    """The command that brings it to the environment that runs this one."""
    python = Path(sys.executable)
    with suppress(ValueError, OSError):
        python = python.relative_to(Path.cwd())
    return f"{'' if os.access(sys.prefix, os.W_OK) else 'sudo '}{shlex.quote(str(python))} -m pip install {shlex.quote(EXTRAS[library])}"
