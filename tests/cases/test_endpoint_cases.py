"""CASES E4: people who speak slowly. The knobs are the shipped ones, read from a settings file."""

from __future__ import annotations

import pytest
from turns import HOP, Lane
from voiced.assembly import turn_rules
from voiced.events import CloseReason, Endpoint, Foreseen
from voiced.settings import parse
from voiced.turn import TurnMachine

DIGITS = ("four", "four one", "four one five", "four one five nine")


def lane_of(text: str) -> Lane:
    return Lane(TurnMachine(turn_rules(parse(text, "test.yaml"))))


def dictated(lane: Lane, gap_s: float) -> list[Endpoint]:
    """Digits with gaps between them, each of which sounds whole to the recognizer."""
    gap = round(gap_s * 16_000 / HOP)
    lane.wake()
    for text in DIGITS:
        lane.windows(1.0, 10)
        lane.words(text)
        lane.windows(0.0, 3)
        if lane.heart.open_turn:
            order = lane.foresights[-1]
            lane.take(Foreseen(lane.now, order.turn, order.last, text, order.last + 2000, -1.0))
        lane.windows(0.0, gap - 3)
    lane.windows(0.0, 150)
    return [event for event in lane.events if isinstance(event, Endpoint)]


@pytest.mark.parametrize(("profile", "gap_s"), [("patient", 1.0), ("dictation", 1.5)])
def test_e4_digits_with_gaps_are_one_turn_where_the_profile_waits(profile: str, gap_s: float) -> None:
    (endpoint,) = dictated(lane_of(f"endpoint: {{profile: {profile}}}"), gap_s)
    assert (endpoint.text, endpoint.reason) == (DIGITS[-1], CloseReason.SILENCE)


def test_e4_the_default_is_for_commands() -> None:
    """So the profile matters."""
    assert dictated(lane_of(""), 1.5)[0].text in DIGITS[:-1]


def test_e4_the_profile_changes_live() -> None:
    """Between two turns, as a reload does it."""
    lane = lane_of("")
    lane.wake()
    lane.windows(1.0, 20)
    lane.words("stop")
    lane.windows(0.0, 60)
    assert not lane.heart.open_turn
    lane.heart.adopt(turn_rules(parse("endpoint: {profile: dictation}", "test.yaml")))
    assert dictated(lane, 1.5)[-1].text == DIGITS[-1]
