"""Which sound device is meant, how to open it, and the line that says why.

What lives here: choosing from a list that is handed in. What must not: the sound library.
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ..errors import DeviceError
from ..units import RATE

MOST_CHANNELS = 8  # arrays have up to 8; a sound server's plugin claims 64 and mixes them from whatever there is

_SERVERS = ("pipewire", "pulse", "default")
"""Names under which a sound server's own default source appears, the surest first: `default` may be a bare card."""

_ECHO = re.compile(r"loopback|monitor", re.IGNORECASE)  # these record what the machine plays, not what the room says

_CARDS = Path("/proc/asound/cards")


@dataclass(frozen=True, slots=True)
class Device:
    """One entry of the sound library's list that can record.

    index     its number in the list, which changes when something is plugged in
    host      the library's host API (ALSA, JACK)
    channels  how many it can give at the most
    rate      frames a second that it prefers
    """

    index: int
    name: str
    host: str
    channels: int
    rate: int


def choose(wanted: str, devices: Sequence[Device]) -> tuple[Device, str]:
    """The device that `wanted` means ("auto", an index, a name, or a part of one name only) and why that one.

    Raises DeviceError where there is none or more than one; its line names those that there are, the nearest first.
    """
    if not devices:
        raise DeviceError("capture", "there is no device that records", _where_are_they())
    if wanted == "auto":
        return _automatic(devices)
    if wanted.isdecimal():
        matches = [device for device in devices if device.index == int(wanted)]
    else:
        names = [(device, device.name.casefold()) for device in devices]
        key = wanted.casefold()
        matches = [device for device, name in names if name == key] or [device for device, name in names if key in name]
    if len(matches) == 1:
        return matches[0], "named in the settings"
    if matches:
        named = _listed(matches)
        raise DeviceError("capture", f"{wanted!r} is part of the names of {len(matches)} devices", f"say which: {named}")
    near = sorted(devices, key=lambda device: -_likeness(wanted, device.name))
    raise DeviceError("capture", f"there is no device {wanted!r}", f"there are: {_listed(near)}; or say auto")


def _automatic(devices: Sequence[Device]) -> tuple[Device, str]:
    for server in _SERVERS:
        for device in devices:
            if device.name == server:
                return device, "auto: the sound server's default source"
    real = [device for device in devices if not _ECHO.search(device.name)]
    if not real:
        advice = f"name one if it is what you want: {_listed(devices)}"
        raise DeviceError("capture", "every device that records is a loopback or a monitor", advice)
    return real[0], "auto: no sound server, so the first device that records"


def _likeness(wanted: str, name: str) -> float:
    return difflib.SequenceMatcher(None, wanted.casefold(), name.casefold()).ratio()


def _listed(devices: Sequence[Device]) -> str:
    return ", ".join(f"{device.name!r} ({device.host}, {device.index})" for device in devices)


def _where_are_they() -> str:
    """What to do when the list is empty: of a sound server, of the group, of the cable."""
    if "XDG_RUNTIME_DIR" not in os.environ:
        return "XDG_RUNTIME_DIR is not set, so no sound server of a user can be found; set it to /run/user/UID"
    try:
        cards = re.findall(r"^ *\d+ \[.*?\]: (.*)$", _CARDS.read_text(), re.MULTILINE)
    except OSError:
        cards = []
    if cards:
        return f"the kernel knows {', '.join(cards)}: start the sound server, or add this user to the group audio"
    return "plug in a microphone, or start the sound server (systemctl --user start pipewire wireplumber)"


def attempts(device: Device, rate: int | None, channels: int) -> list[tuple[int, int]]:
    """(rate, channels) to try in order: what the lanes want, then what the device prefers, then all that it has.

    rate      asked for in the settings, or None for a lane's own rate
    channels  the least that the lanes need: 1, or a number that includes the channel they name
    """
    most = max(1, min(device.channels, MOST_CHANNELS))
    few = min(max(channels, 1), most)
    tries = [(rate or RATE, few), (device.rate, few), (device.rate, most), (RATE, most)]
    return list(dict.fromkeys(tries))
