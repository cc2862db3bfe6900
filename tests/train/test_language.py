"""The language model: what a round reads, the loss by hand, that it learns, and the file that sherpa-onnx asks."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from voiced.errors import InputError
from voiced.models import Library
from voiced.stages.sherpa import StreamingEngine, provider

torch = pytest.importorskip("torch", reason="training wants PyTorch: pip install '.[train]'")
sentencepiece = pytest.importorskip("sentencepiece", reason="training wants sentencepiece: pip install '.[train]'")

from voiced_train import language  # noqa: E402


def kinds(**sentences: list[list[int]]) -> dict[str, list[Any]]:
    return {kind: [np.array(one, np.int64) for one in sentences.get(kind, [])] for kind in language.SHARES}


def test_a_round_reads_each_kind_as_often_as_its_share_says() -> None:
    given = kinds(books=[[1]] * 10, commands=[[2]] * 10, glosses=[[3]] * 20, spoken=[[4]] * 5)
    read = [int(one[0]) for batch in language.batches(given, np.random.default_rng(0)) for one in batch]
    assert {symbol: read.count(symbol) for symbol in (1, 2, 3, 4)} == {1: 10, 2: 15, 3: 7, 4: 10}


def test_a_model_that_knows_nothing_loses_the_logarithm_of_its_symbols() -> None:
    model = language.LanguageModel(symbols=10, hidden=8)
    for parameter in model.parameters():
        torch.nn.init.zeros_(parameter)
    batch = [np.array(one, np.int64) for one in ([1, 2, 3], [4])]
    assert float(language.loss(model, batch, end=9)) == pytest.approx(math.log(10))


def test_it_learns_what_it_reads_and_the_file_goes_with_the_recognizer(tmp_path: Path, library: Library) -> None:
    torch.manual_seed(0)
    files = library.find("starter-en").files
    symbols = len(files["tokens"].read_text(encoding="utf-8").splitlines())
    given = kinds(commands=[[5, 6, 7, 8]] * 40)
    model = language.LanguageModel(symbols, hidden=32)
    before = float(language.loss(model, given["commands"], end=symbols - 1))
    language.train(model, given, steps=200)
    model.eval()
    after = float(language.loss(model, given["commands"], end=symbols - 1))
    assert after < before / 2
    language.write(model, tmp_path / "language.onnx")
    own = {**files, "language": tmp_path / "language.onnx"}
    stage = StreamingEngine("conformer", own, provider=provider(tmp_path), paths=4, language=0.5).stream()
    stage.accept(np.zeros(16_000, np.int16))
    stage.finish()
    assert stage.hypothesis().tokens == ()


def test_a_text_that_is_missing_or_cannot_be_spelled_is_named(tmp_path: Path) -> None:
    class Letters:
        @staticmethod
        def encode(line: str, out_type: type) -> list[str]:
            assert out_type is str
            return list(line)

    with pytest.raises(InputError, match=r"books.txt: cannot be read.*make it with voiced_train.texts"):
        language.read(tmp_path, Letters(), ["a"])
    for kind in language.SHARES:
        (tmp_path / f"{kind}.txt").write_text("ab\n")
    assert [one.tolist() for one in language.read(tmp_path, Letters(), ["a", "b"])["books"]] == [[0, 1]]
    with pytest.raises(InputError, match=r"has a piece that tokens.txt does not: 'b'"):
        language.read(tmp_path, Letters(), ["a"])
    for kind in language.SHARES:
        (tmp_path / f"{kind}.txt").write_text("")
    with pytest.raises(InputError, match=f"{tmp_path}: has no sentence in any of its texts"):  # else its rounds would never end
        language.read(tmp_path, Letters(), ["a"])


def test_a_loss_that_is_no_number_ends_the_training() -> None:
    model = language.LanguageModel(symbols=10, hidden=8)
    torch.nn.init.constant_(model.out.bias, math.inf)
    with pytest.raises(InputError, match="step 0: the loss is no number"):
        language.train(model, kinds(books=[[1, 2]]), steps=10)


@pytest.mark.parametrize("minutes", ["0", "-1", "nan", "x"])
def test_no_time_at_all_is_no_training(minutes: str, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["texts", "--bpe", "b", "--tokens", "t", "--out", "o", "--minutes", minutes]
    with pytest.raises(SystemExit) as ended:
        language.main(arguments)
    assert ended.value.code == 2
    assert "--minutes: invalid" in capsys.readouterr().err


def test_files_that_are_none_are_named(tmp_path: Path, library: Library, capsys: pytest.CaptureFixture[str]) -> None:
    bpe, tokens = str(library.find("starter-en").files["bpe"]), str(library.find("starter-en").files["tokens"])
    (tmp_path / "none").write_bytes(b"\xff" * 99)
    for given_bpe, given_tokens in ((str(tmp_path / "none"), tokens), (bpe, str(tmp_path / "none")), (bpe, str(tmp_path / "absent"))):
        arguments = [str(tmp_path), "--bpe", given_bpe, "--tokens", given_tokens, "--out", str(tmp_path / "lm.onnx"), "--steps", "1"]
        assert language.main(arguments) == InputError.exit_code
        assert capsys.readouterr().err.startswith("language: ")
