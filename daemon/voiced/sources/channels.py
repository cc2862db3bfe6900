"""Which channel of a device is heard when nobody says.

What lives here: a choice from levels alone. What must not: threads, clocks, the device.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Interleaved = NDArray[np.int16] | NDArray[np.float32]
"""Raw sound, shape (frames, channels), in the range of int16."""

_SETTLED_S = 3
_CLEARLY = 4.0  # in power: 6 dB
_SOUND = 32.0**2  # mean square: -60 dBFS, above the noise of any input that is not connected
_DEAD_S = 3


class ChannelChoice:
    """The loudest, never a dead one.

    Decided on energy (about the mean: a constant voltage is no sound); another one must be twice as loud to be taken instead.
    Settled after three seconds in which any channel had sound, until the device is opened again (the order of channels may be another
    then) or the chosen one has given a constant for three seconds in which another had sound; hours of silence decide nothing.
    """

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        self.chosen = 0
        self.settled = False
        self.line = ""
        """What was decided and by what, once it is settled."""
        self._energy: NDArray[np.float64] | float = 0.0
        self._sounding = 0  # frames
        self._dead = 0  # frames

    def feed(self, sound: Interleaved, rate: int) -> int:
        """Takes a block, returns the channel to hear in it."""
        if sound.shape[1] == 1:
            return 0
        if self.settled and self._lives(sound, rate):
            return self.chosen
        energy: NDArray[np.float64] = sound.var(axis=0, dtype=np.float64) * len(sound)
        sounds = energy.max() >= _SOUND * len(sound)
        if sounds and not self._sounding:
            self._energy = 0.0
        if sounds or not self._sounding:
            energy = self._energy = self._energy + energy
            loudest = int(energy.argmax())
            if energy[loudest] > _CLEARLY * energy[self.chosen]:
                self.chosen = loudest
        if sounds:
            self._sounding += len(sound)
            if self._sounding >= _SETTLED_S * rate:
                self._settle(energy / self._sounding)
        return self.chosen

    def _lives(self, sound: Interleaved, rate: int) -> bool:
        """False where the choice has to be made anew."""
        mine = sound[:, self.chosen]
        if (mine != mine[0]).any():
            self._dead = 0
        elif sound.var(axis=0, dtype=np.float64).max() >= _SOUND:
            self._dead += len(sound)
        if self._dead < _DEAD_S * rate:
            return True
        self.reset()
        return False

    def _settle(self, power: NDArray[np.float64]) -> None:
        self.settled = True
        level = 10 * np.log10(power / 32768.0**2 + 1e-12)
        self.line = f"channel {self.chosen} of {len(level)} is heard; dBFS: {' '.join(f'{one:.0f}' for one in level)}"
