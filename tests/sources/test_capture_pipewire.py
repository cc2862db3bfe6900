"""The capture process on a real sound server: what is played into a sink is heard by the lanes, whole and at the right rate."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from capturing import PATIENCE, CaptureProcess, Start, assert_whole, failed, hear_tone, next_frame, opened, starting
from soundserver import SoundServer, own_server, wait_for, write_tone
from voiced.audio import AudioFrame
from voiced.sources.microphone import Microphone
from voiced.units import RATE


@pytest.fixture
def start(pipewire: SoundServer) -> Iterator[Start]:
    with starting(pipewire.env) as begin:
        yield begin


def test_a_tone_is_heard_whole_by_two_lanes(pipewire: SoundServer, start: Start, tmp_path: Path) -> None:
    pipewire.listen_to("mic16")
    capture = start()
    found = capture.heard()["opened"]
    assert (found["source"], found["host"], found["channels"]) == ("mic16-mic", "PipeWire", 1)
    assert found["why"] == "auto: the sound server's default source"
    assert found["placement"]["pid"] == capture.process.pid
    first = Microphone(capture.attach("first"))
    next_frame(first)
    second = Microphone(capture.attach("second"), capacity=1000)
    late = next_frame(second)  # attached while the other one hears
    frames = hear_tone(first, lambda: pipewire.play(write_tone(tmp_path / "tone.wav", 1.5, [440], 16_000), "mic16"), 440, 1.5)
    others = [late]
    while others[-1].arrived_ns < frames[-1].arrived_ns - 10**9:
        others.append(next_frame(second))
    whole, part = (np.concatenate([frame.samples for frame in each]).astype(int) for each in (frames, others))
    begins = np.argmax(np.abs(whole) > 1000) - np.argmax(np.abs(part) > 1000)
    assert np.abs(whole[begins : begins + len(part)] - part).max() <= 1  # a resampler that began later may round the other way
    assert not any(loss["lanes"] for loss in capture.losses())
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
    found = capture.heard()["opened"]
    assert (found["rate"], found["channels"]) == (48_000, 2)
    microphone = Microphone(capture.attach("lane"))
    next_frame(microphone)
    hear_tone(microphone, lambda: pipewire.play(write_tone(tmp_path / "tone.wav", 1.5, [0, 1000], 48_000), "mic48"), 1000, 1.5)
    pipewire.listen_to("mic16")
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
    lost = microphone.statistics().lost  # by a busy server, so far
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
    assert microphone.statistics().lost == lost + after.lost
    microphone.close()


def test_a_stopped_process_loses_sound_and_positions_know(pipewire: SoundServer, start: Start, tmp_path: Path) -> None:
    """No overflow flag tells of it; the frame clock does."""
    pipewire.listen_to("mic16")
    capture = start(rate=16_000)
    capture.heard()
    microphone = Microphone(capture.attach("lane"))

    def two_seconds(frame: AudioFrame) -> tuple[float, int]:
        """By how many samples time was ahead of the sound at least (a read may be late), and what was lost."""
        frames = [frame]
        while frames[-1].end < frame.end + 2 * RATE:
            frames.append(next_frame(microphone))
        return min(one.arrived_ns * RATE / 1e9 - one.end for one in frames), sum(one.lost for one in frames)

    before, _ = two_seconds(next_frame(microphone))
    capture.process.send_signal(signal.SIGSTOP)
    pipewire.play(write_tone(tmp_path / "silence.wav", 1.0, [0], 16_000), "mic16").wait(PATIENCE)  # a second of the server's time
    resumed_ns = time.monotonic_ns()
    capture.process.send_signal(signal.SIGCONT)
    while (frame := next_frame(microphone)).arrived_ns < resumed_ns:
        pass
    after, lost = two_seconds(frame)
    assert lost > RATE // 2
    assert after == pytest.approx(before, abs=0.1 * RATE)  # twice a server's quantum, and then some
    while (said := capture.heard())["lost"] < lost:
        pass
    assert said["lanes"] == {}
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
    hear_tone(microphone, lambda: pipewire.play(write_tone(tmp_path / "tone.wav", 1.5, [700, 0], 48_000), "mic48"), 700, 1.5)
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
        wait_for(lambda: pipewire.attended_by(successor.process.pid), "the subscription")
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
    hear_tone(microphone, lambda: pipewire.play(write_tone(tmp_path / "tone.wav", 1.5, [440], 16_000), "mic16"), 440, 1.5)
    assert pipewire.recorded_by(capture.process.pid) == "mic16-mic"
    capture.losses()  # and nothing else is said
    microphone.close()


def test_auto_follows_the_default_and_says_so(pipewire: SoundServer, start: Start) -> None:
    pipewire.listen_to("mic16")
    capture, named = start(), start(device="mic16-mic")
    assert opened(capture)["source"] == opened(named)["source"] == "mic16-mic"
    pipewire.listen_to("mic48")
    assert failed(capture)["error"].endswith("the sound server's default source is now 'mic48-mic'; it is opened again")
    assert opened(start())["source"] == "mic48-mic"
    pipewire.listen_to("mic16")
    named.losses()  # and nothing else is said: what is named stays
    assert named.stop() == 0


def test_a_server_that_comes_back_is_found() -> None:
    """CASES H2, H6, H9: there is no server at first, then one, which is killed and started again."""
    with own_server() as server:
        capture = CaptureProcess(server.env, looks=1000)
        try:
            assert failed(capture)["error"].startswith("capture: there is no device that records; ")
            server.start_with_mic16()
            assert opened(capture)["source"] == "mic16-mic"
            next_frame(Microphone(capture.attach("lane")))
            server.stop()
            assert failed(capture)["health"] == "no_device"
            assert capture.process.wait(PATIENCE) == 74
        finally:
            capture.process.kill()
            capture.process.wait()
        successor = CaptureProcess(server.env, looks=1000)
        try:
            assert failed(successor)["error"].startswith("capture: there is no device that records; ")
            server.start_with_mic16()
            assert opened(successor)["source"] == "mic16-mic"
            assert successor.stop() == 0
        finally:
            successor.process.kill()
            successor.process.wait()


def test_a_decode_of_two_and_a_half_seconds_costs_capture_nothing(pipewire: SoundServer, start: Start) -> None:
    """CASES R13: ears stand still for so long; the reader empties the socket meanwhile, and every sample is there afterwards."""
    pipewire.listen_to("mic16")
    capture = start(channels=0)
    opened(capture)
    microphone = Microphone(capture.attach("lane"))
    first = next_frame(microphone)
    came = microphone.statistics().blocks
    wait_for(lambda: microphone.statistics().blocks >= came + 63, "63 blocks of 40 ms that nobody reads")
    frames = [first]
    while frames[-1].end < first.end + 4 * RATE:
        frames.append(next_frame(microphone))
    losses = capture.losses()
    assert not any(loss["lanes"] for loss in losses)
    if not losses:  # a busy server makes some itself
        assert_whole(frames)
        assert microphone.statistics().lost == 0
    statistics = microphone.statistics()
    assert statistics.dropped == 0
    assert 60 < statistics.deepest < 256
    microphone.close()


def test_without_pactl_the_default_source_is_heard_all_the_same(pipewire: SoundServer, tmp_path: Path) -> None:
    """CASES S7, S8: no program of a sound server is needed, only the sound library."""
    pipewire.listen_to("mic16")
    with starting(pipewire.env | {"PATH": str(tmp_path)}) as begin:
        capture = begin(channels=0)
        found = opened(capture)
        assert (found["device"], found["host"], found["source"]) == ("pipewire", "ALSA", "")
        assert found["why"] == "auto: the sound server's default source, of which nothing is known without pactl"
        microphone = Microphone(capture.attach("lane"))
        hear_tone(microphone, lambda: pipewire.play(write_tone(tmp_path / "tone.wav", 1.5, [440], 16_000), "mic16"), 440, 1.5)
        microphone.close()


def test_digital_silence_is_told_with_its_cause_and_left_alone(pipewire: SoundServer, start: Start, tmp_path: Path) -> None:
    """CASES H10, by a sink that nobody plays into and a source that is muted."""
    pipewire.listen_to("mic16")
    pipewire.mute("mic16-mic", True)
    try:
        capture = start()
        opened(capture)
        assert capture.told() == {"silent": True, "muted": True}
        pipewire.mute("mic16-mic", False)
        pipewire.play(write_tone(tmp_path / "tone.wav", 0.5, [440], 16_000), "mic16")
        assert capture.told() == {"silent": False, "muted": False}
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
