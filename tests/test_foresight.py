"""Foresight: the recognizer is asked what silence would bring, so that nobody waits for it to hear the silence."""

from __future__ import annotations

from dataclasses import replace

import pytest
from turns import HOP, Lane, machine, turn_rules
from voiced.events import CloseReason, Endpoint, Event, Foreseen
from voiced.turn import ATTEMPTS_LIMIT, FORESIGHT_MS
from voiced.units import to_samples

SILENCE = 8
"""Windows: 256 ms, the first whole ones beyond 240."""


@pytest.fixture
def lane() -> Lane:
    return Lane(machine())


def spoken(lane: Lane, text: str = "turn on", seconds: float = 1.0) -> None:
    """Up to the likely end."""
    lane.wake()
    lane.windows(1.0, round(seconds * 16_000 / HOP))
    lane.words(text)
    lane.windows(0.0, 2)


def foreseen(lane: Lane, text: str = "turn on the lights", token: bool = True, log_probability: float = -1.0) -> list[Event]:
    order = lane.foresights[-1]
    at = order.last + to_samples(150) if token else None
    return lane.take(Foreseen(lane.now, order.turn, order.last, text, at, log_probability if token else 0.0))


def endpoints(events: list[Event]) -> list[Endpoint]:
    return [event for event in events if isinstance(event, Endpoint)]


def test_it_is_asked_once_for_the_turn_so_far(lane: Lane) -> None:
    spoken(lane)
    (order,) = lane.foresights
    assert (order.sample, order.first, order.last) == (lane.now, 0, lane.now)
    lane.windows(0.0, 5)
    assert len(lane.foresights) == 1


def test_a_token_that_is_foreseen_ends_the_turn_after_its_own_silence(lane: Lane) -> None:
    """The first pass has heard neither the last words nor the silence by then."""
    spoken(lane)
    speech_end = lane.now - 2 * HOP
    assert foreseen(lane) == []
    assert endpoints(lane.windows(0.0, SILENCE - 3)) == []
    (endpoint,) = endpoints(lane.windows(0.0, 1))
    assert (endpoint.reason, endpoint.rule) == (CloseReason.END_TOKEN, "foreseen_token")
    assert endpoint.sample - speech_end == SILENCE * HOP
    assert endpoint.end_token is None  # nobody has heard it
    assert endpoint.margins["foreseen"] == 2.0
    assert lane.heart.statistics().foreseen == 1


def test_an_answer_that_comes_late_ends_the_turn_when_it_comes(lane: Lane) -> None:
    spoken(lane)
    lane.windows(0.0, SILENCE)
    assert [endpoint.rule for endpoint in endpoints(foreseen(lane))] == ["foreseen_token"]


@pytest.mark.parametrize(
    "answer",
    [{"token": False}, {"text": "turn on the lights in the"}, {"text": ""}, {"log_probability": -3.1}],
    ids=["none", "open end", "no words", "unlikely"],
)
def test_what_proves_no_end_ends_nothing(lane: Lane, answer: dict[str, object]) -> None:
    spoken(lane)
    foreseen(lane, **answer)  # type: ignore[arg-type]
    assert endpoints(lane.windows(0.0, SILENCE)) == []


def test_an_unlikely_token_shortens_the_silence_as_a_heard_one_does(lane: Lane) -> None:
    spoken(lane)
    foreseen(lane, log_probability=-9.0)
    (endpoint,) = endpoints(lane.windows(0.0, 13))
    assert endpoint.rule == "silence_complete"


def test_speech_takes_it_back(lane: Lane) -> None:
    spoken(lane)
    foreseen(lane)
    lane.windows(1.0, 4)
    lane.windows(0.0, 2)
    assert len(lane.foresights) == 2  # and it is asked anew
    assert endpoints(lane.windows(0.0, SILENCE)) == []


def test_an_answer_that_speech_has_overtaken_is_not_used(lane: Lane) -> None:
    spoken(lane)
    early = lane.foresights[0]
    lane.windows(1.0, 4)
    lane.windows(0.0, 2)
    lane.take(Foreseen(lane.now, early.turn, early.last, "turn on", early.last))
    lane.take(Foreseen(lane.now, early.turn + 1, lane.now, "turn on", lane.now))
    assert endpoints(lane.windows(0.0, SILENCE)) == []
    assert lane.heart.statistics().foreseen == 0


def test_nobody_asks_where_a_token_was_heard_or_none_counts() -> None:
    heard = Lane(machine())
    heard.wake()
    heard.windows(1.0, 20)
    heard.words("turn on", token=heard.now)
    heard.windows(0.0, 2)
    assert heard.foresights == []
    for rules in ({"end_token": False}, {"foresight": False}):
        lane = Lane(machine(changed=rules))
        spoken(lane)
        assert lane.foresights == []


def test_a_long_turn_is_not_heard_whole_and_not_for_ever(lane: Lane) -> None:
    spoken(lane, seconds=8)
    assert lane.foresights[0].last - lane.foresights[0].first == to_samples(FORESIGHT_MS)
    for _ in range(ATTEMPTS_LIMIT):
        lane.windows(1.0, 8)
        lane.windows(0.0, 3)
    assert len(lane.foresights) == ATTEMPTS_LIMIT


def test_it_needs_no_second_pass() -> None:
    lane = Lane(machine(changed={"second_pass": False}))
    spoken(lane)
    foreseen(lane)
    assert [endpoint.rule for endpoint in endpoints(lane.windows(0.0, SILENCE))] == ["foreseen_token"]


def test_it_changes_live() -> None:
    heart = machine()
    heart.adopt(replace(turn_rules(), foresight=False))
    lane = Lane(heart)
    spoken(lane)
    assert lane.foresights == []
