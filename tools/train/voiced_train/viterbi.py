"""Which frame says which piece: forced alignment by the CTC head's log-probabilities (pure, NumPy).

What lives here: the Viterbi search, and where in an utterance a piece may stand. What must not: models, files, what is made of an
alignment (batches.py, align.py).
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .sound import RATE

FRAME_SAMPLES = RATE // 25
LATEST = 6
"""Frames after the end of speech in which a piece may still stand; a young model says the last ones at the end of the silence."""
UNKNOWN = 0
"""sentencepiece's number for what no piece spells; the blank's place in our vocabulary."""


def viterbi(log_probabilities: NDArray[np.floating[Any]], labels: Sequence[int]) -> tuple[list[int], float]:
    """The best CTC path through (T, symbols), blank 0: the first frame of each label, and the path's mean log-probability.

    Graves et al. 2006. Raises ValueError where the frames are too few for the labels.
    """
    frames = len(log_probabilities)
    if frames < needed(labels):
        raise ValueError(f"{frames} frames are too few for {len(labels)} labels, which need {needed(labels)}")
    if not labels:
        return [], float(log_probabilities[:, 0].mean())
    states = np.zeros(2 * len(labels) + 1, np.int64)
    states[1::2] = labels
    emitted = log_probabilities[:, states]
    may_skip = np.zeros(len(states), bool)
    may_skip[3::2] = states[3::2] != states[1:-2:2]
    score = np.full(len(states), -np.inf)
    score[:2] = emitted[0, :2]
    came = np.zeros((frames, len(states)), np.int8)  # from how many states back
    choices = np.full((3, len(states)), -np.inf)
    columns = np.arange(len(states))
    for frame in range(1, frames):
        choices[0] = score
        choices[1, 1:] = score[:-1]
        choices[2, 2:] = np.where(may_skip[2:], score[:-2], -np.inf)
        came[frame] = choices.argmax(0)
        score = choices[came[frame], columns] + emitted[frame]
    state = len(states) - 1 if score[-1] > score[-2] else len(states) - 2
    total = float(score[state])
    first = [0] * len(labels)
    for frame in range(frames - 1, -1, -1):
        if state % 2:
            first[state // 2] = frame
        state -= int(came[frame, state])
    return first, total / frames


def needed(labels: Sequence[int]) -> int:
    """Frames that CTC needs at the least: one a label, and a blank between two that are the same."""
    return len(labels) + sum(before == after for before, after in itertools.pairwise(labels))


def aligned(log: NDArray[np.float32], pieces: Sequence[int], speech_end: float) -> tuple[list[int], float]:
    """The frames of an utterance's pieces and their score, as `viterbi`, within the frames in which they may stand.

    speech_end  the frame at which the last sentence's sound ends. Raises ValueError as `viterbi` does.
    """
    return viterbi(log[: min(round(speech_end) + LATEST, len(log))], pieces)
