"""The start: who must be ready before the daemon is, and what is told when one cannot be.

What lives here: waiting, and one error made of several. What must not: processes. Starting is atomic: all are ready or the daemon
does not start, and then it names every mistake at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from .errors import ConfigError, VoicedError


class WarmUp:
    """Runs in main's loop; made before the loop is."""

    def __init__(self, names: Iterable[str]) -> None:
        self._waiting = set(names)
        self._failures: dict[str, VoicedError] = {}
        self._settled = asyncio.Event()
        self.over = False
        """All were ready once: from then on a failure costs its process alone."""

    def ready(self, name: str) -> None:
        self._waiting.discard(name)
        self._settle()

    def failed(self, name: str, error: VoicedError) -> None:
        """The first error of a name counts: what follows from it (its process ends) says less."""
        self._waiting.discard(name)
        self._failures.setdefault(name, error)
        self._settle()

    def _settle(self) -> None:
        if not self._waiting:
            self._settled.set()

    async def wait(self) -> None:
        """Until each has said how it stands. Raises the one error, or a ConfigError with a line for each that is different."""
        await self._settled.wait()
        lines = tuple(dict.fromkeys(str(error) for error in self._failures.values()))
        if not lines:
            self.over = True
            return
        first = next(iter(self._failures.values()))
        if len(lines) == 1:
            raise first
        several = ConfigError("", "", lines=lines)
        if len({error.exit_code for error in self._failures.values()}) == 1:
            several.exit_code = first.exit_code
        raise several
