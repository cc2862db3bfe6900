"""Is this speech? Silero VAD v6, one probability for each window of 32 ms.

What lives here: the model's context and state. What must not: thresholds and segments (segments.py). The model wants the
last 64 samples before each window; without them nothing fails and the probability stays under 0.12, so the context is part
of the stage and a test compares both.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ..audio import Samples
from ..units import RATE
from . import check_hop
from .session import Port, open_session, zeros

CONTEXT = 64
"""Samples before the window that the model also reads."""

_INPUTS = (Port("input", (None, None)), Port("state", (2, None, 128)), Port("sr", ()))


@dataclass(frozen=True, slots=True)
class VadStatistics:
    windows: int
    speech_windows: int
    """Windows with a probability of at least one half."""


class Vad:
    """Silero VAD by onnxruntime. One thread owns it. Raises ModelError where the file is not this model."""

    hop = 512

    def __init__(self, path: Path, *, threads: int = 1) -> None:
        self._session = open_session(path, inputs=_INPUTS, threads=threads)
        self._rate = np.array(RATE, np.int64)
        self._input = zeros(1, CONTEXT + self.hop)
        self._windows = self._speech = 0
        self.reset()

    def reset(self) -> None:
        self._input[:] = 0
        self._state = zeros(2, 1, 128)

    def warm_up(self) -> None:
        self._run(np.zeros(self.hop, np.int16))
        self.reset()

    def step(self, samples: Samples) -> float:
        """int16 (512,): the next window, right after the one before. Returns 0 silence … 1 speech."""
        check_hop(self, samples)
        probability = self._run(samples)
        self._windows += 1
        self._speech += probability >= 0.5
        return probability

    def _run(self, samples: Samples) -> float:
        self._input[:, :CONTEXT] = self._input[:, -CONTEXT:]
        np.multiply(samples, np.float32(1 / 32768), out=self._input[0, CONTEXT:])
        output, self._state = self._session.run({"input": self._input, "state": self._state, "sr": self._rate})
        return float(output[0, 0])

    def track(self, samples: Samples) -> tuple[float, ...]:
        """Probabilities of a whole piece, from birth and back to birth: for sound that is judged once (a wake phrase).

        int16 (n,); a rest shorter than a window is left out.
        """
        self.reset()
        windows = samples[: len(samples) // self.hop * self.hop].reshape(-1, self.hop)
        probabilities = tuple(map(self.step, windows))
        self.reset()
        return probabilities

    def statistics(self) -> VadStatistics:
        return VadStatistics(self._windows, self._speech)
