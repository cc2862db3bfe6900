"""What the outside may see and ask: the one face of the running daemon, for D-Bus and for tests.

What lives here: frozen records and one protocol. The supervisor is behind it; the bus, the terminal and any later door
stand before it and know nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from .events import Event
from .receipts import Receipt


@dataclass(frozen=True, slots=True)
class LaneView:
    """A lane as it is now. `state`: a turn.State's value. `health`, the worst first: restarting, starting, stalled, no_device,
    clock_mismatch (the device gives another rate than it says), overloaded (it loses sound for want of time), digital_silence (nothing but
    zeros comes), muted, ok."""

    name: str
    state: str
    health: str
    muted: bool
    phrases: tuple[str, ...]
    source: str
    turn: int = 0
    """The open turn, 0 where there is none."""
    reason: str = ""
    """Why its health is what it is, one line; empty where there is nothing to say."""
    why: str = ""
    """Why its state is what it is, in words that can be spoken."""
    playing: bool = False
    """A client plays sound itself; no phrase wakes."""


@dataclass(frozen=True, slots=True)
class PlacementRow:
    """A thread's role, its kernel thread id, the cores that were wanted (empty: any) and the cores that are, read back."""

    role: str
    process: str
    pid: int
    tid: int
    wanted: tuple[int, ...]
    actual: tuple[int, ...]

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> PlacementRow:
        """From the dict that `dataclasses.asdict` made, after JSON turned its tuples into lists."""
        return cls(**{**plain, "wanted": tuple(plain["wanted"]), "actual": tuple(plain["actual"])})


@dataclass(frozen=True, slots=True)
class Reloading:
    """The settings file is being read anew."""


@dataclass(frozen=True, slots=True)
class Reloaded:
    """How the last reload went: `mistakes` say why the settings stayed as they were, a line each; `restart` are the keys that have
    changed in the file and take effect at the next start."""

    mistakes: tuple[str, ...] = ()
    restart: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The whole daemon as it is now; `health` is the worst lane's, or `starting` before all are warm."""

    version: str
    health: str
    muted: bool
    lanes: tuple[LaneView, ...]
    placement: tuple[PlacementRow, ...] = ()
    models: Mapping[str, str] = field(default_factory=dict)
    """Role to model id."""
    statistics: Mapping[str, float] = field(default_factory=dict)
    reloaded: Reloaded = Reloaded()


@dataclass(frozen=True, slots=True)
class Published:
    """An event on its way out. `sequence` counts from 1 for each lane and never skips."""

    lane: str
    sequence: int
    event: Event
    monotonic_us: int
    realtime_us: int


@dataclass(frozen=True, slots=True)
class LevelHeard:
    """How loud a lane's sound is up to `sample`, in dB below full scale. Told while somebody asked for it (Desk.levels)."""

    lane: str
    sample: int
    rms_dbfs: float
    peak_dbfs: float
    monotonic_us: int = 0
    turn: int = 0


@dataclass(frozen=True, slots=True)
class LaneChanged:
    """Something in a LaneView changed: the new one, whole."""

    lane: LaneView


@dataclass(frozen=True, slots=True)
class HealthChanged:
    """Something of the daemon itself changed (health, muted)."""

    snapshot: Snapshot


News = Published | LaneChanged | HealthChanged | LevelHeard | Reloading | Reloaded


class Desk(Protocol):
    """All calls are made in main's event loop. A lane that does not exist raises KeyError(lane); a call that cannot be
    done now raises errors.VoicedError with one clear line."""

    def snapshot(self) -> Snapshot: ...

    def listen(self, callback: Callable[[News], None]) -> None:
        """`callback` is called in the loop for each piece of news, in order; it must not block or raise."""

    async def trigger(self, lane: str, options: Mapping[str, Any]) -> int:
        """Opens a turn without a phrase; returns its id (the open turn's where one is open)."""

    async def stop(self, lane: str) -> None:
        """The speaker has finished: the open turn gives its final. Nothing where no turn is open."""

    async def cancel(self, lane: str, turn: int = 0) -> None:
        """Throws the open turn away; with `turn` only where it is that one."""

    async def follow_up(self, lane: str) -> int:
        """Opens a turn without a phrase as soon as nothing is played and its echo is over; the turn's id, 0 where that is later."""

    async def withdraw(self, lane: str) -> None:
        """A follow-up that waits is wanted no more."""

    async def playback(self, lane: str, active: bool) -> None:
        """A client plays sound itself that this lane may hear, from now on or no more."""

    def levels(self, wanted: bool) -> None:
        """Whether LevelHeard is to be told."""

    async def mute(self, lane: str | None, muted: bool) -> None:
        """Mutes one lane, or all of them: its capture process ends."""

    async def reload(self) -> tuple[str, ...]:
        """Reads the settings file anew. The keys that changed and take effect at the next start; ConfigError: nothing has changed."""

    def explain(self, lane: str | None, limit: int) -> list[Published]:
        """The newest wakes, refused ones and near misses of a lane (None: of all), oldest first, `limit` at the most (0: all kept)."""

    def turn(self, turn: int) -> Receipt:
        """KeyError(turn) where that turn is not over yet, is kept no more, or never was."""

    def turns(self, lane: str | None, limit: int) -> list[Receipt]:
        """The newest turns that are over, of a lane (None: of all), oldest first, `limit` at the most (0: all kept)."""

    def latencies(self, lane: str | None) -> list[dict[str, Any]]:
        """Percentiles of a lane's turns (None: of all), a row for each latency and turn length (turnbook.TurnBook.latencies)."""
