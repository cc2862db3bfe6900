"""Where a phrase is hard to hear: spoken softly, over music, from across a room, after a "hey"; and words that are nearly it.

What lives here: what is done to the phrase's recordings for each of these, and what the stages make of it at the threshold. What must not:
the clips' cache (wake_clips.py), false accepts (wake_run.py), tables (wake_report.py).

**What is simulated.** A level is gain alone: the recording with its own noise, made quieter, rounded to 16 bits. Music is added, not played
in the room. Distance is a model: a measured response is cut into its direct sound (the first 2.5 ms) and the rest; the direct sound falls
with the distance, the rest, which fills a room evenly, does not, and both are alike at the critical distance. Nobody spoke from three
metres.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
from voiced.api import RATE, InputError, Samples, Settings
from voiced_train.augment import in_room
from voiced_train.features import read_sound
from voiced_train.near_words import near_words
from voiced_train.sound import Sound
from voiced_train.wake_data import Said
from voiced_train.wake_split import draw
from voiced_train.wake_tracks import cached, listen, pcm
from voiced_train.wake_voices import Line, Speaks, spoken, voice_part

from .scores import share
from .wake_cascade import SecondStage, woken
from .wake_clips import Clip, Judged, Material, Stage, in_quiet, noisy, said_as, scores_by_clip
from .wake_measure import best_of, head_scores
from .wake_report import NearWord, Recall

LEVELS_DBFS = (-40.0, -50.0, -60.0)
MUSIC_DB = (0.0, 5.0, 10.0)
DISTANCES_M = (1.0, 3.0, 5.0)
CRITICAL_M = 1.0
"""Where direct and reverberant sound are alike: 0.057 √(Q V / T) of a talker (Q 2) in a furnished room of 60 m³ with T = 0.4 s."""

_DIRECT = RATE * 5 // 2000
_REVERBERATION_S = (0.2, 0.8)
"""From a furnished room to a bare one. Halls, plates and tanks are no rooms that anybody has at home."""
_LONGEST_S = 1.0
_SLOWEST, _FASTEST = 0.85, 1.2
"""How fast they speak, 1 being as they do by themselves."""


# ── arithmetic ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def at_rms(sound: Sound, start: int, end: int, dbfs: float) -> Sound:
    """float32, the whole sound with the same gain, so that [start, end) has this root mean square. Raises ValueError where it is silent."""
    power = float((sound[start:end].astype(np.float64) ** 2).mean())
    if not power > 0:
        raise ValueError(f"at_rms wants sound from {start} to {end}; got digital silence")
    return sound * np.float32(10 ** (dbfs / 20) / np.sqrt(power))


def reverberation_s(response: Sound) -> float:
    """Seconds in which the sound of a room falls by 60 dB, from its fall between −5 and −25 dB (T20 of ISO 3382, by Schroeder's
    integral, 1965). 0 where nothing rings."""
    energy = np.cumsum(response[::-1].astype(np.float64) ** 2)[::-1]
    decibels = 10 * np.log10(np.maximum(energy / energy[0], 1e-12))
    falls = np.nonzero((decibels <= -5) & (decibels >= -25))[0]
    if len(falls) < 2:
        return 0.0
    slope = float(np.polyfit(falls / RATE, decibels[falls], 1)[0])
    return -60 / slope if slope < 0 else 0.0


def at_distance(response: Sound, metres: float) -> Sound:
    """A response from its direct sound on, as it would be so far from the talker: float32, its direct sound of energy (1 / metres)²,
    the rest of energy (1 / CRITICAL_M)²."""
    direct, rest = np.zeros_like(response), response.copy()
    direct[:_DIRECT], rest[:_DIRECT] = response[:_DIRECT], 0
    return (direct * _gain(direct, metres) + rest * _gain(rest, CRITICAL_M)).astype(np.float32)


def _gain(part: Sound, metres: float) -> float:
    energy = float((part.astype(np.float64) ** 2).sum())
    return 1 / (metres * np.sqrt(energy)) if energy else 0.0


# ── the phrase in each ─────────────────────────────────────────────────────────────────────────────────────────────────


def soft(dbfs: float, one: Said) -> tuple[Sound, int]:
    sound, end = in_quiet(one)
    return at_rms(sound, end - (one.end - one.start), end, dbfs), end


def roomy(metres: float, rooms: Sequence[Sound], one: Said) -> tuple[Sound, int]:
    """In a room drawn by the recording's name: the same at every distance. The quiet of the room around it keeps its level."""
    room = rooms[int(draw(f"room {one.name}") * len(rooms))]
    return in_quiet(one, lambda sound: in_room(sound, at_distance(room, metres), 1.0))


def rooms_of(manifest: Path) -> list[Sound]:
    """Responses of rooms, each from its direct sound on, a second at most. Raises InputError where there is none."""
    found = []
    for line in filter(str.strip, manifest.read_text(encoding="utf-8").splitlines()):
        entry = json.loads(line)
        if entry["role"] == "rir" and entry["seconds"] < 4:
            sound = read_sound(manifest.parent / entry["path"])
            response = sound[int(np.abs(sound).argmax()) :][: round(_LONGEST_S * RATE)]
            if response.any() and _REVERBERATION_S[0] <= reverberation_s(response) <= _REVERBERATION_S[1]:
                found.append(response)
    if not found:
        raise InputError(str(manifest), f"names no room response that falls by 60 dB in {_REVERBERATION_S[0]} to {_REVERBERATION_S[1]} s")
    return found


KINDS = ("levels", "music", "rooms")


def conditions(kind: str, found: Material, manifest: Path) -> dict[str, Stage]:
    """What is done to the phrase in each condition of a kind. Raises InputError where the folder lacks what it wants."""
    if kind == "levels":
        return {f"{dbfs:g} dBFS": partial(soft, dbfs) for dbfs in LEVELS_DBFS}
    if kind == "music":
        pieces = [one for one in found.noises if one.role == "music"]
        if not pieces:
            raise InputError(str(manifest), "has no music of two seconds or more in its test part")
        return {f"music {ratio:g} dB": partial(noisy, ratio=ratio, noises=pieces) for ratio in MUSIC_DB}
    rooms = rooms_of(manifest)
    return {f"{metres:g} m": partial(roomy, metres, rooms) for metres in DISTANCES_M}


def said_in_each(
    found: Material, manifest: Path, phrase: str, more: Sequence[Said], kinds: Sequence[str], limit: int | None
) -> dict[str, dict[str, Judged]]:
    """By kind, by condition. Raises InputError where the folder lacks what a kind wants."""
    return {
        kind: {name: said_as(found, phrase, more, name, stage, limit) for name, stage in conditions(kind, found, manifest).items()}
        for kind in kinds
    }


def said_by_voices(found: Material, phrase: str, speaker: Speaks) -> dict[str, Judged]:
    """The phrase, and the phrase after a "hey", by every voice that never trains. Raises FetchError, ModelError."""
    lines = voice_lines(phrase, speaker.voices())
    return {name: _played(found, f"{phrase} {name}", each, speaker) for name, each in lines.items()}


def voice_lines(phrase: str, voices: Sequence[str]) -> dict[str, list[Line]]:
    """By condition: each voice twice, slower and faster."""
    texts = {"by voices": phrase} | ({} if phrase.startswith(("hey ", "hi ", "ok")) else {"hey, by voices": f"hey {phrase}"})
    mine = [voice for voice in voices if voice_part(voice) == "test"]

    def line(text: str, voice: str, slowest: float) -> Line:
        return Line(f"{text.capitalize()}.", voice, round(slowest + 0.17 * draw(f"{text} {voice} {slowest}"), 2))

    return {name: [line(text, voice, slowest) for voice in mine for slowest in (_SLOWEST, _FASTEST - 0.17)] for name, text in texts.items()}


# ── what the stages hear ───────────────────────────────────────────────────────────────────────────────────────────────


def recalls(
    head: Path, said: Mapping[str, Mapping[str, Judged]], settings: Settings, threshold: float, second: SecondStage | None
) -> tuple[Recall, ...]:
    """At the threshold, condition by condition."""
    hops = settings.wake.phrases[0].hops
    found = []
    for kind, each in said.items():
        for name, judged in each.items():
            first, both = _woke(head, judged, hops, threshold, second)
            found.append(Recall(kind, name, share(first), share(both) if both else None))
    return tuple(found)


def _woke(head: Path, judged: Judged, hops: int, threshold: float, second: SecondStage | None) -> tuple[list[bool], list[bool]]:
    """Of each clip: whether the first stage crosses, and whether the second then accepts (none where it is not asked)."""
    scores = head_scores(head, judged)
    first = [peak.score >= threshold for peak in best_of(judged, scores, hops)]
    if second is None:
        return first, []
    answers = [
        woken(second.crossings(clip, track, threshold)) for clip, track in zip(judged.clips, scores_by_clip(judged, scores), strict=True)
    ]
    return first, [answer is not None and answer.accepted for answer in answers]


# ── words that are nearly the phrase ───────────────────────────────────────────────────────────────────────────────────


def near_lines(phrase: str, voices: Sequence[str], count: int) -> list[tuple[str, Line]]:
    """Each near word with its sayings: alone, by so many voices that never train, each at a speed of its own."""
    mine = sorted((voice for voice in voices if voice_part(voice) == "test"), key=lambda voice: draw(f"near {phrase} {voice}"))[:count]
    return [(word, Line(f"{word}.", voice, _speed(f"{word} {voice}"))) for word in near_words(phrase) for voice in mine]


def _speed(name: str) -> float:
    return round(_SLOWEST + (_FASTEST - _SLOWEST) * draw(f"near alone {name}"), 2)


def near_words_said(found: Material, phrase: str, speaker: Speaks, count: int) -> tuple[list[str], Judged]:
    """The word of each clip, and the clips."""
    words, lines = zip(*near_lines(phrase, speaker.voices(), count), strict=True)
    return list(words), _played(found, f"near {phrase}", lines, speaker)


def _played(found: Material, what: str, lines: Sequence[Line], speaker: Speaks) -> Judged:
    """Each line alone in a quiet room."""
    sounds = {line.name: sound for line, sound in spoken(lines, speaker, found.cache / "voices", found.progress, what)}
    sayings = [Said(line.name, sounds[line.name], 0, len(sounds[line.name])) for line in lines]
    clips = tuple(Clip(one.name, what, 0, partial(_quiet_pcm, one)) for one in sayings)
    played: Iterator[tuple[str, Sound]] = ((one.name, in_quiet(one)[0]) for one in sayings)
    return Judged(clips, cached(found.cache, what, list(sounds), lambda: listen(found.features, played)))


def _quiet_pcm(one: Said) -> Samples:
    return pcm(in_quiet(one)[0])


def near_woke(
    head: Path, words: Sequence[str], judged: Judged, settings: Settings, threshold: float, second: SecondStage | None
) -> tuple[NearWord, ...]:
    """Of each near word: how often it was said, how often it woke."""
    first, both = _woke(head, judged, settings.wake.phrases[0].hops, threshold, second)
    found: dict[str, NearWord] = {}
    for at, word in enumerate(words):
        one = found.get(word, NearWord(word, 0, 0, 0 if both else None))
        second_woke = None if one.cascade is None else one.cascade + both[at]
        found[word] = replace(one, sayings=one.sayings + 1, stage1=one.stage1 + first[at], cascade=second_woke)
    return tuple(found.values())
