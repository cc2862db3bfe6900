"""Which models are measured, and a clip's way through one: the daemon's own transducer stage, fed as the daemon feeds it.

What lives here: an id or a folder made into recognizers, the times that an export says of itself, one stream. What must not: figures.
A model is tried in a child process first, because sherpa-onnx ends the process on some that are damaged:

    python -m voicectl.evaluation.recognizers KIND PART=FILE…
"""

from __future__ import annotations

import mmap
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from voiced.api import (
    END_TOKEN,
    LANGUAGE,
    STREAMING,
    Library,
    ModelError,
    Samples,
    Transducer,
    VoicedError,
    probe,
    provider,
    reason_of,
    runtime_directory,
    to_samples,
)

from .tracks import Track

BLOCK = 512
"""Samples a step: what a lane's transducer gets at a time (32 ms)."""

_FRAME_MS = 40
"""An output frame of every export whose metadata has T and decode_chunk_len: four feature frames."""
_FEATURE_MS = 10
_PARTS = ("encoder", "decoder", "joiner", "tokens")
_PROBE_S = 120
"""A model that takes longer to load is not one for a small board."""


@dataclass(frozen=True, slots=True)
class Export:
    """A streaming transducer on disk. Times: milliseconds; `form`: int8 or fp32, as its encoder computes; the search's as in Transducer."""

    name: str
    kind: str
    form: str
    files: Mapping[str, Path]
    frame_ms: float
    chunk_ms: float
    lookahead_ms: float
    tail_ms: float
    end_token: bool
    paths: int = 1
    language: float = 0.0

    @property
    def lookahead(self) -> int:
        return to_samples(self.lookahead_ms)

    @property
    def size(self) -> int:
        """Bytes of what it computes with."""
        return sum(self.files[part].stat().st_size for part in self.parts)

    @property
    def parts(self) -> tuple[str, ...]:
        """The names of those files that it computes with."""
        return (*_PARTS, LANGUAGE) if LANGUAGE in self.files and self.paths > 1 and self.language else _PARTS


def find(asked: str, library: Callable[[], Library]) -> tuple[Export, ...]:
    """ID, FOLDER or NAME=FOLDER → its exports: the int8 encoder and, beside it, the fp32 one where the folder has both.

    Raises ModelError: no such model, a part is missing, its metadata do not fit (named).
    """
    name, equals, folder = asked.rpartition("=")
    if equals or "/" in asked or Path(asked).is_dir():
        return _of_folder(name or Path(asked).resolve().name, Path(folder if equals else asked))
    found = library().find(asked, "transducer")
    library().verify(asked)
    model, files = found.model, found.files
    encoder = files["encoder"]
    int8 = Export(
        asked, model.kind, _form(encoder), files, model.frame_ms, model.chunk_ms, model.lookahead_ms, model.tail_ms, model.end_token
    )
    other = encoder.with_name(encoder.name.replace(".int8", ""))
    if other == encoder or not other.is_file():
        return (int8,)
    return int8, replace(int8, form="fp32", files={**files, "encoder": other})


def searched(export: Export, paths: int, language: float, told: str) -> Export:
    """The same, with that search; `told` is put behind its name."""
    return replace(export, paths=paths, language=language, name=export.name + told)


def _form(encoder: Path) -> str:
    return "int8" if ".int8" in encoder.name else "fp32"


def _of_folder(name: str, folder: Path) -> tuple[Export, ...]:
    if not folder.is_dir():
        raise ModelError(str(folder), "is no folder", "name one that has encoder, decoder, joiner and tokens.txt, or a model's id")

    def one_of(part: str) -> list[Path]:
        names = (f"{part}.txt",) if part == "tokens" else (f"{part}.int8.onnx", f"{part}.onnx")
        there = [folder / file for file in names if (folder / file).is_file()]
        if not there:
            raise ModelError(str(folder), f"has no {part}: expected {' or '.join(names)}", "name an export's folder, or a model's id")
        return there

    encoders = one_of("encoder")
    # the smaller ones beside either encoder, so that the two differ in the encoder alone
    parts = {part: one_of(part)[0] for part in _PARTS[1:]}
    if (language := folder / f"{LANGUAGE}.onnx").is_file():
        parts[LANGUAGE] = language
    return tuple(_export(name, {"encoder": encoder, **parts}) for encoder in encoders)


def _export(name: str, files: Mapping[str, Path]) -> Export:
    encoder = files["encoder"]
    facts = metadata(encoder)
    kind = facts.get("model_type", "")
    if kind not in STREAMING:
        expected = ", ".join(sorted(STREAMING))
        raise ModelError(str(encoder), f"its metadata have model_type {kind!r}; expected one of {expected}", "export it for sherpa-onnx")

    def number(key: str) -> int:
        value = facts.get(key, "")
        if not value.isdecimal() or not int(value):
            raise ModelError(str(encoder), f"its metadata have {key} {value!r}; expected a number of feature frames")
        return int(value)

    window, chunk = number("T"), number("decode_chunk_len")
    # what the encoder is told to keep back, where it says so; else all that a decode hears beyond its chunk
    ahead = number("pad_length") if kind == "conformer" and "pad_length" in facts else window - chunk
    if not 0 <= ahead <= window - chunk:
        raise ModelError(str(encoder), f"its metadata contradict each other: T {window}, decode_chunk_len {chunk}, pad_length {ahead}")
    tokens = files["tokens"].read_text(encoding="utf-8", errors="replace").splitlines()
    says_end = any(line.split(maxsplit=1)[:1] == [END_TOKEN] for line in tokens)
    chunk_ms, lookahead_ms, tail_ms = (frames * _FEATURE_MS for frames in (chunk, ahead, window))
    return Export(name, kind, _form(encoder), files, _FRAME_MS, chunk_ms, lookahead_ms, tail_ms, says_end)


def metadata(path: Path) -> dict[str, str]:
    """The metadata_props of an ONNX file (field 14 of its ModelProto, which repeats key 1 and value 2), read without loading the graph.

    Raises ModelError where the file is no ONNX model or ends before its time.
    """
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            entries = [dict(_fields(entry)) for number, entry in _fields(data) if number == 14]
    except (OSError, ValueError) as error:
        raise ModelError(str(path), f"is no ONNX model: {reason_of(error)}", "name an export's folder") from None
    return {entry.get(1, b"").decode(errors="replace"): entry.get(2, b"").decode(errors="replace") for entry in entries}


def _fields(data: mmap.mmap | bytes) -> Iterator[tuple[int, bytes]]:
    """(number, bytes) of a protobuf message's fields that have a length, in their order; numbers are passed over, the graph is not read.

    Raises ValueError. https://protobuf.dev/programming-guides/encoding
    """
    at = 0

    def varint() -> int:
        nonlocal at
        value = shift = 0
        while True:
            if at >= len(data) or shift > 63:
                raise ValueError("a field is cut off")
            byte = data[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while at < len(data):
        number, wire = divmod(varint(), 8)
        if not number:
            raise ValueError("a field has the number 0")
        if wire == 0:
            varint()
        elif wire in (1, 5):
            at += 8 if wire == 1 else 4
        elif wire == 2:
            length = varint()
            if at + length > len(data):
                raise ValueError(f"field {number} promises {length} bytes, {len(data) - at} are there")
            yield number, data[at : at + length] if number != 7 else b""  # 7 is the graph: megabytes of weights
            at += length
        else:
            raise ValueError(f"field {number} has wire type {wire}")


def try_out(export: Export) -> None:
    """Loads it in a child process and decodes half a second of silence. Raises ModelError: what was said there, or how it ended."""
    parts = [f"{part}={export.files[part]}" for part in (*_PARTS, LANGUAGE) if part in export.files]
    try:
        command = [sys.executable, "-m", "voicectl.evaluation.recognizers", export.kind, *parts]
        done = subprocess.run(command, check=False, capture_output=True, text=True, errors="replace", timeout=_PROBE_S)
    except subprocess.TimeoutExpired:
        raise ModelError(str(export.files["encoder"]), f"does not load within {_PROBE_S} s") from None
    if done.returncode == ModelError.exit_code:
        raise ModelError("", done.stdout.strip())
    if done.returncode:
        said = done.stderr.strip().splitlines()[-1:] or ["nothing was said"]
        how = f"signal {-done.returncode}" if done.returncode < 0 else f"exit code {done.returncode}"
        raise ModelError(str(export.files["encoder"]), f"sherpa-onnx ended its process on it ({how}): {said[0][:300]}")


def load(export: Export, runtime: Path) -> Transducer:
    """On one thread, warmed up. Raises ModelError."""
    stage = Transducer(
        export.kind,
        {part: export.files[part] for part in export.parts},
        frame_ms=export.frame_ms,
        chunk_ms=export.chunk_ms,
        lookahead_ms=export.lookahead_ms,
        tail_ms=export.tail_ms,
        end_token=export.end_token,
        provider=provider(runtime),
        paths=export.paths,
        language=export.language,
    )
    stage.warm_up()
    return stage


def hear(stage: Transducer, samples: Samples) -> Track:
    """One turn: a new stream, steps of BLOCK, the tail at its end."""
    words, decodes = [], []
    chunks = stage.statistics().chunks
    began = time.process_time()
    stage.start(0)
    for first in range(0, len(samples), BLOCK):
        block = samples[first : first + BLOCK]
        if (change := stage.step(block)) is not None:
            words.append(change)
        if (now := stage.statistics().chunks) > chunks:
            chunks = now
            decodes.append(first + len(block))
    words.append(stage.finish())
    return Track(tuple(words), tuple(decodes), len(samples), time.process_time() - began)


def main(arguments: Sequence[str]) -> int:
    kind, *parts = arguments
    try:
        with runtime_directory() as runtime:
            files = {part: Path(file) for part, _, file in (pair.partition("=") for pair in parts)}
            probe(kind, files, provider=provider(runtime))
    except VoicedError as error:
        print(error)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
