"""A wake head as an .onnx file, without the package onnx: a board has no wheel of it, and four nodes need none.

What lives here: the few protobuf messages of ONNX (onnx.proto3, field numbers in the table below) that a head is made of. What must not:
training. Opset 17, IR version 8: what onnxruntime 1.13 and newer read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from voiced.stages.features import EMBEDDING_SIZE, EMBEDDINGS

from .head import SIZE, Floats, Head

_IR_VERSION, _OPSET = 8, 17
_FLOAT, _INT64 = 1, 7  # TensorProto.DataType
_MODEL_IR, _MODEL_PRODUCER, _MODEL_GRAPH, _MODEL_OPSET, _MODEL_METADATA = 1, 2, 7, 8, 14
_GRAPH_NODE, _GRAPH_NAME, _GRAPH_INITIALIZER, _GRAPH_INPUT, _GRAPH_OUTPUT = 1, 2, 5, 11, 12
_NODE_INPUT, _NODE_OUTPUT, _NODE_NAME, _NODE_TYPE = 1, 2, 3, 4
_TENSOR_DIMS, _TENSOR_TYPE, _TENSOR_NAME, _TENSOR_RAW = 1, 2, 8, 9


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _bytes(field: int, value: bytes | str) -> bytes:
    raw = value.encode() if isinstance(value, str) else value
    return _varint(field << 3 | 2) + _varint(len(raw)) + raw


def _tensor(name: str, value: NDArray[Any]) -> bytes:
    kind = {np.dtype(np.float32): _FLOAT, np.dtype(np.int64): _INT64}[value.dtype]
    dims = b"".join(_number(_TENSOR_DIMS, size) for size in value.shape)
    raw = np.ascontiguousarray(value).astype(value.dtype.newbyteorder("<")).tobytes()
    return dims + _number(_TENSOR_TYPE, kind) + _bytes(_TENSOR_NAME, name) + _bytes(_TENSOR_RAW, raw)


def _node(kind: str, inputs: Sequence[str], output: str) -> bytes:
    names = b"".join(_bytes(_NODE_INPUT, name) for name in inputs)
    return names + _bytes(_NODE_OUTPUT, output) + _bytes(_NODE_NAME, output) + _bytes(_NODE_TYPE, kind)


def _value(name: str, shape: Sequence[int | str]) -> bytes:
    """ValueInfoProto: name 1, type 2 → tensor_type 1 → elem_type 1, shape 2 → dim 1 → dim_value 1 or dim_param 2."""
    dims = b"".join(_bytes(1, _bytes(2, size) if isinstance(size, str) else _number(1, size)) for size in shape)
    return _bytes(1, name) + _bytes(2, _bytes(1, _number(1, _FLOAT) + _bytes(2, dims)))


def encoded(head: Head, about: Mapping[str, str]) -> bytes:
    """The file's bytes: embeddings (N, 16, 96) → score (N, 1). `about` becomes its metadata."""
    tensors: dict[str, NDArray[Any]] = {
        "flat": np.array([-1, SIZE], np.int64),
        "w1": head.w1,
        "b1": head.b1,
        "w2": head.w2[:, None],
        "b2": head.b2,
    }
    nodes = (
        _node("Reshape", ["embeddings", "flat"], "window"),
        _node("Gemm", ["window", "w1", "b1"], "before"),
        _node("Relu", ["before"], "hidden"),
        _node("Gemm", ["hidden", "w2", "b2"], "logit"),
        _node("Sigmoid", ["logit"], "score"),
    )
    graph = b"".join(
        (
            *(_bytes(_GRAPH_NODE, node) for node in nodes),
            _bytes(_GRAPH_NAME, "wake head"),
            *(_bytes(_GRAPH_INITIALIZER, _tensor(name, value)) for name, value in tensors.items()),
            _bytes(_GRAPH_INPUT, _value("embeddings", ("N", EMBEDDINGS, EMBEDDING_SIZE))),
            _bytes(_GRAPH_OUTPUT, _value("score", ("N", 1))),
        )
    )
    metadata = b"".join(_bytes(_MODEL_METADATA, _bytes(1, key) + _bytes(2, value)) for key, value in about.items())
    opset = _bytes(1, "") + _number(2, _OPSET)
    head_of_file = _number(_MODEL_IR, _IR_VERSION) + _bytes(_MODEL_PRODUCER, "voiced_train")
    return head_of_file + _bytes(_MODEL_GRAPH, graph) + _bytes(_MODEL_OPSET, opset) + metadata


def write(path: Path, head: Head, about: Mapping[str, str]) -> None:
    """Under a temporary name first: who reads it finds the whole file or none."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.partial")
    partial.write_bytes(encoded(head, about))
    partial.replace(path)


def scores(head: Head, windows: Floats) -> Floats:
    """float32 (n, 16, 96) → (n, 1): what the file gives."""
    found: Floats = (1 / (1 + np.exp(-head.logits(windows.reshape(-1, SIZE))))).astype(np.float32)[:, None]
    return found
