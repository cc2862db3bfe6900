"""Sound as numbers: positions, frames, the rechunker and the ring.

What lives here: the frame and the two buffers that every lane needs. What must not: threads,
clocks, files. A position is the index of a sample since the lane first started; it never goes back.
"""

from __future__ import annotations

from collections.abc import Iterator
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


class Rechunker:
    """Blocks of any length in, blocks of one length out, on a fixed grid (multiples of `size` since position 0).

    A gap (a frame that does not begin where the last one ended) drops the unfinished block; the next block begins at
    the next multiple of `size`, so the same sound gives the same blocks whatever the block size of the source.
    """

    def __init__(self, size: int) -> None:
        if size < 1:
            raise ValueError(f"Rechunker wants a size of at least 1 sample; got {size}")
        self.size = size
        self._parts = np.empty(size, np.int16)
        self.reset()

    def reset(self) -> None:
        self._have = 0
        self._lost = 0
        self._next: int | None = None

    def feed(self, frame: AudioFrame) -> Iterator[AudioFrame]:
        """Yields full blocks in order; each has the arrival time of the frame that completed it, and what was lost before it."""
        samples, position = frame.samples, frame.first
        self._lost += frame.lost
        if position != self._next:
            self._have = 0
        if not self._have:  # a block begins on the grid only
            skip = min(-position % self.size, len(samples))
            samples, position = samples[skip:], position + skip
        start = 0
        while start < len(samples):
            take = min(self.size - self._have, len(samples) - start)
            self._parts[self._have : self._have + take] = samples[start : start + take]
            self._have += take
            start += take
            if self._have == self.size:
                self._have = 0
                lost, self._lost = self._lost, 0
                yield AudioFrame(position + start - self.size, self._parts.copy(), lost, frame.arrived_ns)
        self._next = frame.end


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
        self._data[: len(samples) - head] = samples[head:]
        self.end = end
        self.first = max(self.first, end - self.capacity)

    def read(self, first: int, end: int) -> Samples:
        """Sound of the positions [first, end), a read-only copy; IndexError names what is not there any more or yet."""
        if not self.first <= first <= end <= self.end:
            raise IndexError(f"Ring holds [{self.first}, {self.end}); asked for [{first}, {end})")
        at = first % self.capacity
        count = end - first
        head = min(count, self.capacity - at)
        return frozen(np.concatenate((self._data[at : at + head], self._data[: count - head])))

    def padded(self, first: int, end: int) -> Samples:
        """The same, with zeros for what lies before the ring's first sample."""
        held = self.read(max(first, self.first), end)
        return frozen(np.concatenate((np.zeros(end - first - len(held), np.int16), held)))
