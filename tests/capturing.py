"""A capture process as main has one, and what is heard of it: for tests with real sound servers."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from soundserver import goes_first
from voiced.audio import AudioFrame
from voiced.sources.microphone import Microphone
from voiced.units import RATE
from voiced.wire import Link

PATIENCE = 60  # seconds after which a test fails instead of hanging

PROGRAM = "import sys; from voiced.sources import capture, servers; servers._PATIENCE_S = 60; capture.main(int(sys.argv[1]))"
"""With more patience for a server that has to wait for a core."""


class CaptureProcess:
    """A capture process, as main has one."""

    def __init__(self, env: dict[str, str], **job: Any) -> None:
        self.link, theirs = Link.pair()
        with theirs:
            command = [sys.executable, "-c", PROGRAM, str(theirs.fileno())]
            env = env | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
            self.process = subprocess.Popen(command, env=env, pass_fds=[theirs.fileno()])
        goes_first(self.process.pid)
        self.link.send({"device": "auto", "stall_ms": 5000, **job})

    def heard(self) -> dict[str, Any]:
        message = self.link.receive(PATIENCE)
        assert message is not None, "capture says nothing"
        return message.body

    def told(self) -> dict[str, Any]:
        """What it says next but of losses, some of which a busy server makes itself."""
        while "lost" in (body := self.heard()):
            pass
        return body

    def losses(self) -> list[dict[str, Any]]:
        """Of what it has said and nobody has heard yet, which must be of losses alone, and of silence."""
        found = []
        while message := self.link.receive(0):
            assert message.body.keys() & {"lost", "silent"}, message.body
            found.append(message.body)
        return [body for body in found if "lost" in body]

    def attach(self, name: str) -> socket.socket:
        theirs, ours = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            assert self.link.send({"attach": name}, (theirs.fileno(),))
        return ours

    def stop(self) -> int:
        """Closes the link, which ends the process; its exit code."""
        self.link.close()
        return self.process.wait(PATIENCE)


Start = Callable[..., CaptureProcess]


@contextmanager
def starting(env: dict[str, str]) -> Iterator[Start]:
    """Starts capture processes and ends those that are left."""
    started: list[CaptureProcess] = []

    def begin(**job: Any) -> CaptureProcess:
        started.append(CaptureProcess(env, **job))
        return started[-1]

    try:
        yield begin
    finally:
        for capture in started:
            capture.process.kill()
            capture.process.wait()
            capture.link.close()


def next_frame(microphone: Microphone) -> AudioFrame:
    frame = microphone.read(PATIENCE)
    assert frame is not None, "no sound"
    return frame


def hear(microphone: Microphone, player: subprocess.Popen[bytes]) -> list[AudioFrame]:
    """Every frame until the player has ended and what it played has come through (half a second later)."""
    frames = []
    while player.poll() is None:
        frames.append(next_frame(microphone))
    assert player.returncode == 0
    end = frames[-1].end + RATE // 2
    while frames[-1].end < end:
        frames.append(next_frame(microphone))
    return frames


def assert_whole(frames: list[AudioFrame]) -> None:
    assert [frame.lost for frame in frames[1:]] == [0] * (len(frames) - 1)
    assert all(before.end == after.first for before, after in pairwise(frames))


def assert_tone(frames: list[AudioFrame], hertz: float, seconds: float) -> None:
    """The tone is there for its whole length, at its frequency, and without a break: a single sine explains all of it."""
    sound: NDArray[np.float64] = np.concatenate([frame.samples for frame in frames]).astype(np.float64)
    loud = np.flatnonzero(np.abs(sound) > 1000)
    assert len(loud), "the tone did not come"
    assert (loud[-1] - loud[0]) / RATE == pytest.approx(seconds, abs=0.02)
    tone = sound[loud[0] + RATE // 20 : loud[-1] - RATE // 20]
    turns = 2j * np.pi * np.arange(len(tone)) / RATE
    phase = np.unwrap(np.angle(np.convolve(tone * np.exp(-hertz * turns), np.ones(RATE // 10) / (RATE // 10), "valid")))
    off = (phase[-1] - phase[0]) / (2 * np.pi) / (len(phase) / RATE)
    assert abs(off) < 0.5, f"{hertz + off:.2f} Hz heard, {hertz} Hz played"
    basis = np.stack([np.cos((hertz + off) * turns.imag), np.sin((hertz + off) * turns.imag)], axis=1)
    fit = basis @ np.linalg.lstsq(basis, tone, rcond=None)[0]
    assert np.std(tone - fit) < 0.02 * np.std(tone), "the tone is broken"


def opened(capture: CaptureProcess) -> dict[str, Any]:
    """What it has opened, as soon as it has."""
    while "opened" not in (body := capture.heard()):
        pass
    found: dict[str, Any] = body["opened"]
    return found


def failed(capture: CaptureProcess) -> dict[str, Any]:
    while "failed" not in (body := capture.heard()):
        pass
    found: dict[str, Any] = body["failed"]
    return found


def hear_tone(microphone: Microphone, play: Callable[[], subprocess.Popen[bytes]], hertz: float, seconds: float) -> list[AudioFrame]:
    """Hears a tone that is played, whole, and returns every frame. Up to ten times: on a busy machine the player or the server may itself
    break it."""
    every: list[AudioFrame] = []
    for left in reversed(range(10)):
        frames = hear(microphone, play())
        every += frames
        try:
            assert_whole(frames)
            assert_tone(frames, hertz, seconds)
        except AssertionError:
            if not left:
                raise
        else:
            break
    return every
