"""Training: CTC, then one path with "late is still right", then, if asked, the full lattice; of our own half, or of the encoder too.

What lives here: the loop, its schedule, checkpoints and log. What must not: losses' mathematics (paths.py, rnnt.py), data.

    python -m voiced_train.train ctc|path|rnnt CACHE… --start weights.npz --bpe bpe.model --out DIR --minutes N [--dev CACHE…]

On NAME.f16 the half above the encoder learns from what the frozen encoder answered; on NAME.banks the encoder learns too, gently
(`--encoder-rate`): in half of the batches as it is exported, in the others with other chunks, so that one model serves several exports.

Stopped at any time, it goes on from DIR/state.pt when it is called again; the minutes count what was trained, not what was waited.
DIR/log.jsonl has a line each fifty steps and each look at the development set; voiced_train.curve draws it.
"""

from __future__ import annotations

import argparse
import json
import math
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional
from voiced.errors import InputError, VoicedError

from . import batches
from .batches import Batch, Example, ask
from .encoder import Encoder, Geometry
from .features import MELS
from .model import Top, has_fast_halves, listen, load, save
from .paths import Steps
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
_NOTE_STEPS = 50
_FAST_EMIT = 0.005
_OWN_SHARE = 0.5
_OTHERS: tuple[dict[str, int], ...] = ({"chunk": 8}, {"chunk": 8, "lookahead": 4}, {"chunk": 32}, {"chunk": 128})
"""Chunks of 160, 640 and 2,560 ms; look-ahead 160 ms, or 80."""


def losses(
    encoder: Encoder, top: Top, batch: Batch, phase: str, geometry: Geometry, worst_score: float, rng: np.random.Generator
) -> tuple[Tensor, Tensor]:
    """(transducer's loss a symbol or 0, CTC's a label) of what is aligned believably; CTC finds its own alignment. Records gradients."""
    with torch.autocast("cpu", torch.bfloat16, enabled=has_fast_halves()):
        hidden = listen(encoder, top, torch.from_numpy(batch.features), _DROPOUT, geometry)
        logs = top.ctc(hidden).float().log_softmax(-1)
        encoded = top.from_encoder(hidden).float()
    flat = torch.tensor([label for labels in batch.labels for label in labels])
    counts = torch.tensor([len(labels) for labels in batch.labels])
    each = (
        functional.ctc_loss(logs.transpose(0, 1), flat, torch.tensor(batch.lengths), counts, reduction="none", zero_infinity=True) / counts
    )
    if phase == "ctc":
        return torch.zeros(()), each.mean()
    seen = logs.detach().numpy()
    asked = [
        ask(example, seen[row, : example.frames], top.shape.end, top.shape.context, worst_score, rng)
        for row, example in enumerate(batch.examples)
    ]
    kept = [row for row, steps in enumerate(asked) if steps is not None]
    if not kept:
        return (encoded * 0).sum(), (each * 0).sum()
    ctc = each[kept].mean()
    path = _path_loss(top, encoded, [(row, steps) for row, steps in enumerate(asked) if steps is not None])
    path = path / sum(len(batch.labels[row]) for row in kept)
    if phase == "path":
        return path, ctc
    # the lattice alone lets an end token come whenever it likes in the silence
    return _lattice_loss(
        top, encoded[kept], [batch.lengths[row] for row in kept], [batch.labels[row] for row in kept]
    ) + _PATH_SHARE * path, ctc


def _path_loss(top: Top, encoded: Tensor, asked: Sequence[tuple[int, Steps]]) -> Tensor:
    """The sum over what is asked of (a row of the batch, its steps)."""
    rows = torch.from_numpy(np.concatenate([np.full(len(steps.frames), row) for row, steps in asked]))
    frames = torch.from_numpy(np.concatenate([steps.frames for _, steps in asked]))
    contexts = torch.from_numpy(np.concatenate([steps.contexts for _, steps in asked]))
    targets = torch.from_numpy(np.concatenate([steps.targets for _, steps in asked]))
    weights = torch.from_numpy(np.concatenate([steps.weights for _, steps in asked]))
    seen, place = torch.unique(contexts, dim=0, return_inverse=True)
    logits = top.join(encoded[rows, frames], top.predict(seen)[place])
    return (functional.cross_entropy(logits, targets, reduction="none", label_smoothing=0.01) * weights).sum()


def _lattice_loss(top: Top, encoded: Tensor, lengths: Sequence[int], labels: Sequence[Sequence[int]]) -> Tensor:
    counts = [len(own) for own in labels]
    table = torch.zeros(len(counts), max(counts), dtype=torch.int64)
    for row, own in enumerate(labels):
        table[row, : len(own)] = torch.tensor(own)
    contexts = functional.pad(table, (top.shape.context, 0)).unfold(1, top.shape.context, 1)
    predicted = top.predict(contexts.reshape(-1, top.shape.context)).view(len(counts), -1, top.shape.joint)
    logits = top.join(encoded[:, :, None], predicted[:, None])
    each = rnnt_loss(logits, table, lengths, counts, one_a_frame=True, fast_emit=_FAST_EMIT)
    return each.sum() / sum(counts)


def draw_geometry(own: Geometry, rng: np.random.Generator) -> Geometry:
    """In half of the draws the model's own, in the others one of those that trade words for time."""
    return own if rng.random() < _OWN_SHARE else replace(own, **_OTHERS[int(rng.integers(len(_OTHERS)))])


def rate(share: float, step: int, highest: float) -> float:
    """The learning rate when `share` (0 … 1) of the time is over: warm-up by steps, then half a cosine down to 2 %."""
    cosine = 0.5 * (1 + math.cos(math.pi * min(share, 1.0)))
    return highest * min(1.0, (step + 1) / _WARM_UP_STEPS) * (_LAST_RATE + (1 - _LAST_RATE) * cosine)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m voiced_train.train", description="Train the recognizer.")
    parser.add_argument("phase", choices=PHASES)
    parser.add_argument("caches", type=Path, nargs="+", metavar="CACHE")
    parser.add_argument("--dev", type=Path, nargs="*", default=[], metavar="CACHE", help="looked at, never learned from")
    parser.add_argument("--start", type=Path, required=True, metavar="FILE", help="weights.npz to begin from")
    parser.add_argument("--bpe", type=Path, required=True, metavar="FILE")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR")
    until = parser.add_mutually_exclusive_group(required=True)
    until.add_argument("--minutes", type=float, default=math.inf, metavar="N", help="of training, those of earlier calls included")
    until.add_argument("--steps", type=float, default=math.inf, metavar="N", help="the same, counted: two runs are alike then")
    parser.add_argument(
        "--encoder-rate", type=float, default=3e-5, metavar="X", help="highest, of the encoder's layers (default: %(default)s)"
    )
    parser.add_argument(
        "--unfreeze", type=int, default=0, metavar="N", help="first of the encoder's layers that learns (default: %(default)s)"
    )
    parser.add_argument("--rate", type=float, default=1e-3, metavar="X", help="highest learning rate (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=60, metavar="N", help="of speech in a batch (default: %(default)s)")
    parser.add_argument("--worst-score", type=float, default=batches.WORST_SCORE, metavar="X", help="of an alignment to believe")
    parser.add_argument("--threads", type=int, default=2, metavar="N")
    parser.add_argument("--seed", type=int, default=0, metavar="N")
    options = parser.parse_args(arguments)
    if not (options.minutes > 0 and options.steps > 0):
        parser.error("--minutes and --steps must be numbers above 0")
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
    bpe = sentencepiece.SentencePieceProcessor(model_file=str(options.bpe))
    examples, refused = batches.read(options.caches, bpe)
    watched = batches.read(options.dev, bpe)[0]
    hours = sum(example.frames for example in examples) / 25 / 3600
    reasons = "".join(f"; refused {count}: {why}" for why, count in refused.most_common())
    print(f"{len(examples)} utterances, {hours:.2f} h; {len(watched)} to watch{reasons}", flush=True)
    if examples and examples[0].cache.width == MELS:
        encoder.unfreeze(options.unfreeze)
    run = Run(options, top, encoder, pieces, bpe, watched)
    try:
        run.train(examples)
    except KeyboardInterrupt:
        run.keep()
        return 130
    run.keep()
    run.look()
    return 0


class Run:
    """One training: what is trained, how far it is, and its folder, from which it goes on where it was."""

    def __init__(
        self, options: argparse.Namespace, top: Top, encoder: Encoder, pieces: list[str], bpe: Any, watched: Sequence[Example]
    ) -> None:
        self.options, self.folder, self.phase = options, options.out, options.phase
        self.top, self.encoder, self.pieces = top, encoder, pieces
        self.bpe, self.watched = bpe, watched
        self.parameters = [*top.parameters(), *(one for one in encoder.parameters() if one.requires_grad)]
        groups = [{"params": list(top.parameters()), "highest": options.rate}]
        if len(self.parameters) > len(groups[0]["params"]):
            groups.append({"params": self.parameters[len(groups[0]["params"]) :], "highest": options.encoder_rate})
        self.optimizer = torch.optim.AdamW(groups, betas=(0.9, 0.98), weight_decay=1e-2)
        self.seconds, self.step = 0.0, 0
        self.folder.mkdir(parents=True, exist_ok=True)
        self._state = self.folder / "state.pt"
        if self._state.exists():
            kept = torch.load(self._state, weights_only=True)
            top.load_state_dict(kept["top"])
            encoder.load_state_dict(kept["encoder"])
            self.optimizer.load_state_dict(kept["optimizer"])
            self.seconds, self.step = kept["seconds"], kept["step"]

    def train(self, examples: Sequence[Example]) -> None:
        """Until its minutes or steps are over. Raises InputError where the loss is no number."""
        options = self.options
        torch.manual_seed(options.seed + self.step)
        rng = np.random.default_rng([options.seed, self.step])
        source = batches.batches(examples, round(options.seconds * 25), self.top.shape.end, rng)
        self.top.train()
        saved = looked = self.seconds
        figures: list[tuple[float, float, float]] = []
        while (share := max(self.seconds / 60 / options.minutes, self.step / options.steps)) < 1:
            started = time.monotonic()
            for group in self.optimizer.param_groups:
                group["lr"] = rate(share, self.step, group["highest"])
            batch = next(source)
            transducer, ctc = self._learn(batch, rng)
            spent = time.monotonic() - started
            self.seconds += spent
            self.step += 1
            figures.append((transducer, ctc, sum(batch.lengths) / 25 / spent))
            if self.step % _NOTE_STEPS == 0:
                means = [round(float(mean), 3) for mean in np.mean(figures, 0)]
                self.note(transducer=means[0], ctc=means[1], real_time=round(means[2]))
                figures.clear()
            if self.seconds - looked > _LOOK_MINUTES * 60:
                looked = self.seconds
                self.look()
            if self.seconds - saved > _SAVE_MINUTES * 60:
                saved = self.seconds
                self.keep()

    def _learn(self, batch: Batch, rng: np.random.Generator) -> tuple[float, float]:
        own = self.top.geometry  # what a frozen encoder answered, it answered with its own
        geometry = draw_geometry(own, rng) if batch.features.shape[2] == MELS else own
        transducer, ctc = losses(self.encoder, self.top, batch, self.phase, geometry, self.options.worst_score, rng)
        loss = ctc if self.phase == "ctc" else transducer + _CTC_SHARE * ctc
        if not torch.isfinite(loss):
            raise InputError(f"step {self.step}", "the loss is no number", f"lower --rate, and begin again from {self._state}")
        self.optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self.parameters, 2.0)
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
            self.note(**score(self.encoder, self.top, self.watched, self.bpe))
            self.top.train()

    def keep(self) -> None:
        values = {"top": self.top.state_dict(), "encoder": self.encoder.state_dict(), "optimizer": self.optimizer.state_dict()}
        values |= {"seconds": self.seconds, "step": self.step}
        part = self._state.with_suffix(".part")
        torch.save(values, part)
        part.replace(self._state)
        save(self.folder / "weights.npz", self.top, self.encoder, self.pieces)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that what was trained is kept
    sys.exit(main())
