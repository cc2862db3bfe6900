"""A machine and the world around it, as the tests of the turn use them."""

from __future__ import annotations

from voiced.endpoint import Endpointer
from voiced.events import (
    CloseReason,
    CloseTurn,
    Confirmed,
    Event,
    Fact,
    FirstPass,
    OpenTurn,
    Rewrite,
    Rewritten,
    SpeechProbability,
    TurnClosed,
    Words,
)
from voiced.turn import State, TurnMachine, TurnRules
from voiced.units import RATE

HOP = 512
SECOND = RATE // HOP  # VAD windows, a quarter of one short of a second
RULES = {
    "token_threshold": -3.0,
    "token_silence_ms": 100.0,
    "silence_ms": 700.0,
    "no_text_ms": 1000.0,
    "no_speech_ms": 5000.0,
    "too_long_ms": 15_000.0,
}


def machine(*, second_pass: bool = True, first_turn: int = 1, turn_step: int = 1, **rules: float) -> TurnMachine:
    return TurnMachine(turn_rules(True, second_pass, **rules), first_turn=first_turn, turn_step=turn_step)


def turn_rules(end_token: bool = True, second_pass: bool = True, /, **rules: float) -> TurnRules:
    return TurnRules(
        Endpointer(**{**RULES, **rules}),
        vad_on=0.5,
        vad_off=0.35,
        vad_hop=HOP,
        min_speech_ms=100,
        lead_pad_ms=100,
        tail_pad_ms=200,
        end_token=end_token,
        second_pass=second_pass,
    )


class Lane:
    """The world around a machine: obeys its orders at once, as pipeline.py does, and keeps its events."""

    def __init__(self, heart: TurnMachine) -> None:
        self.heart = heart
        self.now = 0
        self.text = ""  # what the first pass has understood in the open turn
        self.last_word = ""  # what only its flush gives
        self.events: list[Event] = []
        self.rewrites: list[Rewrite] = []

    def state(self) -> State:
        return self.heart.state

    def take(self, fact: Fact) -> list[Event]:
        told: list[Event] = []
        todo = self.heart.take(fact)
        while todo:
            item = todo.pop(0)
            if isinstance(item, CloseTurn):
                text, self.text = f"{self.text} {self.last_word}".strip(), ""
                if item.flush:
                    todo += self.heart.take(FirstPass(item.sample, item.turn, text))
            elif isinstance(item, Rewrite):
                self.rewrites.append(item)
            elif not isinstance(item, OpenTurn):
                told.append(item)
        self.events += told
        return told

    def wake(self, phrase_end: int | None = None) -> list[Event]:
        return self.take(Confirmed(self.now, "jarvis", self.now if phrase_end is None else phrase_end, 0.99, "heard"))

    def windows(self, probability: float, count: int) -> list[Event]:
        told = []
        for _ in range(count):
            self.now += HOP
            told += self.take(SpeechProbability(self.now, probability))
        return told

    def words(self, text: str, token: int | None = None, log_probability: float = -0.1) -> list[Event]:
        self.text = text
        return self.take(Words(self.now, text, token, log_probability))

    def say(self, text: str) -> list[Event]:
        """A quarter of a second of silence, half of one of speech, and the words."""
        return self.windows(0.0, SECOND // 4) + self.windows(1.0, SECOND // 2) + self.words(text)

    def rewrite(self, text: str, failure: str = "") -> list[Event]:
        """The second pass answers for the turn that waits longest."""
        return self.take(Rewritten(self.now, self.rewrites.pop(0).turn, text, failure, 40.0))


def kinds(events: list[Event]) -> list[type]:
    return [type(event) for event in events]


def reasons(events: list[Event]) -> list[CloseReason]:
    return [event.reason for event in events if isinstance(event, TurnClosed)]
