"""A file at the pace of speech, as a lane hears it: for the demonstration and for lanes that replay.

What lives here: pacing by CLOCK_MONOTONIC, and the silence after the end. What must not: reading files (wavfile.py).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from ..audio import AudioFrame
from ..errors import InputError
from ..units import RATE, to_samples
from .wavfile import WavSource

TAIL_MS = 500
"""Silence after the end at the least: what the last word's recognition still wants."""


class PacedFile:
    """Hands out a file's sound in blocks, each when its last sample would have been spoken. On the ears thread.

    first    position of the file's first sample
    idle     asked after the file's end: once True, `read` raises EOFError; until then there is silence, so that an open turn
             can close by its own rules
    Raises InputError where the file cannot be read; `read` raises it at the end, where what came before was sound.
    """

    def __init__(self, path: Path, first: int, block_ms: float, idle: Callable[[], bool]) -> None:
        self._block = to_samples(block_ms)
        self._frames = iter(WavSource(path, self._block, first))
        self._idle = idle
        self._first = self._end = first
        self._least = 0  # where the silence after the file may end; 0 before the file's end
        self._began_ns = time.monotonic_ns()
        self._over: EOFError | InputError = EOFError()

    def read(self) -> AudioFrame:
        frame = self._next()
        if frame is None:
            self._least = self._least or self._end + to_samples(TAIL_MS)
            if self._end >= self._least and self._idle():
                raise self._over
            frame = AudioFrame(self._end, np.zeros(self._block, np.int16))
        self._end = frame.end
        due_ns = self._began_ns + (frame.end - self._first) * 1_000_000_000 // RATE
        time.sleep(max(0, due_ns - time.monotonic_ns()) / 1e9)
        return AudioFrame(frame.first, frame.samples, 0, time.monotonic_ns())

    def _next(self) -> AudioFrame | None:
        try:
            return next(self._frames, None)
        except InputError as error:
            self._over, self._frames = error, iter(())
            return None
