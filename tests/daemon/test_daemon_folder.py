"""`voiced --lanes N --input-dir D --results D`: a folder as lanes, its results as files, and folders that are none."""

from __future__ import annotations

import json
import shutil
import signal
from pathlib import Path
from typing import Any

import pytest
import soundfile
from livedaemon import Start, run, until
from voiced.results import TARGETS


@pytest.fixture
def folder(tmp_path: Path, clock: Path, kitchen: Path) -> Path:
    """Three recordings of two formats, and what is no recording."""
    where = tmp_path / "in"
    where.mkdir()
    shutil.copy(clock, where / "a.wav")
    sound, rate = soundfile.read(kitchen, dtype="int16")
    soundfile.write(where / "b.flac", sound, rate)
    shutil.copy(clock, where / "c.wav")
    (where / "notes.txt").write_text("no sound")
    return where


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_folder_is_heard_by_lanes_and_gives_files(env: dict[str, str], folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    found = run("voiced", "--lanes", "2", "--input-dir", folder, "--results", out, "--headless", "--verbose", env=env)
    assert (found.returncode, found.stdout) == (0, ""), found.stderr
    assert f"{folder}: no audio by their names, and not heard: notes.txt" in found.stderr
    assert "mixed formats, each converted to mono at 16 kHz: 2 of WAV PCM_16, 16000 Hz, 1 channel; 1 of FLAC" in found.stderr
    assert "to the transducer's end with them; a chunk's length is not in it" in found.stderr
    assert "K3 application's aim ≤ 50" in found.stderr and "K3 application's aim ≤ 0.4" in found.stderr
    texts = {lane: (out / "results" / f"{lane}.txt").read_text().lower() for lane in ("lane1", "lane2")}
    assert texts["lane1"].count("what time is it") == 2 and "lights in the kitchen" in texts["lane2"]
    outputs = {lane: lines(out / "model_outputs" / f"{lane}.jsonl") for lane in texts}
    for lane, told in outputs.items():
        assert [one["utterance"] for one in told] == sorted(one["utterance"] for one in told)
        assert {one["lane"] for one in told} == {lane}
        for one in told:
            assert one["model"] in ("starter-en", "moonshine-tiny-en")
            assert one["rtf"] == pytest.approx(one["compute_ms"] / 1000 / one["audio_s"], rel=0.02)
            assert 0 <= one["first_s"] < one["last_s"] < 4
    assert [one["file"] for one in outputs["lane1"] if one["role"] == "first_pass"] == ["a.wav", "c.wav"]
    config, metrics = (json.loads((out / f"{name}.json").read_text()) for name in ("config", "metrics"))
    assert config["files"] == {"lane1": [str(folder / "a.wav"), str(folder / "c.wav")], "lane2": [str(folder / "b.flac")]}
    assert config["settings"]["lanes"][0]["listen"] == "always"
    assert (metrics["lanes"], metrics["files"], metrics["utterances"], metrics["lines_lost"]) == (2, 3, 3, 0)
    assert metrics["targets"] == TARGETS
    assert metrics["met"]["second_pass_rtf"] is (metrics["second_pass_rtf"] <= 0.4)
    assert metrics["frame_latency_ms"] > 0 and metrics["metrics_detail"]["statistics"]["events_Final"] == 3


def test_a_bad_file_is_told_and_the_lane_hears_the_next(env: dict[str, str], folder: Path, tmp_path: Path) -> None:
    (folder / "a.wav").write_bytes(b"RIFF")
    found = run("voiced", "--lanes", "1", "--input-dir", folder, "--results", tmp_path / "out", env=env)
    assert found.returncode == 65
    assert f"voiced: {folder}/a.wav: is not audio that can be read" in found.stderr
    told = lines(tmp_path / "out" / "model_outputs" / "lane1.jsonl")
    assert [one["file"] for one in told if one["role"] == "second_pass"] == ["b.flac", "c.wav"]
    assert "lane1" not in found.stdout and "final" in found.stdout  # one lane needs no name


def test_one_that_could_not_begin_can_be_begun_again(env: dict[str, str], folder: Path, tmp_path: Path) -> None:
    job = ("voiced", "--lanes", "1", "--input-dir", folder, "--results", tmp_path / "out", "--headless")
    without = run(*job, env=env | {"VOICED_CACHE": str(tmp_path)})
    assert without.returncode == 66 and not (tmp_path / "out" / "config.json").exists(), without.stderr
    assert run(*job, env=env).returncode == 0
    assert len((tmp_path / "out" / "results" / "lane1.txt").read_text().splitlines()) == 3


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_one_that_is_interrupted_is_not_done(start: Start, bus: str, folder: Path, tmp_path: Path, number: signal.Signals) -> None:
    """What was heard is written; nobody takes it for all."""
    out = tmp_path / "out"
    voiced = start("voiced", "--lanes", "1", "--input-dir", folder, "--results", out, "--headless", "--bus", bus)
    texts = out / "results" / "lane1.txt"
    until(lambda: texts.exists() and texts.read_text(), "a text", lambda: voiced.err)
    assert voiced.stop(number) == 130, voiced.err
    assert voiced.err.endswith("interrupted: the results are of what was heard until then, and metrics.json is not written\n")
    heard = [one["utterance"] for one in lines(out / "model_outputs" / "lane1.jsonl") if one["role"] == "first_pass"]
    assert len(heard) == len(texts.read_text().splitlines()) < 3
    assert not (out / "metrics.json").exists()


def test_folders_that_are_none(env: dict[str, str], folder: Path, tmp_path: Path) -> None:
    empty, out = tmp_path / "empty", tmp_path / "out"
    empty.mkdir()

    def refused(*arguments: str | Path) -> tuple[int, str]:
        found = run("voiced", *arguments, env=env)
        assert found.stdout == "" and not out.exists()
        return found.returncode, found.stderr.splitlines()[-1]

    job = ("--lanes", "2", "--results", out, "--input-dir")
    assert refused(*job, empty) == (
        65,
        f"voiced: {empty}: has nothing to hear: no files; audio is .wav .flac .ogg .oga .opus .mp3 .aiff .aif .au .caf .w64",
    )
    shutil.move(folder / "notes.txt", empty)
    assert refused(*job, empty)[1].startswith(f"voiced: {empty}: has nothing to hear: 1 file, none audio by its name")
    assert refused(*job, tmp_path / "none")[1].startswith(f"voiced: {tmp_path}/none: cannot be read: No such file or directory")
    assert refused("--lanes", "9", "--results", out, "--input-dir", folder) == (2, "voiced: error: --lanes must be 1 to 8; got 9")
    assert refused("--lanes", "2") == (2, "voiced: error: --lanes, --results, --headless and --verbose go with --input-dir")
    assert refused("--input-dir", folder) == (2, "voiced: error: --input-dir wants --lanes N and --results DIR")


def test_results_are_not_written_over_and_a_place_that_is_none_is_told(env: dict[str, str], folder: Path, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    job = ("--lanes", "1", "--input-dir", folder, "--results")
    again = run("voiced", *job, tmp_path, env=env)
    assert (again.returncode, again.stderr.splitlines()[-1]) == (
        2,
        f"voiced: --results: {tmp_path} has results already; name another folder",
    )
    nowhere = run("voiced", *job, folder / "a.wav", env=env)
    assert nowhere.returncode == 74
    assert "cannot be written: Not a directory; name another folder" in nowhere.stderr
