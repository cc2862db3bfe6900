"""The speech embedding rewired: what ships is what the recipe makes of the original."""

from __future__ import annotations

import hashlib

import pytest
from voiced.errors import ModelError
from voiced.models import Library

onnx = pytest.importorskip("onnx", reason="the package onnx rewires models: pip install 'voiced[train]'")


def test_the_recipe_makes_the_model_that_ships(library: Library) -> None:
    from voiced_train.embedding import streaming

    try:
        original = library.find("openwakeword-embedding").files["model"]
    except ModelError:
        pytest.skip("openwakeword-embedding is not here: voicectl models fetch openwakeword-embedding")
    ours = library.find("speech-embedding").files["model"]
    made = streaming(onnx.load(str(original)))
    onnx.checker.check_model(made)
    shipped = onnx.load(str(ours))
    assert [node.op_type for node in made.graph.node] == [node.op_type for node in shipped.graph.node]
    digests = [hashlib.sha256(one.SerializeToString(deterministic=True)).hexdigest() for one in (made.graph, shipped.graph)]
    assert digests[0] == digests[1]


def test_another_model_is_refused(library: Library) -> None:
    from voiced_train.embedding import streaming

    with pytest.raises(ValueError, match="11 convolutions along time; this model has 0"):
        streaming(onnx.load(str(library.find("jarvis").files["model"])))
