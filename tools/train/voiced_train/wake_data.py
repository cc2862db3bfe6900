"""Examples for a wake head: where a phrase is said in a recording, and what a room, a line and talk do to it.

What lives here: recordings of a phrase made into windows with their distance from the phrase's end, and foreign sound made into windows.
What must not: the head, its training, how voices speak. Every draw comes from a generator seeded by the recording's name, so a recording
gives the same windows whatever else there is.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from voiced.errors import InputError
from voiced.stages.features import EMBEDDINGS, HISTORY_HOPS, HOP, WakeFeatures

from .augment import Scenery, disturbed, in_room, with_noise
from .features import read_sound
from .head import Examples
from .sound import RATE, Sound, at_level, faded, room_noise, silence, speech_bounds_in_noise
from .wake_split import Part, Recording, draw
from .wake_tracks import Progress, Tracks, cached, join, listen, silent

EARLY_MS, LATE_MS = -320, 320
"""From the phrase's end (by ear, some 80 ms after its last clear sound) to the end of a hop: the windows that shall score high. Earlier
ones lack a sound that tells the phrase from its near words; a later one still holds all of it."""

BEGUN_MS = -400
"""Up to here a window of the phrase's own recording is foreign: the phrase is not begun, or half of it is still to come."""

_BEFORE_HOPS = 9
_AFTER_HOPS = 5
_LEAD = (HISTORY_HOPS + _BEFORE_HOPS) * HOP
"""Sound before the phrase's end that its windows can see."""

_LONGEST_RECORDING_S = 8.0
_FRAME = RATE // 100
_NOTHING_DBFS = -95.0
"""Below the noise of any microphone, above what a codec makes of zeros."""
_TALK_S = 3.0


@dataclass(frozen=True, slots=True)
class Said:
    """One saying of a phrase: float32 at 16 kHz, [start, end) of the phrase in it."""

    name: str
    sound: Sound
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Scene:
    """What stands around a phrase. `talk`: sentences, each from its first word on."""

    scenery: Scenery
    talk: tuple[Sound, ...]


def said(name: str, sound: Sound) -> Said:
    """Raises ValueError where nothing is said in it."""
    first, last = _recorded_part(sound)
    start, end = speech_bounds_in_noise(sound[first:last])
    if end - start < RATE // 10:
        raise ValueError(f"{name}: {end - start} samples of speech are no phrase")
    return Said(name, sound, first + start, first + end)


def _recorded_part(sound: Sound) -> tuple[int, int]:
    """[first, last) without the digital silence that some sets add: beside it a room's own noise looks like speech."""
    frames = sound[: len(sound) // _FRAME * _FRAME].reshape(-1, _FRAME)
    heard = np.nonzero((frames**2).mean(1) > 10 ** (_NOTHING_DBFS / 10))[0]
    if not len(heard):
        raise ValueError("said wants sound; got digital silence")
    return int(heard[0]) * _FRAME, int(heard[-1] + 1) * _FRAME


def recorded(recordings: Iterable[Recording]) -> Iterator[Said]:
    """Those that hold a phrase; the others are passed over. Raises InputError for a file that is no sound."""
    for one in recordings:
        if one.seconds <= _LONGEST_RECORDING_S:
            try:
                yield said(one.name, read_sound(one.path))
            except ValueError:
                continue


def scene(recordings: Sequence[Recording], manifest: Path, *, talkers: int = 120) -> Scene:
    """Noise and talk of the training part, and all rooms. Raises InputError where there is no noise, room or talk."""
    rooms = Scenery.read(manifest).rooms
    mine = [one for one in recordings if one.part == "train" and one.free]
    noises = [read_sound(one.path)[: 30 * RATE] for one in mine if one.role in ("noise", "music")]
    speech = sorted((one for one in mine if one.role in ("asr", "command")), key=lambda one: draw(one.name))[:talkers]
    talk = []
    for one in speech:
        sound = read_sound(one.path)
        if len(sound) > RATE:
            talk.append(sound[speech_bounds_in_noise(sound)[0] :][: round(_TALK_S * RATE)])
    loud = tuple((noise * 32767).astype(np.int16) for noise in noises if len(noise) > RATE and noise.any())
    if not (loud and talk):
        raise InputError(str(manifest), "has no noise, or no talk, in its training part")
    return Scene(Scenery(loud, rooms), tuple(talk))


# ── phrases ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def staged(one: Said, around: Scene, copy: int, random: np.random.Generator) -> tuple[Sound, int]:
    """A copy of the saying, and where its phrase ends. Copy 0 is the recording as it is, with quiet before and after."""
    tail = (_AFTER_HOPS + 1) * HOP
    if copy == 0:
        quiet = float(random.uniform(-75, -55))
        before, after = room_noise(_LEAD, quiet, random), room_noise(tail, quiet, random)
        return np.concatenate((before, one.sound, after)), len(before) + one.end
    first, last = max(one.start - RATE // 10, 0), min(one.end + RATE // 20, len(one.sound))
    core = faded(at_level(one.sound[first:last], -24))
    lead, follow = silence(1000 * _LEAD / RATE), silence(1000 * tail / RATE)
    if random.random() < 0.4:
        talk = at_level(around.talk[random.integers(len(around.talk))], float(random.uniform(-30, -22)))
        gap = int(random.uniform(0.15, 0.6) * RATE)
        part = faded(talk[: _LEAD - gap])
        lead[_LEAD - gap - len(part) : _LEAD - gap] = part
    if random.random() < 0.5:
        talk = at_level(around.talk[random.integers(len(around.talk))], float(random.uniform(-28, -22)))
        gap = int(random.uniform(0.0, 0.15) * RATE)
        part = talk[: tail - gap]
        follow[gap : gap + len(part)] = part
    sound = np.concatenate((lead, core, follow))
    return roughened(sound, around, random), len(lead) + one.end - first


def roughened(sound: Sound, around: Scene, random: np.random.Generator) -> Sound:
    """Half as any recording for training is, half in a noise that leaves 0 to 20 dB, in a third of the cases in a room."""
    if random.random() < 0.5:
        return disturbed(sound, around.scenery, random)
    if random.random() < 0.33:
        sound = in_room(sound, around.scenery.rooms[random.integers(len(around.scenery.rooms))], float(random.uniform(0.3, 1)))
    noise = around.scenery.noises[random.integers(len(around.scenery.noises))]
    start = int(random.integers(max(len(noise) - len(sound), 0) + 1))
    sound = with_noise(sound, noise[start : start + len(sound)].astype(np.float32), float(random.uniform(0, 20)))
    return at_level(sound, float(random.uniform(-38, -14)))


def phrase_tracks(
    features: WakeFeatures, sayings: Sequence[Said], around: Scene, copies: int, progress: Progress = silent, what: str = "phrases"
) -> Tracks:
    """`copies` tracks of each saying, around its phrase; the names end in `@` and the sample of the phrase's end in the track."""

    def sounds() -> Iterator[tuple[str, Sound]]:
        for at, one in enumerate(sayings):
            for copy in range(copies):
                random = np.random.default_rng((zlib.crc32(one.name.encode()), copy))
                sound, end = staged(one, around, copy, random)
                # the grid of hops falls anywhere on the phrase
                first = max(end - _LEAD + int(random.integers(HOP)), 0)
                cut = sound[first : first + _LEAD + (_AFTER_HOPS + 1) * HOP]
                yield f"{one.name}#{copy}@{end - first}", cut
            progress(what, at + 1, len(sayings))

    return listen(features, sounds())


def phrase_end(name: str) -> int:
    """Of a track that `phrase_tracks` made."""
    found = re.search(r"@(\d+)$", name)
    if not found:
        raise ValueError(f"{name!r} does not say where its phrase ends")
    return int(found[1])


def examples(phrases: Tracks, foreign: Tracks) -> Examples:
    """The windows of the phrases sorted into those that shall score high, those that shall not, and those that do not matter."""
    hits, hit_of, others = [], [], []
    for at, (name, start, hops) in enumerate(zip(phrases.names, phrases.starts, phrases.hops, strict=True)):
        offsets = ((np.arange(hops) + 1) * HOP - phrase_end(name)) * 1000 / RATE
        seen = np.arange(hops) >= EMBEDDINGS + 8  # before that a window holds rows of the ring's birth
        high = np.nonzero((offsets >= EARLY_MS) & (offsets <= LATE_MS))[0]
        hits.append(start + high)
        hit_of.append(np.full(len(high), at))
        others.append(start + np.nonzero((offsets <= BEGUN_MS) & seen)[0])
    return Examples(phrases, _joined(hits), _joined(hit_of), _joined(others), foreign)


def _joined(parts: Sequence[NDArray[np.int64]]) -> NDArray[np.int64]:
    return np.concatenate((np.zeros(0, np.int64), *parts)).astype(np.int64)


# ── foreign sound ──────────────────────────────────────────────────────────────────────────────────────────────────────


def foreign_groups(recordings: Sequence[Recording], where: Part, reads_s: float) -> dict[str, list[Recording]]:
    """Sound without any wake phrase by its role and source; of what was read aloud so many seconds, drawn by name."""
    groups: dict[str, list[Recording]] = {}
    reads = []
    for one in recordings:
        if one.part != where or one.phrase or (where == "train" and not one.free):
            continue
        if one.role == "asr":
            reads.append(one)
        else:
            groups.setdefault(f"{one.role}-{one.source}", []).append(one)
    return groups | {"asr": at_most(reads, reads_s)}


def at_most(recordings: Sequence[Recording], seconds: float) -> list[Recording]:
    """So much of them, drawn by name: more seconds begin with the same ones."""
    kept, length = [], 0.0
    for one in sorted(recordings, key=lambda one: draw(f"cap {one.name}")):
        if length + one.seconds > seconds:
            break
        kept.append(one)
        length += one.seconds
    return kept


def foreign_tracks(
    features: WakeFeatures, recordings: Sequence[Recording], where: Part, reads_s: float, cache: Path, progress: Progress = silent
) -> Tracks:
    """All of it, each group kept on disk."""
    groups, parts, done = foreign_groups(recordings, where, reads_s), [], 0
    total = round(sum(one.seconds for group in groups.values() for one in group))
    for name, group in groups.items():

        def make(group: list[Recording] = group, done: int = done) -> Tracks:
            def sounds() -> Iterator[tuple[str, Sound]]:
                at = float(done)
                for one in group:
                    yield one.name, read_sound(one.path)
                    at += one.seconds
                    progress(f"foreign sound ({where}), seconds", round(at), total)

            return listen(features, sounds())

        parts.append(cached(cache, f"foreign {where} {name}", [one.name for one in group], make))
        done += round(sum(one.seconds for one in group))
    return join(parts)
