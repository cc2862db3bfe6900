"""The settings file read anew while the daemon runs.

What lives here: one reload after the other, what is said of it, and the settings in force. What must not: what takes the change
(supervisor.py), processes, the bus, systemd (both are told by news).

A bad file, or one that asks for a phrase that cannot be listened for, changes nothing: the settings in force stay whole.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from .changes import adopt
from .desk import Reloaded, Reloading
from .errors import ConfigError, VoicedError
from .settings import Settings, roles

log = logging.getLogger("voiced")


class Reloader:
    """Runs in main's loop.

    settings  in force from the start
    read      reads the file, in another thread; ConfigError holds every mistake
    take      lets everything that runs take them (before, after); raises VoicedError where it cannot, and then has changed nothing
    tell      called when a reload begins, and with how it went
    """

    def __init__(
        self,
        settings: Settings,
        read: Callable[[], Settings],
        take: Callable[[Settings, Settings], Awaitable[None]],
        tell: Callable[[Reloading | Reloaded], None],
    ) -> None:
        self.settings = settings
        self.last = Reloaded()
        self._read, self._take, self._tell = read, take, tell
        self._lock = asyncio.Lock()
        self._next: asyncio.Future[tuple[str, ...]] | None = None

    async def ask(self) -> tuple[str, ...]:
        """Reads the file and takes it. Returns the keys that changed in it and wait for the next start.

        Raises ConfigError with a line for each mistake, and then nothing has changed. Whoever asks while a reload goes on shares the
        next one: it reads the file after all of them have asked, and a thousand of them cost two.
        """
        if self._next is None:
            self._next = asyncio.ensure_future(self._one())
            self._next.add_done_callback(lambda done: done.cancelled() or done.exception())  # SIGHUP has nobody who waits
        return await asyncio.shield(self._next)

    async def _one(self) -> tuple[str, ...]:
        async with self._lock:
            self._next = None
            self._tell(Reloading())
            try:
                live = await self._reload()
                log.info("settings read anew: %s", ", ".join(live) or "nothing has changed that takes effect at once")
                if self.last.restart:
                    log.warning("takes effect at the next start: %s", ", ".join(self.last.restart))
                return self.last.restart
            except VoicedError as error:
                self.last = Reloaded(error.lines if isinstance(error, ConfigError) else (str(error),), self.last.restart)
                for line in self.last.mistakes:
                    log.error("%s", line)
                log.error("the settings stay as they were")
                raise ConfigError("", "", lines=self.last.mistakes) from None
            finally:
                self._tell(self.last)

    async def _reload(self) -> tuple[str, ...]:
        wanted = await asyncio.to_thread(self._read)
        held, changes = adopt(self.settings, wanted)
        if changes.live:
            await self._take(self.settings, held)
        self.settings, self.last = held, Reloaded((), changes.restart)
        return changes.live


def spotted(settings: Settings) -> object:
    """What the wake stages are made of: other thresholds load nothing that has to be tried first."""
    return [phrase.name for phrase in settings.wake.phrases], {role: model for role, model in roles(settings).items() if "wake" in role}
