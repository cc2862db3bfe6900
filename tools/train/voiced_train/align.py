"""Where words end in recordings, by the CTC head's alignment, for the shapes of later copies.

What lives here: the command, from cached recordings to their gaps between words. What must not: the search (viterbi.py), what training
makes of an alignment (batches.py).

    python -m voiced_train.align CACHE… --weights weights.npz --bpe bpe.model --out cuts.jsonl

writes a line a recording that a cache has as it is: {"path": …, "cuts": [[words before, first sample, last sample], …]}.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from voiced.errors import InputError, VoicedError

from .batches import padded, read
from .cache import Entry
from .viterbi import FRAME_SAMPLES, aligned

_WORD_START = "▁"
_BATCH = 16


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
