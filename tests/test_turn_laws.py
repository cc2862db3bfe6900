"""What holds of turns whatever the facts are, and in whatever order they come."""

from __future__ import annotations

import itertools
from dataclasses import replace

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from turns import Lane, kinds, machine, turn_rules
from voiced.events import (
    AudioLost,
    Cancel,
    CloseReason,
    Endpoint,
    Event,
    Final,
    Foreseen,
    LikelyEnd,
    Partial,
    Resumed,
    Rewrite,
    Rewritten,
    Shutdown,
    SpeechStarted,
    Stop,
    TextSource,
    Trigger,
    TurnClosed,
    TurnScore,
    Wake,
    Words,
)
from voiced.states import State
from voiced.turn import ATTEMPTS_LIMIT, WORD_LATE_MS
from voiced.units import to_samples


class AnyFacts(RuleBasedStateMachine):
    """Facts in any order, answers in any order; the laws of a turn hold after each of them, and all ends with Shutdown."""

    def __init__(self) -> None:
        super().__init__()
        self.lane = Lane(machine(first_turn=5, turn_step=3, changed={"turn_detector": True}))
        self.given: list[Rewrite] = []  # that were answered, dropped or not
        self.foreseen: dict[int, Words] = {}  # by turn, of its last sound

    @rule(ahead=st.integers(-16_000, 8000))
    def wake(self, ahead: int) -> None:
        self.lane.wake(phrase_end=max(0, self.lane.now + ahead))

    @rule(probability=st.sampled_from([0.0, 0.34, 0.4, 0.6, 1.0]), count=st.integers(1, 40))
    def hear(self, probability: float, count: int) -> None:
        self.lane.windows(probability, count)

    @rule(
        text=st.sampled_from(["", "turn", "turn on", "turn off"]),
        token=st.none() | st.integers(0, 8000),
        certain=st.booleans(),
        late=st.integers(0, 8000),
    )
    def understand(self, text: str, token: int | None, certain: bool, late: int) -> None:
        at = None if token is None else max(0, self.lane.now - token)
        self.lane.words(text, at, -0.1 if certain else -9.0, max(0, self.lane.now - late) if text else None)

    @rule(parts=st.lists(st.tuples(st.integers(2, 12), st.integers(0, 30)), min_size=1, max_size=3), late=st.integers(0, 4000))
    def say(self, parts: list[tuple[int, int]], late: int) -> None:
        """As a speaker does, with pauses: of these words the recognizer says the last so late."""
        self.wake(0)
        for number, (speech, quiet) in enumerate(parts):
            self.lane.windows(1.0, speech)
            said = " ".join(["turn", "on", "lights"][: number + 1])
            self.lane.windows(0.0, quiet // 2)
            if self.lane.heart.open_turn:
                self.lane.words(said, at=max(0, self.lane.now - late))
            self.lane.windows(0.0, quiet - quiet // 2)

    @rule(
        kind=st.sampled_from([Trigger, Stop, Cancel, AudioLost]),
        later=st.integers(0, 2000),
        word=st.sampled_from(["", "lights"]),
        ago=st.integers(0, 8000),
    )
    def from_outside(self, kind: type[Trigger | Stop | Cancel | AudioLost], later: int, word: str, ago: int) -> None:
        self.lane.now += later
        self.lane.last_word = word
        if word:
            self.lane.last_word_at = max(0, self.lane.now - ago)
        self.lane.take(kind(self.lane.now))
        self.lane.last_word = ""

    @precondition(lambda self: self.lane.asked)
    @rule(which=st.integers(0, 99), fails=st.booleans(), again=st.booleans())
    def answer(self, which: int, fails: bool, again: bool) -> None:
        """Any that was ever asked for, whose text says which: also one that was dropped, or answered before."""
        order = self.lane.asked[which % len(self.lane.asked)]
        failure, text = ("late", "") if fails else ("", f"{order.turn} {order.attempt}")
        self.lane.rewrites = [one for one in self.lane.rewrites if one != order]
        answer = Rewritten(self.lane.now, order.turn, order.attempt, text, failure)
        first = order not in self.given
        told = kinds(self.lane.take(answer))
        assert told in ([Final, TurnClosed], [])  # nothing: dropped, answered or shut down before, or the turn is open
        assert first or not told
        self.given.append(order)
        if again:
            assert self.lane.take(answer) == []

    @precondition(lambda self: self.lane.foresights)
    @rule(
        which=st.integers(0, 9),
        text=st.sampled_from(["", "turn on", "turn on the"]),
        ahead=st.none() | st.integers(-4000, 8000),
        word=st.integers(-4000, 1000),
    )
    def foresee(self, which: int, text: str, ahead: int | None, word: int) -> None:
        order = self.lane.foresights[-1 - which % len(self.lane.foresights)]
        token = None if ahead is None else max(0, order.last + ahead)
        words = Words(order.last, text, token, -1.0, last_word=order.last + word if text else None)
        if order.last == max(one.last for one in self.lane.foresights if one.turn == order.turn):
            self.foreseen[order.turn] = words
        self.lane.take(Foreseen(self.lane.now, order.turn, order.first, order.last, words))

    @precondition(lambda self: not self.lane.heart.open_turn)
    @rule(second_pass=st.booleans(), speculative=st.booleans(), guard=st.booleans())
    def read_settings_anew(self, second_pass: bool, speculative: bool, guard: bool) -> None:
        """Finals may be pending that were asked for by the old ones."""
        rules = replace(turn_rules(), turn_detector=True, second_pass=second_pass, speculative=speculative, guard=guard)
        self.lane.heart.adopt(rules)

    @precondition(lambda self: self.lane.scores)
    @rule(which=st.integers(0, 9), probability=st.sampled_from([0.1, 0.9]))
    def score(self, which: int, probability: float) -> None:
        order = self.lane.scores[which % len(self.lane.scores)]
        self.lane.take(TurnScore(self.lane.now, order.turn, order.last, probability))

    @rule()
    def shut_down(self) -> None:
        self.lane.take(Shutdown(self.lane.now))
        heart = self.lane.heart
        assert (heart.state, heart.open_turn, heart.pending_turns) == (State.ASLEEP, 0, ())

    @invariant()
    def asleep_where_no_turn_is_open(self) -> None:
        assert (self.lane.heart.state is State.ASLEEP) is (self.lane.heart.open_turn == 0)

    @invariant()
    def second_pass_is_asked_for_sound_of_its_turn(self) -> None:
        for order in self.lane.rewrites:
            assert 0 <= order.first <= order.last <= self.lane.now + 8000

    @invariant()
    def second_pass_is_asked_within_bounds_and_never_for_silence(self) -> None:
        asked: dict[int, list[int]] = {}
        for order in self.lane.asked:
            asked.setdefault(order.turn, []).append(order.attempt)
        for turn, attempts in asked.items():
            assert attempts == list(range(1, len(attempts) + 1))
            assert len(attempts) <= ATTEMPTS_LIMIT + 1
            told = [event for event in self.lane.events if event.turn == turn]  # type: ignore[union-attr]
            assert any(isinstance(event, SpeechStarted | Partial | Endpoint) for event in told)
        alive = [order.turn for order in self.lane.rewrites]
        assert len(alive) == len(set(alive))
        counted = self.lane.heart.statistics()
        assert counted.rewrites == len(self.lane.asked)
        assert counted.wasted + counted.speculated <= counted.rewrites
        assert counted.resumed <= counted.likely_ends

    @invariant()
    def turns_keep_their_laws(self) -> None:
        events = self.lane.events
        assert [event.sample for event in events] == sorted(event.sample for event in events)
        turns: dict[int, list[Event]] = {}
        for event in events:
            turns.setdefault(event.turn, []).append(event)  # type: ignore[union-attr]
        assert list(turns) == [5 + 3 * at for at in range(len(turns))]
        unfinished = {self.lane.heart.open_turn, *self.lane.heart.pending_turns} - {0}
        for turn, told in turns.items():
            self._lawful(told, closed=turn not in unfinished)
        wakes = [at for at, event in enumerate(events) if isinstance(event, Wake)]
        for (turn, told), following in zip(turns.items(), wakes[1:], strict=False):
            assert any(isinstance(event, Endpoint | TurnClosed) for event in events[:following] if event in told), turn

    @invariant()
    def a_final_has_all_that_was_said(self) -> None:
        """Whatever was dropped, answered late or twice: a second pass's text is of the attempt that it names, which was not dropped and
        had heard the last speech and the last word."""
        ends = {event.turn: event for event in self.lane.events if isinstance(event, Endpoint)}
        spoken = {event.turn for event in self.lane.events if isinstance(event, SpeechStarted)}  # else the end of speech is the turn's own
        orders = {(order.turn, order.attempt): order for order in self.lane.asked}
        for final in (event for event in self.lane.events if isinstance(event, Final)):
            if not final.attempt:
                assert final.source is TextSource.FIRST_PASS
                continue
            order = orders[final.turn, final.attempt]
            assert (final.turn, final.attempt) not in self.lane.dropped
            assert order.last >= ends[final.turn].speech_end or final.turn not in spoken
            known = self.lane.first_passes.get(final.turn) or self.foreseen[final.turn]
            assert order.last + to_samples(WORD_LATE_MS) >= (known.last_word or 0)
            if final.source is TextSource.SECOND_PASS:
                assert final.text == f"{final.turn} {final.attempt}"

    def _lawful(self, told: list[Event], *, closed: bool) -> None:
        signs = [kind for kind in kinds(told) if kind in (LikelyEnd, Resumed)]
        assert signs == ([LikelyEnd, Resumed] * len(signs))[: len(signs)]
        order = [kind for kind in kinds(told) if kind not in (LikelyEnd, Resumed)]
        assert order[0] is Wake
        assert order.count(Wake) == 1
        assert order.count(TurnClosed) == int(closed)
        assert not closed or order[-1] is TurnClosed
        for once in (SpeechStarted, Endpoint, Final):
            assert order.count(once) <= 1
        if Endpoint in order:
            after = order[order.index(Endpoint) + 1 :]
            assert after == ([Final, TurnClosed] if closed else [])
        else:
            assert Final not in order
        partials = [event for event in told if isinstance(event, Partial)]
        assert all(before.text != after.text for before, after in itertools.pairwise(partials))
        assert all(0 <= partial.stable <= len(partial.text) for partial in partials)
        if closed and told[-1].reason in (CloseReason.CANCELLED, CloseReason.NO_SPEECH, CloseReason.NO_TEXT):  # type: ignore[union-attr]
            assert Endpoint not in order
        if closed and told[-1].reason in (CloseReason.END_TOKEN, CloseReason.TURN_DETECTOR, CloseReason.SILENCE):  # type: ignore[union-attr]
            assert Final in order

    def teardown(self) -> None:
        self.shut_down()
        self.turns_keep_their_laws()


AnyFacts.TestCase.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
TestAnyFacts = AnyFacts.TestCase
