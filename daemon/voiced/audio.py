"""Sound as numbers: positions, frames and the ring.

What lives here: the frame, and the ring that every lane needs. What must not: threads,
clocks, files. A position is the index of a sample since the lane first started; it never goes back.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Samples = NDArray[np.int16]
"""Mono sound, int16, shape (n,), units.RATE samples a second."""


def frozen(samples: Samples) -> Samples:
    """The same array, read-only: what crosses a thread or stays in a record must not change."""
    samples.flags.writeable = False
    return samples


@dataclass(frozen=True, slots=True)
class AudioFrame:
    """A block of sound as it came.

    first       position of its first sample
    samples     int16, shape (n,), read-only, n > 0
    lost        samples missing between the frame before and this one (already counted in `first`)
    arrived_ns  CLOCK_MONOTONIC when the block came, for measuring and never for deciding; 0 where nothing is measured
    """

    first: int
    samples: Samples
    lost: int = 0
    arrived_ns: int = 0

    def __post_init__(self) -> None:
        if self.samples.dtype != np.int16 or self.samples.ndim != 1 or not len(self.samples):
            raise ValueError(f"AudioFrame wants int16 of shape (n,), n > 0; got {self.samples.dtype} {self.samples.shape}")
        if self.first < 0 or self.lost < 0:
            raise ValueError(f"AudioFrame wants first and lost >= 0; got {self.first} and {self.lost}")
        self.samples.flags.writeable = False

    @property
    def end(self) -> int:
        """Position after the last sample."""
        return self.first + len(self.samples)


class Ring:
    """The last `capacity` samples, read by position: a wake phrase's pre-roll and a turn's audio come from here.

    A gap in the positions is filled with zeros, so that positions stay true. One thread writes; others may read what it
    has told them of, since `end` moves after the data and a reader lags by less than the capacity.
    """

    def __init__(self, capacity: int) -> None:
        if capacity < 1:
            raise ValueError(f"Ring wants a capacity of at least 1 sample; got {capacity}")
        self.capacity = capacity
        self._data = np.zeros(capacity, np.int16)
        self.reset()

    def reset(self) -> None:
        self.first = 0
        self.end = 0

    def append(self, frame: AudioFrame) -> None:
        """Adds a frame; raises ValueError where it would go back in time."""
        if self.end == self.first:
            self.first = self.end = frame.first
        if frame.first < self.end:
            raise ValueError(f"Ring holds sound up to {self.end}; got a frame that begins at {frame.first}")
        gap = frame.first - self.end
        if gap:
            self._write(np.zeros(min(gap, self.capacity), np.int16), frame.first)
        self._write(frame.samples, frame.end)

    def _write(self, samples: Samples, end: int) -> None:
        samples = samples[-self.capacity :]
        at = (end - len(samples)) % self.capacity
        head = min(len(samples), self.capacity - at)
        self._data[at : at + head] = samples[:head]
        if head < len(samples):
            self._data[: len(samples) - head] = samples[head:]
        self.end = end
        self.first = max(self.first, end - self.capacity)

    def read(self, first: int, end: int) -> Samples:
        """Sound of the positions [first, end), a read-only copy; IndexError names what is not there any more or yet."""
        if not self.first <= first <= end <= self.end:
            raise IndexError(f"Ring holds [{self.first}, {self.end}); asked for [{first}, {end})")
        at = first % self.capacity
        count = end - first
        head = self.capacity - at
        if count <= head:
            return frozen(self._data[at : at + count].copy())
        return frozen(np.concatenate((self._data[at:], self._data[: count - head])))

    def padded(self, first: int, end: int) -> Samples:
        """The same, with zeros for what lies before the ring's first sample."""
        if first >= self.first:
            return self.read(first, end)
        held = self.read(self.first, end)
        return frozen(np.concatenate((np.zeros(end - first - len(held), np.int16), held)))
