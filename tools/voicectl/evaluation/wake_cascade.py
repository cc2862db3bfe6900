"""The second stage behind the first one's scores: what it says of every crossing, as the daemon asks it.

What lives here: crossings of a track of scores by the daemon's own rule, and the daemon's own verdict on the sound before each. What must
not: which clips, rates, tables. The gate is left out, and nothing is fed block by block: the daemon's tests show that neither changes a
verdict. The sound goes on in silence where a recording ends before the second stage is asked.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from voiced.api import (
    PHRASE_SAMPLES,
    Crossing,
    Library,
    Phrase,
    PhraseSettings,
    Samples,
    Settings,
    Vad,
    Verdict,
    to_samples,
    wait_hops,
    wake_verifier,
)

from .wake_clips import Clip
from .wake_measure import HOP

_VAD_HOP = 512


@dataclass(frozen=True, slots=True)
class Answer:
    """What became of a crossing: the sample at which that was known, where the phrase was taken to end, the second stage's score.

    `first` is the end of the first hop that counts."""

    accepted: bool
    first: int
    sample: int
    phrase_end: int
    score: float
    why: str


class SecondStage:
    """The second stage of one phrase. One thread. A place in a clip is judged once, whatever threshold of the first stage led to it."""

    def __init__(self, settings: Settings, library: Library, phrase: str) -> None:
        """phrase: the id of the head. Raises ModelError."""
        wanted = next((entry for entry in settings.wake.phrases if entry.phrase == phrase), PhraseSettings(phrase))
        alone = replace(settings, wake=replace(settings.wake, phrases=(wanted,)))
        self._phrase, self._hops = phrase, wanted.hops
        self._wait = wait_hops(alone.wake, wanted.hops)
        self._usual_end = to_samples(settings.wake.phrase_end_ms)
        self._verifier = wake_verifier(alone, library, lambda _: None)
        self._vad = Vad(library.find(settings.models.vad, "vad").files["model"])
        self._known: dict[tuple[str, str, int], Verdict] = {}
        self._read: tuple[Clip | None, Samples] = None, np.zeros(0, np.int16)

    def crossings(self, clip: Clip, scores: NDArray[np.float32], threshold: float) -> list[Answer]:
        """Of a clip whose first stage gives these scores, in order."""
        rule = Crossing(threshold=threshold, hops=self._hops, wait_hops=self._wait)
        told = (rule.step((at + 1) * HOP, float(score)) for at, score in enumerate([*scores, *[0.0] * self._wait]))
        found = []
        for crossed in filter(None, told):
            verdict = self._verdict(clip, crossed.sample, crossed.scores)
            end = crossed.first + self._usual_end if verdict.since is None else crossed.sample - verdict.since
            found.append(Answer(verdict.accepted, crossed.first, crossed.sample, end, verdict.score, verdict.why))
        return found

    def _verdict(self, clip: Clip, sample: int, scores: tuple[float, ...]) -> Verdict:
        key = (clip.name, clip.kind, sample)
        if key not in self._known:
            if self._read[0] is not clip:
                self._read = clip, clip.sound()
            sound = self._read[1]
            heard = np.pad(sound, (PHRASE_SAMPLES, max(0, sample - len(sound))))[sample : sample + PHRASE_SAMPLES]
            self._vad.reset()
            speech = tuple(self._vad.step(heard[at : at + _VAD_HOP]) for at in range(0, len(heard), _VAD_HOP))
            self._known[key] = self._verifier.verify(Phrase(self._phrase, scores, speech, heard))
        return self._known[key]


def woken(answers: Sequence[Answer]) -> Answer | None:
    """The first that was accepted, else the last; None where the first stage did not cross."""
    return next((answer for answer in answers if answer.accepted), answers[-1] if answers else None)


def at(answers: Sequence[Answer], sample: int) -> Answer:
    """The crossing that goes on at `sample`."""
    return max((answer for answer in answers if answer.first <= sample), key=lambda answer: answer.first)
