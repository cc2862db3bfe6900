"""A streaming transducer's own files, run over one short sound: what was likely said in each of its frames.

What lives here: encoder, decoder and joiner by onnxruntime, for questions that sherpa-onnx does not answer: how likely a given symbol is
at a given frame after given others. What must not: which phrase that is, thresholds (phrase.py). The recognizer itself is sherpa-onnx's
(transducer.py).

The encoder is one that sherpa-onnx calls `conformer`: it reads T feature frames, answers for decode_chunk_len of them, and its memory goes
in and out. Everything else (width, layers, chunk, the symbols that its decoder sees) is read from the files.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from pathlib import Path

import numpy as np

from ..audio import Samples
from ..errors import ModelError
from .filterbank import BINS, FRAME_HOP, Floats, filter_banks
from .session import Port, Session, open_session, zeros

BLANK = 0

_FLOOR = np.float32(np.log(np.finfo(np.float32).eps))
"""What digital silence gives: it stands for the sound that is still to come."""

_ANY = (None, None, None, None)


class AcousticModel:
    """One transducer. Its methods may be called from any thread: nothing is kept between two calls. Raises ModelError where the files
    are of another kind.

    frame         samples of one frame of its answers
    context_size  symbols that its decoder sees
    symbols       of its vocabulary, the blank included
    made_of       of its builder's: equal for two of the same files
    """

    def __init__(self, files: Mapping[str, Path], *, made_of: Hashable = (), threads: int = 1) -> None:
        self.made_of = made_of
        x = [Port("x", (1, None, BINS)), Port("attn", _ANY), Port("conv", _ANY), Port("processed_lens", (1,))]
        self._encoder = open_session(files["encoder"], inputs=x, threads=threads)
        self._decoder = open_session(files["decoder"], inputs=[Port("y", (None, None))], threads=threads)
        joined = [Port("encoder_out", (None, None)), Port("decoder_out", (None, None))]
        self._joiner = open_session(files["joiner"], inputs=joined, threads=threads)
        self._reads, self._moves = _number(self._encoder, "T"), _number(self._encoder, "decode_chunk_len")
        layers, left, width = (_number(self._encoder, name) for name in ("num_encoder_layers", "left_context", "encoder_dim"))
        kernel = _number(self._encoder, "cnn_module_kernel")
        self._born = zeros(layers, left, 1, width), zeros(layers, kernel - 1, 1, width)
        self.context_size, self.symbols = _number(self._decoder, "context_size"), _number(self._decoder, "vocab_size")
        chunk, _, _ = self._encoder.run(self._feeds(np.full((1, self._reads, BINS), _FLOOR), *self._born, 0))
        self.frame = self._moves * FRAME_HOP // chunk.shape[1]

    def _feeds(self, x: Floats, attention: Floats, convolution: Floats, position: int) -> dict[str, Floats]:
        return {"x": x, "attn": attention, "conv": convolution, "processed_lens": np.array([position], np.int64)}

    def encode(self, samples: Samples) -> Floats:
        """int16 (n,), n ≥ 280, as a stream of its own that ends there → float32 (⌈n / frame⌉, width), chunk by chunk."""
        banks = filter_banks(samples)
        chunks = -(-len(banks) // self._moves)
        padded = np.full((chunks * self._moves + self._reads, BINS), _FLOOR)
        padded[: len(banks)] = banks
        attention, convolution = self._born
        found = []
        for first in range(0, chunks * self._moves, self._moves):
            feeds = self._feeds(padded[None, first : first + self._reads], attention, convolution, first)
            chunk, attention, convolution = self._encoder.run(feeds)
            found.append(chunk[0])
        return np.concatenate(found)[: -(-len(samples) // self.frame)]

    def predict(self, contexts: Sequence[Sequence[int]]) -> Floats:
        """What was said last, `context_size` symbols each, the newest last → float32 (contexts, width)."""
        return self._decoder.run({"y": np.array(contexts, np.int64)})[0]

    def log_probabilities(self, encoded: Floats, predicted: Floats) -> Floats:
        """(frames, width) of `encode`, (contexts, width) of `predict` → float32 (frames, contexts, symbols)."""
        frames, contexts = len(encoded), len(predicted)
        logits = self._joiner.run({"encoder_out": np.repeat(encoded, contexts, 0), "decoder_out": np.tile(predicted, (frames, 1))})[0]
        logits = logits - logits.max(1, keepdims=True)
        found: Floats = (logits - np.log(np.exp(logits).sum(1, keepdims=True))).reshape(frames, contexts, -1)
        return found

    def freely(self, encoded: Floats) -> tuple[Floats, tuple[int, ...]]:
        """The most likely symbol of each frame after those before it (the search that sherpa-onnx does, one symbol a frame).

        → float32 (frames,), their log-probabilities, and what was said.
        """
        context = [BLANK] * self.context_size
        predicted = self.predict([context])
        likely, said = np.zeros(len(encoded), np.float32), []
        for at in range(len(encoded)):
            row = self.log_probabilities(encoded[at : at + 1], predicted)[0, 0]
            best = int(row.argmax())
            likely[at] = row[best]
            if best != BLANK:
                said.append(best)
                context = [*context[1:], best]
                predicted = self.predict([context])
        return likely, tuple(said)


def _number(session: Session, name: str) -> int:
    """Of a file's metadata. Raises ModelError."""
    value = session.metadata.get(name, "")
    if not value.isdecimal() or not int(value):
        what = f"its metadata must have {name}, a whole number from 1; it has {value!r}" if value else f"its metadata has no {name}"
        raise ModelError(str(session.path), f"a model of another kind: {what}", "name one of kind conformer, such as starter-en")
    return int(value)
