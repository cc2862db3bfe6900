"""What is kept of turns that are over, in memory alone: the receipts of the newest, and the latencies of many.

What lives here: bounds, and percentiles by latency and turn length. What must not: what a receipt says (receipts.py), a clock, a process.
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict, deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from .events import Event, NearMiss, TurnClosed, WakeRefused
from .receipts import Receipt, Rewriting, Stamps, receipt
from .statistics import KEPT, PERCENTILES, percentile

OPEN_LIMIT = 64
"""Turns that are followed at once. A lane has one that is open and a few whose final is pending; one whose end was lost goes at last."""

LENGTHS_S = (2, 5, 10)
"""Percentiles are told for turns up to each length, for longer ones, and for all."""


@dataclass(slots=True)
class _Turn:
    lane: str
    told: list[tuple[Event, Stamps]] = field(default_factory=list)
    rewritings: list[Rewriting] = field(default_factory=list)


def length(found: Receipt) -> str:
    """Which turns it is reckoned among: `to 2 s`, …, `longer`."""
    return next((f"to {limit} s" for limit in LENGTHS_S if found.length_ms <= 1000 * limit), "longer")


class TurnBook:
    """What is kept of turns, in memory alone. Runs in main's loop.

    A turn has some tens of events, and its hard cap of 30 s bounds them; so the receipts of 50 turns are below a megabyte. Of each latency
    and turn length the last thousand values are kept beside, which hold no words.
    """

    def __init__(self) -> None:
        self._open: OrderedDict[int, _Turn] = OrderedDict()
        self._over: OrderedDict[int, _Turn] = OrderedDict()  # made into a receipt when it is asked for: an answer may still come late
        self._values: defaultdict[tuple[str, str, str], deque[float]] = defaultdict(lambda: deque(maxlen=KEPT))  # lane, latency, length

    def follow(self, lane: str, event: Event, stamps: Stamps, keep: int) -> None:
        """An event as it is told; `keep` receipts stay, of all lanes together."""
        if isinstance(event, WakeRefused | NearMiss):
            return
        turn = self._open.setdefault(event.turn, _Turn(lane))
        turn.told.append((event, stamps))
        if isinstance(event, TurnClosed):
            self._over[event.turn] = self._open.pop(event.turn)
            found = self.get(event.turn)
            for name, values in found.latencies.items():
                self._values[lane, name, length(found)].extend(values)
        while len(self._open) > OPEN_LIMIT:
            self._open.popitem(last=False)
        self.keep(keep)

    def keep(self, receipts: int) -> None:
        """So many stay: whoever wants none has what was said before gone at once, not with the next turn."""
        while len(self._over) > receipts:
            self._over.popitem(last=False)

    def rewriting(self, step: Rewriting) -> None:
        """A step of the second pass, of a turn that is open or kept; of any other nobody will ask."""
        turn = self._open.get(step.turn) or self._over.get(step.turn)
        if turn:
            turn.rewritings.append(step)

    def get(self, turn: int) -> Receipt:
        """KeyError(turn): it is not over yet, is kept no more, or never was."""
        kept = self._over[turn]
        return receipt(kept.lane, kept.told, kept.rewritings)

    def newest(self, lane: str | None, limit: int) -> list[Receipt]:
        """Of a lane (None: of all), in the order the turns ended, `limit` at the most (0: all kept)."""
        turns = [turn for turn, kept in self._over.items() if lane in (None, kept.lane)]
        return [self.get(turn) for turn in (turns[-limit:] if limit else turns)]

    def latencies(self, lane: str | None) -> list[dict[str, Any]]:
        """A row for each latency and turn length that has values, `all` lengths last: its name, `length`, `count`, `p50`, … in ms."""
        pooled: defaultdict[tuple[str, str], list[float]] = defaultdict(list)
        for (of, name, lengths), values in self._values.items():
            if lane in (None, of):
                pooled[name, lengths] += values
                pooled[name, "all"] += values
        return [{"latency": name, "length": lengths, **summary(values)} for (name, lengths), values in sorted(pooled.items(), key=_order)]


def summary(values: Sequence[float]) -> dict[str, float]:
    """Their count and percentiles; ValueError where there is none."""
    ordered = sorted(values)
    return {"count": len(ordered), **{f"p{percent}": percentile(ordered, percent) for percent in PERCENTILES}}


_NAMES = (
    *(f"partial.{name}_ms" for name in ("algorithmic", "computational", "emission_delay", "time_to_first_token")),
    *(f"final.{name}_ms" for name in ("algorithmic", "computational", "finalization")),
)
_LENGTHS = (*(f"to {limit} s" for limit in LENGTHS_S), "longer", "all")


def _order(row: tuple[tuple[str, str], list[float]]) -> tuple[int, int]:
    (name, lengths), _ = row
    return _NAMES.index(name), _LENGTHS.index(lengths)
