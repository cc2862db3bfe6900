"""tools/make-deb: one package for every architecture, with our code and our models and nothing of anybody else's.

What lives here: the control files and the archive. What must not: what is in the package (layout.py), the environment (voiced_setup, run
by the administrator: no script of the package needs a network). dpkg-deb is all that is needed.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from email.utils import formatdate
from pathlib import Path

from voiced import __version__
from voiced.command import run_command
from voiced.errors import InternalError, VoicedError, WriteError
from voiced_setup.environment import write_error

from . import layout
from .changes import under
from .layout import Item, Places

PLACES = Places(Path("/usr"))

SITE = Path("/var/lib/voiced-setup")
"""Where a package's environment and fetched models are: what is made on a machine is not below /usr."""

CONTROL = """Package: voiced
Version: {version}
Architecture: all
Maintainer: {maintainer}
Installed-Size: {kilobytes}
Depends: python3 (>= 3.11), python3-venv, python3-yaml, libportaudio2, dbus, passwd
Recommends: ca-certificates, libsndfile1, libsoxr0
Suggests: pipewire
Section: sound
Priority: optional
Description: on-device voice daemon: wake phrase, live partials, final text on D-Bus
 voiced listens on a microphone, wakes on a phrase, publishes the words while
 they are spoken, knows when the speaker has finished, and publishes the final
 text on D-Bus. Everything happens on the machine.
 .
 Libraries and models of other projects are not in this package: the command
 voiced-setup fetches them, once.
"""

COPYRIGHT = """Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: voiced

Files: *
Copyright: {year} the authors of voiced
License: Apache-2.0

License: Apache-2.0
 Licensed under the Apache License, Version 2.0: you may not use this file
 except in compliance with it. Unless required by law or agreed to in writing,
 it is distributed WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND.
 .
 On Debian systems the whole text is in /usr/share/common-licenses/Apache-2.0.
"""

CHANGELOG = """voiced ({version}) unstable; urgency=medium

  * See the history of the source.

 -- {maintainer}  {date}
"""

POSTINST = """#!/bin/sh
set -e
if [ "$1" = configure ]; then
    if command -v systemd-sysusers >/dev/null; then
        systemd-sysusers voiced.conf
    else
        getent group voice >/dev/null || groupadd --system voice
        getent passwd voiced >/dev/null ||
            useradd --system --user-group --home-dir /var/lib/voiced --no-create-home --shell /usr/sbin/nologin voiced
        getent group audio >/dev/null && usermod --append --groups audio voiced
    fi
    if command -v systemd-tmpfiles >/dev/null; then
        systemd-tmpfiles --create voiced.conf || true
    else
        install -d -o root -g root -m 0755 /etc/voiced/voiced.yaml.d
        install -d -o voiced -g voiced -m 0755 /var/cache/voiced
        install -d -o voiced -g voiced -m 0700 /var/lib/voiced
    fi
    install -d -m 0755 {site}
    if command -v py3compile >/dev/null; then py3compile -p voiced {top}; fi
    if [ -d /run/systemd/system ]; then
        systemctl daemon-reload || true
        if [ -n "$2" ]; then systemctl try-restart voiced.service || true; fi
    fi
    if ! [ -x {site}/env/bin/python ]; then
        echo "voiced: libraries and models are not there yet: run voiced-setup, then systemctl enable --now voiced" >&2
    elif [ -n "$2" ]; then
        echo "voiced: run voiced-setup: this version may want other libraries; what is right already is left" >&2
    fi
fi
"""

PRERM = """#!/bin/sh
set -e
if [ "$1" = remove ] && [ -d /run/systemd/system ]; then
    systemctl disable --now voiced.service || true
fi
if command -v py3clean >/dev/null; then py3clean -p voiced || true; fi
"""

POSTRM = """#!/bin/sh
set -e
if [ "$1" = remove ] || [ "$1" = purge ]; then
    # what voiced-setup made and can make again
    rm -rf {site}
    rm -f /etc/systemd/system/multi-user.target.wants/voiced.service /etc/systemd/system/dbus-{name}.service
    if [ -d /run/systemd/system ]; then systemctl daemon-reload || true; fi
fi
if [ "$1" = purge ]; then
    rm -rf /var/lib/voiced /var/cache/voiced
    rmdir /etc/voiced/voiced.yaml.d /etc/voiced 2>/dev/null || true
    if getent passwd voiced >/dev/null && command -v userdel >/dev/null; then userdel voiced || true; fi
fi
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns the exit code (voiced.errors); whatever goes wrong is one line on stderr."""
    return run_command("tools/make-deb", lambda: run(parser().parse_args(arguments)))


def parser() -> argparse.ArgumentParser:
    epilog = "Exit codes: 0 done, 2 usage, 69 no dpkg-deb, 70 dpkg-deb failed, 74 full disk or no right to write."
    about = "Make the Debian package of this checkout. It needs dpkg-deb, and no network."
    top = argparse.ArgumentParser("tools/make-deb", description=about, epilog=epilog)
    top.add_argument("--out", metavar="DIR", type=Path, default=layout.CHECKOUT / "dist", help="where it is put (dist)")
    top.add_argument("--version", metavar="VERSION", default=__version__, help=f"its version ({__version__})")
    top.add_argument("--maintainer", metavar="NAME <MAIL>", default="The voiced project <voiced@voiced.org>", help="who answers for it")
    return top


def run(options: argparse.Namespace) -> int:
    if shutil.which("dpkg-deb") is None:
        raise VoicedError("dpkg-deb", "is not installed", "apt-get install dpkg", code=69)
    path = options.out / f"voiced_{options.version}_all.deb"
    try:
        options.out.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".voiced-deb-", dir=options.out) as folder:
            build(Path(folder), options.version, options.maintainer, path)
    except OSError as error:
        raise write_error(Path(error.filename or options.out), error) from None
    print(path)
    return 0


def contents(version: str, maintainer: str, seconds: int) -> list[Item]:
    """The package's files."""
    doc = PLACES.documents
    day = time.gmtime(seconds)
    changelog = CHANGELOG.format(version=version, maintainer=maintainer, date=formatdate(seconds))
    own = [
        Item(doc / "copyright", COPYRIGHT.format(year=day.tm_year).encode()),
        Item(doc / "changelog.gz", gzip.compress(changelog.encode(), 9, mtime=0)),
        Item(PLACES.top / "site", link=str(SITE)),
    ]
    return sorted([*layout.items(PLACES, day=time.strftime("%Y-%m-%d", day)), *own], key=lambda item: item.path)


def build(folder: Path, version: str, maintainer: str, path: Path) -> None:
    """Lays the package out in an empty folder and packs it. The same checkout and SOURCE_DATE_EPOCH give the same bytes."""
    seconds = int(os.environ.get("SOURCE_DATE_EPOCH") or time.time())
    items = contents(version, maintainer, seconds)
    for item in items:
        place = under(folder, item.path)
        place.parent.mkdir(parents=True, exist_ok=True)
        if item.link:
            place.symlink_to(item.link)
        else:
            place.write_bytes(item.data)
            place.chmod(item.mode)
    kilobytes = sum(-(-len(item.data) // 1024) for item in items)
    for name, text in control(items, version, maintainer, kilobytes).items():
        place = folder / "DEBIAN" / name
        place.parent.mkdir(exist_ok=True)
        place.write_text(text)
        place.chmod(0o755 if text.startswith("#!") else 0o644)
    for place in (folder, *folder.rglob("*")):
        if place.is_dir() and not place.is_symlink():
            place.chmod(0o755)
        os.utime(place, (seconds, seconds), follow_symlinks=False)
    fresh = folder.with_name(f"{folder.name}.deb")
    # gzip: weights hardly shrink, and xz takes twelve times as long for 5 % less
    command = ["dpkg-deb", "--root-owner-group", "-Zgzip", "--build", str(folder), str(fresh)]
    done = subprocess.run(command, env={**os.environ, "SOURCE_DATE_EPOCH": str(seconds)}, capture_output=True, text=True, check=False)
    try:
        if done.returncode:
            said = " ".join(done.stderr.split())[-300:]
            if "No space left" in said:
                raise WriteError(str(path.parent), "the disk is full", "make room, then try again")
            raise InternalError("dpkg-deb", said, "see man dpkg-deb")
        fresh.replace(path)
    finally:
        fresh.unlink(missing_ok=True)


def control(items: Sequence[Item], version: str, maintainer: str, kilobytes: int) -> Mapping[str, str]:
    """The files of DEBIAN/ by name."""
    sums = [f"{hashlib.md5(item.data, usedforsecurity=False).hexdigest()}  {str(item.path)[1:]}\n" for item in items if not item.link]
    words = {"site": SITE, "top": PLACES.top, "name": layout.NAME}
    return {
        "control": CONTROL.format(version=version, maintainer=maintainer, kilobytes=kilobytes),
        "conffiles": "".join(f"{item.path}\n" for item in items if item.path.is_relative_to("/etc")),
        "md5sums": "".join(sums),
        "postinst": POSTINST.format(**words),
        "prerm": PRERM,
        "postrm": POSTRM.format(**words),
    }


if __name__ == "__main__":
    sys.exit(main())
