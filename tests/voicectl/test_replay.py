"""`voicectl replay`: the golden set, what counts as a difference, and what is no saved turn."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
from livedaemon import SAMPLE, run
from numpy.typing import NDArray
from voicectl.replay import HOP, Replayed, differences, load, write
from voiced.api import InputError, defaults

GOLDEN = Path(__file__).resolve().parents[1] / "golden"

Samples = NDArray[np.int16]

MADE: dict[str, Callable[[Samples], Samples]] = {
    "whole": lambda sound: sound,
    "soft": lambda sound: sound // 8,
    "clock": lambda sound: sound[148_000:181_840],
    "talk": lambda sound: sound[60_000:150_000],
    "breath": lambda sound: np.concatenate((sound[17_000:28_480], sound[29_280:56_080], np.zeros(8_000, np.int16), sound[152_000:190_000])),
}
"""The golden set, of the recording that comes with voiced: as it is, 18 dB softer, one turn, talk that wakes nobody, and two turns of which
the first has next to no pause after the phrase. After a change that is meant it is saved anew by
`PYTHONPATH=tests python tests/voicectl/test_replay.py`."""


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    return made("clock", tmp_path)


def made(name: str, directory: Path) -> Path:
    path = directory / f"{name}.wav"
    soundfile.write(path, MADE[name](soundfile.read(SAMPLE, dtype="int16")[0]), 16_000)
    return path


def test_the_golden_set_is_heard_as_it_was(env: dict[str, str], tmp_path: Path) -> None:
    for name in MADE:
        made(name, tmp_path)
        (tmp_path / f"{name}.turn.json").write_bytes((GOLDEN / f"{name}.turn.json").read_bytes())
    found = run("voicectl", "replay", *sorted(tmp_path.glob("*.turn.json")), env=env)
    assert (found.returncode, found.stderr) == (0, ""), found.stdout
    assert found.stdout.count(": as expected (") == len(MADE) == len(list(GOLDEN.glob("*.turn.json")))
    texts = {name: [line["text"] for line in load(GOLDEN / f"{name}.turn.json").events if line["event"] == "Final"] for name in MADE}
    both = ["Turn on the lights in the kitchen.", "What time is it?"]
    assert texts == {"whole": both, "soft": both, "clock": both[1:], "talk": [], "breath": both}


def test_what_is_saved_is_what_is_heard_again_and_another_recording_is_not(env: dict[str, str], recording: Path, tmp_path: Path) -> None:
    wrote = run("voicectl", "replay", recording, recording, "--write-expect", env=env)
    assert (wrote.returncode, wrote.stderr) == (0, "")
    saved = recording.with_suffix(".turn.json")
    assert load(saved).events == load(GOLDEN / "clock.turn.json").events  # of the second hearing: turns count from 1 in each file
    again = run("voicectl", "replay", recording, "--expect", saved, "--json", env=env)
    assert again.returncode == 0, again.stderr
    assert [json.loads(line)["event"] for line in again.stdout.splitlines()] == [line["event"] for line in load(saved).events]
    other = run("voicectl", "replay", made("talk", tmp_path), "--expect", saved, env=env)
    assert other.returncode == 1
    assert "expected Wake of turn 1 at " in other.stdout and "(jarvis)" in other.stdout


def test_a_file_that_cannot_be_heard_is_told_and_the_others_are_heard(env: dict[str, str], recording: Path, tmp_path: Path) -> None:
    found = run("voicectl", "replay", tmp_path / "none.wav", recording, env=env)
    assert found.returncode == 65
    assert found.stderr == f"voicectl: {tmp_path}/none.wav: cannot be read: No such file or directory; name an audio file\n"
    assert "What time is it?" in found.stdout


def test_one_expectation_is_for_one_file(env: dict[str, str], recording: Path) -> None:
    found = run("voicectl", "replay", recording, recording, "--expect", GOLDEN / "clock.turn.json", env=env)
    assert found.returncode == 2
    assert "--expect: goes with one FILE; 2 were given" in found.stderr


# ── what is a difference ─────────────────────────────────────────────────────────────────────────────────────────────


def line(event: str, sample: int, **more: Any) -> dict[str, Any]:
    return {"event": event, "turn": 1, "sample": sample, **more}


WAS = [line("Wake", 20_000, phrase="jarvis", phrase_end=18_000), line("Partial", 30_000, text="what"), line("Final", 40_000, text="What?")]


def test_positions_may_be_a_hop_off_and_no_more() -> None:
    assert differences(WAS, [one | {"sample": one["sample"] + HOP} for one in WAS]) == []
    off = differences(WAS, [WAS[0], WAS[1] | {"sample": 30_000 - HOP - 1}, WAS[2]])
    assert off == ["Partial of turn 1 at 1.79 s (what): its sample is -80 ms off"]


def test_words_and_order_must_be_the_same() -> None:
    assert differences(WAS, WAS) == []
    assert differences(WAS, [*WAS[:2], WAS[2] | {"text": "Who?"}]) == [
        "expected Final of turn 1 at 2.50 s (What?)",
        "heard    Final of turn 1 at 2.50 s (Who?)",
    ]
    assert len(differences(WAS, [WAS[1], WAS[0], WAS[2]])) == 2
    assert differences(WAS, WAS[:2]) == ["expected Final of turn 1 at 2.50 s (What?)"]
    assert differences([], WAS[:1]) == ["heard    Wake of turn 1 at 1.25 s (jarvis)"]
    assert "phrase_end is new or gone" in differences(WAS, [{k: v for k, v in WAS[0].items() if k != "phrase_end"}, *WAS[1:]])[0]


def test_a_saved_turn_is_read_as_it_was_written(tmp_path: Path) -> None:
    audio = tmp_path / "sound" / "odd\udcff.wav"
    write(tmp_path / "a.turn.json", Replayed(audio, WAS), defaults())
    saved = load(tmp_path / "a.turn.json")
    assert (saved.audio, saved.events, saved.models["second pass"]) == (audio, WAS, "moonshine-tiny-en")


@pytest.mark.parametrize(
    ("said", "complaint"),
    [
        ("", "is no JSON"),
        ("[]", "is no saved turn"),
        ('{"format": 2, "audio": "a", "models": {}, "events": []}', "expected format 1; got 2"),
        ('{"format": 1, "audio": "a", "models": {}, "events": [{"sample": 3}]}', "is no saved turn"),
        ('{"format": 1, "audio": "a", "models": {}, "events": [{"event": "Wake", "sample": "3"}]}', "is no saved turn"),
    ],
)
def test_what_is_no_saved_turn_is_refused_in_one_line(tmp_path: Path, said: str, complaint: str) -> None:
    path = tmp_path / "a.turn.json"
    path.write_text(said)
    with pytest.raises(InputError, match=complaint):
        load(path)
    with pytest.raises(InputError, match="cannot be read"):
        load(tmp_path / "b.turn.json")


def save() -> None:
    """The golden set, as it is heard now."""
    with tempfile.TemporaryDirectory() as directory:
        files = [made(name, Path(directory)) for name in MADE]
        subprocess.run([sys.executable, "-m", "voicectl", "replay", *files, "--write-expect"], check=True)
        for path in Path(directory).glob("*.turn.json"):
            (GOLDEN / path.name).write_bytes(path.read_bytes())


if __name__ == "__main__":
    save()
