"""What may be wrong with a voiced on this machine: one function a question, each with what it looks at handed in.

What lives here: questions that need no running daemon, and what is made of a running one's answers. What must not: printing (doctor.py),
D-Bus calls. A question gives findings: what is, or what is wrong and the command that mends it. What has nothing to say gives none.
"""

from __future__ import annotations

import grp
import os
import pwd
import resource
import shutil
import stat
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from voiced.api import (
    DBUS_LIBRARIES,
    LIBRARIES,
    ConfigError,
    Finding,
    ModelError,
    Settings,
    __version__,
    board,
    counted,
    default_library,
    defaults,
    find_config,
    read_settings,
    roles,
    runtime_directory,
    tcm,
    try_library,
    try_microphone,
    try_provider,
)

from .mic import NO_DEVICE

OLDEST_PYTHON = (3, 11)

MEMORY_KB = 400 << 10
"""What main, lane and second pass may take together (the README's figure and its aim)."""

FILES = 256
"""Open files: each of our processes has some 40, and each lane three descriptors in the main one."""

DISK_BYTES = 100 << 20
"""For models that are fetched: the largest default one is 45 MB, and is whole beside what it replaces."""

RELEASED = 1_793_491_200
"""2026-11-01: no voiced of this version ran before that day."""

COARSE_S = 0.002
"""A clock that steps by more than the 2 ms that the latencies are told to."""

GROUP, USER = "voice", "voiced"

POLICIES = (Path("/usr/share/dbus-1/system.d"), Path("/etc/dbus-1/system.d"))

UNITS = (Path("/usr/lib/systemd/system"), Path("/usr/local/lib/systemd/system"), Path("/etc/systemd/system"))

USER_UNITS = (
    *(folder.with_name("user") for folder in UNITS),
    *(Path(folder).expanduser() for folder in ("~/.config/systemd/user", "~/.local/share/systemd/user")),
)


def versions(
    python: tuple[int, ...] = tuple(sys.version_info[:3]), look: Callable[[str], Finding] = try_library, board_name: str = "generic"
) -> Iterator[Finding]:
    """Python and every library, each imported in a process of its own."""
    if python[:2] < OLDEST_PYTHON:
        yield Finding(
            "versions", False, f"Python {_dotted(python)} is too old: 3.11 is needed", "install a newer Python, then voiced-setup"
        )
    found = [look(name) for name in LIBRARIES]
    of_bus = [look(name) for name in DBUS_LIBRARIES]
    if board_name == "k3":  # the system's own libsoxr serves there
        found = [one for one in found if one.name != "soxr"]
    if not any(one.good for one in of_bus):
        found.append(of_bus[-1])
    wrong = [one for one in found if not one.good]
    for one in wrong:
        yield Finding("versions", False, f"{one.name} {one.what}", one.advice)
    if not wrong:
        told = ", ".join(f"{one.name} {one.what}" for one in (*found, *(one for one in of_bus if one.good)))
        yield Finding("versions", True, f"voiced {__version__}, Python {_dotted(python)}, {told}")


def settings(path: Path | None = None) -> tuple[Settings, list[Finding]]:
    """The settings, or the defaults in their place where they cannot be used, and every mistake in them. `path` None: those that voiced
    itself would read."""
    try:
        found = path or find_config()
        read = read_settings(found)
    except ConfigError as error:
        where = f"correct {path or 'the file'}, then: voiced --check-config {path or ''}".rstrip()
        return defaults(), [Finding("placement" if ": placement." in line else "settings", False, line, where) for line in error.lines]
    except ImportError:
        return defaults(), [Finding("settings", False, "they cannot be read without PyYAML", "voiced-setup")]
    return read, [Finding("settings", True, f"{found or 'none, so the defaults hold'}: no mistakes")]


def models(wanted: Settings) -> Iterator[Finding]:
    """Every byte of every model that these settings want."""
    try:
        library = default_library(wanted.models.path)
    except ModelError as error:
        yield Finding("models", False, f"{error.where}: {error.what}", error.advice)
        return
    except ImportError:
        yield Finding("models", False, "their list cannot be read without PyYAML", "voiced-setup")
        return
    whole = []
    for role, model in roles(wanted).items():
        try:
            library.verify(model)
            whole.append(model)
        except ModelError as error:
            yield Finding("models", False, f"{role}: {error.where}: {error.what}", error.advice)
    if len(whole) == len(roles(wanted)):
        yield Finding("models", True, f"whole: {', '.join(dict.fromkeys(whole))}")


def microphone(wanted: Settings, look: Callable[[str], Finding] = try_microphone) -> Iterator[Finding]:
    """Each lane's device, by the sound library's own list. Nothing is recorded."""
    for source in dict.fromkeys(lane.source for lane in wanted.lanes if not lane.source.startswith(NO_DEVICE)):
        yield look(source)


def rights(
    environ: Mapping[str, str], *, system: bool, uid: int, groups: Sequence[int], nodes: Path = Path("/dev/snd")
) -> Iterator[Finding]:
    """Whether this user may enter what voiced and its client need. `system`: the one on the system bus is meant."""
    wrong = []
    for node in sorted(nodes.glob("pcmC*D*c")):
        owner = node.stat().st_gid
        if uid != 0 and owner not in groups and not os.access(node, os.R_OK | os.W_OK):
            name = _group(owner)
            wrong.append(
                Finding(
                    "rights",
                    False,
                    f"{node} belongs to the group {name}, in which this user is not",
                    f"sudo usermod -aG {name} {_user(uid)}",
                )
            )
            break
    if system and uid != 0:
        try:
            allowed = grp.getgrnam(GROUP).gr_gid in groups
        except KeyError:
            wrong.append(
                Finding("rights", False, f"there is no group {GROUP}, whose members may use voiced", f"sudo groupadd --system {GROUP}")
            )
        else:
            if not allowed:
                what = f"this user is not in the group {GROUP}, so it may read voiced's health alone"
                wrong.append(Finding("rights", False, what, f"sudo usermod -aG {GROUP} {_user(uid)}, then log in again"))
    runtime = environ.get("XDG_RUNTIME_DIR", "")
    if runtime and not system:
        try:
            state = Path(runtime).stat()
            ours = stat.S_ISDIR(state.st_mode) and state.st_uid == uid and not state.st_mode & 0o077
        except OSError:
            ours = False
        if not ours:
            what = f"XDG_RUNTIME_DIR is {runtime}, which is no folder for this user alone"
            wrong.append(Finding("rights", False, what, "log in anew, or unset XDG_RUNTIME_DIR"))
    yield from wrong or [Finding("rights", True, "what this user needs is open to it")]


def starting(*, system: bool, units: Sequence[Path] = UNITS, user_units: Sequence[Path] = USER_UNITS) -> str:
    """The command that starts a voiced here: that of its unit only where the unit is."""
    installed = _is_in(units if system else user_units)
    if system:
        return "systemctl start voiced" if installed else "sudo tools/install, then: systemctl start voiced"
    return "voiced, or systemctl --user start voiced" if installed else "voiced"


def policy(*, system: bool, policies: Sequence[Path] = POLICIES, units: Sequence[Path] = UNITS) -> Iterator[Finding]:
    """What the system bus must know of voiced, where the one on the system bus is meant or is installed."""
    installed = _is_in(units)
    if not (system or installed):
        return
    name = "org.voiced.Voice1.conf"
    there = next((folder / name for folder in policies if (folder / name).is_file()), None)
    if there is None:
        yield Finding(
            "policy",
            False,
            f"no {name} in {' or '.join(map(str, policies))}: the bus gives nobody the name",
            "tools/install, or install the package again",
        )
    else:
        yield Finding("policy", True, str(there))
    if installed and not _is_user(USER):
        yield Finding("policy", False, f"there is no user {USER}, as whom the unit runs", "sudo systemd-sysusers voiced.conf")


def placement(wanted: Settings, runs: Sequence[Sequence[Any]] = ()) -> Iterator[Finding]:
    """Cores as the settings want them against those that the running threads have (the rows of GetStatus), and the nice levels."""
    wrong = []
    for role, process, _, tid, asked, actual, *_ in runs:
        if asked and list(asked) != list(actual):
            what = f"thread {tid} ({role}, {process or 'main'}) wants cores {_cores(asked)} and runs on {_cores(actual)}"
            wrong.append(Finding("placement", False, what, "see AllowedCPUs= and CPUAffinity= of its unit, then restart voiced"))
    lowest = 20 - resource.getrlimit(resource.RLIMIT_NICE)[0]
    for role in ("capture", "ears", "transducer", "second_pass"):
        level = getattr(wanted.placement, f"nice_{role}") + os.getpriority(os.PRIO_PROCESS, 0)
        if level < min(lowest, os.getpriority(os.PRIO_PROCESS, 0)) and os.geteuid() != 0:
            what = f"placement.nice_{role} wants the nice level {level}, and this user may have {lowest} at the least"
            wrong.append(Finding("placement", False, what, "set LimitNICE= in the unit, or raise it in the settings"))
    yield from wrong or [
        Finding("placement", True, f"{'as wanted' if runs else 'can be as wanted'} ({board(wanted.placement.board).allows()})")
    ]


def limits(meminfo: Path = Path("/proc/meminfo"), cache: Path | None = None, files: int | None = None) -> Iterator[Finding]:
    """Open files, memory and disk. None: this process's limit, this user's cache."""
    wrong = []
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0] if files is None else files
    if soft != resource.RLIM_INFINITY and soft < FILES:
        wrong.append(
            Finding(
                "limits",
                False,
                f"{soft} files may be open at once; {FILES} are needed",
                f"ulimit -n {FILES}, or LimitNOFILE={FILES} in the unit",
            )
        )
    free = _available_kb(meminfo)
    if free is not None and free < MEMORY_KB:
        wrong.append(
            Finding(
                "limits",
                False,
                f"{free >> 10} MB of memory are free; voiced takes up to {MEMORY_KB >> 10}",
                "end what takes it: ps --sort=-rss -eo rss,comm | head",
            )
        )
    place = cache or default_cache()
    room = shutil.disk_usage(_existing(place)).free
    if room < DISK_BYTES:
        wrong.append(
            Finding(
                "limits",
                False,
                f"{place}: {room >> 20} MB of disk are free; a model needs {DISK_BYTES >> 20}",
                "make room, or set VOICED_CACHE to another disk",
            )
        )
    yield from wrong or [Finding("limits", True, f"files {soft}, memory {(free or 0) >> 10} MB, disk {room >> 20} MB")]


def default_cache() -> Path:
    """The folder of fetched models, where its list can be read, else the home."""
    try:
        return default_library().cache
    except (ModelError, ImportError):
        return Path.home()


def clock(now_s: float | None = None, resolution_s: float | None = None) -> Iterator[Finding]:
    """The date, for logs and the order of turns; the clock that measures."""
    now = time.time() if now_s is None else now_s
    step = time.get_clock_info("monotonic").resolution if resolution_s is None else resolution_s
    wrong = []
    if now < RELEASED:
        day = time.strftime("%Y-%m-%d", time.gmtime(now))
        what = f"it is {day} here, before this voiced was made: no clock with a battery, or no time from the network yet"
        wrong.append(Finding("clock", False, what, "sudo timedatectl set-ntp true"))
    if step > COARSE_S:
        what = f"the clock that measures steps by {step * 1000:g} ms, so latencies are told that coarsely"
        wrong.append(Finding("clock", False, what, "boot with another clocksource= (see /sys/devices/system/clocksource)"))
    yield from wrong or [Finding("clock", True, time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(now)))]


def ai_cores(wanted: Settings, *, memory: Callable[[], Finding] = tcm, look: Callable[..., Finding] = try_provider) -> Iterator[Finding]:
    """The K3's execution provider, where the settings want it: its memory, then a model run by it."""
    if wanted.placement.second_pass_provider != "spacemit":
        return
    found = memory()
    yield found
    if not found.good:
        return
    try:
        model = default_library(wanted.models.path).find(wanted.models.second_pass, "second-pass")
    except (ModelError, ImportError):
        return  # the question for models says so
    with runtime_directory() as folder:
        yield look(model.model.kind, model.files, folder)


def running(status: Mapping[str, Any]) -> Iterator[Finding]:
    """What a daemon that runs says of itself."""
    wrong = []
    if status["version"] != __version__:
        wrong.append(
            Finding(
                "bus",
                False,
                f"voiced {status['version']} runs, {__version__} is installed",
                "systemctl restart voiced, or systemctl --user restart voiced",
            )
        )
    for line in status["mistakes"]:
        wrong.append(Finding("settings", False, f"read anew and refused: {line}", "correct it, then: voicectl reload"))
    for lane in status["lanes"]:
        if lane["health"] not in ("ok", "muted"):
            why = f": {lane['reason']}" if lane.get("reason") else ""
            wrong.append(Finding("bus", False, f"lane {lane['name']} hears nothing ({lane['health']}{why})", "voicectl mic test"))
    yield from wrong or [
        Finding("bus", True, f"voiced {status['version']} runs, {counted(len(status['lanes']), 'lane')}, health {status['health']}")
    ]


def _is_in(folders: Sequence[Path]) -> bool:
    """The unit."""
    return any((folder / "voiced.service").is_file() for folder in folders)


def _available_kb(meminfo: Path) -> int | None:
    """None where the kernel does not say."""
    try:
        lines = meminfo.read_text().splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) for line in lines if line.startswith("MemAvailable:")), None)


def _existing(path: Path) -> Path:
    return next(place for place in (path, *path.parents) if place.exists())


def _dotted(version: Sequence[int]) -> str:
    return ".".join(map(str, version))


def _cores(cores: Sequence[int]) -> str:
    return ",".join(map(str, cores))


def _group(gid: int) -> str:
    try:
        return grp.getgrgid(gid).gr_name
    except KeyError:
        return str(gid)


def _user(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def _is_user(name: str) -> bool:
    try:
        pwd.getpwnam(name)
    except KeyError:
        return False
    return True
