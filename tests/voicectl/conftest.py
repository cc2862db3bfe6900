"""A daemon that hears a recording at the pace of speech, and a client beside it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import soundfile
from livedaemon import SAMPLE, Listener, clock_and_silence, environment, own_bus, runtime_of_a_user, start
from soundserver import pipewire

__all__ = ["pipewire", "start"]


@pytest.fixture(scope="module")
def runtime() -> Iterator[Path]:
    with runtime_of_a_user() as directory:
        yield directory


@pytest.fixture(scope="module")
def env(runtime: Path) -> dict[str, str]:
    """With a session bus, at the place where a login has it."""
    return environment(runtime)


@pytest.fixture(scope="module")
def bus(runtime: Path) -> Iterator[str]:
    with own_bus(runtime) as address:
        yield address


@pytest.fixture(scope="module")
def silence(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Ten minutes: a lane that is there, awake to its clients, and hears nobody."""
    path = tmp_path_factory.mktemp("sound") / "silence.wav"
    soundfile.write(path, np.zeros(600 * 16_000, np.int16), 16_000)
    return path


@pytest.fixture(scope="module")
def clock(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A quarter of a second of silence, "jarvis, what time is it", and silence without end."""
    return clock_and_silence(tmp_path_factory.mktemp("sound") / "clock.wav")


@pytest.fixture(scope="module")
def chatter(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same again and again for a minute: whenever one begins to listen, there are words."""
    samples, rate = soundfile.read(SAMPLE, dtype="int16", start=167_000, stop=181_840)
    path = tmp_path_factory.mktemp("sound") / "chatter.wav"
    soundfile.write(path, np.tile(samples, 60), rate)
    return path


@pytest.fixture
def listener(bus: str) -> Iterator[Listener]:
    heard = Listener(bus)
    yield heard
    heard.close()
