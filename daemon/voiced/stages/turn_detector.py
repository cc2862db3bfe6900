"""Has the speaker finished? By how it sounds: smart-turn v3.2, for recognizers that have no end token.

What lives here: the features of the turn's last 8 s and one run of the model over them. What must not: when it is asked and what its
answer is worth (endpoint.py).

The features are those of Whisper (Radford et al. 2022), from which the model was made: the sound brought to mean 0 and variance 1, the
silence put before a short turn included; frames of 400 samples under a periodic Hann window, every 160, centred, the edges mirrored;
power; 80 triangles of unit area on Slaney's mel scale from 0 to 8 kHz; log10, at most 8 below the loudest of all; (x + 4) / 4.
A turn shorter than 8 s has its silence before it: the model looks at the end.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from ..audio import Samples
from ..units import RATE
from . import check_hop
from .features import Floats, mel_filters
from .session import Port, open_session, zeros

WINDOW = 8 * RATE
"""Samples it looks back on."""

BINS = 80
FRAMES = 800
_FFT = 400
_HOP = 160
_LEAST_VARIANCE = 1e-7
_FLOOR = 1e-10
_RANGE = 8.0
"""Powers of ten below the loudest: what is quieter is as quiet as that."""


@dataclass(frozen=True, slots=True)
class TurnDetectorStatistics:
    asked: int
    finished: int
    """Answers of at least one half."""


class TurnDetector:
    """smart-turn by onnxruntime. One thread owns it. Raises ModelError where the file is not this model."""

    hop = 0

    def __init__(self, path: Path, *, threads: int = 1) -> None:
        self._session = open_session(path, inputs=[Port("input_features", (None, BINS, FRAMES))], threads=threads)
        self._features = WhisperMel()
        self._asked = self._finished = 0

    def reset(self) -> None:
        """Nothing is kept between two questions."""

    def warm_up(self) -> None:
        self._run(np.zeros(RATE, np.int16))

    def step(self, samples: Samples) -> float:
        """int16 (n,): the turn's sound up to now, of which the last 8 s count. Returns 0 goes on … 1 has finished."""
        check_hop(self, samples)
        probability = self._run(samples)
        self._asked += 1
        self._finished += probability >= 0.5
        return probability

    def _run(self, samples: Samples) -> float:
        (output,) = self._session.run({"input_features": self._features(samples)[None]})
        return float(output.reshape(-1)[0])  # the sigmoid is inside the model

    def statistics(self) -> TurnDetectorStatistics:
        return TurnDetectorStatistics(self._asked, self._finished)


class WhisperMel:
    """Whisper's features of the last 8 s, see the head of this file. Without state between calls; one thread."""

    def __init__(self) -> None:
        self._hann = (0.5 - 0.5 * np.cos(2 * np.pi * np.arange(_FFT) / _FFT)).astype(np.float32)
        self._weights = mel_filters(BINS, _FFT, 0.0, RATE / 2)
        self._sound = zeros(WINDOW)

    def __call__(self, samples: Samples) -> Floats:
        """int16 (n,) → float32 (80, 800), the newest frame last."""
        sound = self._sound
        sound[:] = 0
        last = samples[-WINDOW:]
        sound[WINDOW - len(last) :] = last
        sound *= np.float32(1 / 32768)
        mean, variance = sound.mean(dtype=np.float64), sound.var(dtype=np.float64)
        level = ((sound - mean) / np.sqrt(variance + _LEAST_VARIANCE)).astype(np.float32)
        frames = sliding_window_view(np.pad(level, _FFT // 2, mode="reflect"), _FFT)[::_HOP][:FRAMES]
        spectrum = np.fft.rfft(frames * self._hann)
        power = (spectrum.real**2 + spectrum.imag**2).astype(np.float32, copy=False)
        mel = np.log10(np.maximum(power @ self._weights, np.float32(_FLOOR)))
        clipped = np.maximum(mel, mel.max() - np.float32(_RANGE))
        features: Floats = np.ascontiguousarray(((clipped + np.float32(4)) / np.float32(4)).T)
        return features
