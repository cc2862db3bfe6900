"""onnxruntime behind one door: what it opens, and what it says about what it does not."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from voiced.errors import InternalError, ModelError
from voiced.models import Library
from voiced.stages.session import Port, open_session

EMBEDDING = [Port("input_1", (None, 76, 32, 1))]


def test_runs_a_model(embedding: Path) -> None:
    session = open_session(embedding, inputs=EMBEDDING)
    assert session.names == ("input_1",)
    (output,) = session.run({"input_1": np.ones((2, 76, 32, 1), np.float32)})
    assert output.shape == (2, 1, 1, 96)
    assert np.array_equal(output[0], output[1])


def test_a_missing_file_says_how_to_get_it(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"none.onnx: there is no such model file; fetch it with: voicectl models fetch"):
        open_session(tmp_path / "none.onnx", inputs=EMBEDDING)


@pytest.mark.parametrize("keep", [0, 100, -100])
def test_a_broken_file_is_a_model_error_of_one_line(embedding: Path, tmp_path: Path, keep: int) -> None:
    broken = tmp_path / "broken.onnx"
    broken.write_bytes(embedding.read_bytes()[:keep])
    with pytest.raises(ModelError, match=r"broken.onnx: onnxruntime cannot load it") as caught:
        open_session(broken, inputs=EMBEDDING)
    assert "\n" not in str(caught.value)


def test_a_model_of_another_role_is_refused_by_its_inputs(library: Library) -> None:
    vad = library.find("silero-vad").files["model"]
    with pytest.raises(ModelError, match=r"expected inputs input_1 \(any, 76, 32, 1\); it has input \(any, any\), state"):
        open_session(vad, inputs=EMBEDDING)


@pytest.mark.parametrize("port", [Port("input", (None, 76, 32, 1)), Port("input_1", (None, 76, 32)), Port("input_1", (None, 76, 40, 1))])
def test_name_rank_and_size_all_count(embedding: Path, port: Port) -> None:
    with pytest.raises(ModelError, match="a model of another kind"):
        open_session(embedding, inputs=[port])


def test_a_run_of_the_wrong_shape_is_our_own_fault(embedding: Path) -> None:
    session = open_session(embedding, inputs=EMBEDDING)
    with pytest.raises(InternalError, match=r"a run with input_1 float32\[1, 76, 31, 1\] failed"):
        session.run({"input_1": np.ones((1, 76, 31, 1), np.float32)})
