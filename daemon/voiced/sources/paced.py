"""A file at the pace of speech, as a lane hears it: for the demonstration and for lanes that replay.

What lives here: pacing by CLOCK_MONOTONIC, and the silence after the end. What must not: reading files (wavfile.py).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from ..audio import AudioFrame
from ..units import RATE, to_samples
from .wavfile import read_audio

TAIL_MS = 500
"""Silence after the end at the least: what the last word's recognition still wants."""


class PacedFile:
    """Hands out a file's sound in blocks, each when its last sample would have been spoken. On the ears thread.

    first    position of the file's first sample
    idle     asked after the file's end: once True, `read` raises EOFError; until then there is silence, so that an open turn
             can close by its own rules
    Raises InputError where the file cannot be read.
    """

    def __init__(self, path: Path, first: int, block_ms: float, idle: Callable[[], bool]) -> None:
        self._samples, _ = read_audio(path)
        self._block = to_samples(block_ms)
        self._idle = idle
        self._first = self._at = first
        self._began_ns = time.monotonic_ns()

    def read(self) -> AudioFrame:
        end = self._at + self._block
        due_ns = self._began_ns + (end - self._first) * 1_000_000_000 // RATE
        time.sleep(max(0, due_ns - time.monotonic_ns()) / 1e9)
        start = self._at - self._first
        if start >= len(self._samples) + to_samples(TAIL_MS) and self._idle():
            raise EOFError
        block = np.zeros(self._block, np.int16)
        piece = self._samples[start : start + self._block]
        block[: len(piece)] = piece
        self._at = end
        return AudioFrame(end - self._block, block, 0, time.monotonic_ns())
