"""Lanes whose sound other programs send: over TCP and a Unix socket, all at once; what becomes of a lane whose sender is none."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest
import soundfile
from livedaemon import PATIENCE, PATIENT, Listen, Listener, Start
from voiced.bus.client import Changed
from voiced.desk import Published
from voiced.events import Final, TurnClosed

CLOCK = "What time is it?"


class Program:
    """Sends a recording to whoever connects, at the pace of speech, then silence until it is told to end. `accepts`: at the most."""

    def __init__(self, server: socket.socket, sound: bytes, accepts: int = 8) -> None:
        self._server, self._sound, self._accepts = server, sound, accepts
        self._over = threading.Event()
        self._server.settimeout(0.05)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        served: list[threading.Thread] = []
        while not self._over.is_set():
            if len(served) < self._accepts:
                with contextlib.suppress(TimeoutError):
                    connection, _ = self._server.accept()
                    served.append(threading.Thread(target=self._serve, args=(connection,), daemon=True))
                    served[-1].start()
            else:
                self._over.wait(0.05)
        for thread in served:
            thread.join()

    def _serve(self, connection: socket.socket) -> None:
        block = 2 * 1600
        data = self._sound
        with connection, contextlib.suppress(OSError):
            while not self._over.wait(0.1):
                part, data = data[:block], data[block:]
                connection.sendall(part.ljust(block, b"\0"))

    def close(self) -> None:
        self._over.set()
        self._thread.join()
        self._server.close()


@pytest.fixture
def sound(clock: Path) -> bytes:
    return bytes(soundfile.read(clock, dtype="int16")[0].astype("<i2").tobytes())


@pytest.fixture
def programs() -> Iterator[list[Program]]:
    running: list[Program] = []
    yield running
    for program in running:
        program.close()


def listening(family: socket.AddressFamily, where: str | tuple[str, int]) -> socket.socket:
    server = socket.socket(family, socket.SOCK_STREAM)
    server.bind(where)
    server.listen()
    return server


def final(listener: Listener, lane: str) -> Final:
    found = listener.wait(
        lambda item: isinstance(item, Published) and item.lane == lane and isinstance(item.event, Final), f"{lane}: a final"
    )
    event = cast(Published, found).event
    assert isinstance(event, Final)
    return event


def says(listener: Listener, health: str, words: str) -> None:
    """Waits until a lane has this health, for this reason."""

    def wanted(item: object) -> bool:
        return isinstance(item, Changed) and item.values.get("Health") == health and words in str(item.values.get("Reason", ""))

    listener.wait(wanted, f"{health}: {words}")


def test_two_programs_are_heard_and_a_third_that_sends_half_a_frame_is_named(
    start: Start, bus: str, listen: Listen, sound: bytes, programs: list[Program], tmp_path: Path
) -> None:
    tcp, unix, half = (
        listening(socket.AF_INET, ("127.0.0.1", 0)),
        listening(socket.AF_UNIX, str(tmp_path / "s")),
        listening(socket.AF_UNIX, str(tmp_path / "h")),
    )
    config = tmp_path / "voiced.yaml"
    config.write_text(
        f"{PATIENT}capture: {{stall_ms: 20000}}\nlanes:\n"  # who sends and has to wait for a core does not stall
        f"  - {{name: tcp, source: 'tcp:127.0.0.1:{tcp.getsockname()[1]}'}}\n  - {{name: unix, source: 'unix:{tmp_path}/s'}}\n"
        f"  - {{name: half, source: 'unix:{tmp_path}/h'}}\n  - {{name: nobody, source: 'unix:{tmp_path}/n'}}\n"
    )
    listener = listen(bus)
    process = start("voiced", "--config", config, "--bus", bus)
    half.settimeout(PATIENCE)
    connection, _ = half.accept()
    connection.sendall(b"\0" * 641)
    connection.close()
    says(listener, "no_device", "ended within a sample, after its first byte; expected 16-bit little-endian mono at 16 kHz")
    says(listener, "no_device", "cannot be reached: No such file or directory")
    programs += [Program(tcp, sound), Program(unix, sound)]
    assert {final(listener, lane).text for lane in ("tcp", "unix")} == {CLOCK}
    half.close()
    assert process.stop() == 0
    assert "Traceback" not in process.err


def test_two_lanes_on_a_sender_that_serves_one(
    start: Start, bus: str, listen: Listen, sound: bytes, programs: list[Program], tmp_path: Path
) -> None:
    """One hears, and the other says that nothing comes: nothing hangs."""
    programs.append(Program(listening(socket.AF_UNIX, str(tmp_path / "s")), sound, accepts=1))
    config = tmp_path / "voiced.yaml"
    config.write_text(f"{PATIENT}lanes: [{{name: a, source: 'unix:{tmp_path}/s'}}, {{name: b, source: 'unix:{tmp_path}/s'}}]\n")
    listener = listen(bus)
    process = start("voiced", "--config", config, "--bus", bus)
    says(listener, "stalled", "gives no sound for 1 s; it sends 16-bit little-endian mono at 16 kHz")
    assert listener.event(Final).text == CLOCK
    assert process.stop() == 0


def test_a_file_without_end_is_heard_again_and_again(start: Start, bus: str, listen: Listen, clock: Path, tmp_path: Path) -> None:
    config = tmp_path / "voiced.yaml"
    config.write_text(f"lanes: [{{name: a, source: 'loop:{clock}'}}]\n")
    listener = listen(bus)
    process = start("voiced", "--config", config, "--bus", bus)
    first = listener.event(TurnClosed)
    listener.wait(
        lambda item: isinstance(item, Published) and isinstance(item.event, TurnClosed) and item.event.turn != first.turn, "another turn"
    )
    assert process.stop() == 0
