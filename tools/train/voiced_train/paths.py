"""One path through the transducer's lattice: which symbol belongs at which frame, and what the predictor has seen by then.

What lives here: targets from an alignment (pure, NumPy). What must not: PyTorch, files.

Greedy search in sherpa-onnx says one symbol a frame at most, so a path has one target a frame. **Late is still right**: at the frames
after a symbol's own, where the predictor has not seen it yet, the symbol is still the target; so what is said late is said
once and not lost. `</s>` may be late by half a second, a piece by two frames. **Early is wrong**: until its frame, blank is the
target, and blank weighs more in a pause, where an end token would cost the speaker the rest of the query.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

LATE_PIECE = 2
LATE_END = 12
PROMPT_END = 3
"""Frames of 40 ms from the end of speech to the end token. Later ones do not tell pauses from ends better: at 2 and at 5 as many pauses of
half a second had a token, and a turn never ends before its token's frame, so each frame here is waited for."""
PATIENT_END = 14
"""The same for what was read aloud: longer than half a second, since a reader pauses so inside a sentence."""

_LONGEST_DRIFT = 10
_PAUSE = 4
_PAUSE_WEIGHT = 4.0
BLANK = 0


@dataclass(frozen=True, slots=True)
class Steps:
    """Questions to the joiner and their answers, n of them: each frame once, and again for every symbol that may be late.

    frames int64 (n,), contexts int64 (n, symbols that the predictor sees), targets int64 (n,), weights float32 (n,)
    """

    frames: NDArray[np.int64]
    contexts: NDArray[np.int64]
    targets: NDArray[np.int64]
    weights: NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Ending:
    """Of a sentence in an utterance: how many pieces it has, the frame at which its sound ends, and what belongs after it."""

    pieces: int
    speech_end: float
    complete: bool
    patient: bool


def end_frame(last_piece: int, speech_end: float, patient: bool) -> int:
    """Where `</s>` belongs after a sentence whose last piece stands at frame `last_piece`.

    speech_end  frame at which the sound's energy ends; believed where it lies 1 to 10 frames after the last piece
    """
    end = int(np.clip(np.ceil(speech_end), last_piece + 1, last_piece + _LONGEST_DRIFT))
    return end + (PATIENT_END if patient else PROMPT_END)


def place(symbols: Sequence[tuple[int, int]], frames: int) -> NDArray[np.int64]:
    """(symbol, frame) in order → targets (frames,): each at its frame, or at the first free one after it.

    Raises ValueError where they do not fit.
    """
    targets = np.zeros(frames, np.int64)
    last = -1
    for symbol, frame in symbols:
        last = max(last + 1, frame)
        if last >= frames:
            raise ValueError(f"{len(symbols)} symbols do not fit into {frames} frames")
        targets[last] = symbol
    return targets


def timed(pieces: Sequence[int], frames: Sequence[int], sentences: Sequence[Ending], end: int, last: int) -> list[tuple[int, int]]:
    """(symbol, frame) in order: the pieces where the alignment has them, and the end tokens of complete sentences.

    last  the utterance's last frame, beyond which no end token stands
    """
    symbols: list[tuple[int, int]] = []
    row = 0
    for sentence in sentences:
        symbols += zip(pieces[row : row + sentence.pieces], frames[row : row + sentence.pieces], strict=True)
        row += sentence.pieces
        if sentence.complete:
            at = end_frame(symbols[-1][1], sentence.speech_end, sentence.patient)
            if row < len(frames) and frames[row] <= at:  # the next sentence began before: nobody could have said it was over
                continue
            symbols.append((end, min(at, last)))
    return symbols


def steps(targets: NDArray[np.int64], end: int, size: int, false_end: int | None = None) -> Steps:
    """What to ask the joiner about a path.

    end        the number of `</s>`
    size       symbols that the predictor sees
    false_end  a frame at which the predictor is told of an end token that was none: speech must go on after it
    """
    asked: list[tuple[int, int, float]] = []
    contexts: list[tuple[int, ...]] = []
    context = (BLANK,) * size
    quiet = 0
    for frame, symbol in enumerate(targets.tolist()):
        if frame == false_end:
            context = (*context[1:], end)
        quiet = 0 if symbol else quiet + 1
        weight = _PAUSE_WEIGHT if symbol == BLANK and quiet > _PAUSE and context[-1] not in (BLANK, end) else 1.0
        asked.append((frame, symbol, weight))
        if symbol != BLANK:
            late = LATE_END if symbol == end else LATE_PIECE
            for after in range(frame + 1, min(frame + late + 1, len(targets))):
                if targets[after] != BLANK:
                    break
                asked.append((after, symbol, 1.0))
        contexts += [context] * (len(asked) - len(contexts))
        if symbol != BLANK:
            context = (*context[1:], symbol)
    frames, symbols, weights = zip(*asked, strict=True)
    return Steps(np.array(frames), np.array(contexts), np.array(symbols), np.array(weights, np.float32))
