"""Which device is meant, and the line where none is."""

from __future__ import annotations

from pathlib import Path

import pytest
from voiced.errors import DeviceError
from voiced.sources import devices
from voiced.sources.devices import Device, attempts, choose

LOOPBACK = Device(0, "Loopback: PCM (hw:0,1)", "ALSA", 2, 48_000)
USB = Device(1, "USB PnP Sound Device: Audio (hw:1,0)", "ALSA", 1, 44_100)
ARRAY = Device(2, "reSpeaker XVF3800: USB Audio (hw:2,0)", "ALSA", 6, 48_000)
PIPEWIRE = Device(3, "pipewire", "ALSA", 64, 44_100)
DEFAULT = Device(4, "default", "ALSA", 64, 44_100)
CARDS = [LOOPBACK, USB, ARRAY]


@pytest.mark.parametrize(
    ("wanted", "there", "device", "why"),
    [
        ("auto", [*CARDS, DEFAULT, PIPEWIRE], PIPEWIRE, "sound server's default"),
        ("auto", [*CARDS, DEFAULT], DEFAULT, "sound server's default"),
        ("auto", CARDS, USB, "no sound server"),
        ("2", CARDS, ARRAY, "named"),
        ("xvf3800", CARDS, ARRAY, "named"),
        ("hw:1,0", CARDS, USB, "named"),
        ("PipeWire", [PIPEWIRE, Device(9, "pipewire two", "ALSA", 2, 48_000)], PIPEWIRE, "named"),
        ("loopback", CARDS, LOOPBACK, "named"),
    ],
)
def test_the_device_that_is_meant(wanted: str, there: list[Device], device: Device, why: str) -> None:
    chosen, reason = choose(wanted, there)
    assert chosen == device
    assert why in reason


def test_a_device_that_is_not_there_lists_those_that_are_the_nearest_first() -> None:
    with pytest.raises(DeviceError) as caught:
        choose("respeeker xvf3000: usb", CARDS)
    line = str(caught.value)
    assert line.startswith("capture: there is no device 'respeeker xvf3000: usb'; there are: 'reSpeaker XVF3800")
    assert all(device.name in line for device in CARDS)


def test_an_index_that_is_not_there() -> None:
    with pytest.raises(DeviceError, match="no device '7'; there are"):
        choose("7", CARDS)


def test_a_part_of_two_names_asks_which() -> None:
    with pytest.raises(DeviceError, match="'usb' is part of the names of 2 devices; say which: 'USB PnP"):
        choose("usb", CARDS)


def test_auto_never_listens_to_what_the_machine_plays() -> None:
    with pytest.raises(DeviceError, match="loopback or a monitor; name one"):
        choose("auto", [LOOPBACK])


def test_no_device_at_all_says_what_to_look_at(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    cards = tmp_path / "cards"
    monkeypatch.setattr(devices, "_CARDS", cards)
    monkeypatch.setenv("XDG_RUNTIME_DIR", "/run/user/1000")
    with pytest.raises(DeviceError, match="no device that records; plug in a microphone"):
        choose("auto", [])
    cards.write_text(" 1 [Device         ]: USB-Audio - USB PnP Sound Device\n                      C-Media at usb-1\n")
    with pytest.raises(DeviceError, match=r"the kernel knows USB-Audio - USB PnP Sound Device: .* group audio"):
        choose("auto", [])
    monkeypatch.delenv("XDG_RUNTIME_DIR")
    with pytest.raises(DeviceError, match="XDG_RUNTIME_DIR is not set"):
        choose("auto", [])


def test_formats_are_tried_from_what_a_lane_wants_to_what_there_is() -> None:
    assert attempts(PIPEWIRE, None, 1) == [(16_000, 1), (44_100, 1), (44_100, 8), (16_000, 8)]
    assert attempts(USB, None, 1) == [(16_000, 1), (44_100, 1)]
    assert attempts(ARRAY, 48_000, 3) == [(48_000, 3), (48_000, 6), (16_000, 6)]
    assert attempts(USB, None, 5) == [(16_000, 1), (44_100, 1)]  # more than there are: the lane says which channels there are
