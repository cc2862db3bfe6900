"""voicectl wake eval and train: the arithmetic by hand and by hypothesis, and runs on pieces of the sample recording."""

from __future__ import annotations

import itertools
import json
import struct
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from sounds import noise, to_int16
from voicectl import wake
from voicectl.__main__ import main
from voicectl.evaluation import wake_cascade, wake_clips, wake_measure, wake_report, wake_run
from voiced.api import Library, ModelError, Samples, UsageError
from voiced_train import wake_train
from voiced_train.head import Recipe
from voiced_train.wake_split import FOREIGN_PARTS, PHRASE_PARTS, Part, part
from voiced_train.wake_tracks import Tracks, listen

SAMPLE = Path(__file__).resolve().parents[2] / "daemon" / "voiced" / "data" / "sample.flac"
PHRASES = ((19_120, 28_080), (154_800, 163_760))
"""Where “jarvis” is said in the sample (sample.json)."""

TALK = ((60_000, 110_000), (28_400, 60_000), (166_000, 182_000))
"""Sound of the sample without the phrase."""


def judged(*hops: int) -> wake_clips.Judged:
    def nothing() -> Samples:
        return np.zeros(0, np.int16)

    lengths = [15 + count for count in hops]
    rows = np.zeros((sum(lengths), 96), np.float16)
    clips = tuple(wake_clips.Clip(f"c{at}", "asr", 0, nothing) for at in range(len(hops)))
    starts = np.cumsum([0, *lengths[:-1]]).astype(np.int64)
    return wake_clips.Judged(clips, Tracks(rows, starts, tuple(clip.name for clip in clips)))


def scores(*values: float) -> NDArray[np.float32]:
    return np.array(values, np.float32)


# ── peaks and points ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_spike_counts_for_nothing_and_what_is_near_counts_once() -> None:
    one = judged(10, 3)
    track = scores(0, 0.9, 0, 0.5, 0.6, 0.7, 0, 0, 0.4, 0.4, 0.8, 0.8, 0.8)
    found = wake_measure.peaks(one, track, hops=2, refractory_hops=4, least=0.1)
    assert [(peak.clip.name, peak.hop, round(peak.score, 3)) for peak in found] == [("c1", 1, 0.8), ("c0", 5, 0.6), ("c0", 9, 0.4)]
    assert [round(peak.score, 3) for peak in wake_measure.best_of(one, track, 2)] == [0.6, 0.8]
    assert wake_measure.peaks(one, track, hops=2, refractory_hops=4, least=0.7)[0].sample == 2 * 1280
    assert wake_measure.first_crossing(track[:10], 0.5, 2) == 3
    assert wake_measure.first_crossing(track[:10], 0.7, 2) is None


@given(st.lists(st.floats(0, 1, width=32), min_size=1, max_size=60), st.integers(1, 4), st.integers(1, 20))
def test_peaks_keep_apart_and_the_highest_is_among_them(values: list[float], hops: int, apart: int) -> None:
    one = judged(len(values))
    found = wake_measure.peaks(one, np.array(values, np.float32), hops=hops, refractory_hops=apart, least=0.5)
    places = sorted(peak.hop for peak in found)
    assert all(after - before >= apart for before, after in itertools.pairwise(places))
    runs = [min(values[at : at + hops]) for at in range(len(values) - hops + 1)]
    assert max((peak.score for peak in found), default=0) == (max(runs) if runs and max(runs) >= 0.5 else 0)
    for at, low in enumerate(runs):
        if low >= 0.5:
            assert any(abs(at + hops - 1 - peak.hop) < apart and peak.score >= np.float32(low) for peak in found)


def test_misses_at_none_half_and_one_an_hour_by_hand() -> None:
    false = [0.9, 0.6, 0.3]
    clean, noisy = [0.95, 0.7, 0.95, 0.95], [0.95, 0.2, 0.5, 0.65]
    none, half, one = wake_measure.points(false, {"clean": clean, "0 dB": noisy}, 2.0)
    assert (none.accepts, none.over, none.missed["clean"].part, none.missed["0 dB"].part) == (0, 0.9, 1, 3)
    assert (half.accepts, half.over, half.missed["clean"].part, half.missed["0 dB"].part) == (1, 0.6, 0, 2)
    assert (one.accepts, one.over, one.missed["0 dB"].part) == (2, 0.3, 1)
    (quiet, *_) = wake_measure.points([], {"clean": [0.5, 0.0]}, 2.0)
    assert (quiet.accepts, quiet.over, quiet.missed["clean"].part) == (0, 0.0, 1)  # 0 is no wake


@given(st.lists(st.floats(0, 1), max_size=30), st.lists(st.floats(0, 1), min_size=1, max_size=30), st.floats(0.1, 30))
def test_more_false_accepts_never_miss_more(false: list[float], true: list[float], hours: float) -> None:
    found = wake_measure.points(sorted(false, reverse=True), {"clean": true}, hours)
    assert [point.accepts for point in found] == sorted(point.accepts for point in found)
    assert all(point.accepts <= point.budget * hours for point in found)
    missed = [point.missed["clean"].part for point in found]
    assert missed == sorted(missed, reverse=True)


def test_a_phrase_may_be_called_by_its_heads_id(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """As wake.phrases calls it: "view glass" must not be foreign sound to view-glass."""
    asked: list[list[str]] = []
    monkeypatch.setattr(wake, "_report", lambda options, phrases, head: asked.append(phrases))
    assert main(["wake", "eval", "--data", str(tmp_path), "--phrase", "view-glass", "--phrase", "Jarvis"]) == 0
    assert asked == [["view glass", "jarvis"]]
    assert [wake_run.head_id(phrase) for phrase in asked[0]] == ["view-glass", "jarvis"]


# ── a folder of recordings ─────────────────────────────────────────────────────────────────────────────────────────────


def named(stem: str, where: Part, shares: dict[str, float], count: int) -> list[str]:
    """So many paths that the hash puts into this part."""
    found = (f"{stem}{at}.wav" for at in range(10_000))
    kept = (name for name in found if part(name, shares) == where)
    return [next(kept) for _ in range(count)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two sayings of “jarvis”, talk and noise in each part, a room."""
    data = tmp_path_factory.mktemp("data")
    whole, _ = soundfile.read(SAMPLE, dtype="int16")
    lines: list[dict[str, Any]] = []

    def add(path: str, role: str, samples: Samples, **more: object) -> None:
        soundfile.write(data / path, samples, 16_000)
        lines.append({"path": path, "role": role, "source": "test", "licence": "CC0", "seconds": len(samples) / 16_000, **more})

    for where in ("train", "dev", "test"):
        for name, (start, end) in zip(named(f"jarvis-{where}-", where, PHRASE_PARTS, 2), PHRASES, strict=True):
            add(name, "wake", whole[start - 3200 : end + 480], keyword="jarvis")
        for name, (start, end) in zip(named(f"talk-{where}-", where, FOREIGN_PARTS, 3), TALK, strict=True):
            add(name, "asr", whole[start:end])
        for at, name in enumerate(named(f"hiss-{where}-", where, FOREIGN_PARTS, 2)):
            add(name, "noise", to_int16(noise(48_000, "pink", at) * 0.05))
    room = np.exp(-np.arange(3000) / 500)
    add("room.wav", "rir", to_int16(room * 0.9))
    (data / "manifest.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return data


Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    def call(*arguments: str | Path) -> tuple[int, str, str]:
        code = main([str(each) for each in arguments])
        told = capsys.readouterr()
        return code, told.out, told.err

    return call


def test_eval_measures_both_stages_and_says_by_how_much(run: Run, folder: Path, tmp_path: Path) -> None:
    asked = ("wake", "eval", "--data", folder, "--cache", tmp_path, "--phrase", "jarvis", "--json")
    code, out, _ = run(*asked)
    assert code == 0
    figures, *compared = json.loads(out)["figures"]
    assert all(other["head"].endswith("-openwakeword") and other["cascade"] is None for other in compared)  # where one is fetched
    assert figures["head"] == "jarvis"
    assert figures["clips"] == {"clean": 2, "10 dB": 2, "0 dB": 2}
    assert figures["foreign_clips"] == 5
    seconds = sum(end - start for start, end in TALK) / 16_000 + 2 * 3 + 5 * 0.3
    assert figures["hours"] * 3600 == pytest.approx(seconds, abs=5 * 0.08)
    assert [point["budget"] for point in figures["stage1"]] == [0.0, 0.5, 1.0]
    assert figures["stage1"][0]["accepts"] == figures["cascade_accepts"] == 0
    assert figures["stage1_missed"]["clean"]["part"] == figures["cascade_missed"]["clean"]["part"] == 0
    assert -400 < figures["crossing_ms"][0] < 0
    assert figures["crossing_ms"][0] < figures["confirmed_ms"][0] < 400
    # what was kept gives the same answer, and the tables hold it
    assert run(*asked)[1] == out
    _, table, _ = run(*asked[:-1], "--markdown")
    assert "| jarvis | jarvis | 1 and 2 |" in table
    assert "Wilson's 95 % interval" in table


def test_a_clip_in_noise_has_the_ratio_it_is_named_for(folder: Path, library: Library, tmp_path: Path) -> None:
    found = wake_clips.material(folder, wake_features(library), tmp_path, lambda *_: None)
    clean, ten, zero = (wake_clips.said_in(found, "jarvis", [], condition, None) for condition in wake_clips.CONDITIONS)
    for quiet, noisy, louder in zip(clean.clips, ten.clips, zero.clips, strict=True):
        assert quiet.end == noisy.end == louder.end
        for clip, ratio in ((noisy, 10), (louder, 0)):
            pure, mixed = quiet.sound().astype(np.float64), clip.sound().astype(np.float64)
            pure *= (pure @ mixed) / (pure @ pure)  # made quieter where the sum would clip
            phrase = pure[quiet.end - (PHRASES[0][1] - PHRASES[0][0]) : quiet.end]
            assert 10 * np.log10((phrase**2).mean() / ((mixed - pure) ** 2).mean()) == pytest.approx(ratio, abs=1.0)


def wake_features(library: Library) -> Any:
    from voiced.api import WakeFeatures

    return WakeFeatures(library.find("speech-embedding").files["model"])


def test_the_second_stage_is_asked_as_the_daemon_asks_it(library: Library, tmp_path: Path) -> None:
    from voiced.api import AudioFrame, Wake, defaults, pipeline

    whole, _ = soundfile.read(SAMPLE, dtype="int16")
    usual = defaults()
    told = pipeline(replace(usual, models=replace(usual.models, second_pass="")), library, tmp_path).feed(AudioFrame(0, whole.copy()))
    wakes = [event for event in told if isinstance(event, Wake)]
    clip = wake_clips.Clip("sample", "clean", PHRASES[0][1], partial(np.array, whole))
    track = listen(wake_features(library), [(clip.name, whole / np.float32(32767))])
    scored = wake_measure.head_scores(library.find("jarvis").files["model"], wake_clips.Judged((clip,), track))
    second = wake_cascade.SecondStage(usual, library, "jarvis")
    found = second.crossings(clip, scored, usual.wake.phrases[0].threshold)
    assert [(one.accepted, one.sample, one.phrase_end) for one in found] == [(True, wake.sample, wake.phrase_end) for wake in wakes]
    assert [one.score for one in found] == pytest.approx([wake.score for wake in wakes], abs=0.05)
    assert wake_cascade.woken(found) == found[0]
    assert [wake_cascade.at(found, end) for _, end in PHRASES] == found
    # at a loose threshold there may be more of them, judged at the same places alike
    loose = {one.sample: one.score for one in second.crossings(clip, scored, 0.3)}
    assert all(loose.get(one.sample, one.score) == one.score for one in found)


def test_a_phrase_is_judged_by_its_own_row_of_the_settings_else_by_the_usual_one(library: Library) -> None:
    """So that what `jarvis` wants is not wanted of another head."""
    from voiced.api import PhraseSettings, defaults

    usual = defaults()
    own = PhraseSettings("jarvis", verify_evidence=-2.5)
    settings = replace(usual, wake=replace(usual.wake, phrases=(own,), verify_evidence=-7.5))
    clip = wake_clips.Clip("sample", "clean", PHRASES[0][1], lambda: soundfile.read(SAMPLE, dtype="int16")[0])
    track = scores(*[0.0] * 18, *[0.9] * 6)
    for head, wanted in (("jarvis", "(-2.5 wanted)"), ("snowboy", "(-7.5 wanted)")):
        (answer,) = wake_cascade.SecondStage(settings, library, head).crossings(clip, track, 0.5)
        assert wanted in answer.why


def test_of_several_crossings_the_first_accepted_one_counts() -> None:
    refused, accepted, later = (
        wake_cascade.Answer(yes, first, first + 9, 0, 0.0, "") for yes, first in ((False, 1), (True, 20), (True, 40))
    )
    assert wake_cascade.woken([refused, accepted, later]) is accepted
    assert wake_cascade.woken([refused]) is refused
    assert wake_cascade.woken([]) is None
    assert wake_cascade.at([refused, accepted, later], 39) is accepted


# ── train ──────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_train_makes_a_head_and_ends_with_its_table(run: Run, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = tmp_path / "own"
    own.mkdir()
    whole, _ = soundfile.read(SAMPLE, dtype="int16")
    for at in range(20):
        start, end = PHRASES[at % 2]
        soundfile.write(own / f"{at}.wav", whole[start - 1600 : end + 1600], 16_000)
    monkeypatch.setattr(wake_train, "RECIPE", Recipe(heads=2, rounds=2, steps=40, batch=96))
    code, out, err = run(
        "wake", "train", "Jarvis", "--data", folder, "--out", tmp_path / "heads", "--cache", tmp_path, "--recordings", own, "--no-voices"
    )
    assert code == 0
    head = tmp_path / "heads" / "jarvis.onnx"
    assert str(head) in err
    assert head.stat().st_size < 450_000
    assert "missed clean" in out
    assert "1 and 2" in out


# ── what is refused ────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("arguments", "code", "line"),
    [
        (("eval", "--threshold", "1.5"), 2, "voicectl: --threshold: must be a score from 0.02 to below 1, got 1.5"),
        (("eval", "--limit", "0"), 2, "voicectl: --limit: must be a number of recordings from 1, got 0"),
        (("eval", "--reads-h", "-1"), 2, "voicectl: --reads-h: must be hours from 0, got -1"),
        (("eval", "--head", "x.onnx"), 2, 'voicectl: --head: wants one --phrase, got 0; --phrase "what it listens for"'),
        (("eval", "--phrase", "x", "--head", "y"), 66, "voicectl: y: there is no such head file; voicectl wake train makes one"),
        (("eval", "--phrase", "nosuch"), 66, "voicectl: nosuch: no such model; voicectl models list shows all"),
        (("train", "", "--out", "o"), 2, "voicectl: PHRASE: must be words to say, got ''; for example: \"hey kitchen\""),
        (("train", "route 66", "--out", "o"), 2, "voicectl: PHRASE: has '6', which may be said in several ways, in 'route 66'"
         "; spell it out in letters"),
        (("train", "x", "--out", "o", "--no-voices"), 2, "voicectl: --no-voices: leaves nobody to say the phrase; give --recordings DIR"),
    ],
)  # fmt: skip
def test_one_clear_line(run: Run, folder: Path, tmp_path: Path, arguments: tuple[str, ...], code: int, line: str) -> None:
    got, out, err = run("wake", *arguments, "--data", folder, "--cache", tmp_path)
    assert (got, out, err.strip()) == (code, "", line)


def test_data_that_cannot_be_used(run: Run, tmp_path: Path) -> None:
    code, _, err = run("wake", "eval", "--data", tmp_path, "--cache", tmp_path)
    assert code == 65
    assert "manifest.jsonl: cannot be read" in err
    line = {"path": named("n", "test", FOREIGN_PARTS, 1)[0], "role": "noise", "source": "s", "licence": "CC0", "seconds": 3}
    (tmp_path / "manifest.jsonl").write_text(json.dumps(line), encoding="utf-8")
    code, _, err = run("wake", "eval", "--data", tmp_path, "--cache", tmp_path)
    assert code == 65
    assert "has no speech without a phrase, or no noise, in its test part" in err


def test_a_file_that_is_no_head_is_named(run: Run, folder: Path, tmp_path: Path, library: Library) -> None:
    vad = library.find("silero-vad").files["model"]
    code, _, err = run("wake", "eval", "--data", folder, "--cache", tmp_path, "--phrase", "jarvis", "--head", vad)
    assert code == 66
    assert "a model of another kind" in err
    torn = tmp_path / "torn.onnx"
    torn.write_bytes(b"no model")
    code, _, err = run("wake", "eval", "--data", folder, "--cache", tmp_path, "--phrase", "jarvis", "--head", torn)
    assert code == 66
    assert "onnxruntime cannot load it" in err


def test_a_head_of_ones_own_stands_for_the_phrase(tmp_path: Path, library: Library) -> None:
    head = library.find("jarvis").files["model"]
    (tmp_path / "own").mkdir()
    mine = wake_run.library_with(head, "hey kitchen", tmp_path / "own", "")
    assert mine.find("hey-kitchen", "wake-head").files["model"].read_bytes() == head.read_bytes()
    mine.verify("hey-kitchen")
    assert mine.find("silero-vad").files == library.find("silero-vad").files
    with pytest.raises(ModelError, match="no head is of a phrase"):
        wake_run.heads_of(mine, [], [])


def test_without_matplotlib_a_picture_is_refused_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(UsageError, match=r"--plot: is drawn with matplotlib, which is not installed; .*, or leave --plot out"):
        wake_report.can_plot()


def test_the_picture_is_a_png(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="the picture wants matplotlib")
    curve = wake_report.Curve("x", (0.0, 1.0), (0.2, 0.0))
    figures = wake_report.Figures("x", "x", 1.0, 1, {}, 0.9, (), 0, {}, None, (), (curve,))
    wake_report.plot(tmp_path / "det.png", [figures])
    head = (tmp_path / "det.png").read_bytes()[:24]
    assert head[:8] == b"\x89PNG\r\n\x1a\n"
    assert struct.unpack(">II", head[16:24]) == (960, 720)
