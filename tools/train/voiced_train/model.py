"""The recognizer as a whole: Whisper's encoder and the half of our own above it, and the file that keeps both.

What lives here: our own layers (25 frames a second), predictor and joiner of the transducer, the CTC head that training
alone uses, and weights.npz. What must not: losses, data, export.

    python -m voiced_train.model --adapter adapter.npy --bpe bpe.model --out weights.npz [--from weights.npz] [--layers N] [--context N]

makes the weights that training begins with: random ones above Whisper's, or another model's with layers and a wider context added that
change nothing yet.

    python -m voiced_train.model --mean weights.npz weights.npz… --out weights.npz

takes the mean of what several runs from one beginning ended with.

weights.npz has all weights in float16 (the adapter in float32), the geometry and the pieces of the vocabulary.
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
from .features import MELS

BLANK = 0

_INNER = 1024
_LEFT = 128  # frames of 40 ms that a trained layer sees of the past: 5.12 s


@dataclass(frozen=True, slots=True)
class Shape:
    """symbols: blank, pieces, `</s>` last; joint: the joiner's width; layers: of our own half; context: symbols that the predictor sees."""

    symbols: int = 129
    layers: int = 2
    joint: int = 320
    context: int = 5

    @property
    def end(self) -> int:
        """The number of `</s>`."""
        return self.symbols - 1


class Top(nn.Module):
    """Our own half. Reads (N, T, 768): two frames of the encoder side by side, 25 a second."""

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
        self.mix = nn.Conv1d(joint, joint, self.shape.context, groups=joint // 4)
        self.from_predictor = nn.Linear(joint, joint)
        self.output = nn.Linear(joint, symbols)

    def forward(self, x: Tensor, dropout: float = 0.0, geometry: Geometry | None = None) -> Tensor:
        """(N, T, 768) → (N, T, 384), a chunk seeing itself and what `left` keeps of its past."""
        y = functional.gelu(self.project(functional.dropout(self.norm_in(x), dropout, self.training)))
        mask = chunk_mask(y.shape[1], (geometry or self.geometry).chunk // 2, _LEFT)
        for layer in self.layers:
            y = layer(y, mask, dropout)
        out: Tensor = self.norm(y)
        return out

    def predict(self, context: Tensor) -> Tensor:
        """int64 (N, context), the last symbols → (N, joint)."""
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


def listen(encoder: Encoder, top: Top, x: Tensor, dropout: float = 0.0, geometry: Geometry | None = None) -> Tensor:
    """What the joiner's encoder side is made of, (N, T, 384), 25 a second: from filter banks (N, 4 T, 80), or from what the encoder
    answered before (N, T, 768)."""
    if x.shape[-1] == MELS:
        y = encoder(x, geometry)
        x = y.reshape(y.shape[0], -1, 2 * WIDTH)
    hidden: Tensor = top(x, dropout, geometry)
    return hidden


def has_fast_halves() -> bool:
    """Whether this processor multiplies bfloat16 by itself: where it must pretend to, it is slower than with float32."""
    try:
        return bool({"avx512_bf16", "amx_bf16", "bf16"} & set(Path("/proc/cpuinfo").read_text(encoding="utf-8").split()))
    except OSError:
        return False


def save(path: Path, top: Top, encoder: Encoder, pieces: list[str]) -> None:
    """weights.npz; whole or not at all."""
    head = json.dumps({"shape": asdict(top.shape), "geometry": asdict(top.geometry), "pieces": pieces})
    arrays: dict[str, Any] = {}
    for part, module in (("top", top), ("encoder", encoder)):
        for name, value in module.state_dict().items():
            arrays[f"{part}.{name}"] = value.to(torch.float32 if name.startswith("adapt.") else torch.float16).numpy()
    part_file = path.with_suffix(".part")
    with part_file.open("wb") as file:
        np.savez_compressed(file, head=np.array(head), **arrays)
    part_file.replace(path)


def load(path: Path, geometry: Geometry | None = None) -> tuple[Top, Encoder, list[str]]:
    """Our own half, the encoder, the pieces by number. `geometry` replaces the file's. Raises ModelError."""
    try:
        with np.load(path) as file:
            head = json.loads(str(file["head"]))
            arrays = {name: torch.from_numpy(file[name].astype(np.float32)) for name in file.files if name != "head"}
        shape, kept = Shape(**head["shape"]), Geometry(**head["geometry"])
        top, encoder = Top(shape, geometry or kept), Encoder(geometry or kept)
        for part, module in (("top.", top), ("encoder.", encoder)):
            module.load_state_dict({name.removeprefix(part): value for name, value in arrays.items() if name.startswith(part)})
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


def fresh(pieces: list[str], layers: int, context: int, seed: int) -> Top:
    """A half of our own that has learned nothing. Layers after the first begin by changing nothing."""
    torch.manual_seed(seed)
    top = Top(Shape(symbols=len(pieces), layers=layers, context=context))
    with torch.no_grad():
        for layer in list(top.layers)[1:]:
            assert isinstance(layer, Layer)
            for last in (layer.out, layer.down):
                last.weight.zero_()
                last.bias.zero_()
    return top


def take_over(top: Top, older: Top) -> None:
    """Gives `top` the weights of `older`, which has no more layers and no wider context; what `top` has beyond changes nothing yet."""
    weights = older.state_dict()
    weights["mix.weight"] = functional.pad(weights["mix.weight"], (top.shape.context - older.shape.context, 0))
    top.load_state_dict(weights, strict=False)


def mean(paths: Sequence[Path]) -> tuple[Top, Encoder, list[str]]:
    """The mean of several weights of one form: better, or steadier, than each (Wortsman et al. 2022). Raises ModelError."""
    top, encoder, pieces = load(paths[0])
    tops, encoders = [top.state_dict()], [encoder.state_dict()]
    for path in paths[1:]:
        other, below, theirs = load(path)
        if (other.shape, other.geometry, theirs) != (top.shape, top.geometry, pieces):
            raise ModelError(str(path), f"is of another form than {paths[0]}", "take the mean of runs that began with the same weights")
        tops.append(other.state_dict())
        encoders.append(below.state_dict())
    top.load_state_dict({name: torch.stack([state[name] for state in tops]).mean(0) for name in tops[0]})
    encoder.load_state_dict({name: torch.stack([state[name] for state in encoders]).mean(0) for name in encoders[0]})
    return top, encoder, pieces


def main(arguments: Sequence[str] | None = None) -> int:
    from . import whisper

    parser = argparse.ArgumentParser(prog="python -m voiced_train.model", description="Make the weights that training begins with.")
    parser.add_argument("--adapter", type=Path, metavar="FILE", help="adapter.npy of voiced_train.features (default: that of --from)")
    parser.add_argument("--bpe", type=Path, metavar="FILE", help="bpe.model")
    parser.add_argument("--mean", type=Path, nargs="+", metavar="FILE", help="weights.npz of several runs, nothing else")
    parser.add_argument("--from", dest="older", type=Path, metavar="FILE", help="weights.npz to take over")
    parser.add_argument("--layers", type=int, default=Shape().layers, metavar="N", help="of our own (default: %(default)s)")
    parser.add_argument(
        "--context", type=int, default=Shape().context, metavar="N", help="symbols the predictor sees (default: %(default)s)"
    )
    parser.add_argument("--seed", type=int, default=0, metavar="N")
    parser.add_argument("--out", type=Path, required=True, metavar="FILE")
    options = parser.parse_args(arguments)
    if not options.mean and not (options.bpe and (options.adapter or options.older)):
        parser.error("--bpe and one of --adapter and --from are wanted, or --mean")
    try:
        if options.mean:
            save(options.out, *mean(options.mean))
            return 0
        pieces = vocabulary(options.bpe)
        top = fresh(pieces, options.layers, options.context, options.seed)
        encoder = Encoder()
        if options.older:
            older, encoder, theirs = load(options.older)
            if theirs != pieces or older.shape.layers > options.layers or older.shape.context > options.context:
                raise ModelError(str(options.older), "has other pieces than --bpe, more layers than --layers, or a wider context")
            take_over(top, older)
        else:
            encoder.load_whisper(whisper.read(whisper.fetch()))
        if options.adapter:
            encoder.load_adapter(np.load(options.adapter))
        save(options.out, top, encoder, pieces)
        return 0
    except VoicedError as error:
        print(f"model: {error}", file=sys.stderr)
        return error.exit_code


if __name__ == "__main__":
    sys.exit(main())
