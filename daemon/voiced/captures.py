"""The capture processes as the main process sees them: one a device, shared by the lanes that name it.

What lives here: which capture process there must be, which lanes are attached to it, when it is begun again. What must not:
the sound (it goes from the capture process to the lane past us), the sound library.
"""

from __future__ import annotations

import logging
import socket
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from . import wire
from .children import START_SECONDS, Backoff, Child
from .desk import PlacementRow
from .settings import LaneSettings, Settings
from .sources.devices import no_channel

log = logging.getLogger("voiced")

OPEN_STALLS = 12
"""Stall times that a device may take to open, some more than the capture process itself allows it (capture.py)."""

LOOKS = 40
"""How often a capture process looks for a device that is not there before another takes its place: a minute where it is busy,
some where it is away. What the sound library of one process does not find, that of another may."""


MUTED = "the sound server has its source muted (pactl set-source-mute SOURCE 0)"


@dataclass(slots=True)
class _Device:
    """A device that at least one lane wants."""

    name: str
    backoff: Backoff
    lanes: dict[str, LaneSettings] = field(default_factory=dict)
    child: Child | None = None
    opened: bool = False
    channels: int = 0  # of the open one
    failure: str = ""
    silence: str = ""
    stalls: int = 0
    lost: int = 0
    late: dict[str, int] = field(default_factory=dict)
    row: PlacementRow | None = None


class Captures:
    """Runs in main's loop.

    sound    called with a lane's name and the descriptor of its sound (taken over) when its device is open
    failed   called with a lane's name, its new health and a line that says why, when its device is not there
    silent   called with a lane's name and a line that says so when its device gives nothing but zeros, "" when it gives sound again
    """

    def __init__(
        self,
        settings: Settings,
        sound: Callable[[str, int], None],
        failed: Callable[[str, str, str], None],
        later: Callable[[float, Callable[[], None]], None],
        silent: Callable[[str, str], None],
    ) -> None:
        self._settings, self._sound, self._failed, self._silent, self._later = settings, sound, failed, silent, later
        self._devices: dict[str, _Device] = {}
        self._closing = False
        self.restarts = 0
        self.frames_lost = 0
        """In devices, since the start."""
        self.late: Counter[str] = Counter()
        """Frames that a lane was too slow for, since the start."""

    def attach(self, lane: LaneSettings) -> None:
        """Gives the lane its device's sound now, or as soon as it can be had; a lane that is attached already gets a new socket."""
        capture = self._settings.capture
        device = self._devices.get(lane.source)
        if device is None:
            device = _Device(lane.source, Backoff(capture.reopen_ms / 1000, capture.reopen_max_ms / 1000))
            self._devices[lane.source] = device
        device.lanes[lane.name] = lane
        if device.opened:
            self._connect(device, lane.name)
        elif device.child is None:
            self._spawn(device)

    def detach(self, lane: LaneSettings) -> None:
        """The lane hears nothing any more; the process of a device that nobody hears ends."""
        device = self._devices.get(lane.source)
        if device is None or device.lanes.pop(lane.name, None) is None:
            return
        if not device.lanes:
            del self._devices[lane.source]
            if device.child:
                device.child.kill()
        elif device.child:
            device.child.send({"detach": lane.name})

    def kill(self, name: str) -> bool:
        """Ends a device's process that has stopped working; another takes its place. False where there is none, or one that starves."""
        device = self._devices.get(name)
        if not (device and device.child) or device.child.starved:
            return False
        device.child.kill()
        return True

    def watch(self, now: float) -> None:
        """Ends a process that has neither opened its device nor said that it cannot: it opens and gives up by a clock of its own."""
        for device in self._devices.values():
            patience_s = START_SECONDS + OPEN_STALLS * self._settings.capture.stall_ms / 1000
            if device.child and not device.opened and now - device.child.heard > patience_s:
                log.error("the capture process of %s does not start", device.name)
                device.child.kill()

    def close(self) -> None:
        self._closing = True
        for child in self.children():
            child.kill()

    def rows(self) -> Iterable[PlacementRow]:
        return [device.row for device in self._devices.values() if device.row]

    def numbers(self) -> dict[str, float]:
        return {"capture_restarts": self.restarts, "capture_frames_lost": self.frames_lost, "capture_frames_late": self.late.total()}

    def children(self) -> list[Child]:
        return [device.child for device in self._devices.values() if device.child]

    def _spawn(self, device: _Device) -> None:
        if not device.lanes or device.child:
            return
        capture, placement = self._settings.capture, self._settings.placement
        mine = [lane for lane in self._settings.lanes if lane.source == device.name]  # those too that are muted now
        channels = [int(lane.channel) + 1 if lane.channel.isdecimal() else 0 for lane in mine]
        job = {
            "device": device.name,
            "block_ms": round(capture.block_ms),
            "rate": None,
            "channels": max(channels) if all(channels) else 0,
            "stall_ms": round(capture.stall_ms),
            "looks": LOOKS,
            "way": device.stalls,  # one way to a sound server that opens and gives nothing is followed by the next
            "reopen_ms": round(capture.reopen_ms),
            "reopen_max_ms": round(capture.reopen_max_ms),
            "placement": {"cores": list(placement.capture), "nice": placement.nice_capture},
        }
        device.child = Child("capture", device.name, job, self._said, self._exited)

    def _connect(self, device: _Device, lane: str) -> None:
        assert device.child
        channel = device.lanes[lane].channel
        if channel.isdecimal() and int(channel) >= device.channels:  # a lane without its channel waits for another device, as without one
            line = str(no_channel(device.name, int(channel), device.channels))
            log.warning("lane %s: %s", lane, line)
            self._failed(lane, "no_device", line)
            return
        theirs, ours = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            device.child.send({"attach": lane}, (theirs.fileno(),))
        self._sound(lane, ours.detach())
        self._silent(lane, device.silence)

    def _said(self, child: Child, message: wire.Message) -> None:
        device = self._devices.get(child.name)
        if device is None or device.child is not child:
            return
        match message.body:
            case {"opened": what}:
                self._opened(device, what)
            case {"failed": {"error": line, "health": health}}:
                if line != device.failure:  # said once, not at every try
                    log.warning("%s; it is looked for again and again", line)
                device.failure = line
                device.stalls += health == "stalled"
                self._lose(device, health)
            case {"late": seconds}:  # the process goes on waiting, and ends when it gives up
                line = f"{device.name}: it is open and has given no sound for {seconds:.1f} s"
                log.warning("%s", line)
                for lane in device.lanes:
                    self._failed(lane, "stalled", line)
            case {"lost": lost, "lanes": lanes}:
                self._count(device, lost, lanes)
            case {"silent": silent, "muted": muted}:
                cause = MUTED if muted else "is there a mute switch?"
                self._hush(device, f"digital silence: nothing but zeros comes; {cause}" if silent else "")

    def _count(self, device: _Device, lost: int, lanes: Mapping[str, int]) -> None:
        """Totals of this process, of which the new ones count."""
        if lost > device.lost:
            log.warning("%s has lost %d frames so far", device.name, lost)
        self.frames_lost += lost - device.lost
        device.lost = lost
        for lane, total in lanes.items():
            new = total - device.late.get(lane, 0)
            if new > 0:
                log.warning("lane %s was too slow for %d frames of %s", lane, new, device.name)
                self.late[lane] += new
        device.late = dict(lanes)

    def _hush(self, device: _Device, silence: str) -> None:
        if silence != device.silence:
            log.warning("%s: %s", device.name, silence) if silence else log.info("%s gives sound again", device.name)
        device.silence = silence
        for lane in device.lanes:
            self._silent(lane, silence)

    def _opened(self, device: _Device, what: dict[str, Any]) -> None:
        log.info("listening on %s (%s), %d Hz, %d ch: %s", what["device"], what["host"], what["rate"], what["channels"], what["why"])
        device.opened, device.channels, device.failure = True, what["channels"], ""
        if what["placement"]:
            device.row = PlacementRow.from_plain(what["placement"] | {"process": f"capture {device.name}"})
        for lane in device.lanes:
            self._connect(device, lane)

    def _lose(self, device: _Device, health: str) -> None:
        device.opened, device.row, device.silence = False, None, ""
        device.lost, device.late = 0, {}
        for lane in device.lanes:
            self._silent(lane, "")
            self._failed(lane, health, device.failure or "its capture process ended; it is started again")

    def _exited(self, child: Child) -> None:
        device = self._devices.get(child.name)
        if device is None or device.child is not child:
            return
        device.child = None
        if self._closing:
            return
        if device.opened or not device.failure:  # it ended without a word
            log.warning("the capture process of %s %s; it is started again", device.name, child.describe_end())
            self._lose(device, "no_device")
        self.restarts += 1
        self._later(device.backoff.delay(time.monotonic() - child.started), lambda: self._spawn(device))
