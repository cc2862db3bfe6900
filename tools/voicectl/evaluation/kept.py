"""What was computed once, on disk: one JSON file an answer.

What lives here: how it gets there whole. What must not: what an answer is about, which is in its file's name.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

from voiced.api import OutputError, reason_of


def keep(path: Path, plain: object) -> None:
    """A reader never sees half of it. Raises OutputError where it cannot be written."""
    part = path.with_name(f"{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        part.write_text(json.dumps(plain, ensure_ascii=False), encoding="utf-8")
        part.replace(path)
    except OSError as error:
        raise OutputError(str(path.parent), f"cannot be written: {reason_of(error)}", "make room, or name another folder") from None
