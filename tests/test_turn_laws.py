"""What holds of turns whatever the facts are, and in whatever order they come."""

from __future__ import annotations

import itertools

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from turns import Lane, kinds, machine
from voiced.events import (
    AudioLost,
    Cancel,
    CloseReason,
    Endpoint,
    Event,
    Final,
    LikelyEnd,
    Partial,
    Resumed,
    Rewritten,
    Shutdown,
    SpeechStarted,
    Stop,
    Trigger,
    TurnClosed,
    TurnScore,
    Wake,
)
from voiced.states import State
from voiced.turn import ATTEMPTS_LIMIT


class AnyFacts(RuleBasedStateMachine):
    """Facts in any order, answers in any order; the laws of a turn hold after each of them, and all ends with Shutdown."""

    def __init__(self) -> None:
        super().__init__()
        self.lane = Lane(machine(first_turn=5, turn_step=3, changed={"turn_detector": True}))

    @rule(ahead=st.integers(-16_000, 8000))
    def wake(self, ahead: int) -> None:
        self.lane.wake(phrase_end=max(0, self.lane.now + ahead))

    @rule(probability=st.sampled_from([0.0, 0.34, 0.4, 0.6, 1.0]), count=st.integers(1, 40))
    def hear(self, probability: float, count: int) -> None:
        self.lane.windows(probability, count)

    @rule(text=st.sampled_from(["", "turn", "turn on", "turn off"]), token=st.none() | st.integers(0, 8000), certain=st.booleans())
    def understand(self, text: str, token: int | None, certain: bool) -> None:
        at = None if token is None else max(0, self.lane.now - token)
        self.lane.words(text, at, -0.1 if certain else -9.0)

    @rule(kind=st.sampled_from([Trigger, Stop, Cancel, AudioLost]), later=st.integers(0, 2000), word=st.sampled_from(["", "lights"]))
    def from_outside(self, kind: type[Trigger | Stop | Cancel | AudioLost], later: int, word: str) -> None:
        self.lane.last_word = word
        self.lane.now += later
        self.lane.take(kind(self.lane.now))

    @precondition(lambda self: self.lane.rewrites)
    @rule(which=st.integers(0, 9), text=st.sampled_from(["", "Turn on."]), failure=st.sampled_from(["", "late"]), again=st.booleans())
    def answer(self, which: int, text: str, failure: str, again: bool) -> None:
        order = self.lane.rewrites.pop(which % len(self.lane.rewrites))
        answer = Rewritten(self.lane.now, order.turn, order.attempt, text, failure)
        assert kinds(self.lane.take(answer)) in ([Final, TurnClosed], [])  # nothing: shut down before, or the turn is open
        if again:
            assert self.lane.take(answer) == []

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

    def teardown(self) -> None:
        self.shut_down()
        self.turns_keep_their_laws()


AnyFacts.TestCase.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
TestAnyFacts = AnyFacts.TestCase
