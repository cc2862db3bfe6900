"""A real sound server for tests: PipeWire with null sinks, in a runtime directory of its own, without systemd or sound hardware.

`pipewire` is the fixture (import it into a conftest.py); `SoundServer` is what it gives.
"""

from __future__ import annotations

import json
import math
import os
import shutil
import struct
import subprocess
import tempfile
import time
import wave
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

_MAPS = {1: "mono", 2: "front-left,front-right"}

PROGRAMS = ("dbus-daemon", "pipewire", "wireplumber", "pipewire-pulse", "pactl", "pw-play")


def wait_for(condition: Callable[[], bool], what: str, seconds: float = 10) -> None:
    """Looks until the condition holds; fails the test after so many seconds."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            pytest.fail(f"waited {seconds} s for {what}")
        time.sleep(0.02)


class SoundServer:
    """dbus-daemon, pipewire, wireplumber and pipewire-pulse; `env` is what a client of it needs."""

    def __init__(self, directory: Path) -> None:
        runtime, home = directory / "run", directory / "home"
        for path in (runtime, home):
            path.mkdir(mode=0o700)
        foreign = ("PULSE_", "PIPEWIRE_", "XDG_", "DBUS_", "ALSA_", "DISPLAY")
        self.env = {key: value for key, value in os.environ.items() if not key.startswith(foreign)}
        self.env |= {"HOME": str(home), "XDG_RUNTIME_DIR": str(runtime), "DBUS_SESSION_BUS_ADDRESS": f"unix:path={runtime}/bus"}
        self._directory, self._runtime = directory, runtime
        self._children: list[subprocess.Popen[bytes]] = []

    def start(self) -> None:
        self._launch("dbus-daemon", "--session", "--nofork", "--address", self.env["DBUS_SESSION_BUS_ADDRESS"])
        wait_for((self._runtime / "bus").exists, "dbus-daemon")
        self._launch("pipewire")
        wait_for((self._runtime / "pipewire-0").exists, "pipewire")
        self._launch("wireplumber")
        self._launch("pipewire-pulse")
        wait_for((self._runtime / "pulse" / "native").exists, "pipewire-pulse")
        wait_for(lambda: "WirePlumber" in self._pactl("list", "clients"), "wireplumber")

    def stop(self) -> None:
        """Ends every process that was started here, the last one first."""
        for child in reversed(self._children):
            child.kill()
            child.wait()
        self._children.clear()
        for path in (*self._runtime.glob("pipewire-0*"), *self._runtime.glob("pulse/*"), self._runtime / "bus"):
            path.unlink(missing_ok=True)  # or the next start would take them for its own

    def null_sink(self, name: str, rate: int, channels: int) -> None:
        """A sink that plays to nobody, and a microphone NAME-mic that hears what is played into it (NAME.monitor is a monitor, which is
        none)."""
        form = [f"rate={rate}", f"channels={channels}", f"channel_map={_MAPS[channels]}"]
        self._pactl("load-module", "module-null-sink", f"sink_name={name}", *form)
        wait_for(lambda: f"{name}.monitor" in self._pactl("list", "short", "sources"), f"the sink {name}")
        self.microphone(name, *form)

    def microphone(self, name: str, *form: str) -> None:
        """NAME-mic, again where it was unplugged."""
        self._pactl("load-module", "module-remap-source", f"source_name={name}-mic", f"master={name}.monitor", *form)
        wait_for(lambda: f"\t{name}-mic\t" in self._pactl("list", "short", "sources"), f"the microphone {name}-mic")

    def unplug(self, name: str) -> None:
        """NAME-mic goes."""
        modules = self._pactl("list", "short", "modules").splitlines()
        (number,) = (line.split("\t")[0] for line in modules if f"source_name={name}-mic" in line)
        self._pactl("unload-module", number)
        wait_for(lambda: f"\t{name}-mic\t" not in self._pactl("list", "short", "sources"), f"the end of {name}-mic")

    def listen_to(self, name: str) -> None:
        """Makes NAME-mic the default source: what a capture of `auto` hears."""
        self.default(f"{name}-mic")

    def default(self, source: str) -> None:
        self._pactl("set-default-source", source)
        wait_for(lambda: self._pactl("get-default-source").strip() == source, f"the default source {source}")

    def mute(self, source: str, muted: bool) -> None:
        self._pactl("set-source-mute", source, str(int(muted)))

    def move_recording(self, pid: int, source: str) -> None:
        """Puts the recording of this process onto another source, as a mixer's window does."""
        self._pactl("move-source-output", str(self._recording(pid)["index"]), source)

    def recorded_by(self, pid: int) -> str:
        """The source that this process records."""
        names = {one["index"]: str(one["name"]) for one in json.loads(self._pactl("--format=json", "list", "sources"))}
        return names[self._recording(pid)["source"]]

    def _recording(self, pid: int) -> dict[str, Any]:
        streams: list[dict[str, Any]] = json.loads(self._pactl("--format=json", "list", "source-outputs"))
        known = {f"voiced-capture-{pid}", str(pid)}
        (found,) = (one for one in streams if {one["properties"].get("node.name"), one["properties"].get("application.process.id")} & known)
        return found

    def play(self, path: Path, sink: str) -> subprocess.Popen[bytes]:
        """Plays a file into a sink; the process ends with it."""
        return self._launch("pw-play", "--target", sink, str(path))

    def _launch(self, *command: str) -> subprocess.Popen[bytes]:
        log = (self._directory / f"{command[0]}.log").open("ab")
        with log:
            child = subprocess.Popen(command, env=self.env, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self._children.append(child)
        return child

    def _pactl(self, *arguments: str) -> str:
        result = subprocess.run(
            ["pactl", *arguments], env=self.env | {"LC_ALL": "C"}, capture_output=True, text=True, timeout=10, check=False
        )
        return result.stdout


def write_tone(path: Path, seconds: float, hertz: Sequence[float], rate: int, amplitude: int = 8000) -> Path:
    """A WAV file with one channel a frequency (0 Hz: silence); returns its path."""
    frames = (round(amplitude * math.sin(2 * math.pi * f * at / rate)) for at in range(round(seconds * rate)) for f in hertz)
    with wave.open(str(path), "wb") as file:
        file.setnchannels(len(hertz))
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes(b"".join(struct.pack("<h", value) for value in frames))
    return path


@contextmanager
def own_server() -> Iterator[SoundServer]:
    """A server of one test, not started yet."""
    missing = [program for program in PROGRAMS if not shutil.which(program)]
    if missing:
        pytest.skip(
            f"no {', '.join(missing)}: needs the packages pipewire, pipewire-pulse, pipewire-alsa, wireplumber, pulseaudio-utils and dbus"
        )
    with tempfile.TemporaryDirectory(prefix="voiced-sound-") as name:  # a socket's path must stay short
        server = SoundServer(Path(name))
        try:
            yield server
        finally:
            server.stop()


@pytest.fixture(scope="session")
def pipewire() -> Iterator[SoundServer]:
    """The server with two sinks and their microphones: mic16 (16 kHz mono, the default source) and mic48 (48 kHz stereo)."""
    with own_server() as server:
        server.start()
        server.null_sink("mic16", 16_000, 1)
        server.null_sink("mic48", 48_000, 2)
        server.listen_to("mic16")
        yield server
