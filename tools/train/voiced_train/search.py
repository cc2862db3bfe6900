"""Greedy search in PyTorch, as sherpa-onnx does it: one symbol a frame at most.

What lives here: search over a batch of cached utterances, and what is counted while training. What must not: figures that are
published (`voicectl asr eval` measures the exported model through sherpa-onnx).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from .batches import Example, padded
from .encoder import Encoder
from .model import BLANK, Top, listen

_BATCH = 24


@torch.inference_mode()
def greedy(encoder: Encoder, top: Top, examples: Sequence[Example], end_bias: float = 0.0) -> list[list[tuple[int, int]]]:
    """(symbol, frame) of each example, in the examples' order. `end_bias` favours `</s>` over the blank alone."""
    answers: list[list[tuple[int, int]]] = [[] for _ in examples]
    order = sorted(range(len(examples)), key=lambda row: examples[row].frames)
    for begin in range(0, len(order), _BATCH):
        rows = order[begin : begin + _BATCH]
        features = padded([examples[row].features() for row in rows])
        encoded = top.from_encoder(listen(encoder, top, torch.from_numpy(features)))
        context = torch.zeros(len(rows), top.shape.context, dtype=torch.int64)
        predicted = top.predict(context)
        for frame in range(encoded.shape[1]):
            logits = top.join(encoded[:, frame], predicted)
            best = logits.argmax(-1)
            ends = (best == BLANK) & (logits[:, top.shape.end] + end_bias > logits[:, BLANK])
            best = torch.where(ends, top.shape.end, best)
            said = best != BLANK
            if not said.any():
                continue
            for place, row in enumerate(rows):
                if said[place] and frame < examples[row].frames:
                    answers[row].append((int(best[place]), frame))
            context = torch.where(said[:, None], torch.cat([context[:, 1:], best[:, None]], 1), context)
            predicted = torch.where(said[:, None], top.predict(context), predicted)
    return answers


def score(encoder: Encoder, top: Top, examples: Sequence[Example], bpe: Any, end_bias: float = 0.0) -> dict[str, float]:
    """Word error rate; shares of the sentences whose `</s>` comes, and comes early (240 ms); its median delay after the end."""
    import jiwer

    said = greedy(encoder, top, examples, end_bias)
    end = top.shape.end
    wanted = [example.entry.text for example in examples]
    heard = [bpe.decode([symbol for symbol, _ in row if symbol != end]) for row in said]
    hit = early = ends = 0
    delays = []
    for example, row in zip(examples, said, strict=True):
        if len(example.endings) != 1 or not example.endings[0].complete:
            continue
        ends += 1
        spoken = example.endings[0].speech_end
        tokens = [frame for symbol, frame in row if symbol == end]
        early += any(frame < spoken - 6 for frame in tokens)
        after = [frame - spoken for frame in tokens if frame >= spoken - 6]
        hit += bool(after)
        delays += after[:1]
    return {
        "wer": round(jiwer.wer(wanted, heard), 4),
        "ends": round(hit / max(ends, 1), 3),
        "early": round(early / max(ends, 1), 3),
        "delay_ms": round(40 * float(np.median(delays))) if delays else -1,
    }
