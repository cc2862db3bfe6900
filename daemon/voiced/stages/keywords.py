"""Wake phrases given as text: a streaming transducer listens for their pieces, and nothing is trained.

What lives here: which sound sherpa-onnx's keyword search hears, when its stream is renewed, and where a phrase ends that it heard. What
must not: how a text is spelled (pieces.py), whether it opens a turn (the second stage, turn.py).

The model's position code wraps (ours after 30 s), so no stream may grow old, and a phrase must not fall between two. A new one is begun
at certain positions, and for a while both hear: what either hears counts, once. Streams begin on a grid of whole chunks, counted in
positions: wherever a gate opens, the model's chunks are the same. So the answer depends on the sound and its positions alone, but for
what lies before `history`.

The search is sherpa-onnx's KeywordSpotter: a beam over tokens, with a boost along a phrase. It tells a phrase two blank frames
after its last token, when the chunk of that frame is decoded: up to a chunk and the look-ahead later.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..audio import Samples
from ..units import RATE, to_samples
from .memory import give_back
from .sherpa import Keyword, KeywordStream, Spotter

HOP = 1280

_RENEW = 20 * RATE
"""A stream hears so long, and the history before and the overlap after it: together less than 30 s."""

_REPEAT = RATE // 2
"""Ends of one phrase nearer than this are one phrase, heard by two streams. Nobody says three syllables twice in half a second."""

_TRAILING_FRAMES = 3
"""Frames from the last token's to the one at which the search tells it: two of blank, and itself."""


@dataclass(frozen=True, slots=True)
class TextPhrase:
    """`pieces` as the model's tokens.txt has them; `boost` and `threshold` as in sherpa.Keyword."""

    name: str
    pieces: tuple[str, ...]
    boost: float
    threshold: float


@dataclass(frozen=True, slots=True)
class Said:
    """A phrase was heard; `end` is the position where its last sound is over."""

    phrase: TextPhrase
    end: int


@dataclass(frozen=True, slots=True)
class KeywordStatistics:
    hops: int
    streams: int
    """Begun: after the gate opened, and every twenty seconds while it is open."""
    repeated: int
    """Phrases that two streams heard."""


class Keywords:
    """Listens for phrases given as text. One thread owns it; two may share a Spotter that the same thread uses.

    chunk_ms    what the model consumes in a decode
    frame_ms    one output frame
    tail_ms     silence after which everything heard is told: at least chunk and look-ahead
    ending_ms   from the beginning of the last token's frame to the end of its sound
    """

    hop = HOP

    def __init__(
        self,
        phrases: Sequence[TextPhrase],
        spotter: Spotter,
        *,
        chunk_ms: float,
        frame_ms: float,
        tail_ms: float,
        ending_ms: float = 120.0,
        history_ms: float = 2560.0,
    ) -> None:
        self.phrases = tuple(phrases)
        self._spotter = spotter
        # by number: a name may have spaces
        self._keywords = [Keyword(str(at), one.pieces, one.boost, one.threshold) for at, one in enumerate(phrases)]
        self._chunk, self._frame, self._ending = to_samples(chunk_ms), to_samples(frame_ms), to_samples(ending_ms)
        self.history = to_samples(history_ms)
        """Samples before now that are enough to hear a phrase as if all had been heard: what to hand to `prime`."""
        self._tail = np.zeros(to_samples(tail_ms), np.int16)
        self._renew = _RENEW // self._chunk * self._chunk
        self._hops = self._begun = self._repeated = 0
        self._spotter.stream(self._keywords)  # raises here where a piece is not the model's
        self.reset()

    def reset(self) -> None:
        self._streams: list[_Running] = []
        self._ends: dict[TextPhrase, int] = {}

    def warm_up(self) -> None:
        self.step(0, np.zeros(HOP, np.int16))
        self.finish()
        self._hops = self._begun = 0
        self.reset()
        give_back()

    def step(self, first: int, samples: Samples) -> list[Said]:
        """int16 (n,), the sound from position `first` on, right after what came before; what was heard by now."""
        self._hops += 1
        end = first + len(samples)
        if not self._streams:
            self._begin(first, end)
        renewed = -(-first // self._renew) * self._renew
        if renewed < end and self._streams and self._streams[-1].first < renewed:
            self._begin(renewed, end)
        said: list[Said] = []
        for stream in self._streams:
            said += self._told(stream, samples[max(stream.first - first, 0) :])
        if len(self._streams) > 1 and end - self._streams[-1].first >= self.history:
            del self._streams[0]
        return said

    def prime(self, first: int, history: Samples) -> None:
        """As if `history` had been stepped since birth; what is heard in it was told before, or never will be."""
        self._streams = []
        for at in range(0, len(history), HOP):
            self.step(first + at, history[at : at + HOP])

    def finish(self) -> list[Said]:
        """The sound is over, for now: what it heard and has not told. The next step begins anew."""
        said: list[Said] = []
        for stream in self._streams:
            said += self._told(stream, self._tail)
        self._streams = []
        return said

    def _begin(self, first: int, end: int) -> None:
        """At the first whole chunk from `first` on, if the sound up to `end` has one."""
        at = -(-first // self._chunk) * self._chunk
        if at < end:
            self._streams.append(_Running(at, self._spotter.stream(self._keywords)))
            self._begun += 1

    def _told(self, running: _Running, samples: Samples) -> list[Said]:
        found = []
        for heard in running.stream.accept(samples) if len(samples) else ():
            running.decoded += self._chunk
            if heard is None:
                continue
            # its time counts from an earlier chunk, and nothing tells which: the last that leaves room for what follows a token
            latest = running.first + running.decoded - _TRAILING_FRAMES * self._frame
            token = latest - (latest - running.first - heard.frame * self._frame) % self._chunk
            phrase, end = self.phrases[int(heard.name)], token + self._ending
            if end < self._ends.get(phrase, -_REPEAT) + _REPEAT:
                self._repeated += 1
                continue
            self._ends[phrase] = end
            found.append(Said(phrase, end))
        return found

    def statistics(self) -> KeywordStatistics:
        return KeywordStatistics(self._hops, self._begun, self._repeated)


@dataclass(slots=True)
class _Running:
    """A stream, where it began, and how much of it was decoded, in samples."""

    first: int
    stream: KeywordStream
    decoded: int = 0
