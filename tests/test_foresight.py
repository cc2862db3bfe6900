"""Foresight: the recognizer is asked what silence would bring, so that nobody waits for it to hear the silence."""

from __future__ import annotations

from dataclasses import replace

import pytest
from turns import HOP, Lane, machine, turn_rules
from voiced.events import CloseReason, Endpoint, Event, Foreseen, Partial, Stop, Words
from voiced.turn import ATTEMPTS_LIMIT, FORESIGHT_MS, WORD_LATE_MS
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


def foreseen(
    lane: Lane, text: str = "turn on the lights", token: bool = True, log_probability: float = -1.0, last_word: int | None = None
) -> list[Event]:
    order = lane.foresights[-1]
    at = order.last + to_samples(150) if token else None
    words = Words(order.last, text, at, log_probability if token else 0.0, last_word)
    return lane.take(Foreseen(lane.now, order.turn, order.first, order.last, words))


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
    foreseen(lane)
    assert endpoints(lane.windows(0.0, SILENCE - 3)) == []
    (endpoint,) = endpoints(lane.windows(0.0, 1))
    assert (endpoint.reason, endpoint.rule) == (CloseReason.END_TOKEN, "foreseen_token")
    assert endpoint.sample - speech_end == SILENCE * HOP
    assert endpoint.end_token is None  # nobody has heard it
    assert endpoint.margins["foreseen"] == 2.0
    assert lane.heart.statistics().foreseen == 1


def test_its_words_are_told_long_before_they_are_heard_out(lane: Lane) -> None:
    """As a partial, which the next may take back as any other."""
    spoken(lane)
    (partial,) = foreseen(lane, token=False)
    assert isinstance(partial, Partial)
    assert (partial.text, partial.stable) == ("turn on the lights", len("turn on"))
    assert foreseen(lane, token=False) == []  # they are known
    lane.words("turn on the light")
    assert lane.windows(0.0, 1) == []


def test_what_was_foreseen_of_the_whole_turn_is_its_first_pass(lane: Lane) -> None:
    """Nothing is flushed: the recognizer has been asked already, and what it would say has not changed."""
    spoken(lane)
    foreseen(lane)
    (endpoint,) = endpoints(lane.windows(0.0, SILENCE))
    assert (endpoint.rule, endpoint.text) == ("foreseen_token", "turn on the lights")
    assert lane.first_passes == {}


@pytest.mark.parametrize("missing", ["the beginning of a long turn", "a rule that knows its words"])
def test_whatever_ends_a_turn_otherwise_wants_the_words_anew(lane: Lane, missing: str) -> None:
    spoken(lane, seconds=8 if missing.startswith("the beginning") else 1)
    foreseen(lane, log_probability=-1.0 if missing.startswith("the beginning") else -9.0)
    (endpoint,) = endpoints(lane.windows(0.0, 13))
    assert endpoint.rule == ("foreseen_token" if missing.startswith("the beginning") else "silence_complete")
    assert len(lane.first_passes) == 1


@pytest.mark.parametrize(
    ("then", "known"), [((), True), (((1.0, 1),), False), (((0.0, 24),), False)], ids=["at once", "in a burst", "long after it"]
)
def test_a_client_that_stops_in_the_silence_does_not_wait_for_words_that_are_known(
    then: tuple[tuple[float, int], ...], known: bool
) -> None:
    lane = Lane(machine(silence_complete_ms=2000.0, silence_ms=2000.0, silence_open_ms=2000.0))
    spoken(lane)
    foreseen(lane, token=False)
    for probability, windows in then:
        lane.windows(probability, windows)
    (endpoint,) = endpoints(lane.take(Stop(lane.now)))
    assert endpoint.reason is CloseReason.STOPPED
    assert (lane.first_passes == {}) is known


def test_a_stop_flushes_where_nothing_is_known_yet(lane: Lane) -> None:
    """The only word may still be to come."""
    spoken(lane, "")
    foreseen(lane, "", token=False)
    lane.last_word = "stop"
    (endpoint,) = endpoints(lane.take(Stop(lane.now)))
    assert endpoint.text == "stop"


def test_a_word_that_was_heard_since_is_not_lost() -> None:
    """Near enough to the likely end to be of its sound, which silence had hidden."""
    lane = Lane(machine(foreseen_silence_ms=500.0, silence_complete_ms=600.0))
    spoken(lane)
    foreseen(lane)
    lane.windows(0.0, 10)
    lane.words("turn on the lights please", at=lane.foresights[-1].last)
    (endpoint,) = endpoints(lane.windows(0.0, 6))
    assert (endpoint.rule, endpoint.text) == ("foreseen_token", "turn on the lights please")


def test_a_word_that_is_said_late_is_no_speech_that_goes_on() -> None:
    """The recognizer says it in the silence that it was handed: nothing is asked or rewritten twice."""
    lane = Lane(machine(), signs=True)
    spoken(lane)
    told = foreseen(lane, last_word=lane.foresights[-1].last + to_samples(WORD_LATE_MS) + 1)
    assert [(event.text, event.last_word) for event in told if isinstance(event, Partial)] == [("turn on the lights", lane.now)]
    assert len(told) == len(lane.foresights) == len(lane.asked) == 1
    (endpoint,) = endpoints(lane.windows(0.0, SILENCE))
    assert endpoint.rule == "foreseen_token"
    assert (len(lane.asked), lane.dropped) == (1, set())


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
    words = Words(lane.now, "turn on", early.last)
    lane.take(Foreseen(lane.now, early.turn, early.first, early.last, words))
    lane.take(Foreseen(lane.now, early.turn + 1, early.first, lane.now, words))
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
