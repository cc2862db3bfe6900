"""Which device is meant, and the line where none is."""

from __future__ import annotations

import grp
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from voiced.errors import DeviceError
from voiced.sources import devices
from voiced.sources.devices import Device, all_devices, attempts, choose
from voiced.sources.servers import Server, Source

CARDS_FILE = """\
 0 [Loopback       ]: Loopback - Loopback
                      Loopback 1
 1 [Device         ]: USB-Audio - USB PnP Sound Device
                      C-Media at usb-1
 2 [ArrayUAC10     ]: USB-Audio - reSpeaker XVF3800
"""

LOOPBACK = Device(0, "Loopback: PCM (hw:0,1)", "ALSA", 2, 48_000, "hw:CARD=Loopback,DEV=1", monitor=True)
USB = Device(1, "USB PnP Sound Device: Audio (hw:1,0)", "ALSA", 1, 44_100, "hw:CARD=Device,DEV=0")
ARRAY = Device(2, "reSpeaker XVF3800: USB Audio (hw:2,0)", "ALSA", 6, 48_000, "hw:CARD=ArrayUAC10,DEV=0")
PIPEWIRE = Device(3, "pipewire", "ALSA", 64, 44_100)
DEFAULT = Device(4, "default", "ALSA", 64, 44_100)
CARDS = [LOOPBACK, USB, ARRAY]

DESK = Device(3, "USB PnP Sound Device Mono", "PipeWire", 1, 48_000, "alsa_input.usb-C-Media.mono", "alsa_input.usb-C-Media.mono")
HEADSET = Device(3, "Headset", "PipeWire", 1, 8_000, "bluez_input.00_11", "bluez_input.00_11")
MONITOR = Device(3, "Monitor of Speakers", "PipeWire", 2, 48_000, "alsa_output.hdmi.monitor", "alsa_output.hdmi.monitor", True)
SERVED = [PIPEWIRE, DEFAULT, MONITOR, DESK, HEADSET]


def source(device: Device) -> Source:
    return Source(device.source, device.name, device.rate, device.channels, device.monitor, device.muted)


@pytest.mark.parametrize(
    ("wanted", "there", "default", "device", "why"),
    [
        ("auto", SERVED, DESK.source, DESK, "auto: the sound server's default source"),
        ("auto", SERVED, HEADSET.source, HEADSET, "auto: the sound server's default source"),
        (
            "auto",
            SERVED,
            MONITOR.source,
            DESK,
            "default source 'alsa_output.hdmi.monitor' is a monitor, which gives what the machine plays",
        ),
        ("auto", SERVED, "", DESK, "auto: the sound server's first source that is a microphone; skipped what the machine plays: 'alsa_out"),
        ("auto", [*CARDS, DEFAULT, PIPEWIRE], "", PIPEWIRE, "of which nothing is known without pactl"),
        ("auto", [USB, ARRAY, DEFAULT], "", DEFAULT, "of which nothing is known without pactl"),
        ("auto", [*CARDS, DEFAULT], "", USB, "skipped what the machine plays: 'hw:CARD=Loopback"),  # `default` is card 0
        (
            "auto",
            CARDS,
            "",
            USB,
            "no sound server, so the first device that is a microphone; skipped what the machine plays: 'hw:CARD=Loop",
        ),
        ("2", CARDS, "", ARRAY, "named"),
        ("3", SERVED, DESK.source, DESK, "the default source of 3"),
        ("xvf3800", CARDS, "", ARRAY, "named"),
        ("hw:1,0", CARDS, "", USB, "named"),
        ("hw:1", CARDS, "", USB, "named"),
        ("plughw:1,0", CARDS, "", USB, "named"),
        ("hw:Device", CARDS, "", USB, "named"),
        ("plughw:CARD=ArrayUAC10,DEV=0", CARDS, "", ARRAY, "named"),
        ("PipeWire", [PIPEWIRE, Device(9, "pipewire two", "ALSA", 2, 48_000)], "", PIPEWIRE, "named"),
        ("pipewire", SERVED, HEADSET.source, HEADSET, "the default source of pipewire"),
        ("bluez_input", SERVED, DESK.source, HEADSET, "named"),
        ("loopback", CARDS, "", LOOPBACK, "named"),
        ("alsa_output.hdmi.monitor", SERVED, DESK.source, MONITOR, "named"),
    ],
)
def test_the_device_that_is_meant(wanted: str, there: list[Device], default: str, device: Device, why: str) -> None:
    """CASES S2, S7, S8, S14: an index, a card by number or by its own name, plug or not, a source, a part of a name, or auto."""
    chosen, reason = choose(wanted, there, default)
    assert chosen == device
    assert why in reason


def test_a_device_that_is_not_there_lists_those_that_are_the_nearest_first() -> None:
    with pytest.raises(DeviceError) as caught:
        choose("respeeker xvf3000: usb", CARDS)
    line = str(caught.value)
    assert line.startswith("capture: there is no device 'respeeker xvf3000: usb'; there are: 'hw:CARD=ArrayUAC10,DEV=0' (reSpeaker XVF3800")
    assert all(device.name in line for device in CARDS)


@pytest.mark.parametrize("wanted", ["7", "hw:7,0", "plughw:1,3", "hw:Other"])
def test_an_index_or_card_that_is_not_there(wanted: str) -> None:
    """CASES S2."""
    with pytest.raises(DeviceError, match=f"there is no device '{wanted}'; there are: .*'hw:CARD=Device,DEV=0'.*; or say auto"):
        choose(wanted, CARDS)


def test_what_fits_two_is_refused_with_both() -> None:
    with pytest.raises(DeviceError, match=r"'usb' fits 2 devices; say which: 'hw:CARD=Device,DEV=0' \(USB PnP.*'hw:CARD=ArrayUAC10"):
        choose("usb", CARDS)
    twins = [USB, replace(USB, index=5, id="hw:CARD=Device_1,DEV=0")]
    with pytest.raises(DeviceError, match=r"fits 2 devices; say which: 'hw:CARD=Device,DEV=0' .*, 'hw:CARD=Device_1,DEV=0'"):
        choose(USB.name, twins)
    assert choose("hw:CARD=Device_1,DEV=0", twins)[0].index == 5


@pytest.mark.parametrize("there", [[LOOPBACK], [PIPEWIRE, MONITOR]])
def test_auto_never_listens_to_what_the_machine_plays(there: list[Device]) -> None:
    """CASES S14."""
    with pytest.raises(
        DeviceError, match=r"everything that records is a loopback or a monitor.*; plug in a microphone, or name one of these: "
    ):
        choose("auto", there)


@given(
    st.text(max_size=20), st.lists(st.sampled_from([*CARDS, *SERVED]), unique=True), st.sampled_from(["", *(one.source for one in SERVED)])
)
def test_whatever_is_named_there_is_one_device_or_one_line(wanted: str, there: list[Device], default: str) -> None:
    try:
        device, why = choose(wanted, there, default)
        assert device in there and why
    except DeviceError as error:
        assert str(error).count("\n") == wanted.count("\n") * 0


def test_what_the_library_found_gets_ids_and_the_servers_sources() -> None:
    """CASES H1: a card keeps its id whatever number it has."""
    bare = [replace(device, id="", monitor=False) for device in CARDS]
    assert all_devices(bare, None, CARDS_FILE) == CARDS
    moved = CARDS_FILE.replace(" 1 [Device", " 7 [Device")
    renumbered = replace(bare[1], name="USB PnP Sound Device: Audio (hw:7,0)")
    (found,) = all_devices([renumbered], None, moved)
    assert found.id == USB.id
    server = Server("PipeWire", DESK.source, tuple(map(source, (MONITOR, DESK, HEADSET))))
    assert all_devices([PIPEWIRE, DEFAULT], server, "") == SERVED
    assert all_devices(bare[:1], server, CARDS_FILE) == CARDS[:1]  # no plugin leads to its sources


def test_a_name_steers_no_terminal_and_begins_no_line() -> None:
    named = "Evil\x1b[2J\nroot: \u202eok"
    there = all_devices([PIPEWIRE, replace(USB, name=named)], Server("PipeWire", "", (replace(source(HEADSET), description=named),)), "")
    assert [device.name for device in there] == ["pipewire", *["Evil [2J root:  ok"] * 2]
    with pytest.raises(DeviceError) as caught:
        choose("other", there)
    assert str(caught.value).isprintable()


def test_a_way_that_gives_nothing_is_followed_by_the_next() -> None:
    """CASES H12: opened, and no data ever."""
    pulse = Device(5, "pulse", "ALSA", 32, 44_100)
    server = Server("PipeWire", DESK.source, (source(DESK),))
    ways = [all_devices([DEFAULT, pulse, PIPEWIRE], server, "", way)[-1] for way in range(4)]
    assert [one.index for one in ways] == [PIPEWIRE.index, pulse.index, PIPEWIRE.index, pulse.index]  # the default may be a bare card
    assert all_devices([DEFAULT], server, "")[-1].index == DEFAULT.index
    assert {one.source for one in ways} == {DESK.source}


def test_a_pulse_server_is_not_reached_by_pipewires_plugin() -> None:
    pulse = Device(5, "pulse", "ALSA", 32, 44_100)
    server = Server("PulseAudio", DESK.source, (source(DESK),))
    *_, found = all_devices([PIPEWIRE, pulse], server, "")
    assert (found.index, found.host, found.source) == (5, "PulseAudio", DESK.source)


def test_formats_are_tried_from_what_a_lane_wants_to_what_there_is() -> None:
    """CASES R2, R3, R4, R6, R7, R8, H5."""
    assert attempts(DESK, None, 0) == [(48_000, 1)]
    assert attempts(HEADSET, None, 0) == [(8_000, 1)]  # never a rate that it does not have
    assert attempts(MONITOR, 16_000, 1) == [(16_000, 2)]
    assert attempts(USB, None, 0) == [(rate, 1) for rate in (16_000, 48_000, 44_100, 32_000, 96_000, 24_000, 8_000)]
    assert attempts(USB, None, 5)[0] == (16_000, 1)  # more than there are: the lane says which channels there are
    assert attempts(ARRAY, None, 0)[:2] == [(16_000, 6), (48_000, 6)]
    assert (48_000, 2) in attempts(ARRAY, None, 0)
    assert [one for one in attempts(ARRAY, 48_000, 3) if one[0] == 48_000] == [(48_000, count) for count in (3, 6, 5, 4, 2, 1)]
    assert attempts(PIPEWIRE, None, 0)[:2] == [(16_000, 2), (48_000, 2)]


def test_no_device_at_all_says_what_to_look_at(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """CASES S3, S6, S9."""
    cards = tmp_path / "cards"
    monkeypatch.setattr(devices, "CARDS", cards)
    monkeypatch.setattr(devices, "NODES", tmp_path / "snd")
    monkeypatch.setenv("XDG_RUNTIME_DIR", "/run/user/1000")
    with pytest.raises(DeviceError, match="no device that records; plug in a microphone"):
        choose("auto", [])
    cards.write_text(CARDS_FILE)
    with pytest.raises(DeviceError, match=r"the kernel knows .*USB-Audio - USB PnP Sound Device.*: another program may hold"):
        choose("auto", [])
    cards.unlink()
    monkeypatch.delenv("XDG_RUNTIME_DIR")
    with pytest.raises(DeviceError, match=r"XDG_RUNTIME_DIR is not set.*loginctl enable-linger"):
        choose("auto", [])


@pytest.fixture
def nodes() -> Iterator[Path]:
    """A folder that any user may look into, as pytest's own are not."""
    with tempfile.TemporaryDirectory(prefix="voiced-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        yield folder


@pytest.mark.skipif(os.geteuid() != 0, reason="root alone can become a user without rights")
def test_a_node_without_rights_is_named_with_its_group_and_ours(nodes: Path) -> None:
    """CASES S9."""
    node = nodes / "pcmC1D0c"
    node.touch(0o660)
    os.chown(node, 0, grp.getgrnam("audio").gr_gid)
    code = (
        "import os, sys; from pathlib import Path; from voiced.sources import devices\n"
        "devices.NODES = Path(sys.argv[1]); os.setgroups([]); os.setgid(65534); os.setuid(65534)\n"
        "print(devices.where_are_they())"
    )
    done = subprocess.run([sys.executable, "-c", code, str(nodes)], capture_output=True, text=True, check=True)
    assert done.stdout == (f"{node} belongs to the group audio, this user to nogroup: usermod -aG audio USER as root, then log in again\n")
