"""voicectl mic, on a real sound server: in pipes, on a terminal, and where nothing is there."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
import wave
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
from livedaemon import SAMPLE, environment, run
from soundserver import SoundServer, write_tone
from voiced.models import Library
from voiced.settings import parse

PATIENCE = 120


@pytest.fixture
def env(pipewire: SoundServer, tmp_path: Path) -> dict[str, str]:
    """Of a user whose sound server is the tests'."""
    mine = environment(tmp_path)
    return pipewire.env | {name: mine[name] for name in ("PYTHONPATH", "VOICED_CACHE")}


@pytest.fixture(scope="session")
def spoken(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sample's first turn and some of its room, 5 s."""
    path = tmp_path_factory.mktemp("spoken") / "spoken.wav"
    samples, rate = soundfile.read(SAMPLE, dtype="int16", stop=5 * 16_000)
    soundfile.write(path, samples, rate)
    return path


def mic(env: dict[str, str], *arguments: str | Path, code: int = 0) -> str:
    """Its output; nothing of a terminal may be in it, nor among its complaints."""
    done = run("voicectl", "mic", *arguments, env=env)
    assert done.returncode == code, done.stdout + done.stderr
    assert "\x1b" not in done.stdout + done.stderr and "\r" not in done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    return done.stdout


def while_it_plays(env: dict[str, str], play: Callable[[], subprocess.Popen[bytes]], *arguments: str | Path) -> tuple[int, str, str]:
    """Runs it, and plays as soon as it listens; its code, output and complaints."""
    command = [sys.executable, "-m", "voicectl", "mic", *map(str, arguments)]
    with subprocess.Popen(command, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as child:
        assert child.stderr and child.stdout
        said = ""
        while "named in the settings" not in said:
            line = child.stderr.readline()
            assert line, said
            said += line
        player = play()
        out, rest = child.communicate(timeout=PATIENCE)
        player.kill()
        player.wait()
        return child.returncode, out, said + rest


# ── list ───────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_list_shows_each_and_what_auto_means(pipewire: SoundServer, env: dict[str, str]) -> None:
    pipewire.listen_to("mic16")
    out = mic(env, "list")
    (chosen,) = (line for line in out.splitlines() if line.startswith("→"))
    assert chosen.split()[1] == "mic16-mic" and "the server's default" in chosen
    assert len([line for line in out.splitlines() if "what the machine plays" in line]) == 2
    assert "PipeWire, ALSA and JACK were asked. auto is Remapped mic16.monitor source: the sound server's default source." in out
    rows = [json.loads(line) for line in mic(env, "list", "--device", "mic48-mic", "--json").splitlines()]
    assert {row["id"]: row["chosen"] for row in rows} == {
        "mic16.monitor": False,
        "mic48.monitor": False,
        "mic16-mic": False,
        "mic48-mic": True,
    }
    assert {row["id"]: (row["channels"], row["rates"]) for row in rows}["mic48-mic"] == (2, [48_000])


def test_list_without_a_server_says_who_was_asked_and_what_to_do(env: dict[str, str], tmp_path: Path) -> None:
    """CASES S3, S6, S7: no server, and no program of one."""
    alone = {name: value for name, value in env.items() if name != "XDG_RUNTIME_DIR"} | {"PATH": str(tmp_path)}
    out = mic(alone, "list", code=1)
    assert "ALSA and JACK were asked; no sound server answers this user" in out
    assert "XDG_RUNTIME_DIR is not set" in out
    assert mic(alone, "list", "--json", code=1) == ""


# ── test ───────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_good_microphone(pipewire: SoundServer, env: dict[str, str], spoken: Path, library: Library) -> None:
    code, out, _ = while_it_plays(env, lambda: pipewire.play(spoken, "mic16"), "test", "--device", "mic16-mic", "--seconds", "6", "--json")
    found: dict[str, Any] = json.loads(out)
    grades = {one["name"]: one["grade"] for one in found["findings"]}
    assert code == 0, found
    assert grades["speech"] == grades["snr"] == grades["clipping"] == grades["hum"] == grades["dc"] == "ok", found
    assert found["device"]["id"] == "mic16-mic"
    lane = parse(found["yaml"], "block").lanes[0]
    assert (lane.source, lane.channel) == ("mic16-mic", "auto")


def test_a_bad_microphone(pipewire: SoundServer, env: dict[str, str], tmp_path: Path) -> None:
    """Hum, an offset and clipping on one channel, nothing on the other, and nobody speaks."""
    rate, path = 48_000, tmp_path / "bad.wav"
    at = np.arange(5 * rate) / rate
    bad = np.clip(0.1 + 0.3 * np.sin(2 * np.pi * 50 * at) + np.random.default_rng(1).normal(0, 0.02, len(at)), -0.35, 0.35)
    soundfile.write(path, np.stack([np.zeros(len(at)), bad], axis=1), rate)
    code, out, said = while_it_plays(
        env, lambda: pipewire.play(path, "mic48"), "test", "--device", "mic48-mic", "--channel", "0", "--seconds", "4"
    )
    assert code == 1
    rows = {line.split()[1]: line for line in out.splitlines() if line[:4].strip() in ("ok", "warn", "fail")}
    assert rows["channels"].startswith("fail") and "the settings name channel 0, and the sound is on 1" in rows["channels"]
    assert rows["clipping"].startswith("fail") and rows["hum"].startswith("warn") and "50 Hz" in rows["hum"]
    assert rows["dc"].startswith("warn") and rows["speech"].startswith("warn")
    assert "This microphone will not do." in out
    assert out.endswith('lanes:\n  - name: main\n    source: "mic48-mic"\n    channel: auto\n')  # not the one that is dead
    assert "2 ch; named in the settings" in said


def test_digital_silence_has_a_code_for_scripts(env: dict[str, str]) -> None:
    for _ in range(10):  # what an earlier test played may still be sounding
        done = run("voicectl", "mic", "test", "--device", "mic48-mic", "--seconds", "1", "--json", env=env)
        found = json.loads(done.stdout)
        if "digital_silence" in {one["code"] for one in found["findings"]}:
            assert (done.returncode, found["grade"]) == (1, "fail")
            return
    pytest.fail(f"ten times no silence: {found['findings']}")


@pytest.mark.parametrize("verb", ["test", "record", "wake", "latency"])
def test_a_device_that_is_not_there(env: dict[str, str], tmp_path: Path, verb: str) -> None:
    file = [tmp_path / "x.wav"] if verb == "record" else []
    done = run("voicectl", "mic", verb, *file, "--device", "mik48-mic", env=env)
    assert done.returncode == 74
    last = done.stderr.splitlines()[-1]
    assert last.startswith("voicectl: capture: there is no device 'mik48-mic'; there are: 'mic48-mic' (")
    assert not (tmp_path / "x.wav").exists()


# ── record ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_record_is_the_devices_own_sound(pipewire: SoundServer, env: dict[str, str], tmp_path: Path) -> None:
    file = tmp_path / "out.wav"
    tone = write_tone(tmp_path / "tone.wav", 2.0, [0, 1000], 48_000)
    code, out, _ = while_it_plays(
        env, lambda: pipewire.play(tone, "mic48"), "record", file, "--device", "mic48-mic", "--seconds", "3", "--json"
    )
    assert code == 0
    told = json.loads(out)
    assert (told["rate"], told["channels"], told["seconds"]) == (48_000, 2, 3)
    sound, rate = soundfile.read(file, dtype="int16")
    assert (rate, sound.shape) == (48_000, (3 * 48_000, 2))
    assert np.abs(sound[:, 0]).max() <= 1
    assert np.percentile(np.abs(sound[:, 1].astype(int)), 99) == pytest.approx(8000, abs=400)
    before = file.read_bytes()
    done = run("voicectl", "mic", "record", file, "--seconds", "1", env=env)
    assert (done.returncode, file.read_bytes()) == (2, before)
    assert "is there already; name another file, or add --force" in done.stderr


def test_record_as_it_is_heard(pipewire: SoundServer, env: dict[str, str], tmp_path: Path) -> None:
    file = tmp_path / "out.wav"
    tone = write_tone(tmp_path / "tone.wav", 2.5, [0, 1000], 48_000)
    code, _, said = while_it_plays(
        env, lambda: pipewire.play(tone, "mic48"), "record", file, "--device", "mic48-mic", "--seconds", "3", "--heard"
    )
    assert code == 0, said
    with wave.open(str(file)) as found:
        assert (found.getframerate(), found.getnchannels(), found.getnframes()) == (16_000, 1, 48_000)
        sound = np.frombuffer(found.readframes(48_000), np.int16)
    # not the greatest sample: where a busy server leaves a hole in the tone, the filter rings
    assert np.percentile(np.abs(sound.astype(int)), 99) == pytest.approx(8000, abs=400)


def test_record_ends_with_a_whole_file_at_an_interrupt_and_draws_on_a_terminal(env: dict[str, str], tmp_path: Path) -> None:
    file = tmp_path / "out.wav"
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "voicectl", "mic", "record", str(file), "--device", "mic16-mic"]
    child = subprocess.Popen(command, env=env | {"TERM": "xterm"}, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=theirs)
    os.close(theirs)
    data = b""
    while data.count(b" s ") < 6:  # half a second of the meter
        data += os.read(ours, 4096)
    child.send_signal(signal.SIGINT)
    with suppress(OSError):  # which ends a terminal that nobody writes to any more
        while more := os.read(ours, 65_536):
            data += more
    os.close(ours)
    code, seen = child.wait(PATIENCE), data.decode()
    assert code == 0, seen
    assert seen.rstrip().endswith("ch") and "\r\x1b[K" in seen  # the meter's line is gone, the sum stays
    with wave.open(str(file)) as found:
        assert found.getnframes() > 0.3 * found.getframerate()


def test_a_full_disk_is_one_line(env: dict[str, str]) -> None:
    done = run("voicectl", "mic", "record", "/dev/full", "--force", "--device", "mic16-mic", "--seconds", "2", env=env)
    assert done.returncode == 74, done.stderr
    assert done.stderr.splitlines()[-1] == "voicectl: /dev/full: cannot be written: No space left on device; name another file"


@pytest.mark.parametrize("value", ["0", "-1", "x", "nan", "1e9"])
def test_how_long_must_be_a_time(env: dict[str, str], value: str) -> None:
    done = run("voicectl", "mic", "test", "--seconds", value, env=env)
    assert done.returncode == 2
    assert f"must be a number of seconds up to 3600; got '{value}'" in done.stderr


@pytest.mark.parametrize("value", ["one", "-1", "1000", ""])
def test_a_channel_is_one_of_the_settings(env: dict[str, str], value: str) -> None:
    done = run("voicectl", "mic", "test", "--channel", value, env=env)
    assert done.returncode == 2
    assert f"must be auto, mix or a number from 0; got {value!r}" in done.stderr


def test_without_a_name_it_is_the_settings_first_lane_that_has_a_device(env: dict[str, str], tmp_path: Path) -> None:
    recording = write_tone(tmp_path / "tone.wav", 0.1, [440], 16_000)
    config = tmp_path / "voiced.yaml"
    config.write_text(f"lanes:\n  - {{name: a, source: 'file:{recording}'}}\n  - {{name: b, source: mic48-mic, channel: '1'}}\n")
    found = json.loads(mic(env, "test", "--config", config, "--seconds", "1", "--json", code=1))
    assert found["device"]["id"] == "mic48-mic"
    assert parse(found["yaml"], "block").lanes[0].channel == "1"


# ── wake, latency ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_wake_shows_both_stages(pipewire: SoundServer, env: dict[str, str], spoken: Path, library: Library, tmp_path: Path) -> None:
    """The phrase is said until it is heard: a busy server leaves holes."""
    again = tmp_path / "again.wav"
    soundfile.write(again, np.tile(soundfile.read(spoken, dtype="int16")[0], 11), 16_000)
    code, out, said = while_it_plays(
        env, lambda: pipewire.play(again, "mic16"), "wake", "--device", "mic16-mic", "--count", "1", "--seconds", "60", "--json"
    )
    assert code == 0, out + said
    event = json.loads(out.splitlines()[-1])
    assert event["event"] == "Wake" and event["phrase"] == "jarvis"
    assert event["scores"]["stage1"] >= event["scores"]["stage1_threshold"]


def test_no_wake_is_a_no(env: dict[str, str], library: Library) -> None:
    done = run("voicectl", "mic", "wake", "--device", "mic16-mic", "--seconds", "1", env=env)
    assert (done.returncode, done.stdout) == (1, "")


def test_latency_is_measured(pipewire: SoundServer, env: dict[str, str]) -> None:
    pipewire.play_by_default("mic16")
    found = json.loads(mic(env, "latency", "--device", "mic16-mic", "--count", "8", "--json"))
    assert found["heard"] >= 4
    assert 0 < found["p50_ms"] < 1000


def test_bursts_that_nobody_hears(pipewire: SoundServer, env: dict[str, str]) -> None:
    pipewire.play_by_default("mic16")
    out = mic(env, "latency", "--device", "mic48-mic", "--count", "3", code=1)
    assert out.startswith("0 of 3 bursts were heard: ")
