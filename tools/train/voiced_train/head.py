"""A wake head: two layers over 16 embeddings, trained with NumPy, written as ONNX.

What lives here: the head, its gradient, Adam, and the rounds of training in which the foreign windows that still score high come again.
What must not: sound, recordings, PyTorch (it has no wheel for some boards), the file's bytes (onnx_file.py).

    score = sigmoid(w₂ · relu(W₁ x + b₁) + b₂),  x ∈ R^1536 the window, the oldest embedding first

Trained by weighted cross-entropy on standardised windows; the standardisation is folded into W₁ at the end. Kingma and Ba 2015 (Adam),
Polyak and Juditsky 1992 (the mean of the weights over the last steps is what is kept, here an exponential one).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace

import numpy as np
from numpy.typing import NDArray
from voiced.stages.features import EMBEDDING_SIZE, EMBEDDINGS

from .wake_tracks import Tracks

Floats = NDArray[np.float32]

SIZE = EMBEDDINGS * EMBEDDING_SIZE
HIDDEN = 32

_CHUNK = 8192
_EPSILON = 1e-7


@dataclass(frozen=True, slots=True)
class Head:
    """w1 (1536, hidden), b1 (hidden,), w2 (hidden,), b2 (1,): float32. Its scores are those of its file."""

    w1: Floats
    b1: Floats
    w2: Floats
    b2: Floats

    def logits(self, windows: Floats) -> Floats:
        """float32 (n, 1536) → (n,)"""
        hidden = np.maximum(windows @ self.w1 + self.b1, 0)
        found: Floats = hidden @ self.w2 + self.b2
        return found

    def track_logits(self, tracks: Tracks) -> Floats:
        """float32 (windows,), in the order of `tracks.all_windows()`: each row is multiplied once for the 16 windows that it is in."""
        pieces = self.w1.reshape(EMBEDDINGS, EMBEDDING_SIZE, -1).transpose(1, 0, 2).reshape(EMBEDDING_SIZE, -1)
        found = np.zeros(max(len(tracks.rows) - EMBEDDINGS + 1, 0), np.float32)
        for first in range(0, len(found), _CHUNK):
            count = min(_CHUNK, len(found) - first)
            rows = tracks.rows[first : first + count + EMBEDDINGS - 1].astype(np.float32)
            parts = (rows @ pieces).reshape(len(rows), EMBEDDINGS, -1)
            hidden = sum(parts[place : place + count, place] for place in range(EMBEDDINGS)) + self.b1
            found[first : first + count] = np.maximum(hidden, 0) @ self.w2 + self.b2
        return found[tracks.all_windows()]


@dataclass(frozen=True, slots=True)
class Recipe:
    """Numbers of a training.

    noise     standard deviations of Gaussian noise on each standardised number: no two windows are the same twice
    heads     heads trained from other seeds, whose mean is the head: each errs elsewhere
    rounds    times that all foreign windows are scored and the worst of them drawn from
    hard      share of a batch's foreign windows that are drawn from the worst
    """

    seed: int = 0
    heads: int = 2
    rounds: int = 6
    steps: int = 200
    batch: int = 768
    hard: float = 0.5
    rate: float = 1e-3
    decay: float = 1e-2
    noise: float = 0.5
    average: float = 0.99
    foreign_weight: float = 1.0
    patience: int = 3

    def seeded(self, seed: int) -> Recipe:
        return replace(self, seed=seed)


@dataclass(frozen=True, slots=True)
class Round:
    """What the validation part said after a round.

    missed     share of its phrases (by track) with no window at the threshold
    threshold  the logit that its foreign sound reaches at most `allowed` times
    loss       mean cross-entropy, halves weighed alike
    """

    number: int
    missed: float
    threshold: float
    loss: float


@dataclass(frozen=True, slots=True)
class Examples:
    """Windows of the phrase and of foreign sound.

    phrases   tracks that hold the phrase; `hits` are the windows in which it has just been said, `hit_of` the track of each
    foreign   tracks that do not; `others` are windows of the phrase's own tracks in which it is not said, or not yet whole
    """

    phrases: Tracks
    hits: NDArray[np.int64]
    hit_of: NDArray[np.int64]
    others: NDArray[np.int64]
    foreign: Tracks


def train(
    learn: Examples, judge: Examples, recipe: Recipe = Recipe(), told: Callable[[Round], None] = lambda _: None, *, allowed: int = 1
) -> Head:
    """The mean of the recipe's heads. Raises ValueError where a side has no windows."""
    return merged([train_one(learn, judge, recipe.seeded(recipe.seed * 1000 + at), told, allowed) for at in range(recipe.heads)])


def merged(heads: Sequence[Head]) -> Head:
    """One head whose logit is the mean of theirs."""
    w1, b1 = np.concatenate([head.w1 for head in heads], 1), np.concatenate([head.b1 for head in heads])
    w2 = np.concatenate([head.w2 for head in heads]) / len(heads)
    return Head(w1, b1, w2.astype(np.float32), np.mean([head.b2 for head in heads], axis=0, dtype=np.float32))


def train_one(learn: Examples, judge: Examples, recipe: Recipe, told: Callable[[Round], None], allowed: int) -> Head:
    """A head from `learn`, stopped by `judge` (other recordings). Seeded: the same examples give the same head, up to the processor's
    rounding. Raises ValueError where a side has no windows."""
    foreign = learn.foreign.all_windows()
    if not (len(learn.hits) and len(foreign) and len(judge.hits) and len(judge.foreign.rows)):
        raise ValueError("train wants windows of the phrase and foreign ones, to learn from and to judge by")
    random = np.random.default_rng(recipe.seed)
    mean, deviation = _spread(learn, foreign, random)
    weights = _born(random)
    averaged, moments = weights, (_zeros(weights), _zeros(weights))
    hard = random.choice(foreign, min(len(foreign), 20_000), replace=False)
    best, best_key, waited, step = _folded(weights, mean, deviation), (np.inf, np.inf), 0, 0
    total = recipe.rounds * recipe.steps
    for number in range(1, recipe.rounds + 1):
        for _ in range(recipe.steps):
            step += 1
            windows, wanted, weigh = _batch(learn, foreign, hard, recipe, random)
            windows = (windows - mean) / deviation
            windows += random.standard_normal(windows.shape, np.float32) * recipe.noise
            rate = recipe.rate * min(step / 100, 1) * (0.5 + 0.5 * np.cos(np.pi * step / total)) + 1e-6
            weights, moments = _adam(weights, _gradient(weights, windows, wanted, weigh), moments, step, rate, recipe.decay)
            keep = min(recipe.average, step / (step + 10))
            averaged = _mixed(averaged, weights, keep)
        head = _folded(averaged, mean, deviation)
        scores = head.track_logits(learn.foreign)
        # four times as many as a round draws: the worst, and those just below them
        hard = foreign[np.argsort(-scores, kind="stable")[: max(2000, len(foreign) // 50)]]
        result = validated(head, judge, number, allowed)
        told(result)
        waited += 1
        if (result.missed, result.loss) < best_key:
            best, best_key, waited = head, (result.missed, result.loss), 0
        if waited >= recipe.patience:
            break
    return best


def validated(head: Head, judge: Examples, number: int, allowed: int) -> Round:
    """How the head does on recordings that it did not learn from."""
    foreign = np.sort(head.track_logits(judge.foreign))
    threshold = float(foreign[-allowed - 1]) if len(foreign) > allowed else float(foreign[0])
    hits = head.logits(judge.phrases.take(judge.hits))
    best = np.full(int(judge.hit_of.max()) + 1, -np.inf, np.float32)
    np.maximum.at(best, judge.hit_of, hits)
    best = best[np.isfinite(best)]
    loss = float(np.logaddexp(0, -hits).mean() + np.logaddexp(0, foreign).mean())
    return Round(number, float((best <= threshold).mean()), threshold, loss)


def moved(head: Head, logit: float) -> Head:
    """The head whose score is one half where this one's logit is `logit`."""
    return replace(head, b2=(head.b2 - np.float32(logit)).astype(np.float32))


def stretched(head: Head, factor: float) -> Head:
    """The head whose logits are `factor` times as large."""
    return replace(head, w2=(head.w2 * np.float32(factor)).astype(np.float32), b2=(head.b2 * np.float32(factor)).astype(np.float32))


# ── one step ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def _batch(
    learn: Examples, foreign: NDArray[np.int64], hard: NDArray[np.int64], recipe: Recipe, random: np.random.Generator
) -> tuple[Floats, Floats, Floats]:
    """(n, 1536), wanted (n,) and weights (n,): a third phrases, the rest foreign, part of it the worst and the phrase's own beginnings."""
    count = recipe.batch // 3
    worst = round(recipe.hard * 2 * count)
    begun = count // 4 if len(learn.others) else 0
    of_phrases = np.concatenate((random.choice(learn.hits, count), random.choice(learn.others, begun) if begun else learn.others[:0]))
    elsewhere = np.concatenate((random.choice(hard, worst), random.choice(foreign, 2 * count - worst - begun)))
    windows = np.concatenate((learn.phrases.take(of_phrases), learn.foreign.take(elsewhere)))
    wanted = np.zeros(len(windows), np.float32)
    wanted[:count] = 1
    weigh = np.where(wanted > 0, 0.5 / count, 0.5 * recipe.foreign_weight / (len(windows) - count)).astype(np.float32)
    return windows, wanted, weigh


def _gradient(weights: Head, windows: Floats, wanted: Floats, weigh: Floats) -> Head:
    before = windows @ weights.w1 + weights.b1
    hidden = np.maximum(before, 0)
    logits = hidden @ weights.w2 + weights.b2
    slope = ((1 / (1 + np.exp(-np.clip(logits, -30, 30))) - wanted) * weigh).astype(np.float32)
    back = np.where(before > 0, slope[:, None] * weights.w2, 0).astype(np.float32)
    return Head(windows.T @ back, back.sum(0), hidden.T @ slope, slope.sum(keepdims=True))


def _adam(
    weights: Head, gradient: Head, moments: tuple[Head, Head], step: int, rate: float, decay: float
) -> tuple[Head, tuple[Head, Head]]:
    """One step; the decay is apart from the gradient, and on the matrix alone (Loshchilov and Hutter 2019)."""
    first = _mixed(moments[0], gradient, 0.9)
    second = _map(lambda old, new: (0.999 * old + 0.001 * new * new).astype(np.float32), moments[1], gradient)
    lift, spread = 1 / (1 - 0.9**step), 1 / (1 - 0.999**step)
    change = _map(lambda m, v: (m * lift / (np.sqrt(v * spread) + _EPSILON)).astype(np.float32), first, second)
    moved_ = _map(lambda old, delta: (old - rate * delta).astype(np.float32), weights, change)
    return replace(moved_, w1=(moved_.w1 - rate * decay * weights.w1).astype(np.float32)), (first, second)


def _map(function: Callable[[Floats, Floats], Floats], one: Head, other: Head) -> Head:
    return Head(*(function(getattr(one, field.name), getattr(other, field.name)) for field in fields(Head)))


def _mixed(old: Head, new: Head, keep: float) -> Head:
    return _map(lambda a, b: (keep * a + (1 - keep) * b).astype(np.float32), old, new)


def _zeros(like: Head) -> Head:
    return _map(lambda a, _: np.zeros_like(a), like, like)


def _born(random: np.random.Generator) -> Head:
    """He et al. 2015."""
    w1 = random.standard_normal((SIZE, HIDDEN), np.float32) * np.float32(np.sqrt(2 / SIZE))
    w2 = random.standard_normal(HIDDEN, np.float32) * np.float32(np.sqrt(1 / HIDDEN))
    return Head(w1, np.zeros(HIDDEN, np.float32), w2, np.zeros(1, np.float32))


def _spread(learn: Examples, foreign: NDArray[np.int64], random: np.random.Generator) -> tuple[Floats, Floats]:
    """Mean and standard deviation of each of the 1,536 numbers, half of them the phrase's."""
    count = 4000
    windows = np.concatenate((learn.phrases.take(random.choice(learn.hits, count)), learn.foreign.take(random.choice(foreign, count))))
    return windows.mean(0), windows.std(0) + np.float32(1e-3)


def _folded(weights: Head, mean: Floats, deviation: Floats) -> Head:
    w1 = (weights.w1 / deviation[:, None]).astype(np.float32)
    return replace(weights, w1=w1, b1=(weights.b1 - mean @ w1).astype(np.float32))
