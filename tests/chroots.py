"""A Debian of its own in a folder: made by debootstrap, entered by chroot, with this machine's way to the packages."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).resolve().parents[1]

PACKAGES = ("python3", "python3-venv", "python3-yaml", "ca-certificates", "dbus", "libportaudio2", "dbus-bin")
"""What the package depends on, and what the tests call: dpkg -i brings nothing by itself."""

_ENTER = """
mount -t proc proc "$0/proc"
mount --rbind /dev "$0/dev"
mount -t tmpfs tmpfs "$0/tmp"
exec chroot "$0" sh -c "$1"
"""


class Debian:
    """The folder, and commands in it."""

    def __init__(self, root: Path, settings: Mapping[str, str]) -> None:
        self.root, self._settings = root, settings

    def __call__(self, script: str, *, timeout_s: float = 1200, **more: str) -> subprocess.CompletedProcess[str]:
        env = {"PATH": "/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "LC_ALL": "C.UTF-8", **self._settings, **more}
        command = ["unshare", "-m", "sh", "-ec", _ENTER, str(self.root), script]
        return subprocess.run(
            command, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", timeout=timeout_s, check=False
        )

    def bring_checkout(self) -> None:
        """The checkout as /src, without what git does not know."""
        listed = subprocess.run(["git", "ls-files"], cwd=CHECKOUT, capture_output=True, text=True, check=True).stdout.splitlines()
        for name in listed:
            if (CHECKOUT / name).is_file():
                (self.root / "src" / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(CHECKOUT / name, self.root / "src" / name)


@contextmanager
def debian(folder: Path, suite: str) -> Iterator[Debian]:
    """Skips where there is no debootstrap, no root or no archive."""
    if os.geteuid() != 0 or shutil.which("debootstrap") is None or shutil.which("unshare") is None:
        pytest.skip("a Debian in a folder needs root and debootstrap")
    if not Path(f"/usr/share/debootstrap/scripts/{suite}").exists():
        pytest.skip(f"this debootstrap does not know {suite}")
    root = folder / suite
    command = ["debootstrap", "--variant=minbase", f"--include={','.join(PACKAGES)}", suite, str(root)]
    mirror = os.environ.get("VOICED_DEBIAN_MIRROR")
    done = subprocess.run([*command, *([mirror] if mirror else [])], capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)
    if done.returncode:
        pytest.skip(f"debootstrap cannot make {suite}: {' '.join((done.stdout + done.stderr).split())[-300:]}")
    try:
        for name in ("resolv.conf", "hosts"):
            shutil.copy2(f"/etc/{name}", root / "etc" / name)
        yield Debian(root, _pip_settings(root))
    finally:
        shutil.rmtree(root, ignore_errors=True)


def _pip_settings(root: Path) -> dict[str, str]:
    """pip's index and certificates of this machine, for the folder."""
    listed = subprocess.run([sys.executable, "-m", "pip", "config", "list"], capture_output=True, text=True, check=False).stdout
    found = {}
    for line in listed.splitlines():
        name, _, value = line.partition("=")
        option = name.rpartition(".")[2]
        value = next(iter(shlex.split(value)), "")
        if option == "index-url":
            found["PIP_INDEX_URL"] = value
        if option == "cert" and Path(value).is_file():
            place = root / "etc" / "ssl" / "certs" / "of-the-host.crt"
            shutil.copy2(value, place)
            found["PIP_CERT"] = "/etc/ssl/certs/of-the-host.crt"
    return found


def members(package: Path) -> list[tarfile.TarInfo]:
    """What a .deb puts on the disk."""
    with subprocess.Popen(["dpkg-deb", "--fsys-tarfile", str(package)], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        with tarfile.open(fileobj=process.stdout, mode="r|") as opened:
            return list(opened)
