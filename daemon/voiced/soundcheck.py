"""Figures of a microphone, from what it gave: levels, clipping, constant voltage, hum, noise, channels, clock.

What lives here: arithmetic on sound that was recorded. What must not: what the figures mean (diagnosis.py), devices, clocks, models:
whether somebody spoke is handed in.

Levels are in dBFS about a channel's mean: 0 is a square wave at full scale, a full sine -3, digital silence -120.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Sound = NDArray[np.int16] | NDArray[np.float32]
"""Shape (n, channels), in the range of int16."""

FULL = 32768.0
SILENCE_DBFS = -120.0

WINDOW_MS = 32
"""Windows in which speech, noise and hum are told apart: the VAD's."""

_CLIPPED_RUN = 3  # samples at the same end of the scale in a row: a single one may be a peak that just reached it
_DEAD_DBFS = -85.0  # one bit that flips is -90: nothing is connected
_ZEROS = 1e-6  # mean square of what is constant, after a mean was taken off; a single bit in a window is 0.002
_OPPOSITE = -0.8  # correlation of two channels that hear the same, one the other way round


@dataclass(frozen=True, slots=True)
class Channel:
    """Figures of one channel.

    level, peak     dBFS of all of it; of its greatest sample
    noise           dBFS of the quiet: the least tenth of its windows without speech, those of zeros left out
    speech          dBFS of the windows with speech, the noise taken off; None where nobody spoke
    clipped         part of the samples that are at the end of the scale, several in a row
    dc              constant voltage, part of full scale
    hum_hz, hum     the mains that hums (50, 60; 0: none) and its dBFS with its overtones
    """

    level: float
    peak: float
    noise: float
    speech: float | None
    clipped: float
    dc: float
    hum_hz: int
    hum: float

    @property
    def dead(self) -> bool:
        return self.level < _DEAD_DBFS

    @property
    def snr(self) -> float | None:
        """dB of speech above the noise."""
        return None if self.speech is None else self.speech - self.noise


@dataclass(frozen=True, slots=True)
class Measures:
    """Of a recording: its format, its channels, which of them is best, pairs that are the other way round, clock and losses.

    best       of the channel with the most speech (sound, where nobody spoke)
    opposite   channels that give the same as `best`, the other way round
    drift_ppm, drift_error_ppm   how much faster than its rate the device counts, and how far that may be off
    lost       part of the frames that are missing
    """

    rate: int
    seconds: float
    channels: tuple[Channel, ...]
    best: int
    opposite: tuple[int, ...]
    drift_ppm: float
    drift_error_ppm: float
    lost: float


def dbfs(power: float) -> float:
    """Of a mean square in the range of int16."""
    return max(SILENCE_DBFS, 10 * math.log10(max(power, 1e-9) / FULL**2))


def glance(sound: Sound) -> tuple[float, float, bool]:
    """For a meter, of a short piece (n, channels): level and peak in dBFS of the loudest channel, and whether it clips."""
    wide = sound.astype(np.float64)
    loudest = wide[:, int(wide.var(axis=0).argmax())]
    top = float(np.abs(loudest).max())
    return dbfs(float(loudest.var())), dbfs(top**2), top >= FULL - 1 and clipped(loudest) > 0


def measure(sound: Sound, rate: int, speech: Sequence[bool], drift: tuple[float, float] = (0.0, 0.0), lost: float = 0.0) -> Measures:
    """All figures of a recording (n, channels); `speech`: whether somebody spoke in each WINDOW_MS, as far as it was asked."""
    if sound.ndim != 2 or not len(sound):
        raise ValueError(f"measure wants sound of shape (n, channels), n > 0; got {sound.shape}")
    spoken = np.array(speech, bool)
    columns = [sound[:, at].astype(np.float64) for at in range(sound.shape[1])]
    channels = tuple(_channel(column, rate, spoken) for column in columns)
    best = max(range(len(channels)), key=lambda at: _worth(channels[at]))
    opposite = tuple(
        at for at, column in enumerate(columns) if at != best and not channels[at].dead and _correlation(columns[best], column) < _OPPOSITE
    )
    return Measures(rate, len(sound) / rate, channels, best, opposite, *drift, lost)


def _worth(channel: Channel) -> tuple[bool, float]:
    level = channel.level if channel.speech is None else channel.speech
    return not channel.dead, level


def _channel(sound: Floats, rate: int, speech: NDArray[np.bool_]) -> Channel:
    mean = float(sound.mean())
    sound = sound - mean
    powers = _windows(sound, rate)
    spoken = np.zeros(len(powers), bool)
    spoken[: len(speech)] = speech[: len(powers)]
    # windows of zeros are no room's: a server that is just starting, or a headset's own gate
    rooms = [powers[~spoken & (powers > _ZEROS)], powers[~spoken], powers]
    quiet = np.sort(next(some for some in rooms if len(some)))
    noise = float(quiet[: max(1, len(quiet) // 10)].mean())
    loud = float(powers[spoken].mean()) if spoken.any() else 0.0
    level = dbfs(float(sound @ sound) / len(sound))
    hum_hz, hum = hum_of(sound, rate)
    return Channel(
        level,
        20 * math.log10(max(float(np.abs(sound + mean).max()), 1e-3) / FULL) if level > SILENCE_DBFS else SILENCE_DBFS,
        dbfs(noise),
        dbfs(max(loud - noise, 0.0)) if loud > noise else None,
        clipped(sound + mean),
        mean / FULL,
        hum_hz,
        hum,
    )


def _windows(sound: Floats, rate: int) -> Floats:
    """Variance of each whole window: a slow wave of the loud ones is no noise of the others. Of all where it is shorter than one."""
    size = rate * WINDOW_MS // 1000
    if len(sound) < size:
        return np.array([float(sound.var())])
    powers: Floats = sound[: len(sound) // size * size].reshape(-1, size).var(axis=1)
    return powers


def _correlation(one: Floats, other: Floats) -> float:
    one, other = one - one.mean(), other - other.mean()
    norm = math.sqrt(float(one @ one) * float(other @ other))
    return float(one @ other) / norm if norm else 0.0


def clipped(sound: Floats) -> float:
    """Part of the samples that stand at an end of the scale, three or more in a row.

    The end is where the converter ends: one that ends below full scale has many samples at its greatest value, and nothing beyond.
    """
    top = float(np.abs(sound).max())
    if top < FULL / 4:
        return 0.0
    count = 0
    for at_end in (sound >= top - 1, sound <= 1 - top):
        edges = np.flatnonzero(np.diff(np.concatenate(([0], at_end.view(np.int8), [0]))))
        runs = edges[1::2] - edges[::2]
        count += int(runs[runs >= _CLIPPED_RUN].sum())
    return count / len(sound)


_HUM_OVERTONES = 5
_HUM_CLEAR = 10.0  # times the power of the bands beside them


def hum_of(sound: Floats, rate: int) -> tuple[int, float]:
    """The mains that hums, 50 or 60 Hz (0: none does), and its dBFS with four overtones; in the quieter half of the seconds.

    A line counts where it stands 10 dB above what is 3 to 6 Hz beside it: a voice or a fan is broader.
    """
    if len(sound) < rate:
        return 0, SILENCE_DBFS
    seconds = sound[: len(sound) // rate * rate].reshape(-1, rate)
    order = np.argsort(np.einsum("ij,ij->i", seconds, seconds))
    window = np.hanning(rate)
    quiet = seconds[order[: max(1, (len(order) + 1) // 2)]] * window
    spectrum = (np.abs(np.fft.rfft(quiet, axis=1)) ** 2).mean(axis=0) * 2 / (rate * float(window @ window))  # bin k is k Hz
    best = (0, 0.0)
    for mains in (50, 60):
        power = 0.0
        for line in range(mains, mains * _HUM_OVERTONES + 1, mains):
            if line + 7 >= len(spectrum):
                break
            own = float(spectrum[line - 1 : line + 2].sum())
            beside = float(np.concatenate((spectrum[line - 6 : line - 2], spectrum[line + 3 : line + 7])).mean()) * 3
            if own > _HUM_CLEAR * max(beside, 1e-12):
                power += own
        if power > best[1]:
            best = mains, power
    return (best[0], dbfs(best[1])) if best[1] > 1e-3 else (0, SILENCE_DBFS)


def drift_of(marks: Iterable[tuple[int, int]], rate: int) -> tuple[float, float]:
    """How much faster than its rate a device counts, in ppm, and twice the standard error of that.

    marks   (frames so far, nanoseconds of CLOCK_MONOTONIC) after each read; losses are counted in the frames
    A read returns late, never early: what counts is the least lateness in each of twenty pieces.
    """
    pairs = np.array(list(marks), np.float64).reshape(-1, 2)
    if len(pairs) < 40:
        return 0.0, math.inf
    frames, at = pairs[:, 0], (pairs[:, 1] - pairs[0, 1]) / 1e9
    late = at - (frames - frames[0]) / rate
    pieces = np.array_split(np.arange(len(at)), 20)
    least = np.array([piece[late[piece].argmin()] for piece in pieces])
    x, y = at[least] - at[least].mean(), late[least]
    slope = float(x @ (y - y.mean()) / (x @ x))
    rest = y - y.mean() - slope * x
    error = 2 * math.sqrt(float(rest @ rest) / (len(x) - 2) / float(x @ x))
    return -slope * 1e6, error * 1e6


def place_of(burst: Floats, sound: Floats) -> tuple[int, float]:
    """Where a burst begins in a sound, and how clearly: its correlation there, as a multiple of the greatest one elsewhere."""
    size = 1 << (len(sound) + len(burst) - 1).bit_length()
    found = np.abs(np.fft.irfft(np.fft.rfft(sound, size) * np.conj(np.fft.rfft(burst, size)), size)[: max(1, len(sound) - len(burst) + 1)])
    at = int(found.argmax())
    elsewhere = np.concatenate((found[: max(0, at - len(burst))], found[at + len(burst) :]))
    return at, float(found[at] / max(float(elsewhere.max()) if len(elsewhere) else 0.0, 1e-9))
