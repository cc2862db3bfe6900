"""Was that the phrase? Stage 1 on every 80 ms, the crossing of its threshold, and the second opinion.

What lives here: the heads' scores, the rule that makes a crossing of them, and the protocol of stage 2 with one plain
verifier. What must not: the mel and the embedding (features.py), the likelihood of words (phrase.py), the decision what a
wake opens (turn.py).

Stage 1 is loose and runs always; stage 2 is asked only after a crossing, may take longer, and runs in another thread. A
score rises before the phrase ends, so stage 2 is asked some time after the crossing, when the phrase has been heard whole;
where the verifier cannot tell its end, that is reckoned from the crossing (wake.phrase_end_ms).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from ..audio import Samples
from .features import EMBEDDING_SIZE, EMBEDDINGS, HISTORY_HOPS, HOP, WakeFeatures
from .memory import give_back
from .session import Port, open_session, zeros


@dataclass(frozen=True, slots=True)
class Stage1Statistics:
    hops: int
    primed: int
    """Times that the history was computed in one go, after the gate opened."""


class Stage1:
    """Scores of all phrases, every 80 ms. One thread owns it.

    heads      phrase → its classifier, (1, 16, 96) → a score in 0..1
    embedding  the speech embedding model
    """

    hop = HOP
    history = HISTORY_HOPS * HOP
    """Samples before now that a score can depend on: what to hand to `prime`."""

    def __init__(self, heads: Mapping[str, Path], embedding: Path, *, threads: int = 1) -> None:
        port = Port("", (1, EMBEDDINGS, EMBEDDING_SIZE))
        self.phrases = tuple(heads)
        self._heads = [open_session(path, inputs=[port], threads=threads) for path in heads.values()]
        self._features = WakeFeatures(embedding, threads=threads)
        self._hops = self._primed = 0

    def reset(self) -> None:
        self._features.reset()

    def warm_up(self) -> None:
        self._features.warm_up()
        for head in self._heads:
            head.run({head.names[0]: zeros(1, EMBEDDINGS, EMBEDDING_SIZE)})
        give_back()

    def step(self, samples: Samples) -> tuple[float, ...]:
        """int16 (1280,) → one score a phrase, in the order of `phrases`."""
        window = self._features.step(samples)[None]
        self._hops += 1
        return tuple(float(head.run({head.names[0]: window})[0].reshape(-1)[0]) for head in self._heads)

    def prime(self, history: Samples) -> None:
        """As if `history` (int16, whole hops) had been stepped since birth: the next score is what it is without a gate."""
        self._features.prime(history)
        self._primed += 1

    def statistics(self) -> Stage1Statistics:
        return Stage1Statistics(self._hops, self._primed)


@dataclass(frozen=True, slots=True)
class Crossed:
    """A phrase's score went up and stayed. All positions are ends of hops.

    first   of the first hop at or above the threshold
    sample  of the hop at which this became known
    scores  from `first` to `sample`, one a hop
    """

    first: int
    sample: int
    scores: tuple[float, ...]


class Crossing:
    """Makes one crossing of a run of high scores; the next one only after the score was low. Pure; one a phrase.

    threshold  a score at or above it is high
    hops       high scores in a row that make a crossing (a spike of one hop is noise)
    wait_hops  scores to gather from the first high one before it is told, for the verifier; at least `hops`
    """

    def __init__(self, *, threshold: float, hops: int, wait_hops: int) -> None:
        if not 1 <= hops <= wait_hops:
            raise ValueError(f"Crossing wants 1 <= hops <= wait_hops; got {hops} and {wait_hops}")
        self.threshold = threshold
        self.hops = hops
        self.wait_hops = wait_hops
        self.reset()

    def reset(self) -> None:
        self._first = 0
        self._scores: list[float] = []
        self._armed = True

    def step(self, sample: int, score: float) -> Crossed | None:
        """The score of the hop that ends at `sample`."""
        high = score >= self.threshold
        if not self._scores:
            self._armed = self._armed or not high
            if not (high and self._armed):
                return None
            self._first = sample
        self._scores.append(score)
        if len(self._scores) <= self.hops and not high:
            self._scores = []
        elif len(self._scores) == self.wait_hops:
            crossed = Crossed(self._first, sample, tuple(self._scores))
            self._scores = []
            self._armed = False
            return crossed
        return None


@dataclass(frozen=True, slots=True)
class Phrase:
    """What stage 2 judges.

    scores  of stage 1, one a hop from the first crossing on; none of a text, which stage 1 hears or not
    speech  VAD probabilities of the windows of `audio`, in order
    audio   int16, 1.6 s and more up to the decision: a long phrase and its margin
    """

    name: str
    scores: tuple[float, ...]
    speech: tuple[float, ...]
    audio: Samples


@dataclass(frozen=True, slots=True)
class Verdict:
    """`why` has the numbers and the limits they were held against, whichever way it went; it holds no spoken words.

    scores   the same by name, for whoever reckons with them; a limit is `<name>_threshold`
    since    samples from the phrase's end to the end of its `audio`; None where the verifier cannot tell
    """

    accepted: bool
    score: float
    why: str
    scores: Mapping[str, float] = field(default_factory=dict)
    since: int | None = None


class Verifier(Protocol):
    """Stage 2. Called in the transducer's thread, after a crossing only."""

    def verify(self, phrase: Phrase) -> Verdict: ...


def words(head: Path) -> str:
    """What its maker wrote into a head that it listens for, as it is said; "" where that is nothing. Raises ModelError."""
    return open_session(head, inputs=[Port("", (1, EMBEDDINGS, EMBEDDING_SIZE))]).metadata.get("phrase", "")


class SpeechVerifier:
    """A phrase is a score that stays up while somebody speaks. Without state.

    threshold    the score that must be kept, stricter than stage 1's
    sustain      hops in a row that must keep it
    min_speech   windows of 32 ms that must be speech (a probability of at least one half)
    """

    def __init__(self, *, threshold: float, sustain: int, min_speech: int) -> None:
        self.threshold = threshold
        self.sustain = sustain
        self.min_speech = min_speech

    def verify(self, phrase: Phrase) -> Verdict:
        run = longest = 0
        for score in phrase.scores:
            run = run + 1 if score >= self.threshold else 0
            longest = max(longest, run)
        spoken = sum(probability >= 0.5 for probability in phrase.speech)
        why = (
            f"{longest} hops at or above {self.threshold:g} ({self.sustain} wanted), {spoken} windows of speech ({self.min_speech} wanted)"
        )
        scores = {
            "verify": max(phrase.scores, default=0.0),
            "verify_threshold": self.threshold,
            "sustained": float(longest),
            "sustained_threshold": float(self.sustain),
            "speech": float(spoken),
            "speech_threshold": float(self.min_speech),
        }
        kept = longest >= self.sustain or not phrase.scores
        return Verdict(kept and spoken >= self.min_speech, scores["verify"], why, scores)
