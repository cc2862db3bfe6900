"""A file at the pace of speech, as a lane hears it: for the demonstration, for lanes that replay, and for benches.

What lives here: pacing by CLOCK_MONOTONIC, the silence after the end, beginning again. What must not: reading files (wavfile.py).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from ..audio import AudioFrame
from ..errors import InputError
from ..units import RATE, counted, to_samples
from .wavfile import WavSource

TAIL_MS = 500
"""Silence after the end at the least: what the last word's recognition still wants."""


class PacedFile:
    """Hands out a file's sound in blocks, each when its last sample would have been spoken. On the ears thread.

    first    position of the file's first sample
    idle     asked after the file's end: once True, `read` raises EOFError; until then there is silence, so that an open turn
             can close by its own rules
    again    it never ends: after its last sample comes its first, without a pause
    Raises InputError where the file cannot be read; `read` raises it at the end, where what came before was sound.
    """

    def __init__(self, path: Path, first: int, block_ms: float, idle: Callable[[], bool], *, again: bool = False) -> None:
        self._path, self._again = path, again
        self._block = to_samples(block_ms)
        self._source = WavSource(path, self._block, first)
        self._frames = iter(self._source)
        self._idle = idle
        self._first = self._end = first
        self._least = 0  # where the silence after the file may end; 0 before the file's end
        self._began_ns = time.monotonic_ns()
        self._over: EOFError | InputError = EOFError()

    @property
    def form(self) -> str:
        """Format, rate and channels of the file, in words."""
        note = self._source.note()
        return f"{note.format}, {note.rate} Hz, {counted(note.channels, 'channel')}"

    def read(self, timeout: float = 0.0) -> AudioFrame:
        """The next block, when it is due, which no `timeout` changes. Its `arrived_ns` is when it was due: of who takes it late, the
        lateness is seen."""
        del timeout
        frame = self._next()
        if frame is None:
            self._least = self._least or self._end + to_samples(TAIL_MS)
            frame = AudioFrame(self._end, np.zeros(self._block, np.int16))
        due_ns = self._began_ns + (frame.end - self._first) * 1_000_000_000 // RATE
        time.sleep(max(0, due_ns - time.monotonic_ns()) / 1e9)
        if self._least and self._end >= self._least and self._idle():  # asked when there was time to take what came before
            raise self._over
        self._end = frame.end
        return AudioFrame(frame.first, frame.samples, 0, due_ns)

    def close(self) -> None:
        self._source.close()

    def _next(self) -> AudioFrame | None:
        try:
            frame = next(self._frames, None)
            if frame is None and self._again and not self._least:
                self._source = WavSource(self._path, self._block, self._end)
                self._frames = iter(self._source)
                frame = next(self._frames, None)
            return frame
        except InputError as error:
            self._over, self._frames, self._again = error, iter(()), False
            return None
