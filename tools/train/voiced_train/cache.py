"""Features, kept on disk: what training learns from, many times faster than from sound.

What lives here: making such a cache and reading it. What must not: anything trained.

    python -m voiced_train.cache SPLIT.jsonl --manifest MANIFEST --out DIR --copy N [--weights weights.npz] [--share 1/2]

A cache is NAME.jsonl (a line an utterance, written after its rows) and one of two: NAME.banks, filter banks, which the whole model learns
from (rows of 80 half floats, 100 a second: 58 MB an hour of speech), or with `--weights` NAME.f16, what a frozen encoder answers to them,
which the half above it learns from (rows of 384, 50 a second: 138 MB an hour). It may be stopped at any time and goes on where it was.

Copy 0 is each recording as it is; later copies change speed, room, noise, level and, where `--cuts` (voiced_train.align) knows the words,
the shape. Seeded: what becomes of a recording depends on the seed, the copy and the recording alone. What cannot be used is named, counted
and left out.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from voiced.errors import InputError, VoicedError

from .augment import Scenery, disturbed, speed
from .data import Utterance
from .features import MELS, Frames, filter_banks, read_sound
from .sound import RATE, Sound, at_level
from .synthesize import _share as parse_share
from .utterances import Cut, Sentence, Take, hushed, plain, shaped

_FORMS = {".banks": (80, 4), ".f16": (384, 2)}
"""By a file's ending: the values of a row, and the rows of a frame of 40 ms."""

_SHORTEST_S, _LONGEST_S = 0.3, 20.0
_HUSHED_SHARE = 0.35
_SPEEDS = (0.9, 1.1)
_PLAIN_LEVELS_DB = (-30.0, -16.0)


@dataclass(frozen=True, slots=True)
class Entry:
    """An utterance of a cache. `frames` rows, of whole 40 ms, begin at row `offset`; `lead` samples lie before the recording."""

    path: str
    speaker: str
    source: str
    shape: str
    lead: int
    speed: float
    sentences: tuple[Sentence, ...]
    offset: int
    frames: int

    @property
    def text(self) -> str:
        return " ".join(sentence.text for sentence in self.sentences)


class Cache:
    """Reads one NAME.banks or NAME.f16 with its NAME.jsonl. Raises InputError for a line of another form or rows that are not there."""

    def __init__(self, path: Path) -> None:
        self.width, self.rows_a_frame = form(path)
        self.entries: list[Entry] = []
        for number, line in enumerate(path.with_suffix(".jsonl").read_text(encoding="utf-8").splitlines(), 1):
            try:
                fields = json.loads(line)
                sentences = tuple(Sentence(**sentence) for sentence in fields.pop("sentences"))
                self.entries.append(Entry(sentences=sentences, **fields))
            except (json.JSONDecodeError, KeyError, TypeError) as error:
                raise InputError(f"{path.with_suffix('.jsonl')}:{number}", f"is no entry of a cache ({error})") from None
        rows = path.stat().st_size // (2 * self.width)
        if self.entries and (last := max(entry.offset + entry.frames for entry in self.entries)) > rows:
            raise InputError(str(path), f"holds {rows} rows, and its entries want {last}", "make the cache again")
        self._rows: NDArray[np.float16] = np.memmap(path, np.float16, "r", shape=(rows, self.width))

    def features(self, entry: Entry) -> NDArray[np.float32]:
        """float32: filter banks (n, 80), or two of the encoder's answers side by side, (n / 2, 768)."""
        rows = self._rows[entry.offset : entry.offset + entry.frames].astype(np.float32)
        return rows if self.width == MELS else rows.reshape(-1, 2 * self.width)


def form(path: Path) -> tuple[int, int]:
    """The values of a row, and the rows of a frame of 40 ms. Raises InputError."""
    if path.suffix not in _FORMS:
        raise InputError(str(path), f"is no cache: its name ends in {path.suffix!r}", f"name a file that ends in {' or '.join(_FORMS)}")
    return _FORMS[path.suffix]


class Writer:
    """Appends to a cache; what a crash left without its line is cut away."""

    def __init__(self, path: Path) -> None:
        self._width, self._rows_a_frame = form(path)
        self._index = path.with_suffix(".jsonl")
        self.done: set[str] = set()
        self._row = 0
        if self._index.exists():
            whole = self._index.read_bytes()
            whole = whole[: whole.rfind(b"\n") + 1]
            self._index.write_bytes(whole)
            for line in whole.splitlines():
                entry = json.loads(line)
                self.done.add(entry["path"])
                self._row = max(self._row, entry["offset"] + entry["frames"])
        path.touch()
        os.truncate(path, self._row * 2 * self._width)
        self._rows = path.open("ab")

    def add(self, take: Take, path: str, speaker: str, source: str, factor: float, rows: NDArray[np.float16]) -> None:
        """`rows` float16 (n, width); what is no whole frame of 40 ms is left out."""
        rows = rows[: len(rows) // self._rows_a_frame * self._rows_a_frame]
        entry = Entry(path, speaker, source, take.shape, take.lead, factor, take.sentences, self._row, len(rows))
        self._rows.write(rows.tobytes())
        self._rows.flush()
        with self._index.open("a", encoding="utf-8") as index:
            index.write(json.dumps(asdict(entry), ensure_ascii=False) + "\n")
        self._row += len(rows)
        self.done.add(path)

    def close(self) -> None:
        self._rows.close()


def read_split(path: Path) -> list[Utterance]:
    """The lines of a split that voiced_train.data wrote. Raises InputError."""
    utterances = []
    try:
        for line in path.read_text(encoding="utf-8").splitlines():
            fields = json.loads(line)
            fields["pauses"] = tuple(tuple(pause) for pause in fields["pauses"])
            utterances.append(Utterance(**fields))
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise InputError(str(path), f"is no split ({error})") from None
    return utterances


def read_cuts(path: Path) -> dict[str, tuple[Cut, ...]]:
    """A line a recording: {"path": …, "cuts": [[words, start, end], …]}, as voiced_train.align writes it."""
    lines = map(json.loads, path.read_text(encoding="utf-8").splitlines())
    return {line["path"]: tuple(Cut(*cut) for cut in line["cuts"]) for line in lines}


def take(
    utterance: Utterance,
    copy: int,
    cuts: Sequence[Cut],
    partner: Utterance | None,
    scenery: Scenery,
    rng: np.random.Generator,
) -> tuple[Take, float]:
    """The sound that copy `copy` makes of a recording, and its speed. Raises InputError for what cannot be used."""
    sound = _usable(utterance)
    if copy == 0:
        whole, factor = plain(utterance, sound, rng), 1.0
        return Take(at_level(whole.sound, rng.uniform(*_PLAIN_LEVELS_DB)), whole.sentences, whole.lead, whole.shape), factor
    other = (partner, _usable(partner)) if partner is not None else None
    made = shaped(utterance, sound, cuts, other, rng)
    factor = float(rng.uniform(*_SPEEDS)) if rng.random() < 0.7 else 1.0
    changed = disturbed(speed(made.sound, factor) if factor != 1.0 else made.sound, scenery, rng)
    sentences = tuple(Sentence(s.text, round(s.end / factor), s.complete, s.patient) for s in made.sentences)
    quiet = tuple((round(start / factor), round(end / factor)) for start, end in made.quiet)
    if rng.random() < _HUSHED_SHARE:
        changed = hushed(changed, quiet, rng)
    return Take(changed, sentences, round(made.lead / factor), made.shape, quiet), factor


def _usable(utterance: Utterance) -> Sound:
    if not utterance.text.split():
        raise InputError(utterance.path, "has an empty text")
    sound = read_sound(utterance.path)
    if not _SHORTEST_S * RATE <= len(sound) <= _LONGEST_S * RATE:
        raise InputError(utterance.path, f"is {len(sound) / RATE:.1f} s long; usable is {_SHORTEST_S:g} to {_LONGEST_S:g} s")
    if not sound.any():
        raise InputError(utterance.path, "is digital silence")
    return sound


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m voiced_train.cache", description="Keep features for training.")
    parser.add_argument("split", type=Path, metavar="SPLIT", help="a .jsonl of voiced_train.data")
    parser.add_argument("--weights", type=Path, metavar="FILE", help="weights.npz, whose encoder answers (default: filter banks are kept)")
    parser.add_argument("--manifest", type=Path, required=True, metavar="FILE", help="of noises and room responses")
    parser.add_argument("--cuts", type=Path, metavar="FILE", help="where words end (from voiced_train.align)")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR")
    parser.add_argument("--copy", type=int, default=0, metavar="N", help="0: as recorded; 1, 2, …: changed (default: %(default)s)")
    parser.add_argument("--share", type=parse_share, default=(1, 1), metavar="I/N", help="make the I-th of N shares")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="(default: %(default)s)")
    parser.add_argument(
        "--precise", action="store_true", help="compute in float32 also where bfloat16 is faster: less noise, 2 %% of the deviation"
    )
    options = parser.parse_args(arguments)
    try:
        return _run(options)
    except VoicedError as error:
        print(f"cache: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        return 130


def _answers(weights: Path, precise: bool) -> Callable[[Frames], NDArray[np.float16]]:
    import torch

    from .model import has_fast_halves, load_encoder

    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    encoder = load_encoder(weights)
    halves = has_fast_halves() and not precise

    def answer(banks: Frames) -> NDArray[np.float16]:
        with torch.inference_mode(), torch.autocast("cpu", torch.bfloat16, enabled=halves):
            rows: NDArray[np.float16] = encoder(torch.from_numpy(banks)[None])[0].to(torch.float16).numpy()
        return rows

    return answer


def _run(options: argparse.Namespace) -> int:
    answer = _answers(options.weights, options.precise) if options.weights else lambda banks: banks.astype(np.float16)
    utterances = read_split(options.split)
    cuts = read_cuts(options.cuts) if options.cuts else {}
    scenery = Scenery.read(options.manifest)
    speakers: defaultdict[str, list[Utterance]] = defaultdict(list)
    for utterance in utterances:
        speakers[utterance.speaker].append(utterance)
    share, shares = options.share
    options.out.mkdir(parents=True, exist_ok=True)
    writer = Writer(options.out / f"{options.split.stem}-{options.copy}-{share}of{shares}{'.f16' if options.weights else '.banks'}")
    refused: Counter[str] = Counter()
    heard, started = 0.0, time.monotonic()
    for utterance in utterances:
        seed = hashlib.sha256(f"{options.seed}:{options.copy}:{Path(utterance.path).name}".encode()).digest()
        if seed[0] % shares != share - 1 or utterance.path in writer.done:
            continue
        rng = np.random.default_rng(list(seed))
        partner = speakers[utterance.speaker][int(rng.integers(len(speakers[utterance.speaker])))]
        try:
            made, factor = take(utterance, options.copy, cuts.get(utterance.path, ()), partner, scenery, rng)
        except VoicedError as error:
            refused[str(error)] += 1
            print(f"refused: {error}", file=sys.stderr, flush=True)
            continue
        rows = answer(filter_banks(made.sound))
        writer.add(made, utterance.path, utterance.speaker, utterance.source, factor, rows)
        heard += len(made.sound) / RATE
        if len(writer.done) % 200 == 0:
            print(f"{len(writer.done)} kept, {heard / 3600:.2f} h, {heard / (time.monotonic() - started):.0f} x real time", flush=True)
    writer.close()
    print(f"{len(writer.done)} kept, {refused.total()} refused, {heard / 3600:.2f} h now")
    return 0


if __name__ == "__main__":
    sys.exit(main())
