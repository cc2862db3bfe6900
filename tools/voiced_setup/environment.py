"""The environment of an installed voiced: made beside the one that is used, tried, and only then put in its place.

What lives here: `site/`, its layout and its lock; pip; the switch. What must not: arguments, models.

    site/env              a link to the environment that the commands use
    site/env-0123456789ab one environment, named by what it was made of; `complete` in it says that it was tried
    site/models           fetched models

A set-up that is broken off leaves an environment without `complete`, which the next one removes: the link is set last.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from voiced import preflight
from voiced.errors import FetchError, ModelError, VoicedError, WriteError

from .sources import Sources

NEEDED_BYTES = 500 << 20
"""An environment is some 240 MB, its downloads 70, the fetched models 50; the rest is for what pip unpacks meanwhile."""

CODE_PATHS = ("daemon", "tools", "tools/train")
"""Folders below the installed code that Python looks into."""

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Place:
    """top: folder of the installed code; site: see above. lists: folder of requirements.txt and constraints.txt, usually top too."""

    top: Path
    lists: Path

    @property
    def site(self) -> Path:
        return self.top / "site"

    @property
    def python(self) -> Path:
        """What the commands run; it need not be there."""
        return self.site / "env" / "bin" / "python"

    @property
    def models(self) -> Path:
        return self.site / "models"

    def requirements(self) -> tuple[str, ...]:
        lines = (self.lists / "requirements.txt").read_text().splitlines()
        return tuple(line for line in lines if line and not line.startswith("#"))


def fingerprint(place: Place, sources: Sources, python: Path) -> str:
    """What an environment is made of: another of these makes another environment."""
    parts = [str(place.top), str(python), sys.version, platform.machine(), repr(sources)]
    if not sources.sees_system:
        parts.append((place.lists / "constraints.txt").read_text())
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:12]


def folder(place: Place, sources: Sources, python: Path) -> Path:
    return place.site / f"env-{fingerprint(place, sources, python)}"


def ready(place: Place, sources: Sources, python: Path) -> bool:
    """The commands use an environment that is made of just this, and whole."""
    wanted = folder(place, sources, python)
    link = place.site / "env"
    return (wanted / "complete").is_file() and link.is_symlink() and link.resolve() == wanted.resolve()


def make(place: Place, sources: Sources, say: Say, *, index: str = "", anew: bool = False, python: Path | None = None) -> Path:
    """An environment that is whole, not yet the one that is used; its folder. Raises VoicedError, and leaves nothing then."""
    python = python or Path(os.path.realpath(sys.executable))
    wanted = folder(place, sources, python)
    with only_one(place, say):
        if anew or not (wanted / "complete").is_file():
            _room(place)
            shutil.rmtree(wanted, ignore_errors=True)
            say(f"making {wanted}")
            try:
                _fill(place, wanted, sources, python, index, say)
            except BaseException:
                shutil.rmtree(wanted, ignore_errors=True)
                raise
    return wanted


def _fill(place: Place, wanted: Path, sources: Sources, python: Path, index: str, say: Say) -> None:
    options = ["--system-site-packages"] if sources.sees_system else []
    done = preflight.run([str(python), "-m", "venv", *options, str(wanted)], deadline_s=600)
    if done.status != 0:
        if "ensurepip" in done.err + done.out:
            raise VoicedError("python3-venv", "is not installed", "apt-get install python3-venv", code=69)
        raise disk_error(wanted, done.last)
    env = str(wanted / "bin" / "python")
    if sources.maker:
        where = ["--index-url", index] if index else []
        say(f"from the maker's index: {' '.join(sources.maker)}")
        pip(env, [*where, *sources.maker], place.lists, f"install {' '.join(sources.maker)}")
    constraints = [] if sources.sees_system else ["--constraint", "constraints.txt"]
    say(f"by pip: {len(sources.index)} packages and what they need")
    # without dependencies where the system has them: NumPy's would be looked for, and there is none
    pip(env, [*constraints, *(["--no-deps"] if sources.sees_system else []), *sources.index], place.lists, "install what voiced needs")
    lib = next((wanted / "lib").glob("python3*")) / "site-packages"
    (lib / "voiced.pth").write_text("".join(f"{place.top / folder}\n" for folder in CODE_PATHS))
    wrong = [found for name in preflight.LIBRARIES if not (found := preflight.try_library(name, env, clean())).good]
    if sources.sees_system:  # soxr comes as the system's library there
        wrong = [found for found in wrong if found.name != "soxr"]
    if wrong:
        raise ModelError(wrong[0].name, wrong[0].what, wrong[0].advice)
    (wanted / "complete").write_text("".join(f"{line}\n" for line in sources.index))


def pip(env: str, arguments: Sequence[str], folder: Path, what: str) -> None:
    """Runs pip install; FetchError says what pip said last."""
    command = [env, "-m", "pip", "install", "--disable-pip-version-check", "--no-input", "--quiet", *arguments]
    done = subprocess.run(
        command, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", check=False, env=clean()
    )
    if done.returncode == 0:
        return
    errors = [" ".join(line.split()) for line in done.stderr.splitlines() if "ERROR" in line or "No space left" in line]
    said = (errors or [preflight.Ended(done.returncode, done.stdout, done.stderr).last])[-1][:300]
    if "No space left" in done.stderr:
        raise disk_error(Path(env).parents[1], said)
    raise FetchError("pip", f"could not {what}: {said}", "check the network and pip config list, then run voiced-setup again")


def clean() -> Mapping[str, str]:
    """The caller's environment without what would lead a child to other Python code than its own."""
    return {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")}


def switch(place: Place, wanted: Path) -> None:
    """Has the commands use that environment, and takes the others away.

    The link is replaced by a rename: a command that starts meanwhile gets the old one or the new one.
    """
    link, fresh = place.site / "env", place.site / f".env-{os.getpid()}"
    try:
        fresh.unlink(missing_ok=True)
        fresh.symlink_to(wanted.name)
        fresh.replace(link)
    except OSError as error:
        raise write_error(link, error) from None
    for old in place.site.glob("env-*"):
        if old != wanted:
            shutil.rmtree(old, ignore_errors=True)


def remove(place: Place) -> None:
    """What `make` and the fetched models left, and nothing else."""
    with contextlib.suppress(FileNotFoundError):
        (place.site / "env").unlink()
    for old in (*place.site.glob("env-*"), place.models):
        shutil.rmtree(old, ignore_errors=True)
    (place.site / ".lock").unlink(missing_ok=True)


@contextlib.contextmanager
def only_one(place: Place, say: Say) -> Iterator[None]:
    """One set-up at a time; the lock goes with its holder."""
    try:
        place.site.resolve().mkdir(parents=True, exist_ok=True)
        lock = (place.site / ".lock").open("w")
    except OSError as error:
        raise write_error(place.site, error) from None
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("waiting for another voiced-setup")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _room(place: Place) -> None:
    free = shutil.disk_usage(place.site).free
    if free < NEEDED_BYTES:
        what = f"the disk has too little room: {NEEDED_BYTES >> 20} MB are needed, {free >> 20} MB are free"
        raise WriteError(str(place.site.resolve()), what, "make room")


def disk_error(path: Path, said: str) -> WriteError:
    return WriteError(str(path), said, "make room, or mend the folder, and try again")


def write_error(path: Path, error: OSError) -> VoicedError:
    """The one line for a file that cannot be written."""
    if error.errno in (errno.EACCES, errno.EPERM) and os.geteuid() != 0:
        return WriteError(str(path), f"cannot be written by this user: {error.strerror}", "run it as root: sudo")
    if error.errno == errno.EROFS:
        return WriteError(str(path), "is on a file system that is mounted read-only", "mount it for writing, then try again")
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return WriteError(str(path), "the disk is full", "make room, then try again")
    return WriteError(str(path), f"cannot be written: {error.strerror}", "mend it, then try again")
