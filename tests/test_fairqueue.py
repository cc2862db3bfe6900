"""Who is next for the second pass: one waits a lane, the newest, and lanes take turns."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from voiced.fairqueue import FairQueue, Request

LANES = "abc"


def request(lane: str, turn: int = 1, attempt: int = 1) -> Request:
    return Request(lane, turn, attempt, 0, -1)


def test_a_newer_attempt_takes_the_waiting_ones_place() -> None:
    queue = FairQueue()
    assert queue.put(request("a")) is None
    assert queue.put(request("a", attempt=2)) == request("a")
    assert len(queue) == 1
    assert queue.take() == request("a", attempt=2)
    assert queue.take() is None


def test_a_lane_that_asks_often_keeps_nobody_waiting() -> None:
    queue = FairQueue()
    served = []
    for turn in range(1, 7):
        queue.put(request("a", turn))
        if turn == 2:
            queue.put(request("b"))
        if turn == 3:
            queue.put(request("c"))
        taken = queue.take()
        assert taken
        served.append(taken.lane)
    assert served == ["a", "b", "c", "a", "a", "a"]


def test_only_the_very_request_is_dropped() -> None:
    queue = FairQueue()
    queue.put(request("a", 5, 2))
    assert queue.drop("a", 5, 1) is None
    assert queue.drop("a", 4, 2) is None
    assert queue.drop("b", 5, 2) is None
    assert queue.drop("a", 5, 2) == request("a", 5, 2)
    assert len(queue) == 0


def test_a_lane_that_is_gone_waits_no_more() -> None:
    queue = FairQueue()
    for lane in LANES:
        queue.put(request(lane))
    assert queue.forget("b") == [request("b")]
    assert {one.lane for one in queue.forget(None)} == {"a", "c"}
    assert queue.take() is None


@given(st.lists(st.one_of(st.sampled_from(LANES), st.none()), max_size=60))
def test_nobody_waits_longer_than_a_round(steps: list[str | None]) -> None:
    """A lane that asks is served after at most as many others as there are; at most one waits a lane."""
    queue = FairQueue()
    waits: dict[str, int] = {}
    for number, lane in enumerate(steps):
        if lane:
            queue.put(request(lane, number))
            waits.setdefault(lane, 0)
        else:
            taken = queue.take()
            assert (taken is None) == (not waits)
            if taken:
                del waits[taken.lane]
            waits = {name: passed + 1 for name, passed in waits.items()}
        assert len(queue) == len(waits) <= len(LANES)
        assert all(passed < len(LANES) for passed in waits.values())
