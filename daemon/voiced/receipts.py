"""A receipt for every turn: what happened, at which sample and when by the clock, and how long each part of the wait was.

What lives here: a turn's events, and the stamps that the processes put on them, become one frozen record; its five latencies by name.
What must not: a clock, a process, the bus, a picture; what is kept of many turns (turnbook.py).

Two scales. A *position* is a sample. A *clock* time is in milliseconds since the turn's first sample was heard, so that it can be held
against the position (`to_ms(sample - first)`): what it is later is what was computed and waited for. Where no clock was read (files
faster than speech), a receipt has positions alone, and reckons when its final would have come.

The latencies, all in milliseconds, of partials and of the final apart:

    partial.algorithmic_ms          from a partial's last word (the recognizer's frame) to the sound that it was given: chunk and look-ahead
    partial.computational_ms        from that sound to the partial: computing, queues, and what sound waited in its block
    partial.emission_delay_ms       from the end of speech to the frame of the last word, where that is later: beyond those two
    partial.time_to_first_token_ms  from the first speech to the first partial
    final.algorithmic_ms            from the end of speech to the endpoint, by positions: what the rule waited for
    final.computational_ms          the rest of the way to the final
    final.finalization_ms           from the end of speech to the final: the sum of both

A VAD lets go some 100 ms after the sound, so what is measured from the end of speech is that much less than a label would say.
"""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from itertools import pairwise
from typing import Any

from .events import (
    Endpoint,
    Event,
    Final,
    LikelyEnd,
    NearMiss,
    Partial,
    Resumed,
    SpeechStarted,
    TextSource,
    TurnClosed,
    Wake,
    WakeRefused,
)
from .plain import decode
from .units import RATE, to_ms


@dataclass(frozen=True, slots=True)
class Stamps:
    """When an event passed where, by CLOCK_MONOTONIC in nanoseconds; 0: it did not, or nobody looked.

    arrived_ns    what led to it came to the lane: sound, an answer, a command
    taken_ns      the lane's scribe began with that
    told_ns       the lane gave the event away
    published_ns  the main process told it
    realtime_us   then, for people
    lost_samples, lost_events  counts of the lane's process by then: of its sound, and of what it had to tell
    """

    arrived_ns: int = 0
    taken_ns: int = 0
    told_ns: int = 0
    published_ns: int = 0
    realtime_us: int = 0
    lost_samples: int = 0
    lost_events: int = 0


class Step(Enum):
    """What becomes of a request for the second pass."""

    QUEUED = "queued"
    STARTED = "started"
    DONE = "done"
    DROPPED = "dropped"


@dataclass(frozen=True, slots=True)
class Rewriting:
    """A step of a request, by CLOCK_MONOTONIC. `compute_ms` once it is done; `failure`: why it has no answer; `samples` of its sound."""

    turn: int
    attempt: int
    step: Step
    at_ns: int
    compute_ms: float = 0.0
    failure: str = ""
    samples: int = 0


@dataclass(frozen=True, slots=True)
class Mark:
    """One thing that happened in a turn. `clock_ms`: see above; None where it is not known.

    queue_ms  what led to it waited so long for the lane's scribe
    text, word_end  of a partial: the frame of its last word
    note      what it was decided by, for people
    """

    what: str
    sample: int
    clock_ms: float | None = None
    queue_ms: float | None = None
    text: str = ""
    word_end: int | None = None
    note: str = ""


@dataclass(frozen=True, slots=True)
class Attempt:
    """One request for the second pass. The times are clock times; `queue_ms` it waited for its turn, `compute_ms` it took for
    `samples` of sound (0: not known)."""

    attempt: int
    sample: int | None
    outcome: str
    queued_ms: float | None = None
    started_ms: float | None = None
    done_ms: float | None = None
    queue_ms: float | None = None
    compute_ms: float = 0.0
    wasted: bool = False
    samples: int = 0


@dataclass(frozen=True, slots=True)
class Receipt:
    """A turn that is over. Positions are samples; `latencies` are in milliseconds, by name, one or (of partials) several values each.

    clocked  its times are measured; else they are reckoned from positions and what the second pass computed
    rule, margins  as in events.Endpoint
    scores   of its wake
    lost_samples, lost_events  in the turn: of its sound, and of what was to be told of it
    queue_ms  the longest that anything waited for the lane's scribe
    """

    turn: int
    lane: str
    realtime_us: int
    phrase: str
    first: int
    last: int
    reason: str
    length_ms: float
    clocked: bool
    speech_first: int | None = None
    speech_end: int | None = None
    rule: str = ""
    margins: Mapping[str, float] = field(default_factory=dict)
    scores: Mapping[str, float] = field(default_factory=dict)
    text: str = ""
    source: str = ""
    note: str = ""
    refused: str = ""
    first_pass: str = ""
    second_pass: str = ""
    queue_ms: float | None = None
    lost_samples: int = 0
    lost_events: int = 0
    latencies: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    attempts: tuple[Attempt, ...] = ()
    marks: tuple[Mark, ...] = ()


Told = Sequence[tuple[Event, Stamps]]
"""A turn's events with their stamps, in the order they were told."""


# ── one turn ───────────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class _Scale:
    """From the clock to milliseconds since the first sample was heard. `origin_ns` None: no clock was read."""

    first: int
    origin_ns: float | None

    @classmethod
    def of(cls, told: Told, first: int) -> _Scale:
        """The sound that waited least for its block tells when the first sample was heard."""
        heard = [stamps.arrived_ns - (event.sample - first) / RATE * 1e9 for event, stamps in told if stamps.arrived_ns]
        if not heard:  # what a client saved has no arrivals, but the lane measured one
            end, final = _last(told, Endpoint), _last(told, Final)
            if end and end[1].published_ns and final and "endpoint_ms" in final[0].measured:
                since = final[0].measured["endpoint_ms"] * 1e6 + (end[0].speech_end - first) / RATE * 1e9
                heard = [end[1].published_ns - since]
        return cls(first, min(heard, default=None))

    def clock_ms(self, at_ns: float) -> float | None:
        return None if self.origin_ns is None or not at_ns else (at_ns - self.origin_ns) / 1e6

    def since_ms(self, sample: int, stamps: Stamps) -> float | None:
        """From a position to when its event was told."""
        at = self.clock_ms(stamps.published_ns)
        return None if at is None else at - to_ms(sample - self.first)


def _last(told: Told, kind: type[Any]) -> Any:
    return next((pair for pair in reversed(told) if isinstance(pair[0], kind)), None)


def receipt(lane: str, told: Told, rewritings: Sequence[Rewriting] = ()) -> Receipt:
    """Of a turn's events, of which the last is TurnClosed: ValueError where it is not."""
    closed = told[-1][0] if told else None
    if not isinstance(closed, TurnClosed):
        raise ValueError(f"a receipt wants a turn that is over; the last event is {type(closed).__name__}")
    scale = _Scale.of(told, closed.first)
    wake, speech, end, final = (_last(told, kind) for kind in (Wake, SpeechStarted, Endpoint, Final))
    latencies = {f"partial.{name}": values for name, values in _of_partials(told, scale).items() if values}
    latencies |= {f"final.{name}": (value,) for name, value in _of_final(told, scale).items()}
    waits = [stamps.taken_ns - stamps.arrived_ns for _, stamps in told if stamps.taken_ns and stamps.arrived_ns]
    found = Receipt(
        closed.turn,
        lane,
        told[0][1].realtime_us,
        wake[0].phrase if wake else "",
        closed.first,
        closed.last,
        closed.reason.value,
        to_ms((end[0].speech_end if end else closed.last) - closed.first),
        scale.origin_ns is not None,
        speech[0].first if speech else None,
        scores=wake[0].scores if wake else {},
        queue_ms=max(waits) / 1e6 if waits else None,
        lost_samples=_grown([stamps.lost_samples for _, stamps in told if stamps.arrived_ns]),
        lost_events=_grown([stamps.lost_events for _, stamps in told if stamps.arrived_ns]),
        latencies=latencies,
        attempts=_attempts(told, rewritings, scale),
        marks=tuple(mark for event, stamps in told for mark in _marks(event, stamps, scale, final[0].measured if final else {})),
    )
    if end:
        found = replace(found, speech_end=end[0].speech_end, rule=end[0].rule, margins=end[0].margins, first_pass=end[0].text)
    if final:
        last: Final = final[0]
        found = replace(found, text=last.text, source=last.source.value, note=last.note, refused=last.refused)
        found = replace(found, first_pass=last.first_pass, second_pass=last.second_pass)
    return found


def _grown(counts: list[int]) -> int:
    """How much a count grew; one that fell belongs to a process that began again."""
    return max(0, counts[-1] - counts[0]) if counts else 0


def _of_partials(told: Told, scale: _Scale) -> dict[str, tuple[float, ...]]:
    partials = [(event, stamps) for event, stamps in told if isinstance(event, Partial)]
    speech, end = _last(told, SpeechStarted), _last(told, Endpoint)
    found: dict[str, tuple[float, ...]] = {
        "algorithmic_ms": tuple(to_ms(event.sample - event.last_word) for event, _ in partials if event.last_word is not None),
        "computational_ms": tuple(late for event, stamps in partials if (late := scale.since_ms(event.sample, stamps)) is not None),
    }
    if speech and partials:
        first, stamps = partials[0]
        reckoned = to_ms(first.sample - speech[0].first)
        measured = scale.since_ms(speech[0].first, stamps)
        found["time_to_first_token_ms"] = (reckoned if measured is None else measured,)
    if end:
        whole = next((event.last_word for event, _ in partials if event.text == end[0].text), None)
        if whole is not None:
            found["emission_delay_ms"] = (to_ms(max(0, whole - end[0].speech_end)),)
    return {name: tuple(value for value in values if value >= 0) for name, values in found.items()}


def _of_final(told: Told, scale: _Scale) -> dict[str, float]:
    end, final = _last(told, Endpoint), _last(told, Final)
    if not (end and final):
        return {}
    waited = max(0.0, to_ms(end[0].sample - end[0].speech_end))
    whole = scale.since_ms(end[0].speech_end, final[1])
    if whole is None:  # the second pass begins at its sign, and its final waits for both
        begun = next((event.sample for event, _ in told if isinstance(event, LikelyEnd) and 0 < event.attempt == final[0].attempt), None)
        ready = to_ms((end[0].sample if begun is None else begun) - end[0].speech_end) + final[0].measured.get("second_pass_ms", 0.0)
        whole = max(waited, ready)
    return {"algorithmic_ms": waited, "computational_ms": max(0.0, whole - waited), "finalization_ms": max(waited, whole)}


def _attempts(told: Told, rewritings: Sequence[Rewriting], scale: _Scale) -> tuple[Attempt, ...]:
    """From the requests' own steps where there are any, and from the events, which know when each began and which one counted."""
    end, last = _last(told, Endpoint), _last(told, Final)
    final: Final | None = last[0] if last else None
    begun: dict[int, int | None] = {event.attempt: event.sample for event, _ in told if isinstance(event, LikelyEnd) and event.attempt}
    if final and final.attempt and end:
        begun.setdefault(final.attempt, end[0].sample)
    steps: defaultdict[int, dict[Step, Rewriting]] = defaultdict(dict)
    for step in rewritings:
        begun.setdefault(step.attempt, None)
        steps[step.attempt].setdefault(step.step, step)
    signs = [event for event, _ in told if isinstance(event, LikelyEnd | Resumed)]
    resumed = {sign.attempt for sign, after in pairwise(signs) if isinstance(sign, LikelyEnd) and isinstance(after, Resumed)}
    return tuple(_attempt(number, begun[number], steps[number], final, scale, resumed=number in resumed) for number in sorted(begun))


def _attempt(
    number: int, sample: int | None, steps: Mapping[Step, Rewriting], final: Final | None, scale: _Scale, *, resumed: bool
) -> Attempt:
    queued, started, done = (steps.get(step) for step in (Step.QUEUED, Step.STARTED, Step.DONE))
    counted = final is not None and final.attempt == number
    compute_ms = done.compute_ms if done else final.measured.get("second_pass_ms", 0.0) if counted and final else 0.0
    wasted = not counted and started is not None
    if counted and final:
        outcome = "used" if final.source is TextSource.SECOND_PASS else f"not used: {final.note}"
    elif done and done.failure:
        outcome = done.failure
    else:
        last = "the turn has no final" if final is None else "its end has more"  # a word that only the flush gave, or Stop in one
        outcome = f"{'computed for nothing' if wasted else 'taken back'}: {'the speaker went on' if resumed else last}"
    return Attempt(
        number,
        sample,
        outcome,
        scale.clock_ms(queued.at_ns) if queued else None,
        scale.clock_ms(started.at_ns) if started else None,
        scale.clock_ms(done.at_ns) if done else None,
        (started.at_ns - queued.at_ns) / 1e6 if queued and started else None,
        compute_ms,
        wasted,
        queued.samples if queued else 0,
    )


def _marks(event: Event, stamps: Stamps, scale: _Scale, measured: Mapping[str, float]) -> list[Mark]:
    at, taken = scale.clock_ms(stamps.published_ns), stamps.taken_ns
    queue = (taken - stamps.arrived_ns) / 1e6 if taken and stamps.arrived_ns else None
    match event:
        case Wake(sample=sample, phrase_end=first, phrase=phrase, scores=scores, verdict=verdict):
            if not phrase:
                return [Mark("opened", sample, at, queue, note=verdict)]
            heard = f"{scores['stage1']:.2f} of {scores['stage1_threshold']:.2f}" if {"stage1", "stage1_threshold"} <= scores.keys() else ""
            confirmed = taken + measured["verify_ms"] * 1e6 if taken and "verify_ms" in measured else 0
            return [
                Mark("phrase end", first, note=phrase),
                Mark("stage 1", sample, scale.clock_ms(stamps.arrived_ns), note=heard),
                Mark("stage 2", sample, scale.clock_ms(confirmed), queue, note=verdict),
                Mark("hand-over", first, scale.clock_ms(stamps.told_ns), note="the recognizer has the sound from here on"),
                Mark("wake", sample, at),
            ]
        case SpeechStarted(sample=sample, first=first):
            return [Mark("speech", first, at, queue, note=f"after {to_ms(sample - first):.0f} ms of it")]
        case Partial(sample=sample, text=text, last_word=word_end):
            return [Mark("partial", sample, at, queue, text, word_end)]
        case LikelyEnd(sample=sample, why=why):
            return [Mark("likely end", sample, at, queue, note=why.value)]
        case Resumed(sample=sample):
            return [Mark("resumed", sample, at, queue)]
        case Endpoint(sample=sample, speech_end=speech_end, end_token=token, reason=reason, rule=rule):
            before = [Mark("last speech", speech_end)] + ([Mark("end token", token)] if token is not None else [])
            return [*before, Mark("endpoint", sample, at, queue, note=f"{reason.value} (rule {rule})" if rule else reason.value)]
        case Final(sample=sample, source=source, note=note, text=text):
            return [Mark("final", sample, at, text=text, note=f"{source.value}: {note}" if note else source.value)]
        case TurnClosed(sample=sample, reason=reason):
            return [Mark("closed", sample, at, note=reason.value)]
        case _:
            return []


# ── plain forms ────────────────────────────────────────────────────────────────────────────────────────────────────────


def to_plain(found: Receipt) -> dict[str, Any]:
    """Dicts, lists and scalars, for the bus and for JSON; what is not known (None) is left out."""
    plain: dict[str, Any] = _known(dataclasses.asdict(found))
    return plain


def _known(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _known(item) for name, item in value.items() if item is not None}
    return [_known(item) for item in value] if isinstance(value, list | tuple) else value


def brief(found: Receipt) -> dict[str, Any]:
    """A receipt as a row: without its marks and attempts, and each latency its greatest."""
    plain = to_plain(replace(found, marks=(), attempts=()))
    for name in ("marks", "margins", "scores"):
        del plain[name]
    return plain | {"latencies": {name: max(values) for name, values in found.latencies.items()}, "attempts": len(found.attempts)}


def from_lines(lines: Iterable[Mapping[str, Any]]) -> list[Receipt]:
    """Of events that were saved as JSON (`voiced --input … --json`, `voicectl watch --json`), in the order the turns ended.

    ValueError says what is no event. A turn without its end gives no receipt.
    """
    open_turns: dict[tuple[str, int], list[tuple[Event, Stamps]]] = {}
    found = []
    for line in lines:
        event: Any = decode({name: value for name, value in line.items() if name not in _BESIDE})
        if isinstance(event, WakeRefused | NearMiss):
            continue
        where = str(line.get("file") or line.get("lane") or "")
        told = open_turns.setdefault((where, event.turn), [])
        told.append((event, Stamps(published_ns=1000 * line.get("monotonic_us", 0), realtime_us=line.get("realtime_us", 0))))
        if isinstance(event, TurnClosed):
            found.append(receipt(where, open_turns.pop((where, event.turn))))
    return found


_BESIDE = ("file", "lane", "sequence", "monotonic_us", "realtime_us")
