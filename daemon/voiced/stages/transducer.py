"""The first pass: words while they are spoken, and the token that says that the query is complete.

What lives here: one stream a turn through a streaming transducer, its text, and where its end token stands. What must not:
the decision that a turn is over (endpoint.py). A new stream each turn, because the models' position code wraps.

What would be said if silence followed (`foresee`), the turn's own stream is asked, which has heard all but the last chunk: silence is
handed to it, and that is its end. Mostly the turn's, too; where the speaker goes on, a new stream hears the turn again, some chunks a step
(catching_up.py). So the answer costs two chunks and not the turn's whole length, while somebody waits for it.

The model says </s> in the middle of its tokens. The text never shows it; a word after it takes it back, and the text goes
on where it was.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

import numpy as np

from ..audio import Samples
from ..events import Words
from ..units import to_samples
from . import check_hop
from .catching_up import REST_MS, STEP_CHUNKS, CatchingUp
from .memory import give_back
from .sherpa import Hypothesis, Stream, StreamingEngine, position

END_TOKEN = "</s>"
_WORD_START = "▁"

_AHEAD_MS = 480
"""Silence that `foresee` lets a model hear, besides its tail: starter-en's end tokens stand 150 to 450 ms after a command's sound."""

_NOTHING = np.zeros(0, np.int16)

_WARM_UP = 16_000
"""Samples of silence: three chunks and the tail of any model we know."""


@dataclass(frozen=True, slots=True)
class TransducerStatistics:
    turns: int
    samples: int
    chunks: int
    """Runs of the encoder."""
    foreseen: int
    """Samples that were heard late, nearly all of them once more, because of what was to be foreseen."""
    taken_back: int
    """End tokens that a later word took back."""


class Transducer:
    """A streaming transducer. One thread owns it.

    kind          of model, a key of sherpa.STREAMING
    files         encoder, decoder, joiner, tokens
    frame_ms      what one output frame is (sherpa-onnx takes every one for 40 ms)
    lookahead_ms  what the encoder hears beyond a chunk before it answers; chunk_ms its chunk: together the algorithmic latency
    tail_ms       silence that `finish` appends so that the last word comes out: at least chunk and look-ahead
    end_token     whether the vocabulary has </s>
    paths         hypotheses that its search keeps; 1: greedy
    language      weight of the language model beside it, where it has one and keeps several hypotheses
    lead_in_ms    silence that it hears before a turn's own sound: a first word that begins at once is misheard without
    provider      from sherpa.provider
    """

    hop = 0

    def __init__(
        self,
        kind: str,
        files: Mapping[str, Path],
        *,
        frame_ms: float,
        lookahead_ms: float,
        chunk_ms: float,
        tail_ms: float,
        end_token: bool,
        provider: str,
        lead_in_ms: float = 0.0,
        threads: int = 1,
        paths: int = 1,
        language: float = 0.0,
    ) -> None:
        self._engine = StreamingEngine(kind, files, provider=provider, threads=threads, paths=paths, language=language)
        self._frame_ms = frame_ms
        self._chunk = to_samples(chunk_ms)
        self._end_token = end_token
        self._tail = np.zeros(to_samples(tail_ms), np.int16)
        self._lead_in = np.zeros(to_samples(lead_in_ms), np.int16)
        self._ahead = np.zeros(to_samples(_AHEAD_MS + tail_ms), np.int16)
        self.latency = to_samples(chunk_ms + lookahead_ms)
        """Samples between a frame and the answer to it at the most, computing apart."""
        self._turns = self._samples = self._chunks = self._taken_back = self._foreseen = 0
        self.reset()

    def reset(self) -> None:
        """Between turns: no stream is open."""
        self._stream: Stream | None = None
        self._catching_up: CatchingUp | None = None
        self._late = _NOTHING  # sound of the turn that its stream has not heard
        self._words: Words | None = None
        self._decoded = 0  # chunks of the open stream

    def warm_up(self) -> None:
        stream = self._engine.stream()
        stream.accept(np.zeros(_WARM_UP, np.int16))
        stream.finish()
        stream.hypothesis()
        self.reset()
        give_back()

    def start(self, first: int) -> None:
        """A new turn, whose sound begins at position `first`."""
        self.reset()
        self._first, self._end = first - len(self._lead_in), first
        self._words = Words(first, "", heard=first)
        self._turns += 1
        self._begin()

    def _begin(self) -> None:
        """A stream that has heard nothing of the turn yet."""
        self._stream = self._engine.stream()
        self._decoded = 0
        if len(self._lead_in):
            self._hear(self._stream, self._lead_in)

    def _hear(self, stream: Stream, samples: Samples) -> int:
        """Chunks that were decoded."""
        chunks = stream.accept(samples)
        self._chunks += chunks
        self._decoded += chunks
        return chunks

    def step(self, samples: Samples) -> Words | None:
        """int16 (n,), right after what came before. Returns what is known when it is not what was known, else None; nothing while it
        catches up.

        Raises RuntimeError where no turn is open.
        """
        check_hop(self, samples)
        stream, _ = self._open()
        self._end += len(samples)
        self._samples += len(samples)
        if self._catching_up is None:
            return self._changed(stream.hypothesis()) if self._hear(stream, samples) else None
        self._late = np.concatenate([self._late, samples])
        if heard := self._catching_up.step(len(samples)):
            self._hear(stream, self._late[:heard])
            self._foreseen += heard
            self._late = self._late[heard:]
        if self._catching_up.late:
            return None
        self._catching_up = None
        return self._changed(stream.hypothesis())

    def finish(self) -> Words:
        """The turn's sound is over: the last words, and the stream is closed. Raises RuntimeError where no turn is open."""
        stream, _ = self._open()
        self._foreseen += len(self._late)
        self._chunks += stream.accept(np.concatenate([self._late, self._tail])) + stream.finish()
        self._changed(stream.hypothesis())
        _, words = self._open()
        self.reset()
        return replace(words, sample=self._end, heard=self._end)

    def foresee(self, first: int, samples: Samples) -> Words:
        """What it would say of int16 (n,), which begins at position `first`, if nothing but silence followed.

        Where this is the open turn's sound, its own stream answers and another one takes its place: this is what is known then, and `step`
        tells again what differs from it. Any other sound has a stream to itself.
        """
        if not self._end_token:
            return Words(first + len(samples), "")
        end = first + len(samples)
        if self._stream is None or first != self._first + len(self._lead_in) or end < self._end:
            stream, unheard = self._engine.stream(), np.concatenate([self._lead_in, samples])
            self._foreseen += len(samples)
        else:
            stream, unheard = self._stream, samples[self._end - len(self._late) - first :]
        self._chunks += stream.accept(np.concatenate([unheard, self._ahead])) + stream.finish()
        words = self._words_of(stream.hypothesis(), first - len(self._lead_in), end)
        if stream is self._stream:
            self._words, self._late = replace(words, end_token=None), samples[: self._end - first]  # the token was not heard
            self._catching_up = self.catching_up(len(self._late), words)
            self._begin()
        return words

    def catching_up(self, late: int, foreseen: Words) -> CatchingUp:
        """How it comes back to a turn, of which it had heard so many samples when it foresaw that."""
        return CatchingUp(late, 0 if foreseen.end_token is None else to_samples(REST_MS), STEP_CHUNKS * self._chunk)

    def _open(self) -> tuple[Stream, Words]:
        if self._stream is None or self._words is None:
            raise RuntimeError("Transducer: no turn is open; call start first")
        return self._stream, self._words

    def _changed(self, hypothesis: Hypothesis) -> Words | None:
        _, before = self._open()
        words = self._words_of(hypothesis, self._first, self._end)
        self._taken_back += before.end_token is not None and words.end_token != before.end_token
        self._words = replace(words, heard=min(self._end, self._first + self._decoded * self._chunk))
        return None if (words.text, words.end_token) == (before.text, before.end_token) else self._words

    def _words_of(self, hypothesis: Hypothesis, first: int, end: int) -> Words:
        """A stream whose sound is that of [first, end)."""
        text = read(hypothesis.tokens, END_TOKEN if self._end_token else None)

        def place(at: int) -> int:
            return position(first, hypothesis.seconds[at], self._frame_ms)

        return Words(
            end,
            text.text,
            None if text.end_token is None else place(text.end_token),
            0.0 if text.end_token is None else hypothesis.log_probabilities[text.end_token],
            last_word=place(text.pieces[-1]) if text.pieces else None,
            heard=end,
            word_first=tuple(place(at) for at in text.words),
            confidence=confidence([hypothesis.log_probabilities[at] for at in text.pieces]),
        )

    def statistics(self) -> TransducerStatistics:
        return TransducerStatistics(self._turns, self._samples, self._chunks, self._foreseen, self._taken_back)


@dataclass(frozen=True, slots=True)
class Text:
    """What tokens say, by their indices.

    pieces     those that are text
    words      of each word of the text, split at spaces: the first of its pieces
    end_token  the first end token after the last word; None where there is none
    """

    text: str
    pieces: tuple[int, ...]
    words: tuple[int, ...]
    end_token: int | None


def read(tokens: Sequence[str], end_token: str | None) -> Text:
    """The text of a hypothesis. A token after an end token takes that back, and the text goes on where it was."""
    pieces = [at for at, token in enumerate(tokens) if token != end_token]
    letters = [(letter, at) for at in pieces for letter in tokens[at].replace(_WORD_START, " ")]
    starts = [at for (before, _), (letter, at) in pairwise([(" ", 0), *letters]) if before.isspace() and not letter.isspace()]
    at = pieces[-1] + 1 if pieces else 0
    text = " ".join("".join(letter for letter, _ in letters).split())
    return Text(text, tuple(pieces), tuple(starts), at if at < len(tokens) else None)


def confidence(log_probabilities: Sequence[float]) -> float | None:
    """Geometric mean of the probabilities that the recognizer gave to the pieces it chose, 0 to 1; None where it chose none.

    As the engine gives them, which need not be calibrated: to compare turns of one model, not to believe as a share of right words.
    """
    return math.exp(min(0.0, math.fsum(log_probabilities) / len(log_probabilities))) if log_probabilities else None
