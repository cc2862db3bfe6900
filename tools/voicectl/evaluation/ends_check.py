"""How well the end of speech is known: forced alignment and the ear held against the synthesizer, in more and more noise.

What lives here: the measurement, its table and its document. What must not: how an end is found (alignment.py, sounds.py) or believed
(true_ends.py).
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from voiced.api import Samples, Vad, __version__, defaults, to_ms

from .alignment import Aligner, NotAlignedError
from .clips import LeftOut
from .endpoint_queries import Query
from .scores import Spread, spread
from .sounds import in_noise, speech_bounds
from .tables import Table
from .true_ends import ALIGNMENT, EAR, believed

BELOW_DB = (None, 40.0, 30.0, 20.0, 10.0)
"""A room's noise so far below the speech; None: as it was made. Most recordings have 35 to 65, from across a noisy room 20."""
BELIEVED = "believed"

WHAT = (
    "Error: from the synthesizer's end of speech, where its clean sound falls 40 dB below its loudest 20 ms. The ear goes by the same "
    "level where there is no noise, so there it is right by definition; where noise covers a last sound that fades, neither can hear it.",
    "Alignment: the end of the text's last word (PocketSphinx). Ear: the last 10 ms that stand out of the quiet near where the VAD lets "
    "go. Believed: what `endpoint eval` takes of the two, the alignment unless they are 300 ms apart or there is none.",
)


@dataclass(frozen=True, slots=True)
class Row:
    """One way to know an end, in one noise.

    later_ms  the median of its error with its sign: above 0, it says later than it was
    error     of its size
    none      recordings in which it finds no end
    """

    below_db: float | None
    by: str
    error: Spread | None
    later_ms: float | None
    none: int


def compare(queries: Iterable[Query], vad: Vad, aligner: Aligner, seed: int) -> list[Row]:
    """Queries whose ends a synthesizer knew, each in every noise; empty of none."""
    errors: dict[tuple[float | None, str], list[float | None]] = {}
    for query in queries:
        number = zlib.crc32(query.name.encode())  # the same noise for the same recording, whatever else is measured
        for below_db in BELOW_DB:
            samples = query.samples if below_db is None else in_noise(query.samples, below_db, (seed, number, round(below_db)))
            for by, end in _ends(samples, query.text or "", vad, aligner):
                errors.setdefault((below_db, by), []).append(None if end is None else to_ms(end - query.end))
    return [_row(below_db, by, found) for (below_db, by), found in errors.items()]


def _ends(samples: Samples, text: str, vad: Vad, aligner: Aligner) -> Iterator[tuple[str, int | None]]:
    aligned = heard = None
    try:
        aligned = aligner.end(samples, text)
    except NotAlignedError:
        pass
    try:
        heard = speech_bounds(samples, vad.track(samples), on=defaults().vad.on, off=defaults().vad.off).end
    except ValueError:  # noise has drowned it
        pass
    yield ALIGNMENT, aligned
    yield EAR, heard
    # a recording in which the VAD finds no speech is no query, whatever the aligner says
    yield BELIEVED, heard if heard is None or aligned is None else believed(aligned, heard).sample


def _row(below_db: float | None, by: str, found: Sequence[float | None]) -> Row:
    errors = [one for one in found if one is not None]
    later = float(np.median(errors)) if errors else None
    return Row(below_db, by, spread([abs(one) for one in errors]), later, len(found) - len(errors))


def table(rows: Sequence[Row]) -> Table:
    found = [["noise below the speech", "end by", "recordings", "error, median", "p90", "later by, median", "finds none"]]
    for row in rows:
        noise = "as made" if row.below_db is None else f"{row.below_db:.0f} dB"
        if row.error is None or row.later_ms is None:
            found.append([noise, row.by, "0", "", "", "", str(row.none)])
        else:
            times = [f"{row.error.median_ms:.0f} ms", f"{row.error.p90_ms:.0f} ms", f"{row.later_ms:+.0f} ms"]
            found.append([noise, row.by, str(row.error.clips), *times, str(row.none)])
    return found


def document(where: str, rows: Sequence[Row], left_out: Sequence[LeftOut]) -> dict[str, Any]:
    """Everything, in plain values; keys may be added, none changes its meaning."""
    return {
        "voiced": __version__,
        "where": where,
        "ends": [asdict(row) for row in rows],
        "left_out": [asdict(one) for one in left_out],
        "what": list(WHAT),
    }
