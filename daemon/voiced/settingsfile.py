"""Where settings are: the file, and the drop-ins beside it.

What lives here: finding and reading. What must not: what may stand in them (settings.py).

Beside FILE, the folder FILE.d may hold drop-ins, *.yaml, read after it in the order of their names: what a package or an
administrator adds without changing a file that is not theirs. A later one has the last word on each key that it names; a list is one
value. All mistakes of all of them are told, by file and line.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from pathlib import Path

from .errors import ConfigError
from .settings import Rule, Settings, parse_all

SIZE_LIMIT = 256 * 1024
"""Bytes of a settings file: the whole table with its comments is a twentieth of it."""

DROP_INS_LIMIT = 64
"""More than anybody keeps apart; each may have SIZE_LIMIT."""

SYSTEM_FILE = Path("/etc/voiced/voiced.yaml")


def find_config(explicit: Path | None = None) -> Path | None:
    """The file to read: the one named, else the user's, else the system's; None where there is none (defaults). One that has
    drop-ins alone counts, too.

    ConfigError where it cannot be known whether there is one: settings that somebody wrote are not passed over.
    """
    if explicit is not None:
        return explicit
    return next((path for path in (_user_file(), SYSTEM_FILE) if path and (_is_there(path) or drop_ins(path))), None)


def _user_file() -> Path | None:
    """None for a user without a home."""
    home = os.environ.get("XDG_CONFIG_HOME", "")
    try:
        # the XDG specification has relative paths ignored
        base = Path(home) if Path(home).is_absolute() else Path.home() / ".config"
    except RuntimeError:
        return None
    return base / "voiced" / "voiced.yaml"


def _is_there(path: Path) -> bool:
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        raise ConfigError(str(path), f"cannot be looked for: {error.strerror}", "name a settings file with --config") from None
    return True


def drop_ins(path: Path) -> list[Path]:
    """In the order in which they are read. Hidden ones, which editors make while they save, are none."""
    folder = path.parent / f"{path.name}.d"  # `.` and `/` have no name
    try:
        found = sorted(one for one in folder.iterdir() if one.suffix == ".yaml" and not one.name.startswith("."))
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise ConfigError(str(folder), f"cannot be looked into: {error.strerror}", "let voiced's user read it") from None
    if len(found) > DROP_INS_LIMIT:
        raise ConfigError(str(folder), f"must hold at most {DROP_INS_LIMIT} files; got {len(found)}", "put them together")
    return found


def read(path: Path | None, on: str = "", more: Sequence[Rule] = ()) -> Settings:
    """The settings of a file and its drop-ins (None: defaults); ConfigError holds every mistake.

    `on` names a board against the file's own; `more` are rules beside those of settings.py.
    """
    if path is None:
        return parse_all([("defaults", "")], on)
    beside = drop_ins(path)
    files = beside if beside and not _is_there(path) else [path, *beside]
    return parse_all([(str(file), _text(file)) for file in files], on, more)


def _text(path: Path) -> str:
    try:
        if not stat.S_ISREG(path.stat().st_mode):  # a pipe would be waited for
            raise ConfigError(str(path), "must be a file; got a folder or a device", "name a settings file")
        with path.open("rb") as file:
            data = file.read(SIZE_LIMIT + 1)
    except OSError as error:
        raise ConfigError(str(path), f"cannot be read: {error.strerror}", "name a settings file that this user can read") from None
    if len(data) > SIZE_LIMIT:
        raise ConfigError(str(path), f"must be at most {SIZE_LIMIT // 1024} kB", "is this a settings file?")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ConfigError(f"{path}:{line}", f"must be UTF-8 text; got the byte 0x{data[error.start]:02x}") from None
