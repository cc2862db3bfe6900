"""What the service manager is told, and when: time for loading, ready, how it stands, reloads, the watchdog.

What lives here: deciding. What must not: how it is sent (systemd.py), what deaf means (lanestate.py). The watchdog is fed from the
main process's own loop, and only while every lane that should hear does: a deaf daemon is restarted; one that is muted, has no device
or stands in a silent room is not, nor one whose lane is being begun again.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable

from .desk import HealthChanged, LaneChanged, LaneView, News, Reloaded, Reloading
from .systemd import Notifier

log = logging.getLogger("voiced")

LOADING_S = 15.0
"""Asked for again and again while models load; a process that says nothing for a minute is given up by the supervisor."""

FEEDS = 4
"""In the manager's patience: one or two may fail (a lane that is about to be begun again) before it takes us for dead."""

_SAYS = {
    "ok": "listening",
    "starting": "opening the microphone",
    "no_device": "waiting for microphone",
    "stalled": "waiting for a microphone that gives no sound",
    "clock_mismatch": "waiting for a microphone that keeps its rate",
    "digital_silence": "listening to a microphone that gives only zeros",
    "overloaded": "listening, more than this machine can",
    "muted": "muted",
    "restarting": "beginning a lane again",
}


def standing(lanes: Iterable[LaneView]) -> str:
    """How it stands, for a person who asks `systemctl status`: one word for all lanes, or each by its name."""
    said = {view.name: _SAYS.get(view.health, f"listening ({view.health})") for view in lanes}
    if len(set(said.values())) == 1:
        return next(iter(said.values()))
    return ", ".join(f"{name}: {what}" for name, what in said.items())


class Lifeline:
    """Runs in main's loop. `news` is for desk.Desk.listen; `run` until cancelled.

    lanes   as they are now
    deaf    what should hear and does not, at a time of CLOCK_MONOTONIC: one line each
    """

    def __init__(self, notifier: Notifier, lanes: Callable[[], Iterable[LaneView]], deaf: Callable[[float], list[str]]) -> None:
        self._notifier, self._lanes, self._deaf = notifier, lanes, deaf
        self._ready = asyncio.Event()
        self._told = ""

    @property
    def listened_to(self) -> bool:
        """There is a service manager."""
        return self._notifier.listened_to

    async def run(self) -> None:
        while not self._ready.is_set():
            self._notifier.extend_timeout(round(LOADING_S * 1e6))
            try:
                await asyncio.wait_for(self._ready.wait(), LOADING_S / 3)
            except TimeoutError:
                continue
        while self._notifier.watchdog_s:
            self.feed(time.monotonic())
            await asyncio.sleep(self._notifier.watchdog_s / FEEDS)

    def feed(self, now: float) -> None:
        if deaf := self._deaf(now):
            log.error("the watchdog is not fed: %s", "; ".join(deaf))
        else:
            self._notifier.watchdog()

    def ready(self) -> None:
        """All is warm; a microphone may still be waited for."""
        self._told = standing(self._lanes())
        self._notifier.ready(self._told)
        self._ready.set()

    def waiting(self, what: str) -> None:
        """Before all is ready."""
        self._notifier.status(what)

    def stopping(self) -> None:
        self._ready.clear()
        self._notifier.stopping("finishing open turns")

    def news(self, item: News) -> None:
        match item:
            case Reloading():
                self._notifier.reloading()
            case Reloaded(mistakes=mistakes, restart=restart):
                self._told = standing(self._lanes())
                waits = f"; takes effect at the next start: {', '.join(restart)}" if restart else ""
                self._notifier.ready(f"{self._told}; the settings stay as they were: {mistakes[0]}" if mistakes else f"{self._told}{waits}")
            case LaneChanged() | HealthChanged() if self._ready.is_set():
                if (now := standing(self._lanes())) != self._told:
                    self._told = now
                    self._notifier.status(now)
