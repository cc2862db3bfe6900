"""A lane's turns as its events tell of them: what the main process must know in case the lane dies.

What lives here: which turn is open, which finals are still to come, the last events of a lane that can give none itself, and a
turn's line in the log. What must not: processes, clocks, the bus.
"""

from __future__ import annotations

from dataclasses import dataclass

from .events import CloseReason, Endpoint, Event, Final, Partial, TextSource, TurnClosed, Wake


@dataclass(slots=True)
class Record:
    """What is known of a turn that is open, or whose end is not out."""

    turn: int
    first: int
    text: str = ""
    endpoint: Endpoint | None = None
    final: Final | None = None


class Ledger:
    """Follows one lane.

    next_turn   id of the turn that comes next; ids rise by `step`
    turn        the open turn, 0 where there is none
    """

    def __init__(self, next_turn: int, step: int) -> None:
        self.next_turn, self._step = next_turn, step
        self.turn = 0
        self._last = 0  # the newest position heard of
        self._records: dict[int, Record] = {}

    def follow(self, event: Event) -> Record | None:
        """Takes an event as it is published. Gives the turn that it was the last of."""
        self._last = max(self._last, event.sample)
        match event:
            case Wake(turn=turn, phrase_end=first):
                self.turn, self.next_turn = turn, turn + self._step
                self._records[turn] = Record(turn, first)
            case Partial(text=text):
                self._record(event).text = text
            case Endpoint(turn=turn, text=text):
                record = self._record(event)
                record.endpoint, record.text = event, text
                self._slept(turn)
            case Final():
                self._record(event).final = event
            case TurnClosed(turn=turn):
                self._slept(turn)
                return self._records.pop(turn, Record(turn, event.first))
        return None

    def last_events(self, reason: CloseReason, note: str) -> list[Event]:
        """What is owed to those who listen when the lane is gone: every turn's final, from the first pass, and its end.

        `reason` is why a turn closed that was still open; `note` why it has no second pass. `follow` wants them too.
        """
        last = self._last
        owed: list[Event] = []
        for record in self._records.values():
            turn, text = record.turn, record.text
            closed = record.endpoint.reason if record.endpoint else reason
            if text and not record.endpoint:
                owed.append(Endpoint(last, turn, reason, last, text))
            if text and not record.final:
                owed.append(Final(last, turn, text, TextSource.FIRST_PASS, text, note))
            owed.append(TurnClosed(last, turn, closed, record.first, last))
        return owed

    def _record(self, event: Partial | Endpoint | Final) -> Record:
        # a turn of which the wake was lost on its way (the lane's outbox is bounded) is a turn all the same
        return self._records.setdefault(event.turn, Record(event.turn, event.sample))

    def _slept(self, turn: int) -> None:
        if self.turn == turn:
            self.turn = 0


def summary(closed: TurnClosed, final: Final | None, *, text: bool) -> str:
    """A turn as a line of the log: why it closed, whose text it has, its times in milliseconds; `text`: what was said, too."""
    said = [f"turn {closed.turn}: {closed.reason.value}"]
    if final:
        said.append(f"{final.source.value} ({final.note})" if final.note else final.source.value)
        if text:
            said.append(repr(final.text))
        said += [f"{name} {value:.0f}" for name, value in final.measured.items()]
    return ", ".join(said)
