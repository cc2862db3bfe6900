"""Phrase and query in one breath: is a word of the query lost, or one of the phrase in the text?

What lives here: the sounds, the pipeline that hears them with a second stage as slow as one likes, and the comparison of texts. What
must not: options, tables (selftest.py).

**Slow** is counted in sound: while stage 2 thinks, the ears go on hearing, and what they heard waits for the scribe, in order, as it does
in a lane's two threads. So an answer that comes 2 s late is the same run after run, on any machine.

**A word is lost** where half of its letters or more have no counterpart in the text, letters taken in order (the longest common
subsequence), though they have one every time that the query is heard alone, by the same recognizer, at each of LEADS_MS of quiet before it:
what the model itself does not hear, or hears only now and then, is no loss of ours. **A word is added** where no letter of it has a
counterpart in the query, and no such word is added when the query is heard alone.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from voiced.api import RATE, AudioFrame, Candidate, Endpoint, Event, Final, Pipeline, Samples, Trigger, Wake, to_ms, to_samples

from .sounds import floor_db, room_noise

LEADS_MS = (200, 320, 440)
"""Quiet before a query that is heard alone; they differ by what no chunk is long, so that it falls differently on the chunks."""

_BLOCK = 640
_BEFORE_MS, _AFTER_MS = 500, 1500
"""Quiet before the phrase, for its head, and after the query, until its turn closes."""

_CHIME_AFTER_MS, _CHIME_MS = 150, 200
"""A client's sound at a wake: so long after it, and so long."""
_CHIME_HZ, _CHIME_DBFS = (880, 1320), -26.0


@dataclass(frozen=True, slots=True)
class Saying:
    """A phrase and a query, cut to their speech: int16. `text` is what the query says, "" where nobody wrote it down."""

    name: str
    phrase: Samples
    query: Samples
    text: str = ""


@dataclass(frozen=True, slots=True)
class Case:
    """`gap_ms` of quiet between phrase and query; stage 2 answers `late_ms` of sound late; a chime sounds at the wake, or not."""

    gap_ms: float
    late_ms: float = 0.0
    chime: bool = False


@dataclass(frozen=True, slots=True)
class Texts:
    first_pass: str
    final: str


@dataclass(frozen=True, slots=True)
class Row:
    """What came of a case; positions in ms after the phrase's end by the recording. Without a wake the texts are empty, and all is lost."""

    saying: str
    case: Case
    woke_ms: float | None
    phrase_end_ms: float | None
    first_pass: str
    final: str
    lost: tuple[str, ...]
    added: tuple[str, ...]

    @property
    def good(self) -> bool:
        return self.woke_ms is not None and not self.lost and not self.added


def quiet_like(sound: Samples, milliseconds: float, seed: int) -> Samples:
    """As quiet as the quietest of the recording."""
    return room_noise(to_samples(milliseconds), max(floor_db(sound), -80.0), np.random.default_rng(seed))


def words(text: str) -> list[str]:
    return re.findall(r"[^\W_]+", text.lower().replace("'", ""))


def unmatched(ours: Sequence[str], theirs: Sequence[str]) -> tuple[list[int], list[int]]:
    """Letters without a counterpart, a number a word: of the words of `ours`, and of `theirs`."""
    a = [(letter, at) for at, word in enumerate(ours) for letter in word]
    b = [(letter, at) for at, word in enumerate(theirs) for letter in word]
    # longest common subsequence, from the end, so that the walk below takes the first counterpart that there is
    length = np.zeros((len(a) + 1, len(b) + 1), np.int32)
    for i in range(len(a) - 1, -1, -1):
        for j in range(len(b) - 1, -1, -1):
            length[i, j] = length[i + 1, j + 1] + 1 if a[i][0] == b[j][0] else max(length[i + 1, j], length[i, j + 1])
    missing, more = [len(word) for word in ours], [len(word) for word in theirs]
    i = j = 0
    while i < len(a) and j < len(b):
        if a[i][0] == b[j][0]:
            missing[a[i][1]] -= 1
            more[b[j][1]] -= 1
            i, j = i + 1, j + 1
        elif length[i + 1, j] >= length[i, j + 1]:
            i += 1
        else:
            j += 1
    return missing, more


def lost_words(query: Sequence[str], text: str) -> set[int]:
    """Which words of the query the text has not, by their places."""
    missing, _ = unmatched(query, words(text))
    return {at for at, count in enumerate(missing) if 2 * count >= len(query[at])}


def added_words(query: Sequence[str], text: str) -> list[str]:
    """Words of the text of which no letter is the query's."""
    heard = words(text)
    _, more = unmatched(query, heard)
    return [word for word, count in zip(heard, more, strict=True) if count == len(word)]


class Handover:
    """Measures sayings with one pipeline. One thread."""

    def __init__(self, pipeline: Pipeline) -> None:
        self._pipeline = pipeline

    def rows(self, saying: Saying, cases: Sequence[Case]) -> Iterator[Row]:
        alone = [self._alone(saying, lead_ms) for lead_ms in LEADS_MS]
        query = words(saying.text or alone[-1].final or alone[-1].first_pass)
        for case in cases:
            yield self._row(saying, case, query, alone)

    def _row(self, saying: Saying, case: Case, query: list[str], alone: Sequence[Texts]) -> Row:
        before, gap = quiet_like(saying.phrase, _BEFORE_MS, 1), quiet_like(saying.phrase, case.gap_ms, 2)
        sound = np.concatenate((before, saying.phrase, gap, saying.query, quiet_like(saying.phrase, _AFTER_MS, 3)))
        end = len(before) + len(saying.phrase)
        events = self._hear(sound, late=to_samples(case.late_ms))
        wake = next((event for event in events if isinstance(event, Wake)), None)
        if case.chime and wake:
            events = self._hear(with_chime(sound, wake.sample + to_samples(_CHIME_AFTER_MS)), late=to_samples(case.late_ms))
        texts = _texts(events)
        lost: dict[int, str] = {}
        added: list[str] = []
        for mine, theirs in zip((texts.first_pass, texts.final), _by_pass(alone), strict=True):
            # what the query alone does not give every time says nothing
            unsure = set[int]().union(*(lost_words(query, text) for text in theirs))
            lost |= {at: query[at] for at in lost_words(query, mine) - unsure}
            usual = {word for text in theirs for word in added_words(query, text)}
            added += [word for word in added_words(query, mine) if word not in usual]
        return Row(
            saying.name,
            case,
            to_ms(wake.sample - end) if wake else None,
            to_ms(wake.phrase_end - end) if wake else None,
            texts.first_pass,
            texts.final,
            tuple(lost[at] for at in sorted(lost)),
            tuple(dict.fromkeys(added)),
        )

    def _alone(self, saying: Saying, lead_ms: float) -> Texts:
        """The query without a phrase, in a turn that a client opens."""
        sound = np.concatenate((quiet_like(saying.phrase, lead_ms, 4), saying.query, quiet_like(saying.phrase, _AFTER_MS, 5)))
        return _texts(self._hear(sound, triggered=True))

    def _hear(self, sound: Samples, *, late: int = 0, triggered: bool = False) -> list[Event]:
        """All events, as if stage 2 took `late` samples of sound for each answer; then silence until nothing is open or waits."""
        pipeline = self._pipeline
        pipeline.reset()
        if triggered:
            pipeline.ears.command(Trigger(0))
        events: list[Event] = []
        waiting: deque[tuple[int, Any]] = deque()  # (samples that stage 2 still takes, what was heard)
        end = busy_until = 0
        while end < len(sound) or waiting or not pipeline.idle:
            block = sound[end : end + _BLOCK] if end < len(sound) else np.zeros(_BLOCK, np.int16)
            frame = AudioFrame(end, block.copy())
            end = frame.end
            for heard in pipeline.ears.hear(frame):
                asks = any(isinstance(fact, Candidate) for fact in heard.facts)
                waiting.append((late if asks else 0, heard))
            while waiting and end >= busy_until:
                wait, heard = waiting[0]
                if wait:
                    waiting[0], busy_until = (0, heard), end + wait
                    continue
                waiting.popleft()
                events += pipeline.scribe.take(heard)
        return events


def with_chime(sound: Samples, at: int) -> Samples:
    """Two tones, one after the other, over the sound."""
    time = np.arange(to_samples(_CHIME_MS / len(_CHIME_HZ))) / RATE
    tones = np.concatenate([np.sin(2 * np.pi * hertz * time) * np.hanning(len(time)) for hertz in _CHIME_HZ])
    chime = tones[: max(0, len(sound) - at)] * (np.sqrt(2) * 32768 * 10 ** (_CHIME_DBFS / 20))
    mixed = sound.astype(np.float64)
    mixed[at : at + len(chime)] += chime
    found: Samples = np.clip(np.rint(mixed), -32768, 32767).astype(np.int16)
    return found


def _texts(events: Sequence[Event]) -> Texts:
    first_pass = next((event.text for event in events if isinstance(event, Endpoint)), "")
    return Texts(first_pass, next((event.text for event in events if isinstance(event, Final)), ""))


def _by_pass(alone: Sequence[Texts]) -> tuple[list[str], list[str]]:
    return [texts.first_pass for texts in alone], [texts.final for texts in alone]
