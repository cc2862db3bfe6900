"""Fixtures of the tests that run the whole daemon."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import soundfile
from livedaemon import Listen, Listener, Process, Start, environment
from soundserver import pipewire
from voiced.bus.private import start_private_bus

__all__ = ["pipewire"]

SAMPLE = Path(__file__).resolve().parents[2] / "daemon" / "voiced" / "data" / "sample.flac"


@pytest.fixture(scope="session")
def sample() -> Path:
    """Two turns and some talk between them; data/sample.json says where."""
    return SAMPLE


@pytest.fixture(scope="session")
def kitchen(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The first turn: "jarvis, turn on the lights in the kitchen", 2.4 s."""
    return cut(tmp_path_factory, "kitchen.wav", 17_000, 56_080)


@pytest.fixture(scope="session")
def clock(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The second turn: "jarvis, what time is it", 1.9 s."""
    return cut(tmp_path_factory, "clock.wav", 152_000, 181_840)


@pytest.fixture(scope="session")
def both(tmp_path_factory: pytest.TempPathFactory, kitchen: Path, clock: Path) -> Path:
    """The two, one after the other, 6 s in all: the second begins two seconds after the first."""
    parts = [soundfile.read(path, dtype="int16")[0] for path in (kitchen, clock)]
    path = tmp_path_factory.mktemp("spoken") / "both.wav"
    soundfile.write(path, np.concatenate((parts[0], np.zeros(28_000, np.int16), parts[1])), 16_000)
    return path


def cut(factory: pytest.TempPathFactory, name: str, first: int, last: int) -> Path:
    path = factory.mktemp("spoken") / name
    samples, rate = soundfile.read(SAMPLE, dtype="int16", start=first, stop=last)
    # a sound server fades in a stream that begins; the first word must not be in the fade
    soundfile.write(path, np.concatenate((np.zeros(rate // 4, np.int16), samples)), rate)
    return path


@pytest.fixture
def runtime() -> Iterator[Path]:
    """A user's runtime directory; short, since sockets lie in it."""
    directory = Path(tempfile.mkdtemp(prefix="voiced-"))
    yield directory
    shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture
def env(runtime: Path) -> dict[str, str]:
    return environment(runtime)


@pytest.fixture
def start(env: dict[str, str], tmp_path: Path) -> Iterator[Start]:
    """start("voiced", "--demo"): a process that ends with the test."""
    started: list[Process] = []

    def begin(module: str, *arguments: str | Path, env: dict[str, str] = env) -> Process:
        started.append(Process(tmp_path, module, *arguments, env=env))
        return started[-1]

    yield begin
    for process in reversed(started):
        process.end()


@pytest.fixture
def bus(runtime: Path) -> Iterator[str]:
    """The address of a bus that is the test's."""
    private = start_private_bus(runtime / "own")
    yield private.address
    private.close()


@pytest.fixture
def listen() -> Iterator[Listen]:
    """listen(address): a client that hears everything from before the daemon's start."""
    listeners: list[Listener] = []

    def begin(address: str) -> Listener:
        listeners.append(Listener(address))
        return listeners[-1]

    yield begin
    for listener in listeners:
        listener.close()
