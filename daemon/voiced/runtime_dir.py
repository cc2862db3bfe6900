"""A directory for what lives as long as the process: systemd's where it gave one, else a new one that goes away again."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def runtime_directory() -> Iterator[Path]:
    given = os.environ.get("RUNTIME_DIRECTORY", "").split(":")[0]
    if given:
        yield Path(given)
        return
    with tempfile.TemporaryDirectory(prefix="voiced-") as made:
        yield Path(made)
