"""Texts into pieces: the same ones as sentencepiece makes."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from voiced.errors import ModelError
from voiced.models import Library
from voiced.stages.pieces import Pieces


@pytest.fixture(scope="session")
def pieces(library: Library) -> Pieces:
    files = library.find("starter-en", "transducer").files
    return Pieces.read(files["vocabulary"], files["tokens"])


@pytest.mark.parametrize(
    ("text", "spelled"),
    [
        ("jarvis", "▁ j ar v is"),
        ("hey jarvis", "▁he y ▁ j ar v is"),
        ("smart mirror", "▁s m ar t ▁m i r r or"),
        ("computer", "▁c om p ut er"),
        ("what's the  time", "▁what ' s ▁the ▁t im e"),
        ("the that hat hatat", "▁the ▁that ▁h at ▁h at at"),
        ("aaaa", "▁a a a a"),
    ],
)
def test_spells_as_sentencepiece_does(pieces: Pieces, text: str, spelled: str) -> None:
    assert pieces.spell(text) == tuple(spelled.split())


def test_numbers_are_those_of_the_model(pieces: Pieces) -> None:
    """Each with what sounds the same: where a word begins is not heard."""
    assert [forms[0] for forms in pieces.encode("jarvis")] == [100, 125, 27, 122, 45]
    names = {number: piece for piece, number in pieces.numbers.items()}
    spelled = [tuple(names[number] for number in forms) for forms in pieces.encode("jarvis b")]
    assert spelled == [("▁",), ("j",), ("ar",), ("v",), ("is", "▁is"), ("▁b", "b")]


def test_case_and_spaces_are_brought_to_what_the_model_has(pieces: Pieces) -> None:
    assert pieces.encode("  Hey\tJARVIS ") == pieces.encode("hey jarvis")
    loud = Pieces({"▁H": -1.0, "EY": -2.0}, {"<blk>": 0, "▁H": 1, "EY": 2, "</s>": 3})
    assert loud.spell("hey") == ("▁H", "EY")
    both = Pieces({"▁H": -1.0}, {"▁H": 1, "e": 2, "y": 3})
    assert both.spell("Hey") == ("▁H", "e", "y")


@pytest.mark.parametrize(
    ("text", "lack"),
    [("hello 5", "has no piece for '5'"), ("naïve 5", "has no piece for '5', 'ï'"), (" ", "it has no word"), ("", "no word")],
)
def test_what_cannot_be_spelled_is_said_by_name(pieces: Pieces, text: str, lack: str) -> None:
    with pytest.raises(ValueError, match=f"cannot be spelled: .*{lack}"):
        pieces.spell(text)


def test_a_broken_vocabulary_is_a_model_error_with_its_line(tmp_path: Path, library: Library) -> None:
    tokens = library.find("starter-en").files["tokens"]
    broken = tmp_path / "bpe.vocab"
    broken.write_text("▁t\t-0\nhe\tmany\n", encoding="utf-8")
    with pytest.raises(ModelError, match=r"bpe.vocab:2: must be a piece and a number; got 'he\\tmany'"):
        Pieces.read(broken, tokens)
    with pytest.raises(ModelError, match="cannot be read"):
        Pieces.read(tmp_path / "none", tokens)


@given(text=st.text(alphabet="abcdefghijklmnopqrstuvwxyz' ", max_size=40))
def test_any_text_is_spelled_as_sentencepiece_spells_it(pieces: Pieces, library: Library, text: str) -> None:
    sentencepiece = pytest.importorskip("sentencepiece", reason="compares with sentencepiece where that is installed")
    model = sentencepiece.SentencePieceProcessor(model_file=str(library.find("starter-en").files["bpe"]))
    if text.strip():
        assert list(pieces.spell(text)) == model.encode(text, out_type=str)
