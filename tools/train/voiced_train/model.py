"""The recognizer as a whole: the frozen encoder and the trained half above it, and the file that keeps both.

What lives here: the trained layers (25 frames a second), predictor and joiner of the transducer, the CTC head that training
alone uses, and weights.npz. What must not: losses, data, export.

weights.npz has the trained half in float16, the adapter, the geometry and the pieces of the vocabulary; the encoder's own weights come
from voiced_train.whisper, which checks them.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional
from voiced.errors import ModelError

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
