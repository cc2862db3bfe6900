"""Whether a model's file is whole: its size, its SHA-256, and where a checksum is written down that no manifest knows.

What lives here: reading. What must not: fetching; the processes that load models verify them first, and need nothing else of it.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from .errors import ModelError, reason_of
from .manifest import ModelFile

RECEIPT = "receipt.json"
"""In a model's folder: `{"files": {name: {"bytes": n, "sha256": hex}}}`, for files no manifest has a checksum of."""


def sha256(path: Path) -> str:
    """Hex SHA-256 of a file's bytes. Raises OSError."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def read_receipt(folder: Path) -> dict[str, ModelFile]:
    """What a folder's receipt says of its files, by name; nothing where there is none. Raises ModelError where it is broken."""
    path = folder / RECEIPT
    try:
        files = json.loads(path.read_text())["files"]
        return {name: ModelFile("", name, int(entry["bytes"]), str(entry["sha256"])) for name, entry in files.items()}
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ModelError(
            str(path), f"the record of what was fetched is broken: {reason_of(error)}", "delete it and fetch the model again"
        ) from None


def check_file(path: Path, wanted: ModelFile) -> str:
    """What is wrong with a file: "" for nothing. Reads all of it. An unknown size or checksum is not compared."""
    try:
        size = path.stat().st_size
        if wanted.size and size != wanted.size:
            return f"{'truncated' if size < wanted.size else 'wrong size'}: {wanted.size:,} bytes are expected, {size:,} are there"
        if wanted.sha256 and (found := sha256(path)) != wanted.sha256:
            return f"wrong checksum: SHA-256 {wanted.sha256} is expected, {found} is there"
    except OSError as error:
        return f"cannot be read: {error.strerror or error}"
    return ""
