"""Cached utterances with their paths, in batches of like length, for ever.

What lives here: reading caches and alignments together, refusing what cannot be learned from, shuffling. What must not: the model.
"""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from voiced.errors import InputError

from .align import FRAME_SAMPLES
from .cache import Cache, Entry
from .paths import Steps, end_frame, place, steps

WORST_SCORE = -0.9
"""Mean log-probability a frame below which an alignment is not believed (a wrong text, or speech that nobody would understand)."""
_BLOCK = 800
_MASKS, _LONGEST_MASK = 2, 6
_FALSE_END_SHARE = 0.15
_PAUSE_FRAMES = 8


@dataclass(frozen=True, slots=True)
class Example:
    """An utterance to learn from: `symbols` are (symbol, frame) in order, end tokens among them."""

    cache: Cache
    entry: Entry
    symbols: tuple[tuple[int, int], ...]

    @property
    def frames(self) -> int:
        return self.entry.frames // 2

    @property
    def labels(self) -> list[int]:
        return [symbol for symbol, _ in self.symbols]


@dataclass(frozen=True, slots=True)
class Batch:
    """features float32 (N, T, 768), padded with zeros; lengths; labels; what to ask the joiner, a row's Steps each."""

    features: NDArray[np.float32]
    lengths: list[int]
    labels: list[list[int]]
    steps: list[Steps]


def padded(features: Sequence[NDArray[np.float32]]) -> NDArray[np.float32]:
    whole = np.zeros((len(features), max(map(len, features)), features[0].shape[1]), np.float32)
    for row, feature in enumerate(features):
        whole[row, : len(feature)] = feature
    return whole


def read(caches: Sequence[Path], end: int, worst_score: float = WORST_SCORE) -> tuple[list[Example], Counter[str]]:
    """All examples of caches that voiced_train.align has seen, and how many were refused for which reason."""
    examples: list[Example] = []
    refused: Counter[str] = Counter()
    for path in caches:
        cache, paths = Cache(path), path.with_suffix(".paths.jsonl")
        if not paths.exists():
            raise InputError(str(path), "is not aligned", "run python -m voiced_train.align")
        lines = paths.read_text(encoding="utf-8").splitlines()
        if len(lines) != len(cache.entries):
            raise InputError(str(paths), f"has {len(lines)} lines for {len(cache.entries)} utterances", "align the cache again")
        for entry, line in zip(cache.entries, map(json.loads, lines), strict=True):
            if "refused" in line:
                refused[line["refused"].partition(":")[0]] += 1
            elif line["score"] < worst_score:
                refused["its alignment is not believed"] += 1
            else:
                try:
                    example = _example(cache, entry, line["pieces"], line["frames"], line["counts"], end)
                    place(example.symbols, example.frames)
                    examples.append(example)
                except ValueError:
                    refused["its symbols do not fit"] += 1
    return examples, refused


def _example(cache: Cache, entry: Entry, pieces: list[int], frames: list[int], counts: list[int], end: int) -> Example:
    symbols: list[tuple[int, int]] = []
    row = 0
    for sentence, count in zip(entry.sentences, counts, strict=True):
        symbols += zip(pieces[row : row + count], frames[row : row + count], strict=True)
        row += count
        if sentence.complete:
            at = end_frame(symbols[-1][1], sentence.end / FRAME_SAMPLES, sentence.patient)
            if row < len(frames) and frames[row] <= at:  # the next sentence began before: nobody could have said it was over
                continue
            symbols.append((end, min(at, entry.frames // 2 - 1)))
    return Example(cache, entry, tuple(symbols))


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
    features, asked = [], []
    for example in examples:
        feature = example.cache.frames(example.entry)
        for _ in range(_MASKS):
            length = int(rng.integers(min(_LONGEST_MASK, len(feature) // 12) + 1))
            start = int(rng.integers(len(feature) - length + 1))
            feature[start : start + length] = 0
        features.append(feature)
        targets = place(example.symbols, len(feature))
        asked.append(steps(targets, end, _false_end(targets, end, rng)))
    return Batch(padded(features), [len(feature) for feature in features], [example.labels for example in examples], asked)


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
