"""Whether a lane hears: sound comes, and it is listened to. Never running but deaf.

What lives here: a judgement from what a lane says of itself twice a second. What must not: clocks, processes: times are given, and
whoever asks does what must be done. A device that gives nothing is the capture process's own affair, which says so; here the
processes are watched, one of which may be stopped or stuck.
"""

from __future__ import annotations

from enum import Enum


class Verdict(Enum):
    HEARS = "hears"
    NO_SOUND = "no sound comes"
    NO_EAR = "sound comes, and nobody listens"
    NO_SCRIBE = "what is heard is not taken"


SCRIBE_PATIENCE_S = 10.0
"""Its longest single work, the flush of a turn, takes a fraction of a second; a machine that starves it so long has stopped."""


class Hearing:
    """One lane's. Times are in seconds, of any one clock.

    patience_s   so long without progress is too long
    """

    def __init__(self, patience_s: float) -> None:
        self.patience_s = patience_s
        self._expected = False
        self._beat = 0.0
        self._listened = self._came = (0, 0.0)  # how far, and when that was new: position heard; blocks received
        self._taken = (-1, 0.0)  # the same: facts taken by the scribe, while there are any; no count is -1, so the first beat is news

    def start(self, now: float) -> None:
        """The lane has a source from now on."""
        self._expected, self._beat = True, now
        self._taken = (-1, now)
        self._listened, self._came = (self._listened[0], now), (self._came[0], now)

    def stop(self) -> None:
        """It has none: muted, its device is gone, or its process is."""
        self._expected = False
        self._taken = (-1, self._beat)  # whatever process beats next has time

    def beat(self, now: float, position: int, blocks: int, waiting: int, done: int) -> None:
        """Position heard, blocks received, facts that wait for the scribe, facts that it has taken."""
        self._beat = now
        if done != self._taken[0] or not waiting:
            self._taken = done, now
        if position != self._listened[0]:
            self._listened = position, now
        if blocks != self._came[0]:
            self._came = blocks, now

    def forgive(self, now: float) -> None:
        """Nobody could have heard until now: the machine stood still."""
        self._beat = now
        self._listened, self._came, self._taken = ((count, now) for count, _ in (self._listened, self._came, self._taken))

    @property
    def waited_s(self) -> float:
        """As of the last beat: how long it has not gone on with what it should."""
        return self._beat - min(self._taken[1], self._listened[1] if self._expected else self._beat)

    def judge(self) -> Verdict:
        """As of the last beat: of a lane that does not beat nothing is known."""
        if self._beat - self._taken[1] >= SCRIBE_PATIENCE_S:
            return Verdict.NO_SCRIBE
        if not self._expected or self._beat - self._listened[1] < self.patience_s:
            return Verdict.HEARS
        return Verdict.NO_SOUND if self._beat - self._came[1] >= self.patience_s else Verdict.NO_EAR


OVERLOAD_S = 10.0
"""What was lost for want of time counts for so long: one stutter is seen by whoever looks twice a minute, and is not for ever."""


TOO_SLOW = "it is too slow for what it hears, some of which was lost; give it cores (placement) or a smaller model"


class Overload:
    """Whether a lane loses what it hears because it is too slow for it. Times are in seconds, of any one clock."""

    def __init__(self) -> None:
        self._count = 0.0
        self._until = 0.0
        self.now = False

    def beat(self, now: float, lost: float) -> None:
        """`lost`: what its process has lost so far."""
        if lost > self._count:
            self._until = now + OVERLOAD_S
        self._count = lost  # less than before: another process
        self.now = now < self._until
