"""What a wake word is judged by: its phrase in quiet and in noise, and all the hours in which it is not said.

What lives here: the clips and their embeddings, kept on disk. What must not: scores, thresholds. Only the test part of the recordings is
used (voiced_train.wake_split), which no head of ours has learnt from; noise comes from the test part too, drawn by the clip's name, so the
same data give the same clips.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from voiced.api import RATE, InputError, Samples, WakeFeatures
from voiced_train.features import read_sound
from voiced_train.sound import Sound, room_noise
from voiced_train.wake_data import Said, foreign_groups, recorded
from voiced_train.wake_split import Recording, draw, holds, read, saying
from voiced_train.wake_tracks import Progress, Tracks, cached, join, listen, pcm, without

CONDITIONS: tuple[tuple[str, float | None], ...] = (("clean", None), ("10 dB", 10.0), ("0 dB", 0.0))
"""Name and signal-to-noise ratio: mean power of the phrase over mean power of the noise."""

_LEAD_S, _TAIL_S = 1.0, 0.7
_QUIET_DBFS = -70.0
_AFTER_FOREIGN_S = 0.3

_BLOCK = 250
"""Recordings kept in one file: what was computed of a shorter run serves a longer one."""


@dataclass(frozen=True, slots=True)
class Clip:
    """A piece of sound to be judged by. `end` is the phrase's, a sample; 0 where there is no phrase. `sound()` reads it again."""

    name: str
    kind: str
    end: int
    sound: Callable[[], Samples] = field(repr=False)


@dataclass(frozen=True, slots=True)
class Judged:
    """Clips and their embeddings, in the same order."""

    clips: tuple[Clip, ...]
    tracks: Tracks

    @property
    def hours(self) -> float:
        return self.tracks.hours


@dataclass(frozen=True, slots=True)
class Material:
    """The test part of a folder."""

    recordings: tuple[Recording, ...]
    noises: tuple[Recording, ...]
    features: WakeFeatures
    cache: Path
    progress: Progress


def material(data: Path, features: WakeFeatures, cache: Path, progress: Progress) -> Material:
    """Raises InputError where the manifest cannot be read or its test part has no foreign sound or no noise."""
    recordings = tuple(one for one in read(data / "manifest.jsonl") if one.part == "test")
    noises = tuple(one for one in recordings if one.role in ("noise", "music") and one.seconds >= 2)
    if not any(one for one in recordings if not one.phrase and one.role not in ("noise", "music")) or not noises:
        raise InputError(str(data / "manifest.jsonl"), "has no speech without a phrase, or no noise, in its test part")
    return Material(recordings, noises, features, cache, progress)


def phrases(found: Material) -> list[str]:
    """The phrases that the test part has recordings of, the most recorded first."""
    names = [one.phrase for one in found.recordings if one.phrase]
    return sorted(set(names), key=lambda name: (-names.count(name), name))


Stage = Callable[[Said], tuple[Sound, int]]
"""What is done to a saying: float32 at 16 kHz, and where its phrase ends. The same saying gives the same sound."""


def said_in(found: Material, phrase: str, more: Sequence[Said], condition: tuple[str, float | None], limit: int | None) -> Judged:
    """The phrase's own clips: a second of quiet, the recording, more quiet, and noise over all of it."""
    name, ratio = condition
    return said_as(found, phrase, more, name, in_quiet if ratio is None else partial(noisy, ratio=ratio, noises=found.noises), limit)


def said_as(found: Material, phrase: str, more: Sequence[Said], name: str, stage: Stage, limit: int | None) -> Judged:
    """The phrase's own clips, made by `stage`; `name` is the condition's, and of what is kept on disk."""
    mine = sorted((one for one in found.recordings if one.phrase and holds(one.phrase, phrase)), key=lambda one: draw(one.name))
    sayings = [*recorded(mine[:limit]), *more[:limit]]
    made = [stage(one) for one in sayings]
    clips = tuple(Clip(one.name, name, end, partial(_staged_pcm, stage, one)) for one, (_, end) in zip(sayings, made, strict=True))
    what = f"judged {phrase} {name}"
    key = [f"{one.name} {one.start} {one.end}" for one in sayings]
    sounds = ((one.name, sound) for one, (sound, _) in zip(sayings, made, strict=True))
    tracks = cached(found.cache, what, key, lambda: listen(found.features, _told(sounds, what, len(sayings), found.progress)))
    return Judged(clips, tracks)


def in_quiet(
    one: Said, heard: Callable[[Sound], Sound] = lambda sound: sound, random: np.random.Generator | None = None
) -> tuple[Sound, int]:
    """A second of quiet, the recording, more quiet; `heard` is what becomes of it on its way through the room."""
    lead, tail = round(_LEAD_S * RATE), round(_TAIL_S * RATE)
    sound = heard(np.concatenate((np.zeros(lead, np.float32), one.sound, np.zeros(tail, np.float32))))
    return sound + room_noise(len(sound), _QUIET_DBFS, random or _random(one)), lead + one.end


def noisy(one: Said, ratio: float, noises: Sequence[Recording]) -> tuple[Sound, int]:
    """Over it one of these, drawn by its name, `ratio` dB below the phrase."""
    random = _random(one)
    sound, end = in_quiet(one, random=random)
    noise = np.zeros(0, np.float32)
    while not noise.any():
        noise = read_sound(noises[int(random.integers(len(noises)))].path)
    noise = np.resize(np.roll(noise, -int(random.integers(len(noise)))), len(sound))
    power = float((one.sound[one.start : one.end] ** 2).mean())
    sound = sound + noise * np.float32(np.sqrt(power / float((noise**2).mean())) * 10 ** (-ratio / 20))
    sound = sound * np.float32(min(1.0, 0.99 / float(np.abs(sound).max())))
    return sound.astype(np.float32), end


def _random(one: Said) -> np.random.Generator:
    return np.random.default_rng(zlib.crc32(one.name.encode()))


def _staged_pcm(stage: Stage, one: Said) -> Samples:
    return pcm(stage(one)[0])


def foreign(found: Material, reads_s: float) -> Judged:
    """Everything without any wake phrase; of what was read aloud at most so many seconds."""
    parts = []
    for name, group in foreign_groups(found.recordings, "test", reads_s).items():
        blocks = range(0, len(group), _BLOCK)
        parts += [_plain(found, f"{name} {first // _BLOCK}", group[first : first + _BLOCK]) for first in blocks]
    return _join(parts)


def other_phrases(found: Material) -> dict[str, Judged]:
    """Recordings of each phrase, to hold against the heads of the others."""
    names = sorted({one.phrase for one in found.recordings if one.phrase})
    return {name: _plain(found, f"other {name}", [one for one in found.recordings if one.phrase == name]) for name in names}


def against(found: Material, everything: Judged, others: dict[str, Judged], phrase: str) -> Judged:
    """What must not wake the phrase: all foreign sound in which nobody says it, and the phrases that do not hold it."""
    every = _join([everything, *(judged for name, judged in others.items() if not holds(name, phrase))])
    names = saying(found.recordings, phrase)
    return Judged(tuple(clip for clip in every.clips if clip.name not in names), without(every.tracks, names))


def _plain(found: Material, what: str, group: Sequence[Recording]) -> Judged:
    clips = tuple(Clip(one.name, one.role, 0, partial(_padded_pcm, one)) for one in group)
    read_all = ((one.name, _padded(one)) for one in group)
    name = f"judged {what}"
    tracks = cached(
        found.cache, name, [one.name for one in group], lambda: listen(found.features, _told(read_all, name, len(group), found.progress))
    )
    return Judged(clips, tracks)


def _padded(one: Recording) -> Sound:
    """A recording may end with its last word, a score comes later."""
    return np.pad(read_sound(one.path), (0, round(_AFTER_FOREIGN_S * RATE))).astype(np.float32)


def _padded_pcm(one: Recording) -> Samples:
    return pcm(_padded(one))


def _join(parts: Sequence[Judged]) -> Judged:
    return Judged(tuple(clip for part in parts for clip in part.clips), join([part.tracks for part in parts]))


def _told(sounds: Iterable[tuple[str, Sound]], what: str, total: int, progress: Progress) -> Iterator[tuple[str, Sound]]:
    for at, pair in enumerate(sounds):
        yield pair
        progress(what, at + 1, total)


def scores_by_clip(judged: Judged, scores: NDArray[np.float32]) -> list[NDArray[np.float32]]:
    """One array a clip of an array over all windows."""
    return np.split(scores, np.cumsum(judged.tracks.hops)[:-1]) if judged.clips else []
