"""A small language model over the recognizer's pieces: which piece follows, by the texts it read. The search asks it beside what it hears.

What lives here: the network, its training, and the file that sherpa-onnx asks in a modified beam search (shallow fusion: the logarithms of
both, one weighted, are added; Gulcehre et al. 2015, section 4.1). What must not: texts (texts.py), sound.

    python -m voiced_train.language TEXTS --bpe bpe.model --tokens tokens.txt --out language.onnx --minutes N

It speaks sherpa-onnx's form: x (N, L) int64, h0 and c0 (1, N, hidden) → log_softmax (N, L, symbols), next_h0, next_c0; a sentence begins
after the blank and ends with `</s>`, so that it also knows where a query may be over.
"""

from __future__ import annotations

import argparse
import math
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional
from voiced.errors import InputError, VoicedError

from .export import describe
from .model import BLANK

Sentence = NDArray[np.int64]
"""Symbols, without a beginning or an end."""

SHARES = {"books": 1.0, "examples": 1.0, "glosses": 0.35, "commands": 1.5, "spoken": 2.0}
"""How often a round sees the sentences of a kind: a device is told commands; a gloss is no sentence."""

_HIDDEN = 512
_IN_A_BATCH = 4000
_RATE, _LAST_RATE, _WARM_UP_STEPS = 3e-3, 0.02, 200
_NOTE_SECONDS = 60.0
_IGNORED = -100


class LanguageModel(nn.Module):
    """x (N, L), h and c (1, N, hidden) → logarithms (N, L, symbols) of what follows each, and the state after the last."""

    def __init__(self, symbols: int, hidden: int) -> None:
        super().__init__()
        self.embed, self.rnn = nn.Embedding(symbols, hidden // 2), nn.LSTM(hidden // 2, hidden, batch_first=True)
        self.out, self.drop = nn.Linear(hidden, symbols), nn.Dropout(0.1)
        self.hidden = hidden

    def forward(self, x: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        z, (h, c) = self.rnn(self.drop(self.embed(x)), (h, c))
        return self.out(self.drop(z)).log_softmax(-1), h, c


def read(folder: Path, bpe: Any, names: Sequence[str]) -> dict[str, list[Sentence]]:
    """Kind → sentences in symbols; `names` are those of tokens.txt. Raises InputError: a file is not there, a piece has no symbol, or
    nothing is in any of them."""
    numbers = {name: number for number, name in enumerate(names)}
    kinds = {}
    for kind in SHARES:
        path = folder / f"{kind}.txt"
        try:
            lines = path.read_text(encoding="utf-8").splitlines()
            kinds[kind] = [np.array([numbers[piece] for piece in bpe.encode(line, out_type=str)], np.int64) for line in lines if line]
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(str(path), f"cannot be read ({error})", "make it with voiced_train.texts") from None
        except KeyError as error:
            raise InputError(str(path), f"has a piece that tokens.txt does not: {error}") from None
    if not any(kinds.values()):
        raise InputError(str(folder), "has no sentence in any of its texts", "make them with voiced_train.texts")
    return kinds


def batches(kinds: dict[str, list[Sentence]], rng: np.random.Generator) -> Iterator[list[Sentence]]:
    """One round: sentences of about one length together, the batches in a drawn order."""
    chosen = [
        sentences[at]
        for kind, sentences in kinds.items()
        for whole in range(math.ceil(SHARES[kind]))
        for at in rng.permutation(len(sentences))[: round(len(sentences) * min(1.0, SHARES[kind] - whole))]
    ]
    order = rng.permutation(len(chosen))
    for start in range(0, len(order), 4096):
        made: list[list[Sentence]] = [[]]
        for sentence in sorted((chosen[at] for at in order[start : start + 4096]), key=len):
            if len(made[-1]) * (len(sentence) + 1) > _IN_A_BATCH:
                made.append([])
            made[-1].append(sentence)
        yield from (made[at] for at in rng.permutation(len(made)))


def loss(model: LanguageModel, batch: Sequence[Sentence], end: int) -> Tensor:
    """Nats a symbol, the end's included."""
    longest = max(map(len, batch)) + 1
    x = np.full((len(batch), longest), BLANK, np.int64)
    wanted = np.full((len(batch), longest), _IGNORED, np.int64)
    for row, sentence in enumerate(batch):
        x[row, 1 : len(sentence) + 1] = wanted[row, : len(sentence)] = sentence
        wanted[row, len(sentence)] = end
    state = torch.zeros(1, len(batch), model.hidden)
    logs, _, _ = model(torch.from_numpy(x), state, state)
    return functional.nll_loss(logs.flatten(0, 1), torch.from_numpy(wanted).flatten(), ignore_index=_IGNORED)


def train(
    model: LanguageModel, kinds: dict[str, list[Sentence]], *, minutes: float = math.inf, steps: float = math.inf, seed: int = 0
) -> None:
    """At least one sentence, until so many minutes or steps (above 0) are over. Raises InputError where the loss is no number."""
    rng = np.random.default_rng(seed)
    optimizer = torch.optim.AdamW(model.parameters(), betas=(0.9, 0.98), weight_decay=1e-2)
    end, started, step = model.out.out_features - 1, time.monotonic(), 0
    noted, lately = started, []
    while True:
        for batch in batches(kinds, rng):
            share = max((time.monotonic() - started) / 60 / minutes, step / steps)
            if share >= 1:
                return
            cosine = 0.5 * (1 + math.cos(math.pi * min(share, 1.0)))
            for group in optimizer.param_groups:
                group["lr"] = _RATE * min(1.0, (step + 1) / _WARM_UP_STEPS) * (_LAST_RATE + (1 - _LAST_RATE) * cosine)
            nats = loss(model, batch, end)
            if not torch.isfinite(nats):
                raise InputError(f"step {step}", "the loss is no number", "begin again with another --seed")
            optimizer.zero_grad()
            nats.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            step += 1
            lately.append(nats.item())
            if (now := time.monotonic()) - noted > _NOTE_SECONDS:
                noted = now
                print(f"{(now - started) / 60:.0f} min, step {step}: {np.mean(lately):.3f} nats a symbol", flush=True)
                lately.clear()


def write(model: LanguageModel, out: Path) -> None:
    """As int8: a quarter of the size, and a sixth of the time a step (x86-64)."""
    from onnxruntime.quantization import QuantType, quantize_dynamic

    model.eval()
    state = torch.zeros(1, 1, model.hidden)
    inputs, outputs = ["x", "h0", "c0"], ["log_softmax", "next_h0", "next_c0"]
    many = {"x": {0: "N", 1: "L"}, "log_softmax": {0: "N", 1: "L"}} | {name: {1: "N"} for name in inputs[1:] + outputs[1:]}
    with tempfile.TemporaryDirectory() as scratch:
        raw = Path(scratch) / "language.onnx"
        with torch.inference_mode():
            torch.onnx.export(
                model, (torch.zeros(1, 1, dtype=torch.int64), state, state), str(raw), input_names=inputs, output_names=outputs,
                dynamic_axes=many, opset_version=17, dynamo=False,
            )  # fmt: skip
        quantize_dynamic(raw, out, op_types_to_quantize=["LSTM", "MatMul", "Gemm", "Gather"], weight_type=QuantType.QInt8)
    describe(out, {"num_layers": 1, "hidden_size": model.hidden, "sos_id": BLANK})


def above_nothing(text: str) -> float:
    """A number above 0, of an option."""
    if not (number := float(text)) > 0:
        raise ValueError
    return number


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m voiced_train.language", description="Train the language model.")
    parser.add_argument("texts", type=Path, metavar="DIR", help="of voiced_train.texts")
    parser.add_argument("--bpe", type=Path, required=True, metavar="FILE")
    parser.add_argument("--tokens", type=Path, required=True, metavar="FILE", help="tokens.txt of the export that it goes with")
    parser.add_argument("--out", type=Path, required=True, metavar="FILE")
    until = parser.add_mutually_exclusive_group(required=True)
    until.add_argument("--minutes", type=above_nothing, default=math.inf, metavar="N")
    until.add_argument("--steps", type=above_nothing, default=math.inf, metavar="N", help="the same, counted: two runs are alike then")
    parser.add_argument("--hidden", type=int, default=_HIDDEN, metavar="N", help="(default: %(default)s)")
    parser.add_argument("--threads", type=int, default=2, metavar="N")
    parser.add_argument("--seed", type=int, default=0, metavar="N")
    options = parser.parse_args(arguments)
    import sentencepiece

    torch.set_num_threads(options.threads)
    torch.manual_seed(options.seed)
    try:
        options.out.parent.mkdir(parents=True, exist_ok=True)  # said before the training, not after it
        bpe = sentencepiece.SentencePieceProcessor(model_file=str(options.bpe))
        names = [line.rpartition(" ")[0] for line in options.tokens.read_text(encoding="utf-8").splitlines()]
        kinds = read(options.texts, bpe, names)
        model = LanguageModel(len(names), options.hidden)
        train(model, kinds, minutes=options.minutes, steps=options.steps, seed=options.seed)
        write(model, options.out)
    except VoicedError as error:
        print(f"language: {error}", file=sys.stderr)
        return error.exit_code
    except (OSError, RuntimeError, UnicodeDecodeError) as error:  # sentencepiece's own is a RuntimeError
        print(f"language: {error}", file=sys.stderr)
        return InputError.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
