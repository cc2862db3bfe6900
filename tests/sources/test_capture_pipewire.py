"""The capture process on a real sound server: what is played into a sink is heard by the lanes, whole and at the right rate."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from soundserver import SoundServer, own_server, write_tone
from voiced.audio import AudioFrame
from voiced.sources.microphone import Microphone
from voiced.units import RATE
from voiced.wire import Link

PATIENCE = 20  # seconds after which a test fails instead of hanging

PROGRAM = "import sys; from voiced.sources.capture import main; main(int(sys.argv[1]))"


class CaptureProcess:
    """A capture process, as main has one."""

    def __init__(self, env: dict[str, str], **job: Any) -> None:
        self.link, theirs = Link.pair()
        with theirs:
            command = [sys.executable, "-c", PROGRAM, str(theirs.fileno())]
            env = env | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
            self.process = subprocess.Popen(command, env=env, pass_fds=[theirs.fileno()])
        self.link.send({"device": "auto", "stall_ms": 5000, **job})

    def heard(self) -> dict[str, Any]:
        message = self.link.receive(PATIENCE)
        assert message is not None, "capture says nothing"
        return message.body

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


@pytest.fixture
def start(pipewire: SoundServer) -> Iterator[Start]:
    """Starts capture processes and ends those that are left."""
    started: list[CaptureProcess] = []

    def begin(**job: Any) -> CaptureProcess:
        started.append(CaptureProcess(pipewire.env, **job))
        return started[-1]

    yield begin
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


def test_a_tone_is_heard_whole_by_two_lanes(pipewire: SoundServer, start: Start, tmp_path: Path) -> None:
    pipewire.listen_to("mic16")
    capture = start()
    opened = capture.heard()["opened"]
    assert (opened["source"], opened["host"], opened["channels"]) == ("mic16-mic", "PipeWire", 1)
    assert opened["why"] == "auto: the sound server's default source"
    assert opened["placement"]["pid"] == capture.process.pid
    first = Microphone(capture.attach("first"))
    next_frame(first)
    player = pipewire.play(write_tone(tmp_path / "tone.wav", 1.5, [440], 16_000), "mic16")
    second = Microphone(capture.attach("second"))
    late = next_frame(second)  # attached while the other one hears
    frames = hear(first, player)
    assert_whole(frames)
    assert_tone(frames, 440, 1.5)
    others = [late]
    while others[-1].end < frames[-1].end - RATE:
        others.append(next_frame(second))
    assert_whole(others)
    heard = b"".join(frame.samples.tobytes() for frame in others)
    assert heard in b"".join(frame.samples.tobytes() for frame in frames)
    assert first.statistics().dropped == 0
    assert capture.stop() == 0
    for microphone in (first, second):
        with pytest.raises(EOFError):
            while True:
                next_frame(microphone)
        microphone.close()


def test_a_device_of_48_khz_and_two_channels_gives_the_live_one(pipewire: SoundServer, start: Start, tmp_path: Path) -> None:
    pipewire.listen_to("mic48")
    capture = start(rate=48_000, channels=2)
    opened = capture.heard()["opened"]
    assert (opened["rate"], opened["channels"]) == (48_000, 2)
    microphone = Microphone(capture.attach("lane"))
    next_frame(microphone)
    player = pipewire.play(write_tone(tmp_path / "tone.wav", 1.5, [0, 1000], 48_000), "mic48")
    frames = hear(microphone, player)
    pipewire.listen_to("mic16")
    assert_whole(frames)
    assert_tone(frames, 1000, 1.5)
    assert microphone.statistics().channel == 1
    microphone.close()


def test_a_killed_capture_is_an_end_and_the_next_one_goes_on_in_time(pipewire: SoundServer, start: Start) -> None:
    pipewire.listen_to("mic16")
    capture = start(rate=16_000)
    assert "opened" in capture.heard()
    microphone = Microphone(capture.attach("lane"))
    before = next_frame(microphone)
    capture.process.send_signal(signal.SIGKILL)
    with pytest.raises(EOFError):
        while True:
            before = next_frame(microphone)
    assert capture.process.wait(PATIENCE) == -signal.SIGKILL
    with pytest.raises(EOFError):
        capture.link.receive(PATIENCE)
    successor = start(rate=16_000)
    assert "opened" in successor.heard()
    microphone.replace(successor.attach("lane"))
    after = next_frame(microphone)
    assert after.lost == after.first - before.end
    elapsed = (after.arrived_ns - before.arrived_ns) * RATE / 1e9
    assert after.end - before.end == pytest.approx(elapsed, abs=1)
    assert microphone.statistics().lost == after.lost
    microphone.close()


def test_a_stopped_process_loses_sound_and_positions_know(pipewire: SoundServer, start: Start, tmp_path: Path) -> None:
    """No overflow flag tells of it; the frame clock does."""
    pipewire.listen_to("mic16")
    capture = start(rate=16_000)
    capture.heard()
    microphone = Microphone(capture.attach("lane"))
    frame = next_frame(microphone)
    begin, began_ns = frame.end, frame.arrived_ns
    while frame.end < begin + 2 * RATE:
        frame = next_frame(microphone)
    capture.process.send_signal(signal.SIGSTOP)
    pipewire.play(write_tone(tmp_path / "silence.wav", 1.0, [0], 16_000), "mic16").wait(PATIENCE)  # a second of the server's time
    capture.process.send_signal(signal.SIGCONT)
    lost = 0
    while not lost:
        frame = next_frame(microphone)
        lost = frame.lost
    assert lost > RATE // 2
    elapsed = (frame.arrived_ns - began_ns) * RATE / 1e9
    assert frame.end - begin == pytest.approx(elapsed, abs=0.1 * RATE)  # twice a server's quantum, and then some
    said = capture.heard()
    assert said == {"lost": lost, "lanes": {"lane": lost}}
    microphone.close()


def test_a_device_that_is_not_there_lists_those_that_are(start: Start) -> None:
    capture = start(device="pipewir")
    assert "opened" in capture.heard()  # a part of one name is enough
    capture.stop()
    capture = start(device="mik48-mic")
    failure = capture.heard()["failed"]
    assert failure["error"].startswith(
        "capture: there is no device 'mik48-mic'; there are: 'mic48-mic' (Remapped mic48.monitor source, PipeWire)"
    )
    assert failure["error"].endswith("; or say auto")
    assert all(f"'{name}'" in failure["error"] for name in ("mic16-mic", "mic16.monitor", "mic48.monitor", "pipewire"))
    assert capture.process.wait(PATIENCE) == 74


def test_a_name_that_fits_two_is_refused_with_both(start: Start) -> None:
    capture = start(device="mic48")
    failure = capture.heard()["failed"]["error"]
    assert failure.startswith("capture: 'mic48' fits 2 devices; say which: ")
    assert "'mic48-mic'" in failure and "'mic48.monitor'" in failure and "mic16" not in failure


# ── what a server does with its sources ────────────────────────────────────────────────────────────────────────────────


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


def test_auto_never_hears_what_the_machine_plays(pipewire: SoundServer, start: Start) -> None:
    """CASES S14: the default is a monitor, so the first microphone is taken, and the line says why."""
    pipewire.default("mic16.monitor")
    found = opened(start())
    assert found["source"] in ("mic16-mic", "mic48-mic")
    assert found["why"] == "auto: the sound server's default source 'mic16.monitor' is a monitor, which gives what the machine plays"


def test_a_monitor_that_is_named_is_heard(pipewire: SoundServer, start: Start, tmp_path: Path) -> None:
    pipewire.listen_to("mic16")
    capture = start(device="mic48.monitor", channels=0)
    found = opened(capture)
    assert (found["id"], found["rate"], found["channels"]) == ("mic48.monitor", 48_000, 2)
    microphone = Microphone(capture.attach("lane"), channel=0)
    next_frame(microphone)
    frames = hear(microphone, pipewire.play(write_tone(tmp_path / "tone.wav", 1.5, [700, 0], 48_000), "mic48"))
    assert_whole(frames)
    assert_tone(frames, 700, 1.5)
    microphone.close()


def test_a_source_that_goes_ends_the_recording_and_is_found_again(pipewire: SoundServer, start: Start) -> None:
    """CASES H1, and never another microphone instead: PipeWire would go on with one, without a word."""
    pipewire.listen_to("mic16")
    capture = start(device="mic48-mic", looks=1000)
    assert opened(capture)["source"] == "mic48-mic"
    microphone = Microphone(capture.attach("lane"))
    next_frame(microphone)
    pipewire.unplug("mic48")
    try:
        failure = failed(capture)
        assert failure["health"] == "no_device"
        assert capture.process.wait(PATIENCE) == 74
        successor = start(device="mic48-mic", looks=1000, reopen_ms=60_000, reopen_max_ms=60_000)  # only an event can wake it in time
        assert "there is no device 'mic48-mic'" in failed(successor)["error"]
        assert successor.heard() == {"looking": 1}
    finally:
        pipewire.microphone("mic48", "channels=2")
    assert opened(successor)["source"] == "mic48-mic"
    microphone.replace(successor.attach("lane"))
    while not next_frame(microphone).lost:
        pass
    microphone.close()


def test_nobody_moves_a_recording_to_another_microphone(pipewire: SoundServer, start: Start, tmp_path: Path) -> None:
    """A privacy fault: a mixer's window may ask for it, and PipeWire does not do it to ours."""
    pipewire.listen_to("mic16")
    capture = start(device="mic16-mic")
    opened(capture)
    microphone = Microphone(capture.attach("lane"))
    next_frame(microphone)
    pipewire.move_recording(capture.process.pid, "mic48-mic")
    frames = hear(microphone, pipewire.play(write_tone(tmp_path / "tone.wav", 1.5, [440], 16_000), "mic16"))
    assert_whole(frames)
    assert_tone(frames, 440, 1.5)
    assert pipewire.recorded_by(capture.process.pid) == "mic16-mic"
    assert capture.link.receive(0) is None
    microphone.close()


def test_auto_follows_the_default_and_says_so(pipewire: SoundServer, start: Start) -> None:
    pipewire.listen_to("mic16")
    capture, named = start(), start(device="mic16-mic")
    assert opened(capture)["source"] == opened(named)["source"] == "mic16-mic"
    pipewire.listen_to("mic48")
    assert failed(capture)["error"].endswith("the sound server's default source is now 'mic48-mic'; it is opened again")
    assert opened(start())["source"] == "mic48-mic"
    pipewire.listen_to("mic16")
    assert named.link.receive(0) is None and named.stop() == 0  # what is named stays


def test_a_server_that_comes_back_is_found(start: Start, tmp_path_factory: pytest.TempPathFactory) -> None:
    """CASES H2, H6, H9: there is no server at first, then one, which is killed and started again."""
    with own_server() as server:
        capture = CaptureProcess(server.env, looks=1000)
        try:
            assert failed(capture)["error"].startswith("capture: there is no device that records; ")
            server.start()
            server.null_sink("mic16", 16_000, 1)
            assert opened(capture)["source"] == "mic16-mic"
            server.stop()
            assert failed(capture)["health"] == "no_device"
            assert capture.process.wait(PATIENCE) == 74
        finally:
            capture.process.kill()
            capture.process.wait()
        successor = CaptureProcess(server.env, looks=1000)
        try:
            assert failed(successor)["error"].startswith("capture: there is no device that records; ")
            server.start()
            server.null_sink("mic16", 16_000, 1)
            assert opened(successor)["source"] == "mic16-mic"
            assert successor.stop() == 0
        finally:
            successor.process.kill()
            successor.process.wait()


def test_digital_silence_is_told_with_its_cause_and_left_alone(pipewire: SoundServer, start: Start, tmp_path: Path) -> None:
    """CASES H10, by a sink that nobody plays into and a source that is muted."""
    pipewire.listen_to("mic16")
    pipewire.mute("mic16-mic", True)
    try:
        capture = start()
        opened(capture)
        assert capture.heard() == {"silent": True, "muted": True}
        pipewire.mute("mic16-mic", False)
        pipewire.play(write_tone(tmp_path / "tone.wav", 0.5, [440], 16_000), "mic16")
        assert capture.heard() == {"silent": False, "muted": False}
        assert capture.stop() == 0
    finally:
        pipewire.mute("mic16-mic", False)


def test_without_a_server_there_is_no_device(pipewire: SoundServer, tmp_path: Path) -> None:
    capture = CaptureProcess(pipewire.env | {"XDG_RUNTIME_DIR": str(tmp_path)})
    try:
        failure = capture.heard()["failed"]
        assert failure["error"].startswith("capture: there is no device that records; ")
        assert capture.process.wait(PATIENCE) == 74
    finally:
        capture.process.kill()
        capture.process.wait()
