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


class Hearing:
    """One lane's. Times are in seconds, of any one clock.

    patience_s   so long without progress is too long
    """

    def __init__(self, patience_s: float) -> None:
        self._patience_s = patience_s
        self._expected = False
        self._beat = 0.0
        self._listened = self._came = (0, 0.0)  # how far, and when that was new: position heard; blocks received

    def start(self, now: float) -> None:
        """The lane has a source from now on."""
        self._expected, self._beat = True, now
        self._listened, self._came = (self._listened[0], now), (self._came[0], now)

    def stop(self) -> None:
        """It has none: muted, or its device is gone."""
        self._expected = False

    def beat(self, now: float, position: int, blocks: int) -> None:
        self._beat = now
        if position != self._listened[0]:
            self._listened = position, now
        if blocks != self._came[0]:
            self._came = blocks, now

    def judge(self) -> Verdict:
        """As of the last beat: of a lane that does not beat nothing is known."""
        if not self._expected or self._beat - self._listened[1] < self._patience_s:
            return Verdict.HEARS
        return Verdict.NO_SOUND if self._beat - self._came[1] >= self._patience_s else Verdict.NO_EAR
