"""What a streaming transducer hears: kaldi's filter banks, as sherpa-onnx computes them for online models.

What lives here: sound → 80 log-energies each 10 ms, in NumPy. What must not: models, the wake heads' own mel (features.py).

Frames of 25 ms every 10, the first one centred on the first 10 ms (kaldi's snip_edges = false), its missing half mirrored; the mean
taken away; pre-emphasis of 0.97; a Hann window to the power of 0.85 ("povey"); power of 512 bins; triangles of equal height on HTK's
mel scale from 20 Hz to 7,600 Hz; the natural logarithm, of no less than 2⁻²³. No dither. The definitions are those of kaldi's
feat/feature-window.cc and feat/mel-computations.cc (Povey et al. 2011).
"""

from __future__ import annotations

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from ..audio import Samples
from ..units import RATE

Floats = NDArray[np.float32]

BINS = 80
FRAME_HOP = RATE // 100

_WINDOW = RATE // 40
_BEFORE = (_WINDOW - FRAME_HOP) // 2
"""Samples of the first frame that lie before the sound."""
_FFT = 512
_LOW_HZ, _HIGH_HZ = 20.0, RATE / 2 - 400.0
_PRE_EMPHASIS = np.float32(0.97)
_LEAST = np.finfo(np.float32).eps


def _mel(hertz: NDArray[np.float64]) -> NDArray[np.float64]:
    mels: NDArray[np.float64] = 1127.0 * np.log1p(hertz / 700.0)
    return mels


def _triangles() -> Floats:
    """float32 (257, 80): the weight of each FFT bin in each band."""
    low, high = _mel(np.array([_LOW_HZ, _HIGH_HZ]))
    corners = np.linspace(low, high, BINS + 2)
    bins = _mel(np.arange(_FFT // 2 + 1)[:, None] * RATE / _FFT)
    left, peak, right = corners[:-2], corners[1:-1], corners[2:]
    weights = np.maximum(np.minimum((bins - left) / (peak - left), (right - bins) / (right - peak)), 0)
    weights[-1] = 0  # kaldi leaves the bin at half the rate out
    triangles: Floats = weights.astype(np.float32)
    return triangles


_TRIANGLES = _triangles()
_POVEY = ((0.5 - 0.5 * np.cos(2 * np.pi * np.arange(_WINDOW) / (_WINDOW - 1))) ** 0.85).astype(np.float32)


def filter_banks(samples: Samples) -> Floats:
    """int16 (n,), n ≥ 280 → float32 (⌊(n + 80) / 160⌋, 80), as at the end of a stream: the last frame is mirrored too. Any thread."""
    if samples.dtype != np.int16 or samples.ndim != 1 or len(samples) < _WINDOW - _BEFORE:
        raise ValueError(f"filter_banks wants int16 of shape (n,), n >= {_WINDOW - _BEFORE}; got {samples.dtype} {samples.shape}")
    count = (len(samples) + FRAME_HOP // 2) // FRAME_HOP
    after = max(0, (count - 1) * FRAME_HOP + _WINDOW - _BEFORE - len(samples))
    sound = np.pad(samples.astype(np.float32) / np.float32(32768), (_BEFORE, after), mode="symmetric")
    frames = sliding_window_view(sound, _WINDOW)[::FRAME_HOP][:count]
    frames = frames - frames.mean(1, keepdims=True, dtype=np.float32)
    # the first sample of a frame takes itself for the one before it
    before = np.concatenate((frames[:, :1], frames[:, :-1]), 1)
    spectrum = np.fft.rfft((frames - _PRE_EMPHASIS * before) * _POVEY, _FFT)
    power = (spectrum.real**2 + spectrum.imag**2).astype(np.float32)
    banks: Floats = np.log(np.maximum(power @ _TRIANGLES, _LEAST))
    return banks
