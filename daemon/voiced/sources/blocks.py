"""A block of raw sound as it crosses from a capture process to a lane: one datagram, a header and the frames.

What lives here: the format and its two functions, for both ends. What must not: NumPy (the capture process has none), sockets,
meaning. The header is little-endian; the frames are interleaved, as the device gave them: int16, or JACK's float32, full scale 1
(native order: both ends are on one machine, and every board that this runs on is little-endian).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, replace

from ..errors import InternalError

_HEADER = struct.Struct("<4sIQQIHHI")
_MAGIC = b"vcd2"

INT16, FLOAT32 = 2, 4
"""Bytes of a sample, which say what it is."""

LOWEST_RATE, HIGHEST_RATE = 1_000, 1_000_000
"""Frames a second. No device has others, and a datagram at a few a second would be minutes of sound."""

DATAGRAM_LIMIT = 32 * 1024
"""Bytes of a datagram at the most. 40 ms of 8 channels at 48 kHz (30,756) go in one; a socket's buffer, which counts the
kernel's own bookkeeping too, then holds a dozen of the largest."""


@dataclass(frozen=True, slots=True)
class Block:
    """Some frames of a device, in order.

    ended_ns  CLOCK_MONOTONIC when the read that gave the last frame returned
    first     index of the first frame since the device was opened; frames lost in the device are counted in it
    rate      frames a second
    channels  samples a frame
    data      interleaved, frames * channels samples
    sequence  counts what was offered to this lane; one that did not fit leaves a hole
    lost      frames lost for this lane since the block before it, in the device or on the way (`first` has them too)
    width     bytes of a sample: INT16 or FLOAT32
    """

    ended_ns: int
    first: int
    rate: int
    channels: int
    data: bytes | memoryview
    sequence: int = 0
    lost: int = 0
    width: int = INT16

    @property
    def frames(self) -> int:
        return len(self.data) // (self.width * self.channels)

    @property
    def end(self) -> int:
        """Index after the last frame."""
        return self.first + self.frames


def pack(block: Block) -> bytes:
    """The datagram of a block. Counters wrap at 32 bits (five years of blocks); a loss beyond them says 2**32 - 1."""
    sequence, lost = block.sequence & 0xFFFFFFFF, min(block.lost, 0xFFFFFFFF)
    return _HEADER.pack(_MAGIC, sequence, block.ended_ns, block.first, block.rate, block.channels, block.width, lost) + block.data


def unpack(datagram: bytes) -> Block:
    """The block that `pack` made this of; InternalError says what is wrong with it."""
    if len(datagram) < _HEADER.size:
        raise InternalError("capture", f"a datagram of {len(datagram)} bytes, at least {_HEADER.size} expected")
    magic, sequence, ended_ns, first, rate, channels, width, lost = _HEADER.unpack_from(datagram)
    if magic != _MAGIC:
        raise InternalError("capture", f"a datagram that begins with {magic!r}, {_MAGIC!r} expected")
    if not LOWEST_RATE <= rate <= HIGHEST_RATE or not channels or width not in (INT16, FLOAT32):
        raise InternalError("capture", f"a datagram of {rate} frames a second and {channels} channels, {width} bytes a sample")
    data = memoryview(datagram)[_HEADER.size :]
    if not data or len(data) % (width * channels):
        raise InternalError("capture", f"a datagram with {len(data)} bytes of sound, whole frames of {channels} channels expected")
    return Block(ended_ns, first, rate, channels, data, sequence, lost, width)


def split(block: Block) -> Iterator[Block]:
    """The same frames in blocks that each fit into a datagram, each with the time at which its own last frame ended."""
    frame_bytes = block.width * block.channels
    most = (DATAGRAM_LIMIT - _HEADER.size) // frame_bytes
    if block.frames <= most:
        yield block
        return
    for start in range(0, block.frames, most):
        stop = min(start + most, block.frames)
        ended_ns = block.ended_ns - (block.frames - stop) * 1_000_000_000 // block.rate
        lost = 0 if start else block.lost
        data = block.data[start * frame_bytes : stop * frame_bytes]
        yield replace(block, ended_ns=ended_ns, first=block.first + start, data=data, lost=lost)
