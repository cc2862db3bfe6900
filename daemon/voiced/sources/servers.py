"""What the sound server says of its sources, and of the stream that is ours.

What lives here: the only use of `pactl`, which PipeWire and PulseAudio both answer: a program, so that a server that hangs holds nobody
but it. What must not: choosing. Everything works without it (ALSA alone), but then nobody tells which source the server gives.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_PATIENCE_S = 3.0
"""A server that works answers in some milliseconds."""

_SPECIFICATION = re.compile(r"(\d+)ch (\d+)Hz")

SHARED = Path("/dev/shm")  # noqa: S108  we only look
"""Where JACK keeps its sockets."""

_EVENT = re.compile(rb"^Event '\w+' on (source|source-output|server)\b")


@dataclass(frozen=True, slots=True)
class Source:
    """Something of the server that can be recorded. `name` is stable; `monitor`: it is what the machine plays."""

    name: str
    description: str
    rate: int
    channels: int
    monitor: bool
    muted: bool


@dataclass(frozen=True, slots=True)
class Server:
    """`name`: PipeWire or PulseAudio; `default`: its default source's name, "" for none."""

    name: str
    default: str
    sources: tuple[Source, ...]


def ask() -> Server | None:
    """The server that runs for this user; None where there is none, or no `pactl`, or no answer."""
    about, sources = _pactl("info"), _pactl("list", "sources")
    if not isinstance(about, dict) or not isinstance(sources, list):
        return None
    name = "PipeWire" if "PipeWire" in str(about.get("server_name")) else "PulseAudio"
    return Server(name, str(about.get("default_source_name") or ""), tuple(map(_source, sources)))


def _source(plain: dict[str, Any]) -> Source:
    found = _SPECIFICATION.search(str(plain.get("sample_specification")))
    channels, rate = map(int, found.groups()) if found else (1, 0)
    name = str(plain["name"])
    monitor = plain.get("properties", {}).get("device.class") == "monitor" or name.endswith(".monitor")
    return Source(name, str(plain.get("description") or name), rate, channels, monitor, bool(plain.get("mute")))


def stream_name() -> str:
    """What this process calls its stream where it can: by this, or by the process's id, `ours` finds it."""
    return f"voiced-capture-{os.getpid()}"


def ours() -> str | None:
    """The name of the source that this process's stream records now; None where it has no stream, or nobody says."""
    streams, sources = _pactl("list", "source-outputs"), _pactl("list", "sources")
    if not isinstance(streams, list) or not isinstance(sources, list):
        return None
    names = {source["index"]: str(source["name"]) for source in sources}
    for stream in streams:
        beside = stream.get("properties", {})
        if beside.get("node.name") == stream_name() or beside.get("application.process.id") == str(os.getpid()):
            return names.get(stream.get("source"))
    return None


def events() -> Iterator[frozenset[str]]:
    """What something has happened to (source, source-output, server), whatever waits at once; none of these where something else has,
    another client that comes, say. Ends with the server. Blocks."""
    if not _reachable():
        return
    # the kernel ends it with us: it would else notice at the next event only
    setpriv = shutil.which("setpriv")
    command = [*([setpriv, "--pdeathsig", "KILL", "--"] if setpriv else []), "pactl", "subscribe"]
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=_env()) as told:
        assert told.stdout
        rest = b""
        while data := os.read(told.stdout.fileno(), 1 << 16):
            *lines, rest = (rest + data).split(b"\n")
            kinds = {event[1].decode() for line in lines if (event := _EVENT.match(line))}
            yield frozenset(kinds)


def _pactl(*arguments: str) -> Any:
    """Its answer from JSON; None where there is none."""
    if not _reachable():
        return None
    command = ["pactl", "--format=json", *arguments]
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=_PATIENCE_S, check=False, env=_env())
        return json.loads(done.stdout)
    except (subprocess.TimeoutExpired, OSError, ValueError):
        return None


def _env() -> dict[str, str]:
    return os.environ | {"LC_ALL": "C"}  # else some versions write a number with a comma


def _reachable() -> bool:
    """There is a socket to ask at. Without one, the client would start a server of its own."""
    return bool(shutil.which("pactl")) and ("PULSE_SERVER" in os.environ or any(path.exists() for path in sockets()))


def sockets() -> list[Path]:
    """Where servers listen: they come and go with them."""
    own = os.environ.get("PULSE_RUNTIME_PATH")
    of_user = os.environ.get("XDG_RUNTIME_DIR")
    found = [Path(own, "native")] if own else []
    if of_user:
        found += [Path(of_user, "pulse", "native"), Path(of_user, "pipewire-0")]
    return [*found, Path("/run/pulse/native"), Path("/run/pipewire/pipewire-0")]


def jack_sockets() -> list[Path]:
    """Of the JACK servers that run."""
    return sorted(SHARED.glob("jack_*_0"))
