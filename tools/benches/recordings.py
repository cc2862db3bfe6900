"""The sound that the benches let voiced hear: of the recording that comes with it, and of no speech at all.

What lives here: sound. All of it is int16, mono, 16 kHz, and the same in every run.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import soundfile
import voiced
from voiced.audio import Samples
from voiced.sources.wavfile import read_audio
from voiced.units import RATE, to_samples

DATA = Path(voiced.__file__).parent / "data"

_BEFORE_MS = 500
"""Sound before a phrase, and silence after a turn: enough for the head to hear it, and for the turn to close by its rules."""


def sample() -> Samples:
    """Two turns, and talk between them that wakes nobody."""
    return read_audio(DATA / "sample.flac")[0]


def silence(seconds: float) -> Samples:
    """Digital silence: a muted device."""
    return np.zeros(round(seconds * RATE), np.int16)


def room(seconds: float, dbfs: float = -70.0) -> Samples:
    """A quiet room: white noise of this root mean square."""
    noise = np.random.default_rng(0).normal(scale=32768 * 10 ** (dbfs / 20), size=round(seconds * RATE))
    return np.rint(noise).astype(np.int16)


def talk() -> Samples:
    """All that is said in the sample but the phrase, without a pause."""
    heard, known = sample(), facts()
    return np.concatenate([heard[part["speech_start"] : part["speech_end"]] for part in (*known["talk"], *known["turns"])])


def long_turn(seconds: float = 10.0) -> Samples:
    """The phrase, and then all that is said in the sample, over and over and without a pause, for so long."""
    heard, first = sample(), facts()["turns"][0]
    speech = np.resize(talk(), round(seconds * RATE))
    head = heard[first["phrase_start"] - to_samples(_BEFORE_MS) : first["speech_start"]]
    return np.concatenate((head, speech, silence(2.0)))


def facts() -> dict[str, Any]:
    known: dict[str, Any] = json.loads((DATA / "sample.json").read_text(encoding="utf-8"))
    return known


def write(path: Path, sound: Samples) -> Path:
    soundfile.write(path, sound, RATE, subtype="PCM_16")
    return path
