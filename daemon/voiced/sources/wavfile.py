"""Sound from a file, as a lane wants it: mono, int16, 16 kHz.

What lives here: reading and converting audio files, whole or in frames as fast as they are taken. What must not: devices, clocks.
This file alone imports soundfile; frames are streamed, so that a day of sound needs no more memory than a second of it.

WAV, FLAC, Ogg and what else libsndfile knows; any number of channels (mixed), 4 to 192 kHz, integers of 8 to 32 bits or floats.
16-bit mono at 16 kHz comes out bit for bit. A file whose header already promises more than it holds is refused before it is heard.
One that breaks off later (a damaged frame of FLAC) is heard up to there, and then refused: what was recognised before is sound, and
nobody takes the rest for silence. The one exception is a length that a streaming writer could not know (0, or the largest there
is), which is read to the file's end and said so.
"""

from __future__ import annotations

import io
import os
import stat
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..audio import AudioFrame, Samples, frozen
from ..errors import InputError
from ..units import RATE
from .resample import resampler

if TYPE_CHECKING:
    from soundfile import SoundFile

LOWEST_RATE, HIGHEST_RATE = 4_000, 192_000
LONGEST_HOURS = 24
"""Longer than any recording given to a voice daemon; what claims more lies (a bad header once muted a program for a day)."""

_STREAMING = 0x7FFF_0000
"""A data length from here on is a streaming writer's: sox, arecord and ffmpeg put some number just below 2^31 or 2^32."""


@dataclass(frozen=True, slots=True)
class Note:
    """What the file was and what had to be done about it; `remarks` are sentences for the log."""

    format: str
    rate: int
    channels: int
    remarks: tuple[str, ...] = ()


def read_audio(path: Path) -> tuple[Samples, Note]:
    """The whole file: int16, shape (n,), n > 0, read-only. Raises InputError; see the head of this file."""
    with _Reader(path) as reader:
        parts = list(reader.sound())
        return frozen(np.concatenate(parts)), reader.note()


class WavSource:
    """The frames of a file, as fast as they are taken.

    block   samples of a frame; the last may be shorter
    first   position of the first sample
    Raises InputError when made (what is wrong at the file's head) or while it is iterated (what is wrong later).
    """

    def __init__(self, path: Path, block: int, first: int = 0) -> None:
        if block < 1:
            raise ValueError(f"WavSource wants a block of at least 1 sample; got {block}")
        self._block, self._position = block, first
        self._reader = _Reader(path)

    def __iter__(self) -> Iterator[AudioFrame]:
        rest = np.empty(0, np.int16)
        with self._reader as reader:
            for part in reader.sound():
                rest = np.concatenate((rest, part))
                whole = len(rest) - len(rest) % self._block
                for start in range(0, whole, self._block):
                    yield self._frame(rest[start : start + self._block])
                rest = rest[whole:]
            if len(rest):
                yield self._frame(rest)

    def _frame(self, samples: Samples) -> AudioFrame:
        frame = AudioFrame(self._position, samples.copy())
        self._position = frame.end
        return frame

    def note(self) -> Note:
        """Complete once all frames are read."""
        return self._reader.note()

    def close(self) -> None:
        self._reader.close()


class _Reader:
    """An open file and what is known of it. All errors of soundfile become InputError here."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._remarks: list[str] = []
        self._clipped = 0
        try:
            file = path.open("rb", buffering=0) if stat.S_ISREG(path.stat().st_mode) else None
        except OSError as error:
            raise InputError(str(path), f"cannot be read: {error.strerror}", "name an audio file") from None
        if file is None:
            raise InputError(str(path), "must be a file; got a folder or a device", "name an audio file")
        self._file = file
        try:
            self._sound = self._open()
        except BaseException:
            file.close()
            raise

    def __enter__(self) -> _Reader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._sound.close()
        self._file.close()

    def note(self) -> Note:
        clipped = (f"{self._clipped} samples were beyond full scale and are clipped",) if self._clipped else ()
        sound = self._sound
        return Note(f"{sound.format} {sound.subtype}", sound.samplerate, sound.channels, (*self._remarks, *clipped))

    def _error(self, what: str, advice: str = "") -> InputError:
        return InputError(str(self._path), what, advice)

    def _open(self) -> SoundFile:
        import soundfile

        size = os.fstat(self._file.fileno()).st_size
        if not size:
            raise self._error("is an empty file", "name an audio file")
        source: Any = self._file
        if head := _data_chunk(self._file):
            at, promised = head
            held = size - at - 4
            if held > 0 and (promised == 0 or promised >= _STREAMING) and promised != held:
                self._remarks.append(f"its header gives no length (0x{promised:08X}); read to the end of the file")
                source = _Patched(self._file, at, struct.pack("<I", min(held, 0xFFFF_FFFF)))
            elif promised > held:
                raise self._error(f"is truncated: its header promises {promised} bytes of sound, it holds {held}", "get the whole file")
        try:
            source.seek(0)
            # a descriptor has no name, so that no file is taken for headerless sound because of its ending; and it wants no callbacks
            # of the library, which a unit with MemoryDenyWriteExecute forbids
            sound = soundfile.SoundFile(source if isinstance(source, _Patched) else source.fileno(), closefd=False)
        except MemoryError:
            raise self._error(
                "has no length in its header, and this service may not make what reads it all the same", "save it anew"
            ) from None
        except (soundfile.SoundFileError, TypeError) as error:
            what = str(getattr(error, "error_string", error)).strip().rstrip(".")
            raise self._error(f"is not audio that can be read ({what})", "WAV, FLAC and Ogg can") from None
        wrong = ""
        if not LOWEST_RATE <= sound.samplerate <= HIGHEST_RATE:
            wrong = f"must have {LOWEST_RATE} to {HIGHEST_RATE} samples a second; got {sound.samplerate}"
        elif sound.frames == 0:
            wrong = "has no sound: its length is 0"
        if wrong:
            sound.close()
            raise self._error(wrong)
        if sound.format == "OGG":
            where = self._file.tell()
            if not _ogg_ends(self._file, size):
                self._remarks.append("its last page is missing or cut: sound after what was read is lost")
            self._file.seek(where)
        return sound

    def sound(self) -> Iterator[Samples]:
        """All of it, in parts of about a second: int16, shape (n,)."""
        import soundfile

        sound = self._sound
        rate = sound.samplerate
        stream = resampler(rate) if rate != RATE else None
        frames = given = 0
        while True:
            try:
                block = sound.read(rate, dtype="float32", always_2d=True)
            except soundfile.SoundFileError:  # a FLAC that is cut within a frame
                break
            if not len(block):
                break
            if not np.isfinite(block).all():
                at = (frames + int(np.argmin(np.isfinite(block).all(axis=1)))) / rate
                raise self._error(f"holds a value that is no number, at {at:.3f} s", "write it anew from its source")
            frames += len(block)
            if frames > LONGEST_HOURS * 3600 * rate:
                raise self._error(f"must be at most {LONGEST_HOURS} hours long", "cut it")
            mono = block.mean(axis=1, dtype=np.float32)
            samples = self._int16(stream.resample_chunk(mono) if stream else mono)
            given += len(samples)
            if len(samples):
                yield samples
        known = 0 < sound.frames < 2**62  # a FLAC from a stream has no length
        if (known and frames < sound.frames) or not frames:
            promised = f"its header promises {sound.frames / rate:.2f} s of sound" if known else "it promises sound"
            raise self._error(f"is truncated: {promised}, it holds {frames / rate:.2f} s", "get the whole file")
        if stream:
            samples = self._int16(stream.resample_chunk(np.empty(0, np.float32), last=True))
            given += len(samples)
            if len(samples):
                yield samples
        if not given:
            raise self._error(f"is too short: {frames} frames at {rate} samples a second", "name a longer recording")

    def _int16(self, sound: NDArray[np.float32]) -> Samples:
        scaled = np.rint(sound * 32768)
        clipped = np.clip(scaled, -32768, 32767)
        self._clipped += int(np.count_nonzero(np.abs(sound) > 1))
        return clipped.astype(np.int16)


def _data_chunk(file: io.FileIO) -> tuple[int, int] | None:
    """Of a WAV file, where the length of its sound stands and what it says; None where there is none or it is no WAV."""
    file.seek(0)
    head = file.read(12)
    if len(head) < 12 or head[:4] != b"RIFF" or head[8:] != b"WAVE":
        return None
    while len(chunk := file.read(8)) == 8:
        size = int.from_bytes(chunk[4:], "little")
        if chunk[:4] == b"data":
            return file.tell() - 4, size
        file.seek(size + size % 2, os.SEEK_CUR)
    return None


def _ogg_ends(file: io.FileIO, size: int) -> bool:
    """Whether the last page of an Ogg file is whole and marked as the last (RFC 3533: flag 4, a table of segment lengths)."""
    file.seek(max(0, size - 2 * 65_307))  # a page is at most 65,307 bytes
    tail = file.read(2 * 65_307)
    at = tail.rfind(b"OggS")
    head = tail[at : at + 27]
    if at < 0 or len(head) < 27 or not head[5] & 4:
        return False
    table = tail[at + 27 : at + 27 + head[26]]
    return len(table) == head[26] and len(tail) >= at + 27 + len(table) + sum(table)


class _Patched(io.RawIOBase):
    """A file in which some bytes read as others; nothing is written."""

    def __init__(self, file: io.FileIO, at: int, patch: bytes) -> None:
        self._file, self._at, self._patch = file, at, patch

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        return self._file.tell()

    def readinto(self, buffer: Any) -> int:
        start = self._file.tell()
        view = memoryview(buffer).cast("B")
        count = self._file.readinto(view)
        first, last = max(start, self._at), min(start + count, self._at + len(self._patch))
        if first < last:
            view[first - start : last - start] = self._patch[first - self._at : last - self._at]
        return count
