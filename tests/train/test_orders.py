"""The grammar of orders: what it draws are orders, all different, and none that a held-out recording says."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from voiced.errors import InputError, UsageError
from voiced_train.data import normal
from voiced_train.orders import SOURCE, draw, held_out_texts, main
from voiced_train.synthesize import read_texts


@given(st.integers(1, 80), st.integers(0, 9))
@settings(max_examples=20, deadline=None)
def test_sentences_are_words_of_ours_and_all_different(count: int, seed: int) -> None:
    drawn = draw(count, frozenset(), seed)
    assert len(set(drawn)) == count
    assert drawn == draw(count, frozenset(), seed)
    assert all(one == normal(one) for one in drawn)


def test_what_is_held_out_is_never_drawn() -> None:
    first = draw(40, frozenset(), 3)
    assert not set(draw(40, frozenset(first[::2]), 3)) & set(first[::2])


def test_an_exhausted_grammar_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("voiced_train.orders.sentence", lambda rng: rng.choice(["get me a latte", "get me a mocha"]))
    with pytest.raises(UsageError, match="the grammar gave 2 sentences, 3 were wanted"):
        draw(3, frozenset(), 0)


def test_held_out_texts_are_those_of_named_recordings_speakers_and_sources(tmp_path: Path) -> None:
    lines = [
        {"path": "a/one.ogg", "source": "s", "text": "Get me a latte!"},
        {"path": "a/two.ogg", "source": "s", "asr_moonshine_tiny": "Can I have a Mocha?"},
        {"path": "a/three.ogg", "source": "s", "speaker": "anna", "text": "I want 2 coffees"},
        {"path": "a/four.ogg", "source": "whole", "text": "brew a coffee"},
        {"path": "a/five.ogg", "source": "s", "text": "an espresso please"},
    ]
    manifest = tmp_path / "manifest.jsonl"
    manifest.write_text("".join(json.dumps(line) + "\n" for line in lines))
    found = held_out_texts(manifest, frozenset(("one", "two", "anna", "whole")))
    assert found == {"get me a latte", "can i have a mocha", "brew a coffee"}
    manifest.write_text("no manifest")
    with pytest.raises(InputError, match="is no manifest"):
        held_out_texts(manifest, frozenset())


def test_the_file_is_what_synthesis_reads(tmp_path: Path) -> None:
    (tmp_path / "manifest.jsonl").write_text("")
    (tmp_path / "held-out.txt").write_text("nobody  # at all\n")
    told = [
        "--manifest",
        str(tmp_path / "manifest.jsonl"),
        "--held-out",
        str(tmp_path / "held-out.txt"),
        "--out",
        str(tmp_path / "orders.tsv"),
    ]
    assert main([*told, "--count", "12"]) == 0
    texts = read_texts(tmp_path / "orders.tsv")
    assert [source for _, source in texts] == [SOURCE] * 12
    assert main([*told, "--count", "0"]) == UsageError.exit_code
