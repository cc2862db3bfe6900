"""The turn: one table from (state, cue) to state, and the machine that follows it.

What lives here: what a fact means for the turn that is open, and for those whose final is still pending. What must not:
threads, clocks, files, models: facts go in, events and orders come out, and the same facts give the same answer.

The second pass is not a state: the machine sleeps again as soon as a turn closes, so the next wake phrase is never missed,
and the rewrite goes on under the turn's id.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from .endpoint import Counts, Endpointer
from .events import (
    AudioLost,
    Cancel,
    CloseReason,
    CloseTurn,
    Confirmed,
    Endpoint,
    Event,
    Fact,
    Final,
    FirstPass,
    OpenTurn,
    Order,
    Partial,
    Rewrite,
    Rewritten,
    Shutdown,
    SpeechProbability,
    SpeechStarted,
    Stop,
    TextSource,
    Trigger,
    TurnClosed,
    Wake,
    Words,
)
from .segments import Hysteresis
from .units import to_samples

PHRASE_TAIL_MS = 300
"""A burst of speech that was already going on when the turn began is the wake phrase's own tail until it has lasted this
long: the phrase's end is known to about 200 ms, and a VAD lets go some 100 ms later."""


class State(Enum):
    ASLEEP = "asleep"
    AWAKE = "awake"
    HEARING = "hearing"
    TRAILING = "trailing"


class Cue(Enum):
    """What moves the machine."""

    WAKE = "wake"
    SPEECH = "speech"
    SILENCE = "silence"
    CLOSED = "closed"


TABLE: Mapping[tuple[State, Cue], State] = {
    (State.ASLEEP, Cue.WAKE): State.AWAKE,
    (State.AWAKE, Cue.SPEECH): State.HEARING,
    (State.HEARING, Cue.SILENCE): State.TRAILING,
    (State.TRAILING, Cue.SPEECH): State.HEARING,
    (State.AWAKE, Cue.CLOSED): State.ASLEEP,
    (State.HEARING, Cue.CLOSED): State.ASLEEP,
    (State.TRAILING, Cue.CLOSED): State.ASLEEP,
    # ignored, on purpose: a phrase or a trigger inside a turn belongs to the turn
    (State.AWAKE, Cue.WAKE): State.AWAKE,
    (State.HEARING, Cue.WAKE): State.HEARING,
    (State.TRAILING, Cue.WAKE): State.TRAILING,
    # ignored, on purpose: Stop, Cancel or lost audio where no turn is open
    (State.ASLEEP, Cue.CLOSED): State.ASLEEP,
}


def next_state(state: State, cue: Cue) -> State:
    """The table's row; ValueError for a pair that it does not have."""
    try:
        return TABLE[state, cue]
    except KeyError:
        raise ValueError(f"no transition from {state.value} on {cue.value}") from None


_LINES = " ╵╶└╷│┌├╴┘─┴┐┤┬┼"
"""Box-drawing characters by the sides that a line leaves them on, added up."""
_UP, _RIGHT, _DOWN, _LEFT = 1, 2, 4, 8


def diagram() -> str:
    """The table as a picture, for the README: a turn's way from left to right, the ways back below it, what is ignored last."""
    state = State.ASLEEP
    top, place = state.value, {state: 0}
    onward = set()
    for cue in (Cue.WAKE, Cue.SPEECH, Cue.SILENCE):
        onward.add((state, cue))
        state = TABLE[state, cue]
        top += f" ──{cue.value}──▶ "
        place[state] = len(top)
        top += state.value
    back: dict[tuple[State, Cue], list[State]] = {}  # (where to, on what): where from
    for (state, cue), after in TABLE.items():
        if state is not after and (state, cue) not in onward:
            back.setdefault((after, cue), []).append(state)
    rows = sorted(back.items(), key=lambda row: -place[row[0][0]])  # the shortest way back is the nearest, so that none cross
    sides = [[0] * len(top) for _ in range(len(rows) + 1)]
    for depth, ((after, _), states) in enumerate(rows, 1):
        arrives, leave = place[after] + len(after.value) - 2, [place[state] + 1 for state in states]
        for column in (arrives, *leave):
            for above in range(depth):
                sides[above][column] |= _UP | _DOWN
            sides[depth][column] |= _UP
        for column in range(arrives, max(leave)):
            sides[depth][column] |= _RIGHT
            sides[depth][column + 1] |= _LEFT
    picture = [[_LINES[there] for there in row] for row in sides]
    for depth, ((after, cue), _) in enumerate(rows, 1):
        arrives = place[after] + len(after.value) - 2
        picture[0][arrives] = "▲"
        picture[depth][arrives + 3 : arrives + 3 + len(cue.value)] = cue.value
    ignored = ", ".join(f"{cue.value} while {state.value}" for (state, cue), after in TABLE.items() if state is after)
    return "\n".join([top, *("".join(row).rstrip() for row in picture), "", f"ignored: {ignored}"])


@dataclass(slots=True)
class _Turn:
    """The open turn. Positions in samples."""

    id: int
    first: int
    text: str = ""
    token: int | None = None
    token_log_probability: float = 0.0
    run: int | None = None  # where the burst of speech began that is going on
    speech_first: int | None = None
    speech_end: int | None = None


@dataclass(frozen=True, slots=True)
class _Pending:
    """A closed turn whose final is not out."""

    first: int
    last: int
    speech_first: int | None
    speech_end: int | None
    reason: CloseReason
    text: str = ""


@dataclass(frozen=True, slots=True)
class TurnRules:
    """How a turn is judged: all of the machine that a reload may change.

    end_token    an end token counts
    second_pass  finished turns are rewritten
    """

    endpointer: Endpointer
    vad_on: float
    vad_off: float
    vad_hop: int
    min_speech_ms: float
    lead_pad_ms: float
    tail_pad_ms: float
    end_token: bool
    second_pass: bool


class TurnMachine:
    """Feed it facts in the order of their samples; it gives events to publish and orders to obey, in order."""

    def __init__(self, rules: TurnRules, *, first_turn: int = 1, turn_step: int = 1) -> None:
        self._phrase_tail = to_samples(PHRASE_TAIL_MS)
        self._first_turn, self._turn_step = first_turn, turn_step
        self._turn: _Turn | None = None
        self.adopt(rules)
        self.reset()

    def adopt(self, rules: TurnRules) -> None:
        """Judges the next turn by these rules; ValueError while one is open, which goes on as it began. What is pending stays."""
        if self._turn is not None:
            raise ValueError(f"rules change between turns; turn {self._turn.id} is open")
        self._endpointer = rules.endpointer
        self._gate = Hysteresis(rules.vad_on, rules.vad_off)
        self._vad_hop = rules.vad_hop
        self._min_speech = to_samples(rules.min_speech_ms)
        self._lead_pad, self._tail_pad = to_samples(rules.lead_pad_ms), to_samples(rules.tail_pad_ms)
        self._end_token, self._second_pass = rules.end_token, rules.second_pass

    def reset(self) -> None:
        self._next_turn = self._first_turn
        self.next_source()

    def next_source(self) -> None:
        """Asleep, and positions begin anew; turn ids go on. What was open or pending is forgotten."""
        self.state = State.ASLEEP
        self._turn = None
        self._pending: dict[int, _Pending] = {}
        self._now = 0
        self._heard = 0

    @property
    def open_turn(self) -> int:
        """The open turn's id, 0 where there is none."""
        return self._turn.id if self._turn else 0

    @property
    def pending_turns(self) -> tuple[int, ...]:
        """Turns that closed and whose final is not out yet."""
        return tuple(self._pending)

    def take(self, fact: Fact) -> list[Event | Order]:
        self._now = max(self._now, fact.sample)
        match fact:
            case Confirmed(phrase=phrase, phrase_end=first, score=score, verdict=verdict, scores=scores):
                return self._open(phrase, first, score, verdict, scores)
            case Trigger(sample=sample):
                return self._open("", sample, 1.0, "asked for by a client", {})
            case SpeechProbability():
                return self._vad(fact)
            case Words():
                return self._words(fact)
            case FirstPass():
                return self._first_pass(fact)
            case Rewritten():
                return self._rewritten(fact)
            case Stop():
                return self._close(CloseReason.STOPPED)
            case Cancel():
                return self._close(CloseReason.CANCELLED)
            case AudioLost():
                return self._close(CloseReason.AUDIO_LOST)
            case Shutdown():
                done = self._close(CloseReason.SHUTDOWN)
                for turn in [turn for turn, pending in self._pending.items() if pending.text]:
                    done += self._rewritten(Rewritten(fact.sample, turn, "", "shutting down"))
                return done

    def _open(self, phrase: str, first: int, score: float, verdict: str, scores: dict[str, float]) -> list[Event | Order]:
        asleep = self.state is State.ASLEEP
        self.state = next_state(self.state, Cue.WAKE)
        if not asleep:
            return []
        turn = _Turn(self._next_turn, first)
        self._next_turn += self._turn_step
        self._turn = turn
        self._gate.reset()
        self._heard = first
        return [Wake(self._now, turn.id, phrase, first, score, verdict, scores), OpenTurn(self._now, turn.id, first)]

    def _vad(self, fact: SpeechProbability) -> list[Event | Order]:
        turn = self._turn
        if turn is None or fact.sample <= self._heard:  # heard before: the VAD was started again inside a turn
            return []
        self._heard = fact.sample
        done: list[Event | Order] = []
        if not self._gate.step(fact.probability):
            turn.run = None
            if self.state is State.HEARING:
                self.state = next_state(self.state, Cue.SILENCE)
            return self._decide()
        if turn.run is None:
            turn.run = fact.sample - self._vad_hop
        needed = self._phrase_tail if turn.run <= turn.first else self._min_speech
        if fact.sample - max(turn.run, turn.first) >= needed:
            if self.state is not State.HEARING:
                self.state = next_state(self.state, Cue.SPEECH)
            if turn.speech_first is None:
                turn.speech_first = max(turn.run, turn.first)
                done.append(SpeechStarted(fact.sample, turn.id))
            turn.speech_end = fact.sample
        return done + self._decide()

    def _words(self, fact: Words) -> list[Event | Order]:
        turn = self._turn
        if turn is None:
            return []
        changed = fact.text != turn.text
        turn.text, turn.token, turn.token_log_probability = fact.text, fact.end_token if self._end_token else None, fact.log_probability
        done: list[Event | Order] = [Partial(fact.sample, turn.id, fact.text)] if changed else []
        return done + self._decide()

    def _decide(self) -> list[Event | Order]:
        turn = self._turn
        assert turn is not None
        silence = None if turn.speech_end is None else 0 if self._gate.speaking else self._now - turn.speech_end
        token = turn.token
        reason = self._endpointer.decide(
            Counts(
                since_start=self._now - turn.first,
                since_speech=silence,
                speaking=self._gate.speaking,
                has_text=bool(turn.text),
                since_token=None if token is None else self._now - token,
                speech_after_token=0 if token is None or turn.speech_end is None else max(0, turn.speech_end - token),
                token_log_probability=turn.token_log_probability,
            )
        )
        return self._close(reason) if reason else []

    def _close(self, reason: CloseReason) -> list[Event | Order]:
        self.state = next_state(self.state, Cue.CLOSED)
        turn, self._turn = self._turn, None
        if turn is None:
            return []
        last = max(self._now, turn.first)
        if reason in (CloseReason.CANCELLED, CloseReason.NO_SPEECH):
            return [CloseTurn(self._now, turn.id, flush=False), TurnClosed(self._now, turn.id, reason, turn.first, last)]
        self._pending[turn.id] = _Pending(turn.first, last, turn.speech_first, turn.speech_end, reason)
        return [CloseTurn(self._now, turn.id, flush=True)]

    def _first_pass(self, fact: FirstPass) -> list[Event | Order]:
        was = self._pending.pop(fact.turn)
        if not fact.text:
            return [TurnClosed(self._now, fact.turn, was.reason, was.first, was.last)]
        # the flush may give a word that no partial had
        reason = CloseReason.SILENCE if was.reason is CloseReason.NO_TEXT else was.reason
        now = _Pending(was.first, was.last, was.speech_first, was.speech_end, reason, fact.text)
        self._pending[fact.turn] = now
        speech_end = was.last if was.speech_end is None else was.speech_end
        done: list[Event | Order] = [Endpoint(self._now, fact.turn, reason, speech_end, fact.text)]
        if not self._second_pass or reason is CloseReason.SHUTDOWN:
            note = "shutting down" if self._second_pass else "no second pass"
            return done + self._rewritten(Rewritten(self._now, fact.turn, "", note))
        # only the speech and a margin: silence costs time and tempts an encoder-decoder to invent words
        first = was.first if was.speech_first is None else max(was.first, was.speech_first - self._lead_pad)
        last = min(was.last, speech_end + self._tail_pad)
        return [*done, Rewrite(self._now, fact.turn, first, last)]

    def _rewritten(self, fact: Rewritten) -> list[Event | Order]:
        turn = self._pending.pop(fact.turn, None)
        if turn is None:  # late: its final is out already
            return []
        note = fact.failure or ("" if fact.text else "the second pass heard nothing")
        text, source = (turn.text, TextSource.FIRST_PASS) if note else (fact.text, TextSource.SECOND_PASS)
        return [
            Final(self._now, fact.turn, text, source, turn.text, note, {"second_pass_ms": fact.compute_ms} if fact.compute_ms else {}),
            TurnClosed(self._now, fact.turn, turn.reason, turn.first, turn.last),
        ]
