"""The daemon under a service manager: ready, the watchdog, a bus or a microphone that comes late, turn ids across starts."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import soundfile
from debugger import held
from livedaemon import PATIENCE, PATIENT, Listen, ServiceManager, Start, environment, own_bus, until
from soundserver import SoundServer
from voiced.events import Final, Wake

WATCHDOG_S = 2.0
NOT_FED = "the watchdog is not fed: lane desk: "


@pytest.fixture
def manager(runtime: Path) -> Iterator[ServiceManager]:
    manager = ServiceManager(runtime / "notify")
    yield manager
    manager.close()


@pytest.fixture(scope="module")
def silence(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("sound") / "silence.wav"
    soundfile.write(path, np.zeros(600 * 16_000, np.int16), 16_000)
    return path


def config(tmp_path: Path, source: str) -> Path:
    path = tmp_path / "voiced.yaml"
    path.write_text(f"{PATIENT}lanes: [{{name: desk, source: '{source}'}}]\nendpoint: {{no_speech_ms: 500}}\n")
    return path


def test_a_lane_that_stands_still_starves_the_watchdog_and_silence_does_not(
    start: Start, listen: Listen, bus: str, env: dict[str, str], manager: ServiceManager, silence: Path, tmp_path: Path
) -> None:
    """CASES D3: nothing is sent while frames do not advance; a silent room and a muted lane are well, and so is one begun again."""
    listener = listen(bus)
    voiced = start("voiced", "--bus", bus, "--config", config(tmp_path, f"file:{silence}"), env=env | manager.env(WATCHDOG_S))
    assert manager.next()[0] == "READY=1"
    listener.lane(Health="ok")
    manager.next("WATCHDOG=1")
    manager.next("WATCHDOG=1")

    pid = listener.pids()["ears"]
    with held(pid, but_first=True):  # it beats, and hears nothing
        voiced.says(NOT_FED)
        fed = len(manager.drain())  # before it was seen to stand still
        assert fed < 10 * PATIENCE
        until(lambda: voiced.err.count(NOT_FED) >= 6, "six feeds left out", lambda: voiced.err)
        assert [lines for _, lines in manager.drain() if lines[0] == "WATCHDOG=1"] == []
    manager.next("WATCHDOG=1")
    assert listener.pids()["ears"] == pid

    listener.mark()
    os.kill(pid, signal.SIGSTOP)
    listener.healths("restarting", "ok")  # main mends it by itself, long before a real manager's patience is over
    manager.drain()
    manager.next("WATCHDOG=1")

    listener.mute(True)
    listener.lane(Health="muted")
    manager.next("STATUS=muted")
    manager.next("WATCHDOG=1")
    listener.mute(False)
    manager.next("STATUS=listening")
    assert voiced.stop() == 0
    assert manager.next()[0] == "STOPPING=1"


def test_models_that_load_are_given_time(
    start: Start, bus: str, env: dict[str, str], manager: ServiceManager, silence: Path, tmp_path: Path
) -> None:
    voiced = start("voiced", "--bus", bus, "--config", config(tmp_path, f"file:{silence}"), env=env | manager.env())
    assert manager.next()[0] == "READY=1"
    before = [lines[0] for _, lines in manager.told[:-1]]
    assert before and set(before) == {"EXTEND_TIMEOUT_USEC=15000000"}
    assert voiced.stop() == 0


def test_a_bus_that_comes_late_is_waited_for(
    start: Start, listen: Listen, env: dict[str, str], runtime: Path, manager: ServiceManager, silence: Path, tmp_path: Path
) -> None:
    """CASES S5: one start, no crash loop. Without a service manager somebody waits for an answer, and has it at once."""
    address = f"unix:path={runtime}/own/bus"
    settings = config(tmp_path, f"file:{silence}")
    voiced = start("voiced", "--bus", address, "--config", settings, env=env | manager.env())
    assert manager.next("STATUS=") == ["STATUS=waiting for the bus"]
    os.kill(voiced.pid, signal.SIGHUP)  # is obeyed once there is something to reload
    assert manager.next("STATUS=") == ["STATUS=waiting for the bus"]
    assert not voiced.ended
    with own_bus(runtime) as found:
        assert found == address
        assert manager.next("READY=1")
        voiced.says("settings read anew: ")
        listener = listen(address)  # which may come after the change that it would be told of
        until(lambda: listener.status()["health"] == "ok", "its health", lambda: voiced.err)
        assert voiced.stop() == 0, voiced.err


def test_a_microphone_that_comes_late(start: Start, listen: Listen, bus: str, manager: ServiceManager, tmp_path: Path) -> None:
    """CASES H9: ready once the models are warm, though there is no sound server yet; it heals alone when that comes."""
    with tempfile.TemporaryDirectory(prefix="voiced-sound-") as name:
        server = SoundServer(Path(name))
        listener = listen(bus)
        own = environment(tmp_path)
        env = server.env | {key: own[key] for key in ("PYTHONPATH", "VOICED_CACHE", "PYTHONWARNINGS")} | manager.env(WATCHDOG_S)
        voiced = start("voiced", "--bus", bus, "--config", config(tmp_path, "auto"), env=env)
        ready = manager.next()
        assert ready[0] == "READY=1"
        if ready[1] != "STATUS=waiting for microphone":
            manager.next("STATUS=waiting for microphone")
        manager.next("WATCHDOG=1")  # without a device it is not deaf
        listener.lane(Health="no_device")
        try:
            server.start()
            server.null_sink("mic16", 16_000, 1)
            server.listen_to("mic16")
            listener.lane(Health="ok")
            manager.next("STATUS=listening")
            assert voiced.stop() == 0, voiced.err
        finally:
            server.stop()


def test_turn_ids_go_on_where_the_clock_does_not(
    start: Start, listen: Listen, bus: str, env: dict[str, str], runtime: Path, silence: Path, tmp_path: Path
) -> None:
    """A board without a clock of its own: what it gave before is in its state folder."""
    noted = runtime / ".local" / "state" / "voiced" / "turn-id"
    noted.parent.mkdir(parents=True)
    ahead = int((time.time() + 3600) * 8000)  # of the clock: it was set back an hour
    noted.write_text(f"{ahead}\n")
    seen = []
    for _ in range(2):
        listener = listen(bus)
        voiced = start("voiced", "--bus", bus, "--config", config(tmp_path, f"file:{silence}"))
        listener.lane(Health="ok")
        listener.mark()
        seen.append(listener.trigger())
        assert listener.event(Wake).turn == seen[-1]
        assert voiced.stop() == 0
    assert ahead <= seen[0] < seen[1]
    assert seen[1] < int(noted.read_text())


UNIT = Path(__file__).resolve().parents[2] / "systemd" / "user" / "voiced.service"


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="systemd-analyze is not installed (Debian: systemd)")
def test_a_microphone_is_heard_in_the_sandbox(
    start: Start, listen: Listen, bus: str, pipewire: SoundServer, clock: Path, tmp_path: Path
) -> None:
    """Capture by blocking reads, lane and second pass, under all of the user's unit that can be tried without systemd."""
    pipewire.listen_to("mic16")
    own = environment(tmp_path)
    listener = listen(bus)
    env = pipewire.env | {key: own[key] for key in ("PYTHONPATH", "VOICED_CACHE")}
    voiced = start("sandbox", UNIT, "-m", "voiced", "--bus", bus, "--config", config(tmp_path, "auto"), env=env)
    listener.lane(Health="ok")
    listener.mark()
    pipewire.play(clock, "mic16")
    final = listener.event(Final)
    assert final.text == "What time is it?"
    assert voiced.stop() == 0, voiced.err
    assert "Traceback" not in voiced.err
