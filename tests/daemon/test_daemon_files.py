"""`voiced --input`: files through the whole pipeline, good ones and bad ones."""

from __future__ import annotations

import json
import signal
import struct
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
import soxr
from livedaemon import PATIENCE, Start, alive, descendants, environment, run, until
from numpy.typing import NDArray
from voiced import assembly, files
from voiced.batch import until_idle
from voiced.models import Library
from voiced.plain import encode
from voiced.settings import Settings
from voiced.sources.wavfile import WavSource
from voiced.units import to_samples

CLOCK = "What time is it?"


@pytest.fixture(scope="module")
def env(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return environment(tmp_path_factory.mktemp("runtime"))


def events(out: str) -> list[dict[str, Any]]:
    """Without what a clock measured, the one thing that differs between two runs."""
    return [{name: value for name, value in json.loads(line).items() if name != "measured"} for line in out.splitlines()]


def finals(out: str) -> list[str]:
    return [line["text"] for line in events(out) if line["event"] == "Final"]


def from_the_library(library: Library, files: Sequence[Path], directory: Path) -> list[dict[str, Any]]:
    """The same, by calls in this process."""
    settings = Settings()
    block = to_samples(settings.capture.block_ms)
    pipeline = assembly.pipeline(settings, library, directory)
    heard: list[dict[str, Any]] = []
    for file in files:
        for frame in until_idle(WavSource(file, block), block, pipeline):
            heard += [{"file": str(file)} | encode(event) for event in pipeline.feed(frame)]
        pipeline.next_source()
    return [{name: value for name, value in line.items() if name != "measured"} for line in heard]


def test_two_files_give_one_object_a_line_and_the_same_twice(
    env: dict[str, str], sample: Path, clock: Path, library: Library, tmp_path: Path
) -> None:
    first, second = (run("voiced", "--input", sample, clock, "--json", env=env) for _ in range(2))
    assert (first.returncode, first.stderr) == (0, "")
    assert events(first.stdout) == events(second.stdout)
    lines = events(first.stdout)
    assert finals(first.stdout) == ["Turn on the lights in the kitchen.", CLOCK, CLOCK]
    assert [line["file"] for line in lines if line["event"] == "Wake"] == [str(sample), str(sample), str(clock)]
    assert [line["turn"] for line in lines if line["event"] == "Wake"] == [1, 2, 3]
    assert lines == from_the_library(library, [sample, clock], tmp_path)


def test_positions_are_where_things_were_spoken(env: dict[str, str], sample: Path) -> None:
    told = json.loads(sample.with_suffix(".json").read_text())
    lines = events(run("voiced", "--input", sample, "--json", env=env).stdout)
    wakes = [line for line in lines if line["event"] == "Wake"]
    ends = [line for line in lines if line["event"] == "Endpoint"]
    assert len(wakes) == len(ends) == len(told["turns"])
    for turn, wake, end in zip(told["turns"], wakes, ends, strict=True):
        assert turn["phrase_start"] < wake["phrase_end"] < turn["speech_start"]
        assert abs(end["speech_end"] - turn["speech_end"]) < to_samples(200)
        assert turn["speech_end"] < end["sample"]
    for line in lines:
        if line["event"] == "Partial":
            assert any(turn["speech_start"] < line["sample"] < turn["speech_end"] + to_samples(700) for turn in told["turns"])


def test_at_the_pace_of_speech_the_events_are_the_same(env: dict[str, str], clock: Path) -> None:
    fast = run("voiced", "--input", clock, "--json", env=env)
    slow = run("voiced", "--input", clock, "--json", "--pace", "realtime", env=env)
    assert (slow.returncode, slow.stderr) == (0, "")

    def content(out: str) -> list[dict[str, Any]]:
        # the turn ids of a lane never repeat, and a second pass in a process of its own answers when the next sound was heard
        beside = ("lane", "file", "turn")
        lines = [{name: value for name, value in line.items() if name not in beside} for line in events(out)]
        return [line | {"sample": 0} if line["event"] in ("Final", "TurnClosed") else line for line in lines]

    assert content(slow.stdout) == content(fast.stdout)


def test_without_json_a_person_reads_it(env: dict[str, str], clock: Path) -> None:
    found = run("voiced", "--input", clock, env=env)
    assert (found.returncode, found.stderr) == (0, "")
    assert f"── {clock}" in found.stdout
    assert "jarvis" in found.stdout and CLOCK in found.stdout


def test_names_that_are_no_text_and_a_file_without_a_phrase(env: dict[str, str], clock: Path, tmp_path: Path) -> None:
    odd, missing, quiet = tmp_path / "odd\udcff.wav", tmp_path / "missing\udcff\n.wav", tmp_path / "quiet.wav"
    odd.write_bytes(clock.read_bytes())
    soundfile.write(quiet, np.zeros(16_000, np.int16), 16_000)
    found = run("voiced", "--input", quiet, odd, missing, quiet, env=env)
    assert found.returncode == 65
    assert found.stderr == f"voiced: {tmp_path}/missing\\udcff\\n.wav: cannot be read: No such file or directory; name an audio file\n"
    lines = found.stdout.splitlines()
    assert lines[:3] == [f"── {quiet}", "no wake phrase heard", f"── {tmp_path}/odd\\udcff.wav"]
    assert lines[-2:] == [f"── {quiet}", "no wake phrase heard"]
    assert "What time is it?" in lines[-3]


def test_a_death_is_blamed_on_a_model_only_where_one_was_being_loaded() -> None:
    of_a_model = files.died(255, "starter-en")
    assert (str(of_a_model), of_a_model.exit_code) == (
        "the process that hears the files ended with status 255 while loading starter-en; check the models: voicectl models verify",
        66,
    )
    killed = files.died(-signal.SIGKILL, "")
    assert (str(killed), killed.exit_code) == (
        "the process that hears the files was killed by SIGKILL; it may have been the kernel, for want of memory: see dmesg",
        70,
    )
    assert str(files.died(-signal.SIGSEGV, "")).endswith("was killed by SIGSEGV; see what is wrong here: voicectl doctor")


def test_a_thousand_files_are_no_more_than_one(env: dict[str, str], tmp_path: Path) -> None:
    files = [tmp_path / f"{number:0200}.wav" for number in range(1000)]  # 200 kB of names
    found = run("voiced", "--input", *files, env=env)
    assert found.returncode == 65
    assert len(found.stderr.splitlines()) == 1000


def test_it_is_heard_beside_a_folder_of_our_name(env: dict[str, str], clock: Path, tmp_path: Path) -> None:
    """Where a checkout was cloned into there is a folder `voiced`."""
    (tmp_path / "voiced").mkdir()
    (tmp_path / "voiced" / "__init__.py").touch()
    command = [sys.executable, "-P", "-m", "voiced", "--input", str(clock), "--json"]  # -P: like the command in .venv/bin
    found = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=2 * PATIENCE, check=False)
    assert (found.returncode, found.stderr, finals(found.stdout)) == (0, "", [CLOCK])


def test_nothing_is_left_outside_and_no_telemetry_is_begun(env: dict[str, str], clock: Path, tmp_path: Path) -> None:
    """CASES C14: onnxruntime keeps an identity in the scratch and cache directories from the moment on at which it could send anything."""
    own = {name: str(tmp_path / name) for name in ("TMPDIR", "HOME", "XDG_CACHE_HOME")}
    for path in own.values():
        Path(path).mkdir()
    found = run("voiced", "--input", clock, "--json", env=env | own)
    assert (found.returncode, finals(found.stdout)) == (0, [CLOCK])
    assert [path for path in tmp_path.rglob("*") if str(path) not in own.values()] == []


# ── it is cut short ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_reader_that_goes_early_gets_no_traceback(env: dict[str, str], sample: Path) -> None:
    """voiced --input … --json | head -1"""
    command = [sys.executable, "-m", "voiced", "--input", *[str(sample)] * 40, "--json"]
    voiced = subprocess.Popen(command, env=env | {"PYTHONUNBUFFERED": "1"}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert voiced.stdout and voiced.stderr
    assert json.loads(voiced.stdout.readline())["event"] == "Wake"
    voiced.stdout.close()
    assert voiced.stderr.read() == ""
    assert voiced.wait(PATIENCE) == 0


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_interrupted_it_ends_and_leaves_nothing(
    env: dict[str, str], start: Start, sample: Path, tmp_path: Path, number: signal.Signals, code: int
) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    voiced = start("voiced", "--input", *[sample] * 40, env=env | {"TMPDIR": str(scratch), "PYTHONUNBUFFERED": "1"})
    voiced.says("wake")
    children = descendants(voiced.pid)
    assert children and list(scratch.iterdir())
    assert voiced.stop(number) == code
    assert voiced.err == ""
    until(lambda: not any(alive(pid) for pid in children), "its children's end")
    assert not list(scratch.iterdir())


# ── unusual, but right ───────────────────────────────────────────────────────────────────────────────────────────────

Floats = NDArray[np.float64]


def at(rate: int) -> Callable[[Floats], tuple[Floats, int]]:
    return lambda sound: (soxr.resample(sound, 16_000, rate), rate)


UNUSUAL: dict[str, tuple[Callable[[Floats], tuple[Any, int]], str]] = {
    "8 kHz": (at(8_000), "PCM_16"),
    "22.05 kHz": (at(22_050), "PCM_16"),
    "44.1 kHz": (at(44_100), "PCM_16"),
    "48 kHz": (at(48_000), "PCM_16"),
    "stereo": (lambda sound: (np.stack((sound, sound), axis=1), 16_000), "PCM_16"),
    "24 bit": (lambda sound: (sound, 16_000), "PCM_24"),
    "float": (lambda sound: (sound, 16_000), "FLOAT"),
}


def test_unusual_files_are_converted(env: dict[str, str], clock: Path, tmp_path: Path) -> None:
    right: Floats = soundfile.read(clock, dtype="float64")[0]
    paths = []
    for name, (convert, subtype) in UNUSUAL.items():
        sound, rate = convert(right)
        paths.append(tmp_path / f"{name}.wav")
        soundfile.write(paths[-1], sound, rate, subtype=subtype)
    found = run("voiced", "--input", *paths, "--json", env=env)
    assert (found.returncode, found.stderr) == (0, "")
    texts = {line["file"]: line["text"] for line in events(found.stdout) if line["event"] == "Final"}
    assert list(texts) == [str(path) for path in paths]
    assert all("time" in text.lower() for text in texts.values()), texts


# ── bad ──────────────────────────────────────────────────────────────────────────────────────────────────────────────


def empty(path: Path, good: bytes) -> str:
    path.write_bytes(b"")
    return "is an empty file"


def no_sound(path: Path, good: bytes) -> str:
    soundfile.write(path, np.zeros(0, np.int16), 16_000)
    return "has no sound"


def truncated(path: Path, good: bytes) -> str:
    path.write_bytes(good[: len(good) // 2])
    return "is truncated"


def lying(path: Path, good: bytes) -> str:
    at = good.index(b"data") + 4
    path.write_bytes(good[:at] + struct.pack("<I", 100_000_000) + good[at + 4 :])
    return "is truncated: its header promises 100000000 bytes"


def text(path: Path, good: bytes) -> str:
    path.write_text("This is no WAV file.\n" * 100)
    return "is not audio"


def not_a_number(path: Path, good: bytes) -> str:
    sound = np.zeros(16_000, np.float32)
    sound[8_000] = np.nan
    soundfile.write(path, sound, 16_000, subtype="FLOAT")
    return "holds a value that is no number, at 0.500 s"


def missing(path: Path, good: bytes) -> str:
    return "No such file"


BAD = (empty, no_sound, truncated, lying, text, not_a_number, missing)


def test_a_bad_file_is_one_line_and_the_good_ones_are_heard(env: dict[str, str], clock: Path, tmp_path: Path) -> None:
    paths = {tmp_path / f"{make.__name__}.wav": make for make in BAD}
    wanted = [(path, make(path, clock.read_bytes())) for path, make in paths.items()]
    found = run("voiced", "--input", clock, *paths, clock, "--json", env=env)
    assert found.returncode == 65
    for line, (path, complaint) in zip(found.stderr.splitlines(), wanted, strict=True):
        assert line.startswith(f"voiced: {path}: ") and complaint in line
    assert finals(found.stdout) == [CLOCK, CLOCK]


def test_a_file_that_breaks_off_is_heard_until_there(env: dict[str, str], clock: Path, tmp_path: Path) -> None:
    """A turn that was open when the file broke off gets its end; fast and at the pace of speech."""
    sound, rate = soundfile.read(clock, dtype="float32")
    path = tmp_path / "breaks.wav"
    soundfile.write(path, np.concatenate((sound, np.full(rate, np.nan, np.float32))), rate, subtype="FLOAT")
    for pace in ("max", "realtime"):
        found = run("voiced", "--input", path, clock, "--json", "--pace", pace, env=env)
        assert found.returncode == 65, pace
        (line,) = found.stderr.splitlines()
        assert line.startswith(f"voiced: {path}: holds a value that is no number")
        lines = events(found.stdout)
        assert sorted(finals(found.stdout))[-1] == CLOCK
        opened, closed = ([line["turn"] for line in lines if line["event"] == event] for event in ("Wake", "TurnClosed"))
        assert sorted(opened) == sorted(closed) and len(opened) == 2


def test_all_files_bad_and_nothing_else_is_said(env: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "a.wav").write_bytes(b"")
    for pace in ("max", "realtime"):
        found = run("voiced", "--input", tmp_path / "a.wav", tmp_path / "b.wav", "--json", "--pace", pace, env=env)
        assert (found.returncode, found.stdout) == (65, "")
        assert sorted(found.stderr.splitlines()) == [
            f"voiced: {tmp_path}/a.wav: is an empty file; name an audio file",
            f"voiced: {tmp_path}/b.wav: cannot be read: No such file or directory; name an audio file",
        ]
