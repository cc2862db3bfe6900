"""Fixtures of the tests that run the whole daemon."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import faulttable
import numpy as np
import pytest
import soundfile
from faulttable import Fault
from livedaemon import SAMPLE, Listen, Listener, environment, own_bus, runtime_of_a_user, start
from soundserver import pipewire

__all__ = ["pipewire", "start"]


@pytest.fixture
def faults() -> list[Fault]:
    """What became of each, for the table."""
    return faulttable.rows


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """The table of tools/faults."""
    if faulttable.rows:
        terminalreporter.write_sep("=", "what happened")
        terminalreporter.write_line("\n".join(faulttable.lines()))


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
    with runtime_of_a_user() as directory:
        yield directory


@pytest.fixture
def env(runtime: Path) -> dict[str, str]:
    return environment(runtime)


@pytest.fixture
def bus(runtime: Path) -> Iterator[str]:
    with own_bus(runtime) as address:
        yield address


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
