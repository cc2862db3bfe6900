"""The speech embedding in streaming form: Google's model, rewired so that each row of it is computed once.

What lives here: the rewiring of the ONNX graph. What must not: any weight of our own; not one is changed.

The model turns 76 mel frames into one embedding, and we want one every 8 frames. Along time it only has convolutions over three rows
without padding, and poolings whose strides multiply to 8, so of two embeddings in a row nine tenths of all rows are the same. Here each
convolution along time keeps the last two rows that it heard, as an input and an output of the graph; what comes out is the same, for less
than a quarter of the time. Wants the package onnx.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from voiced.stages.features import EMBEDDING_SIZE, MEL_BINS

IN, OUT = "frames", "embeddings"
_KEPT = 2
"""Rows between two runs: one less than a kernel of three hears."""


def streaming(model: Any) -> Any:
    """onnx.ModelProto → onnx.ModelProto: frames (1, 8·n, 32, 1) and a state a convolution along time → embeddings (n, 96), next states.

    model  (N, 76, 32, 1) → (N, 1, 1, 96), as openWakeWord ships it. Raises ValueError where it is built in another way.
    """
    from onnx import TensorProto, helper, numpy_helper, shape_inference

    graph = model.graph
    shapes = {
        value.name: [size.dim_value for size in value.type.tensor_type.shape.dim]
        for value in shape_inference.infer_shapes(model).graph.value_info
    }
    names = {graph.input[0].name: IN, graph.output[0].name: OUT}
    constants = {one.name: one for one in graph.initializer}
    nodes: list[Any] = []
    states: list[Any] = [helper.make_tensor_value_info(IN, TensorProto.FLOAT, [1, "frames", MEL_BINS, 1])]
    kept: list[Any] = []
    for node in graph.node:
        if node.op_type == "Conv" and _kernel(node)[0] == _KEPT + 1:
            channels, bands = shapes[node.input[0]][1], shapes[node.input[0]][3]
            state, following, joined = (f"{what}_{len(kept)}" for what in ("state", "next", "joined"))
            nodes.append(helper.make_node("Concat", [state, node.input[0]], [joined], axis=2))
            nodes.append(helper.make_node("Slice", [joined, "kept", "end", "time"], [following]))
            node.input[0] = joined
            states.append(helper.make_tensor_value_info(state, TensorProto.FLOAT, [1, channels, _KEPT, bands]))
            kept.append(helper.make_tensor_value_info(following, TensorProto.FLOAT, [1, channels, _KEPT, bands]))
        elif node.op_type == "Reshape" and node.output[0] in names:
            nodes.append(helper.make_node("Transpose", [node.input[0]], ["by_hop"], perm=[0, 2, 3, 1]))
            node.input[0] = "by_hop"
            _replace(constants[node.input[1]], np.array([-1, EMBEDDING_SIZE]))
        elif node.op_type == "Reshape":
            _replace(constants[node.input[1]], np.array([1, 1, -1, MEL_BINS + 2]))  # a band of padding on either side
        node.input[:] = [names.get(name, name) for name in node.input]
        node.output[:] = [names.get(name, name) for name in node.output]
        nodes.append(node)
    if len(kept) != 11:
        raise ValueError(f"a speech embedding has 11 convolutions along time; this model has {len(kept)}")
    numbers = {"kept": [-_KEPT], "end": [2**31 - 1], "time": [2]}
    initializers = [*graph.initializer, *(numpy_helper.from_array(np.array(value, np.int64), name) for name, value in numbers.items())]
    result = helper.make_tensor_value_info(OUT, TensorProto.FLOAT, ["hops", EMBEDDING_SIZE])
    made = helper.make_graph(nodes, "speech embedding, streaming", states, [result, *kept], initializer=initializers)
    return helper.make_model(made, opset_imports=model.opset_import, ir_version=7, producer_name="voiced_train")


def _kernel(node: Any) -> Sequence[int]:
    return next(one.ints for one in node.attribute if one.name == "kernel_shape")


def _replace(constant: Any, value: Any) -> None:
    from onnx import numpy_helper

    constant.CopyFrom(numpy_helper.from_array(value.astype(np.int64), constant.name))


def main(arguments: Sequence[str] | None = None) -> int:
    import onnx

    parser = argparse.ArgumentParser("python -m voiced_train.embedding", description="Make the speech embedding a streaming one.")
    parser.add_argument("model", type=Path, help="openWakeWord's embedding_model.onnx (voicectl models fetch openwakeword-embedding)")
    parser.add_argument("--out", metavar="FILE", type=Path, required=True, help="the streaming model")
    options = parser.parse_args(arguments)
    made = streaming(onnx.load(str(options.model)))
    onnx.checker.check_model(made)
    onnx.save(made, str(options.out))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
