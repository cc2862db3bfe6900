"""The frozen encoder's answers, kept on disk: what the trained half learns from, many times faster than from sound.

What lives here: making such a cache and reading it. What must not: anything trained.

    python -m voiced_train.cache SPLIT.jsonl --weights weights.npz --manifest MANIFEST --out DIR --copy N [--share 1/2]

A cache is NAME.f16 (rows of 384 half floats, 50 a second: 138 MB an hour of speech) and NAME.jsonl (a line an utterance, written
after its rows). It may be stopped at any time and goes on where it was. Copy 0 is each recording as it is; later copies change
speed, room, noise, level and, where `--cuts` (voiced_train.align) knows the words, the shape. Seeded: what becomes of a recording depends
on the seed, the copy and the recording alone. What cannot be used is named, counted and left out.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from voiced.errors import InputError, VoicedError

from .augment import Scenery, disturbed, speed
from .data import Utterance
from .features import filter_banks, read_sound
from .sound import RATE, Sound, at_level
from .synthesize import _share as parse_share
from .utterances import Cut, Sentence, Take, plain, shaped

WIDTH = 384
FRAMES_A_SECOND = 50

_SHORTEST_S, _LONGEST_S = 0.3, 20.0
_SPEEDS = (0.9, 1.1)
_PLAIN_LEVELS_DB = (-30.0, -16.0)


@dataclass(frozen=True, slots=True)
class Entry:
    """An utterance of a cache. `frames` rows of 20 ms (even) begin at row `offset`; `lead` samples lie before the recording."""

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
    """Reads one NAME.f16 with its NAME.jsonl. Raises InputError for a line of another form or rows that are not there."""

    def __init__(self, path: Path) -> None:
        self.entries: list[Entry] = []
        for number, line in enumerate(path.with_suffix(".jsonl").read_text(encoding="utf-8").splitlines(), 1):
            try:
                fields = json.loads(line)
                sentences = tuple(Sentence(**sentence) for sentence in fields.pop("sentences"))
                self.entries.append(Entry(sentences=sentences, **fields))
            except (json.JSONDecodeError, KeyError, TypeError) as error:
                raise InputError(f"{path.with_suffix('.jsonl')}:{number}", f"is no entry of a cache ({error})") from None
        rows = path.stat().st_size // (2 * WIDTH)
        if self.entries and (last := max(entry.offset + entry.frames for entry in self.entries)) > rows:
            raise InputError(str(path), f"holds {rows} rows, and its entries want {last}", "make the cache again")
        self._rows: NDArray[np.float16] = np.memmap(path, np.float16, "r", shape=(rows, WIDTH))

    def frames(self, entry: Entry) -> NDArray[np.float32]:
        """float32 (frames / 2, 768): two frames of 20 ms side by side, 25 a second."""
        return self._rows[entry.offset : entry.offset + entry.frames].astype(np.float32).reshape(-1, 2 * WIDTH)


class Writer:
    """Appends to a cache; what a crash left without its line is cut away."""

    def __init__(self, path: Path) -> None:
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
        os.truncate(path, self._row * 2 * WIDTH)
        self._rows = path.open("ab")

    def add(self, take: Take, path: str, speaker: str, source: str, factor: float, rows: NDArray[np.float16]) -> None:
        """`rows` float16 (n, 384), n even."""
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
    return Take(changed, sentences, round(made.lead / factor), made.shape), factor


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
    parser = argparse.ArgumentParser(prog="python -m voiced_train.cache", description="Keep the frozen encoder's answers.")
    parser.add_argument("split", type=Path, metavar="SPLIT", help="a .jsonl of voiced_train.data")
    parser.add_argument("--weights", type=Path, required=True, metavar="FILE", help="weights.npz: its adapter is used")
    parser.add_argument("--manifest", type=Path, required=True, metavar="FILE", help="of noises and room responses")
    parser.add_argument("--cuts", type=Path, metavar="FILE", help="where words end (from voiced_train.align)")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR")
    parser.add_argument("--copy", type=int, default=0, metavar="N", help="0: as recorded; 1, 2, …: changed (default: %(default)s)")
    parser.add_argument("--share", type=parse_share, default=(1, 1), metavar="I/N", help="make the I-th of N shares")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="(default: %(default)s)")
    parser.add_argument("--precise", action="store_true", help="compute in float32: half as fast, 2 %% of the deviation less noise")
    options = parser.parse_args(arguments)
    try:
        return _run(options)
    except VoicedError as error:
        print(f"cache: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        return 130


def _run(options: argparse.Namespace) -> int:
    import torch

    from .model import load_encoder

    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    encoder = load_encoder(options.weights)
    utterances = read_split(options.split)
    cuts = read_cuts(options.cuts) if options.cuts else {}
    scenery = Scenery.read(options.manifest)
    speakers: defaultdict[str, list[Utterance]] = defaultdict(list)
    for utterance in utterances:
        speakers[utterance.speaker].append(utterance)
    share, shares = options.share
    options.out.mkdir(parents=True, exist_ok=True)
    writer = Writer(options.out / f"{options.split.stem}-{options.copy}-{share}of{shares}.f16")
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
        banks = torch.from_numpy(filter_banks(made.sound))[None]
        with torch.inference_mode(), torch.autocast("cpu", torch.bfloat16, enabled=not options.precise):
            rows = encoder(banks)[0].to(torch.float16).numpy()
        writer.add(made, utterance.path, utterance.speaker, utterance.source, factor, rows[: len(rows) // 2 * 2])
        heard += len(made.sound) / RATE
        if len(writer.done) % 200 == 0:
            print(f"{len(writer.done)} kept, {heard / 3600:.2f} h, {heard / (time.monotonic() - started):.0f} x real time", flush=True)
    writer.close()
    print(f"{len(writer.done)} kept, {refused.total()} refused, {heard / 3600:.2f} h now")
    return 0


if __name__ == "__main__":
    sys.exit(main())
