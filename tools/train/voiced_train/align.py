"""Which frame says which piece: forced alignment by the CTC head.

What lives here: the Viterbi search, and a file of alignments beside each cache. What must not: what training makes of them.

    python -m voiced_train.align CACHE.f16… --weights weights.npz --bpe bpe.model [--cuts cuts.jsonl]

writes CACHE.paths.jsonl, a line an utterance: {"pieces": […], "frames": […], "score": mean log-probability a frame}, or {"refused": why}.
`--cuts` also writes where words end in the recordings, for the shapes of later copies.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from voiced.errors import InputError, VoicedError

from .cache import Cache, Entry
from .sound import RATE

FRAME_SAMPLES = RATE // 25
_WORD_START = "▁"
_BATCH = 16
_LATEST = 6
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


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m voiced_train.align", description="Align cached utterances with their texts.")
    parser.add_argument("caches", type=Path, nargs="+", metavar="CACHE")
    parser.add_argument("--weights", type=Path, required=True, metavar="FILE")
    parser.add_argument("--bpe", type=Path, required=True, metavar="FILE", help="bpe.model")
    parser.add_argument("--cuts", type=Path, metavar="FILE", help="where words end, to be written")
    options = parser.parse_args(arguments)
    try:
        return _run(options)
    except VoicedError as error:
        print(f"align: {error}", file=sys.stderr)
        return error.exit_code


def _run(options: argparse.Namespace) -> int:
    import sentencepiece
    import torch

    from .batches import padded
    from .model import load

    torch.set_num_threads(1)
    top, _, names = load(options.weights)
    top.eval()
    bpe = sentencepiece.SentencePieceProcessor(model_file=str(options.bpe))
    starts = [name.startswith(_WORD_START) for name in names]
    refused: Counter[str] = Counter()
    lines: list[str] = []
    for path in options.caches:
        cache = Cache(path)
        answers: list[dict[str, Any]] = [{}] * len(cache.entries)
        order = sorted(range(len(cache.entries)), key=lambda row: cache.entries[row].frames)
        for begin in range(0, len(order), _BATCH):
            rows = order[begin : begin + _BATCH]
            features = [cache.frames(cache.entries[row]) for row in rows]
            with torch.inference_mode(), torch.autocast("cpu", torch.bfloat16):
                hidden = top(torch.from_numpy(padded(features)))
                logs = top.ctc(hidden).float().log_softmax(-1).numpy()
            for row, feature, log in zip(rows, features, logs, strict=True):
                answers[row] = _aligned(cache.entries[row], log[: len(feature)], bpe)
        for entry, answer in zip(cache.entries, answers, strict=True):
            if "refused" in answer:
                refused[answer["refused"].split(":")[0]] += 1
            elif options.cuts and entry.shape == "plain" and entry.speed == 1 and len(entry.sentences) == 1:
                found = cuts(entry, answer["pieces"], answer["frames"], starts)
                lines.append(json.dumps({"path": entry.path, "cuts": found}) + "\n")
        path.with_suffix(".paths.jsonl").write_text("".join(json.dumps(answer) + "\n" for answer in answers), encoding="utf-8")
        scores = [answer["score"] for answer in answers if "score" in answer]
        if not scores:
            raise InputError(str(path), "has no utterance that can be aligned")
        print(f"{path}: {len(scores)} aligned, score {np.median(scores):.2f} (median), {np.quantile(scores, 0.05):.2f} (5 %)", flush=True)
    if options.cuts:
        options.cuts.write_text("".join(lines), encoding="utf-8")
    for why, count in refused.most_common():
        print(f"refused {count}: {why}")
    return 0


def _aligned(entry: Entry, log: NDArray[np.float32], bpe: Any) -> dict[str, Any]:
    pieces = [piece for sentence in entry.sentences for piece in bpe.encode(sentence.text)]
    if not pieces:
        return {"refused": f"empty text: {entry.path}"}
    if UNKNOWN in pieces:
        return {"refused": f"out of the vocabulary: {entry.text!r} of {entry.path}"}
    speech = min(round(entry.sentences[-1].end / FRAME_SAMPLES) + _LATEST, len(log))
    try:
        frames, score = viterbi(log[:speech], pieces)
    except ValueError as error:
        return {"refused": f"too short for its labels: {entry.path}: {error}"}
    counts = [len(bpe.encode(sentence.text)) for sentence in entry.sentences]
    return {"pieces": pieces, "frames": frames, "counts": counts, "score": round(score, 4)}


if __name__ == "__main__":
    sys.exit(main())
