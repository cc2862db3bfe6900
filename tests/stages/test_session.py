"""onnxruntime behind one door: what it opens, and what it says about what it does not."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from voiced.errors import InternalError, ModelError
from voiced.models import Library
from voiced.stages.session import Port, open_session

HEAD = [Port("embeddings", (None, 16, 96))]


@pytest.fixture(scope="module")
def head(library: Library) -> Path:
    return library.find("jarvis").files["model"]


def test_runs_a_model(head: Path) -> None:
    session = open_session(head, inputs=HEAD)
    assert session.names == ("embeddings",)
    (output,) = session.run({"embeddings": np.ones((2, 16, 96), np.float32)})
    assert output.shape == (2, 1)
    assert np.array_equal(output[0], output[1])


def test_a_missing_file_says_how_to_get_it(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"none.onnx: there is no such model file; fetch it with: voicectl models fetch"):
        open_session(tmp_path / "none.onnx", inputs=HEAD)


@pytest.mark.parametrize("keep", [0, 100, -100])
def test_a_broken_file_is_a_model_error_of_one_line(head: Path, tmp_path: Path, keep: int) -> None:
    broken = tmp_path / "broken.onnx"
    broken.write_bytes(head.read_bytes()[:keep])
    with pytest.raises(ModelError, match=r"broken.onnx: onnxruntime cannot load it") as caught:
        open_session(broken, inputs=HEAD)
    assert "\n" not in str(caught.value)


def test_a_model_of_another_role_is_refused_by_its_inputs(library: Library) -> None:
    vad = library.find("silero-vad").files["model"]
    with pytest.raises(ModelError, match=r"expected inputs embeddings \(any, 16, 96\); it has input \(any, any\), state"):
        open_session(vad, inputs=HEAD)


@pytest.mark.parametrize("port", [Port("input", (None, 16, 96)), Port("embeddings", (None, 16)), Port("embeddings", (None, 16, 40))])
def test_name_rank_and_size_all_count(head: Path, port: Port) -> None:
    with pytest.raises(ModelError, match="a model of another kind"):
        open_session(head, inputs=[port])


def test_a_run_of_the_wrong_shape_is_our_own_fault(head: Path) -> None:
    session = open_session(head, inputs=HEAD)
    with pytest.raises(InternalError, match=r"a run with embeddings float32\[1, 16, 31\] failed"):
        session.run({"embeddings": np.ones((1, 16, 31), np.float32)})
