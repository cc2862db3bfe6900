"""Real sound servers for tests, in runtime directories of their own, without systemd or sound hardware: PipeWire and PulseAudio with null
sinks, and JACK with its dummy driver, which is a microphone of 48 kHz and two channels that takes nothing else.

`pipewire`, `pulseaudio` and `jack` are the fixtures (import them into a conftest.py).
"""

from __future__ import annotations

import json
import math
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import time
import wave
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from livedaemon import descendants

_MAPS = {1: "mono", 2: "front-left,front-right"}

PROGRAMS = ("dbus-daemon", "pipewire", "wireplumber", "pipewire-pulse", "pactl", "pw-play")


def wait_for(condition: Callable[[], bool], what: str, seconds: float = 60) -> None:
    """Looks until the condition holds; fails the test after so many seconds."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            pytest.fail(f"waited {seconds} s for {what}")
        time.sleep(0.02)


def goes_first(pid: int) -> None:
    """Where we may have it so, as root may: what plays, serves or hears and has to wait for a core leaves a hole in the sound."""
    with suppress(OSError):
        os.sched_setscheduler(pid, os.SCHED_RR, os.sched_param(1))


class Programs:
    """Programs of a server and its clients, which end with it; `env` is what they need."""

    def __init__(self, directory: Path) -> None:
        runtime, home = directory / "run", directory / "home"
        for path in (runtime, home):
            path.mkdir(mode=0o700)
        foreign = ("PULSE_", "PIPEWIRE_", "XDG_", "DBUS_", "ALSA_", "DISPLAY", "JACK_")
        self.env = {key: value for key, value in os.environ.items() if not key.startswith(foreign)}
        self.env |= {"HOME": str(home), "XDG_RUNTIME_DIR": str(runtime), "DBUS_SESSION_BUS_ADDRESS": f"unix:path={runtime}/bus"}
        self._directory, self._runtime = directory, runtime
        self._children: list[subprocess.Popen[bytes]] = []

    def stop(self) -> None:
        """Ends every process that was started here, the last one first."""
        for child in reversed(self._children):
            child.kill()
            child.wait()
        self._children.clear()
        for path in (*self._runtime.glob("pipewire-0*"), *self._runtime.glob("pulse/*"), self._runtime / "bus"):
            path.unlink(missing_ok=True)  # or the next start would take them for its own

    def signal(self, program: str, number: int) -> None:
        """To the processes of this program that were started here."""
        for child in self._children:
            if isinstance(child.args, tuple) and Path(str(child.args[0])).name == program:
                child.send_signal(number)

    def _launch(self, *command: str, **env: str) -> subprocess.Popen[bytes]:
        log = (self._directory / f"{Path(command[0]).name}.log").open("ab")
        with log:
            child = subprocess.Popen(command, env=self.env | env, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        goes_first(child.pid)
        self._children.append(child)
        return child

    def _ask(self, *command: str) -> str:
        done = subprocess.run(command, env=self.env | {"LC_ALL": "C"}, capture_output=True, text=True, timeout=60, check=False)
        return done.stdout


class SoundServer(Programs):
    """dbus-daemon, pipewire, wireplumber and pipewire-pulse."""

    def start(self) -> None:
        self._launch("dbus-daemon", "--session", "--nofork", "--address", self.env["DBUS_SESSION_BUS_ADDRESS"])
        wait_for((self._runtime / "bus").exists, "dbus-daemon")
        self._launch("pipewire")
        wait_for((self._runtime / "pipewire-0").exists, "pipewire")
        self._launch("wireplumber")
        self._launch("pipewire-pulse")
        wait_for((self._runtime / "pulse" / "native").exists, "pipewire-pulse")
        wait_for(lambda: "WirePlumber" in self._pactl("list", "clients"), "wireplumber")

    def start_with_mic16(self) -> None:
        """And with its default microphone, 16 kHz mono."""
        self.start()
        self.null_sink("mic16", 16_000, 1)
        self.listen_to("mic16")

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

    def play_by_default(self, sink: str) -> None:
        """What is played without a target goes into this sink."""
        self._pactl("set-default-sink", sink)
        wait_for(lambda: self._pactl("get-default-sink").strip() == sink, f"the default sink {sink}")

    def mute(self, source: str, muted: bool) -> None:
        self._pactl("set-source-mute", source, str(int(muted)))

    def move_recording(self, pid: int, source: str) -> None:
        """Puts the recording of this process onto another source, as a mixer's window does."""
        self._pactl("move-source-output", str(self._recording(pid)["index"]), source)

    def recorded_by(self, pid: int) -> str:
        """The source that this process records."""
        names = {one["index"]: str(one["name"]) for one in json.loads(self._pactl("--format=json", "list", "sources"))}
        return names[self._recording(pid)["source"]]

    def attended_by(self, pid: int) -> bool:
        """A child of this process is connected: what it subscribes to is told from now on."""
        there = {one["properties"].get("application.process.id") for one in json.loads(self._pactl("--format=json", "list", "clients"))}
        return bool(there & set(map(str, descendants(pid))))

    def _recording(self, pid: int) -> dict[str, Any]:
        streams: list[dict[str, Any]] = json.loads(self._pactl("--format=json", "list", "source-outputs"))
        known = {f"voiced-capture-{pid}", str(pid)}
        (found,) = (one for one in streams if {one["properties"].get("node.name"), one["properties"].get("application.process.id")} & known)
        return found

    def play(self, path: Path, sink: str) -> subprocess.Popen[bytes]:
        """Plays a file into a sink; the process ends with it."""
        return self._launch("pw-play", "--target", sink, str(path))

    def _pactl(self, *arguments: str) -> str:
        return self._ask("pactl", *arguments)


class PulseServer(SoundServer):
    """pulseaudio itself, installed or (it and pipewire-alsa remove each other) unpacked into a folder: VOICED_PULSEAUDIO."""

    def __init__(self, directory: Path, top: Path) -> None:
        super().__init__(directory)
        self._top = top
        (plugin,) = top.glob("usr/lib/*/alsa-lib/libasound_module_pcm_pulse.so")
        conf = directory / "asound.conf"
        conf.write_text('</usr/share/alsa/alsa.conf>\npcm.pulse { type pulse hint { show on description "PulseAudio" } }\n')
        self.env |= {"ALSA_PLUGIN_DIR": str(plugin.parent), "ALSA_CONFIG_PATH": str(conf)}

    def start(self) -> None:
        (modules,) = self._top.glob("usr/lib/pulse-*/modules")
        script = self._directory / "server.pa"
        script.write_text("load-module module-native-protocol-unix\n")
        libraries = [str(path) for path in (*self._top.glob("usr/lib/*-linux-*"), *self._top.glob("usr/lib/*-linux-*/pulseaudio"), modules)]
        options = [
            "-n",
            "-F",
            str(script),
            "-p",
            str(modules),
            "--daemonize=no",
            "--exit-idle-time=-1",
            "--use-pid-file=no",
            "--disable-shm",
        ]
        self._launch(str(self._top / "usr/bin/pulseaudio"), *options, LD_LIBRARY_PATH=os.pathsep.join(libraries))
        wait_for(lambda: "Server Name: pulseaudio" in self._pactl("info"), "pulseaudio")

    def play(self, path: Path, sink: str) -> subprocess.Popen[bytes]:
        return self._launch("paplay", f"--device={sink}", str(path))


class JackServer(Programs):
    """jackd with its dummy driver: 48 kHz, two channels, silent until a program is connected to what records."""

    def start(self) -> None:
        self.env |= {"JACK_DEFAULT_SERVER": "voiced-tests", "JACK_NO_AUDIO_RESERVATION": "1", "JACK_NO_START_SERVER": "1"}
        options = ["--no-realtime", "-n", self.env["JACK_DEFAULT_SERVER"], "-d", "dummy", "-r", "48000", "-p", "2048", "-C", "2", "-P", "2"]
        self._launch("jackd", *options)
        wait_for(lambda: "system:capture_1" in self._ask("jack_lsp"), "jackd")

    def stop(self) -> None:
        """Tells it to end: the kernel keeps what a killed one has shared, and the eighth finds no room for its own."""
        server, *players = self._children
        for player in players:
            player.kill()
        server.terminate()
        try:
            server.wait(5)
        except subprocess.TimeoutExpired:
            pass  # it waits for a client that was killed
        super().stop()

    def play(self, path: Path, channel: int) -> subprocess.Popen[bytes]:
        """Plays a mono file of 48 kHz into this channel of whatever records."""
        code = (
            "import sys, threading, numpy, sounddevice, soundfile\n"
            "sound, rate = soundfile.read(sys.argv[1], dtype='float32')\n"
            "sound = numpy.concatenate((numpy.zeros(rate), sound, numpy.zeros(rate)))\n"  # to be connected in; to be heard in
            "at, over = 0, threading.Event()\n"
            "def give(out, frames, time, status):\n"  # PortAudio's blocking writes to JACK crash
            "    global at\n"
            "    part = sound[at:at + frames]\n"
            "    out[:] = 0\n"
            "    out[:len(part), 0] = part\n"
            "    at += frames\n"
            "    if at >= len(sound): over.set()\n"
            "with sounddevice.OutputStream(rate, device='system', channels=1, dtype='float32', callback=give):\n"
            "    open(sys.argv[2], 'w').close()\n"
            "    over.wait()"
        )
        ready = self._directory / "ready"
        ready.unlink(missing_ok=True)
        player = self._launch(sys.executable, "-c", code, str(path), str(ready))
        wait_for(ready.exists, "the player")
        ports = self._ask("jack_lsp").split()
        source = next(port for port in ports if port.endswith(":out_0"))
        target = next(port for port in ports if port.endswith(f":in_{channel}"))
        self._ask("jack_connect", source, target)
        return player


def write_tone(path: Path, seconds: float, hertz: Sequence[float], rate: int, amplitude: int = 8000) -> Path:
    """A WAV file with one channel a frequency (0 Hz: silence); returns its path."""
    frames = (round(amplitude * math.sin(2 * math.pi * f * at / rate)) for at in range(round(seconds * rate)) for f in hertz)
    with wave.open(str(path), "wb") as file:
        file.setnchannels(len(hertz))
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes(b"".join(struct.pack("<h", value) for value in frames))
    return path


def _needs(*programs: str, packages: str) -> None:
    missing = [program for program in programs if not shutil.which(program)]
    if missing:
        pytest.skip(f"no {', '.join(missing)}: needs the packages {packages}")


@contextmanager
def own_server() -> Iterator[SoundServer]:
    """A PipeWire of one test, not started yet."""
    _needs(*PROGRAMS, packages="pipewire, pipewire-pulse, pipewire-alsa, wireplumber, pulseaudio-utils and dbus")
    with _directory() as directory:
        server = SoundServer(directory)
        try:
            yield server
        finally:
            server.stop()


@contextmanager
def _directory() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="voiced-sound-") as name:  # a socket's path must stay short
        yield Path(name)


def _furnish(server: SoundServer) -> SoundServer:
    """Two sinks and their microphones: mic16 (16 kHz mono, the default source) and mic48 (48 kHz stereo)."""
    server.start_with_mic16()
    server.null_sink("mic48", 48_000, 2)
    return server


@pytest.fixture(scope="session")
def pipewire() -> Iterator[SoundServer]:
    with own_server() as server:
        yield _furnish(server)


@pytest.fixture(scope="session")
def pulseaudio() -> Iterator[SoundServer]:
    _needs("pactl", "paplay", packages="pulseaudio-utils")
    top = Path(os.environ.get("VOICED_PULSEAUDIO") or "/")
    if not (top / "usr/bin/pulseaudio").exists() or not [*top.glob("usr/lib/*/alsa-lib/libasound_module_pcm_pulse.so")]:
        pytest.skip("no pulseaudio with libasound2-plugins: install them, or unpack them into a folder and name it by VOICED_PULSEAUDIO")
    with _directory() as directory:
        server = PulseServer(directory, top)
        try:
            yield _furnish(server)
        finally:
            server.stop()


@pytest.fixture(scope="session")
def jack() -> Iterator[JackServer]:
    _needs("jackd", "jack_lsp", "jack_connect", packages="jackd2")
    with _directory() as directory:
        server = JackServer(directory)
        try:
            server.start()
            yield server
        finally:
            server.stop()
