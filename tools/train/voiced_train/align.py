"""Which frame says which piece: forced alignment by the CTC head.

What lives here: the Viterbi search, and where words end in recordings, for the shapes of later copies. What must not: what training makes
of an alignment.

    python -m voiced_train.align CACHE… --weights weights.npz --bpe bpe.model --out cuts.jsonl

writes a line a recording that a cache has as it is: {"path": …, "cuts": [[words before, first sample, last sample], …]}.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from voiced.errors import InputError, VoicedError

from .cache import Entry
from .sound import RATE

FRAME_SAMPLES = RATE // 25
_WORD_START = "▁"
_BATCH = 16
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


def cuts(entry: Entry, pieces: Sequence[int], frames: Sequence[int], starts: Sequence[bool]) -> list[list[int]]:
    """[words before, first sample, last sample] of each gap between words, counted from the recording's own start.

    starts  whether piece number n begins a word
    """
    found, words = [], 0
    for row, piece in enumerate(pieces):
        if starts[piece]:
            if words >= 2:  # a query that is cut off has said something
                low, high = frames[row - 1] * FRAME_SAMPLES - entry.lead, (frames[row] + 1) * FRAME_SAMPLES - entry.lead
                if high > low > 0:
                    found.append([words, low, high])
            words += 1
    return found


def aligned(log: NDArray[np.float32], pieces: Sequence[int], speech_end: float) -> tuple[list[int], float]:
    """The frames of an utterance's pieces and their score, as `viterbi`, within the frames in which they may stand.

    speech_end  the frame at which the last sentence's sound ends. Raises ValueError as `viterbi` does.
    """
    return viterbi(log[: min(round(speech_end) + LATEST, len(log))], pieces)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m voiced_train.align", description="Find where words end in cached recordings.")
    parser.add_argument("caches", type=Path, nargs="+", metavar="CACHE", help="of copy 0")
    parser.add_argument("--weights", type=Path, required=True, metavar="FILE")
    parser.add_argument("--bpe", type=Path, required=True, metavar="FILE", help="bpe.model")
    parser.add_argument("--out", type=Path, required=True, metavar="FILE")
    options = parser.parse_args(arguments)
    try:
        return _run(options)
    except VoicedError as error:
        print(f"align: {error}", file=sys.stderr)
        return error.exit_code


def _run(options: argparse.Namespace) -> int:
    import sentencepiece
    import torch

    from .batches import padded, read
    from .model import listen, load

    torch.set_num_threads(1)
    top, encoder, names = load(options.weights)
    top.eval()
    bpe = sentencepiece.SentencePieceProcessor(model_file=str(options.bpe))
    starts = [name.startswith(_WORD_START) for name in names]
    examples, refused = read(options.caches, bpe)
    alone = [one for one in examples if one.entry.shape == "plain" and one.entry.speed == 1 and len(one.entry.sentences) == 1]
    if not alone:
        raise InputError(", ".join(map(str, options.caches)), "have no recording as it is", "make them with --copy 0")
    alone.sort(key=lambda one: one.frames)
    scores, lines = [], []
    for begin in range(0, len(alone), _BATCH):
        some = alone[begin : begin + _BATCH]
        with torch.inference_mode():
            logs = top.ctc(listen(encoder, top, torch.from_numpy(padded([one.features() for one in some])))).log_softmax(-1).numpy()
        for one, log in zip(some, logs, strict=True):
            frames, score = aligned(log[: one.frames], one.pieces, one.endings[-1].speech_end)
            scores.append(score)
            lines.append(json.dumps({"path": one.entry.path, "cuts": cuts(one.entry, one.pieces, frames, starts)}) + "\n")
    options.out.write_text("".join(lines), encoding="utf-8")
    print(f"{options.out}: {len(scores)} aligned, score {np.median(scores):.2f} (median), {np.quantile(scores, 0.05):.2f} (5 %)")
    for why, count in refused.most_common():
        print(f"refused {count}: {why}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
