"""Splits by speaker, on small manifests made here."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from voiced_train.data import SPLITS, Refused, Utterance, main, normal, place, read, split


def manifest(folder: Path, *entries: dict[str, Any] | str, name: str = "manifest.jsonl") -> Path:
    lines = []
    for entry in entries:
        if isinstance(entry, str):
            lines.append(entry)
            continue
        whole: dict[str, Any] = {
            "path": "a.flac",
            "role": "asr",
            "source": "made",
            "licence": "CC0",
            "seconds": 2.0,
            "text": "turn it on",
        } | entry
        (folder / whole["path"]).touch()
        lines.append(json.dumps({key: value for key, value in whole.items() if value is not None}))
    path = folder / name
    path.write_text("\n".join(lines) + "\n")
    return path


def only(path: Path) -> Utterance | Refused:
    [item] = read(path)
    return item


utterances = st.lists(
    st.builds(
        Utterance,
        path=st.uuids().map(str),
        text=st.just("turn it on"),
        speaker=st.sampled_from([f"speaker {n}" for n in range(30)]),
        seconds=st.just(2.0),
        source=st.sampled_from(["big", "common-voice-en-clips"]),
        licence=st.sampled_from(["CC0", "CC BY-SA 3.0", "Apache-2.0"]),
        exact=st.booleans(),
    ),
    max_size=60,
)


@given(utterances, st.floats(0, 0.4), st.floats(0, 0.4))
def test_no_speaker_is_in_two_splits_and_nothing_is_lost(items: list[Utterance], dev: float, test: float) -> None:
    splits, refused = split(items, dev=dev, test=test)
    speakers = [{item.speaker for item in splits[name]} for name in SPLITS]
    assert not (speakers[0] & speakers[1] or speakers[0] & speakers[2] or speakers[1] & speakers[2])
    assert sum(map(len, splits.values())) + len(refused) == len(items)
    for name in ("dev", "test"):
        assert all(item.exact for item in splits[name])
    for item in splits["train"] + splits["dev"]:
        assert "SA" not in item.licence
        assert item.source != "common-voice-en-clips"


@given(utterances, utterances)
def test_nobody_moves_when_recordings_are_added(items: list[Utterance], more: list[Utterance]) -> None:
    clean = [item for item in items + more if item.source == "big" and item.licence != "CC BY-SA 3.0" and item.exact]
    before, _ = split(clean[: len(clean) // 2], dev=0.2, test=0.2)
    after, _ = split(clean, dev=0.2, test=0.2)
    for name in SPLITS:
        assert {item.path for item in before[name]} <= {item.path for item in after[name]}


def test_shares_are_of_speakers() -> None:
    items = [Utterance(f"{n}", "yes", f"speaker {n}", 1.0, "made", "CC0") for n in range(2000)]
    splits, _ = split(items, dev=0.1, test=0.2)
    assert len(splits["test"]) / 2000 == pytest.approx(0.2, abs=0.03)
    assert len(splits["dev"]) / 2000 == pytest.approx(0.1, abs=0.03)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [("Turn it ON, please!", "turn it on please"), ("e-mail “Mum’s” list", "e mail mum's list"), ("  what…  now? ", "what now")],
)
def test_text_is_normalized(text: str, wanted: str) -> None:
    assert normal(text) == wanted


@pytest.mark.parametrize(("text", "why"), [("room 12", "'12'"), ("café", "'é'"), ("...", "empty"), ("", "empty"), (" ' ", "empty")])
def test_text_that_no_token_spells_is_named(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        normal(text)


@pytest.mark.parametrize(
    ("entry", "why"),
    [
        ({"text": None}, "nobody knows its words"),
        ({"text": "7 up"}, "which no token spells"),
        ({"text": " "}, "the text is empty"),
        ({"text": "word " * 30}, "cannot be said in 2 s"),
        ({"source": "dc-tts-own-recordings"}, "cut short"),
        ({"seconds": "long"}, "could not convert"),
        ({"licence": None}, "has no 'licence'"),
        ({"path": None}, "has no 'path'"),
        ('{"role": "asr"', "is not JSON"),
        ("[1]", "indices"),
    ],
)
def test_what_cannot_be_used_is_refused_with_its_line(tmp_path: Path, entry: dict[str, Any] | str, why: str) -> None:
    item = only(manifest(tmp_path, entry) if isinstance(entry, str) or "path" not in entry else _without_path(tmp_path))
    assert isinstance(item, Refused)
    assert item.where.endswith("manifest.jsonl:1")
    assert why in item.why


def _without_path(folder: Path) -> Path:
    path = folder / "manifest.jsonl"
    path.write_text(json.dumps({"role": "asr", "text": "yes", "seconds": 1, "source": "made", "licence": "CC0"}) + "\n")
    return path


def test_a_missing_recording_is_refused(tmp_path: Path) -> None:
    path = manifest(tmp_path, {})
    (tmp_path / "a.flac").unlink()
    item = only(path)
    assert isinstance(item, Refused)
    assert "a.flac is not there" in item.why


def test_other_roles_and_languages_are_passed_over(tmp_path: Path) -> None:
    assert not list(read(manifest(tmp_path, {"role": "noise"}, {"lang": "de"}, "")))


def test_a_machines_words_train_only_where_they_were_checked(tmp_path: Path) -> None:
    words = {"text": None, "role": "command", "asr_moonshine_tiny": "A small latte."}
    good, bad = read(manifest(tmp_path, words | {"asr_has_all_slot_words": True}, words | {"asr_has_all_slot_words": False}))
    assert isinstance(good, Utterance)
    assert (good.text, good.exact) == ("a small latte", False)
    assert isinstance(bad, Refused)


def test_synthetic_lines_keep_what_the_end_token_needs(tmp_path: Path) -> None:
    item = only(manifest(tmp_path, {"role": "synthetic", "complete": False, "pauses": [[800, 9600]], "speaker": "kokoro:af_heart"}))
    assert isinstance(item, Utterance)
    assert (item.complete, item.pauses, item.source) == (False, ((800, 9600),), "synthetic made")


def test_recordings_without_a_name_are_one_speakers(tmp_path: Path) -> None:
    items = list(read(manifest(tmp_path, {}, {"path": "b.flac"}, {"path": "c.flac", "source": "other"})))
    assert [item.speaker for item in items if isinstance(item, Utterance)] == ["somebody of made", "somebody of made", "somebody of other"]


def test_the_command_writes_every_split_and_what_was_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    entries = [{"path": f"{n}.flac", "speaker": f"speaker {n}"} for n in range(60)]
    first, second = manifest(tmp_path, *entries, {"text": "4"}), manifest(tmp_path, {"speaker": "speaker 3"}, name="more.jsonl")
    assert main([str(first), str(second), "--out", str(tmp_path / "out"), "--dev", "0.2", "--test", "0.2"]) == 0
    written = {name: (tmp_path / "out" / f"{name}.jsonl").read_text().splitlines() for name in (*SPLITS, "refused")}
    assert sum(map(len, written.values())) == 62
    assert len(written["refused"]) == 1
    assert json.loads(written["train"][0])["text"] == "turn it on"
    assert "refused: 1" in capsys.readouterr().out


def test_the_command_says_which_split_is_empty(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(manifest(tmp_path, {})), "--out", str(tmp_path / "out"), "--dev", "0", "--test", "0"]) == 65
    assert "give nothing for dev and test" in capsys.readouterr().err
    assert main([str(tmp_path / "none.jsonl"), "--out", str(tmp_path / "out")]) == 65
    assert main([str(tmp_path / "none.jsonl"), "--out", str(tmp_path / "out"), "--dev", "1"]) == 2


def test_a_source_that_is_held_out_is_tested_with_and_never_trained_on() -> None:
    one = Utterance("a/x.ogg", "stop", "anybody", 1.0, "small-set", "CC0")
    assert place(one, dev=0, test=0) == "train"
    assert place(one, dev=0, test=0, held_out=frozenset(["small-set"])) == "test"
