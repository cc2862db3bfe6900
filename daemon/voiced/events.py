"""Everything that can happen in a lane, and everything the heart asks to be done.

One small frozen record a fact, each with `sample`, the position (16 kHz, since the lane first started) at which it became
true. Three kinds: *facts* go into the heart (from stages, from clients, from the world), *events* come out of it and are
published, *orders* come out of it and are obeyed by pipeline.py. No behaviour lives here, and nothing that needs a clock. plain.py
makes dicts of them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Union


class CloseReason(Enum):
    """Why a turn closed. The values are published: they may grow, never change."""

    END_TOKEN = "end token"
    TURN_DETECTOR = "turn detector"
    SILENCE = "silence"
    NO_SPEECH = "no speech"
    NO_TEXT = "no text"
    TOO_LONG = "too long"
    STOPPED = "stopped"
    CANCELLED = "cancelled"
    AUDIO_LOST = "audio lost"
    RESTARTED = "restarted"
    SHUTDOWN = "shutdown"


class EndSign(Enum):
    """Why a turn is likely to be over."""

    END_TOKEN = "end token"
    SILENCE = "silence"


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
    """A client opens a turn without a phrase (push-to-talk). `token` is told back with the turn that is open then.

    follow_up  as soon as nothing is played any more, and its echo is over
    """

    sample: int
    token: int = 0
    follow_up: bool = False


@dataclass(frozen=True, slots=True)
class SpeechProbability:
    """One VAD window ending at `sample`: 0 silence … 1 speech. `echo`: a client played sound itself, or its echo was in the room."""

    sample: int
    probability: float
    echo: bool = False


@dataclass(frozen=True, slots=True)
class Words:
    """The first pass's text so far, after it was given the sound before `sample`.

    end_token   position of the frame at which it said </s> after the last word, or None
    log_probability  of that token (0 where there is none)
    last_word   position of the frame at which it said the last piece of the text; None where there is no text
    heard       it has decoded the sound before it; what comes after waits for its chunk and look-ahead
    word_first  of each word of `text.split()`: the frame of its first piece
    confidence  see Final
    """

    sample: int
    text: str
    end_token: int | None = None
    log_probability: float = 0.0
    last_word: int | None = None
    heard: int = 0
    word_first: tuple[int, ...] = ()
    confidence: float | None = None


@dataclass(frozen=True, slots=True)
class Stop:
    """A client says that the speaker has finished: close and give the final."""

    sample: int


@dataclass(frozen=True, slots=True)
class Cancel:
    """A client throws the turn away: no final. `turn`: that one or none; 0: whichever is open."""

    sample: int
    turn: int = 0


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
    """The first pass's whole text of a turn that closed, its last word included. The other fields as in Words."""

    sample: int
    turn: int
    text: str
    last_word: int | None = None
    word_first: tuple[int, ...] = ()
    confidence: float | None = None


@dataclass(frozen=True, slots=True)
class Rewritten:
    """The second pass answers a Rewrite. `failure` is empty when it worked; else it says why its text, if it has one, is not used."""

    sample: int
    turn: int
    attempt: int
    text: str
    failure: str = ""
    compute_ms: float = 0.0
    log_probability: float | None = None


@dataclass(frozen=True, slots=True)
class TurnScore:
    """A turn detector answers a ScoreTurn: the probability (0 goes on … 1 is over) after the sound before `last`."""

    sample: int
    turn: int
    last: int
    probability: float


@dataclass(frozen=True, slots=True)
class Foreseen:
    """The recognizer answers a Foresee: what it would say if nothing but silence followed the sound of [first, last).

    words  its end token's frame may lie ahead of `sample`
    """

    sample: int
    turn: int
    first: int
    last: int
    words: Words


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
class WakeRefused:
    """Stage 1 crossed its threshold and stage 2 said no. Nothing was opened. Fields as in Wake."""

    sample: int
    phrase: str
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
class SpeechStarted:
    """The speaker has begun, at `first`: what was a burst until now has lasted long enough to be speech."""

    sample: int
    turn: int
    first: int = 0


@dataclass(frozen=True, slots=True)
class Partial:
    """The text so far, which may still change.

    stable  code points at its start that will not change, as far as can be told: two hypotheses in a row agree on them
    heard   the sound before it is in the text; what came after waits for its chunk and look-ahead
    last_word  as in Words
    """

    sample: int
    turn: int
    text: str
    stable: int = 0
    heard: int = 0
    last_word: int | None = None


@dataclass(frozen=True, slots=True)
class LikelyEnd:
    """The turn may be over: the first sign, long before its endpoint. Resumed takes it back.

    attempt  of the Rewrite that begins with it; 0 where none does
    """

    sample: int
    turn: int
    why: EndSign
    attempt: int = 0


@dataclass(frozen=True, slots=True)
class Resumed:
    """The speaker goes on after a LikelyEnd."""

    sample: int
    turn: int


@dataclass(frozen=True, slots=True)
class Endpoint:
    """The speaker has finished. `text` is the first pass's; the final is pending.

    rule     row of the endpointer that decided, empty where the end came from outside
    margins  by how much, and how far the other rows were (endpoint.Decision)
    end_token  as in Words, before the last words were flushed
    """

    sample: int
    turn: int
    reason: CloseReason
    speech_end: int
    text: str
    rule: str = ""
    margins: dict[str, float] = field(default_factory=dict)
    end_token: int | None = None


@dataclass(frozen=True, slots=True)
class Final:
    """The text, which never changes. `note` says why the first pass was kept where it was.

    measured     times taken by a clock, in milliseconds: the only values that differ between two runs on one input
    second_pass  its text, also where it was not used; empty where there is none
    word_first   of each word of `first_pass.split()`: the position at which the recognizer said its first piece, up to a few
                 hundred milliseconds after its sound began; empty for a recognizer that gives no times
    confidence   of the first pass: geometric mean of the probabilities of the pieces it chose, 0 to 1, not calibrated; None
                 where it gives none
    attempt      the Rewrite of this turn whose answer it waited for: 2 and more where the speaker went on after a LikelyEnd; 0 for none
    flicker      how often the first pass took back what a Partial had called stable
    refused      why the guard does not believe the second pass's text (guard.Refused's value), empty where it does; `note` has the figures
    """

    sample: int
    turn: int
    text: str
    source: TextSource
    first_pass: str
    note: str = ""
    measured: dict[str, float] = field(default_factory=dict)
    second_pass: str = ""
    word_first: tuple[int, ...] = ()
    confidence: float | None = None
    attempt: int = 0
    flicker: int = 0
    refused: str = ""


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
    """Give the sound of [first, last) to the second pass and answer with Rewritten, which has the same `turn` and `attempt`.

    attempt  counts from 1 in each turn; the turn may still be open
    """

    sample: int
    turn: int
    attempt: int
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class DropRewrite:
    """Nobody waits for that Rewrite any more. An answer that comes all the same does no harm."""

    sample: int
    turn: int
    attempt: int


@dataclass(frozen=True, slots=True)
class ScoreTurn:
    """Ask the turn detector about the turn's sound, [first, last), and answer with TurnScore."""

    sample: int
    turn: int
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Foresee:
    """Ask the recognizer what it would say if nothing but silence followed [first, last), and answer with Foreseen."""

    sample: int
    turn: int
    first: int
    last: int


Fact = Union[Confirmed, Trigger, SpeechProbability, Words, Stop, Cancel, AudioLost, Shutdown, FirstPass, Rewritten, TurnScore, Foreseen]
Event = Union[Wake, WakeRefused, NearMiss, SpeechStarted, Partial, LikelyEnd, Resumed, Endpoint, Final, TurnClosed]
Order = Union[OpenTurn, CloseTurn, Rewrite, DropRewrite, ScoreTurn, Foresee]
