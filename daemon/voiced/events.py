"""Everything that can happen in a lane, and everything the heart asks to be done.

One small frozen record a fact, each with `sample`, the position (16 kHz, since the lane first started) at which it became
true. Three kinds: *facts* go into the heart (from stages, from clients, from the world), *events* come out of it and are
published, *orders* come out of it and are obeyed by pipeline.py. No behaviour lives here, and nothing that needs a clock.

`encode` and `decode` turn any of them into a plain dict and back: the form that crosses processes and that --json prints.
"""

from __future__ import annotations

import dataclasses
import typing
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Union


class CloseReason(Enum):
    """Why a turn closed. The values are published: they may grow, never change."""

    END_TOKEN = "end token"
    SILENCE = "silence"
    NO_SPEECH = "no speech"
    NO_TEXT = "no text"
    TOO_LONG = "too long"
    STOPPED = "stopped"
    CANCELLED = "cancelled"
    AUDIO_LOST = "audio lost"
    RESTARTED = "restarted"
    SHUTDOWN = "shutdown"


class TextSource(Enum):
    """Which pass a final's text is from."""

    FIRST_PASS = "first pass"
    SECOND_PASS = "second pass"


# ── facts: what goes into the heart ────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Confirmed:
    """Both wake stages agree. The phrase ends at `phrase_end`, from where the turn's audio begins. `scores` as in Wake."""

    sample: int
    phrase: str
    phrase_end: int
    score: float
    verdict: str
    scores: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Trigger:
    """A client opens a turn without a phrase (push-to-talk). `token` is told back with the turn that is open then."""

    sample: int
    token: int = 0


@dataclass(frozen=True, slots=True)
class SpeechProbability:
    """One VAD window ending at `sample`: 0 silence … 1 speech."""

    sample: int
    probability: float


@dataclass(frozen=True, slots=True)
class Words:
    """The first pass's text so far, after it has heard the sound before `sample`.

    end_token   position of the frame at which it said </s> after the last word, or None
    log_probability  of that token (0 where there is none)
    """

    sample: int
    text: str
    end_token: int | None = None
    log_probability: float = 0.0


@dataclass(frozen=True, slots=True)
class Stop:
    """A client says that the speaker has finished: close and give the final."""

    sample: int


@dataclass(frozen=True, slots=True)
class Cancel:
    """A client throws the turn away: no final."""

    sample: int


@dataclass(frozen=True, slots=True)
class AudioLost:
    """The source failed, or more was lost than a turn can bear."""

    sample: int


@dataclass(frozen=True, slots=True)
class Shutdown:
    """The lane ends: every turn gets its final now, from the first pass."""

    sample: int


@dataclass(frozen=True, slots=True)
class FirstPass:
    """The first pass's whole text of a turn that closed, its last word included."""

    sample: int
    turn: int
    text: str


@dataclass(frozen=True, slots=True)
class Rewritten:
    """The second pass answers for a turn. `failure` is empty when it worked; else it says why there is no text."""

    sample: int
    turn: int
    text: str
    failure: str = ""
    compute_ms: float = 0.0


# ── events: what comes out and is published ────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Wake:
    """A phrase (or a client, with an empty phrase) opened the turn; its audio begins at `phrase_end`.

    score    of the second stage, in its own measure
    verdict  the second stage's reason, in words
    scores   what was decided by: `stage1` (the highest), `stage1_threshold`, and what the second stage measured; names may grow
    """

    sample: int
    turn: int
    phrase: str
    phrase_end: int
    score: float
    verdict: str
    scores: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class NearMiss:
    """Stage 1 came near its threshold, to `score` at the most, and did not cross it. Nothing was opened. Known at `sample`, after it."""

    sample: int
    phrase: str
    score: float
    threshold: float


@dataclass(frozen=True, slots=True)
class WakeRefused:
    """Stage 1 crossed its threshold and stage 2 said no. Nothing was opened."""

    sample: int
    phrase: str
    score: float
    verdict: str
    scores: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SpeechStarted:
    sample: int
    turn: int


@dataclass(frozen=True, slots=True)
class Partial:
    """The text so far, which may still change."""

    sample: int
    turn: int
    text: str


@dataclass(frozen=True, slots=True)
class Endpoint:
    """The speaker has finished. `text` is the first pass's; the final is pending."""

    sample: int
    turn: int
    reason: CloseReason
    speech_end: int
    text: str


@dataclass(frozen=True, slots=True)
class Final:
    """The text, which never changes. `note` says why the first pass was kept where it was.

    measured   times taken by a clock, in milliseconds: the only values that differ between two runs on one input
    """

    sample: int
    turn: int
    text: str
    source: TextSource
    first_pass: str
    note: str = ""
    measured: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TurnClosed:
    """The turn's last event: why it closed and which positions it spans."""

    sample: int
    turn: int
    reason: CloseReason
    first: int
    last: int


# ── orders: what the heart asks for ────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class OpenTurn:
    """Start a new transducer stream at `first`; the ring has what lies before now. The VAD hears already."""

    sample: int
    turn: int
    first: int


@dataclass(frozen=True, slots=True)
class CloseTurn:
    """Stop the transducer; the machine sleeps again. With `flush`, answer with FirstPass."""

    sample: int
    turn: int
    flush: bool


@dataclass(frozen=True, slots=True)
class Rewrite:
    """Give the sound of [first, last) to the second pass and answer with Rewritten."""

    sample: int
    turn: int
    first: int
    last: int


Fact = Union[Confirmed, Trigger, SpeechProbability, Words, Stop, Cancel, AudioLost, Shutdown, FirstPass, Rewritten]
Event = Union[Wake, WakeRefused, NearMiss, SpeechStarted, Partial, Endpoint, Final, TurnClosed]
Order = Union[OpenTurn, CloseTurn, Rewrite]

_KINDS: dict[str, type] = {kind.__name__: kind for union in (Fact, Event, Order) for kind in typing.get_args(union)}


def encode(record: Fact | Event | Order) -> dict[str, Any]:
    """A flat dict of plain values, `event` first: `{"event": "Partial", "sample": 1, …}`."""
    plain: dict[str, Any] = {"event": type(record).__name__}
    for item in dataclasses.fields(record):
        value = getattr(record, item.name)
        plain[item.name] = value.value if isinstance(value, Enum) else value
    return plain


def decode(plain: dict[str, Any]) -> Fact | Event | Order:
    """The record that `encode` made this of; ValueError says what is unknown or missing."""
    kind = _KINDS.get(str(plain.get("event")))
    if kind is None:
        raise ValueError(f"no such event: {plain.get('event')!r}")
    values = {name: value for name, value in plain.items() if name != "event"}
    for name, wanted in _field_types(kind).items():
        if name in values and isinstance(wanted, type) and issubclass(wanted, Enum):
            values[name] = wanted(values[name])
    try:
        record: Fact | Event | Order = kind(**values)
    except TypeError as error:
        raise ValueError(f"{kind.__name__}: {error}") from None
    return record


_TYPES: dict[type, dict[str, Any]] = {}


def _field_types(kind: type) -> dict[str, Any]:
    if kind not in _TYPES:
        _TYPES[kind] = typing.get_type_hints(kind)
    return _TYPES[kind]
