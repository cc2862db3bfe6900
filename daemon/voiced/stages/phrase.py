"""Was that the phrase? The second stage: how likely the phrase's own pieces are, beside whatever else may have been said.

What lives here: where a phrase lies best in a stretch of sound, and the verdict on it. What must not: the models (acoustic.py), how a text
is spelled (pieces.py), when it is asked (ears.py).

The score is a likelihood ratio. In the transducer's lattice (Graves 2012) with at most one symbol a frame, as sherpa-onnx searches it,

    α(t, u) = max(α(t − 1, u) · b(t, u), α(t − 1, u − 1) · y(t, u − 1)),   α(t, 0) = 1

is the best way to have said the first u pieces by frame t; b is the blank's probability and y the next piece's, each divided by that of
the frame's symbol on the free path, which is what the recognizer itself would have written. α(t, 0) = 1 lets the phrase begin anywhere, at
no cost for what is said before it; the highest α(t, U) lets it end anywhere. So 0 means that the phrase is as likely as the best reading
of the same frames, and each nat below that it is e times less so. The logarithm is divided by the number of pieces, so that a long phrase
has no harder threshold than a short one. Where a word begins is written and not heard, so a piece is the sum of its forms with and without
that mark.

A near word fits well but for one sound, and a mean forgives it; noise is spread over all. So a quarter of the weakest piece's y is added.

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
_WEAKEST = 0.25
"""Of the weakest piece beside the mean."""
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
    """The best way to have said a phrase.

    ratio    see above, a piece
    weakest  the y of the piece that fits least, as a logarithm
    last     the frame at which the last piece was said
    """

    ratio: float
    weakest: float
    last: int


def placed(blank: Floats, said: Floats, free: Floats) -> Placement:
    """The phrase of U pieces in T frames.

    blank  (T, U + 1), log-probability of the blank after u pieces
    said   (T, U), of piece u after the u before it
    free   (T,), of the free path's symbols
    """
    pieces = said.shape[1]
    blank, said = blank[:, 1:] - free[:, None], said - free[:, None]
    after, weakest = np.full((2, pieces), _NEVER)  # α(t, 1 … U), and the weakest piece on the way there
    blank[:, -1] = _NEVER  # the last piece ends it
    found = Placement(_NEVER, _NEVER, 0)
    for frame, (stays, goes) in enumerate(zip(blank, said, strict=True)):
        moved, stayed = goes + np.concatenate(((0.0,), after[:-1])), after + stays
        weakest = np.where(stayed > moved, weakest, np.minimum(goes, np.concatenate(((0.0,), weakest[:-1]))))
        after = np.maximum(moved, stayed)
        if after[-1] / pieces > found.ratio:
            found = Placement(float(after[-1]) / pieces, float(weakest[-1]), frame)
    return found


@dataclass(frozen=True, slots=True)
class PhraseStatistics:
    asked: int
    accepted: int


@dataclass(frozen=True, slots=True)
class Wanted:
    """The numbers of a phrase's pieces, one or more, each in the forms that sound alike, the written one first; and the least evidence."""

    pieces: tuple[tuple[int, ...], ...]
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
            name: model.predict(
                [[*born, *(forms[0] for forms in one.pieces[:said])][-model.context_size :] for said in range(len(one.pieces) + 1)]
            )
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
        said = np.stack([np.logaddexp.reduce(likely[:, at, forms], axis=1) for at, forms in enumerate(wanted.pieces)], axis=1)
        found = placed(likely[:, :, BLANK], said, free)
        odds = log_odds(phrase.scores)
        evidence = found.ratio + _WEAKEST * found.weakest + _WEIGHT * odds
        accepted = evidence >= wanted.evidence
        self._asked += 1
        self._accepted += accepted
        end = min(len(phrase.audio), (found.last + 1) * self.model.frame + self._tail)
        why = (
            f"{evidence:.2f} ({wanted.evidence:g} wanted): {found.ratio:.2f} nats a piece beside the best other reading, "
            f"{found.weakest:.2f} the weakest, {odds:+.2f} by the first stage"
        )
        scores = {
            "evidence": evidence,
            "evidence_threshold": wanted.evidence,
            "likelihood": found.ratio,
            "weakest": found.weakest,
            "log_odds": odds,
        }
        return Verdict(accepted, evidence, why, scores, len(phrase.audio) - end)

    def statistics(self) -> PhraseStatistics:
        return PhraseStatistics(self._asked, self._accepted)
