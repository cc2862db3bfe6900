"""Was that the phrase? The second stage: how likely the phrase's own pieces are, beside whatever else may have been said.

What lives here: where a phrase lies best in a stretch of sound, and the verdict on it. What must not: the models (acoustic.py), how a text
is spelled (pieces.py), when it is asked (ears.py).

The score is a likelihood ratio. In the transducer's lattice (Graves 2012) with at most one symbol a frame, as sherpa-onnx searches it,

    α(t, u) = α(t − 1, u) · b(t, u) + α(t − 1, u − 1) · y(t, u − 1),   α(t, 0) = 1

is the sum over all ways to have said the first u pieces by frame t; b is the blank's probability and y the next piece's, each divided by
that of the frame's symbol on the free path, which is what the recognizer itself would have written. α(t, 0) = 1 lets the phrase begin
anywhere, at no cost for what is said before it; the sum of α(t, U) over t lets it end anywhere. So 0 means that the phrase is as likely as
the best reading of the same frames, and each nat below that it is e times less so. The logarithm is divided by the number of pieces, so
that a long phrase has no harder threshold than a short one.

Stage 1 hears something else in the same sound (the two agree by 0.18 in their errors, a correlation over 820 true crossings), so its
log-odds are evidence too, as in any sum of independent witnesses: half their mean is added, between limits, since a head is surer of
itself than it may be. A phrase without scores, a text's, has the likelihood alone: to it stage 1 says nothing, which is an even bet.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ..units import to_samples
from .acoustic import BLANK, AcousticModel
from .filterbank import Floats
from .memory import give_back
from .wake import Phrase, Verdict, Verifier

_NEVER = -1e30
"""The logarithm of no likelihood at all; not infinite, so that differences of it are numbers."""

_WARM_UP_MS = 1600

_WEIGHT = 0.5
"""Of stage 1's log-odds beside the likelihood of a piece."""
_SUREST = 4.0
"""Log-odds that a score counts for at the most, either way: 0.018 and 0.982."""


def log_odds(scores: Sequence[float]) -> float:
    """The mean of log(p / (1 − p)) over scores 0 … 1, each between the limits; 0 of none."""
    if not scores:
        return 0.0
    surest = 1 / (1 + np.exp(-_SUREST))
    held = np.clip(scores, 1 - surest, surest)
    return float(np.log(held / (1 - held)).mean())


@dataclass(frozen=True, slots=True)
class Placement:
    """ratio: see above, a piece; last: the frame at which the last piece was most likely said."""

    ratio: float
    last: int


def placed(blank: Floats, said: Floats, free: Floats) -> Placement:
    """The phrase of U pieces in T frames.

    blank  (T, U + 1), log-probability of the blank after u pieces
    said   (T, U), of piece u after the u before it
    free   (T,), of the free path's symbols
    """
    pieces = said.shape[1]
    blank, said = blank[:, 1:pieces] - free[:, None], said - free[:, None]
    after = np.full(pieces, _NEVER)  # α(t, 1 … U), the last one of this frame alone
    ends = np.empty(len(said))
    for frame, (stays, goes) in enumerate(zip(blank, said, strict=True)):
        moved = goes + np.concatenate(((0.0,), after[:-1]))
        moved[:-1] = np.logaddexp(moved[:-1], after[:-1] + stays)
        after = moved
        ends[frame] = after[-1]
    return Placement(float(np.logaddexp.reduce(ends)) / pieces, int(ends.argmax()))


@dataclass(frozen=True, slots=True)
class PhraseStatistics:
    asked: int
    accepted: int


@dataclass(frozen=True, slots=True)
class Wanted:
    """The numbers of a phrase's pieces, one or more, and the least sum of the ratio and half of stage 1's log-odds."""

    pieces: tuple[int, ...]
    evidence: float


class PhraseVerifier:
    """Stage 2 by likelihood. One thread owns it.

    phrases    by name
    otherwise  asked about a phrase that is not among them: nobody knows its words
    tail_ms    from the frame of the last piece to the phrase's end: a piece is told when it is heard, not when it is over
    """

    def __init__(self, model: AcousticModel, phrases: Mapping[str, Wanted], otherwise: Verifier, *, tail_ms: float) -> None:
        self.model = model
        self._phrases, self._otherwise, self._tail = phrases, otherwise, to_samples(tail_ms)
        born = [BLANK] * model.context_size
        self._predicted = {
            name: model.predict([[*born, *one.pieces[:said]][-model.context_size :] for said in range(len(one.pieces) + 1)])
            for name, one in phrases.items()
        }
        self._asked = self._accepted = 0

    def warm_up(self) -> None:
        self.model.freely(self.model.encode(np.zeros(to_samples(_WARM_UP_MS), np.int16)))
        give_back()

    def verify(self, phrase: Phrase) -> Verdict:
        """The phrase's `audio` is int16 (n,), n ≥ 280, and holds it whole."""
        wanted = self._phrases.get(phrase.name)
        if wanted is None:
            return self._otherwise.verify(phrase)
        encoded = self.model.encode(phrase.audio)
        free, _ = self.model.freely(encoded)
        likely = self.model.log_probabilities(encoded, self._predicted[phrase.name])
        found = placed(likely[:, :, BLANK], likely[:, np.arange(len(wanted.pieces)), wanted.pieces], free)
        odds = log_odds(phrase.scores)
        evidence = found.ratio + _WEIGHT * odds
        accepted = evidence >= wanted.evidence
        self._asked += 1
        self._accepted += accepted
        end = min(len(phrase.audio), (found.last + 1) * self.model.frame + self._tail)
        why = (
            f"{evidence:.2f} ({wanted.evidence:g} wanted): {found.ratio:.2f} nats a piece beside the best other reading, "
            f"{odds:+.2f} by the first stage"
        )
        scores = {"evidence": evidence, "evidence_threshold": wanted.evidence, "likelihood": found.ratio, "log_odds": odds}
        return Verdict(accepted, evidence, why, scores, len(phrase.audio) - end)

    def statistics(self) -> PhraseStatistics:
        return PhraseStatistics(self._asked, self._accepted)
