"""What the main process knows of a lane.

What lives here: its state, and how that looks from outside. What must not: what is done about it (supervisor.py).
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field

from .children import Backoff, Child
from .desk import LaneView, PlacementRow
from .hearing import Hearing
from .ledger import Ledger
from .settings import LaneSettings


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
    state: str = "asleep"
    sequence: int = 0
    position: int = 0
    position_at: float = field(default_factory=time.monotonic)
    rows: tuple[PlacementRow, ...] = ()
    triggered: dict[int, asyncio.Future[int]] = field(default_factory=dict)
    ended: bool = False
    told: LaneView | None = None

    @property
    def turn(self) -> int:
        return self.ledger.turn

    @property
    def health(self) -> str:
        if not self.ready:
            return "restarting" if self.sequence or self.told else "starting"
        return "muted" if self.muted else self.source_health

    def view(self, phrases: tuple[str, ...]) -> LaneView:
        """As the outside sees it."""
        return LaneView(self.settings.name, self.state, self.health, self.muted, phrases, self.settings.source, self.turn, self.reason)
