"""Settings judged on all queries: how many are cut off, how long one waits, what it costs in words.

What lives here: sums over outcomes. What must not: how an outcome comes about (endpoint_replay.py), which settings there are
(endpoint_points.py), printing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from voiced.api import Settings, to_samples

from .endpoint_queries import SPELLED, Query
from .endpoint_replay import OPEN, Outcome, replay
from .endpoint_tape import Library, Tape
from .scores import Rate, Spread, rate, share, spread, word_errors


@dataclass(frozen=True, slots=True)
class Heard:
    """A query and what the models made of it."""

    query: Query
    tape: Tape


@dataclass(frozen=True, slots=True)
class Point:
    """A way to end turns. `curve` names the line of the picture that it is on, "" for none."""

    name: str
    settings: Settings
    curve: str = ""


@dataclass(frozen=True, slots=True)
class Figures:
    """One point. `None` where there is nothing to count.

    queries    as they are, without a pause put in and without what is spelled
    cut        of them, closed before the true end
    open       of them, still open when the sound ended, three seconds after the end
    spelled    of names and numbers spelled aloud, closed before the true end
    pauses     by length (ms) of a pause between two words, of the turns that were open when it began: closed in it, or before a VAD could
               have noticed that it was over
    likely, endpoint, final, wait  of queries that were neither cut nor left open: from the end of speech; `wait` from the endpoint
    hidden     of those, finals that came at most 30 ms after the endpoint
    reasons    why queries closed
    wer_first, wer_final  word errors of the turns as they closed; lost_*: above those of the same turns never cut, a difference of rates
    second_pass_a_turn_ms, wasted_a_turn  computed by the second pass, and rewrites dropped, a query
    """

    point: str
    queries: int
    cut: Rate | None
    open: Rate | None
    spelled: Rate | None
    pauses: Mapping[int, Rate]
    likely: Spread | None
    endpoint: Spread | None
    final: Spread | None
    wait: Spread | None
    hidden: Rate | None
    reasons: Mapping[str, int]
    wer_first: Rate | None
    wer_final: Rate | None
    lost_first: float | None
    lost_final: float | None
    second_pass_a_turn_ms: float
    wasted_a_turn: float


HIDDEN_MS = 30.0

_NOTICED = to_samples(200)
"""A VAD is sure of new speech so long after it began."""

Outcomes = Sequence[Outcome]


def outcomes(settings: Settings, library: Library, heard: Sequence[Heard], done: Callable[[], None], *, texts: bool) -> list[Outcome]:
    """Of every query, in their order; with `texts` those that are plain have theirs. Told to `done` one by one."""
    found = []
    for one in heard:
        found.append(replay(settings, library, one.query, one.tape, texts=texts and is_plain(one.query)))
        done()
    return found


def is_plain(query: Query) -> bool:
    """As it was spoken, and to end as soon as it can. Of the others only whether they were cut off is asked."""
    return not query.pause_ms and query.set != SPELLED


def figures(point: str, heard: Sequence[Heard], found: Outcomes, never: Outcomes | None, seed: int) -> Figures:
    """never: the same queries' outcomes where nothing cut them; None where texts were not asked for."""
    plain = [at for at, one in enumerate(heard) if is_plain(one.query)]
    timely = [found[at] for at in plain if not found[at].cut and found[at].reason != OPEN]
    lengths = sorted({one.query.pause_ms for one in heard if one.query.pause_ms})
    pauses = {ms: share(_cut_in_pause(heard, found, ms)) for ms in lengths}
    errors = {which: _wer(heard, plain, found, which, seed) for which in ("first_pass", "final")} if never else {}
    least = {which: _wer(heard, plain, never, which, seed) for which in errors} if never else {}
    count = max(len(plain), 1)
    return Figures(
        point=point,
        queries=len(plain),
        cut=share([found[at].cut for at in plain]),
        open=share([found[at].reason == OPEN for at in plain]),
        spelled=share([outcome.cut for one, outcome in zip(heard, found, strict=True) if one.query.set == SPELLED]),
        pauses={ms: cut for ms, cut in pauses.items() if cut},
        likely=spread([one.likely_ms for one in timely if one.likely_ms is not None]),
        endpoint=spread([one.endpoint_ms for one in timely]),
        final=spread([one.final_ms for one in timely]),
        wait=spread([one.wait_ms for one in timely]),
        hidden=share([one.wait_ms <= HIDDEN_MS for one in timely]),
        reasons=dict(Counter(found[at].reason for at in plain).most_common()),
        wer_first=errors.get("first_pass"),
        wer_final=errors.get("final"),
        lost_first=_lost(errors.get("first_pass"), least.get("first_pass")),
        lost_final=_lost(errors.get("final"), least.get("final")),
        second_pass_a_turn_ms=sum(found[at].second_pass_ms for at in plain) / count,
        wasted_a_turn=sum(found[at].wasted for at in plain) / count,
    )


def _cut_in_pause(heard: Sequence[Heard], found: Outcomes, pause_ms: int) -> list[bool]:
    """What closed before the pause closed for another reason: a pause that the speaker made."""
    cuts = []
    for one, outcome in zip(heard, found, strict=True):
        if one.query.pause_ms == pause_ms and one.query.pause and outcome.closed > one.query.pause[0]:
            cuts.append(outcome.cut and outcome.closed <= one.query.pause[1] + _NOTICED)
    return cuts


def _wer(heard: Sequence[Heard], plain: Sequence[int], found: Outcomes, which: str, seed: int) -> Rate | None:
    """Of the queries whose words are known."""
    counts = []
    for at in plain:
        text = heard[at].query.text
        if text is not None:
            errors = word_errors(text, getattr(found[at], which))
            counts.append((errors.count, errors.words))
    return rate(counts, seed)


def _lost(cut: Rate | None, least: Rate | None) -> float | None:
    return None if cut is None or least is None else cut.value - least.value


@dataclass(frozen=True, slots=True)
class SetFigures:
    """One set's queries as they are, at the settings as they are. Names and spans as in Figures."""

    queries: int
    cut: Rate | None
    endpoint: Spread | None
    final: Spread | None
    lost_final: float | None


def by_set(heard: Sequence[Heard], found: Outcomes, never: Outcomes, seed: int) -> dict[str, SetFigures]:
    """never: the same queries' outcomes where nothing cut them."""
    rows = {}
    for name in dict.fromkeys(one.query.set for one in heard):
        mine = [at for at, one in enumerate(heard) if one.query.set == name and not one.query.pause_ms]
        timely = [found[at] for at in mine if not found[at].cut and found[at].reason != OPEN]
        plain = [at for at in mine if is_plain(heard[at].query)]
        if mine:
            rows[name] = SetFigures(
                len(mine),
                share([found[at].cut for at in mine]),
                spread([one.endpoint_ms for one in timely]),
                spread([one.final_ms for one in timely] if plain else []),
                _lost(_wer(heard, plain, found, "final", seed), _wer(heard, plain, never, "final", seed)),
            )
    return rows
