"""Sound → what a wake head sees, kept on disk: the embeddings of many recordings in one array.

What lives here: tracks of embeddings, their cache, and how a window is taken from them. What must not: which recordings (wake_split.py),
what is done to sound (wake_data.py). An embedding costs a thousand times what a head does, so it is computed once; float16 holds it to
a part in two thousand, which moves no score by more than some thousandths.
"""

from __future__ import annotations

import hashlib
import os
import zipfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from voiced.stages.features import EMBEDDING_SIZE, EMBEDDINGS, HOP, WakeFeatures

from .sound import Sound

Progress = Callable[[str, int, int], None]
"""Told of a named piece of work, how much is done, and of how much."""


def silent(what: str, done: int, total: int) -> None:
    """The Progress that says nothing."""


@dataclass(frozen=True, slots=True)
class Tracks:
    """Embeddings of recordings, one after the other.

    rows    float16 (n, 96): of each recording 15 rows that the ring holds at birth, then one a hop
    starts  int64 (recordings,): where each recording's rows begin
    names   one a recording
    """

    rows: NDArray[np.float16]
    starts: NDArray[np.int64]
    names: tuple[str, ...]

    @property
    def hops(self) -> NDArray[np.int64]:
        """int64 (recordings,): windows of each recording."""
        return np.diff(self.starts, append=len(self.rows)) - (EMBEDDINGS - 1)

    @property
    def hours(self) -> float:
        return float(self.hops.sum()) * HOP / 16_000 / 3600

    def all_windows(self) -> NDArray[np.int64]:
        """int64 (windows,): the first row of each window, recording by recording."""
        found = [np.arange(start, start + hops) for start, hops in zip(self.starts, self.hops, strict=True)]
        return np.concatenate([np.zeros(0, np.int64), *found])

    def take(self, windows: NDArray[np.int64]) -> NDArray[np.float32]:
        """float32 (n, 16 · 96): the windows that begin at these rows, flat, the oldest embedding first."""
        at = windows[:, None] + np.arange(EMBEDDINGS)
        return self.rows[at].astype(np.float32).reshape(len(windows), EMBEDDINGS * EMBEDDING_SIZE)


def without(tracks: Tracks, names: frozenset[str]) -> Tracks:
    """All recordings but these."""
    kept = [at for at, name in enumerate(tracks.names) if name not in names]
    if len(kept) == len(tracks.names):
        return tracks
    ends = tracks.starts + tracks.hops + EMBEDDINGS - 1
    pieces = [Tracks(tracks.rows[tracks.starts[at] : ends[at]], np.zeros(1, np.int64), (tracks.names[at],)) for at in kept]
    return join(pieces)


def join(parts: Sequence[Tracks]) -> Tracks:
    rows = np.concatenate([np.zeros((0, EMBEDDING_SIZE), np.float16), *(part.rows for part in parts)])
    offsets = np.cumsum([0, *(len(part.rows) for part in parts)])
    starts = [part.starts + offset for part, offset in zip(parts, offsets, strict=False)]
    return Tracks(rows, np.concatenate([np.zeros(0, np.int64), *starts]), tuple(name for part in parts for name in part.names))


def pcm(sound: Sound) -> NDArray[np.int16]:
    """int16 of whole hops: what is missing of the last one is silence."""
    whole = np.zeros(-(-len(sound) // HOP) * HOP, np.int16)
    whole[: len(sound)] = np.clip(np.round(sound * 32767), -32768, 32767).astype(np.int16)
    return whole


def listen(features: WakeFeatures, sounds: Iterable[tuple[str, Sound]]) -> Tracks:
    """The embeddings of each (name, float32 at 16 kHz). A sound without a sample has no track."""
    rows, starts, names, at = [np.zeros((0, EMBEDDING_SIZE), np.float16)], [], [], 0
    for name, sound in sounds:
        if not len(sound):
            continue
        rows.append(features.track(pcm(sound)).astype(np.float16))
        starts.append(at)
        names.append(name)
        at += len(rows[-1])
    return Tracks(np.concatenate(rows), np.array(starts, np.int64), tuple(names))


def cached(folder: Path, what: str, key: Iterable[str], make: Callable[[], Tracks]) -> Tracks:
    """The tracks of `what` from the folder where they were made from the same `key`, else made and kept there."""
    digest = hashlib.sha256("\n".join(key).encode()).hexdigest()[:12]
    path = folder / f"{what.replace(' ', '-')}-{digest}.npz"
    try:
        with np.load(path) as file:
            return Tracks(file["rows"], file["starts"], tuple(str(name) for name in file["names"]))
    except FileNotFoundError:
        pass
    except (ValueError, KeyError, OSError, zipfile.BadZipFile):
        path.unlink(missing_ok=True)  # half a file of a run that was ended
    made = make()
    folder.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{os.getpid()}-{path.name}")
    np.savez(partial, rows=made.rows, starts=made.starts, names=np.array(made.names))
    partial.replace(path)
    return made
