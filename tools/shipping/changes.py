"""Many files put in place as one: all are written beside their places first, and only when all are there is any renamed.

What lives here: the plan against what is there, the writing, the way back, and the record by which everything can be found again. What
must not: which files there are (layout.py). A full disk or a folder that may not be written ends the first half, which leaves nothing;
the second half renames, which needs no room.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from voiced.errors import WriteError
from voiced_setup.environment import write_error

from .layout import Item

FRESH = ".voiced-new"
"""End of the names of files that are written and not yet in place."""


@dataclass(frozen=True, slots=True)
class Change:
    """What is to be done with one item: create, replace, keep (changed settings) or none (it is there already)."""

    item: Item
    verb: str


@dataclass(frozen=True, slots=True)
class Record:
    """Files that were installed, with their SHA-256 (of a link: of where it points); folders that were made for them."""

    files: Mapping[str, str]
    folders: tuple[str, ...]

    @classmethod
    def read(cls, path: Path) -> Record:
        """WriteError where it is there and is no record: removing by it would be a guess."""
        try:
            found = json.loads(path.read_text())
            return cls({str(name): str(digest) for name, digest in found["files"].items()}, tuple(map(str, found["folders"])))
        except FileNotFoundError:
            return cls({}, ())
        except OSError as error:
            raise WriteError(str(path), f"cannot be read: {error.strerror}", "run it as root: sudo") from None
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise WriteError(str(path), f"is no record of an installation: {error}", "delete it and install again") from None

    def text(self) -> bytes:
        return (json.dumps({"files": dict(sorted(self.files.items())), "folders": sorted(self.folders)}, indent=1) + "\n").encode()


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def there(path: Path) -> str | None:
    """What is at a path, as a record has it; None where nothing is. WriteError where it cannot be read."""
    try:
        return digest(str(path.readlink()).encode()) if path.is_symlink() else digest(path.read_bytes())
    except FileNotFoundError:
        return None
    except OSError as error:
        raise WriteError(str(path), f"is in the way and cannot be read: {error.strerror}", "move it away") from None


def plan(items: Iterable[Item], root: Path, record: Record) -> list[Change]:
    """What each item wants. Settings that differ from what was installed are kept."""
    found = []
    for item in items:
        now = there(under(root, item.path))
        wanted = digest(item.link.encode() if item.link else item.data)
        if now == wanted:
            verb = "none"
        elif now is None:
            # settings that were installed once and then deleted were deleted by somebody
            verb = "keep" if item.settings and str(item.path) in record.files else "create"
        elif item.settings and now != record.files.get(str(item.path)):
            verb = "keep"
        else:
            verb = "replace"
        found.append(Change(item, verb))
    return found


def under(root: Path, path: Path) -> Path:
    return root / path.relative_to("/")


def apply(changes: Iterable[Change], root: Path, record: Record, record_path: Path) -> Record:
    """Puts everything in place and takes away what an older version had and this one has not. The new record.

    WriteError: nothing has changed.
    """
    changes = list(changes)
    doing = [change.item for change in changes if change.verb in ("create", "replace")]
    kept = {
        str(change.item.path): record.files[str(change.item.path)]
        for change in changes
        if change.verb == "keep" and str(change.item.path) in record.files
    }
    files = {str(c.item.path): digest(c.item.link.encode() if c.item.link else c.item.data) for c in changes if c.verb != "keep"} | kept
    if not doing and files == record.files:
        return record
    written: list[tuple[Path, Path]] = []
    made: list[Path] = []
    try:
        for item in doing:
            written.append(_write(item, under(root, item.path), made))
        folders = {*record.folders, *(f"/{folder.relative_to(root)}" for folder in made)}
        # first a record of the old and the new: whatever is broken off now can be found again
        both = Item(record_path, Record({**record.files, **files}, tuple(folders)).text())
        written.insert(0, _write(both, under(root, record_path), made))
        new = Record(files, tuple(folders))
        last = _write(Item(record_path, new.text()), under(root, record_path), made, end=f"{FRESH}2")
        written.append(last)
        os.sync()  # a name that is on the disk before what it names would be an empty file after a power cut
    except BaseException as error:
        for fresh, _ in written:
            fresh.unlink(missing_ok=True)
        for folder in reversed(made):
            with contextlib.suppress(OSError):
                folder.rmdir()
        if isinstance(error, OSError):
            raise write_error(Path(error.filename or root), error) from None
        raise
    for fresh, path in written[:-1]:
        fresh.replace(path)
    _take_away([name for name in record.files if name not in files], root)
    _empty(folders, root)
    written[-1][0].replace(written[-1][1])
    return new


def _write(item: Item, path: Path, made: list[Path], end: str = FRESH) -> tuple[Path, Path]:
    """The file beside its place, whole. OSError: it is not there."""
    for folder in reversed([folder for folder in path.parents if not folder.exists()]):
        folder.mkdir()
        made.append(folder)
        folder.chmod(0o755)  # whatever the umask: the daemon's user must come in
    fresh = path.with_name(f".{path.name}{end}")
    fresh.unlink(missing_ok=True)  # of an installation that was broken off
    try:
        if item.link:
            fresh.symlink_to(item.link)
        else:
            fresh.write_bytes(item.data)
            fresh.chmod(item.mode)
    except OSError as error:
        fresh.unlink(missing_ok=True)
        error.filename = str(path)
        raise
    return fresh, path


def remove(record: Record, root: Path, settings: Iterable[Path], ours: Path) -> list[Path]:
    """Takes away all that the record has but settings that were changed, which it returns; `ours`, a folder of nobody else, whole; and
    folders that are empty then."""
    kept = []
    for path in settings:
        now = there(under(root, path))
        if now is not None and now != record.files.get(str(path)):
            kept.append(path)
    _take_away([name for name in record.files if Path(name) not in kept], root)
    shutil.rmtree(under(root, ours), ignore_errors=True)
    _empty(record.folders, root)
    return kept


def _empty(folders: Iterable[str], root: Path) -> None:
    """Takes away those of the folders that we made in which nothing is."""
    for folder in sorted(folders, key=len, reverse=True):
        with contextlib.suppress(OSError):  # somebody else's files are in it
            under(root, Path(folder)).rmdir()


def _take_away(names: Iterable[str], root: Path) -> None:
    for name in names:
        path = under(root, Path(name))
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            raise write_error(path, error) from None
