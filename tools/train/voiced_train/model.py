"""The recognizer as a whole: the frozen encoder and the trained half above it, and the file that keeps both.

What lives here: the trained layers (25 frames a second), predictor and joiner of the transducer, the CTC head that training
alone uses, and weights.npz. What must not: losses, data, export.

    python -m voiced_train.model --adapter adapter.npy --bpe bpe.model --out weights.npz [--from weights.npz] [--layers N] [--seed N]

makes the weights that training begins with: random ones, or another model's with layers added that change nothing yet.

weights.npz has the trained half in float16, the adapter, the geometry and the pieces of the vocabulary; the encoder's own weights come
from voiced_train.whisper, which checks them.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional
from voiced.errors import ModelError, VoicedError

from .encoder import WIDTH, Encoder, Geometry, Layer

BLANK = 0
CONTEXT = 2
"""Symbols that the predictor sees."""

_INNER = 1024
_LEFT = 128  # frames of 40 ms that a trained layer sees of the past: 5.12 s


@dataclass(frozen=True, slots=True)
class Shape:
    """symbols: blank, pieces, `</s>` last; joint: the joiner's width; layers: of the trained half."""

    symbols: int = 129
    layers: int = 2
    joint: int = 320

    @property
    def end(self) -> int:
        """The number of `</s>`."""
        return self.symbols - 1


class Top(nn.Module):
    """What is trained. Reads (N, T, 768): two frames of the encoder side by side, 25 a second."""

    def __init__(self, shape: Shape | None = None, geometry: Geometry | None = None) -> None:
        super().__init__()
        self.shape, self.geometry = shape or Shape(), geometry or Geometry()
        symbols, joint = self.shape.symbols, self.shape.joint
        self.norm_in, self.project = nn.LayerNorm(2 * WIDTH), nn.Linear(2 * WIDTH, WIDTH)
        self.layers = nn.ModuleList(Layer(inner=_INNER) for _ in range(self.shape.layers))
        self.norm = nn.LayerNorm(WIDTH)
        self.ctc = nn.Linear(WIDTH, symbols)
        self.from_encoder = nn.Linear(WIDTH, joint)
        self.embedding = nn.Embedding(symbols, joint)
        self.mix = nn.Conv1d(joint, joint, CONTEXT, groups=joint // 4)
        self.from_predictor = nn.Linear(joint, joint)
        self.output = nn.Linear(joint, symbols)

    def forward(self, x: Tensor, dropout: float = 0.0) -> Tensor:
        """(N, T, 768) → (N, T, 384), a chunk seeing itself and what `left` keeps of its past."""
        y = functional.gelu(self.project(functional.dropout(self.norm_in(x), dropout, self.training)))
        mask = chunk_mask(y.shape[1], self.geometry.chunk // 2, _LEFT)
        for layer in self.layers:
            y = layer(y, mask, dropout)
        out: Tensor = self.norm(y)
        return out

    def predict(self, context: Tensor) -> Tensor:
        """int64 (N, 2), the last two symbols → (N, joint)."""
        out: Tensor = self.from_predictor(functional.relu(self.mix(self.embedding(context).transpose(1, 2)))[:, :, 0])
        return out

    def join(self, encoded: Tensor, predicted: Tensor) -> Tensor:
        """(…, joint) of `from_encoder` and of `predict` → logits (…, symbols)."""
        out: Tensor = self.output(torch.tanh(encoded + predicted))
        return out


def chunk_mask(frames: int, chunk: int, left: int) -> Tensor:
    """bool (T, T): a frame sees its whole chunk, and the `left` frames before that chunk."""
    start = torch.arange(frames) // chunk * chunk
    column = torch.arange(frames)
    return (column < (start + chunk)[:, None]) & (column >= (start - left)[:, None])


def save(path: Path, top: Top, encoder: Encoder, pieces: list[str]) -> None:
    """weights.npz; whole or not at all."""
    head = json.dumps({"shape": asdict(top.shape), "geometry": asdict(top.geometry), "pieces": pieces})
    arrays: dict[str, Any] = {f"top.{name}": value.to(torch.float16).numpy() for name, value in top.state_dict().items()}
    arrays["adapter.weight"] = encoder.adapt.weight.numpy()
    arrays["adapter.bias"] = encoder.adapt.bias.numpy()
    part = path.with_suffix(".part")
    with part.open("wb") as file:
        np.savez_compressed(file, head=np.array(head), **arrays)
    part.replace(path)


def load(path: Path, geometry: Geometry | None = None) -> tuple[Top, Encoder, list[str]]:
    """The trained half, the whole encoder, the pieces by number. `geometry` replaces the file's. Raises ModelError."""
    from . import whisper

    try:
        with np.load(path) as file:
            head = json.loads(str(file["head"]))
            arrays = {name: torch.from_numpy(file[name].astype(np.float32)) for name in file.files if name != "head"}
        shape, kept = Shape(**head["shape"]), Geometry(**head["geometry"])
        top, encoder = Top(shape, geometry or kept), Encoder(geometry or kept)
        top.load_state_dict({name.removeprefix("top."): value for name, value in arrays.items() if name.startswith("top.")})
        encoder.adapt.load_state_dict({"weight": arrays["adapter.weight"], "bias": arrays["adapter.bias"]})
        encoder.load_whisper(whisper.read(whisper.fetch()))
    except (OSError, ValueError, KeyError, TypeError, RuntimeError) as error:
        raise ModelError(str(path), f"is no weights.npz of this recipe ({' '.join(str(error).split())[:200]})") from None
    return top, encoder, list(head["pieces"])


def load_encoder(path: Path) -> Encoder:
    return load(path)[1]


def vocabulary(bpe: Path) -> list[str]:
    """Blank, the pieces of a sentencepiece model (whose first, the unknown one, gives its place to the blank), `</s>`."""
    import sentencepiece

    try:
        model = sentencepiece.SentencePieceProcessor(model_file=str(bpe))
    except (OSError, RuntimeError) as error:
        raise ModelError(str(bpe), f"is no sentencepiece model ({error})") from None
    if model.unk_id() != BLANK:
        raise ModelError(str(bpe), f"must have its unknown piece at 0, has it at {model.unk_id()}")
    return ["<blk>", *(model.id_to_piece(number) for number in range(1, model.get_piece_size())), "</s>"]


def fresh(pieces: list[str], layers: int, seed: int) -> Top:
    """A trained half that has learned nothing. Layers after the first begin by changing nothing."""
    torch.manual_seed(seed)
    top = Top(Shape(symbols=len(pieces), layers=layers))
    with torch.no_grad():
        for layer in list(top.layers)[1:]:
            assert isinstance(layer, Layer)
            for last in (layer.out, layer.down):
                last.weight.zero_()
                last.bias.zero_()
    return top


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m voiced_train.model", description="Make the weights that training begins with.")
    parser.add_argument("--adapter", type=Path, metavar="FILE", help="adapter.npy of voiced_train.features (default: that of --from)")
    parser.add_argument("--bpe", type=Path, required=True, metavar="FILE")
    parser.add_argument("--from", dest="older", type=Path, metavar="FILE", help="weights.npz to take over")
    parser.add_argument("--layers", type=int, default=2, metavar="N", help="trained ones (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0, metavar="N")
    parser.add_argument("--out", type=Path, required=True, metavar="FILE")
    options = parser.parse_args(arguments)
    if not (options.adapter or options.older):
        parser.error("one of --adapter and --from is wanted")
    try:
        top = fresh(vocabulary(options.bpe), options.layers, options.seed)
        encoder = Encoder()
        if options.older:
            older, encoder, pieces = load(options.older)
            if pieces != vocabulary(options.bpe) or older.shape.layers > options.layers:
                raise ModelError(str(options.older), "has other pieces than --bpe, or more layers than --layers")
            top.load_state_dict(older.state_dict(), strict=False)
        if options.adapter:
            encoder.load_adapter(np.load(options.adapter))
        save(options.out, top, encoder, vocabulary(options.bpe))
        return 0
    except VoicedError as error:
        print(f"model: {error}", file=sys.stderr)
        return error.exit_code


if __name__ == "__main__":
    sys.exit(main())
