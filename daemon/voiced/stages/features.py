"""What the wake heads hear: sound → log-mel → speech embedding, in streaming form.

What lives here: the mel spectrogram in NumPy and the embedding model over it, each 80 ms computed once, equal to computing
the whole file. What must not: scores and thresholds (wake.py).

The mel spectrogram is the one that the embedding model was trained on: int16-range samples, frames of 400 samples under a
periodic Hann window, centred in 512, every 160 samples; power; 32 triangles on Slaney's mel scale (linear to 1 kHz, then
27 steps to a factor of 6.4; M. Slaney, Auditory Toolbox, 1998) from 60 to 3,800 Hz, each of unit area;
10·log10(max(power, 1e-10)) / 10 + 2. There is no clamp against the loudest frame: it would make a frame depend on its
neighbours in the block.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from ..audio import Samples
from ..units import RATE
from . import check_hop
from .session import Port, Tensor, open_session, zeros

Floats = NDArray[np.float32]

MEL_HOP = 160
MEL_BINS = 32
_FFT = 512
_WINDOW = 400
_LOW_HZ, _HIGH_HZ = 60.0, 3800.0

HOP = 1280
"""80 ms: one embedding."""

TAIL = 480
"""Samples kept before each hop: a multiple of MEL_HOP, so the frames stay on the file's own grid, and at least 512 − 160."""

EMBEDDING_FRAMES = 76
"""Mel frames under one embedding (775 ms)."""

_SETTLED = 80
"""Frames, in whole hops, after which nothing of the state is left that was there before: one more hop than under an embedding."""

EMBEDDINGS = 16
EMBEDDING_SIZE = 96

_STATES = ((1, 34), (24, 32), (48, 16), (48, 16), (72, 8), (72, 8), (96, 4), (96, 4), (96, 2), (96, 2), (96, 1))
"""Channels and bands of each of the embedding's convolutions along time, which keep two rows from one run to the next."""

_TRACK_HOPS = 8
"""Hops in one run of the embedding where many are wanted: each takes half as long as alone on an x86 core, and no less in longer runs."""

HISTORY_HOPS = 25
"""Hops after which nothing older can be seen: 16 embeddings of 76 frames every 8 are 196 frames, in 24.5 hops."""


def _mel_scale(hertz: NDArray[np.float64]) -> NDArray[np.float64]:
    linear = hertz * 3 / 200
    return np.where(hertz < 1000, linear, 15 + np.log(np.maximum(hertz, 1000) / 1000) * 27 / np.log(6.4))


def _hertz(mels: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.where(mels < 15, mels * 200 / 3, 1000 * np.exp((mels - 15) * np.log(6.4) / 27))


def mel_filters(bands: int = MEL_BINS, fft: int = _FFT, low_hz: float = _LOW_HZ, high_hz: float = _HIGH_HZ) -> Floats:
    """float32 (fft // 2 + 1, bands), (257, 32) unless said otherwise: the weight of each FFT bin in each mel band."""
    low, high = _mel_scale(np.array([low_hz, high_hz]))
    corners = _hertz(np.linspace(low, high, bands + 2))
    bins = np.arange(fft // 2 + 1)[:, None] * RATE / fft
    left, peak, right = corners[:-2], corners[1:-1], corners[2:]
    triangles = np.minimum((bins - left) / (peak - left), (right - bins) / (right - peak))
    return (np.maximum(triangles, 0) * 2 / (right - left)).astype(np.float32)


def framed(samples: Floats) -> Floats:
    """float32 (n,), n ≥ 512 → (frames, 512), a view: as many frames as fit, one every MEL_HOP samples."""
    view: Floats = sliding_window_view(samples, _FFT)[::MEL_HOP]
    return view


def windows(track: Floats) -> Floats:
    """float32 (15 + hops, 96), hops ≥ 1 → (hops, 16, 96), a view: what a head sees at the end of each hop."""
    view: Floats = sliding_window_view(track, EMBEDDINGS, axis=0).transpose(0, 2, 1)
    return view


class Mel:
    """The mel spectrogram. Without state; any thread."""

    def __init__(self) -> None:
        pad = (_FFT - _WINDOW) // 2
        hann = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(_WINDOW) / _WINDOW)
        self._hann = np.pad(hann, pad).astype(np.float32)
        weights = mel_filters()
        self._used = slice(int(weights.any(1).argmax()), _FFT // 2 + 1 - int(weights[::-1].any(1).argmax()))
        self._weights = np.ascontiguousarray(weights[self._used])

    def __call__(self, samples: Floats) -> Floats:
        """float32 (n,) in int16's range, n ≥ 512 → float32 ((n − 512) // 160 + 1, 32)."""
        return self.of(framed(samples))

    def of(self, frames: Floats) -> Floats:
        """float32 (n, 512), what `framed` gives → float32 (n, 32)."""
        spectrum = np.fft.rfft(frames * self._hann)[:, self._used]
        power = (spectrum.real**2 + spectrum.imag**2).astype(np.float32, copy=False)
        mel: Floats = np.log10(np.maximum(power @ self._weights, np.float32(1e-10))) + np.float32(2)
        return mel


class WakeFeatures:
    """The last 16 embeddings, one new one a step. One thread owns it.

    embedding  the streaming model: of the 76 frames under an embedding, the 68 that were under the one before are not computed again
               (a quarter of the time; voiced_train.embedding). Raises ModelError where it is another

    At birth the rings hold what the embedding model gives for digital silence, and mel frames of ones: cold rings gave no
    score for 1.98 s, and a phrase right after the start was missed.
    """

    hop = HOP

    def __init__(self, embedding: Path, *, threads: int = 1) -> None:
        ports = [Port(f"state_{at}", (1, channels, 2, bands)) for at, (channels, bands) in enumerate(_STATES)]
        self._session = open_session(embedding, inputs=[Port("frames", (1, None, MEL_BINS, 1)), *ports], threads=threads)
        self._mel = Mel()
        self._state: list[Tensor] = [zeros(1, channels, 2, bands) for channels, bands in _STATES]
        silence = self._mel(zeros(_FFT))
        self._silent = self._embed(np.repeat(silence, _SETTLED, axis=0))[-1]
        self._embed(np.ones((_SETTLED, MEL_BINS), np.float32))
        self._born = self._state
        self._sound = zeros(TAIL + HOP)
        self._framed = framed(self._sound)  # made once: NumPy takes as long for this view as for three FFTs
        self._window = zeros(EMBEDDINGS, EMBEDDING_SIZE)
        self.reset()

    def reset(self) -> None:
        self._sound[:] = 0
        self._state = self._born
        self._window[:] = self._silent

    def warm_up(self) -> None:
        self.prime(np.zeros(EMBEDDINGS * HOP, np.int16))
        self.step(np.zeros(HOP, np.int16))
        self.reset()

    def step(self, samples: Samples) -> Floats:
        """int16 (1280,) → float32 (16, 96), the newest embedding last; valid until the next call."""
        check_hop(self, samples)
        sound, window = self._sound, self._window
        sound[:TAIL] = sound[HOP:]
        sound[TAIL:] = samples
        window[:-1] = window[1:]
        window[-1] = self._embed(self._mel.of(self._framed))[0]
        return window

    def prime(self, history: Samples) -> None:
        """As if `history` (int16, whole hops, the oldest first) had been stepped since birth, in one run.

        The last HISTORY_HOPS hops are all that can matter.
        """
        if len(history) % HOP or history.dtype != np.int16 or history.ndim != 1:
            raise ValueError(f"WakeFeatures.prime wants int16 of whole hops of {HOP}; got {history.dtype} {history.shape}")
        self.reset()
        if not len(history):
            return
        sound = np.concatenate((self._sound[HOP:], history.astype(np.float32)))
        embeddings = self._embed(self._mel(sound))[-EMBEDDINGS:]
        self._sound[:] = sound[-TAIL - HOP :]
        self._window[-len(embeddings) :] = embeddings

    def track(self, samples: Samples) -> Floats:
        """A recording in one go: int16 (n,), whole hops → float32 (15 + n / 1280, 96), what `windows` takes. Resets.

        The first 15 rows are what the ring holds at birth, then one embedding a hop, as `step` would have given them.
        """
        if len(samples) % HOP or samples.dtype != np.int16 or samples.ndim != 1:
            raise ValueError(f"WakeFeatures.track wants int16 of whole hops of {HOP}; got {samples.dtype} {samples.shape}")
        self.reset()
        found = [self._window[1:].copy()]
        for first in range(0, len(samples), _TRACK_HOPS * HOP):
            sound = np.concatenate((self._sound[HOP:], samples[first : first + _TRACK_HOPS * HOP].astype(np.float32)))
            found.append(self._embed(self._mel(sound)))
            self._sound[:] = sound[-TAIL - HOP :]
        self.reset()
        return np.concatenate(found)

    def _embed(self, mel: Floats) -> Floats:
        """float32 (8·n, 32), the frames after those of the run before → (n, 96)."""
        frames = np.ascontiguousarray(mel)[None, :, :, None]
        embeddings, *self._state = self._session.run(dict(zip(self._session.names, (frames, *self._state), strict=True)))
        return embeddings
