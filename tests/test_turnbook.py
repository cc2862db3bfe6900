"""What is kept of turns: the newest, bounded, and percentiles that NumPy agrees with."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from voiced.events import CloseReason, Endpoint, Event, Final, NearMiss, Partial, TextSource, TurnClosed, Wake
from voiced.receipts import Rewriting, Stamps, Step
from voiced.statistics import KEPT, PERCENTILES
from voiced.turnbook import OPEN_LIMIT, TurnBook, summary
from voiced.units import to_samples


def turn(number: int, length_ms: int = 1000, wait_ms: float = 300) -> list[Event]:
    """Whose speech is so long, and whose endpoint comes so long after it."""
    speech_end = to_samples(length_ms)
    end = speech_end + to_samples(wait_ms)
    return [
        Wake(0, number, "jarvis", 0, 1.0, ""),
        Partial(speech_end, number, "hello", 0, speech_end, speech_end - 160),
        Endpoint(end, number, CloseReason.SILENCE, speech_end, "hello", "silence"),
        Final(end, number, "Hello.", TextSource.SECOND_PASS, "hello", attempt=1),
        TurnClosed(end, number, CloseReason.SILENCE, 0, end),
    ]


def fill(book: TurnBook, *events: Event, lane: str = "desk", keep: int = 3) -> None:
    for event in events:
        book.follow(lane, event, Stamps(), keep)


def finalization(book: TurnBook, lane: str | None = None) -> dict[str, dict[str, Any]]:
    return {row["length"]: row for row in book.latencies(lane) if row["latency"] == "final.finalization_ms"}


def test_the_newest_are_kept_and_older_ones_are_not_known() -> None:
    book = TurnBook()
    for number in range(1, 6):
        fill(book, *turn(number), lane="desk" if number % 2 else "door")
    assert [one.turn for one in book.newest(None, 0)] == [3, 4, 5]
    assert [one.turn for one in book.newest(None, 2)] == [4, 5]
    assert [one.turn for one in book.newest("desk", 0)] == [3, 5]
    assert book.get(4).text == "Hello."
    for unknown in (1, 6):
        with pytest.raises(KeyError):
            book.get(unknown)


def test_none_is_kept_where_none_shall_be_and_its_times_count_all_the_same() -> None:
    """CASES B9."""
    book = TurnBook()
    fill(book, *turn(1), keep=0)
    assert book.newest(None, 0) == []
    assert finalization(book)["all"]["count"] == 1
    fill(book, *turn(2), keep=1)
    fill(book, *turn(3), keep=2)
    book.keep(1)
    assert [one.turn for one in book.newest(None, 0)] == [3]
    book.keep(0)
    assert book.newest(None, 0) == []


def test_a_turn_that_is_open_is_not_given_and_what_is_no_turn_is_not_followed() -> None:
    book = TurnBook()
    fill(book, NearMiss(1, "jarvis", 0.8, 0.9), *turn(1)[:-1])
    with pytest.raises(KeyError):
        book.get(1)
    fill(book, turn(1)[-1])
    assert book.get(1).reason == "silence"


def test_turns_whose_end_was_lost_do_not_pile_up() -> None:
    book = TurnBook()
    for number in range(OPEN_LIMIT + 20):
        fill(book, turn(number)[0])
    fill(book, *turn(5)[1:])  # one of those that went: what is left of it is a turn all the same
    assert "wake" not in [mark.what for mark in book.get(5).marks]
    fill(book, turn(OPEN_LIMIT + 19)[-1])
    assert book.get(OPEN_LIMIT + 19).phrase == "jarvis"


def test_a_second_pass_that_answers_late_is_part_of_the_receipt() -> None:
    book = TurnBook()
    fill(book, turn(1)[0])
    book.rewriting(Rewriting(1, 1, Step.STARTED, 1))
    fill(book, *turn(1)[1:])
    book.rewriting(Rewriting(1, 1, Step.DONE, 2, 70.0))
    book.rewriting(Rewriting(99, 1, Step.DONE, 2, 70.0))  # of a turn that nobody keeps
    (attempt,) = book.get(1).attempts
    assert (attempt.compute_ms, attempt.outcome) == (70, "used")


def test_percentiles_are_told_by_length_of_turn() -> None:
    book = TurnBook()
    for number, length_ms in enumerate((500, 2000, 2001, 5000, 9000, 10_001)):
        fill(book, *turn(number, length_ms, 100 * number), lane="door" if number == 5 else "desk")
    rows = finalization(book)
    assert list(rows) == ["to 2 s", "to 5 s", "to 10 s", "longer", "all"]
    assert [row["count"] for row in rows.values()] == [2, 2, 1, 1, 6]
    assert rows["to 5 s"]["p50"] == 200 and rows["to 5 s"]["p99"] == 300
    assert finalization(book, "door")["all"]["count"] == 1
    assert finalization(book, "attic") == {}
    names = [row["latency"] for row in book.latencies(None)]
    assert names == sorted(names, key=lambda name: (name.startswith("final"), name)), "partials before finals"


def test_values_are_bounded() -> None:
    book = TurnBook()
    for number in range(KEPT + 5):
        fill(book, *turn(number, wait_ms=float(number)), keep=0)
    row = finalization(book)["all"]
    assert row["count"] == KEPT and row["p50"] == pytest.approx(5 + KEPT / 2 - 1)


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=300))
def test_percentiles_agree_with_numpy(values: list[float]) -> None:
    """Nearest rank: NumPy's inverted_cdf."""
    found = summary(values)
    assert found["count"] == len(values)
    assert [found[f"p{percent}"] for percent in PERCENTILES] == list(np.percentile(values, PERCENTILES, method="inverted_cdf"))
