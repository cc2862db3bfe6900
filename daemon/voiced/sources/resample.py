"""Sound of any rate to 16 kHz, one channel, as a stream: the block size does not matter.

What lives here: the only use of soxr, through its Python binding or, where that has no wheel (RISC-V), through ctypes from the C library
itself (Debian's libsoxr0). Both compute the same. What must not: channels, positions.
"""

from __future__ import annotations

import ctypes
import ctypes.util
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ..errors import InternalError
from ..units import RATE

Floats = NDArray[np.float32]


class Resampler(Protocol):
    """One stream; of one thread."""

    def resample_chunk(self, x: Floats, last: bool = False) -> Floats:
        """float32 (n,) of the old rate → float32 (m,) of 16 kHz, m = 0 while the filter fills (30 ms); `last`: and all that it holds."""


def resampler(rate: int) -> Resampler:
    """From `rate` frames a second. Raises InternalError where neither soxr is installed."""
    try:
        import soxr
    except ImportError:
        return LibSoxr(rate)
    stream: Resampler = soxr.ResampleStream(rate, RATE, 1, dtype="float32", quality="HQ")
    return stream


class LibSoxr:
    """The C library's own stream, at its default: high quality (20 bits), linear phase, float32, one thread."""

    def __init__(self, rate: int) -> None:
        self._library = _library()
        self._ratio = RATE / rate
        error = ctypes.c_char_p()
        self._stream = self._library.soxr_create(float(rate), float(RATE), 1, ctypes.byref(error), None, None, None)
        if not self._stream:
            raise InternalError("soxr", f"cannot convert {rate} Hz to {RATE} Hz: {(error.value or b'no reason given').decode()}")

    def __del__(self) -> None:
        if getattr(self, "_stream", None):
            self._library.soxr_delete(self._stream)

    def resample_chunk(self, x: Floats, last: bool = False) -> Floats:
        x = np.ascontiguousarray(x, np.float32)
        out = [self._process(x)] if len(x) else []
        if last:
            while not out or len(out[-1]):
                out.append(self._process(None))
        return np.concatenate(out) if out else np.zeros(0, np.float32)

    def _process(self, x: Floats | None) -> Floats:
        """All of `x` goes in, what is due comes out; None: the end, whose rest comes out piece by piece."""
        count = 0 if x is None else len(x)
        out = np.empty(round(count * self._ratio) + _ROOM, np.float32)
        taken, made = ctypes.c_size_t(), ctypes.c_size_t()
        data = None if x is None else x.ctypes.data
        error = self._library.soxr_process(self._stream, data, count, ctypes.byref(taken), out.ctypes.data, len(out), ctypes.byref(made))
        if error or taken.value != count:
            raise InternalError("soxr", f"took {taken.value} of {count} frames: {(error or b'no reason given').decode()}")
        return out[: made.value]


_ROOM = 4096
"""Samples beyond what a block gives on average: what the filter has held back may come out with any block."""


def _library() -> Any:
    name = ctypes.util.find_library("soxr")
    try:
        library = ctypes.CDLL(name or "libsoxr.so.0")
    except OSError:
        raise InternalError("soxr", "neither its Python package nor its C library is installed", "apt install libsoxr0") from None
    pointer, size = ctypes.c_void_p, ctypes.POINTER(ctypes.c_size_t)
    library.soxr_create.restype = pointer
    library.soxr_create.argtypes = [
        ctypes.c_double,
        ctypes.c_double,
        ctypes.c_uint,
        ctypes.POINTER(ctypes.c_char_p),
        pointer,
        pointer,
        pointer,
    ]
    library.soxr_process.restype = ctypes.c_char_p  # an error's text, NULL for none
    library.soxr_process.argtypes = [pointer, pointer, ctypes.c_size_t, size, pointer, ctypes.c_size_t, size]
    library.soxr_delete.restype = None
    library.soxr_delete.argtypes = [pointer]
    return library
