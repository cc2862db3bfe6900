"""Opening devices of every kind: a library that follows a script, with what real ones refuse."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from typing import Any

import pytest
from voiced.errors import DeviceError
from voiced.sources import soundcard
from voiced.sources.servers import Server, Source
from voiced.sources.soundcard import Job, Opened, SoundCard

ALSA_EINVAL, ALSA_EBUSY, ALSA_EACCES = -22, -16, -13


class PortAudioError(Exception):
    pass


Takes = Callable[[int, int], None]
"""(rate, channels); raises PortAudioError where the device refuses."""


class Library:
    """sounddevice with one device of a card. `opened` is every format that was asked for."""

    PortAudioError = PortAudioError

    def __init__(
        self, takes: Takes, channels: int, rate: int = 48_000, name: str = "Thing: USB Audio (hw:1,0)", host: str = "ALSA"
    ) -> None:
        self._takes, self._entry, self._host = (
            takes,
            {"max_input_channels": channels, "default_samplerate": float(rate), "name": name},
            host,
        )
        self.opened: list[tuple[int, int]] = []
        self.closed = 0
        self.starts = 0

    def _initialize(self) -> None:
        self.starts += 1

    def _terminate(self) -> None:
        self.starts -= 1

    def query_hostapis(self) -> list[dict[str, Any]]:
        return [{"name": self._host}]

    def query_devices(self) -> list[dict[str, Any]]:
        return [{**self._entry, "index": 0, "hostapi": 0}]

    def check_input_settings(self, device: int, channels: int, dtype: str, samplerate: int) -> None:
        self._takes(samplerate, channels)

    def RawInputStream(self, *, samplerate: int, channels: int, dtype: str, **rest: Any) -> Stream:
        self.opened.append((samplerate, channels))
        self._takes(samplerate, channels)
        return Stream(self, dtype)


class Stream:
    def __init__(self, library: Library, dtype: str) -> None:
        self._library, self._width = library, {"int16": 2, "float32": 4}[dtype]

    def start(self) -> None: ...

    def close(self, ignore_errors: bool) -> None:
        self._library.closed += 1

    def read(self, frames: int) -> tuple[bytes, bool]:
        _, channels = self._library.opened[-1]
        return bytes(frames * channels * self._width), False


def only(rates: set[int], counts: set[int]) -> Takes:
    def takes(rate: int, channels: int) -> None:
        if channels not in counts:
            raise PortAudioError("Error opening RawInputStream: Invalid number of channels", -9998)
        if rate not in rates:
            raise PortAudioError("Error opening RawInputStream: Invalid sample rate", -9997)

    return takes


def never(number: int, text: str) -> Takes:
    def takes(rate: int, channels: int) -> None:
        raise PortAudioError("Error opening RawInputStream: Unanticipated host error", -9999, (0, number, text))

    return takes


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(soundcard, "ask", lambda: None)
    for name in ("PULSE_SOURCE", "PIPEWIRE_ALSA"):
        monkeypatch.setenv(name, "")


def card(monkeypatch: pytest.MonkeyPatch, library: Library) -> SoundCard:
    monkeypatch.setattr(soundcard, "_load", lambda: library)
    return SoundCard()


def opened(monkeypatch: pytest.MonkeyPatch, library: Library, **job: Any) -> Opened:
    stream, found = card(monkeypatch, library).open(Job(channels=0, **job))
    data, _ = stream.read(10)
    assert len(data) == 10 * found.channels * found.width
    return found


@pytest.mark.parametrize(
    ("case", "takes", "channels", "rate", "form"),
    [
        ("R2: 44,100 and 48,000 mono only", only({44_100, 48_000}, {1}), 1, 44_100, (48_000, 1)),
        ("R3: the same, stereo", only({44_100, 48_000}, {2}), 2, 44_100, (48_000, 2)),
        ("R4: its own rate alone", only({48_000}, {1, 2}), 2, 48_000, (48_000, 2)),
        ("R6: 24,000 mono", only({24_000}, {1}), 1, 24_000, (24_000, 1)),
        ("R7: stereo where mono was offered first", only({16_000, 48_000}, {2}), 2, 48_000, (16_000, 2)),
        ("R7: mono, though the list says two", only({16_000, 48_000}, {1}), 2, 48_000, (16_000, 1)),
        ("R8: six channels only", only({16_000}, {6}), 6, 16_000, (16_000, 6)),
        ("an interface of eighteen gives eight", only({48_000}, {8}), 18, 48_000, (48_000, 8)),
        ("44,100 alone", only({44_100}, {1}), 1, 44_100, (44_100, 1)),
        ("96,000 alone", only({96_000}, {2}), 2, 96_000, (96_000, 2)),
    ],
)
def test_a_device_is_opened_as_it_can(
    monkeypatch: pytest.MonkeyPatch, case: str, takes: Takes, channels: int, rate: int, form: tuple[int, int]
) -> None:
    """CASES R2, R3, R4, R6, R7, R8: what was refused is in the line, and no error is shown."""
    library = Library(takes, channels, rate)
    found = opened(monkeypatch, library)
    assert (found.rate, found.channels) == form, case
    if library.opened[0] != form:
        assert "refused: 16000 Hz" in found.why
    assert len(library.opened) <= 8 * channels


def test_eight_kilohertz_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """CASES H5."""
    found = opened(monkeypatch, Library(only({8_000}, {1}), 1, 8_000))
    assert found.rate == 8_000
    assert found.why.endswith("; at 8000 Hz words are heard less surely")


def test_a_channel_that_is_named_is_among_those_that_are_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    library = Library(only({48_000}, {4, 6}), 6)
    _, found = card(monkeypatch, library).open(Job(channels=3))
    assert found.channels == 6


@pytest.mark.parametrize(
    ("number", "text", "advice"),
    [
        (ALSA_EBUSY, "Device or resource busy", "another program holds it"),
        (ALSA_EINVAL, "Invalid argument", "name another device as the source of the lane"),
    ],
)
def test_a_device_that_cannot_be_opened_says_what_was_tried(monkeypatch: pytest.MonkeyPatch, number: int, text: str, advice: str) -> None:
    """CASES R4: each format that was tried, with the kernel's own word for it; a busy one is asked once."""
    library = Library(never(number, text), 2)
    with pytest.raises(DeviceError) as caught:
        card(monkeypatch, library).open(Job(channels=0))
    line = str(caught.value)
    assert line.startswith("Thing: USB Audio (hw:1,0): it cannot be opened (16000 Hz 2 ch: ")
    assert text in line and line.endswith(f"; {advice}")
    assert isinstance(caught.value.__cause__, OSError) and caught.value.__cause__.errno == -number
    assert (len(library.opened) == 1) == (number == ALSA_EBUSY)


def test_a_device_without_rights_names_node_and_group(monkeypatch: pytest.MonkeyPatch) -> None:
    """CASES S9."""
    monkeypatch.setattr(soundcard, "where_are_they", lambda: "/dev/snd/pcmC1D0c belongs to the group audio, this user to users")
    library = Library(never(ALSA_EACCES, "Permission denied"), 1)
    with pytest.raises(DeviceError, match=r"Permission denied\); /dev/snd/pcmC1D0c belongs to the group audio, this user to users"):
        card(monkeypatch, library).open(Job())
    assert len(library.opened) == 1


def test_a_stream_that_opens_and_does_not_start_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the next format would find it busy."""
    library = Library(only({16_000}, {1}), 1)

    def refuse(self: Stream) -> None:
        raise PortAudioError("Device unavailable", -9985)

    monkeypatch.setattr(Stream, "start", refuse)
    with pytest.raises(DeviceError, match="Device unavailable") as caught:
        card(monkeypatch, library).open(Job())
    assert library.closed == 1
    assert isinstance(caught.value.__cause__, OSError) and caught.value.__cause__.errno == errno.EBUSY


def test_each_look_starts_the_library_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """CASES H6: its list is as old as its start."""
    library = Library(never(ALSA_EBUSY, "busy"), 1)
    it = card(monkeypatch, library)
    for _ in range(3):
        with pytest.raises(DeviceError):
            it.open(Job())
    assert library.starts == 0 and len(library.opened) == 3


def test_jacks_samples_are_floats(monkeypatch: pytest.MonkeyPatch) -> None:
    """PortAudio's blocking reads of it write four bytes a sample whatever was asked for."""
    found = opened(monkeypatch, Library(only({48_000}, {2}), 2, name="system", host="JACK Audio Connection Kit"))
    assert (found.rate, found.channels, found.width) == (48_000, 2, 4)


def test_a_servers_source_is_aimed_at_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    source = Source("alsa_input.usb", "Desk", 44_100, 1, monitor=False, muted=False)
    monitor = Source("speakers.monitor", "Monitor of Speakers", 48_000, 2, monitor=True, muted=False)
    monkeypatch.setattr(soundcard, "ask", lambda: Server("PipeWire", source.name, (monitor, source)))
    everything = only({44_100, 48_000}, set(range(1, 65)))
    found = opened(monkeypatch, Library(everything, 64, name="pipewire"))
    assert (found.source, found.rate, found.channels) == ("alsa_input.usb", 44_100, 1)
    assert 'target.object = "alsa_input.usb"' in os.environ["PIPEWIRE_ALSA"]
    assert "node.dont-reconnect = true" in os.environ["PIPEWIRE_ALSA"]  # or another microphone would take its place
    assert os.environ["PULSE_SOURCE"] == "alsa_input.usb"
    found = opened(monkeypatch, Library(everything, 64, name="pipewire"), device="speakers.monitor")
    assert 'target.object = "speakers" stream.capture.sink = true' in os.environ["PIPEWIRE_ALSA"]
    assert (found.source, found.channels) == ("speakers.monitor", 2)


def test_what_a_card_can_do_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    it = card(monkeypatch, Library(only({44_100, 48_000}, {2}), 2))
    (device,), _ = it.devices()
    assert it.rates(device) == (44_100, 48_000)
