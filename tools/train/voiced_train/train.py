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
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional
from voiced.errors import InputError, VoicedError

from . import batches
from .batches import Batch, Example
from .encoder import Encoder
from .model import Top, load, save
from .rnnt import rnnt_loss
from .search import score

PHASES = ("ctc", "path", "rnnt")
_WARM_UP_STEPS = 60
_LAST_RATE = 0.02
_DROPOUT = 0.1
_CTC_SHARE = 0.3
_PATH_SHARE = 0.2
"""Of the path's loss beside the lattice's, which is some four times smaller."""
_LOOK_MINUTES, _SAVE_MINUTES = 6.0, 3.0
_FAST_EMIT = 0.005


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
    # the lattice alone lets an end token come whenever it likes in the silence
    return _lattice_loss(top, encoded, batch, counts) + _PATH_SHARE * _path_loss(top, encoded, batch), ctc


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


def _run(options: argparse.Namespace) -> int:
    import sentencepiece

    torch.set_num_threads(options.threads)
    torch.set_flush_denormal(True)
    top, encoder, pieces = load(options.start)
    worst = -math.inf if options.phase == "ctc" else options.worst_score  # CTC finds its own alignment
    examples, refused = batches.read(options.caches, top.shape.end, worst)
    watched = batches.read(options.dev, top.shape.end, worst)[0]
    hours = sum(example.frames for example in examples) / 25 / 3600
    reasons = "".join(f"; refused {count}: {why}" for why, count in refused.most_common())
    print(f"{len(examples)} utterances, {hours:.2f} h; {len(watched)} to watch{reasons}", flush=True)
    bpe = sentencepiece.SentencePieceProcessor(model_file=str(options.bpe))
    run = Run(options.out, options.phase, top, encoder, pieces, bpe, watched)
    try:
        run.train(examples, options)
    except KeyboardInterrupt:
        run.keep()
        return 130
    run.keep()
    run.look()
    return 0


class Run:
    """One training: what is trained, how far it is, and its folder, from which it goes on where it was."""

    def __init__(
        self, folder: Path, phase: str, top: Top, encoder: Encoder, pieces: list[str], bpe: Any, watched: Sequence[Example]
    ) -> None:
        self.folder, self.phase = folder, phase
        self.top, self.encoder, self.pieces = top, encoder, pieces
        self.bpe, self.watched = bpe, watched
        self.optimizer = torch.optim.AdamW(top.parameters(), betas=(0.9, 0.98), weight_decay=1e-2)
        self.seconds, self.step = 0.0, 0
        folder.mkdir(parents=True, exist_ok=True)
        self._state = folder / "state.pt"
        if self._state.exists():
            kept = torch.load(self._state, weights_only=True)
            top.load_state_dict(kept["top"])
            self.optimizer.load_state_dict(kept["optimizer"])
            self.seconds, self.step = kept["seconds"], kept["step"]

    def train(self, examples: Sequence[Example], options: argparse.Namespace) -> None:
        """Until its minutes or steps are over. Raises InputError where the loss is no number."""
        seed = [options.seed, self.step]
        torch.manual_seed(options.seed + self.step)
        source = batches.batches(examples, round(options.seconds * 25), self.top.shape.end, np.random.default_rng(seed))
        self.top.train()
        saved = looked = self.seconds
        figures: list[tuple[float, float, float]] = []
        while (share := max(self.seconds / 60 / options.minutes, self.step / options.steps)) < 1:
            started = time.monotonic()
            for group in self.optimizer.param_groups:
                group["lr"] = rate(share, self.step, options.rate)
            batch = next(source)
            transducer, ctc = self._learn(batch)
            spent = time.monotonic() - started
            self.seconds += spent
            self.step += 1
            figures.append((transducer, ctc, sum(batch.lengths) / 25 / spent))
            if self.step % 100 == 0:
                means = [round(float(mean), 3) for mean in np.mean(figures, 0)]
                self.note(transducer=means[0], ctc=means[1], real_time=round(means[2]))
                figures.clear()
            if self.seconds - looked > _LOOK_MINUTES * 60:
                looked = self.seconds
                self.look()
            if self.seconds - saved > _SAVE_MINUTES * 60:
                saved = self.seconds
                self.keep()

    def _learn(self, batch: Batch) -> tuple[float, float]:
        transducer, ctc = losses(self.top, batch, self.phase)
        loss = ctc if self.phase == "ctc" else transducer + _CTC_SHARE * ctc
        if not torch.isfinite(loss):
            raise InputError(f"step {self.step}", "the loss is no number", f"lower --rate, and begin again from {self._state}")
        self.optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self.top.parameters(), 2.0)
        self.optimizer.step()
        return float(transducer.detach()), float(ctc.detach())

    def note(self, **values: Any) -> None:
        """A line for the log."""
        line = json.dumps({"phase": self.phase, "step": self.step, "minutes": round(self.seconds / 60, 2), **values})
        print(line, flush=True)
        with (self.folder / "log.jsonl").open("a", encoding="utf-8") as file:
            file.write(line + "\n")

    def look(self) -> None:
        """At the development set."""
        if self.watched:
            self.top.eval()
            self.note(**score(self.top, self.watched, self.bpe))
            self.top.train()

    def keep(self) -> None:
        values = {"top": self.top.state_dict(), "optimizer": self.optimizer.state_dict(), "seconds": self.seconds, "step": self.step}
        part = self._state.with_suffix(".part")
        torch.save(values, part)
        part.replace(self._state)
        save(self.folder / "weights.npz", self.top, self.encoder, self.pieces)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that what was trained is kept
    sys.exit(main())
