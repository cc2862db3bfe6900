"""Training of the upper half on cached features: CTC, then one path with "late is still right", then, if asked, the full lattice.

What lives here: the loop, its schedule, checkpoints and log. What must not: losses' mathematics (paths.py, rnnt.py), data.

    python -m voiced_train.train ctc|path|rnnt CACHE.f16… --start weights.npz --bpe bpe.model --out DIR --minutes N [--dev CACHE.f16…]

Stopped at any time, it goes on from DIR/state.pt when it is called again; the minutes count what was trained, not what was waited.
DIR/log.jsonl has a line each hundred steps and each look at the development set; voiced_train.curve draws it.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional
from voiced.errors import InputError, VoicedError

from . import batches
from .batches import Batch
from .model import Top, load, save
from .rnnt import rnnt_loss
from .search import score

PHASES = ("ctc", "path", "rnnt")
_WARM_UP_STEPS = 60
_LAST_RATE = 0.02
_DROPOUT = 0.1
_CTC_SHARE = 0.3
_LOOK_MINUTES, _SAVE_MINUTES = 6.0, 3.0
_FAST_EMIT = 0.005


@dataclass
class Course:
    """How far a run is: seconds trained, steps, and the figures since the last line of the log."""

    seconds: float = 0.0
    step: int = 0
    figures: list[tuple[float, ...]] = field(default_factory=list)


def losses(top: Top, batch: Batch, phase: str) -> tuple[Tensor, Tensor]:
    """(transducer's loss a symbol or 0, CTC's a label). Called where gradients are recorded."""
    with torch.autocast("cpu", torch.bfloat16):
        hidden = top(torch.from_numpy(batch.features), _DROPOUT)
        logs = top.ctc(hidden).float().log_softmax(-1)
        encoded = top.from_encoder(hidden).float()
    counts = [len(labels) for labels in batch.labels]
    flat = torch.tensor([label for labels in batch.labels for label in labels])
    lengths = torch.tensor(batch.lengths)
    ctc = functional.ctc_loss(logs.transpose(0, 1), flat, lengths, torch.tensor(counts), zero_infinity=True)
    if phase == "ctc":
        return torch.zeros(()), ctc
    if phase == "path":
        return _path_loss(top, encoded, batch), ctc
    return _lattice_loss(top, encoded, batch, counts), ctc


def _path_loss(top: Top, encoded: Tensor, batch: Batch) -> Tensor:
    rows = torch.from_numpy(np.concatenate([np.full(len(steps.frames), row) for row, steps in enumerate(batch.steps)]))
    frames = torch.from_numpy(np.concatenate([steps.frames for steps in batch.steps]))
    contexts = torch.from_numpy(np.concatenate([steps.contexts for steps in batch.steps]))
    targets = torch.from_numpy(np.concatenate([steps.targets for steps in batch.steps]))
    weights = torch.from_numpy(np.concatenate([steps.weights for steps in batch.steps]))
    seen, place = torch.unique(contexts[:, 0] * top.shape.symbols + contexts[:, 1], return_inverse=True)
    predicted = top.predict(torch.stack([seen // top.shape.symbols, seen % top.shape.symbols], 1))
    logits = top.join(encoded[rows, frames], predicted[place])
    each = functional.cross_entropy(logits, targets, reduction="none", label_smoothing=0.01)
    return (each * weights).sum() / max(sum(map(len, batch.labels)), 1)


def _lattice_loss(top: Top, encoded: Tensor, batch: Batch, counts: list[int]) -> Tensor:
    labels = torch.zeros(len(counts), max(counts), dtype=torch.int64)
    for row, own in enumerate(batch.labels):
        labels[row, : len(own)] = torch.tensor(own)
    history = functional.pad(labels, (2, 0))
    contexts = torch.stack([history[:, :-1], history[:, 1:]], 2)
    predicted = top.predict(contexts.reshape(-1, 2)).view(len(counts), -1, top.shape.joint)
    logits = top.join(encoded[:, :, None], predicted[:, None])
    each = rnnt_loss(logits, labels, batch.lengths, counts, one_a_frame=True, fast_emit=_FAST_EMIT)
    return each.sum() / sum(counts)


def rate(share: float, step: int, highest: float) -> float:
    """The learning rate when `share` (0 … 1) of the time is over: warm-up by steps, then half a cosine down to 2 %."""
    cosine = 0.5 * (1 + math.cos(math.pi * min(share, 1.0)))
    return highest * min(1.0, (step + 1) / _WARM_UP_STEPS) * (_LAST_RATE + (1 - _LAST_RATE) * cosine)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m voiced_train.train", description="Train the recognizer's upper half.")
    parser.add_argument("phase", choices=PHASES)
    parser.add_argument("caches", type=Path, nargs="+", metavar="CACHE")
    parser.add_argument("--dev", type=Path, nargs="*", default=[], metavar="CACHE", help="looked at, never learned from")
    parser.add_argument("--start", type=Path, required=True, metavar="FILE", help="weights.npz to begin from")
    parser.add_argument("--bpe", type=Path, required=True, metavar="FILE")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR")
    until = parser.add_mutually_exclusive_group(required=True)
    until.add_argument("--minutes", type=float, default=math.inf, metavar="N", help="of training, those of earlier calls included")
    until.add_argument("--steps", type=float, default=math.inf, metavar="N", help="the same, counted: two runs are alike then")
    parser.add_argument("--rate", type=float, default=1e-3, metavar="X", help="highest learning rate (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=60, metavar="N", help="of speech in a batch (default: %(default)s)")
    parser.add_argument("--worst-score", type=float, default=batches.WORST_SCORE, metavar="X", help="of an alignment to believe")
    parser.add_argument("--threads", type=int, default=2, metavar="N")
    parser.add_argument("--seed", type=int, default=0, metavar="N")
    options = parser.parse_args(arguments)
    try:
        return _run(options)
    except VoicedError as error:
        print(f"train: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        return 130


def _run(options: argparse.Namespace) -> int:
    import sentencepiece

    torch.set_num_threads(options.threads)
    torch.set_flush_denormal(True)
    bpe = sentencepiece.SentencePieceProcessor(model_file=str(options.bpe))
    top, encoder, pieces = load(options.start)
    end = top.shape.end
    worst = -math.inf if options.phase == "ctc" else options.worst_score  # CTC finds its own alignment
    examples, refused = batches.read(options.caches, end, worst)
    watched = batches.read(options.dev, end, worst)[0]
    hours = sum(example.frames for example in examples) / 25 / 3600
    reasons = "".join(f"; refused {count}: {why}" for why, count in refused.most_common())
    print(f"{len(examples)} utterances, {hours:.2f} h; {len(watched)} to watch{reasons}", flush=True)
    optimizer = torch.optim.AdamW(top.parameters(), options.rate, betas=(0.9, 0.98), weight_decay=1e-2)
    course, log = Course(), options.out / "log.jsonl"
    options.out.mkdir(parents=True, exist_ok=True)
    state = options.out / "state.pt"
    if state.exists():
        kept = torch.load(state, weights_only=True)
        top.load_state_dict(kept["top"])
        optimizer.load_state_dict(kept["optimizer"])
        course.seconds, course.step = kept["seconds"], kept["step"]
    torch.manual_seed(options.seed + course.step)
    source = batches.batches(examples, round(options.seconds * 25), end, np.random.default_rng([options.seed, course.step]))

    def note(**values: Any) -> None:
        line = json.dumps({"phase": options.phase, "step": course.step, "minutes": round(course.seconds / 60, 2), **values})
        print(line, flush=True)
        with log.open("a", encoding="utf-8") as file:
            file.write(line + "\n")

    def look() -> None:
        if watched:
            top.eval()
            note(**score(top, watched, bpe))
            top.train()

    def keep() -> None:
        part = state.with_suffix(".part")
        values = {"top": top.state_dict(), "optimizer": optimizer.state_dict(), "seconds": course.seconds, "step": course.step}
        torch.save(values, part)
        part.replace(state)
        save(options.out / "weights.npz", top, encoder, pieces)

    top.train()
    saved = looked = course.seconds
    while (share := max(course.seconds / 60 / options.minutes, course.step / options.steps)) < 1:
        started = time.monotonic()
        for group in optimizer.param_groups:
            group["lr"] = rate(share, course.step, options.rate)
        batch = next(source)
        transducer, ctc = losses(top, batch, options.phase)
        loss = ctc if options.phase == "ctc" else transducer + _CTC_SHARE * ctc
        if not torch.isfinite(loss):
            raise InputError(f"step {course.step}", "the loss is no number", f"lower --rate, or begin again from {state}")
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(top.parameters(), 2.0)
        optimizer.step()
        spent = time.monotonic() - started
        course.seconds += spent
        course.step += 1
        course.figures.append((float(transducer.detach()), float(ctc.detach()), sum(batch.lengths) / 25 / spent))
        if course.step % 100 == 0:
            transducer_loss, ctc_loss, speed = (round(float(value), 3) for value in np.mean(course.figures, 0))
            note(transducer=transducer_loss, ctc=ctc_loss, real_time=round(speed))
            course.figures.clear()
        if course.seconds - looked > _LOOK_MINUTES * 60:
            looked = course.seconds
            look()
        if course.seconds - saved > _SAVE_MINUTES * 60:
            saved = course.seconds
            keep()
    keep()
    look()
    return 0


if __name__ == "__main__":
    sys.exit(main())
