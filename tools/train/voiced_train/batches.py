"""Cached utterances in batches of like length, for ever, and what to ask the joiner about one.

What lives here: reading caches, refusing what cannot be learned from, shuffling, hiding spans. What must not: the model.

Alignments are not kept: the model's own CTC head makes them anew at each step (`ask`), so that they become better with it.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from voiced.errors import InputError

from .cache import Cache, Entry
from .features import FLOOR, MELS
from .paths import Ending, Steps, place, steps, timed
from .viterbi import FRAME_SAMPLES, LATEST, UNKNOWN, aligned, needed

WORST_SCORE = -0.9
"""Mean log-probability a frame below which an alignment is not believed (a wrong text, or speech that nobody would understand)."""

_BLOCK = 800
_MASKS, _LONGEST_MASK_MS = 2, 240
_BANDS, _WIDEST_BAND = 2, 14
_FALSE_END_SHARE = 0.15
_PAUSE_FRAMES = 8


@dataclass(frozen=True, slots=True)
class Example:
    """An utterance to learn from: the pieces of its text, and how each of its sentences ends."""

    cache: Cache
    entry: Entry
    pieces: tuple[int, ...]
    endings: tuple[Ending, ...]

    @property
    def frames(self) -> int:
        """Of 40 ms."""
        return self.entry.frames // self.cache.rows_a_frame

    def features(self) -> NDArray[np.float32]:
        return self.cache.features(self.entry)

    def labels(self, end: int) -> list[int]:
        """The pieces, and `end` after each complete sentence."""
        labels: list[int] = []
        row = 0
        for ending in self.endings:
            labels += [*self.pieces[row : row + ending.pieces], *([end] if ending.complete else [])]
            row += ending.pieces
        return labels


@dataclass(frozen=True, slots=True)
class Batch:
    """features float32 (N, T, 80 or 768), filled up with silence; lengths in frames of 40 ms; labels with end tokens."""

    examples: list[Example]
    features: NDArray[np.float32]
    lengths: list[int]
    labels: list[list[int]]


def padded(features: Sequence[NDArray[np.float32]]) -> NDArray[np.float32]:
    width = features[0].shape[1]
    whole = np.full((len(features), max(map(len, features)), width), FLOOR if width == MELS else 0, np.float32)
    for row, feature in enumerate(features):
        whole[row, : len(feature)] = feature
    return whole


def read(caches: Sequence[Path], bpe: Any) -> tuple[list[Example], Counter[str]]:
    """All examples of caches, and how many utterances were refused for which reason. Raises InputError where a cache is no cache."""
    examples: list[Example] = []
    refused: Counter[str] = Counter()
    for path in caches:
        cache = Cache(path)
        for entry in cache.entries:
            try:
                examples.append(_example(cache, entry, bpe))
            except ValueError as error:
                refused[str(error)] += 1
    if len({example.cache.width for example in examples}) > 1:
        raise InputError(", ".join(map(str, caches)), "are of two kinds", "give either .banks or .f16")
    return examples, refused


def _example(cache: Cache, entry: Entry, bpe: Any) -> Example:
    said = [bpe.encode(sentence.text) for sentence in entry.sentences]
    pieces = tuple(itertools.chain.from_iterable(said))
    if not all(said):
        raise ValueError("empty text")
    if UNKNOWN in pieces:
        raise ValueError("out of the vocabulary")
    endings = tuple(
        Ending(len(own), sentence.end / FRAME_SAMPLES, sentence.complete, sentence.patient)
        for own, sentence in zip(said, entry.sentences, strict=True)
    )
    example = Example(cache, entry, pieces, endings)
    if needed(pieces) > min(example.frames, round(endings[-1].speech_end) + LATEST) or needed(example.labels(-1)) > example.frames:
        raise ValueError("too short for its labels")
    return example


def batches(examples: Sequence[Example], frames: int, end: int, rng: np.random.Generator) -> Iterator[Batch]:
    """Batches of about `frames` frames of 40 ms each, every example once an epoch; spans of the features are hidden."""
    if not examples:
        raise InputError("caches", "hold nothing to learn from")
    while True:
        order = rng.permutation(len(examples))
        for begin in range(0, len(order), _BLOCK):
            block = sorted((examples[row] for row in order[begin : begin + _BLOCK]), key=lambda example: example.frames)
            groups: list[list[Example]] = [[]]
            for example in block:
                if groups[-1] and (len(groups[-1]) + 1) * example.frames > frames:
                    groups.append([])
                groups[-1].append(example)
            for group in rng.permutation(len(groups)):
                yield batch(groups[group], end, rng)


def batch(examples: Sequence[Example], end: int, rng: np.random.Generator) -> Batch:
    features = padded([masked(example.features(), example.cache.rows_a_frame, rng) for example in examples])
    return Batch(list(examples), features, [example.frames for example in examples], [example.labels(end) for example in examples])


def masked(feature: NDArray[np.float32], rows_a_frame: int, rng: np.random.Generator) -> NDArray[np.float32]:
    """With spans of up to 240 ms hidden, and bands of filter banks (SpecAugment, Park et al. 2019), under the utterance's mean: silence
    would teach that speech has holes, and what the encoder answers has a mean of zero."""
    feature = feature.copy()
    mean = feature.mean(0) if feature.shape[1] == MELS else np.zeros(feature.shape[1], np.float32)
    longest = _LONGEST_MASK_MS // 40 * (rows_a_frame if feature.shape[1] == MELS else 1)
    for _ in range(_MASKS):
        length = int(rng.integers(min(longest, len(feature) // 12) + 1))
        start = int(rng.integers(len(feature) - length + 1))
        feature[start : start + length] = mean
    if feature.shape[1] == MELS:
        for _ in range(_BANDS):
            width = int(rng.integers(_WIDEST_BAND + 1))
            lowest = int(rng.integers(MELS - width + 1))
            feature[:, lowest : lowest + width] = mean[lowest : lowest + width]
    return feature


def ask(example: Example, log: NDArray[np.float32], end: int, context: int, worst_score: float, rng: np.random.Generator) -> Steps | None:
    """What to ask the joiner about an utterance, aligned by the CTC head's log-probabilities (frames, symbols); None where the alignment is
    not believed, or its symbols do not fit."""
    frames, score = aligned(log, example.pieces, example.endings[-1].speech_end)
    if score < worst_score:
        return None
    try:
        targets = place(timed(example.pieces, frames, example.endings, end, len(log) - 1), len(log))
    except ValueError:
        return None
    return steps(targets, end, context, _false_end(targets, end, rng))


def _false_end(targets: NDArray[np.int64], end: int, rng: np.random.Generator) -> int | None:
    """Now and then the middle of a pause that is no end."""
    if rng.random() > _FALSE_END_SHARE:
        return None
    at = np.nonzero(targets)[0]
    pairs = itertools.pairwise(at.tolist())
    gaps = [(a, b) for a, b in pairs if b - a >= _PAUSE_FRAMES and end not in (targets[a], targets[b])]
    if not gaps:
        return None
    start, stop = gaps[rng.integers(len(gaps))]
    return (start + stop) // 2
