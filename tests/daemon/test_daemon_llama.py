"""The daemon whose second pass is a llama-server, here a stand-in: its texts are the finals, and its slots are used at once."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import numpy as np
import pytest
import soundfile
from livedaemon import run
from llamaserver import LlamaStandIn, serve
from voiced.errors import ModelError


@pytest.fixture
def config(tmp_path: Path) -> Path:
    return tmp_path / "voiced.yaml"


def begin(config: Path, state: LlamaStandIn) -> None:
    config.write_text(f"second_pass: {{server: '{state.address}', guard: false, deadline_ms: 20000}}\n")


def test_its_text_is_the_final(env: dict[str, str], clock: Path, config: Path) -> None:
    with serve() as state:
        begin(config, state)
        state.text = "language English<asr_text>What time is it, please?"
        found = run("voiced", "--config", config, "--input", clock, "--json", env=env)
    assert (found.returncode, found.stderr) == (0, "")
    (final,) = [json.loads(line) for line in found.stdout.splitlines() if '"Final"' in line]
    assert (final["text"], final["source"]) == ("What time is it, please?", "second pass")


def test_two_lanes_are_asked_for_at_once(env: dict[str, str], clock: Path, config: Path) -> None:
    """Both wait for the stand-in, which answers when it has both."""
    with serve() as state:
        begin(config, state)
        both = threading.Event()
        threading.Thread(target=_release, args=(state, both), daemon=True).start()
        found = run("voiced", "--config", config, "--input", clock, clock, "--pace", "realtime", "--json", env=env)
        both.set()
    assert found.returncode == 0, found.stderr
    assert state.busiest >= 2
    finals = [json.loads(line) for line in found.stdout.splitlines() if '"Final"' in line]
    assert [final["source"] for final in finals] == ["second pass"] * 2


def _release(state: LlamaStandIn, over: threading.Event) -> None:
    """After the warm-up each request waits until another is there."""
    while not state.heard and not over.wait(0.01):
        pass
    state.hold = threading.Event()
    while state.busy < 2 and not over.wait(0.01):
        pass
    state.hold.set()


def test_none_there_ends_the_start_in_one_line(env: dict[str, str], tmp_path: Path, config: Path) -> None:
    with serve() as state:
        begin(config, state)
    soundfile.write(tmp_path / "a.wav", np.zeros(16_000, np.int16), 16_000)
    found = run("voiced", "--config", config, "--input", tmp_path / "a.wav", env=env)
    assert found.returncode == ModelError.exit_code
    (line,) = found.stderr.splitlines()
    assert line.startswith(f"voiced: {state.address}: cannot be asked: Connection refused; start it: llama-server")
