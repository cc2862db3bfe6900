"""Whether what voiced needs can run on this machine, tried in processes of their own before anything depends on it.

What lives here: one child a question, and what its end means: a library that is absent, of another processor, broken; an execution
provider that is not built in; the K3's tightly coupled memory. What must not: mending anything (voiced-setup), which models are wanted
(models.py). A foreign library may end a process by an illegal instruction: that costs the child. Standard library only.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from .boards import CPUINFO

LIBRARIES = ("numpy", "onnxruntime", "sherpa_onnx", "yaml", "sounddevice", "soundfile", "soxr")
"""What is imported by that name; the D-Bus library has two names (DBUS_LIBRARIES)."""

DBUS_LIBRARIES = ("dbus_fast", "dbus_next")

DEADLINE_S = 120.0
"""onnxruntime is imported from a cold card in some 10 s."""

MICROPHONE_S = 20.0
"""A list of devices takes 1.3 s at the worst with a sound server that is just starting."""

TCM_DEVICES = (Path("/dev/tcm"), Path("/dev/tcm_sync_mem"))
"""The K3's tightly coupled memory, by its names in the vendor's kernels."""

TCM_TOOL = "spacemit-tcm-smi"

_IMPORT = """import importlib, importlib.metadata, sys
module = importlib.import_module(sys.argv[1])
try: version = importlib.metadata.version(sys.argv[1].replace("_", "-"))
except importlib.metadata.PackageNotFoundError: version = getattr(module, "__version__", "")
print("voiced:", version)
"""

_PROVIDER = """import sys
from pathlib import Path
from voiced.stages.sherpa import probe, provider
kind, runtime, *files = sys.argv[1:]
probe(kind, {part: Path(path) for part, path in (file.split("=", 1) for file in files)}, provider=provider(Path(runtime), "spacemit"))
"""

_MICROPHONE = """import sys
from voiced.errors import DeviceError
from voiced.sources.devices import choose
from voiced.sources.soundcard import SoundCard
try:
    devices, server = SoundCard().devices()
    device, why = choose(sys.argv[1], devices, server.default if server else "")
except DeviceError as error:
    sys.exit(f"{error.what}\\n{error.advice}")
if device.muted:
    sys.exit(f"{device.name} is muted: its server says that it gives silence\\nunmute it: pactl set-source-mute {device.source} 0")
print(f"{device.name} ({device.host}), {why}")
"""

_FALLBACK = re.compile(r"fall ?back to cpu", re.IGNORECASE)
"""What a sherpa-onnx without the provider writes on stderr, and goes on."""

_TCM = re.compile(r"\btcm\b", re.IGNORECASE)
"""In what the provider writes where it is refused its memory: `wait tcm buffer failed`."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What one question came to.

    what    one sentence: what is, or what is wrong
    advice  the command or the step that mends it; "" where nothing is wrong
    """

    name: str
    good: bool
    what: str
    advice: str = ""


@dataclass(frozen=True, slots=True)
class Ended:
    """A child's end: its status (negative: the signal), None where it did not end in time; what it wrote."""

    status: int | None
    out: str
    err: str

    @property
    def last(self) -> str:
        """The last line it wrote on stderr that says something, in 200 characters at the most."""
        lines = [" ".join(line.split()) for line in self.err.splitlines() if line.strip()]
        return lines[-1][:200] if lines else "it wrote nothing"


def isa(cpuinfo: Path = CPUINFO) -> str:
    """The line of /proc/cpuinfo that says which instructions there are (`isa` on RISC-V, `Features` on ARM), "" where there is none."""
    try:
        text = cpuinfo.read_text(errors="replace")
    except OSError:
        return ""
    found = re.search(r"^(isa|Features)\s*:.*$", text, re.MULTILINE)
    return " ".join(found[0].split()) if found else ""


def try_library(name: str, python: str = sys.executable, environ: Mapping[str, str] | None = None, cpuinfo: Path = CPUINFO) -> Finding:
    """Imports one library in a child; its version, or what is wrong with it."""
    ended = run([python, "-P", "-c", _IMPORT, name], environ)
    said = ended.out.rpartition("voiced:")[2].strip()
    if ended.status == 0:
        return Finding(name, True, said or "of no known version")
    return Finding(name, False, *_wrong(ended, name, cpuinfo))


def _wrong(ended: Ended, name: str, cpuinfo: Path) -> tuple[str, str]:
    if ended.status is None:
        return f"is not loaded within {DEADLINE_S:.0f} s", "look at what the machine does: top; then try again"
    if ended.status == -signal.SIGILL:
        here = isa(cpuinfo) or "no isa line in /proc/cpuinfo"
        return (
            f"illegal instruction: it was built for another processor; this one has {here}",
            "take the one of the board's maker, or build it here",
        )
    if ended.status < 0:
        return f"its process was killed by {signal.Signals(-ended.status).name}: {ended.last}", "install it again: voiced-setup --anew"
    if f"No module named '{name}'" in ended.err:
        return "is not installed", "voiced-setup"
    if "PortAudio library not found" in ended.err:
        return "the system library PortAudio is not there", "apt-get install libportaudio2"
    if "sndfile" in ended.err and "not found" in ended.err:
        return "the system library sndfile is not there", "apt-get install libsndfile1"
    return f"cannot be imported: {ended.last}", "install it again: voiced-setup --anew"


def try_microphone(
    wanted: str, python: str = sys.executable, environ: Mapping[str, str] | None = None, deadline_s: float = MICROPHONE_S
) -> Finding:
    """Which device a lane's `source` means, asked in a child: the sound library may hang where it looks. Nothing is recorded."""
    name = "microphone"
    ended = run([python, "-P", "-c", _MICROPHONE, wanted], environ, deadline_s)
    if ended.status is None:
        return Finding(
            name, False, f"the sound library does not answer within {deadline_s:.0f} s", "systemctl --user restart pipewire wireplumber"
        )
    if ended.status == 0:
        return Finding(name, True, f"{wanted}: {ended.out.strip()}")
    if ended.status == 1 and "Traceback" not in ended.err and (lines := ended.err.strip().splitlines()[-2:]):
        return Finding(name, False, f"{wanted}: {lines[0]}", lines[-1] if len(lines) > 1 else "voicectl mic list")
    return Finding(name, False, *_wrong(ended, "sounddevice", CPUINFO))


def try_provider(
    kind: str, files: Mapping[str, Path], runtime: Path, python: str = sys.executable, environ: Mapping[str, str] | None = None
) -> Finding:
    """Loads that model by SpaceMIT's execution provider in a child and has it hear half a second of silence.

    kind, files  of a model that is there (models.Found)
    runtime      a folder of ours for the provider's file
    """
    paths = [f"{part}={path}" for part, path in files.items()]
    ended = run([python, "-P", "-c", _PROVIDER, kind, str(runtime), *paths], environ)
    name = "execution provider"
    cpu = "set placement.second_pass_provider: cpu"
    if ended.status is None:
        return Finding(
            name, False, f"a model is not loaded within {DEADLINE_S:.0f} s", f"look for what holds the AI cores: {TCM_TOOL} -i; or {cpu}"
        )
    if ended.status == -signal.SIGILL:
        return Finding(name, False, *_wrong(ended, "sherpa_onnx", CPUINFO))
    if _FALLBACK.search(ended.err):
        return Finding(
            name,
            False,
            "this sherpa-onnx was built without SpaceMIT's provider and falls back to the CPU",
            f"install the vendor's, or {cpu}",
        )
    if ended.status != 0 and _TCM.search(ended.err):
        held = f"its memory is held, by another process or by one that died: {ended.last}"
        return Finding(name, False, held, f"see who: {TCM_TOOL} -i; where no process uses it: {TCM_TOOL} -c")
    if ended.status != 0:
        how = f"was killed by {signal.Signals(-ended.status).name}" if ended.status < 0 else f"ended with status {ended.status}"
        return Finding(name, False, f"its process {how}: {ended.last}", cpu)
    return Finding(name, True, "a model runs by SpaceMIT's provider")


def tcm(devices: Sequence[Path] = TCM_DEVICES, path: str | None = None) -> Finding:
    """Whether this user may use the K3's tightly coupled memory. `path`: where the vendor's tool is looked for, as in $PATH."""
    import shutil

    name = "TCM"
    there = [device for device in devices if device.exists()]
    if not there:
        names = " or ".join(str(device) for device in devices)
        return Finding(
            name, False, f"no device {names}: this kernel has no tightly coupled memory", "set placement.second_pass_provider: cpu"
        )
    closed = [device for device in there if not os.access(device, os.R_OK | os.W_OK)]
    if closed:
        return Finding(
            name,
            False,
            f"{closed[0]} may not be opened by this user",
            f"a udev rule that gives {closed[0]} a group of which it is a member",
        )
    if shutil.which(TCM_TOOL, path=path) is None:
        return Finding(name, False, f"{TCM_TOOL} is not installed: nobody can see who holds the memory", "apt-get install spacemit-tcm")
    return Finding(name, True, f"{there[0]} is open to this user")


def run(command: Sequence[str], environ: Mapping[str, str] | None = None, deadline_s: float = DEADLINE_S) -> Ended:
    """Runs a child to its end, or ends it at the deadline."""
    try:
        done = subprocess.run(
            command,
            env=environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=deadline_s,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return Ended(None, "", "")
    except OSError as error:
        return Ended(127, "", f"{command[0]}: {error.strerror}")
    return Ended(done.returncode, done.stdout, done.stderr)
