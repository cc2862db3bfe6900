"""`voicectl wake check`: what it says of phrases before anybody uses them (CASES W15)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from voicectl.__main__ import main
from voicectl.wake_check import distance, rate, syllables
from voiced.models import Library
from voiced.spelling import speller
from voiced.stages.pieces import Pieces

CHOSEN = {
    # long enough and unlike talk
    "hey computer": "good", "hey chatterbox": "good", "hey mister anderson": "good", "hey butterfly": "good", "hey penelope": "good",
    "hey gandalf": "good", "okay watermelon": "good", "hey alexander": "good", "alexa": "good", "athena": "good", "amelia": "good",
    "hey richer": "good", "bumblebee": "good", "porcupine": "good", "terminator": "good",
    # short, rare pieces, or near what is said
    "jarvis": "fair", "android": "fair", "computer": "fair", "snowboy": "fair",
    "view glass": "fair", "smart mirror": "fair", "hey kitchen": "fair", "good morning": "fair", "marvin": "fair",
    # part of all talk
    "max": "poor", "sam": "poor", "hey": "poor", "kitchen": "poor", "hello": "poor", "stop": "poor",
}  # fmt: skip
"""Thirty that users chose or might, names among them."""


@pytest.fixture(scope="module")
def pieces(library: Library) -> Pieces:
    return speller(library, "starter-en")


@pytest.mark.parametrize("phrase", CHOSEN)
def test_thirty_phrases_are_rated(pieces: Pieces, phrase: str) -> None:
    """CASES W15: by length, rare pieces and near words; what is weak is said, with what to do and where to begin."""
    report = rate(phrase, pieces)
    assert report.rating == CHOSEN[phrase], report
    assert report.rating == "good" or report.notes
    assert all(": " in note for note in report.notes)
    assert "".join(report.pieces).replace("▁", " ").strip() == phrase
    assert 0 < report.threshold < 1 < report.boost


def test_rare_pieces_want_more_boost(pieces: Pieces) -> None:
    assert rate("jarvis", pieces).boost > rate("hey computer", pieces).boost


def test_a_phrase_of_the_settings_is_no_neighbour_of_itself(pieces: Pieces) -> None:
    assert not [one for one in rate("marvin", pieces, ["marvin"]).near if one.configured]
    near = [one for one in rate("marvin", pieces, ["marvin", "martin"]).near if one.configured]
    assert [one.text for one in near] == ["martin"]


@pytest.mark.parametrize(
    ("phrase", "count"),
    [("jarvis", 2), ("computer", 3), ("hey kitchen", 3), ("alexa", 3), ("amelia", 4), ("android", 2), ("snowboy", 2), ("view glass", 2),
     ("table", 2), ("time", 1), ("porcupine", 3), ("yes", 1), ("queen", 1), ("athena", 3), ("o'brien", 3)],
)  # fmt: skip
def test_syllables(phrase: str, count: int) -> None:
    assert abs(syllables(phrase) - count) <= (phrase in ("amelia", "android", "o'brien"))  # an estimate: "ia" and "oi" are said in two ways


def test_what_sounds_alike_is_near() -> None:
    assert distance("view glass", "few glass") < 0.2
    assert distance("kate", "cate") == 0
    assert distance("computer", "commuter") < distance("computer", "kitchen")


@given(st.text("abcdefghijklmnopqrstuvwxyz' ", min_size=1, max_size=20), st.text("abcdefghijklmnopqrstuvwxyz' ", min_size=1, max_size=20))
def test_a_distance_is_one(one: str, other: str) -> None:
    assert distance(one, one) == 0
    assert 0 <= distance(one, other) == distance(other, one) <= 1


def test_the_command_tells_and_its_code_says_whether_all_will_do(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    config = tmp_path / "voiced.yaml"
    config.write_text("wake:\n  phrases:\n    - text: hey butter fly\n")
    assert main(["wake", "check", "hey computer", "--config", str(config)]) == 0
    assert '"hey computer": good' in capsys.readouterr().out
    assert main(["wake", "check", "hey butterfly", "hey computer", "--json", "--config", str(config)]) == 1
    first, second = map(json.loads, capsys.readouterr().out.splitlines())
    assert (first["rating"], first["near"][0]["text"], second["rating"]) == ("poor", "hey butter fly", "good")


def test_a_head_that_was_trained_for_the_phrase_is_named(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    config = tmp_path / "voiced.yaml"
    config.write_text("")
    assert main(["wake", "check", "Smart mirror", "hey computer", "--config", str(config)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if "head" in line] == [
        "  head       smart-mirror is trained for it and hears it more surely than a text: `- phrase: smart-mirror`"
    ]
    assert main(["wake", "check", "jarvis", "hey jarvis", "--json", "--config", str(config)]) == 0
    assert [json.loads(line)["head"] for line in capsys.readouterr().out.splitlines()] == ["jarvis", ""]


@pytest.mark.parametrize("phrase", ["agent 47", "", "hey Zoë"])
def test_what_cannot_be_said_or_spelled_is_one_line(capsys: pytest.CaptureFixture[str], phrase: str, tmp_path: Path) -> None:
    config = tmp_path / "voiced.yaml"
    config.write_text("")
    assert main(["wake", "check", phrase, "--config", str(config)]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_eval_says_what_of_a_text_is_heard(capsys: pytest.CaptureFixture[str], data_dir: Path) -> None:
    """CASES W9, W10: the same clips give the same figures, at any boost and threshold."""
    told = []
    for _ in range(2):
        assert main(["wake", "eval", "--data", str(data_dir), "--text", "Hey Computer", "--reads-h", "0", "--limit", "3", "--json"]) == 0
        told.append(json.loads(capsys.readouterr().out))
    first, second = ({name: value for name, value in one.items() if name != "cost"} for one in told)
    assert first == second
    assert (first["text"], first["said"]) == ("hey computer", 3)
    assert first["said"] >= first["heard"] >= first["woke"]


def test_eval_names_a_text_that_nobody_recorded(capsys: pytest.CaptureFixture[str], data_dir: Path) -> None:
    assert main(["wake", "eval", "--data", str(data_dir), "--text", "hey penelope", "--reads-h", "0"]) == 65
    assert "has no recording of 'hey penelope'" in capsys.readouterr().err
