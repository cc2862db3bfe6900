"""The turn: the machine that follows the table of states.py.

What lives here: what a fact means for the turn that is open, and for those whose final is still pending. What must not:
threads, clocks, files, models: facts go in, events and orders come out, and the same facts give the same answer.

The second pass is not a state: the machine sleeps again as soon as a turn closes, so the next wake phrase is never missed,
and the rewrite goes on under the turn's id. It begins before that, at the first sign of an end (LikelyEnd), and is dropped if the
speaker goes on. Which attempt counts follows from sound and words alone: when an answer comes moves the final, never its text.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import fields, replace

from .endpoint import SCORE_MARKS_MS, Counts, Decision
from .events import (
    AudioLost,
    Cancel,
    CloseReason,
    CloseTurn,
    Confirmed,
    DropRewrite,
    Endpoint,
    Event,
    Fact,
    Final,
    FirstPass,
    Foresee,
    Foreseen,
    LikelyEnd,
    OpenTurn,
    Order,
    Partial,
    Resumed,
    Rewrite,
    Rewritten,
    ScoreTurn,
    Shutdown,
    SpeechProbability,
    SpeechStarted,
    Stop,
    TextSource,
    Trigger,
    TurnClosed,
    TurnScore,
    Wake,
    Words,
)
from .guard import Guard, Heard
from .segments import Hysteresis
from .states import Cue, State, next_state
from .turnrules import TurnRules, TurnStatistics
from .turnstate import Closing, Likely, Turn
from .units import RATE, to_samples
from .wording import Stable, ends_open

PHRASE_TAIL_MS = 300
"""A burst of speech that was already going on when the turn began is the wake phrase's own tail until it has lasted this
long: the phrase's end is known to about 200 ms, and a VAD lets go some 100 ms later."""

WORD_LATE_MS = 80
"""A recognizer may say a word so long after its sound; one that stands further beyond what was heard is a new one. Over 120 recordings
starter-en said its last piece 220 ms before the end of speech at the median, and in 98 of 100 at most 150 ms after it."""

ATTEMPTS_LIMIT = 8
"""Rewrites that a turn may ask for before it closes: more pauses than a command has, and a dictation of half a minute decodes its
own length eight times at the most. Later signs are told all the same."""

FORESIGHT_MS = 5000
"""A turn that is no longer is asked about whole for what comes if silence goes on: the recognizer has heard it and needs two chunks more.
Of a dictation the last of it is heard by itself, so that it need not be heard again from its beginning where the speaker goes on; that
costs some 230 ms of one x86 core (`voicectl asr eval` prints the real-time factor)."""

CATCHING_UP_MS = 640
"""So long after it was asked the recognizer may still be hearing such a turn again (stages/catching_up.py); then its flush costs little."""

_AFTER_WORDS = (CloseReason.END_TOKEN, CloseReason.TURN_DETECTOR, CloseReason.SILENCE)
"""What says that something was said, and that it is over."""


class TurnMachine:
    """Feed it facts in the order of their samples; it gives events to publish and orders to obey, in order."""

    def __init__(self, rules: TurnRules, *, first_turn: int = 1, turn_step: int = 1) -> None:
        self._phrase_tail, self._word_late = to_samples(PHRASE_TAIL_MS), to_samples(WORD_LATE_MS)
        self._foresight, self._catching_up = to_samples(FORESIGHT_MS), to_samples(CATCHING_UP_MS)
        self._marks = tuple(to_samples(mark) for mark in SCORE_MARKS_MS)
        self._first_turn, self._turn_step = first_turn, turn_step
        self._turn: Turn | None = None
        self.guard = Guard()
        self.adopt(rules)
        self.reset()

    def adopt(self, rules: TurnRules) -> None:
        """Judges the next turn by these rules; ValueError while one is open, which goes on as it began. What is pending stays."""
        if self._turn is not None:
            raise ValueError(f"rules change between turns; turn {self._turn.id} is open")
        self._rules, self._endpointer = rules, rules.endpointer
        self._gate = Hysteresis(rules.vad_on, rules.vad_off)
        self._min_speech = to_samples(rules.min_speech_ms)
        self._lead_pad, self._tail_pad = to_samples(rules.lead_pad_ms), to_samples(rules.tail_pad_ms)

    def reset(self) -> None:
        self._next_turn = self._first_turn
        self._tally: Counter[str] = Counter()
        self.next_source()

    def next_source(self) -> None:
        """Asleep, and positions begin anew; turn ids go on. What was open or pending is forgotten."""
        self.state = State.ASLEEP
        self._turn = None
        self._pending: dict[int, Turn] = {}
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

    def statistics(self) -> TurnStatistics:
        return TurnStatistics(**{item.name: self._tally[item.name] for item in fields(TurnStatistics)})

    def take(self, fact: Fact) -> list[Event | Order]:
        self._now = max(self._now, fact.sample)
        match fact:
            case Confirmed(phrase=phrase, phrase_end=first, score=score, verdict=verdict, scores=scores):
                return self._open(phrase, first, score, verdict, scores)
            case Trigger(sample=sample, follow_up=follow_up):
                return self._open("", sample, 1.0, "a follow-up, asked for by a client" if follow_up else "asked for by a client", {})
            case SpeechProbability():
                return self._vad(fact)
            case Words():
                return self._words(fact)
            case TurnScore():
                return self._scored(fact)
            case Foreseen():
                return self._foreseen(fact)
            case FirstPass():
                return self._first_pass(fact)
            case Rewritten():
                return self._rewritten(fact)
            case Stop():
                return self._close(CloseReason.STOPPED)
            case Cancel(turn=only):
                return self._close(CloseReason.CANCELLED) if only in (0, self.open_turn) else []
            case AudioLost():
                return self._close(CloseReason.AUDIO_LOST)
            case Shutdown():
                done = self._close(CloseReason.SHUTDOWN)
                for turn in [turn for turn in self._pending.values() if turn.asked]:
                    done += self._finish(turn, Rewritten(fact.sample, turn.id, turn.asked, "", "shutting down"))
                return done

    # ── the open turn ──────────────────────────────────────────────────────────────────────────────────────────────────

    def _open(self, phrase: str, first: int, score: float, verdict: str, scores: dict[str, float]) -> list[Event | Order]:
        asleep = self.state is State.ASLEEP
        self.state = next_state(self.state, Cue.WAKE)
        if not asleep:
            return []
        turn = Turn(self._next_turn, first, Words(first, ""), Stable())
        self._next_turn += self._turn_step
        self._tally["turns"] += 1
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
            return self._decide(turn)
        if turn.run is None:
            turn.run = fact.sample - self._rules.vad_hop
        needed = self._phrase_tail if turn.run <= turn.first else self._min_speech
        if fact.sample - max(turn.run, turn.first) >= needed:
            if self.state is not State.HEARING:
                self.state = next_state(self.state, Cue.SPEECH)
            if turn.speech_first is None:
                turn.speech_first = max(turn.run, turn.first)
                done.append(SpeechStarted(self._now, turn.id, turn.speech_first))
            turn.speech += fact.sample - max(turn.run, turn.first, turn.speech_end or 0)
            turn.speech_end = fact.sample
            turn.marks, turn.score = 0, None
            done += self._resume(turn)
        return done + self._decide(turn)

    def _words(self, fact: Words) -> list[Event | Order]:
        turn = self._turn
        if turn is None:
            return []
        before, turn.words = turn.words, fact if self._rules.end_token else replace(fact, end_token=None)
        done: list[Event | Order] = []
        if fact.text != before.text:
            turn.stable = turn.stable.then(before.text, fact.text)
            # of sound that was heard late, as after a gap, words stand before what the VAD has told meanwhile: they are known now
            done = [Partial(self._now, turn.id, fact.text, turn.stable.length, fact.heard, fact.last_word), *self._resume(turn)]
        return done + self._decide(turn)

    def _scored(self, fact: TurnScore) -> list[Event | Order]:
        turn = self._turn
        if turn is None or turn.id != fact.turn or not turn.marks or (turn.speech_end or 0) > fact.last:
            return []  # the speaker went on meanwhile
        turn.score = fact.probability
        return self._decide(turn)

    def _foreseen(self, fact: Foreseen) -> list[Event | Order]:
        turn = self._turn
        if turn is None or turn.id != fact.turn or turn.likely is None or turn.likely.sample != fact.last:
            return []  # the speaker went on meanwhile
        words = fact.words
        if (words.last_word or 0) > fact.last:  # said late, but of this sound: there is no other
            words = replace(words, last_word=fact.last)
        turn.likely.foreseen = replace(fact, words=words)
        self._tally["foreseen"] += words.end_token is not None
        if fact.first > turn.first or not words.text:
            return self._decide(turn)
        # told a chunk and its look-ahead before they would be; the token lies ahead
        return self._words(replace(words, end_token=None))

    def _decide(self, turn: Turn) -> list[Event | Order]:
        counts = self._counts(turn)
        decision = self._endpointer.decide(counts)
        if decision.reason:
            return self._close(decision.reason, decision)
        return self._foresee(turn, counts) + self._ask_detector(turn, counts)

    def _counts(self, turn: Turn) -> Counts:
        words, end, token = turn.words, turn.speech_end, turn.words.end_token
        ahead = turn.likely.foreseen.words if turn.likely and turn.likely.foreseen else None
        text = ahead.text if ahead and ahead.text else words.text
        return Counts(
            since_start=self._now - turn.first,
            since_speech=None if end is None else 0 if self._gate.speaking else self._now - end,
            speaking=self._gate.speaking,
            speech=0 if end is None or turn.speech_first is None else end - turn.speech_first,
            words=len(text.split()),
            ends_open=self._rules.open_ends and ends_open(text),
            since_token=None if token is None else self._now - token,
            speech_after_token=0 if token is None or end is None else max(0, end - token),
            token_log_probability=words.log_probability,
            foreseen=ahead.log_probability if ahead and ahead.text and ahead.end_token is not None else None,
            since_foreseen=self._now - ahead.end_token if ahead and ahead.end_token is not None else 0,
            turn_score=turn.score,
        )

    def _ask_detector(self, turn: Turn, counts: Counts) -> list[Event | Order]:
        silence = counts.since_speech or 0
        passed = sum(silence >= mark for mark in self._marks) if self._rules.turn_detector and not counts.speaking else 0
        if passed <= turn.marks:
            return []
        turn.marks = passed
        return [ScoreTurn(self._now, turn.id, turn.first, self._now)]

    # ── before the end ─────────────────────────────────────────────────────────────────────────────────────────────────

    def _foresee(self, turn: Turn, counts: Counts) -> list[Event | Order]:
        """At the first sign of an end: tells it, begins to rewrite what was heard so far, and asks what silence would bring."""
        sign = None if turn.likely else self._endpointer.first_sign(counts)
        if sign is None:
            return []
        self._tally["likely_ends"] += 1
        if self._rules.second_pass and self._rules.speculative and turn.attempts < ATTEMPTS_LIMIT:
            order = self._rewrite(turn, self._now)
            turn.likely = Likely(self._now, order.last, order.attempt)
            done: list[Event | Order] = [LikelyEnd(self._now, turn.id, sign, order.attempt), order]
        else:
            turn.likely = Likely(self._now, self._now, 0)
            done = [LikelyEnd(self._now, turn.id, sign)]
        asks = self._rules.end_token and self._rules.foresight and counts.since_token is None and turn.foresights < ATTEMPTS_LIMIT
        if asks and not counts.speaking:
            turn.foresights += 1
            done.append(Foresee(self._now, turn.id, max(turn.first, self._now - self._foresight), self._now))
        return done

    def _rewrite(self, turn: Turn, now: int) -> Rewrite:
        """Only the speech and a margin: silence costs time and tempts an encoder-decoder to invent words."""
        turn.attempts += 1
        self._tally["rewrites"] += 1
        # a word may be too soft for the VAD, the first as well as the last
        begun = min([turn.speech_first, *turn.words.word_first[:1]]) if turn.speech_first is not None else turn.first
        first = max(turn.first, begun - self._lead_pad)
        last = now if turn.speech_end is None else min(now, max(turn.speech_end, turn.words.last_word or 0) + self._tail_pad)
        return Rewrite(self._now, turn.id, turn.attempts, first, last)

    def _holds(self, turn: Turn, likely: Likely) -> bool:
        """Neither speech nor a word of the first pass follows it. Words come late: a text that changes is no word that follows."""
        return (turn.speech_end or 0) <= likely.last and (turn.words.last_word or 0) <= likely.last + self._word_late

    def _resume(self, turn: Turn) -> list[Event | Order]:
        if turn.likely is None or self._holds(turn, turn.likely):
            return []
        self._tally["resumed"] += 1
        return [Resumed(self._now, turn.id), *self._drop(turn)]

    def _drop(self, turn: Turn) -> list[Event | Order]:
        likely, turn.likely = turn.likely, None
        if likely is None or not likely.attempt:
            return []
        self._tally["wasted"] += 1
        return [DropRewrite(self._now, turn.id, likely.attempt)]

    # ── the end ────────────────────────────────────────────────────────────────────────────────────────────────────────

    def _close(self, reason: CloseReason, decision: Decision | None = None) -> list[Event | Order]:
        self.state = next_state(self.state, Cue.CLOSED)
        turn, self._turn = self._turn, None
        if turn is None:
            return []
        last = max(self._now, turn.first)
        if reason in (CloseReason.CANCELLED, CloseReason.NO_SPEECH):
            told = TurnClosed(self._now, turn.id, reason, turn.first, last)
            return [*self._drop(turn), CloseTurn(self._now, turn.id, flush=False), told]
        if turn.run is not None and turn.run > turn.first:  # closed from outside in the middle of a word: it belongs to the turn
            turn.speech_first = turn.run if turn.speech_first is None else turn.speech_first
            turn.speech += last - max(turn.run, turn.speech_end or 0)
            turn.speech_end = last
        turn.closing = Closing(last, reason, decision or Decision(reason, "", {}))
        self._pending[turn.id] = turn
        known = self._foresaw(turn)
        return [CloseTurn(self._now, turn.id, flush=known is None), *(self._first_pass(known) if known else ())]

    def _foresaw(self, turn: Turn) -> FirstPass | None:
        """What the recognizer said of the whole turn before its end, where that is why it ended and nothing else was heard since. A client
        that stops the turn in the silence after it need not wait either until the turn was heard again."""
        ahead = turn.likely.foreseen if turn.likely else None
        if ahead is None or turn.closing is None:
            return None
        stopped = turn.closing.reason is CloseReason.STOPPED and turn.run is None and self._now - ahead.last <= self._catching_up
        if not stopped and turn.closing.decision.rule != "foreseen_token":
            return None
        words = ahead.words
        if ahead.first > turn.first or not words.text or words.text != turn.words.text:
            return None
        return FirstPass(self._now, turn.id, words.text, words.last_word, words.word_first, words.confidence)

    def _first_pass(self, fact: FirstPass) -> list[Event | Order]:
        turn = self._pending[fact.turn]
        closing = turn.closing
        assert closing is not None
        if not fact.text:
            del self._pending[turn.id]
            reason = CloseReason.NO_TEXT if closing.reason in _AFTER_WORDS else closing.reason  # the flush may take back all there was
            return [*self._drop(turn), TurnClosed(self._now, turn.id, reason, turn.first, closing.last)]
        if closing.reason is CloseReason.NO_TEXT:  # the flush may give a word that no partial had
            turn.closing = closing = replace(closing, reason=CloseReason.SILENCE)
        turn.stable = turn.stable.then(turn.words.text, fact.text)
        self._tally["flicker"] += turn.stable.flicker
        token = turn.words.end_token
        turn.words = Words(
            self._now, fact.text, last_word=fact.last_word, heard=closing.last, word_first=fact.word_first, confidence=fact.confidence
        )
        speech_end = closing.last if turn.speech_end is None else turn.speech_end
        decision = closing.decision
        told = Endpoint(self._now, turn.id, closing.reason, speech_end, fact.text, decision.rule, dict(decision.margins), token)
        if not self._rules.second_pass or closing.reason is CloseReason.SHUTDOWN:
            note = "shutting down" if self._rules.second_pass else "no second pass"
            return [told, *self._drop(turn), *self._finish(turn, Rewritten(self._now, turn.id, 0, "", note))]
        likely = turn.likely
        if likely and likely.attempt and self._holds(turn, likely):
            turn.asked = likely.attempt
            self._tally["speculated"] += 1
            return [told, *(self._rewritten(likely.answer) if likely.answer else ())]
        dropped, order = self._drop(turn), self._rewrite(turn, closing.last)
        turn.asked = order.attempt
        return [told, *dropped, order]

    def _rewritten(self, fact: Rewritten) -> list[Event | Order]:
        turn = self._turn if fact.turn == self.open_turn else self._pending.get(fact.turn)
        if turn is None:  # late: its final is out already
            return []
        if turn.asked == fact.attempt:
            return self._finish(turn, fact)
        if turn.likely and turn.likely.attempt == fact.attempt and not turn.likely.answer:
            turn.likely.answer = fact
        return []

    def _finish(self, turn: Turn, answer: Rewritten) -> list[Event | Order]:
        del self._pending[turn.id]
        closing, first = turn.closing, turn.words
        assert closing is not None
        words_s = 0.0 if first.last_word is None or not first.word_first else (first.last_word - first.word_first[0]) / RATE
        heard = Heard(first.text, first.confidence, turn.speech / RATE, words_s)
        verdict = self.guard.judge(answer, heard, second_pass=self._rules.second_pass, strict=self._rules.guard)
        closed = TurnClosed(self._now, turn.id, CloseReason.NO_TEXT if verdict.noise else closing.reason, turn.first, closing.last)
        if verdict.noise:
            return [closed]
        text, source = (first.text, TextSource.FIRST_PASS) if verdict.note else (answer.text, TextSource.SECOND_PASS)
        measured = {"second_pass_ms": answer.compute_ms} if answer.compute_ms else {}
        extra = (answer.text, first.word_first, first.confidence, turn.asked, turn.stable.flicker, verdict.refused)
        return [Final(self._now, turn.id, text, source, first.text, verdict.note, measured, *extra), closed]
