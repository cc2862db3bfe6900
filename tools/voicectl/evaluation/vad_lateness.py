"""How late a VAD lets go: from the true end of speech to the end of its last segment.

What lives here: the differences and their table. What must not: how an end is known (true_ends.py), how segments are made
(voiced.segments). Positions are samples at 16 kHz.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from voiced.api import Vad, segments, to_ms

from .endpoint_queries import Query
from .report import rate_text, spread_text
from .scores import Rate, Spread, share, spread
from .sounds import VAD_HOP
from .tables import Table
from .true_ends import EAR
from .vad_measure import Rules

WHAT = (
    "Lets go: from the end of speech to the end of the VAD's last segment, median / 90th percentile, in the 3 s of the recording's own "
    "quiet after it. Early: before the end. The end is the synthesizer's, the labels' or the aligned text's; one that is known by ear "
    "alone is not counted, for the ear goes by the VAD: so recordings are missing in which the VAD holds on to noise for half a second.",
)


@dataclass(frozen=True, slots=True)
class Late:
    """One way to make segments, on one set.

    ends    recordings by who knows their end
    early   recordings whose last segment ends before the speech does
    """

    rules: str
    set: str
    ends: Mapping[str, int]
    after: Spread
    early: Rate


def lateness(queries: Iterable[Query], vad: Vad, rules: Sequence[Rules]) -> tuple[list[Late], int]:
    """By set and way to make segments; and how many queries are not counted, of which the ear alone knows the end."""
    late: dict[tuple[str, str], list[tuple[str, float]]] = {}
    by_ear = 0
    for query in queries:
        if query.ends_by == EAR:
            by_ear += 1
            continue
        probabilities = vad.track(query.samples)
        for one in rules:
            found = segments(probabilities, one.rules, VAD_HOP)
            if found:
                late.setdefault((query.set, one.name), []).append((query.ends_by, to_ms(found[-1][1] - query.end)))
    rows = []
    for (where, name), ends in late.items():
        after, early = spread([ms for _, ms in ends]), share([ms < 0 for _, ms in ends])
        assert after
        assert early
        rows.append(Late(name, where, dict(Counter(by for by, _ in ends)), after, early))
    return rows, by_ear


def table(rows: Sequence[Late]) -> Table:
    found = [["segments", "set", "end of speech by", "lets go", "early"]]
    for row in rows:
        ends = ", ".join(f"{by} {count}" for by, count in row.ends.items())
        found.append([row.rules, row.set, ends, spread_text(row.after), rate_text(row.early)])
    return found
