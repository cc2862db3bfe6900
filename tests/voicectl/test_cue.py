"""voicectl cue with a real daemon: each change of state once, with a reason that can be spoken; tones and sounds by a player."""

from __future__ import annotations

import wave
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from livedaemon import Listener, Start, until
from voicectl import cue
from voiced.api import Changed

CONFIG = "lanes: [{{name: desk, source: 'file:{sound}'}}]\nendpoint: {{no_speech_ms: 500}}\n"
LOOKS = Callable[[], list[str]]


@pytest.fixture
def quiet(start: Start, bus: str, listener: Listener, silence: Path, tmp_path: Path) -> Listener:
    """A daemon to which nobody speaks."""
    config = tmp_path / "voiced.yaml"
    config.write_text(CONFIG.format(sound=silence))
    start("voiced", "--config", config, "--bus", bus)
    listener.lane(Health="ok")
    return listener


def changed(state: str, health: str = "ok", why: str = "", reason: str = "") -> Changed:
    return Changed("desk", {"State": state, "Health": health, "StateReason": why, "Reason": reason})


def test_what_is_told() -> None:
    assert cue.cue_of(changed("asleep"), ("asleep", "ok")) is None, "another property has changed"
    assert cue.cue_of(changed("awake", why="jarvis was heard"), ("asleep", "ok")) == cue.Cue("desk", "awake", "jarvis was heard")
    assert cue.cue_of(changed("asleep", "no_device", reason="unplugged"), ("asleep", "ok")) == cue.Cue("desk", "no_device", "unplugged")
    assert cue.cue_of(changed("awake", "overloaded"), ("asleep", "overloaded")) == cue.Cue("desk", "awake", "")
    assert cue.cue_of(changed("asleep", why="no speech"), ("asleep", "muted")) == cue.Cue("desk", "asleep", "no speech")


def test_a_command_at_each_change(quiet: Listener, start: Start, bus: str, tmp_path: Path) -> None:
    """CASES B10: states for who does not see them."""
    notes = tmp_path / "notes"
    told = start("voicectl", "--bus", bus, "cue", "--count", "4", "--exec", f'echo "$VOICED_LANE: $1: $2" >> {notes}; test "$1" != muted')
    lines: LOOKS = lambda: notes.read_text().splitlines() if notes.exists() else []  # noqa: E731
    until(lambda: quiet.status()["statistics"].get("bus_subscribers") == 2, "voicectl's subscription")
    quiet.trigger()
    until(lambda: len(lines()) == 2, "two changes", lines)
    quiet.mute(True)
    until(lambda: len(lines()) == 3, "a third", lines)
    quiet.mute(False)
    assert told.wait() == 0
    assert lines()[:3] == ["desk: awake: asked for by a client", "desk: asleep: no speech", "desk: muted: "]
    assert told.err.splitlines()[-1].endswith("exit code 1"), "one that fails is told, and the next runs"


@pytest.mark.parametrize("own", [False, True], ids=["tones", "sounds"])
def test_a_sound_at_each_change(quiet: Listener, start: Start, bus: str, env: dict[str, str], tmp_path: Path, own: bool) -> None:
    """The player is a script that keeps what it was given."""
    programs, played, sounds = tmp_path / "bin", tmp_path / "played", tmp_path / "sounds"
    for folder in (programs, played, sounds):
        folder.mkdir()
    player = programs / "pw-play"
    player.write_text(f'#!/bin/sh\ncp "$1" {played}/$(basename "$1")\n')
    player.chmod(0o755)
    (sounds / "awake.wav").write_bytes(b"mine")
    more = ["--sounds", sounds] if own else []
    told = start("voicectl", "--bus", bus, "cue", "--count", "2", *more, env=env | {"PATH": f"{programs}:{env['PATH']}"})
    until(lambda: quiet.status()["statistics"].get("bus_subscribers") == 2, "voicectl's subscription")
    quiet.trigger()
    assert told.wait() == 0, told.err
    names = sorted(path.name for path in played.iterdir())
    if own:
        assert names == ["awake.wav"] and (played / "awake.wav").read_bytes() == b"mine"
        return
    assert names == ["asleep.wav", "awake.wav"]
    with wave.open(str(played / "awake.wav")) as file:
        tone = np.frombuffer(file.readframes(file.getnframes()), np.int16)
    first, second = np.split(tone, 2)
    pitches = [np.argmax(np.abs(np.fft.rfft(part))) * 16_000 / len(part) for part in (first, second)]
    assert pitches == pytest.approx([880, 1320], abs=20)
    assert 3_000 < np.abs(tone).max() < 8_000


def test_nothing_that_plays(quiet: Listener, start: Start, bus: str, env: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    told = start("voicectl", "--bus", bus, "cue", env=env | {"PATH": str(tmp_path / "empty")})
    assert told.wait() == 74
    assert told.err.startswith("voicectl: sound: none of pw-play, paplay, aplay is here; install ")
    assert quiet.status()["health"] == "ok"
