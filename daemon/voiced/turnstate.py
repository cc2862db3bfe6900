"""A turn until its final is out: what the machine (turn.py) knows of it.

What lives here: the records. What must not: what a fact means for them.
"""

from __future__ import annotations

from dataclasses import dataclass

from .endpoint import Decision
from .events import CloseReason, Foreseen, Rewritten, Words
from .wording import Stable


@dataclass(slots=True)
class Likely:
    """A likely end, told at `sample`, that nothing has taken back: the sound before `last` is all of the turn, and `attempt` (0: none)
    rewrites it. `foreseen` is what the recognizer would say if silence went on."""

    sample: int
    last: int
    attempt: int
    answer: Rewritten | None = None
    foreseen: Foreseen | None = None


@dataclass(frozen=True, slots=True)
class Closing:
    """Where and why a turn closed."""

    last: int
    reason: CloseReason
    decision: Decision


@dataclass(slots=True)
class Turn:
    """A turn until its final is out. Positions in samples.

    run           where the burst of speech began that is going on
    speech        samples of speech, the pauses between left out
    attempts      rewrites asked for so far; foresights the same
    marks, score  a turn detector's questions in the silence that goes on, and its last answer
    asked         the attempt whose answer is the final; 0 before that is known
    """

    id: int
    first: int
    words: Words
    stable: Stable
    run: int | None = None
    speech: int = 0
    speech_first: int | None = None
    speech_end: int | None = None
    likely: Likely | None = None
    attempts: int = 0
    foresights: int = 0
    marks: int = 0
    score: float | None = None
    closing: Closing | None = None
    asked: int = 0
