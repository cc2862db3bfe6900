"""What happens to a synthesized sentence before it becomes a recording.

What lives here: arithmetic on float32 sound at 16 kHz (resample, level, where speech begins and ends, room noise). What
must not: voices, files.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Sound = NDArray[np.float32]
"""Mono, float32, shape (n,), −1 … 1."""

RATE = 16_000

_WINDOW = RATE // 50  # 20 ms
_HOP = RATE // 200  # 5 ms
_SPEECH_BELOW_PEAK_DB = 40.0
"""A window this far below the loudest one is no speech: neural voices are clean, so a fixed distance finds the edges."""

_SPEECH_ABOVE_FLOOR_DB = 12.0
_LOWEST_FLOOR_DB = -90.0


def at_16k(sound: Sound, rate: int) -> Sound:
    import soxr

    resampled: Sound = soxr.resample(sound, rate, RATE, quality="VHQ").astype(np.float32)
    return resampled


def decibels(ratio: float) -> float:
    return float(20 * np.log10(max(ratio, 1e-10)))


def _levels(sound: Sound) -> NDArray[np.float64]:
    """RMS of each 20 ms window, every 5 ms; the first begins 15 ms before the sound, so every sample is in four of them."""
    padded = np.pad(sound.astype(np.float64), (_WINDOW - _HOP, _WINDOW))
    windows = np.lib.stride_tricks.sliding_window_view(padded, _WINDOW)[::_HOP]
    levels: NDArray[np.float64] = np.sqrt((windows**2).mean(axis=1))
    return levels


def speech_bounds(sound: Sound) -> tuple[int, int]:
    """[start, end) of the speech in clean sound, to about 10 ms. Raises ValueError where there is none."""
    levels = _levels(sound)
    if not len(sound) or levels.max() == 0:
        raise ValueError("speech_bounds wants sound; got digital silence")
    loud = np.nonzero(levels > levels.max() * 10 ** (-_SPEECH_BELOW_PEAK_DB / 20))[0]
    hop = (_WINDOW - _HOP) // 2 - (_WINDOW - _HOP)  # a window stands for the hop in its middle: where the first one's is
    start, end = int(loud[0]) * _HOP + hop, int(loud[-1]) * _HOP + hop + _HOP
    return max(start, 0), min(end, len(sound))


def floor_db(sound: Sound) -> float:
    """dBFS of the quiet in a recording: the tenth of its 20 ms windows that is quietest; −90 at the least."""
    return max(decibels(float(np.quantile(_levels(sound), 0.1))), _LOWEST_FLOOR_DB)


def speech_bounds_in_noise(sound: Sound) -> tuple[int, int]:
    """[start, end) of the speech in a recording whose quiet is not silence: what stands a third (in dB) of the way from the
    floor to the peak, or 12 dB, above the floor. Raises ValueError where there is no sound."""
    levels = _levels(sound)
    if not len(sound) or levels.max() == 0:
        raise ValueError("speech_bounds_in_noise wants sound; got digital silence")
    peak, floor = decibels(float(levels.max())), floor_db(sound)
    threshold = max(peak - _SPEECH_BELOW_PEAK_DB, floor + min(_SPEECH_ABOVE_FLOOR_DB, (peak - floor) / 3))
    loud = np.nonzero(levels >= 10 ** (threshold / 20))[0]
    hop = (_WINDOW - _HOP) // 2 - (_WINDOW - _HOP)
    return max(int(loud[0]) * _HOP + hop, 0), min(int(loud[-1]) * _HOP + hop + _HOP, len(sound))


def trimmed(sound: Sound) -> Sound:
    start, end = speech_bounds(sound)
    return sound[start:end]


def speech_level_db(sound: Sound) -> float:
    """dBFS of the speech alone: RMS over the windows within 20 dB of the loudest."""
    levels = _levels(sound)
    return decibels(float(np.sqrt((levels[levels > levels.max() / 10] ** 2).mean())))


def at_level(sound: Sound, dbfs: float) -> Sound:
    """Speech brought to an RMS level; never so loud that it clips."""
    gain = min(10 ** ((dbfs - speech_level_db(sound)) / 20), 0.99 / max(float(np.abs(sound).max()), 1e-10))
    return (sound * gain).astype(np.float32)


def faded(sound: Sound, milliseconds: float = 5) -> Sound:
    """Raised-cosine edges, so that joining leaves no click."""
    n = min(round(milliseconds * RATE / 1000), len(sound) // 2)
    if not n:
        return sound
    ramp = (0.5 - 0.5 * np.cos(np.pi * (np.arange(n) + 0.5) / n)).astype(np.float32)
    out = sound.copy()
    out[:n] *= ramp
    out[-n:] *= ramp[::-1]
    return out


def silence(milliseconds: float) -> Sound:
    return np.zeros(round(milliseconds * RATE / 1000), np.float32)


def room_noise(samples: int, dbfs: float, rng: np.random.Generator) -> Sound:
    """Noise whose power falls with frequency, as a quiet room's does (flat below 60 Hz, then 3 dB an octave)."""
    spectrum = np.fft.rfft(rng.standard_normal(samples))
    hertz = np.fft.rfftfreq(samples, 1 / RATE)
    noise = np.fft.irfft(spectrum / np.sqrt(np.maximum(hertz, 60)), samples)
    noise *= 10 ** (dbfs / 20) / np.sqrt((noise**2).mean())
    return np.asarray(noise, np.float32)
