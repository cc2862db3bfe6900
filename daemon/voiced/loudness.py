"""How loud a lane's sound is, some times a second, for who draws it.

What lives here: root mean square and peak of whole stretches of sound. What must not: a decision; the gate has its own measure.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from .audio import Samples
from .units import to_samples

STRETCH_MS = 200
"""What an eye follows; each costs a signal to every subscriber."""

FLOOR_DBFS = -100.0
"""Told of anything softer, digital silence too: a full bit is -90."""


@dataclass(frozen=True, slots=True)
class Level:
    """Of one stretch, in dB below full scale, FLOOR_DBFS … 0."""

    rms_dbfs: float
    peak_dbfs: float


class Loudness:
    """One thread."""

    def __init__(self) -> None:
        self._stretch = to_samples(STRETCH_MS)
        self.reset()

    def reset(self) -> None:
        self._count = 0
        self._energy = 0.0
        self._peak = 0

    def step(self, samples: Samples) -> Level | None:
        """Takes int16 of shape (n,); gives the level once a stretch is full, of whole blocks."""
        wide = samples.astype(np.int32)
        self._count += len(wide)
        self._energy += float(np.dot(wide.astype(np.float64), wide))
        self._peak = max(self._peak, int(np.abs(wide).max(initial=0)))
        if self._count < self._stretch:
            return None
        level = Level(_dbfs(math.sqrt(self._energy / self._count)), _dbfs(self._peak))
        self.reset()
        return level


def _dbfs(amplitude: float) -> float:
    return max(FLOOR_DBFS, round(20 * math.log10(amplitude / 32768), 1)) if amplitude else FLOOR_DBFS
