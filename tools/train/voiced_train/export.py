"""From weights.npz to the files that sherpa-onnx runs.

What lives here: the encoder as one step with its memory going in and out, decoder, joiner, metadata, int8. What must not: training.

    python -m voiced_train.export weights.npz --out DIR [--chunk-ms 320] [--lookahead-ms 160] [--end-bias X]

sherpa-onnx's model type `conformer` is the one form that takes look-ahead, any chunk and a frame of 40 ms. Memory is each
layer's input, so that its size is the model's width; `conv` is asked for and not used. Only products with weights become int8: everything
else stays float32 (the loss in words is in the model's card).
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional
from voiced.errors import ModelError, UsageError, VoicedError

from .encoder import POSITIONS, WIDTH, Encoder, Geometry, Layer
from .model import BLANK, Top, load

LEFT = 128
"""Frames of memory a layer: of 20 ms in Whisper's layers, of 40 ms in ours. One number, as sherpa-onnx has it."""

_CLOSE = 1e-4
_OPSET = 17


class EncoderStep(nn.Module):
    """(x (N, T, 80), attn (L, LEFT, N, 384), conv, processed_lens (N,)) → (encoder_out (N, chunk / 2, joint), new_attn, conv)."""

    def __init__(self, encoder: Encoder, top: Top, geometry: Geometry) -> None:
        super().__init__()
        self.encoder, self.top, self.geometry = encoder, top, geometry
        self.layers = nn.ModuleList(_Step(layer) for layer in [*encoder.layers, *top.layers])
        self.depth = len(self.layers)

    def forward(self, x: Tensor, attn: Tensor, conv: Tensor, processed: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        chunk, ahead = self.geometry.chunk, self.geometry.lookahead
        z = self.encoder.stem(x)[:, : chunk + ahead]
        position = processed // 2
        z = z + self.encoder.positions[(position[:, None] + torch.arange(chunk + ahead)[None]) % POSITIONS]
        memory = []
        below = len(self.encoder.layers)
        for row, layer in enumerate(self.layers[:below]):
            z, kept = layer(z, attn[row], chunk, position, z.shape[1] if row < below - 1 else chunk)
            memory.append(kept)
        z = self.encoder.norm(z).reshape(z.shape[0], chunk // 2, 2 * WIDTH)
        z = functional.gelu(self.top.project(self.top.norm_in(z)))
        for row, layer in enumerate(self.layers[below:], below):
            z, kept = layer(z, attn[row], chunk // 2, processed // 4, chunk // 2)
            memory.append(kept)
        return self.top.from_encoder(self.top.norm(z)), torch.stack(memory), conv


class _Step(nn.Module):
    """A layer over its memory (LEFT, N, width) and `z`; of the memory only what was really heard (`position` frames) is seen.

    Queries and keys have matrices of their own here: a slice of one matrix would stay float32.
    """

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        assert isinstance(layer, Layer)
        self.layer = layer
        width = layer.qkv.in_features
        self.query, self.key_value = nn.Linear(width, width), nn.Linear(width, 2 * width)
        weight, bias = layer.qkv.weight.detach(), layer.qkv.bias.detach()
        self.query.load_state_dict({"weight": weight[:width], "bias": bias[:width]})
        self.key_value.load_state_dict({"weight": weight[width:], "bias": bias[width:]})

    def forward(self, z: Tensor, past: Tensor, chunk: int, position: Tensor, wanted: int) -> tuple[Tensor, Tensor]:
        """`wanted`: of how many frames an answer is read; the others are there to be looked at."""
        layer, (batch, frames, width) = self.layer, z.shape
        before = past.transpose(0, 1)
        everything = torch.cat([before, z], 1)
        sees = (torch.arange(LEFT + frames)[None] >= (LEFT - position)[:, None])[:, None, None]
        q = self.query(layer.norm_attention(z[:, :wanted]))
        k, v = self.key_value(layer.norm_attention(everything)).split(width, 2)

        def heads(part: Tensor, length: int) -> Tensor:
            return part.reshape(batch, length, layer.heads, width // layer.heads).transpose(1, 2)

        scores = heads(q, wanted) @ heads(k, LEFT + frames).transpose(-1, -2) / (width // layer.heads) ** 0.5
        attended = scores.masked_fill(~sees, -1e9).softmax(-1) @ heads(v, LEFT + frames)
        return layer.merge(z[:, :wanted], attended), torch.cat([before, z[:, :chunk]], 1)[:, -LEFT:].transpose(0, 1)


class Decoder(nn.Module):
    """y (N, context) → decoder_out (N, joint). sherpa-onnx begins a stream with −1 where nothing was said: the blank, as in training."""

    def __init__(self, top: Top) -> None:
        super().__init__()
        self.top = top

    def forward(self, y: Tensor) -> Tensor:
        return self.top.predict(y.clamp(min=BLANK))


class Joiner(nn.Module):
    """encoder_out, decoder_out (N, joint) → logit (N, symbols).

    `</s>` is helped by `end_bias` where the blank would be said else, so that it may beat the blank and never a piece.
    """

    def __init__(self, top: Top, end_bias: float) -> None:
        super().__init__()
        self.top, self.end_bias = top, end_bias

    def forward(self, encoded: Tensor, predicted: Tensor) -> Tensor:
        logits = self.top.join(encoded, predicted)
        blank, pieces, end = logits[:, BLANK : BLANK + 1], logits[:, BLANK + 1 : -1], logits[:, -1:]
        quiet = blank >= pieces.max(1, keepdim=True)[0]
        return torch.cat([logits[:, :-1], torch.where(quiet, end + self.end_bias, end)], 1)


@torch.inference_mode()
def difference(step: EncoderStep, seed: int = 0) -> float:
    """The largest difference between streaming eight chunks and hearing them whole: rounding, or a mistake."""
    geometry, depth = step.geometry, step.depth
    move = 2 * geometry.chunk
    x = torch.randn(1, 8 * move + geometry.feature_frames - move, 80, generator=torch.Generator().manual_seed(seed)) * 3 - 9
    whole = step.encoder(x)[:, : 8 * geometry.chunk].reshape(1, -1, 2 * WIDTH)
    wanted = step.top.from_encoder(step.top(whole))
    attn, conv, out = torch.zeros(depth, LEFT, 1, WIDTH), torch.zeros(depth, 1, 1, WIDTH), []
    for row in range(8):
        part, attn, conv = step(x[:, row * move : row * move + geometry.feature_frames], attn, conv, torch.tensor([row * move]))
        out.append(part)
    return float((torch.cat(out, 1) - wanted).abs().max())


def write(weights: Path, out: Path, geometry: Geometry, end_bias: float) -> float:
    """encoder.onnx, encoder.int8.onnx, decoder.onnx, joiner.onnx, tokens.txt in `out`; returns `difference`.

    Raises ModelError where streaming does not give what the whole gives.
    """
    from onnxruntime.quantization import QuantType, quantize_dynamic

    top, encoder, pieces = load(weights, geometry)
    top.eval()
    step = EncoderStep(encoder, top, geometry).eval()
    apart = difference(step)
    if apart > _CLOSE:
        raise ModelError(str(weights), f"streamed it differs from the whole by {apart:.1e}; {_CLOSE:.0e} is rounding")
    out.mkdir(parents=True, exist_ok=True)
    depth, joint = step.depth, top.shape.joint
    numbers = {
        "model_type": "conformer",
        "num_encoder_layers": depth,
        "T": geometry.feature_frames,
        "decode_chunk_len": 2 * geometry.chunk,
        "left_context": LEFT,
        "encoder_dim": WIDTH,
        "pad_length": 2 * geometry.lookahead,
        "cnn_module_kernel": 2,
    }
    memory, conv = torch.zeros(depth, LEFT, 1, WIDTH), torch.zeros(depth, 1, 1, WIDTH)
    inputs = (torch.zeros(1, geometry.feature_frames, 80), memory, conv, torch.tensor([0]))
    many = {"x": 0, "attn": 2, "conv": 2, "processed_lens": 0, "encoder_out": 0, "new_attn": 2, "new_conv": 2}
    with tempfile.TemporaryDirectory() as scratch:
        raw = Path(scratch) / "encoder.onnx"
        _export(step, inputs, raw, list(many)[:4], list(many)[4:], many)
        # A scale a column, and 7 bits: where a processor adds products of bytes in 16 bits (AVX2), 8 overflow. The encoder's answer then
        # differs from float32's by 5 % of its deviation there; with one scale a matrix by 10 %, with 8 bits and a scale a column by 29 %.
        precise = {"per_channel": True, "reduce_range": True, "weight_type": QuantType.QInt8}
        quantize_dynamic(raw, out / "encoder.int8.onnx", op_types_to_quantize=["MatMul"], **precise)
        (out / "encoder.onnx").write_bytes(raw.read_bytes())
    predicted = torch.zeros(1, joint)
    _export(Decoder(top).eval(), (torch.zeros(1, top.shape.context, dtype=torch.int64),), out / "decoder.onnx", ["y"], ["decoder_out"])
    _export(Joiner(top, end_bias).eval(), (predicted, predicted), out / "joiner.onnx", ["encoder_out", "decoder_out"], ["logit"])
    for name in ("encoder.onnx", "encoder.int8.onnx"):
        describe(out / name, numbers)
    describe(out / "decoder.onnx", {"vocab_size": top.shape.symbols, "context_size": top.shape.context})
    describe(out / "joiner.onnx", {"joiner_dim": joint, "end_bias": end_bias})
    (out / "tokens.txt").write_text("".join(f"{piece} {number}\n" for number, piece in enumerate(pieces)), encoding="utf-8")
    return apart


def _export(
    module: nn.Module, inputs: tuple[Tensor, ...], path: Path, names: list[str], outputs: list[str], many: Mapping[str, int] | None = None
) -> None:
    axes = {name: {(many or {}).get(name, 0): "N"} for name in names + outputs}
    torch.onnx.export(
        module, inputs, str(path), input_names=names, output_names=outputs, dynamic_axes=axes, opset_version=_OPSET, dynamo=False
    )


def describe(path: Path, numbers: Mapping[str, object]) -> None:
    """Makes `numbers` all that an ONNX file says of itself."""
    import onnx

    model = onnx.load(str(path))
    del model.metadata_props[:]
    for key, value in numbers.items():
        entry = model.metadata_props.add()
        entry.key, entry.value = key, str(value)
    onnx.save(model, str(path))


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m voiced_train.export", description="Make the files that sherpa-onnx runs.")
    parser.add_argument("weights", type=Path, metavar="FILE")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR")
    parser.add_argument("--chunk-ms", type=int, default=320, metavar="N", help="(default: %(default)s)")
    parser.add_argument("--lookahead-ms", type=int, default=160, metavar="N", help="(default: %(default)s)")
    parser.add_argument("--end-bias", type=float, default=0.0, metavar="X", help="help for </s> against the blank, in nats")
    options = parser.parse_args(arguments)
    try:
        for name, value, least in (("--chunk-ms", options.chunk_ms, 40), ("--lookahead-ms", options.lookahead_ms, 0)):
            if value < least or value % 40:
                raise UsageError(name, f"must be a multiple of 40 from {least} on, got {value}")
        geometry = Geometry(options.chunk_ms // 20, options.lookahead_ms // 20, LEFT)
        apart = write(options.weights, options.out, geometry, options.end_bias)
        print(f"{options.out}: streamed and whole differ by {apart:.1e}")
        for path in sorted(options.out.iterdir()):
            print(f"  {path.name}: {path.stat().st_size} bytes")
        return 0
    except VoicedError as error:
        print(f"export: {error}", file=sys.stderr)
        return error.exit_code


if __name__ == "__main__":
    sys.exit(main())
