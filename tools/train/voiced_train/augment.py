"""What a microphone, a room and a line do to speech, so that one recording becomes several.

What lives here: arithmetic on float32 sound at 16 kHz, every draw from the generator handed in. What must not: texts,
features, what the shape of an utterance is (utterances.py).
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from voiced.errors import InputError

from .features import read_sound
from .sound import RATE, Sound, at_level, room_noise

_SHARE_ALIKE = re.compile(r"BY-SA|GPL", re.IGNORECASE)
_LONGEST_NOISE_S = 60
_LONGEST_ROOM_S = 1.0


@dataclass(frozen=True, slots=True)
class Scenery:
    """Noises (int16, some seconds each) and room responses (float32, from their direct sound on, energy one)."""

    noises: tuple[NDArray[np.int16], ...]
    rooms: tuple[Sound, ...]

    @classmethod
    def read(cls, manifest: Path) -> Scenery:
        """The roles noise, music and rir of a manifest, but for share-alike ones. Raises InputError."""
        noises: list[NDArray[np.int16]] = []
        rooms: list[Sound] = []
        for line in manifest.read_text(encoding="utf-8").splitlines():
            entry = json.loads(line)
            if entry["role"] not in ("noise", "music", "rir") or _SHARE_ALIKE.search(entry["licence"]):
                continue
            sound = read_sound(manifest.parent / entry["path"])
            if entry["role"] == "rir":
                if entry["seconds"] < 4:
                    room = sound[int(np.abs(sound).argmax()) :][: round(_LONGEST_ROOM_S * RATE)]
                    rooms.append(room / np.sqrt((room**2).sum()))
            elif len(sound) > RATE and sound.any():
                noises.append((sound[: _LONGEST_NOISE_S * RATE] * 32767).astype(np.int16))
        if not (noises and rooms):
            raise InputError(str(manifest), "names no noise, or no room response")
        return cls(tuple(noises), tuple(rooms))


def speed(sound: Sound, factor: float) -> Sound:
    """Faster and higher by `factor`."""
    import soxr

    changed: Sound = soxr.resample(sound, RATE * factor, RATE, quality="QQ").astype(np.float32)
    return changed


def in_room(sound: Sound, room: Sound, wet: float) -> Sound:
    """Convolved with a room response, mixed with the dry sound; of the same length, nothing delayed."""
    size = 1 << (len(sound) + len(room) - 2).bit_length()
    echo = np.fft.irfft(np.fft.rfft(sound, size) * np.fft.rfft(room, size), size)[: len(sound)]
    return ((1 - wet) * sound + wet * echo).astype(np.float32)


def with_noise(sound: Sound, noise: Sound, snr_db: float) -> Sound:
    """`noise`, repeated or cut to length, so far below the sound's mean power."""
    tiled = np.resize(noise, len(sound))
    power, below = float((sound**2).mean()), float((tiled**2).mean())
    if not (power and below):
        return sound
    return (sound + tiled * np.sqrt(power / below) * 10 ** (-snr_db / 20)).astype(np.float32)


def telephone(sound: Sound) -> Sound:
    """8 kHz and µ-law, as G.711 has it."""
    import soxr

    narrow = np.clip(soxr.resample(sound, RATE, RATE // 2, quality="QQ"), -1, 1)
    code = np.round(np.sign(narrow) * np.log1p(255 * np.abs(narrow)) / np.log(256) * 127)
    decoded = np.sign(code) * np.expm1(np.abs(code) / 127 * np.log(256)) / 255
    wide: Sound = soxr.resample(decoded, RATE // 2, RATE, quality="QQ").astype(np.float32)
    return np.resize(wide, len(sound)) if len(wide) < len(sound) else wide[: len(sound)]


def disturbed(sound: Sound, scenery: Scenery, rng: np.random.Generator) -> Sound:
    """A room (in a third), noise (in a half: 8 to 30 dB below, else 30 to 50), a telephone (in 5 %), a level. Length is kept."""
    if rng.random() < 0.33:
        sound = in_room(sound, scenery.rooms[rng.integers(len(scenery.rooms))], rng.uniform(0.3, 1))
    if rng.random() < 0.5:
        noise = scenery.noises[rng.integers(len(scenery.noises))]
        start = int(rng.integers(max(len(noise) - len(sound), 0) + 1))
        sound = with_noise(sound, noise[start : start + len(sound)].astype(np.float32), rng.uniform(8, 30))
    else:
        sound = with_noise(sound, room_noise(len(sound), -40, rng), rng.uniform(30, 50))
    if rng.random() < 0.05:
        sound = telephone(at_level(sound, -20))
    return at_level(sound, rng.uniform(-38, -14))
