"""The lower half of the recognizer: whisper-tiny.en's encoder as a streaming encoder with real look-ahead.

What lives here: its layers, once for a whole utterance (fast, for training) and once step by step (what a device runs); the
two agree. What must not: losses, files, export.

A step takes a chunk of C frames of 20 ms and LOOKAHEAD frames beyond it. The frames of the look-ahead see this chunk and its
past only and are computed anew in the next step, so that what is ahead does not pile up from layer to layer; of the past a
layer keeps LEFT frames. Whisper's own paper (Radford et al. 2022) has the layers; the positions wrap after 1,500 frames.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from .features import FLOOR, MELS

WIDTH = 384
HEADS = 6
LAYERS = 4
POSITIONS = 1500
_LONGEST_WAVE = 10_000.0

_STEM_REACH = 3  # a frame of the stem reads 5 feature frames, two apart: 2n + 3 give n


@dataclass(frozen=True, slots=True)
class Geometry:
    """Frames of 20 ms. `chunk` and `lookahead` are even, since the trained layers above take two frames for one."""

    chunk: int = 16
    lookahead: int = 8
    left: int = 128

    @property
    def feature_frames(self) -> int:
        """Frames of 10 ms that one step reads (sherpa-onnx's T); it moves on by 2 · chunk."""
        return 2 * (self.chunk + self.lookahead) + _STEM_REACH


class Layer(nn.Module):
    """A Transformer layer, norms first; its attention is handed in by the caller's choice of keys."""

    def __init__(self, width: int = WIDTH, heads: int = HEADS, inner: int = 4 * WIDTH) -> None:
        super().__init__()
        self.heads = heads
        self.norm_attention, self.norm_inner = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, inner), nn.Linear(inner, width)

    def split(self, x: Tensor) -> Tensor:
        """(N, T, width) → queries, keys, values: (3, N, heads, T, width / heads)."""
        batch, frames, width = x.shape
        return self.qkv(self.norm_attention(x)).view(batch, frames, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)

    def merge(self, x: Tensor, attended: Tensor, dropout: float = 0.0) -> Tensor:
        """What the layer gives for `x` (N, T, width), once attention has given (N, heads, T, width / heads)."""
        x = x + functional.dropout(self.out(attended.transpose(1, 2).reshape(x.shape)), dropout, self.training)
        return x + functional.dropout(self.down(functional.gelu(self.up(self.norm_inner(x)))), dropout, self.training)

    def forward(self, x: Tensor, mask: Tensor | None = None, dropout: float = 0.0) -> Tensor:
        """(N, T, width) with itself as keys; `mask` (T, T) is true where a row may look."""
        q, k, v = self.split(x)
        return self.merge(x, functional.scaled_dot_product_attention(q, k, v, attn_mask=mask), dropout)


class Encoder(nn.Module):
    """Kaldi filter banks (N, T, 80), 100 a second → (N, ⌈T/2⌉, 384), 50 a second. Frozen at birth."""

    def __init__(self, geometry: Geometry | None = None) -> None:
        super().__init__()
        self.geometry = geometry or Geometry()
        self.adapt = nn.Linear(MELS, MELS)
        self.first, self.second = nn.Conv1d(MELS, WIDTH, 3), nn.Conv1d(WIDTH, WIDTH, 3, stride=2)
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
        self.norm = nn.LayerNorm(WIDTH)
        self.positions: Tensor = nn.Buffer(sinusoids(POSITIONS, WIDTH), persistent=False)
        self.requires_grad_(False)
        self.eval()

    def unfreeze(self, first: int) -> None:
        """Lets the layers from number `first` on learn, and the norm above them; adapter and convolutions stay as they are."""
        for module in (*list(self.layers)[first:], self.norm):
            module.requires_grad_(True)

    def load_whisper(self, weights: Mapping[str, NDArray[np.float32]]) -> None:
        """Takes the weights as voiced_train.whisper reads them. Raises KeyError for one that is absent."""

        def put(module: nn.Module, weight: str, bias: str) -> None:
            module.load_state_dict({"weight": torch.from_numpy(weights[weight]), "bias": torch.from_numpy(weights[bias])})

        put(self.first, "conv1/weight", "conv1/bias")
        put(self.second, "conv2/weight", "conv2/bias")
        put(self.norm, "layer_norm/gamma", "layer_norm/beta")
        for row, layer in enumerate(self.layers):
            for ours, theirs in _NORMS.items():
                put(getattr(layer, ours), f"layer_{row}/{theirs}/gamma", f"layer_{row}/{theirs}/beta")
            for ours, theirs in _MATRICES.items():
                put(getattr(layer, ours), f"layer_{row}/{theirs}/weight", f"layer_{row}/{theirs}/bias")

    def load_adapter(self, matrix: NDArray[np.float32]) -> None:
        """float32 (81, 80): filter banks and a one → Whisper's log-mel (voiced_train.features fits it)."""
        self.adapt.weight.copy_(torch.from_numpy(matrix[:MELS].T.copy()))
        self.adapt.bias.copy_(torch.from_numpy(matrix[MELS]))

    def stem(self, x: Tensor) -> Tensor:
        """(N, 2n + 3, 80) → (N, n, 384): Whisper's two convolutions, written as products (no set-up for each new length)."""
        assert self.first.bias is not None
        assert self.second.bias is not None
        y, w = self.adapt(x), self.first.weight
        y = functional.gelu(y[:, :-2] @ w[:, :, 0].T + y[:, 1:-1] @ w[:, :, 1].T + y[:, 2:] @ w[:, :, 2].T + self.first.bias)
        w, n = self.second.weight, (y.shape[1] - 1) // 2
        even, odd = y[:, : 2 * n + 1 : 2], y[:, 1 : 2 * n : 2]
        return functional.gelu(even[:, :n] @ w[:, :, 0].T + odd @ w[:, :, 1].T + even[:, 1:] @ w[:, :, 2].T + self.second.bias)

    def forward(self, x: Tensor, geometry: Geometry | None = None) -> Tensor:
        """A whole utterance (N, T, 80), padded with silence → (N, ⌈T/2⌉, 384); every layer for all chunks at once.

        geometry  instead of its own, for this call: training hears with several
        """
        geometry = geometry or self.geometry
        chunk, ahead, left = geometry.chunk, geometry.lookahead, geometry.left
        batch, frames = x.shape[0], -(-x.shape[1] // 2)
        chunks = -(-frames // chunk)
        x = functional.pad(x, (0, 0, 0, 2 * (chunks * chunk + ahead) + _STEM_REACH - x.shape[1]), value=FLOOR)
        y = self.stem(x)
        y = y + self.positions[torch.arange(y.shape[1]) % POSITIONS]
        z = y.unfold(1, chunk + ahead, chunk).transpose(2, 3).reshape(batch * chunks, chunk + ahead, WIDTH)
        past = torch.arange(chunks)[:, None] * chunk + torch.arange(-left, 0)  # which frames a chunk's memory holds
        sees = torch.cat([past >= 0, torch.ones(chunks, chunk + ahead, dtype=torch.bool)], 1)
        mask = sees.repeat(batch, 1)[:, None, None]
        for row, layer in enumerate(self.layers):
            assert isinstance(layer, Layer)
            q, k, v = layer.split(z)
            keys, values = (torch.cat([_remember(part, batch, geometry), part], 2) for part in (k, v))
            if row == LAYERS - 1:  # nobody reads what the last layer says of the look-ahead
                q, z = q[:, :, :chunk], z[:, :chunk]
            z = layer.merge(z, functional.scaled_dot_product_attention(q, keys, values, attn_mask=mask))
        whole: Tensor = self.norm(z).reshape(batch, chunks * chunk, WIDTH)[:, :frames]
        return whole

    def start(self, batch: int = 1) -> list[Tensor]:
        """The memory of a stream that has heard nothing: a layer's keys and values (2, batch, heads, 0, d)."""
        return [torch.zeros(2, batch, HEADS, 0, WIDTH // HEADS) for _ in self.layers]

    def step(self, x: Tensor, memory: list[Tensor], position: int) -> Tensor:
        """One step: (N, feature_frames, 80) → (N, chunk, 384); `memory` moves on. `position` counts frames of 20 ms."""
        chunk, left = self.geometry.chunk, self.geometry.left
        z = self.stem(x)
        z = z + self.positions[(position + torch.arange(z.shape[1])) % POSITIONS]
        for row, layer in enumerate(self.layers):
            assert isinstance(layer, Layer)
            q, *own = layer.split(z)
            now = torch.stack(own)
            keys, values = torch.cat([memory[row], now], 3)
            memory[row] = torch.cat([memory[row], now[:, :, :, :chunk]], 3)[:, :, :, -left:]
            z = layer.merge(z, functional.scaled_dot_product_attention(q, keys, values))
        out: Tensor = self.norm(z[:, :chunk])
        return out


def _remember(part: Tensor, batch: int, geometry: Geometry) -> Tensor:
    """Keys or values (batch · chunks, heads, chunk + lookahead, d) → what each chunk keeps of its past (…, left, d)."""
    chunk, left = geometry.chunk, geometry.left
    rows, heads, _, depth = part.shape
    line = part[:, :, :chunk].view(batch, rows // batch, heads, chunk, depth).transpose(1, 2).reshape(batch, heads, -1, depth)
    windows = functional.pad(line, (0, 0, left, 0)).unfold(2, left, chunk)[:, :, : rows // batch]
    return windows.permute(0, 2, 1, 4, 3).reshape(rows, heads, left, depth)


def sinusoids(positions: int, width: int) -> Tensor:
    """float32 (positions, width): sines in the first half, cosines in the second (Vaswani et al. 2017; Whisper's order)."""
    waves = torch.exp(-torch.arange(width // 2) * (math.log(_LONGEST_WAVE) / (width // 2 - 1)))
    angles = torch.arange(positions)[:, None] * waves
    return torch.cat([angles.sin(), angles.cos()], 1)


_NORMS = {"norm_attention": "self_attention/layer_norm", "norm_inner": "ffn/layer_norm"}
_MATRICES = {"qkv": "self_attention/linear_0", "out": "self_attention/linear_1", "up": "ffn/linear_0", "down": "ffn/linear_1"}
