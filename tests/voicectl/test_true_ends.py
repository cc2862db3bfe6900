"""The true end of speech: who is believed, by arithmetic; forced alignment of the sample's turns; both held against a synthesizer's."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import soundfile
from livedaemon import SAMPLE
from sounds import noise, to_int16
from voicectl.__main__ import main
from voicectl.evaluation import alignment, endpoint_queries, endpoint_report, ends_check, sounds
from voicectl.evaluation.alignment import Aligner, NotAlignedError
from voicectl.evaluation.clips import Clip
from voicectl.evaluation.endpoint_figures import Heard
from voicectl.evaluation.endpoint_queries import Query
from voicectl.evaluation.endpoint_tape import Tape
from voicectl.evaluation.sounds import VAD_HOP
from voicectl.evaluation.true_ends import AGREE, TrueEnd, believed, counts, true_end
from voiced.api import ModelError, OutputError, Samples, Vad, Words, default_library

MS = 16
"""Samples."""
LEAD, TAIL = 200 * MS, 700 * MS
SOUND = np.zeros(40_000, np.int16)
CLIP = Clip(Path("a.wav"), "a.wav", "commands", "turn it on")


# ── who is believed ────────────────────────────────────────────────────────────────────────────────────────────────────


class Written:
    """An aligner that answers as a test writes it."""

    def __init__(self, answer: int | NotAlignedError) -> None:
        self.answer = answer

    def end(self, samples: Samples, text: str) -> int:
        if isinstance(self.answer, NotAlignedError):
            raise self.answer
        return self.answer


def written(answer: int | NotAlignedError) -> Aligner:
    return cast(Aligner, Written(answer))


@pytest.mark.parametrize("apart", [0, AGREE, -AGREE])
def test_an_alignment_near_what_is_heard_is_believed(apart: int) -> None:
    assert believed(20_000 + apart, 20_000) == TrueEnd(20_000 + apart, "alignment")


def test_one_far_from_what_is_heard_is_not_and_it_is_said_why() -> None:
    assert believed(20_000 - AGREE - 1, 20_000) == TrueEnd(20_000, "ear", "speech goes on after the text")
    assert believed(20_000 + AGREE + 1, 20_000) == TrueEnd(20_000, "ear", "last word stretched over quiet")


def test_labels_come_first_and_the_ear_last() -> None:
    assert true_end(replace(CLIP, speech_end=30_000), SOUND, 20_000, written(21_000)) == TrueEnd(30_000, "labels")
    assert true_end(replace(CLIP, speech_end=50_000), SOUND, 20_000, None) == TrueEnd(40_000, "labels")  # no later than the sound
    assert true_end(CLIP, SOUND, 20_000, written(21_000)) == TrueEnd(21_000, "alignment")
    assert true_end(replace(CLIP, text=None), SOUND, 20_000, written(21_000)) == TrueEnd(20_000, "ear", "no text")
    assert true_end(CLIP, SOUND, 20_000, None) == TrueEnd(20_000, "ear", "pocketsphinx is not installed")
    assert true_end(CLIP, SOUND, 20_000, written(NotAlignedError("it hums"))) == TrueEnd(20_000, "ear", "it hums")


def test_ends_are_counted_the_surest_first() -> None:
    ends = [TrueEnd(1, "ear", "no text"), TrueEnd(2, "alignment"), TrueEnd(3, "ear", "it hums"), TrueEnd(4, "ear", "no text")]
    found = counts([*ends, TrueEnd(5, "labels"), TrueEnd(6, "synthesizer")])
    assert list(found.items()) == [("synthesizer", 1), ("labels", 1), ("alignment", 1), ("ear: no text", 2), ("ear: it hums", 1)]


# ── noise, by arithmetic ───────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("below_db", [40.0, 20.0, 6.0])
def test_noise_lies_as_far_below_the_speech_as_is_asked(below_db: float) -> None:
    """Half a second of noise at −20 dBFS between silences: its pauses have no part in how loud speech is."""
    speech = np.zeros(32_000, np.int16)
    speech[12_000:20_000] = to_int16(noise(8_000, "white") * 0.1 / noise(8_000, "white").std())
    assert sounds.speech_db(speech) == pytest.approx(-20, abs=0.2)
    noisy = sounds.in_noise(speech, below_db, (0,))
    before = noisy[:12_000].astype(np.float64) / 32768
    assert 10 * np.log10((before**2).mean()) == pytest.approx(-20 - below_db, abs=0.5)
    assert np.array_equal(noisy, sounds.in_noise(speech, below_db, (0,)))
    assert not np.array_equal(noisy, sounds.in_noise(speech, below_db, (1,)))


# ── PocketSphinx itself ────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def aligner() -> Aligner:
    pytest.importorskip("pocketsphinx", reason="the extra align is not installed: pip install pocketsphinx")
    return Aligner(None)


def spoken() -> list[tuple[Samples, str, int]]:
    """The sample's turns and talk: sound, words, and the sample in it at which the synthesizer ended."""
    facts = json.loads(SAMPLE.with_suffix(".json").read_text(encoding="utf-8"))
    found = []
    for part in (*facts["turns"], *facts["talk"]):
        first, last = part["speech_start"] - LEAD, part["speech_end"] + TAIL
        samples, _ = soundfile.read(SAMPLE, dtype="int16", start=first, stop=last)
        found.append((samples, part["text"], part["speech_end"] - first))
    return found


def test_the_last_word_ends_where_the_synthesizer_ended_it(aligner: Aligner) -> None:
    for samples, text, end in spoken():
        assert abs(aligner.end(samples, text) - end) <= 60 * MS, text


def test_an_answer_depends_on_its_own_sound_alone(aligner: Aligner) -> None:
    forwards = [aligner.end(samples, text) for samples, text, _ in spoken()]
    backwards = [aligner.end(samples, text) for samples, text, _ in reversed(spoken())]
    assert forwards == backwards[::-1]


def test_a_word_that_the_dictionary_lacks_stands_for_any_speech_but_not_at_the_end(aligner: Aligner) -> None:
    samples, text, end = spoken()[0]
    assert text == "Turn on the lights in the kitchen."
    assert abs(aligner.end(samples, "Turn on the lumioso in the kitchen.") - end) <= 60 * MS
    with pytest.raises(NotAlignedError, match="last word not in the dictionary"):
        aligner.end(samples, "Turn on the lights in the lumioso.")


def test_what_was_not_said_does_not_fit(aligner: Aligner) -> None:
    samples, text, _ = spoken()[1]
    assert text == "What time is it?"
    with pytest.raises(NotAlignedError, match="text does not fit the sound"):
        aligner.end(samples[: 400 * MS], "the quick brown fox jumps over the lazy dog and runs away into the wide open fields beyond")
    with pytest.raises(NotAlignedError, match="no words"):
        aligner.end(samples, "…")


def test_an_answer_is_kept_for_its_sound_and_text(aligner: Aligner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    samples, text, _ = spoken()[1]
    first = Aligner(tmp_path / "ends").end(samples, text)
    (file,) = (tmp_path / "ends").glob("*.json")
    with pytest.raises(NotAlignedError):
        Aligner(tmp_path / "ends").end(samples, "what time is lumioso")
    with monkeypatch.context() as no_more:
        no_more.setattr(Aligner, "_aligned", lambda *_: pytest.fail("is computed anew"))
        assert Aligner(tmp_path / "ends").end(samples, text) == first
        with pytest.raises(NotAlignedError, match="last word not in the dictionary"):
            Aligner(tmp_path / "ends").end(samples, "what time is lumioso")
    for damaged in (file.read_bytes()[:5], b"\xff\xfe", b'{"end": "soon"}'):
        file.write_bytes(damaged)
        assert Aligner(tmp_path / "ends").end(samples, text) == first
        assert json.loads(file.read_text()) == {"end": first}


def test_where_answers_cannot_be_kept_it_is_said(aligner: Aligner, tmp_path: Path) -> None:
    samples, text, _ = spoken()[1]
    (tmp_path / "ends").write_text("no folder")
    with pytest.raises(OutputError, match="ends: cannot be written: File exists; make room, or name another folder"):
        Aligner(tmp_path / "ends").end(samples, text)


def test_one_that_does_not_load_is_an_error_in_words(aligner: Aligner, monkeypatch: pytest.MonkeyPatch) -> None:
    import pocketsphinx

    def broken(**_: object) -> None:
        raise RuntimeError("Failed to initialize PocketSphinx")

    monkeypatch.setattr(pocketsphinx, "Decoder", broken)
    with pytest.raises(ModelError, match="pocketsphinx: does not load: Failed to initialize PocketSphinx"):
        Aligner(None).end(SOUND, "turn it on")


# ── queries ────────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def vad() -> Vad:
    stage = Vad(default_library().find("silero-vad").files["model"])
    stage.warm_up()
    return stage


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The sample's turns and talk as a synthesizer would have written them."""
    lines = []
    for number, (samples, text, end) in enumerate(spoken()):
        soundfile.write(tmp_path / f"{number}.flac", samples, 16_000)
        lines.append({"path": f"{number}.flac", "role": "synthetic", "text": text, "shape": "plain", "speech": [LEAD, end], "pauses": []})
    (tmp_path / "manifest.jsonl").write_text("\n".join(map(json.dumps, lines)))
    return tmp_path


class Unasked(Aligner):
    def __init__(self) -> None:
        super().__init__(None)

    def end(self, samples: Samples, text: str) -> int:
        pytest.fail("is aligned")


def test_what_is_no_query_is_not_aligned(vad: Vad, tmp_path: Path) -> None:
    """Nor is a dictation of some minutes."""
    samples, text, _ = spoken()[0]
    soundfile.write(tmp_path / "long.flac", np.tile(samples, 6), 16_000)
    with pytest.raises(ValueError, match="s of speech are more than a query"):
        endpoint_queries.of_clip(Clip(tmp_path / "long.flac", "long.flac", "commands", text), vad, 0, Unasked())


def test_a_recording_ends_where_its_text_does(aligner: Aligner, vad: Vad, folder: Path) -> None:
    samples, text, _ = spoken()[0]
    clip = Clip(folder / "0.flac", "0.flac", "commands", text)
    query = endpoint_queries.of_clip(clip, vad, 0, aligner)
    by_ear = endpoint_queries.of_clip(clip, vad, 0)
    assert (query.ends_by, query.ends_why) == ("alignment", "")
    assert (by_ear.ends_by, by_ear.ends_why) == ("ear", "pocketsphinx is not installed")
    cut = next(at for at in range(len(samples)) if np.array_equal(samples[at : at + 1600], query.samples[:1600]))
    assert query.start == by_ear.start
    assert query.end + cut == aligner.end(samples, text)


def test_more_that_is_said_than_the_text_has_ends_by_ear(aligner: Aligner, vad: Vad, tmp_path: Path) -> None:
    """As a name that is said and then spelled: two turns, of which the text has the first."""
    (first, text, end), (second, _, _) = spoken()[0], spoken()[1]
    soundfile.write(tmp_path / "a.flac", np.concatenate([first, second]), 16_000)
    query = endpoint_queries.of_clip(Clip(tmp_path / "a.flac", "a", "commands", text), vad, 0, aligner)
    assert (query.ends_by, query.ends_why) == ("ear", "speech goes on after the text")
    assert query.end - query.start > end + TAIL  # the first turn, and what lies before the second


def report_of(*queries: Query) -> endpoint_report.Report:
    silent = Tape((), 0, {}, Words(0, ""), 0.0)
    return endpoint_report.Report("x", [Heard(query, silent) for query in queries], [], [], {}, {}, [], [], 0, [], 0)


def test_the_report_counts_who_knew_the_ends() -> None:
    by_ear = Query("a", "commands", None, SOUND, 0, 16_000, "ear", ends_why="no text")
    aligned = replace(by_ear, ends_by="alignment", ends_why="")
    report = report_of(by_ear, aligned, aligned, replace(aligned, pause_ms=500, pause=(1, 2)))
    assert endpoint_report.tables(report)[-1] == [["end of speech by", "queries"], ["alignment", "2"], ["ear: no text", "1"]]
    assert endpoint_report.document(report)["ends"] == {"alignment": 2, "ear: no text": 1}
    assert not any("pocketsphinx" in line for line in endpoint_report.remarks(report))


def test_the_report_says_how_to_have_ends_aligned() -> None:
    report = report_of(Query("a", "commands", "turn it on", SOUND, 0, 16_000, "ear", ends_why="pocketsphinx is not installed"))
    (told,) = [line for line in endpoint_report.remarks(report) if "pocketsphinx" in line]
    assert told.endswith("-m pip install 'pocketsphinx>=5.1,<6'")


# ── against a synthesizer's ends ───────────────────────────────────────────────────────────────────────────────────────


class Deaf:
    """A VAD that hears speech in the first second, whatever there is."""

    def track(self, samples: Samples) -> tuple[float, ...]:
        return tuple(1.0 if at < 31 else 0.0 for at in range(len(samples) // VAD_HOP))


def test_the_errors_by_hand() -> None:
    """Speech until 1.00 s: the ear is right to 10 ms, an alignment 50 ms late, and another one seconds late, which is not believed."""
    sound = np.zeros(64_000, np.int16)
    sound[:16_000] = to_int16(noise(16_000, "white") * 0.1)
    query = Query("q", "synthetic", "turn it on", sound, 0, 16_000, "synthesizer")
    rows = ends_check.compare([query], cast(Vad, Deaf()), written(16_800), 0)
    made = {row.by: row for row in rows if row.below_db is None}
    assert [made[by].later_ms for by in ("alignment", "ear", "believed")] == [50, 0, 50]
    assert [row.below_db for row in rows[::3]] == list(ends_check.BELOW_DB)
    far = {row.by: row for row in ends_check.compare([query], cast(Vad, Deaf()), written(48_000), 0) if row.below_db is None}
    assert [far[by].later_ms for by in ("alignment", "ear", "believed")] == [2000, 0, 0]
    none = {row.by: row for row in ends_check.compare([query], cast(Vad, Deaf()), written(NotAlignedError("no")), 0)}
    assert (none["alignment"].error, none["alignment"].none) == (None, 1)
    assert none["believed"].error == none["ear"].error
    assert [line[-1] for line in ends_check.table(list(none.values()))] == ["finds none", "1", "0", "0"]


def test_the_command(aligner: Aligner, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["endpoint", "eval", "--ends", "--synthetic", str(folder / "manifest.jsonl"), "--cache", str(folder / "cache")]
    assert main([*command, "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    rows: dict[tuple[float | None, str], Any] = {(row["below_db"], row["by"]): row for row in answer["ends"]}
    assert len(rows) == 3 * len(ends_check.BELOW_DB)
    assert all(rows[below, "alignment"]["error"]["median_ms"] <= 60 for below in (None, 40.0, 30.0))
    assert rows[None, "believed"]["error"]["clips"] == 3
    assert list((folder / "cache" / "ends").glob("*.json"))
    assert main(command) == 0
    told = capsys.readouterr().out
    assert "noise below the speech" in told
    assert "Error: from the synthesizer's end of speech" in told


def test_the_command_takes_nothing_that_it_would_ignore(capsys: pytest.CaptureFixture[str]) -> None:
    for options, left_out in {
        ("--data", "x"): "--data",
        ("--picture", "x.png", "--no-detector"): "--picture and --no-detector",
    }.items():
        assert main(["endpoint", "eval", "--ends", "--synthetic", "x.jsonl", *options]) == 2
        said = f"--ends: measures the recordings of --synthetic, and their ends alone; leave {left_out} out\n"
        assert capsys.readouterr().err.endswith(said)


def test_the_command_wants_known_ends_and_pocketsphinx(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main(["endpoint", "eval", "--ends", "--data", str(folder)]) == 2
    assert "--ends: wants ends that are known; give --synthetic FILE" in capsys.readouterr().err
    (folder / "empty.jsonl").write_text("")
    if alignment.installed():
        assert main(["endpoint", "eval", "--ends", "--synthetic", str(folder / "empty.jsonl")]) == 65
        assert "empty.jsonl: has no query to measure by" in capsys.readouterr().err
    monkeypatch.setattr("importlib.util.find_spec", lambda *_: None)  # nor is jiwer, which it does not want
    assert main(["endpoint", "eval", "--ends", "--synthetic", str(folder / "manifest.jsonl")]) == 2
    assert "--ends: aligns with pocketsphinx, which is not installed" in capsys.readouterr().err
