"""The states of a turn: one table from (state, cue) to state, and its picture.

What lives here: which state follows. What must not: what is done on the way (turn.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum


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
