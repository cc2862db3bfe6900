"""What a training utterance is: a recording as it is, with a pause in it, cut off before its end, or two after each other.

What lives here: shapes, and where each sentence of them ends. What must not: how it sounds in a room (augment.py), labels a
frame (paths.py).

A pause is no end and a query that was cut off has none; a sentence that another follows has its own. Quiet that is put in has
the level of the recording's own, lest a recognizer learn to hear the joint.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .data import Utterance
from .sound import RATE, Sound, at_level, faded, floor_db, room_noise, speech_bounds_in_noise, speech_level_db

_READ_ALOUD = ("librispeech", "ljspeech", "hifitts")
"""Recordings of books: cut where the reader paused, so their ends look like their pauses."""

_SHORTEST_PAUSE_S, _LONGEST_PAUSE_S = 0.3, 1.4
_LONGEST_LEAD_S = 0.35
_SHORTEST_TAIL_S, _LONGEST_TAIL_S = 0.8, 1.4
_LONGEST_JOINED_S = 14.0
_HUSH_S = (0.06, 0.35)


@dataclass(frozen=True, slots=True)
class Cut:
    """Between two words of a recording: `words` of them lie before it, the quiet is somewhere in [start, end) samples."""

    words: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Sentence:
    """A part of a take.

    end       sample after its last speech
    complete  an end token belongs after it
    patient   and only after some silence, since its end sounds like a pause
    """

    text: str
    end: int
    complete: bool
    patient: bool


@dataclass(frozen=True, slots=True)
class Take:
    """float32 at 16 kHz; `lead` is the sample at which the first recording begins, `quiet` are spans [start, end) that were put in."""

    sound: Sound
    sentences: tuple[Sentence, ...]
    lead: int
    shape: str
    quiet: tuple[tuple[int, int], ...] = ()


def is_patient(utterance: Utterance) -> bool:
    return utterance.source.startswith(_READ_ALOUD)


def plain(utterance: Utterance, sound: Sound, rng: np.random.Generator) -> Take:
    """As it is, with a lead of 0 … 0.35 s and a tail of 0.8 … 1.4 s of its own quiet."""
    return _framed([(utterance.text, sound, utterance.complete, is_patient(utterance))], [], sound, rng, "plain")


def shaped(
    utterance: Utterance, sound: Sound, cuts: Sequence[Cut], partner: tuple[Utterance, Sound] | None, rng: np.random.Generator
) -> Take:
    """One of the shapes by a draw: a pause (30 %), cut off (12 %), joined to `partner` (20 %), else plain.

    What an utterance is too short for is plain.
    """
    draw, patient = rng.random(), is_patient(utterance)
    words = utterance.text.split()
    if draw < 0.42 and cuts:
        cut = cuts[int(rng.integers(len(cuts)))]
        at = quietest(sound, cut.start, cut.end)
        if draw < 0.12:
            begun = [(" ".join(words[: cut.words]), faded(sound[:at]), False, patient)]
            return _framed(begun, [], sound, rng, "cut-off")
        pause = float(rng.uniform(_SHORTEST_PAUSE_S, _LONGEST_PAUSE_S))
        quiet = _quiet(pause, sound, rng)
        joined = np.concatenate([faded(sound[:at]), quiet, faded(sound[at:])])
        return _framed([(utterance.text, joined, utterance.complete, patient)], [], sound, rng, "pause", [(at, at + len(quiet))])
    if 0.42 <= draw < 0.62 and partner is not None and len(sound) + len(partner[1]) < _LONGEST_JOINED_S * RATE:
        other, after = partner
        after = at_level(after, speech_level_db(sound))
        # after a shorter pause nobody could have known that the reader was done: it is one long sentence then
        gap = float(rng.uniform(0.3, 1.6))
        first = utterance.complete and not (patient and gap < 0.8)
        pieces = [(utterance.text, sound, first, patient), (other.text, after, other.complete, is_patient(other))]
        return _framed(pieces, [gap], sound, rng, "joined")
    return plain(utterance, sound, rng)


def quietest(sound: Sound, start: int, end: int) -> int:
    """The middle of the quietest 20 ms between two samples."""
    window = RATE // 50
    start, end = max(start, 0), min(max(end, start + window), len(sound))
    energy = np.cumsum(np.concatenate([[0.0], sound[start:end].astype(np.float64) ** 2]))
    if len(energy) <= window:
        return min(start, len(sound))
    return start + window // 2 + int(np.argmin(energy[window:] - energy[:-window]))


def _quiet(seconds: float, like: Sound, rng: np.random.Generator) -> Sound:
    return room_noise(round(seconds * RATE), floor_db(like), rng)


def _framed(
    pieces: Sequence[tuple[str, Sound, bool, bool]],
    gaps: Sequence[float],
    like: Sound,
    rng: np.random.Generator,
    shape: str,
    pauses: Sequence[tuple[int, int]] = (),
) -> Take:
    """(text, sound, complete, patient) one after the other with `gaps` seconds between, a lead and a tail; `pauses` are in the first."""
    lead = _quiet(float(rng.uniform(0, _LONGEST_LEAD_S)), like, rng)
    parts, sentences, position = [lead], [], len(lead)
    quiet = [(position + start, position + end) for start, end in pauses]
    for row, (text, sound, complete, patient) in enumerate(pieces):
        if row:
            parts.append(_quiet(gaps[row - 1], like, rng))
            quiet.append((position, position + len(parts[-1])))
            position += len(parts[-1])
        try:
            end = speech_bounds_in_noise(sound)[1]
        except ValueError:
            end = len(sound)
        sentences.append(Sentence(text, position + end, complete, patient))
        parts.append(sound)
        position += len(sound)
    parts.append(_quiet(float(rng.uniform(_SHORTEST_TAIL_S, _LONGEST_TAIL_S)), like, rng))
    quiet.append((position, position + len(parts[-1])))
    return Take(np.concatenate(parts), tuple(sentences), len(lead), shape, tuple(quiet))


def hushed(sound: Sound, quiet: Sequence[tuple[int, int]], rng: np.random.Generator) -> Sound:
    """With spans of quiet in digital silence but for their first 60 to 350 ms, whatever noise was there: so a recognizer is asked what it
    would say if silence followed (voiced.stages.transducer), and neither an end nor a pause may be told by that."""
    changed = sound.copy()
    for start, end in quiet:
        changed[min(start + round(float(rng.uniform(*_HUSH_S)) * RATE), end) : end] = 0
    return changed
