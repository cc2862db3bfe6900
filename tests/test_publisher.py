"""What is kept of decisions, and when news is told."""

from __future__ import annotations

import pytest
from voiced.desk import HealthChanged, LaneChanged, News, Published, Snapshot
from voiced.events import CloseReason, Event, NearMiss, Partial, TurnClosed, Wake, WakeRefused
from voiced.hearing import Hearing
from voiced.lanestate import LaneState
from voiced.ledger import Ledger
from voiced.publisher import DECISIONS, Publisher
from voiced.receipts import Stamps
from voiced.settings import LaneSettings
from voiced.statistics import Statistics

SCORES = {"stage1": 0.95, "stage1_threshold": 0.9}


@pytest.fixture
def lanes() -> dict[str, LaneState]:
    return {name: LaneState(LaneSettings(name), Ledger(1, 8), Hearing(3.0), ready=True, source_health="ok") for name in ("desk", "door")}


@pytest.fixture
def publisher(lanes: dict[str, LaneState]) -> Publisher:
    return Publisher(lanes, Statistics(), lambda: Snapshot("1", *publisher_health(lanes), ()))


def publisher_health(lanes: dict[str, LaneState]) -> tuple[str, bool]:
    return min(lane.health for lane in lanes.values()), all(lane.muted for lane in lanes.values())


def test_decisions_are_kept_in_order_and_nothing_else_is(publisher: Publisher, lanes: dict[str, LaneState]) -> None:
    events: tuple[Event, ...] = (
        NearMiss(1, "jarvis", 0.8, 0.9),
        WakeRefused(2, "jarvis", 0.4, "too short", SCORES),
        Wake(3, 1, "jarvis", 3, 0.9, "heard", SCORES),
        Partial(4, 1, "spoken words"),
    )
    for event, lane in zip(events, ("desk", "door", "desk", "desk"), strict=True):
        publisher.publish(lanes[lane], event, Stamps(), text=False, receipts=5)
    assert [one.event for one in publisher.decisions(None, 0)] == list(events[:3])
    assert [one.event for one in publisher.decisions("desk", 0)] == [events[0], events[2]]
    assert [one.event for one in publisher.decisions(None, 2)] == list(events[1:3])
    with pytest.raises(KeyError):
        publisher.decisions("attic", 0)


def test_decisions_of_a_lane_are_bounded_and_the_newest_stay(publisher: Publisher, lanes: dict[str, LaneState]) -> None:
    publisher.publish(lanes["door"], NearMiss(0, "jarvis", 0.8, 0.9), Stamps(), text=False, receipts=5)
    for sample in range(DECISIONS + 10):
        publisher.publish(lanes["desk"], NearMiss(sample, "jarvis", 0.8, 0.9), Stamps(), text=False, receipts=5)
    kept = [one.event.sample for one in publisher.decisions("desk", 0)]
    assert kept == list(range(10, DECISIONS + 10))
    assert len(publisher.decisions("door", 0)) == 1


def test_news_is_told_once_where_something_changed(publisher: Publisher, lanes: dict[str, LaneState]) -> None:
    heard: list[News] = []
    publisher.listen(heard.append)
    publisher.tell_lane(lanes["desk"])
    publisher.tell_lane(lanes["desk"])
    assert [type(item) for item in heard] == [LaneChanged, HealthChanged]
    publisher.publish(lanes["desk"], Wake(3, 1, "jarvis", 3, 0.9, "heard"), Stamps(), text=False, receipts=5)
    assert [type(item) for item in heard[2:]] == [Published, LaneChanged]
    lanes["door"].source_health = "no_device"
    publisher.tell_lane(lanes["door"])
    publisher.tell()
    assert [type(item) for item in heard[4:]] == [LaneChanged, HealthChanged]


def test_who_is_told_of_a_turns_end_has_its_receipt_where_none_is_kept(publisher: Publisher, lanes: dict[str, LaneState]) -> None:
    """The results of a folder are made of it (results.py)."""
    asked: list[int] = []

    def listener(news: News) -> None:
        if isinstance(news, Published) and isinstance(news.event, TurnClosed):
            asked.append(publisher.turns.get(news.event.turn).turn)

    publisher.listen(listener)
    for turn in (1, 9):
        publisher.publish(lanes["desk"], Wake(3, turn, "jarvis", 3, 0.9, "heard"), Stamps(), text=False, receipts=0)
        publisher.publish(lanes["desk"], TurnClosed(9, turn, CloseReason.SILENCE, 3, 9), Stamps(), text=False, receipts=0)
    assert asked == [1, 9]
    assert publisher.turns.newest(None, 0) == []
