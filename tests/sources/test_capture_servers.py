"""The capture process on PulseAudio and on JACK."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from capturing import PATIENCE, Start, failed, hear_tone, next_frame, opened, starting
from soundserver import JackServer, SoundServer, wait_for, write_tone
from voiced.sources.microphone import Microphone


@pytest.fixture
def pulse(pulseaudio: SoundServer) -> Iterator[Start]:
    with starting(pulseaudio.env) as begin:
        yield begin


@pytest.fixture
def start(jack: JackServer) -> Iterator[Start]:
    with starting(jack.env) as begin:
        yield begin


def test_pulseaudio_gives_a_source_as_it_is(pulseaudio: SoundServer, pulse: Start, tmp_path: Path) -> None:
    pulseaudio.listen_to("mic48")
    capture = pulse(channels=0)
    found = opened(capture)
    assert (found["host"], found["source"], found["rate"], found["channels"]) == ("PulseAudio", "mic48-mic", 48_000, 2)
    assert found["why"] == "auto: the sound server's default source"
    microphone = Microphone(capture.attach("lane"))
    next_frame(microphone)
    hear_tone(microphone, lambda: pulseaudio.play(write_tone(tmp_path / "tone.wav", 1.5, [0, 1000], 48_000), "mic48"), 1000, 1.5)
    assert microphone.statistics().channel == 1
    microphone.close()


def test_pulseaudio_does_not_give_another_microphone_instead(pulseaudio: SoundServer, pulse: Start) -> None:
    """CASES H1, D7: a source that goes, and a recording that is moved by hand, end the stream."""
    pulseaudio.listen_to("mic16")
    capture = pulse(device="mic48-mic")
    assert opened(capture)["source"] == "mic48-mic"
    next_frame(Microphone(capture.attach("lane")))
    pulseaudio.unplug("mic48")
    try:
        assert failed(capture)["health"] == "no_device"
        assert capture.process.wait(PATIENCE) == 74
        successor = pulse(device="mic48-mic", looks=1000, reopen_ms=60_000, reopen_max_ms=60_000)  # only an event can wake it in time
        assert "there is no device 'mic48-mic'" in failed(successor)["error"]
        assert successor.heard() == {"looking": 1}
        wait_for(lambda: pulseaudio.attended_by(successor.process.pid), "the subscription")
    finally:
        pulseaudio.microphone("mic48", "channels=2")
    assert opened(successor)["source"] == "mic48-mic"
    next_frame(Microphone(successor.attach("lane")))
    pulseaudio.move_recording(successor.process.pid, "mic16-mic")
    assert failed(successor)["health"] == "no_device"
    assert successor.process.wait(PATIENCE) == 74


def test_jack_is_a_microphone_of_48_khz_and_two_channels(jack: JackServer, start: Start, tmp_path: Path) -> None:
    """CASES R1, R2, R3, R4, R7: it takes neither 16 kHz nor what is not its own; its float samples, and the channel that is alive."""
    capture = start(channels=0)
    found = opened(capture)
    assert (found["host"], found["device"], found["rate"], found["channels"]) == ("JACK Audio Connection Kit", "system", 48_000, 2)
    assert "(refused: 16000 Hz 2 ch: Error opening RawInputStream: Invalid sample rate)" in found["why"]
    microphone = Microphone(capture.attach("lane"))
    next_frame(microphone)
    hear_tone(microphone, lambda: jack.play(write_tone(tmp_path / "tone.wav", 1.5, [1000], 48_000), channel=1), 1000, 1.5)
    assert microphone.statistics().channel == 1
    assert capture.stop() == 0
    microphone.close()
