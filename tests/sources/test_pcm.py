"""Sound from a socket: real sockets, both kinds; bytes in pieces, odd ones, senders that stall, go and come again."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from soundserver import wait_for
from voiced.audio import AudioFrame
from voiced.errors import DeviceError
from voiced.settings import CaptureSettings
from voiced.sources.pcm import BLOCKS, PcmSocket

PATIENCE = 60.0
SETTINGS = CaptureSettings(block_ms=10, stall_ms=30_000, reopen_ms=50, reopen_max_ms=100)
"""A sender of a test that has to wait for a core does not stall."""
BLOCK = 160


class Sender:
    """The end that listens. `accept` gives the connection of a PcmSocket."""

    def __init__(self, kind: str, directory: Path) -> None:
        family = socket.AF_UNIX if kind == "unix" else socket.AF_INET
        self.sock = socket.socket(family, socket.SOCK_STREAM)
        self.sock.bind(str(directory / "s") if kind == "unix" else ("127.0.0.1", 0))
        self.sock.listen()
        self.sock.settimeout(PATIENCE)
        self.where = f"unix:{directory / 's'}" if kind == "unix" else f"tcp:127.0.0.1:{self.sock.getsockname()[1]}"

    def accept(self) -> socket.socket:
        connection, _ = self.sock.accept()
        connection.settimeout(PATIENCE)
        return connection


@pytest.fixture(params=["tcp", "unix"])
def sender(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Sender]:
    made = Sender(request.param, tmp_path)
    yield made
    made.sock.close()


@pytest.fixture
def source(request: pytest.FixtureRequest, sender: Sender) -> Iterator[PcmSocket]:
    """Parametrize it with another stall time, in milliseconds."""
    made = PcmSocket(sender.where, 0, replace(SETTINGS, stall_ms=getattr(request, "param", SETTINGS.stall_ms)))
    yield made
    made.close()


def take(source: PcmSocket, samples: int) -> list[AudioFrame]:
    frames: list[AudioFrame] = []
    while sum(len(frame.samples) for frame in frames) < samples:
        frame = source.read(PATIENCE)
        assert frame, "no sound came"
        frames.append(frame)
    return frames


def gone(source: PcmSocket) -> str:
    """Why there is no sound any more."""
    with pytest.raises(DeviceError) as caught:
        while source.read(PATIENCE):
            pass
    return str(caught.value)


def test_samples_come_whole_whatever_the_pieces_are(sender: Sender, source: PcmSocket) -> None:
    sound = np.arange(-2000, 2000, dtype="<i2")
    connection = sender.accept()
    data = sound.tobytes()
    for at in range(0, len(data), 333):
        connection.sendall(data[at : at + 333])
    connection.close()
    frames = take(source, len(sound))
    assert np.concatenate([frame.samples for frame in frames]).tolist() == sound.tolist()
    assert [frame.first for frame in frames] == list(range(0, len(sound), BLOCK))
    assert all(frame.lost == 0 and frame.arrived_ns for frame in frames)
    assert gone(source) == f"{sender.where}: was closed by its sender; voiced connects again until it is there"
    assert source.health == "no_device"


def test_half_a_frame_is_named_and_thrown_away(sender: Sender, source: PcmSocket) -> None:
    connection = sender.accept()
    connection.sendall(bytes(2 * BLOCK + 5))
    connection.close()
    assert sum(len(frame.samples) for frame in take(source, BLOCK + 2)) == BLOCK + 2
    assert "ended within a sample, after its first byte; expected 16-bit little-endian mono at 16 kHz, 2 bytes a sample" in gone(source)
    assert source.statistics().odd_bytes == 1


def test_a_sender_that_comes_again_is_heard_after_a_gap_that_the_clock_tells(sender: Sender, source: PcmSocket) -> None:
    found = []
    for _ in range(2):
        connection = sender.accept()
        connection.sendall(bytes(2 * BLOCK))
        connection.close()
        found += take(source, BLOCK)
        gone(source)
    first, second = found
    assert second.lost > 0 and second.first == first.end + second.lost
    assert source.statistics().connections == 2 and source.statistics().lost == second.lost


@pytest.mark.parametrize("source", [200], indirect=True)
def test_a_sender_that_stalls_is_told_once_and_heard_when_it_goes_on(sender: Sender, source: PcmSocket) -> None:
    connection = sender.accept()
    assert "gives no sound for 0.2 s" in gone(source)
    connection.sendall(bytes(2 * BLOCK + 100))
    assert sum(len(frame.samples) for frame in take(source, BLOCK + 50)) == BLOCK + 50  # what it sent of a block is not held back
    assert "gives no sound for 0.2 s" in gone(source)
    assert source.health == "stalled"
    assert source.read(0.5) is None  # once
    connection.sendall(bytes(2 * BLOCK))
    (frame,) = take(source, BLOCK)
    assert frame.lost > 0
    connection.close()


def test_who_sends_faster_than_is_heard_is_kept_waiting_and_nothing_is_lost(sender: Sender, source: PcmSocket) -> None:
    connection = sender.accept()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 16)
    connection.setblocking(False)
    sent = 0
    try:
        while True:
            sent += connection.send(bytes(4096))
    except BlockingIOError:
        pass
    assert sent > 2 * BLOCK * BLOCKS
    connection.setblocking(True)
    connection.close()
    frames = take(source, sent // 2)
    assert sum(len(frame.samples) for frame in frames) == sent // 2
    assert all(frame.lost == 0 for frame in frames)


def test_nobody_there_is_told_once_and_waited_for(tmp_path: Path) -> None:
    source = PcmSocket(f"unix:{tmp_path / 's'}", 0, SETTINGS)
    assert "cannot be reached: No such file or directory" in gone(source)
    assert source.read(0.5) is None
    sender = Sender("unix", tmp_path)
    connection = sender.accept()
    connection.sendall(bytes(2 * BLOCK))
    assert take(source, BLOCK)[0].first == 0
    source.close()
    assert connection.recv(1) == b""  # closed at once
    connection.close()
    sender.sock.close()


def test_a_name_that_is_none_is_told_and_hangs_nobody() -> None:
    source = PcmSocket("tcp:name.invalid:1", 0, SETTINGS)
    assert "tcp:name.invalid:1: cannot be reached" in gone(source)
    source.close()


@pytest.mark.fuzz
@settings(max_examples=settings().max_examples)
@given(kind=st.sampled_from(["tcp", "unix"]), pieces=st.lists(st.binary(max_size=700), max_size=6), breaks=st.booleans())
def test_whatever_is_sent_is_sound_or_an_end_that_is_named(
    tmp_path_factory: pytest.TempPathFactory, kind: str, pieces: list[bytes], breaks: bool
) -> None:
    """Pieces of any length, to an end within a sample or not, by a close or (`breaks`) a reset."""
    sender = Sender(kind, tmp_path_factory.mktemp("s"))
    source = PcmSocket(sender.where, 7, SETTINGS)
    connection = sender.accept()
    for piece in pieces:
        connection.sendall(piece)
    if breaks:  # what was not read by then may be gone
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()
    frames: list[AudioFrame] = []
    with pytest.raises(DeviceError) as caught:
        while frame := source.read(PATIENCE):
            frames.append(frame)
    source.close()
    sender.sock.close()
    assert "\n" not in str(caught.value)
    data, heard = b"".join(pieces), b"".join(frame.samples.astype("<i2").tobytes() for frame in frames)
    assert data.startswith(heard)
    if not (breaks and kind == "tcp"):
        assert len(heard) == len(data) - len(data) % 2
    at = 7
    for frame in frames:
        assert frame.first == at + frame.lost
        at = frame.end


def test_sources_that_are_closed_leave_no_thread(tmp_path: Path) -> None:
    sender = Sender("unix", tmp_path)
    before = set(threading.enumerate())
    for _ in range(20):
        source = PcmSocket(sender.where, 0, SETTINGS)
        connection = sender.accept()
        source.close()
        connection.close()
    wait_for(lambda: set(threading.enumerate()) <= before, "their threads to end")
    sender.sock.close()
