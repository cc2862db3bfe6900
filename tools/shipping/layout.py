"""What an installed voiced consists of, and where each file goes.

What lives here: one table from a checkout to paths, for tools/install and tools/make-deb alike. What must not: writing any of it.

    PREFIX/lib/voiced/{daemon,tools}   the code, as in the checkout, so that it finds its parts as it does there
    PREFIX/lib/voiced/models           our own models (a package: /usr/share/voiced/models)
    PREFIX/lib/voiced/site             what voiced-setup makes: environment, fetched models
    PREFIX/bin                         voiced, voicectl, voiced-setup

Units, policy and the rest go below /usr and /usr/local to where systemd and D-Bus look there, for another prefix below /etc; in a home
there are none but the user's unit, and nothing is outside the prefix.
"""

from __future__ import annotations

import configparser
import gzip
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from . import completion, manual

CHECKOUT = Path(__file__).resolve().parents[2]

NAME = "org.voiced.Voice1"

CODE = ("daemon/voiced", "tools/voicectl", "tools/voiced_setup", "tools/train/voiced_train")

NOT_SHIPPED = {"weights.npz", "curve.png"}
"""Of the models' folders: for training alone, and a picture."""

COMMANDS = {"voiced": "voiced", "voicectl": "voicectl", "voiced-setup": "voiced_setup"}
"""Commands and the packages that are run."""

CONFIG_FILE = "/etc/voiced/voiced.yaml"

CONFIG = """# Settings of voiced: only what differs from its defaults. voiced.yaml(5) and {examples}/voiced.yaml have every knob;
# `voiced --check-config {file}` tells every mistake with its line, `voicectl reload` applies it.
"""

_COMMAND = """#!/bin/sh
# {name}, in the environment that voiced-setup makes.
top={top}
python=$top/site/env/bin/python
if ! [ -x "$python" ]; then
{without}
fi
exec "$python" -P -m {package} "$@"
"""

_WITHOUT = """    echo "{name}: its environment is not there, or is of a Python that has gone; run: {setup}" >&2
    exit 75"""

_DOCTOR = """    # what tells what is missing must not need it
    case " $* " in
        *" doctor "*) PYTHONPATH=$top/daemon:$top/tools exec python3 -P -m voicectl "$@" ;;
    esac
"""

_SETUP = """#!/bin/sh
# {name}, by the system's Python: it makes the environment of the other commands.
top={top}
PYTHONPATH=$top/daemon:$top/tools exec python3 -P -m {package} "$@"
"""


@dataclass(frozen=True, slots=True)
class Item:
    """One file: where it goes (absolute, as the running system sees it), what is in it, its mode. `link`: a symbolic link to that.

    settings   what an administrator may change: never written over once it was
    """

    path: Path
    data: bytes = b""
    mode: int = 0o644
    link: str = ""
    settings: bool = False


@dataclass(frozen=True, slots=True)
class Places:
    """Folders for a prefix. `whole_machine`: units, policy and settings below /etc belong to it, too."""

    prefix: Path
    whole_machine: bool = True

    @property
    def top(self) -> Path:
        return self.prefix / "lib" / "voiced"

    @property
    def models(self) -> Path:
        return self.prefix / "share" / "voiced" / "models" if self.packaged else self.top / "models"

    @property
    def packaged(self) -> bool:
        """As a distribution's package has it."""
        return self.prefix == Path("/usr")

    @property
    def documents(self) -> Path:
        return self.prefix / "share" / "doc" / "voiced"

    @property
    def looked_into(self) -> bool:
        """systemd and D-Bus look below this prefix by themselves."""
        return self.prefix in (Path("/usr"), Path("/usr/local"))

    def systemd(self, kind: str) -> Path:
        """`kind`: system or user."""
        return (self.prefix / "lib" if self.looked_into else Path("/etc")) / "systemd" / kind

    @property
    def users_unit(self) -> Path:
        """Where nothing but this prefix may be touched."""
        return self.prefix / "share" / "systemd" / "user" / "voiced.service"

    def of_lib(self, folder: str) -> Path:
        """sysusers.d, tmpfiles.d."""
        return (self.prefix / "lib" if self.looked_into else Path("/etc")) / folder

    @property
    def policy(self) -> Path:
        # dbus-daemon reads policy below /usr and /etc alone
        return (Path("/usr/share") if self.packaged else Path("/etc")) / "dbus-1" / "system.d" / f"{NAME}.conf"


def items(places: Places, *, board: str = "generic", checkout: Path = CHECKOUT, day: str = "") -> list[Item]:
    """Everything, in the order of the paths. `day`: as manual.pages has it."""
    found = [*_code(places, checkout), *_commands(places), *_texts(places, checkout, day)]
    found += _system(places, checkout, board) if places.whole_machine else _user(places, checkout)
    return sorted(found, key=lambda item: item.path)


def requirements(checkout: Path = CHECKOUT) -> tuple[str, ...]:
    """What voiced itself needs, as setup.cfg says."""
    setup = configparser.ConfigParser()
    setup.read(checkout / "setup.cfg")
    return tuple(line for line in setup["options"]["install_requires"].splitlines() if line)


def _code(places: Places, checkout: Path) -> Iterator[Item]:
    for package in CODE:
        for path in sorted((checkout / package).rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts and not path.name.startswith("."):
                yield Item(places.top / path.relative_to(checkout), path.read_bytes())
    for path in sorted((checkout / "models").rglob("*")):
        if path.is_file() and path.name not in NOT_SHIPPED and not path.name.startswith("."):
            yield Item(places.models / path.relative_to(checkout / "models"), path.read_bytes())
    wanted = "".join(f"{line}\n" for line in requirements(checkout))
    yield Item(places.top / "requirements.txt", wanted.encode())
    yield Item(places.top / "constraints.txt", (checkout / "tools" / "constraints.txt").read_bytes())


def _commands(places: Places) -> Iterator[Item]:
    setup = f"{'sudo ' if places.whole_machine else ''}{places.prefix}/bin/voiced-setup" if not places.looked_into else "sudo voiced-setup"
    for name, package in COMMANDS.items():
        words = {"name": name, "package": package, "top": _shell(str(places.top)), "setup": setup}
        without = (_DOCTOR if name == "voicectl" else "") + _WITHOUT.format(**words)
        text = _SETUP if name == "voiced-setup" else _COMMAND
        yield Item(places.prefix / "bin" / name, text.format(without=without, **words).encode(), 0o755)


def _texts(places: Places, checkout: Path, day: str) -> Iterator[Item]:
    share = places.prefix / "share"
    for name, page in manual.pages(day).items():
        # mtime 0 and no name inside: the same page gives the same bytes
        yield Item(share / "man" / f"man{name[-1]}" / f"{name}.gz", gzip.compress(page.encode(), 9, mtime=0))
    scripts = completion.scripts()
    for name, script in scripts["bash"].items():
        yield Item(share / "bash-completion" / "completions" / name, script.encode())
    for name, script in scripts["zsh"].items():
        yield Item(share / "zsh" / ("vendor-completions" if places.packaged else "site-functions") / name, script.encode())
    yield Item(places.documents / "README.md", (checkout / "README.md").read_bytes())
    if not places.packaged:  # a package has it as its copyright file
        yield Item(places.documents / "LICENSE", (checkout / "LICENSE").read_bytes())
    for path in sorted((checkout / "config").glob("*.yaml")):
        yield Item(places.documents / "examples" / path.name, path.read_bytes())
    for path in sorted((checkout / "systemd" / "drop-ins").glob("*.conf")):
        yield Item(places.documents / "examples" / "drop-ins" / path.name, path.read_bytes())
    for path in sorted((checkout / "tools" / "samples").glob("*")):
        if path.is_file() and not path.name.startswith("."):
            yield Item(places.documents / "examples" / "subscribers" / path.name, path.read_bytes())


def _system(places: Places, checkout: Path, board: str) -> Iterator[Item]:
    systemd = checkout / "systemd"
    for kind in ("system", "user"):
        yield Item(places.systemd(kind) / "voiced.service", _unit(systemd / kind / "voiced.service", places))
    yield Item(places.of_lib("sysusers.d") / "voiced.conf", (systemd / "sysusers.conf").read_bytes())
    yield Item(places.of_lib("tmpfiles.d") / "voiced.conf", (systemd / "tmpfiles.conf").read_bytes())
    yield Item(places.policy, (systemd / f"{NAME}.conf").read_bytes())
    if places.looked_into:
        services = places.prefix / "share" / "dbus-1" / "system-services"
        yield Item(services / f"{NAME}.service", (systemd / f"{NAME}.service").read_bytes())
    for path in sorted((checkout / "daemon" / "voiced" / "data" / "dbus").glob("*.xml")):
        yield Item(places.prefix / "share" / "dbus-1" / "interfaces" / path.name, path.read_bytes())
    if board == "k3":
        yield Item(Path("/etc/systemd/system/voiced.service.d/k3.conf"), (systemd / "drop-ins" / "k3.conf").read_bytes())
        yield Item(Path(CONFIG_FILE), (checkout / "config" / "k3.yaml").read_bytes(), settings=True)
    else:
        text = CONFIG.format(examples=places.documents / "examples", file=CONFIG_FILE)
        yield Item(Path(CONFIG_FILE), text.encode(), settings=True)


def _user(places: Places, checkout: Path) -> Iterator[Item]:
    """For one user, without root: systemd's user manager looks below ~/.local/share."""
    yield Item(places.users_unit, _unit(checkout / "systemd" / "user" / "voiced.service", places))


def _unit(path: Path, places: Places) -> bytes:
    """A unit that runs the commands of this prefix."""
    text = path.read_text()
    if not places.packaged:
        for command in ("voiced", "voicectl"):
            text = text.replace(f"/usr/bin/{command} ", f"{places.prefix}/bin/{command} ")
            text = text.replace(f"/usr/bin/env {command}", f"{places.prefix}/bin/{command}")
    return text.encode()


def _shell(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"
