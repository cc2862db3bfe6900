"""Hears the sound server: that something came or went, and that the recording is still of the source that was opened.

What lives here: a thread of its own, which a server that hangs may hold. What must not: reading sound.

A server may move a recording to another microphone without a word to the program: its source has gone, or somebody has chosen another
default. That is a privacy fault, so it ends the recording, which is then begun anew, and says what it records. PipeWire is asked not to do
it (soundcard.py) and then ends the stream itself; PulseAudio, and whoever drags streams about by hand, are noticed here.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable

from .servers import Server, ask, events, jack_sockets, ours, sockets
from .soundcard import Opened

_LOOK_AGAIN_S = 1.0
"""Between two looks for a server that is not there: its socket, no more."""


class Attendant:
    """`watch` and `wait` are for the device's thread; `lost` is called in another, once, with a line that says what has become of it."""

    def __init__(self, lost: Callable[[str], None]) -> None:
        self._lost = lost
        self._stirred = threading.Event()
        self._opened: Opened | None = None
        self._follows = False
        self._verifying = threading.Lock()
        self._started = False
        self._subscribed = False
        self.muted = False
        """The server says that the source is muted: what comes from it is silence."""

    def watch(self, opened: Opened, *, follows: bool) -> None:
        """From now on the recording has to be of that source; `follows`: of the server's default, whichever that is."""
        self._opened, self._follows = opened, follows
        self._start()
        threading.Thread(target=self._verify, name="verify", daemon=True).start()

    def wait(self, seconds: float) -> bool:
        """True as soon as something has happened at the server since the last call."""
        self._start()
        stirred = self._stirred.wait(seconds)
        self._stirred.clear()
        return stirred

    @property
    def told(self) -> bool:
        """Whatever comes or goes is told: by the server, or (surroundings.py) by the file system, where there is no server, of JACK's
        neither, and none on another machine."""
        return self._subscribed or not ("PULSE_SERVER" in os.environ or any(path.exists() for path in (*sockets(), *jack_sockets())))

    def _start(self) -> None:
        if not self._started:
            self._started = True
            threading.Thread(target=self._attend, name="server", daemon=True).start()

    def _attend(self) -> None:
        while True:
            for kinds in events():
                if kinds or not self._subscribed:  # from here on it is told; what was before nobody has seen
                    self._subscribed = True
                    self._stirred.set()
                    self._verify()
            self._subscribed = False
            time.sleep(_LOOK_AGAIN_S)

    def _verify(self) -> None:
        opened = self._opened
        if opened is None:
            return
        with self._verifying:
            server, source = ask(), ours()
            if server is None or source is None or self._opened is None:
                return
            line = _verdict(opened, server, source, follows=self._follows)
            self.muted = any(one.muted for one in server.sources if one.name == source)
            if line:
                self._opened = None
                self._lost(line)


def _verdict(opened: Opened, server: Server, source: str, *, follows: bool) -> str:
    """What is wrong with a recording of `source`; "" where nothing is."""
    if source != opened.source:
        return f"the sound server has moved the recording to {source!r}, another source than the one that was opened"
    real = {one.name for one in server.sources if not one.monitor}
    if follows and server.default in real and server.default != opened.source:
        return f"the sound server's default source is now {server.default!r}"
    return ""
