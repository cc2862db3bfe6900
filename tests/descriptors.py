"""What a test has open, told from what the rest of its process has: a thread that an earlier test left behind opens and closes others."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path


def opened(*kinds: str) -> set[str]:
    """Every descriptor of this process that is of one of these kinds ("socket:", "/memfd:"): its number and what it is, for the number of
    one that was closed is given to another."""
    found = set()
    for fd in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):
            found.add(f"{fd.name} {fd.readlink()}")
    return {each for each in found if any(kind in each for kind in kinds)}
