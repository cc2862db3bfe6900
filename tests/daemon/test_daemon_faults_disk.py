"""A full disk, wherever voiced writes: no turn is lost for it, what was not written is said once, and what cannot begin says why.

The disk is a small tmpfs of the test's own; where none may be mounted (that wants root) they skip.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
import soundfile
from daemon.test_daemon_reload import asked_again_and_again
from faulttable import Fault
from livedaemon import Listen, Process, Start, assert_whole, until
from voiced.bus.client import Presence
from voiced.events import Final, Partial, TurnClosed, Wake
from voiced.turnids import AHEAD

__all__ = ["asked_again_and_again"]

CLOCK = "What time is it?"


class Disk:
    """A file system of 256 kB."""

    def __init__(self, where: Path) -> None:
        self.where = where
        self._rest = where / "rest"

    def fill(self) -> None:
        """No byte more goes onto it."""
        with self._rest.open("wb", buffering=0) as file, suppress(OSError):
            while True:
                file.write(bytes(4096))

    def make_room(self) -> None:
        self._rest.unlink()


@pytest.fixture
def disk(runtime: Path) -> Iterator[Disk]:
    where = runtime / "disk"
    where.mkdir()
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k,mode=700", "tmpfs", where], capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"no file system of its own can be mounted here: {' '.join(done.stderr.split())}")
    yield Disk(where)
    subprocess.run(["umount", "--lazy", where], check=True)


@pytest.fixture
def config(tmp_path: Path, asked_again_and_again: Path) -> Path:
    """A lane that hears the same question again and again."""
    path = tmp_path / "voiced.yaml"
    path.write_text(f"lanes: [{{name: desk, source: 'file:{asked_again_and_again}'}}]\n")
    return path


def test_the_note_of_turn_ids_cannot_be_kept(
    start: Start, listen: Listen, env: dict[str, str], bus: str, config: Path, disk: Disk, faults: list[Fault]
) -> None:
    disk.fill()
    listener = listen(bus)
    voiced = start("voiced", "--config", config, "--bus", bus, env=env | {"STATE_DIRECTORY": str(disk.where)})
    turn = listener.event(Wake).turn
    listener.event(TurnClosed, turn)
    assert_whole(listener.events(turn))
    said = f"{disk.where}/turn-id cannot be written: No space left on device; turn ids may come again where the clock is set back"
    assert voiced.err.count(said) == 1, voiced.err
    assert voiced.stop() == 0
    disk.make_room()
    listener.mark()
    voiced = start("voiced", "--config", config, "--bus", bus, env=env | {"STATE_DIRECTORY": str(disk.where)})
    assert listener.event(Wake).turn > turn
    assert int((disk.where / "turn-id").read_text()) >= turn + AHEAD
    assert voiced.stop() == 0
    assert "turn-id" not in voiced.err
    faults.append(Fault("any", "disk of the turn ids' note", "full", "said once, ids by the clock", seconds=0.0))


def test_no_room_for_what_lives_as_long_as_the_process(
    start: Start, env: dict[str, str], bus: str, config: Path, disk: Disk, faults: list[Fault]
) -> None:
    disk.fill()
    voiced = start("voiced", "--config", config, "--bus", bus, env=env | {"RUNTIME_DIRECTORY": str(disk.where)})
    assert voiced.wait() == 74, voiced.err
    (line,) = voiced.err.splitlines()
    assert line.startswith(f"voiced: {disk.where}") and line.endswith("cannot be written: No space left on device; make room"), line
    faults.append(Fault("starting", "disk of RUNTIME_DIRECTORY", "full", "exit 74"))


def test_no_room_for_a_bus_of_our_own(start: Start, env: dict[str, str], config: Path, disk: Disk, faults: list[Fault]) -> None:
    disk.fill()
    voiced = start("voiced", "--config", config, env=env | {"XDG_RUNTIME_DIR": str(disk.where)})
    assert voiced.wait() == 69, voiced.err
    (line,) = voiced.err.splitlines()
    assert line.startswith(f"voiced: {disk.where}/voiced") and "No space left on device; make room" in line, line
    faults.append(Fault("starting", "disk of the private bus", "full", "exit 69"))


@pytest.mark.slow  # a lane waits for seconds, for room
def test_a_lane_that_dies_on_a_full_disk_comes_back_with_the_room(
    start: Start, listen: Listen, env: dict[str, str], bus: str, config: Path, disk: Disk, faults: list[Fault]
) -> None:
    """Its successor writes a file again which somebody has cleaned away."""
    listener = listen(bus)
    voiced = start("voiced", "--config", config, "--bus", bus, env=env | {"RUNTIME_DIRECTORY": str(disk.where)})
    turn = listener.event(Wake).turn
    listener.event(Partial, turn)
    for path in disk.where.glob("onnxruntime-*"):
        path.unlink()
    disk.fill()
    os.kill(listener.pids()["ears"], signal.SIGKILL)
    listener.event(TurnClosed, turn)
    assert_whole(listener.events(turn))
    voiced.says("cannot be written: No space left on device; make room")
    disk.make_room()
    began = time.monotonic()
    listener.healths("restarting", "ok")
    seconds = time.monotonic() - began
    listener.mark()
    assert listener.event(Final).text == CLOCK
    assert voiced.stop() == 0
    assert "Traceback" not in voiced.err
    faults.append(Fault("hearing", "disk of RUNTIME_DIRECTORY", "full, then its lane killed", "the lane waits for room", seconds=seconds))


def test_results_on_a_full_disk_are_told_at_the_end_and_every_lane_is_heard(
    start: Start, env: dict[str, str], bus: str, both: Path, listen: Listen, disk: Disk, tmp_path: Path, faults: list[Fault]
) -> None:
    sounds, results = tmp_path / "in", disk.where / "out"
    sounds.mkdir()
    for name in "ab":
        soundfile.write(sounds / f"{name}.wav", *soundfile.read(both, dtype="int16"))
    listener = listen(bus)
    listener.mark()
    voiced = start("voiced", "--bus", bus, "--lanes", "2", "--input-dir", sounds, "--results", results, "--headless")
    until((results / "config.json").exists, "its settings", lambda: voiced.err)
    disk.fill()
    assert voiced.wait() == 74, voiced.err
    assert [line for line in voiced.err.splitlines() if line.startswith("voiced: ")] == [
        f"voiced: {results}: cannot be written: No space left on device; make room"
    ]
    assert "Traceback" not in voiced.err
    listener.wait(lambda item: item == Presence(False), "its end")
    finals = [event.text for event in listener.events() if isinstance(event, Final)]
    assert len(finals) == 4 and finals.count(f"Jarvis, {CLOCK.lower()}") == 2, "what a folder's lanes hear is all text"
    faults.append(Fault("any", "disk of --results", "full", "every turn is heard, exit 74"))


def test_a_log_on_a_full_disk_misses_lines_and_says_how_many(
    listen: Listen, env: dict[str, str], bus: str, config: Path, disk: Disk, faults: list[Fault]
) -> None:
    listener = listen(bus)
    disk.fill()
    voiced = Process(disk.where, "voiced", "--config", config, "--bus", bus, env=env)
    try:
        for _ in range(2):
            turn = listener.event(Wake).turn
            listener.event(TurnClosed, turn)
            assert_whole(listener.events(turn))
            listener.mark()
        assert voiced.err == ""
        disk.make_room()
        voiced.says("lines are missing here: ")
        assert voiced.stop() == 0
        lines = voiced.err.splitlines()
    finally:
        voiced.end()
    told = [re.search(r"(\d+) lines are missing here: nobody read the log in time, or its disk was full$", line) for line in lines]
    missing = [int(found[1]) for found in told if found]
    assert " turn " in voiced.err and sum(missing) >= 2, lines  # ready, a turn; the other's may come late
    assert "Traceback" not in voiced.err
    faults.append(Fault("any", "disk of the log", "full", "lines are missing, and counted", seconds=0.0))
