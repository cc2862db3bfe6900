"""What an installation does to a running machine besides files: users, folders, systemd, the bus.

What lives here: the commands of the system that do it, and what is said where one is missing or refuses. What must not: files of ours.
"""

from __future__ import annotations

import grp
import pwd
import shutil
from collections.abc import Iterator
from pathlib import Path

from voiced import preflight

USER, GROUP = "voiced", "voice"

LINKS = (
    Path("/etc/systemd/system/multi-user.target.wants/voiced.service"),
    Path("/etc/systemd/system/dbus-org.voiced.Voice1.service"),
)
"""What `systemctl enable voiced` makes."""

FIXED_IDS = 100

STATE = (Path("/var/lib/voiced"), Path("/var/cache/voiced"))


def settle(sysusers: Path, tmpfiles: Path) -> Iterator[str]:
    """Users and folders, then systemd and the bus read what is new. A line for what could not be done, and how to do it by hand."""
    by_hand = [
        *([] if _known(grp.getgrnam, GROUP) else [["groupadd", "--system", GROUP]]),
        ["useradd", "--system", "--user-group", "--home-dir", "/var/lib/voiced", "--no-create-home", "--shell", "/usr/sbin/nologin", USER],
        ["usermod", "--append", "--groups", "audio", USER],
    ]
    if shutil.which("systemd-sysusers"):
        yield from _do(["systemd-sysusers", str(sysusers)])
    elif not (_known(pwd.getpwnam, USER) and _known(grp.getgrnam, GROUP)):
        for command in by_hand:
            yield from _do(command)
    for group in (GROUP, "audio"):
        if not _known(grp.getgrnam, group):
            yield f"the group {group} is missing: groupadd --system {group}"
    if not _known(pwd.getpwnam, USER):
        yield f"the user {USER} is missing: {' '.join(by_hand[-2])}"
    elif not shutil.which("systemd-tmpfiles"):
        yield from _folders()
    else:
        yield from _do(["systemd-tmpfiles", "--create", str(tmpfiles)])
    yield from _refresh()


def _folders() -> Iterator[str]:
    """What tmpfiles.conf has, where nothing reads it."""
    for folder, mode in zip(STATE, (0o700, 0o755), strict=True):
        try:
            folder.mkdir(mode=mode, parents=True, exist_ok=True)
            shutil.chown(folder, USER, USER)
        except OSError as error:
            yield f"{folder} cannot be made: {error.strerror}"


def stop() -> None:
    """The service, before its files go."""
    if _systemd():
        preflight.run(["systemctl", "disable", "--now", "voiced.service"])
    for link in LINKS:
        link.unlink(missing_ok=True)


def unsettle() -> Iterator[str]:
    """Folders, user and group go; systemd and the bus read anew."""
    for folder in STATE:
        shutil.rmtree(folder, ignore_errors=True)
    if _known(pwd.getpwnam, USER):
        yield from _do(["userdel", USER])
    # Debian has a group of this name among those that are on every machine (policy 9.2.2: ids below 100)
    if _known(grp.getgrnam, GROUP) and grp.getgrnam(GROUP).gr_gid >= FIXED_IDS:
        yield from _do(["groupdel", GROUP])
    yield from _refresh()


def _refresh() -> Iterator[str]:
    if _systemd():
        yield from _do(["systemctl", "daemon-reload"])
        yield from _do(["systemctl", "reload", "dbus.service"])


def _systemd() -> bool:
    """systemd runs this machine."""
    return Path("/run/systemd/system").is_dir() and shutil.which("systemctl") is not None


def _known(look: object, name: str) -> bool:
    try:
        look(name)  # type: ignore[operator]
    except KeyError:
        return False
    return True


def _do(command: list[str]) -> Iterator[str]:
    if shutil.which(command[0]) is None:
        yield f"{command[0]} is not there, so it was not done: {' '.join(command)}"
        return
    ended = preflight.run(command, deadline_s=60)
    if ended.status != 0:
        yield f"{' '.join(command)} failed: {ended.last}"
