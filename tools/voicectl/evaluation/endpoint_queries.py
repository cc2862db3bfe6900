"""What an endpointer is measured by: queries that end, with the quiet of their own room after them, and pauses in their middle.

What lives here: recordings made into queries, their true ends, the places where a pause fits. What must not: a decision about ends, a
figure. A recording that cannot be a query is in the answer, with its reason.

The end of a query is the synthesizer's where it is known, else what true_ends.py believes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from voiced.api import Samples, Vad, Words, defaults, read_audio, to_ms, to_samples

from .alignment import Aligner
from .clips import Clip, LeftOut, clip_seed, lines_of
from .scores import no_reference
from .sounds import Bounds, pause_place, quiet_around, quietest, speech_bounds, with_quiet
from .true_ends import SYNTHESIZER, TrueEnd, true_end

PAUSES_MS = (300, 500, 800, 1200, 2000)

SPELLED = "spelled"
"""Names, numbers and addresses spelled aloud, with the speakers' own pauses."""
_SPELLED_SOURCE = "alphanumeric-audio-dataset"

_LEAD = to_samples(300)
"""Kept before the speech: what lies between a wake phrase and its query."""
_TAIL = to_samples(3000)
"""Heard after the speech: longer than any rule for an end that a person would wait for."""
_LONGEST = to_samples(9000)
"""Of speech: more is no query but a dictation, and with the longest pause it must stay below the settings' longest turn."""
_WORDS_AROUND_A_PAUSE = 4
"""A sentence of fewer words has no middle."""
_BEFORE, _AFTER = to_samples(200), to_samples(60)
"""Around the frame at which a recognizer says a word's first piece: its sound began up to so long before it, or so little after."""


@dataclass(frozen=True, slots=True)
class Query:
    """One turn's sound. Positions are samples from its beginning.

    samples   int16: the query between a little and three seconds of its own quiet
    start, end  of its speech; ends_by says who knows the end (true_ends.TrueEnd), ends_why why nobody but the ear does
    pause_ms  length of the pause that was put into its middle, 0 for none; it is `pause`, [start, end)
    own_pause_ms  the longest pause that its speaker made, by the VAD
    """

    name: str
    set: str
    text: str | None
    samples: Samples
    start: int
    end: int
    ends_by: str
    pause_ms: int = 0
    pause: tuple[int, int] | None = None
    own_pause_ms: float = 0.0
    ends_why: str = ""


def of_clip(clip: Clip, vad: Vad, seed: int, aligner: Aligner | None = None) -> Query:
    """A recording as it is. Raises InputError where it cannot be read, ValueError where it is no query."""
    samples, _ = read_audio(clip.path)
    settings = defaults().vad
    bounds = speech_bounds(samples, vad.track(samples), on=settings.on, off=settings.off)
    if clip.speech_end is None:  # before its words are aligned, which takes some time
        _no_longer_than_a_query(bounds.start, bounds.end)
    end = true_end(clip, samples, bounds.end, aligner)
    gaps = [to_ms(after - before) for (_, before), (after, _) in pairwise(bounds.stretches)]
    query = _framed(clip, samples, bounds.start, end, seed)
    return replace(query, own_pause_ms=max(gaps, default=0.0))


def _framed(clip: Clip, samples: Samples, start: int, true: TrueEnd, seed: int) -> Query:
    end = true.sample
    _no_longer_than_a_query(start, end)
    if end <= start:
        raise ValueError("its speech ends before it begins")
    first, last = max(0, start - _LEAD), min(len(samples), end + _TAIL)
    framed = with_quiet(samples[first:last], last - first, end + _TAIL - last, clip_seed(clip, seed))
    return Query(clip.name, clip.set, clip.text, framed, start - first, end - first, true.by, ends_why=true.why)


def _no_longer_than_a_query(start: int, end: int) -> None:
    """Raises ValueError."""
    if end - start > _LONGEST:
        raise ValueError(f"{to_ms(end - start) / 1000:.1f} s of speech are more than a query")


def with_pause(query: Query, words: Words, pause_ms: int, seed: tuple[int, ...]) -> Query | None:
    """The query with a pause of that length between two words of its middle; None where it has too few words, or a longer pause there.

    words  what a recognizer made of the query, in the query's positions: it knows where words begin
    """
    place = between_words(query, words)
    if place is None:
        return None
    length = to_samples(pause_ms)
    first, last = quiet_around(query.samples, place)
    lacking = length - (last - first)
    if lacking < 0:
        return None
    samples = with_quiet(query.samples, place, lacking, (*seed, pause_ms))
    return replace(query, samples=samples, end=query.end + lacking, pause_ms=pause_ms, pause=(first, first + length))


def between_words(query: Query, words: Words) -> int | None:
    """Where a pause fits: before one of the words in the middle, where 60 ms are quietest. None where there are fewer than four words.

    Of a recognizer without word times: in the quietest 60 ms of the middle, whatever stands there.
    """
    if len(words.text.split()) < _WORDS_AROUND_A_PAUSE:
        return None
    starts = words.word_first
    middle = starts[max(1, round(0.3 * len(starts))) : max(2, round(0.75 * len(starts)) + 1)]
    found = [quietest(query.samples, max(at - _BEFORE, query.start), min(at + _AFTER, query.end)) for at in middle]
    if not found:
        return pause_place(query.samples, Bounds(query.start, query.end, ()))
    return min(found, key=lambda place: place[1])[0]


# ── other sources than clips of sentences ──────────────────────────────────────────────────────────────────────────────


def spelled(data: Path) -> tuple[Clip, ...]:
    """Names, numbers and addresses, as clips; their text is None where it has figures, which may be said in several ways."""
    entries = [entry for entry in _entries(lines_of(data / "manifest.jsonl")) if entry.get("source") == _SPELLED_SOURCE and "path" in entry]
    names = [str(entry["path"]) for entry in entries]
    texts = [str(entry.get("text", "")) for entry in entries]
    return tuple(Clip(data / name, name, SPELLED, None if no_reference(text) else text) for name, text in zip(names, texts, strict=True))


def synthetic(manifest: Path, left_out: Callable[[LeftOut], None], seed: int) -> Iterator[tuple[Clip, Callable[[], Query]]]:
    """The finished sentences of a synthesizer's manifest: lines with `speech` and `pauses`, in samples. Raises InputError."""
    for entry in _entries(lines_of(manifest, "name a synthesizer's manifest.jsonl")):
        name = str(entry.get("path", "?"))
        try:
            if not entry.get("complete", True) or entry.get("role") != "synthetic":
                continue
            shape = str(entry.get("shape", "plain"))
            where = "synthetic" if shape in ("plain", "pause") else f"synthetic, {shape}"
            clip = Clip(manifest.parent / name, name, where, str(entry["text"]))
            start, end = (int(at) for at in entry["speech"])
            pauses = tuple((int(first), int(last)) for first, last in entry.get("pauses", ()))
        except (KeyError, TypeError, ValueError) as error:
            left_out(LeftOut("synthetic", name, f"its line has no usable speech or pauses: {error}"))
            continue
        yield clip, _Spoken(clip, start, end, pauses, seed)


@dataclass(frozen=True, slots=True)
class _Spoken:
    """Reads a synthesized query when it is asked for."""

    clip: Clip
    start: int
    end: int
    pauses: tuple[tuple[int, int], ...]
    seed: int

    def __call__(self) -> Query:
        samples, _ = read_audio(self.clip.path)
        query = _framed(self.clip, samples, self.start, TrueEnd(min(self.end, len(samples)), SYNTHESIZER), self.seed)
        if not self.pauses:
            return query
        shift = query.start - self.start
        first, last = max(self.pauses, key=lambda pause: pause[1] - pause[0])
        length = to_ms(last - first)
        nearest = min(PAUSES_MS, key=lambda ms: abs(ms - length))
        return replace(query, pause_ms=nearest, pause=(first + shift, last + shift), own_pause_ms=length)


def _entries(lines: Sequence[str]) -> list[dict[str, Any]]:
    """Of a manifest; a line that is no JSON object is another check's business (clips.read_clips)."""
    found = []
    for line in lines:
        try:
            entry = json.loads(line)
        except json.JSONDecodeError:
            continue
        if isinstance(entry, dict):
            found.append(entry)
    return found
