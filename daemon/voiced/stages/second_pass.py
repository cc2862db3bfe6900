"""The second pass: the whole turn again, by a model that hears both sides of every word.

What lives here: one decode of a turn's sound. What must not: whether its text is believed (the guard), when it starts, who
waits for it. It runs in a process of its own, shared by all lanes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np

from ..audio import Samples
from ..units import RATE, to_samples
from . import check_hop
from .memory import give_back
from .sherpa import OfflineEngine, Transcript

_CUT_WITHIN = 3 * RATE // 2
"""How far from an even share a cut may lie: enough to find a pause between words."""

_QUIET = RATE // 10


@dataclass(frozen=True, slots=True)
class SecondPassStatistics:
    decodes: int
    samples: int
    empty: int
    """Decodes that gave no text."""


class SecondPassStage(Protocol):
    """What rewrites a turn: a model of ours, or a server (llama_server.py)."""

    log_probability: float | None

    def decode(self, samples: Samples) -> str: ...
    def reset(self) -> None: ...


class SecondPass:
    """An offline recognizer. One thread owns it.

    kind      of model, a key of sherpa.OFFLINE
    lead_ms   silence put before the sound, and tail_ms after it: some models lose a word that touches an end
    provider  from sherpa.provider
    """

    hop = 0

    def __init__(
        self,
        kind: str,
        files: Mapping[str, Path],
        *,
        provider: str,
        threads: int = 1,
        lead_ms: float = 0,
        tail_ms: float = 0,
    ) -> None:
        self._engine = OfflineEngine(kind, files, provider=provider, threads=threads)
        self._lead = np.zeros(to_samples(lead_ms), np.int16)
        self._tail = np.zeros(to_samples(tail_ms), np.int16)
        self._decodes = self._samples = self._empty = 0
        self.log_probability: float | None = None
        """Mean over the tokens of the last text, natural logarithm; None where the engine tells none."""

    def reset(self) -> None:
        """Between two turns: nothing is kept. It takes some milliseconds, so it is called after the answer was given."""
        give_back()

    def warm_up(self) -> None:
        """One second of faint noise: silence may end a decoder at once and leave its later steps cold."""
        noise = np.random.default_rng(0).integers(-300, 300, RATE, np.int16, endpoint=True)
        self._engine.decode(noise)
        self.reset()

    def step(self, samples: Samples) -> str:
        """int16 (n,): a whole turn. Returns its text, '' where there is none."""
        check_hop(self, samples)
        parts = [self._decode(piece) for piece in self._pieces(samples)]
        text = " ".join(part.text for part in parts if part.text)
        tokens = [value for part in parts for value in part.log_probabilities]
        self.log_probability = sum(tokens) / len(tokens) if tokens else None
        self._decodes += 1
        self._samples += len(samples)
        self._empty += not text
        return text

    decode = step

    def _decode(self, samples: Samples) -> Transcript:
        if not samples.any():  # digital silence (a muted device) holds no words; an encoder-decoder may still find some
            return Transcript("")
        return self._engine.decode(np.concatenate((self._lead, samples, self._tail)))

    def _pieces(self, samples: Samples) -> list[Samples]:
        """The turn, cut at its quietest places where the engine cannot take it whole."""
        if self._engine.longest is None:
            return [samples]
        longest = self._engine.longest - len(self._lead) - len(self._tail)
        pieces = []
        while len(samples) > longest:
            middle = len(samples) // -(-len(samples) // longest)  # equal parts: a part of silence alone invites inventions
            cut = quietest(samples, max(middle - _CUT_WITHIN, 0), min(middle + _CUT_WITHIN, longest))
            pieces.append(samples[:cut])
            samples = samples[cut:]
        return [*pieces, samples]

    def statistics(self) -> SecondPassStatistics:
        return SecondPassStatistics(self._decodes, self._samples, self._empty)


def quietest(samples: Samples, first: int, last: int) -> int:
    """The middle of the quietest 100 ms that lies in [first, last), an index into `samples`."""
    loudness = np.cumsum(np.abs(samples[first:last].astype(np.int64)))
    sums = loudness[_QUIET:] - loudness[:-_QUIET]
    return first + int(sums.argmin()) + _QUIET // 2
