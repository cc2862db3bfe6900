"""sherpa-onnx behind one door: which files, which errors, whose times."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from voiced.errors import ModelError
from voiced.models import Library
from voiced.stages.sherpa import (
    OFFLINE,
    STREAMING,
    OfflineEngine,
    Spotter,
    StreamingEngine,
    assign,
    check_tokens,
    position,
    probe,
    provider,
)


@pytest.fixture(scope="module")
def files(library: Library) -> Mapping[str, Path]:
    return library.find("starter-en").files


def test_the_provider_file_turns_spinning_off_and_takes_more(tmp_path: Path) -> None:
    """CASES C2."""
    name, _, path = provider(tmp_path, "spacemit", {"SPACEMIT_EP_INTRA_THREAD_AFFINITY": "8;9"}).partition(":")
    assert name == "spacemit"
    assert Path(path).read_text().splitlines() == [
        "EnableCpuMemArena=0",
        "SessionConfig.session.intra_op.allow_spinning=0",
        "SPACEMIT_EP_INTRA_THREAD_AFFINITY=8;9",
    ]
    other = provider(tmp_path)
    assert other == provider(tmp_path) != f"{name}:{path}"
    assert sorted(map(str, tmp_path.iterdir())) == sorted([path, other.partition(":")[2]])


@given(st.integers(0, 10**9), st.integers(0, 100_000), st.sampled_from([20, 40, 60, 80]))
def test_a_time_is_a_frame_whatever_sherpa_takes_a_frame_for(first: int, frame: int, frame_ms: int) -> None:
    as_sherpa_counts = float(np.float32(frame * 0.04))  # it keeps seconds in float32
    assert position(first, as_sherpa_counts, frame_ms) == first + frame * frame_ms * 16


def test_files_are_told_apart_by_key_or_by_a_word_of_the_name() -> None:
    names = ("base.en-encoder.int8.onnx", "decoder_model_merged.ort", "tokens.txt", "bpe.model")
    paths = {name: Path(__file__) for name in names}
    assert set(assign("whisper", ("encoder", "decoder", "tokens"), paths)) == {"encoder", "decoder", "tokens"}
    here = Path(__file__)
    assert assign("x", ("encoder",), {"encoder": here, "other-encoder.onnx": here / "no"}) == {"encoder": here}
    with pytest.raises(ModelError, match="x: expected exactly one joiner among the model's files; found encoder"):
        assign("x", ("joiner",), {"encoder": here})
    with pytest.raises(ModelError, match="exactly one encoder"):
        assign("x", ("encoder",), {"a-encoder.onnx": here, "b-encoder.onnx": here})


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("<blk> 0\na 1\nb 3\n", "the numbers 0 to 2, each once"),
        ("<blk> 0\na 1\nb 1\n", "the numbers 0 to 2, each once"),
        ("<blk> 0\na\n", r"tokens.txt:2: expected a token and its number; got 'a'"),
        ("", r"tokens.txt:1: expected a token and its number; got ''"),
    ],
)
def test_tokens_that_are_none(tmp_path: Path, text: str, what: str) -> None:
    tokens = tmp_path / "tokens.txt"
    tokens.write_text(text)
    with pytest.raises(ModelError, match=what):
        check_tokens(tokens)


def test_tokens_of_the_default_models_are_right(library: Library) -> None:
    for model in ("starter-en", "moonshine-tiny-en"):
        check_tokens(library.find(model).files["tokens"])


def test_every_kind_has_its_constructor() -> None:
    import sherpa_onnx

    for family, engines in (("OnlineRecognizer", STREAMING), ("OfflineRecognizer", OFFLINE)):
        assert all(hasattr(getattr(sherpa_onnx, family), engine.constructor) for engine in engines.values())


def test_a_missing_file_and_an_unknown_kind(files: Mapping[str, Path], tmp_path: Path) -> None:
    plain = provider(tmp_path)
    with pytest.raises(ModelError, match=r"no such file \(joiner\)"):
        StreamingEngine("conformer", {**files, "joiner": tmp_path / "none.onnx"}, provider=plain)
    with pytest.raises(ModelError, match=r"conformers: not a kind of model for this role; expected one of conformer,"):
        StreamingEngine("conformers", files, provider=plain)
    with pytest.raises(ModelError, match=r"conformer: not a kind of model for this role"):
        OfflineEngine("conformer", files, provider=plain)


@pytest.mark.parametrize("keep", [0, 1000, -1000])
def test_a_broken_model_is_a_model_error_of_one_line(files: Mapping[str, Path], tmp_path: Path, keep: int) -> None:
    broken = tmp_path / "encoder.onnx"
    broken.write_bytes(files["encoder"].read_bytes()[:keep])
    with pytest.raises(ModelError, match="sherpa-onnx cannot load this conformer model") as caught:
        StreamingEngine("conformer", {**files, "encoder": broken}, provider=provider(tmp_path))
    assert "\n" not in str(caught.value)


def test_tokens_and_language_models_of_another_recognizer_are_named(files: Mapping[str, Path], tmp_path: Path) -> None:
    """sherpa-onnx takes them, and looks beyond their ends at the first word that has such a symbol."""
    few = tmp_path / "tokens.txt"
    few.write_text("".join(f"{line}\n" for line in files["tokens"].read_text(encoding="utf-8").splitlines()[:100]), encoding="utf-8")
    for engine in (StreamingEngine, Spotter):
        with pytest.raises(ModelError, match=r"tokens.txt: expected the 129 tokens of decoder.onnx \(vocab_size\); it has 100"):
            engine("conformer", {**files, "tokens": few}, provider=provider(tmp_path))
    other = {**files, "language": files["decoder"]}
    with pytest.raises(ModelError, match=r"decoder.onnx: is of another recognizer: decoder.onnx has 129 symbols, it has 320"):
        StreamingEngine("conformer", other, provider=provider(tmp_path), paths=4, language=0.3)
    StreamingEngine("conformer", other, provider=provider(tmp_path), paths=1, language=0.3)  # which does not ask it


def test_probe_passes_what_works(library: Library, tmp_path: Path) -> None:
    for model_id in ("starter-en", "moonshine-tiny-en"):
        found = library.find(model_id)
        probe(found.model.kind, found.files, provider=provider(tmp_path))


@pytest.mark.parametrize("part", ["decoder", "language"])
def test_a_model_that_ends_the_process_ends_the_childs(files: Mapping[str, Path], part: str, tmp_path: Path) -> None:
    """A joiner where another part belongs lacks that one's metadata: sherpa-onnx exits, and a child is all that is lost."""
    swapped = {name: str(path) for name, path in {**files, part: files["joiner"]}.items()}
    code = (
        "import sys; from pathlib import Path; from voiced.stages.sherpa import probe, provider; "
        f"probe('conformer', {{k: Path(v) for k, v in {swapped!r}.items()}}, provider=provider(Path(sys.argv[1]))); print('passed')"
    )
    child = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, timeout=60, check=False)
    assert child.returncode != 0
    assert "passed" not in child.stdout


def test_importing_the_stages_imports_no_runtime() -> None:
    code = (
        "import sys, voiced.stages, voiced.stages.wake, voiced.stages.vad, voiced.stages.gate, voiced.stages.transducer, "
        "voiced.stages.second_pass; print([name for name in ('onnxruntime', 'sherpa_onnx') if name in sys.modules])"
    )
    child = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert child.stdout == "[]\n"
