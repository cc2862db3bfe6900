"""What the main process knows of a lane.

What lives here: its state, how that looks from outside, and what it is asked and answers. What must not: what is done about it
(supervisor.py).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from .children import START_SECONDS, Backoff, Child
from .desk import LaneView, PlacementRow
from .errors import DeviceError, InternalError
from .hearing import TOO_SLOW, Hearing, Overload, Verdict
from .ledger import Ledger
from .settings import LaneSettings
from .turnids import LANE_SLOTS
from .units import RATE

TRIGGER_SECONDS = 2.0

HUNG_SECONDS = 10.0
"""A lane beats every half second from a thread that does nothing else: silent for so long it is stuck, unless it starves. One that is
stopped is seen sooner (liveness.py)."""

LATE_SECONDS = 2.0
"""Without its next sign for so long, a lane is looked at more closely: whether it starves."""

RECOVERY_SECONDS = 150.0
"""A pause between two tries, a process that loads for a minute, a device that takes as long to open: what is not back by then is lost."""

ABSENT = ("no_device", "stalled", "clock_mismatch")
"""Healths of a source that say: its capture process knows that there is no sound, and opens the device again and again."""

HEARING = ("ok", "overloaded", "digital_silence")
"""Healths of a lane that hears."""


OWN_SOURCES = ("file:", "loop:", "tcp:", "unix:")
"""Beginnings of sources that a lane opens by itself; the others are sound devices."""


class Feed(Protocol):
    """What lanes hear that hear one file after the other."""

    def next(self, lane: str) -> str:
        """A lane's next source; "" where nothing is left."""

    def opened(self, lane: str, form: str, position: int) -> None:
        """The lane has opened its source, a file of this form, and hears it from this position on; once more, where it was begun again."""


@dataclass(slots=True)
class LaneState:
    """Runs in main's loop, which changes it. `child` and `ready`: its process, once it is warm; `told`: the view that listeners have."""

    settings: LaneSettings
    ledger: Ledger
    hearing: Hearing
    child: Child | None = None
    backoff: Backoff = field(default_factory=lambda: Backoff(0.2, 5.0))
    ready: bool = False
    muted: bool = False
    source_health: str = "starting"
    reason: str = ""  # why its source is not there
    silence: str = ""  # its device gives nothing but zeros: what may be the cause
    overload: Overload = field(default_factory=Overload)
    state: str = "asleep"
    why: str = "started"  # its state is what it is, in words that can be spoken
    sequence: int = 0
    position: int = 0
    position_at: float = field(default_factory=time.monotonic)
    advanced_at: float = field(default_factory=time.monotonic)  # it heard something new
    lost_at: float = field(default_factory=time.monotonic)  # its sound or its process was last missing from then on
    rows: tuple[PlacementRow, ...] = ()
    triggered: dict[int, asyncio.Future[int]] = field(default_factory=dict)
    ended: bool = False
    playing: bool = False  # a client plays sound itself
    levels: bool = False  # somebody wants to know how loud it is
    told: LaneView | None = None
    phrases: tuple[str, ...] = ()
    revision: int = 0  # of the settings that its process was given last
    adopting: asyncio.Future[None] | None = None  # until it has taken them

    @property
    def turn(self) -> int:
        return self.ledger.turn

    @property
    def health(self) -> str:
        if not self.ready:
            return "restarting" if self.sequence or self.told else "starting"
        if self.muted or self.source_health != "ok":
            return "muted" if self.muted else self.source_health
        return "overloaded" if self.overload.now else "digital_silence" if self.silence else "ok"

    def job(self, now_ns: int) -> dict[str, Any]:
        """What its next process begins with, beside the settings; `now_ns` of CLOCK_MONOTONIC. What is lost of the sound is counted."""
        position = self.position + round((now_ns / 1e9 - self.position_at) * RATE) if self.position else 0
        begins = {"position": position, "position_ns": now_ns if position else 0}
        return {"lane": self.settings.name, "first_turn": self.ledger.next_turn, "turn_step": LANE_SLOTS} | begins

    def beat(self, position: int, now: float) -> None:
        """Its process says how far it has heard; `now` in seconds of CLOCK_MONOTONIC."""
        if position != self.position:
            self.advanced_at = now
        self.position, self.position_at = position, now

    def hears(self, now: float) -> None:
        """The first sound of its source has come."""
        self.source_health, self.reason, self.advanced_at = "ok", "", now

    def lost(self, now: float) -> None:
        """Its process has ended: what it waits for is another, and then sound; how long it has waited already is kept."""
        if self.source_health != "starting":
            self.lost_at = now
        self.child, self.ready, self.rows, self.source_health = None, False, (), "starting"

    def forgive(self, now: float) -> None:
        """It could not be heard until now; `now` in seconds of CLOCK_MONOTONIC."""
        self.hearing.forgive(now)
        self.advanced_at = now

    def stuck(self, now: float) -> str:
        """Why its process must be begun again, "" where it works; `now` in seconds of CLOCK_MONOTONIC. While it starves its time stands
        still."""
        if self.child is None:
            return ""
        silent = now - self.child.heard
        if self.ready and max(silent, self.hearing.waited_s) > LATE_SECONDS and self.child.starved:
            self.child.forgive(now)
            self.hearing.forgive(now)
            return ""
        if silent > (HUNG_SECONDS if self.ready else START_SECONDS):
            return f"it has not answered for {silent:.0f} s"
        verdict = self.hearing.judge() if self.ready else Verdict.HEARS
        return verdict.value if verdict in (Verdict.NO_EAR, Verdict.NO_SCRIBE) else ""

    def deaf(self, now: float) -> str:
        """Why nobody should believe that it hears, "" where it does or is not expected to: it is muted, its device is known to be away,
        or it is being begun again."""
        if self.muted or self.ended or (self.ready and self.source_health in ABSENT):
            return ""
        if not self.ready or self.source_health == "starting":
            waited = now - self.lost_at
            return "" if waited < RECOVERY_SECONDS else f"it has been without sound for {waited:.0f} s"
        silent = now - self.advanced_at
        if silent >= self.hearing.patience_s:
            return f"nothing was heard for {silent:.0f} s"
        verdict = self.hearing.judge()
        return "" if verdict is Verdict.HEARS else verdict.value

    def view(self) -> LaneView:
        """As the outside sees it."""
        health = self.health
        reason = {"overloaded": TOO_SLOW, "digital_silence": self.silence}.get(health, self.reason)
        name, source = self.settings.name, self.settings.source
        return LaneView(name, self.state, health, self.muted, self.phrases, source, self.turn, reason, self.why, self.playing)

    def send(self, body: dict[str, Any]) -> bool:
        """To its process; False where it has none, or one that does not read."""
        return self.child is not None and self.child.send(body)

    def enters(self, state: str) -> None:
        """Its process says so, between the events that say more."""
        self.state, self.why = state, {"hearing": "speech", "trailing": "silence after speech"}.get(state, self.why)

    def play(self, *, active: bool) -> None:
        """A client plays sound itself, or no more: its process knows, and so will a later one."""
        self.playing = active
        self.send({"playback": active})

    def tell_levels(self, *, wanted: bool) -> None:
        self.levels = wanted
        self.send({"levels": wanted})

    def begun(self) -> None:
        """Its process is warm, and has yet to hear of what is not in its settings."""
        self.ready, self.reason = True, ""
        if self.playing:
            self.send({"playback": True})
        if self.levels:
            self.send({"levels": True})

    async def trigger(self, token: int, command: str = "trigger") -> int:
        """Has its process open a turn; the id, 0 where a follow-up waits for the end of what is played. DeviceError: it hears nothing;
        InternalError: it does not do it."""
        where = f"lane {self.settings.name}"
        if self.health not in HEARING or self.child is None:
            raise DeviceError(where, f"it has no sound now ({self.health})", "see `voicectl status`")
        waiting = self.triggered[token] = asyncio.get_running_loop().create_future()
        self.child.send({"command": command, "token": token})
        try:
            return await asyncio.wait_for(waiting, TRIGGER_SECONDS)
        except TimeoutError:
            if self.child:
                self.child.send({"command": "withdraw"})
            raise InternalError(where, f"it did not open a turn within {TRIGGER_SECONDS:.0f} s") from None
        finally:
            self.triggered.pop(token, None)

    def adopt(self, settings: Mapping[str, Any], revision: int, phrases: tuple[str, ...]) -> asyncio.Future[None]:
        """Gives its process settings in their plain form; done when it has taken them or has ended."""
        self.taken()  # older ones do not matter any more
        taking = self.adopting = asyncio.get_running_loop().create_future()
        self.revision, self.phrases = revision, phrases
        if self.child and not self.child.send({"settings": settings, "revision": revision}):
            self.child.kill()  # it does not read: its successor begins with them
        return taking

    def taken(self) -> None:
        """Its process has the newest settings, or is gone and gets them with its successor."""
        if self.adopting and not self.adopting.done():
            self.adopting.set_result(None)
        self.adopting = None
