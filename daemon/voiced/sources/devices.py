"""Which sound device is meant, how to open it, and the line that says why.

What lives here: choosing from lists that are handed in. What must not: the sound library, the sound server.

A device is a card of the kernel's, something of JACK's, or a source of a sound server. It is known by its id, which stays when something
is plugged in or out and after a restart: `hw:CARD=Device,DEV=0`, or the source's name on its server.
"""

from __future__ import annotations

import difflib
import grp
import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ..errors import DeviceError
from ..units import RATE
from .servers import Server, Source

MOST_CHANNELS = 8  # arrays have up to 8

PLUGINS = ("pipewire", "pulse", "default")
"""Names of the sound library's ways to a sound server, the surest first: `default` may be a bare card."""

_PLUGIN_CHANNELS = 2  # a plugin claims 64 or so, and mixes them from whatever its server has

_ECHO = re.compile(r"\bloopback\b|\bmonitor\b", re.IGNORECASE)  # these record what the machine plays, not what the room says

CARDS = Path("/proc/asound/cards")

NODES = Path("/dev/snd")

_CARD = re.compile(r"^ *(\d+) \[(\S+) *\]: (.*)$", re.MULTILINE)
_NUMBERED = re.compile(r"\(hw:(\d+),(\d+)\)")  # at the end of the name that the library gives a card
_HARDWARE = re.compile(r"(?:plug)?hw:(?:CARD=)?(\w+)(?:,(?:DEV=)?(\d+))?", re.IGNORECASE)

_LISTED = 8


@dataclass(frozen=True, slots=True)
class Device:
    """Something that can record.

    index     its number in the sound library's list, which changes when something is plugged in
    host      ALSA, JACK; of a server's source: PipeWire or PulseAudio
    channels  how many it can give at the most
    rate      frames a second that it prefers
    id        the name that stays, "" for none
    source    its name on its server, "" for what is no server's; `index` is then that of the way there
    monitor   it records what the machine plays
    muted     its server says that it gives silence
    rates     frames a second that it takes, where it was asked
    """

    index: int
    name: str
    host: str
    channels: int
    rate: int
    id: str = ""
    source: str = ""
    monitor: bool = False
    muted: bool = False
    rates: tuple[int, ...] = ()

    @property
    def plugin(self) -> bool:
        """A way to a server, whose default source it gives."""
        return self.name in PLUGINS and not self.source


def all_devices(found: Sequence[Device], server: Server | None, cards: str, way: int = 0) -> list[Device]:
    """What the sound library found, with ids, and the server's sources; `cards` is the text of /proc/asound/cards.

    way   which plugin leads to the sources, where there are several: 0 the surest, and round again
    """
    ids = {number: card for number, card, _ in _CARD.findall(cards)}

    def known(device: Device) -> Device:
        number = _NUMBERED.search(device.name)
        card = ids.get(number[1]) if number else None
        hw = f"hw:CARD={card},DEV={number[2]}" if number and card else ""
        return replace(device, name=_printable(device.name), id=hw, monitor=bool(_ECHO.search(device.name)))

    devices = [known(device) for device in found]
    ways = [device for name in PLUGINS for device in devices if device.name == name and _leads_to(name, server)]
    if server is None or not ways:
        return devices
    ways = [one for one in ways if one.name != "default"] or ways  # that may be a bare card
    return [*devices, *(_of_server(source, server, ways[way % len(ways)]) for source in server.sources)]


def _printable(name: str) -> str:
    """Whoever makes a headset or a USB stick names it: what would steer a terminal, or begin a line of the log, is a space."""
    return "".join(each if each.isprintable() else " " for each in name)


def _leads_to(plugin: str, server: Server | None) -> bool:
    return server is not None and (plugin != "pipewire" or server.name == "PipeWire")


def _of_server(source: Source, server: Server, way: Device) -> Device:
    monitor = source.monitor or "loopback" in source.description.casefold()  # what is remapped from a monitor is meant to be heard
    return Device(
        way.index,
        _printable(source.description),
        server.name,
        source.channels,
        source.rate or way.rate,
        source.name,
        source.name,
        monitor,
        source.muted,
    )


def choose(wanted: str, devices: Sequence[Device], default: str = "") -> tuple[Device, str]:
    """The device that `wanted` means and why that one: "auto", an id, an index, a name, or a part of one name only.

    default  the name of the server's default source, "" where there is none
    Raises DeviceError where there is none or more than one; its line names those that there are, the nearest first.
    """
    if not devices:
        raise DeviceError("capture", "there is no device that records", where_are_they())
    if wanted == "auto":
        return _automatic(devices, default)
    matches = _matches(wanted, devices)
    if len(matches) == 1:
        if matches[0].plugin and (source := _default(devices, default)):
            return source, f"the default source of {wanted}, named in the settings"
        return matches[0], "named in the settings"
    if matches:
        what = f"{wanted!r} fits {len(matches)} devices"
        raise DeviceError("capture", what, f"say which: {_listed(matches)}")
    near = sorted(devices, key=lambda device: -max(_likeness(wanted, device.name), _likeness(wanted, device.id)))
    raise DeviceError("capture", f"there is no device {wanted!r}", f"there are: {_listed(near)}; or say auto")


def _matches(wanted: str, devices: Sequence[Device]) -> list[Device]:
    """By the surest way that fits any: an index, a card, a whole id or name, a part of one."""
    if wanted.isdecimal():
        return [device for device in devices if device.index == int(wanted) and not device.source]
    key = wanted.casefold()
    hardware = _HARDWARE.fullmatch(wanted)
    card, number = (hardware[1], hardware[2] or "0") if hardware else ("", "")
    ways: list[Callable[[Device], bool]] = [
        lambda device: key == device.id.casefold(),
        lambda device: key == device.name.casefold(),
        lambda device: bool(card) and _is_card(device, card, number),
        lambda device: key in device.name.casefold() or key in device.id.casefold(),
    ]
    return next((found for way in ways if (found := [device for device in devices if way(device)])), [])


def _is_card(device: Device, card: str, number: str) -> bool:
    numbered = _NUMBERED.search(device.name)
    return device.id.casefold() == f"hw:card={card},dev={number}".casefold() or bool(numbered and numbered.groups() == (card, number))


def _automatic(devices: Sequence[Device], default: str) -> tuple[Device, str]:
    """The server's default, else its first real source; without a server the first real device."""
    sources = [device for device in devices if device.source]
    chosen = _default(devices, default)
    if chosen and not chosen.monitor:
        return chosen, "auto: the sound server's default source"
    if not sources:
        for name in PLUGINS:
            for device in devices:
                if device.name == name and not (name == "default" and _first_card_echoes(devices)):
                    return device, "auto: the sound server's default source, of which nothing is known without pactl"
    real = [device for device in [*sources, *devices] if not device.monitor and not device.plugin]
    skipped = [device for device in devices if device.monitor]
    if not real:
        what = "everything that records is a loopback or a monitor, which gives what the machine plays"
        raise DeviceError("capture", what, f"plug in a microphone, or name one of these: {_listed(skipped or devices)}")
    if chosen:
        return real[0], f"auto: the sound server's default source {chosen.source!r} is a monitor, which gives what the machine plays"
    passed = f"; skipped what the machine plays: {_listed(skipped)}" if skipped else ""
    first = "the sound server's first source" if real[0].source else "no sound server, so the first device"
    return real[0], f"auto: {first} that is a microphone{passed}"


def _first_card_echoes(devices: Sequence[Device]) -> bool:
    """The sound library's `default`, where no server has made it its own, is the first card: what that gives, may be what is played."""
    return any(device.monitor and (number := _NUMBERED.search(device.name)) and number[1] == "0" for device in devices)


def _default(devices: Sequence[Device], default: str) -> Device | None:
    return next((device for device in devices if device.source and device.source == default), None)


def _likeness(wanted: str, name: str) -> float:
    return difflib.SequenceMatcher(None, wanted.casefold(), name.casefold()).ratio()


def _listed(devices: Sequence[Device]) -> str:
    """Each once, some at the most: by what to call it, and what else it is called."""
    shown = [
        f"{device.id!r} ({device.name}, {device.host})" if device.id else f"{device.name!r} ({device.host}, {device.index})"
        for device in devices[:_LISTED]
    ]
    more = len(devices) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more else "")


def where_are_they() -> str:
    """What to do when there is nothing: of the rights, of the sound server, of the session, of the cable."""
    try:
        cards = [name for _, _, name in _CARD.findall(CARDS.read_text())]
    except OSError:
        cards = []
    if closed := closed_nodes():
        return closed
    if cards:
        return f"the kernel knows {', '.join(cards)}: another program may hold them, or start the sound server"
    if "XDG_RUNTIME_DIR" not in os.environ:
        return (
            "XDG_RUNTIME_DIR is not set, so no sound server of a user can be found (after a log-in by SSH or as a service: "
            "loginctl enable-linger USER, then set it to /run/user/UID)"
        )
    return "plug in a microphone, or start the sound server (systemctl --user start pipewire wireplumber)"


def closed_nodes() -> str:
    """Which node of a card that records this user may not open, whose it is and what to do; "" where there is none."""
    for node in sorted(NODES.glob("pcmC*D*c")):
        if not os.access(node, os.R_OK | os.W_OK):
            owner = _group(node.stat().st_gid)
            mine = ", ".join(sorted({_group(gid) for gid in {os.getegid(), *os.getgroups()}}))
            return f"{node} belongs to the group {owner}, this user to {mine}: usermod -aG {owner} USER as root, then log in again"
    return ""


def _group(gid: int) -> str:
    try:
        return grp.getgrgid(gid).gr_name
    except KeyError:
        return str(gid)


def no_channel(where: str, number: int, count: int) -> DeviceError:
    """Of a channel that a device with so many has not."""
    there = "channel 0 alone" if count == 1 else f"channels 0 to {count - 1}"
    return DeviceError(where, f"there is no channel {number}: the device gives {there}", "name one of these, or auto, or mix")


def attempts(device: Device, rate: int | None, channels: int) -> list[tuple[int, int]]:
    """(rate, channels) to try in order. A server gives a source as it is; a card is asked for what costs least, then for what it has.

    rate      asked for in the settings, or None for a lane's own
    channels  the least that the lanes need: a number that includes the channel they name, or 0 for all that there are
    """
    most = max(1, min(device.channels, _PLUGIN_CHANNELS if device.plugin else MOST_CHANNELS))
    if device.source:
        return [(rate or device.rate, most)]
    few = min(channels, most) if channels else most
    # 44,100 last: its ratio to 16,000 is the only one that is not small
    rates = list(dict.fromkeys((rate or RATE, 48_000, device.rate, 32_000, 96_000, 24_000, 8_000, 44_100)))
    counts = list(dict.fromkeys((few, most, *range(most, 0, -1))))
    return [(one, count) for count in counts for one in rates]
