"""Sound for tests: recordings, levels, noise."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import soundfile
from numpy.typing import NDArray
from voiced.audio import Samples

Floats = NDArray[np.floating[Any]]


def sound(path: Path) -> Samples:
    """A recording of data_dir: int16, mono, 16 kHz."""
    samples, rate = soundfile.read(path, dtype="int16")
    assert rate == 16_000
    return np.ascontiguousarray(samples if samples.ndim == 1 else samples[:, 0])


def at_level(samples: NDArray[Any], dbfs: float) -> Floats:
    """float64, the same sound with this root mean square below full scale (1.0)."""
    root_mean_square = float(np.sqrt(np.mean(np.square(samples, dtype=np.float64))))
    return np.asarray(samples / root_mean_square * 10 ** (dbfs / 20))


def to_int16(samples: NDArray[Any]) -> Samples:
    """From full scale 1.0, rounded and clipped."""
    return np.clip(np.round(samples * 32768), -32768, 32767).astype(np.int16)


def noise(count: int, colour: str, seed: int = 0) -> Floats:
    """Steady noise of unit power: white, or pink (power falls with 1/f)."""
    white = np.random.default_rng(seed).normal(size=count)
    if colour == "white":
        return white
    spectrum = np.fft.rfft(white)
    spectrum[1:] /= np.sqrt(np.arange(1, len(spectrum)))
    pink = np.fft.irfft(spectrum, count)
    return np.asarray(pink / pink.std())


def hops(samples: Samples, size: int) -> list[Samples]:
    return [samples[at : at + size] for at in range(0, len(samples) - size + 1, size)]
