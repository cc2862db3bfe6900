"""Nearly: a score that came near its threshold and went away again without a crossing.

What lives here: that rule, so that a missed wake can be asked about. What must not: a decision; nothing is opened or refused by it.
"""

from __future__ import annotations

SHARE = 0.5
"""Of the threshold: talk that is not the phrase seldom gets so far, and a phrase that was said and missed mostly does."""


class Approach:
    """Tells of one phrase's near misses, one at the most in its refractory time. Pure.

    threshold        that a crossing wants
    wait_hops        low scores after which an approach is over; a crossing is told that long after its first high score at the most
    refractory_hops  hops after a crossing or a near miss in which no other is told
    """

    def __init__(self, *, threshold: float, wait_hops: int, refractory_hops: int) -> None:
        self.threshold = threshold
        self.wait_hops = wait_hops
        self.refractory_hops = refractory_hops
        self.reset()

    def reset(self) -> None:
        self._peak = 0.0
        self._low = 0
        self._crossed = False
        self._quiet = 0

    def step(self, score: float, *, crossed: bool) -> float | None:
        """A hop's score, and whether a crossing was told at it. Returns the highest score of an approach that is over."""
        self._quiet = self.refractory_hops if crossed else max(self._quiet - 1, 0)
        self._crossed = self._crossed or crossed
        if score >= SHARE * self.threshold:
            self._peak, self._low = max(self._peak, score), 0
            return None
        self._low += 1
        if self._low < self.wait_hops:
            return None
        missed = self._peak if self._peak and not (self._crossed or self._quiet) else None
        self._peak, self._crossed = 0.0, False
        if missed is not None:
            self._quiet = self.refractory_hops
        return missed
