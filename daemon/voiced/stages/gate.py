"""Is the room quiet? Then nothing else runs.

What lives here: the cheapest test that may say so. What must not: any model. The gate must never cost a wake: it is open
wherever a phrase could be, and a gate that stays open costs only time.

A hop's power is taken in twelve bands between 100 Hz and 4 kHz, where speech is, and compared with the floor of each band:
the power that this band falls below in about one hop of eleven. One formant above its band's floor opens the gate, so that
speech at 0 dB of a steady noise does. The floor follows down quickly and up slowly: a fan that adds 20 dB keeps the gate
open for 20 s, a sentence hardly lifts it. In steady noise the narrowest band (12 bins, chi-square of 24 degrees) exceeds its
mean by 3.9 dB once in 10,000 hops, and its floor lies 1.5 dB under the mean: that is what the margin has to cover. On real
phrases 12 dB of margin closed no hop that stage 1 scores high, down to 5 dB below a noise; 8 leaves room on both sides.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..audio import Samples
from ..units import RATE, to_samples
from . import check_hop

_EDGES_HZ = (100, 250, 400, 550, 700, 900, 1150, 1400, 1750, 2150, 2600, 3200, 4000)
_RISE_DB_S, _FALL_DB_S = 1.0, 10.0  # their ratio makes the floor the 1/11 quantile
_AT_MOST_ABOVE = 4.0
"""Times (6 dB) that a floor may stand above the power itself, when a noise has just stopped."""


@dataclass(frozen=True, slots=True)
class GateStatistics:
    hops: int
    open_hops: int
    openings: int


class Gate:
    """Open (True) or closed, for every hop. One thread owns it.

    margin_db    how far a band must stand above its floor
    floor_dbfs   a hop below this level, steady sound left out, holds no speech that a head could know
    hold_ms      how long it stays open after the last hop that opened it; also how long it is open after birth, to learn
    """

    hop = 1280

    def __init__(self, *, margin_db: float = 8.0, floor_dbfs: float = -80.0, hold_ms: float = 2000.0) -> None:
        self._margin = np.float32(10 ** (margin_db / 10))
        self._hold = -(-to_samples(hold_ms) // self.hop)
        hop_s = self.hop / RATE
        self._rise = np.float32(10 ** (_RISE_DB_S * hop_s / 10))
        self._fall = np.float32(10 ** (-_FALL_DB_S * hop_s / 10))
        edges = np.array(_EDGES_HZ) * self.hop // RATE
        self._bins = slice(edges[0], edges[-1])
        self._starts = edges[:-1] - edges[0]
        # Parseval: the mean square of a real block is twice the sum of its bins' squares over its length squared
        self._scale = np.float32(2 / (self.hop * 32768.0) ** 2)
        self._least = np.float32(10 ** (floor_dbfs / 10))
        self._hops = self._open_hops = self._openings = 0
        self.reset()

    def reset(self) -> None:
        self._floor: NDArray[np.float32] | None = None
        self._left = self._hold

    def warm_up(self) -> None:
        """Nothing to warm: no model."""

    def step(self, samples: Samples) -> bool:
        """int16 (1280,) → whether anything may be listening to this hop."""
        check_hop(self, samples)
        spectrum = np.fft.rfft(samples.astype(np.float32))[self._bins]
        power = np.add.reduceat(spectrum.real**2 + spectrum.imag**2, self._starts) * self._scale
        if self._floor is None:
            self._floor = power.astype(np.float32)
        loud = bool(power.sum() >= self._least) and bool((power > self._floor * self._margin).any())
        floor = np.minimum(self._floor * self._rise, np.maximum(power, self._floor * self._fall))
        # never below what a quarter of the least level leaves in a band: digital silence has no floor to rise from
        self._floor = np.maximum(np.minimum(floor, power * _AT_MOST_ABOVE), self._least / (4 * len(power)))
        was_open = self._left > 0
        self._left = self._hold if loud else max(self._left - 1, 0)
        is_open = loud or was_open
        self._hops += 1
        self._open_hops += is_open
        self._openings += loud and not was_open
        return is_open

    def statistics(self) -> GateStatistics:
        return GateStatistics(self._hops, self._open_hops, self._openings)
