"""Until when a lane waits for the second pass.

What lives here: by turn, the newest order, and the time at which its answer is late. What must not: clocks, queues, the answer
itself. An answer that has come is never late, however long it then waits for the lane's scribe. The scribe's thread alone calls all but
`answer`, which another may.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from .events import Rewrite


@dataclass(slots=True)
class _Asked:
    order: Rewrite
    until_s: float
    answered: bool = False


class Deadlines:
    """Times are of one clock, in seconds. At most one entry a turn that is open or pending."""

    def __init__(self) -> None:
        self._asked: dict[int, _Asked] = {}

    def ask(self, order: Rewrite) -> None:
        """It is sent; nobody waits for an older one of its turn. Where the turn has ended, its time stays."""
        before = self._asked.get(order.turn)
        self._asked[order.turn] = _Asked(order, before.until_s if before else math.inf)

    def end(self, turn: int, until_s: float) -> None:
        """The turn has ended and is waited for until then. A rewrite that began before its end has no less time."""
        if one := self._asked.get(turn):
            one.until_s = until_s

    def answer(self, turn: int, attempt: int) -> None:
        """The second pass's answer is here, and will be taken."""
        one = self._asked.get(turn)
        if one and one.order.attempt == attempt:
            one.answered = True

    def close(self, turn: int) -> None:
        self._asked.pop(turn, None)

    def patience(self, now_s: float) -> float | None:
        """Seconds until the next is late; None where nothing is waited for."""
        times = [one.until_s for one in self._asked.values() if one.until_s < math.inf and not one.answered]
        return max(0.0, min(times) - now_s) if times else None

    def late(self, now_s: float) -> Rewrite | None:
        """An order whose answer is late, each once; the longest late first."""
        found = [one for one in self._asked.values() if one.until_s <= now_s and not one.answered]
        if not found:
            return None
        first = min(found, key=lambda one: one.until_s)
        first.until_s = math.inf
        return first.order
