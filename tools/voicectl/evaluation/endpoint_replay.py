"""One turn judged again: the daemon's own turn machine on a tape, obeyed as the pipeline obeys it.

What lives here: the loop of facts, events and orders, and what is measured of a turn. What must not: a model (endpoint_tape.py has the
answers), a sum over turns (endpoint_figures.py). Sample time decides; processor time only adds up to when a person would have the text.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace

from voiced.api import (
    HAND_OVER,
    CatchingUp,
    CloseTurn,
    DropRewrite,
    Endpoint,
    Event,
    Final,
    FirstPass,
    Foresee,
    Foreseen,
    LikelyEnd,
    Order,
    Rewrite,
    Rewritten,
    ScoreTurn,
    Settings,
    SpeechProbability,
    Stop,
    Trigger,
    TurnClosed,
    TurnMachine,
    TurnScore,
    Words,
    to_ms,
    turn_rules,
)

from .endpoint_queries import Query
from .endpoint_tape import BEGIN, FIRST, Library, Tape
from .sounds import VAD_HOP

OPEN = "open"
"""The reason of a turn that nothing closed within the sound that there is."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one query.

    reason          why the turn closed (CloseReason's value), or OPEN
    rule            the endpointer's row
    closed          position at which it closed; where it was OPEN, the end of the sound
    cut             it closed before the speech had ended
    likely_ms       from the end of speech to the first LikelyEnd after which the speaker did not go on
    endpoint_ms     from the end of speech to the endpoint: sample time and what the recognizer computed then
    final_ms        from the end of speech to the final text
    wait_ms         of that, what came after the endpoint
    first_pass, second_pass, final  texts; the second pass's also where it was not used
    attempts, wasted, second_pass_ms   rewrites asked for, those dropped, and what all of them computed
    refused, note   why the second pass is not believed, and why the first's text is the final (Final)
    """

    reason: str
    rule: str
    closed: int
    cut: bool
    likely_ms: float | None
    endpoint_ms: float
    final_ms: float
    wait_ms: float
    first_pass: str
    second_pass: str
    final: str
    attempts: int
    wasted: int
    second_pass_ms: float
    refused: str = ""
    note: str = ""


Rewriter = Callable[[Rewrite], tuple[str, float]]
"""A rewrite's text, and the milliseconds that it computes."""


class _Turn:
    """One replay: the events so far, and what they cost. The scribe's loop (pipeline.Scribe), its stages on tape."""

    def __init__(self, settings: Settings, library: Library, query: Query, tape: Tape, *, texts: bool) -> None:
        self._machine = TurnMachine(turn_rules(settings))
        self._library, self._query, self._tape, self._texts = library, query, tape, texts
        self.events: list[Event] = []
        self.rewrites: dict[int, tuple[int, float]] = {}  # attempt → asked at, computing
        self.wasted = 0
        self.score_ms = 0.0
        self.foreseen = 0, 0.0  # asked at, computing
        self._catching_up: CatchingUp | None = None
        self._known = self._told = Words(BEGIN, "")  # what the transducer knew without, and what it told last
        self._fed = BEGIN  # what it was given
        self.flush_ms = 0.0  # what the first pass computed when the turn closed
        self.closed = 0

    def take(self, fact: Trigger | SpeechProbability | Words | Stop) -> bool:
        """Whether the turn goes on."""
        self._obey(self._machine.take(fact))
        return not self.closed

    def window(self, probability: SpeechProbability, words: Words | None) -> bool:
        """The same for a window of the VAD and what the transducer knew anew after it; while it catches up, it knows that later."""
        if not self.take(probability):
            return False
        self._fed = probability.sample
        self._known = words or self._known
        if self._catching_up:
            self._catching_up.step(VAD_HOP)
            if self._catching_up.late:
                return True
            self._catching_up = None
        if (self._known.text, self._known.end_token) == (self._told.text, self._told.end_token):
            return True
        self._told = replace(self._known, sample=self._fed)
        return self.take(self._told)

    def _obey(self, items: list[Event | Order]) -> None:
        todo = deque(items)
        while todo:
            item = todo.popleft()
            match item:
                case CloseTurn():
                    self.closed = item.sample
                    if item.flush:
                        late = self._catching_up
                        before = self._tape.compute_ms(late.late) if late else self._tape.steps_ms.get(item.sample, 0.0)
                        self.flush_ms = before + self._tape.flush_ms
                        todo.extend(self._machine.take(self._first_pass(item)))
                case Rewrite():
                    todo.extend(self._machine.take(self._rewritten(item)))
                case DropRewrite():
                    self.wasted += 1
                case ScoreTurn():
                    answer = self._library.score(self._tape, self._query.samples, item.first, item.last)
                    self.score_ms = answer.compute_ms
                    todo.extend(self._machine.take(TurnScore(item.sample, item.turn, item.last, answer.value)))
                case Foresee():
                    self._foresee(item, todo)
                case Endpoint() | Final() | TurnClosed() | LikelyEnd():
                    self.events.append(item)
                case _:
                    pass

    def _foresee(self, order: Foresee, todo: deque[Event | Order]) -> None:
        words, ms = self._library.foresee(self._tape, self._query.samples, max(order.first - HAND_OVER, 0), order.last)
        self.foreseen = order.sample, ms
        if order.first - HAND_OVER == BEGIN:
            self._told, self._catching_up = replace(words, end_token=None), self._library.catching_up(self._fed - BEGIN, words)
        answer = Foreseen(order.sample, order.turn, order.first, order.last, words)
        todo.extend(self._machine.take(answer))

    def _first_pass(self, order: CloseTurn) -> FirstPass:
        # without texts: whether it has any is all that the machine asks
        tape, samples = self._tape, self._query.samples
        words = self._library.first_pass(tape, samples, order.sample) if self._texts else tape.whole
        return FirstPass(order.sample, order.turn, words.text, words.last_word, words.word_first, words.confidence)

    def _rewritten(self, order: Rewrite) -> Rewritten:
        if not self._texts:
            self.rewrites[order.attempt] = order.sample, 0.0
            return Rewritten(order.sample, order.turn, order.attempt, "yes")
        answer = self._library.second_pass(self._tape, self._query.samples, max(order.first - HAND_OVER, 0), order.last)
        self.rewrites[order.attempt] = order.sample, answer.compute_ms
        return Rewritten(order.sample, order.turn, order.attempt, answer.value, compute_ms=answer.compute_ms)


def replay(settings: Settings, library: Library, query: Query, tape: Tape, *, texts: bool = True) -> Outcome:
    """Judges the query by these settings. Without `texts` no model is asked for any (a turn detector still is), and all are empty."""
    turn = _Turn(settings, library, query, tape, texts=texts)
    turn.take(Trigger(FIRST))
    closed_by_itself = not all(turn.window(*window) for window in tape.windows)
    if not closed_by_itself:
        turn.take(Stop(tape.samples))
    endpoint = next((event for event in turn.events if isinstance(event, Endpoint)), None)
    final = next((event for event in turn.events if isinstance(event, Final)), None)
    closed = next(event for event in turn.events if isinstance(event, TurnClosed))
    since_end = to_ms(turn.closed - query.end)
    computed = turn.flush_ms
    if closed.reason.value == "turn detector":
        computed += turn.score_ms
    asked_at, foresee_ms = turn.foreseen
    # the recognizer has one thread: what it was asked last may still be computing
    foreseen_ms = to_ms(asked_at - query.end) + tape.steps_ms.get(asked_at, 0.0) + foresee_ms if foresee_ms else since_end
    endpoint_ms = max(since_end, foreseen_ms) + computed
    final_ms = endpoint_ms
    if final and final.attempt in turn.rewrites:
        asked, compute_ms = turn.rewrites[final.attempt]
        began = endpoint_ms if asked >= turn.closed else to_ms(asked - query.end) + tape.steps_ms.get(asked, 0.0)
        final_ms = max(endpoint_ms, began + compute_ms)
    likely = [event.sample for event in turn.events if isinstance(event, LikelyEnd)]
    return Outcome(
        reason=closed.reason.value if closed_by_itself else OPEN,
        rule=endpoint.rule if endpoint and closed_by_itself else "",
        closed=turn.closed,
        cut=closed_by_itself and turn.closed < query.end,
        likely_ms=to_ms(likely[-1] - query.end) if likely else None,
        endpoint_ms=endpoint_ms,
        final_ms=final_ms,
        wait_ms=final_ms - endpoint_ms,
        first_pass=final.first_pass if final and texts else "",
        second_pass=final.second_pass if final and texts else "",
        final=final.text if final and texts else "",
        attempts=len(turn.rewrites),
        wasted=turn.wasted,
        second_pass_ms=sum(compute_ms for _, compute_ms in turn.rewrites.values()),
        refused=final.refused if final else "",
        note=final.note if final else "",
    )
