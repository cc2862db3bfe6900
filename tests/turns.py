"""A machine and the world around it, as the tests of the turn use them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from voiced.endpoint import Endpointer
from voiced.events import (
    CloseReason,
    CloseTurn,
    Confirmed,
    DropRewrite,
    Event,
    Fact,
    FirstPass,
    Foresee,
    LikelyEnd,
    OpenTurn,
    Resumed,
    Rewrite,
    Rewritten,
    ScoreTurn,
    SpeechProbability,
    TurnClosed,
    Words,
)
from voiced.states import State
from voiced.turn import TurnMachine
from voiced.turnrules import TurnRules
from voiced.units import RATE

HOP = 512
SECOND = RATE // HOP  # VAD windows, a quarter of one short of a second
RULES = {
    "token_threshold": -3.0,
    "token_silence_ms": 100.0,
    "foreseen_silence_ms": 240.0,
    "silence_complete_ms": 450.0,
    "silence_ms": 700.0,
    "silence_open_ms": 1200.0,
    "no_text_ms": 1000.0,
    "no_speech_ms": 5000.0,
    "too_long_ms": 15_000.0,
    "likely_end_ms": 64.0,
    "turn_detector_threshold": 0.5,
}


def machine(*, first_turn: int = 1, turn_step: int = 1, changed: Mapping[str, Any] | None = None, **rules: float) -> TurnMachine:
    """`changed`: fields of TurnRules, by name."""
    return TurnMachine(replace(turn_rules(**rules), **(changed or {})), first_turn=first_turn, turn_step=turn_step)


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
        foresight=True,
        open_ends=True,
        turn_detector=False,
        second_pass=second_pass,
        speculative=True,
        guard=False,
    )


class Lane:
    """The world around a machine: obeys its orders at once, as pipeline.py does, and keeps its events and its open rewrites.

    signs   LikelyEnd and Resumed are in what it tells, too; without, only in `events`: most tests are about the rest
    """

    def __init__(self, heart: TurnMachine, *, signs: bool = False) -> None:
        self.heart, self.signs = heart, signs
        self.now = 0
        self.text = ""  # what the first pass has understood in the open turn
        self.last_word = ""  # what only its flush gives
        self.last_word_at: int | None = None
        self.events: list[Event] = []
        self.first_passes: dict[int, FirstPass] = {}  # by turn
        self.rewrites: list[Rewrite] = []
        self.asked: list[Rewrite] = []  # the dropped ones, too
        self.dropped: set[tuple[int, int]] = set()  # turn, attempt
        self.scores: list[ScoreTurn] = []
        self.foresights: list[Foresee] = []

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
                    self.first_passes[item.turn] = FirstPass(item.sample, item.turn, text, self.last_word_at)
                    todo += self.heart.take(self.first_passes[item.turn])
                self.last_word_at = None
            elif isinstance(item, Rewrite):
                self.rewrites.append(item)
                self.asked.append(item)
            elif isinstance(item, DropRewrite):
                self.rewrites = [order for order in self.rewrites if (order.turn, order.attempt) != (item.turn, item.attempt)]
                self.dropped.add((item.turn, item.attempt))
            elif isinstance(item, ScoreTurn):
                self.scores.append(item)
            elif isinstance(item, Foresee):
                self.foresights.append(item)
            elif not isinstance(item, OpenTurn):
                told.append(item)
        self.events += told
        return [event for event in told if self.signs or not isinstance(event, LikelyEnd | Resumed)]

    def wake(self, phrase_end: int | None = None) -> list[Event]:
        return self.take(Confirmed(self.now, "jarvis", self.now if phrase_end is None else phrase_end, 0.99, "heard"))

    def windows(self, probability: float, count: int) -> list[Event]:
        told = []
        for _ in range(count):
            self.now += HOP
            told += self.take(SpeechProbability(self.now, probability))
        return told

    def words(self, text: str, token: int | None = None, log_probability: float = -0.1, at: int | None = None) -> list[Event]:
        """`at`: where the last of them stands."""
        self.text, self.last_word_at = text, at
        return self.take(Words(self.now, text, token, log_probability, at))

    def say(self, text: str) -> list[Event]:
        """A quarter of a second of silence, half of one of speech, and the words."""
        return self.windows(0.0, SECOND // 4) + self.windows(1.0, SECOND // 2) + self.words(text)

    def rewrite(self, text: str, failure: str = "") -> list[Event]:
        """The second pass answers for the turn that waits longest."""
        order = self.rewrites.pop(0)
        return self.take(Rewritten(self.now, order.turn, order.attempt, text, failure, 40.0))


def kinds(events: list[Event]) -> list[type]:
    return [type(event) for event in events]


def reasons(events: list[Event]) -> list[CloseReason]:
    return [event.reason for event in events if isinstance(event, TurnClosed)]
