"""Where speech begins and ends in a clip, and the clip made longer: a quiet tail, a pause in the middle.

What lives here: arithmetic on int16 sound at 16 kHz. What must not: files, models; a VAD's probabilities are handed in.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from voiced.api import RATE, Samples, SegmentRules, segments, to_samples

VAD_HOP = 512
"""Samples a probability stands for."""

_FRAME = RATE // 100
"""10 ms: what a level is taken over."""
_LINGER = to_samples(96)
"""A VAD may let go before a quiet last consonant has ended: so far after it the end is looked for."""
_LATE = to_samples(200)
"""No VAD lets go later than that after the sound: where noise drowns the end of a word, it ends so long before."""
_BELOW_PEAK_DB = 40.0
_ABOVE_FLOOR_DB = 12.0
_LOWEST_DB = -90.0
_SPEECH_WITHIN_DB = 20.0
_GAP = to_samples(60)
"""A pause is put where so long a stretch is the quietest: the closure of a consonant is shorter."""
_MIDDLE = (0.3, 0.7)
"""The part of the speech where a pause may be put."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """[start, end) of a clip's speech, and the stretches of it that a VAD parts by 0.2 s of silence or more."""

    start: int
    end: int
    stretches: tuple[tuple[int, int], ...]


def levels_db(samples: Samples) -> NDArray[np.float64]:
    """dBFS of each 10 ms, −90 at the least; a rest shorter than that is left out."""
    frames = samples[: len(samples) // _FRAME * _FRAME].reshape(-1, _FRAME).astype(np.float64) / 32768
    levels: NDArray[np.float64] = np.maximum(10 * np.log10(np.maximum((frames**2).mean(1), 1e-12)), _LOWEST_DB)
    return levels


def floor_db(samples: Samples) -> float:
    """dBFS of a clip's quiet: the tenth of its 10 ms that is quietest."""
    return float(np.quantile(levels_db(samples), 0.1))


def speech_db(samples: Samples) -> float:
    """dBFS of a clip's speech: the mean power of the 10 ms that are within 20 dB of the loudest."""
    levels = levels_db(samples)
    loud = levels[levels > levels.max() - _SPEECH_WITHIN_DB]
    return float(10 * np.log10((10 ** (loud / 10)).mean()))


def in_noise(samples: Samples, below_db: float, seed: Sequence[int]) -> Samples:
    """The sound in a room whose noise is so far below the clip's speech."""
    noise = room_noise(len(samples), speech_db(samples) - below_db, np.random.default_rng(seed))
    sound: Samples = np.clip(samples.astype(np.int32) + noise, -32768, 32767).astype(np.int16)
    return sound


def speech_bounds(samples: Samples, probabilities: Sequence[float], *, on: float, off: float) -> Bounds:
    """Speech by the VAD, without padding, and its end by the ear: the last 10 ms, up to 96 ms after the VAD let go, that stand 12 dB above
    the clip's quiet (a third of the way to its peak where that is less) and at most 40 dB below its peak; never more than 200 ms before the
    VAD let go. A VAD alone lets go some 100 ms late, which would make every end token look earlier than it is.

    probabilities  one a window of VAD_HOP. Raises ValueError where the VAD finds no speech.
    """
    rules = SegmentRules(on, off, min_silence=to_samples(200), min_speech=to_samples(64), pad=0)
    found = segments(probabilities, rules, VAD_HOP)
    if not found:
        raise ValueError("the VAD finds no speech in it")
    levels = levels_db(samples)
    threshold = _stands_out_db(levels)
    first, last = found[-1][0] // _FRAME, min(found[-1][1] + _LINGER, len(samples)) // _FRAME
    loud = np.nonzero(levels[first:last] >= threshold)[0]
    heard = (first + int(loud[-1]) + 1) * _FRAME if len(loud) else 0
    end = max(heard, found[-1][1] - _LATE)
    return Bounds(found[0][0], end, (*found[:-1], (found[-1][0], end)))


def _stands_out_db(levels: NDArray[np.float64]) -> float:
    floor, peak = float(np.quantile(levels, 0.1)), float(levels.max())
    return max(peak - _BELOW_PEAK_DB, floor + min(_ABOVE_FLOOR_DB, (peak - floor) / 3))


def quiet_around(samples: Samples, place: int) -> tuple[int, int]:
    """[first, last) of the pause that is there already: the 10 ms around `place` that do not stand out of the clip's quiet; in whole
    frames, empty at `place` where that one does."""
    levels = levels_db(samples)
    loud = levels >= _stands_out_db(levels)
    at = min(place // _FRAME, len(loud) - 1)
    if loud[at]:
        return place, place
    before, after = np.nonzero(loud[:at])[0], np.nonzero(loud[at:])[0]
    return (int(before[-1]) + 1 if len(before) else 0) * _FRAME, (at + int(after[0]) if len(after) else len(loud)) * _FRAME


def pause_place(samples: Samples, bounds: Bounds) -> int:
    """Where a pause fits between two words of the middle: in the longest gap that the VAD leaves there, else in the quietest 60 ms."""
    length = bounds.end - bounds.start
    first, last = (bounds.start + round(part * length) for part in _MIDDLE)
    gaps = [(after - before, (before + after) // 2) for (_, before), (after, _) in pairwise(bounds.stretches)]
    if inside := [gap for gap in gaps if first <= gap[1] < last]:
        return max(inside)[1]
    return quietest(samples, first, last)[0]


def quietest(samples: Samples, first: int, last: int) -> tuple[int, float]:
    """The middle of the 60 ms that are quietest in [first, last), and their energy; `first` where it is shorter."""
    energy = np.cumsum(np.concatenate([[0.0], samples[first : max(last, first + _GAP)].astype(np.float64) ** 2]))
    if len(energy) <= _GAP:
        return first, float(energy[-1])
    sums = energy[_GAP:] - energy[:-_GAP]
    at = int(np.argmin(sums))
    return first + _GAP // 2 + at, float(sums[at])


def room_noise(count: int, dbfs: float, random: np.random.Generator) -> Samples:
    """int16 (count,): noise as a quiet room has it, flat below 60 Hz and falling by 3 dB an octave above."""
    if not count:
        return np.zeros(0, np.int16)
    spectrum = np.fft.rfft(random.standard_normal(count))
    hertz = np.fft.rfftfreq(count, 1 / RATE)
    noise = np.fft.irfft(spectrum / np.sqrt(np.maximum(hertz, 60)), count)
    noise *= 32768 * 10 ** (dbfs / 20) / max(float(np.sqrt((noise**2).mean())), 1e-12)
    return np.clip(np.round(noise), -32768, 32767).astype(np.int16)


def with_quiet(samples: Samples, at: int, count: int, seed: Sequence[int]) -> Samples:
    """The sound with `count` samples of its own room's quiet put in before `at`."""
    quiet = room_noise(count, floor_db(samples), np.random.default_rng(seed))
    return np.concatenate((samples[:at], quiet, samples[at:]))
