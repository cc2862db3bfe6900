"""voicectl selftest handover: the comparison of texts by hand and by hypothesis, and runs on the sample recording."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import soundfile
from hypothesis import given
from hypothesis import strategies as st
from voicectl.__main__ import main
from voicectl.evaluation.handover import Case, Handover, Row, added_words, lost_words, unmatched, with_chime, words
from voicectl.selftest import _sayings, document
from voiced.api import Library, Pipeline, Settings, pipeline
from voiced.events import Confirmed, Event, Fact, Order
from voiced.pipeline import HAND_OVER

TURN = words("Turn on the lights in the kitchen.")


# ── the comparison ─────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("text", "lost"),
    [
        ("turn on the lights in the kitchen", []),
        ("turn on the lits in the citchine", []),  # misspelled is not lost
        ("purn on the lights in the kitchen", []),
        ("her on the lights in the kitchen", ["turn"]),  # its beginning was cut off
        ("on the lights in the kitchen", ["turn"]),
        ("the lights in the kitchen", ["turn", "on"]),
        ("turn on the lights", ["in", "the", "kitchen"]),
        ("", TURN),
    ],
)
def test_a_word_is_lost_with_half_of_its_letters(text: str, lost: list[str]) -> None:
    assert [TURN[at] for at in sorted(lost_words(TURN, text))] == lost


@pytest.mark.parametrize(
    ("text", "added"), [("turn on the lights", []), ("jam turn on the lights", ["jam"]), ("turn on the lights uh", ["uh"]), ("", [])]
)
def test_a_word_is_added_where_no_letter_of_it_is_the_querys(text: str, added: list[str]) -> None:
    assert added_words(words("turn on the lights"), text) == added


@given(st.lists(st.text("abc", min_size=1, max_size=5), max_size=6), st.lists(st.text("abc", min_size=1, max_size=5), max_size=6))
def test_both_sides_match_the_same_number_of_letters(ours: list[str], theirs: list[str]) -> None:
    missing, more = unmatched(ours, theirs)
    matched = [sum(map(len, side)) - sum(left) for side, left in ((ours, missing), (theirs, more))]
    assert matched[0] == matched[1]
    assert all(0 <= left <= len(word) for left, word in zip(missing + more, [*ours, *theirs], strict=True))
    assert unmatched(ours, ours) == ([0] * len(ours), [0] * len(ours))


def test_the_chime_is_where_it_should_be_and_nowhere_else() -> None:
    quiet = np.zeros(16_000, np.int16)
    heard = np.flatnonzero(with_chime(quiet, 4000))
    assert 4000 <= heard[0] < 4050
    assert heard[-1] < 4000 + 3200
    assert not with_chime(quiet, 16_000).any()


# ── the pipeline ───────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def hearing(library: Library, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pipeline]:
    yield pipeline(Settings(), library, tmp_path_factory.mktemp("runtime"))


def told(row: Row) -> tuple[str, str, float | None]:
    return row.first_pass, row.final, row.woke_ms


def test_no_word_is_lost_however_late_stage_2_answers(hearing: Pipeline) -> None:
    """P1 in one breath, P3 with two seconds of delay, P6 (a plosive first), P9 (what came before the reader is replayed to it)."""
    saying = _sayings(None, None, "")[0]
    assert saying.text.startswith("T")
    at_once, late, chime = Handover(hearing).rows(saying, [Case(0), Case(0, late_ms=2000), Case(800, chime=True)])
    assert [row.good for row in (at_once, late, chime)] == [True, True, True]
    assert told(at_once) == told(late)


def test_where_the_hand_over_is_late_it_says_which_word_is_lost(hearing: Pipeline, monkeypatch: pytest.MonkeyPatch) -> None:
    """The proof can fail: a phrase whose end is told a quarter of a second late loses the first word."""
    saying = _sayings(None, None, "")[0]
    take = hearing.scribe.machine.take

    def later(fact: Fact) -> list[Event | Order]:
        moved = replace(fact, phrase_end=fact.phrase_end + 4000 + HAND_OVER) if isinstance(fact, Confirmed) else fact
        return take(moved)

    monkeypatch.setattr(hearing.scribe.machine, "take", later)
    (row,) = Handover(hearing).rows(saying, [Case(0)])
    assert row.lost[0] == "turn"
    assert not row.good


@pytest.mark.slow
def test_the_command_proves_it_and_says_so(library: Library, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["selftest", "handover", "--quick", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["cases"], found["good"], found["lost"]) == (11, 11, 0)
    assert {row["case"]["gap_ms"] for row in found["rows"]} == {0, 50, 100, 300, 800}


def test_a_phrase_that_does_not_wake_is_a_failure(library: Library, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("phrase.wav", "query.wav"):
        soundfile.write(tmp_path / name, np.random.default_rng(0).integers(-30, 30, 8000).astype(np.int16), 16_000)
    arguments = ["--phrase-audio", str(tmp_path / "phrase.wav"), "--query-audio", str(tmp_path / "query.wav"), "--text", "hello"]
    assert main(["selftest", "handover", "--quick", *arguments]) == 1
    out = capsys.readouterr().out
    assert "no wake" in out
    assert "11 phrases that did not wake" in out


def test_a_text_without_a_query_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["selftest", "handover", "--text", "hello"]) == 2
    assert "--query-audio" in capsys.readouterr().err


def test_a_recording_that_is_none_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "nothing.wav"
    path.write_bytes(b"")
    assert main(["selftest", "handover", "--phrase-audio", str(path)]) == 65
    assert str(path) in capsys.readouterr().err


def test_the_document_is_plain() -> None:
    row = Row("turn on", Case(0), None, None, "", "", ("turn",), ())
    assert json.loads(json.dumps(document([row])))["rows"][0]["good"] is False
    assert document([row])["lost"] == 1
