"""The plan of a synthesis, its manifest and its resuming; the run itself with the real voices is in test_voices.py."""

import json
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from voiced.errors import InputError
from voiced_train.synthesize import Job, finished, main, plan, read_texts

VOICES = ["af_heart", "am_adam", "bm_george", "joe", "zf_xiaoni", "ef_dora"]
TEXTS = [(f"set a timer for {word} minutes and call my mother", "clinc") for word in "one two three four five six seven".split()]  # noqa: SIM905

words = st.lists(st.sampled_from("set a timer for ten minutes what is on the list play call my mother to".split()), min_size=1, max_size=12)  # noqa: SIM905
sentences = st.lists(words.map(" ".join), min_size=1, max_size=8, unique=True).map(lambda texts: [(text, "made") for text in texts])


@given(sentences, st.integers(0, 1000), st.integers(0, 40), st.integers(0, 40))
def test_a_longer_plan_begins_with_the_shorter_one(texts: list[tuple[str, str]], seed: int, first: int, more: int) -> None:
    short, long = list(plan(texts, VOICES, first, seed)), list(plan(texts, VOICES, first + more, seed))
    assert long[:first] == short
    assert [job.index for job in long] == list(range(first + more))


@given(sentences, st.integers(0, 1000))
def test_every_sentence_is_said_before_one_is_said_again(texts: list[tuple[str, str]], seed: int) -> None:
    jobs = list(plan(texts, VOICES, len(texts), seed))
    assert sorted(job.text for job in jobs) == sorted(text for text, _ in texts)
    assert all(0.85 <= job.speed <= 1.2 and job.voice in VOICES for job in jobs)


def late_jobs() -> list[Job]:
    return list(plan(TEXTS, VOICES, 4000, 7))[2000:]


def test_first_jobs_are_plain_and_later_ones_have_every_shape() -> None:
    jobs = list(plan(TEXTS, VOICES, 4000, 7))
    assert {job.shape for job in jobs[:2000]} == {"plain"}
    counts = Counter(job.shape for job in jobs[2000:])
    assert counts["plain"] / 2000 == pytest.approx(0.6, abs=0.05)
    assert all(counts[shape] / 2000 == pytest.approx(0.13, abs=0.04) for shape in ("pause", "hesitation", "cut-off"))


def test_shapes_say_what_they_promise() -> None:
    for job in late_jobs():
        full = TEXTS[0][0].split()
        match job.shape:
            case "cut-off":
                assert not job.complete
                assert job.text.split()[-1] in {"a", "and", "for", "my"}
                assert len(job.text.split()) < len(full)
                assert job.pieces == (job.text + "…",)
            case "pause":
                assert job.complete
                assert 300 <= job.pause_ms <= 1400
                assert " ".join(job.pieces) == job.text.replace(job.pieces[0][:-1], job.pieces[0], 1) + "."
            case "hesitation":
                said = job.pieces[0].rstrip(".").replace(",", "").split()
                assert [word for word in said if word not in {"um", "uh", "er", "hmm"}] == job.text.split()
                assert len(said) == len(job.text.split()) + 1
            case _:
                assert (job.pause_ms, job.complete, job.pieces) == (0, True, (job.text + ".",))


def test_three_in_four_are_spoken_by_english_voices() -> None:
    jobs = plan(TEXTS, VOICES, 2000, 3)
    assert sum(job.voice in {"af_heart", "am_adam", "bm_george", "joe"} for job in jobs) / 2000 == pytest.approx(0.75, abs=0.04)


def test_a_question_is_asked() -> None:
    [job] = plan([("what time is it", "clinc")], VOICES, 1, 0)
    assert job.pieces == ("what time is it?",)


def test_a_line_cut_short_by_a_crash_is_closed_and_made_again(tmp_path: Path) -> None:
    manifest = tmp_path / "manifest.jsonl"
    manifest.write_text(json.dumps({"index": 0}) + "\n" + json.dumps({"index": 3}) + '\n{"index": 4, "te')
    assert finished(manifest) == {0, 3}
    assert manifest.read_bytes().endswith(b"\n")
    assert finished(manifest) == {0, 3}
    assert finished(tmp_path / "none.jsonl") == set()


@pytest.mark.parametrize(
    ("content", "message"),
    [("", "holds no sentence"), ("hello\tclinc\nno source\n", "texts.tsv:2: must be"), ("\tclinc\n", "texts.tsv:1: must be")],
)
def test_texts_are_refused_by_line(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "texts.tsv"
    path.write_text(content)
    with pytest.raises(InputError, match=message):
        read_texts(path)


def test_texts_are_read_once_each(tmp_path: Path) -> None:
    path = tmp_path / "texts.tsv"
    path.write_text("play  music\tclinc\nplay music\tsnips\nstop\tclinc\n")
    assert read_texts(path) == [("play music", "clinc"), ("stop", "clinc")]


@pytest.mark.parametrize("share", ["0/2", "3/2", "1", "a/b", "1/-2"])
def test_a_wrong_share_is_named(share: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["commands", "--texts", "t", "--out", "o", "--share", share])
    assert stopped.value.code == 2
    assert "I/N" in capsys.readouterr().err


def test_a_missing_file_of_texts_exits_65(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["commands", "--texts", str(tmp_path / "none.tsv"), "--out", str(tmp_path)]) == 65
    assert "none.tsv: cannot be read" in capsys.readouterr().err


def test_shapes_may_come_from_the_first_job_on_and_one_voice_may_say_all() -> None:
    jobs = list(plan(TEXTS, ["joe"], 300, 5, plain_first=100))
    assert {job.shape for job in jobs[:100]} == {"plain"}
    assert {job.shape for job in jobs[100:]} == {"plain", "pause", "hesitation", "cut-off"}
    assert {job.voice for job in jobs} == {"joe"}
    assert {job.voice for job in plan(TEXTS, ["jf_alpha"], 50, 5)} == {"jf_alpha"}
