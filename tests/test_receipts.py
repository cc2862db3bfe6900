"""A turn's receipt: each thing beside its sample and its clock, five latencies that are never negative, and no second story of a turn."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from voiced.events import (
    CloseReason,
    Endpoint,
    EndSign,
    Event,
    Final,
    LikelyEnd,
    NearMiss,
    Partial,
    Resumed,
    SpeechStarted,
    TextSource,
    TurnClosed,
    Wake,
)
from voiced.plain import encode
from voiced.receipts import Receipt, Rewriting, Stamps, Step, brief, from_lines, receipt, to_plain
from voiced.units import RATE

SECOND_NS = 1_000_000_000
FIRST = 2 * RATE
BORN_NS = 100 * SECOND_NS
"""When the turn's first sample was heard."""

SCORES = {"stage1": 0.97, "stage1_threshold": 0.9}


def at(seconds: float) -> int:
    """A position so long after the turn's first."""
    return FIRST + round(seconds * RATE)


def stamps(seconds: float, waited_ms: float = 0, computed_ms: float = 0, told_ms: float = 0, **more: int) -> Stamps:
    """Of what sound led to that was heard so long after the turn's first."""
    arrived = BORN_NS + round(seconds * SECOND_NS)
    taken = arrived + round(waited_ms * 1e6)
    told = taken + round(computed_ms * 1e6)
    published = told + round(told_ms * 1e6)
    return Stamps(arrived, taken, told, published, 1_700_000_000_000_000, **more)


TURN: tuple[tuple[Event, Stamps], ...] = (
    (Wake(at(0.24), 8, "jarvis", FIRST, 0.97, "sustained", SCORES), stamps(0.24, 3, 50, 1)),
    (SpeechStarted(at(0.5), 8, at(0.3)), stamps(0.5, 0, 1)),
    (Partial(at(0.9), 8, "what time", 0, at(0.8), at(0.7)), stamps(0.9, 5, 20, 2)),
    (LikelyEnd(at(1.1), 8, EndSign.SILENCE, 1), stamps(1.1)),
    (Resumed(at(1.2), 8), stamps(1.2)),
    (Partial(at(1.6), 8, "what time is it", 9, at(1.5), at(1.4)), stamps(1.6, 0, 20)),
    (LikelyEnd(at(1.7), 8, EndSign.END_TOKEN, 2), stamps(1.7)),
    (
        Endpoint(at(1.8), 8, CloseReason.END_TOKEN, at(1.5), "what time is it", "end_token", {"end_token_ms": 20.0}, at(1.48)),
        stamps(1.8, 0, 10, lost_samples=320, lost_events=1),
    ),
    (
        Final(
            at(1.8), 8, "What time is it?", TextSource.SECOND_PASS, "what time is it", "",
            {"endpoint_ms": 310.0, "second_pass_ms": 45.0, "verify_ms": 40.0}, "What time is it?", attempt=2,
        ),
        stamps(1.85, lost_samples=320, lost_events=1),
    ),
    (TurnClosed(at(1.8), 8, CloseReason.END_TOKEN, FIRST, at(1.8)), stamps(1.85, lost_samples=320, lost_events=1)),
)  # fmt: skip

REWRITINGS = (
    Rewriting(8, 1, Step.QUEUED, BORN_NS + 1_101_000_000),
    Rewriting(8, 1, Step.STARTED, BORN_NS + 1_102_000_000),
    Rewriting(8, 1, Step.DROPPED, BORN_NS + 1_200_000_000),
    Rewriting(8, 1, Step.DONE, BORN_NS + 1_210_000_000, 40.0),
    Rewriting(8, 2, Step.QUEUED, BORN_NS + 1_700_000_000),
    Rewriting(8, 2, Step.STARTED, BORN_NS + 1_720_000_000),
    Rewriting(8, 2, Step.DONE, BORN_NS + 1_765_000_000, 45.0),
)


def latencies(found: Receipt) -> dict[str, tuple[float, ...]]:
    return {name: tuple(round(value, 3) for value in values) for name, values in found.latencies.items()}


def test_the_five_latencies_of_a_turn_are_kept_apart() -> None:
    found = receipt("desk", TURN, REWRITINGS)
    assert found.clocked
    assert latencies(found) == {
        "partial.algorithmic_ms": (200, 200),
        "partial.computational_ms": (27, 20),
        "partial.emission_delay_ms": (0,),
        "partial.time_to_first_token_ms": (627,),
        "final.algorithmic_ms": (300,),
        "final.computational_ms": (50,),
        "final.finalization_ms": (350,),
    }
    assert (found.queue_ms, found.lost_samples, found.lost_events) == (5, 320, 1)
    assert (found.rule, found.margins, found.length_ms, found.speech_end) == ("end_token", {"end_token_ms": 20}, 1500, at(1.5))
    assert (found.text, found.first_pass, found.source) == ("What time is it?", "what time is it", "second pass")


def test_each_thing_stands_at_its_sample_and_its_clock() -> None:
    marks = receipt("desk", TURN, REWRITINGS).marks
    assert [mark.what for mark in marks] == [
        "phrase end", "stage 1", "stage 2", "hand-over", "wake", "speech", "partial", "likely end", "resumed", "partial", "likely end",
        "last speech", "end token", "endpoint", "final", "closed",
    ]  # fmt: skip
    by_name = {mark.what: mark for mark in marks}
    wake = [by_name[what].clock_ms for what in ("stage 1", "stage 2", "hand-over", "wake")]
    assert wake == pytest.approx([240, 283, 293, 294])
    assert by_name["stage 1"].note == "0.97 of 0.90"
    assert by_name["end token"].sample == at(1.48)
    assert (by_name["partial"].word_end, by_name["partial"].text) == (at(1.4), "what time is it")
    assert by_name["endpoint"].note == "end token (rule end_token)"


def test_every_attempt_of_the_second_pass_says_what_became_of_it() -> None:
    first, second = receipt("desk", TURN, REWRITINGS).attempts
    assert first.wasted and first.compute_ms == 40 and "the speaker went on" in first.outcome
    assert (second.outcome, second.wasted, second.queue_ms, second.compute_ms) == ("used", False, 20, 45)
    assert (second.queued_ms, second.started_ms, second.done_ms) == pytest.approx((1700, 1720, 1765))
    waiting = receipt("desk", TURN, [Rewriting(8, 1, Step.QUEUED, 1), Rewriting(8, 1, Step.DROPPED, 2)]).attempts[0]
    assert not waiting.wasted and waiting.outcome == "taken back: the speaker went on"


def test_what_was_computed_for_nothing_says_whether_the_speaker_went_on() -> None:
    """Or the turn ended without a text, or with a word that only the recognizer's last answer had."""
    closed = [pair for pair in TURN if not isinstance(pair[0], Endpoint | Final)]
    outcomes = [one.outcome for one in receipt("desk", closed, REWRITINGS).attempts]
    assert outcomes == ["computed for nothing: the speaker went on", "computed for nothing: the turn has no final"]
    waited = [step for step in REWRITINGS if step.step is Step.QUEUED]
    assert receipt("desk", closed, waited).attempts[1].outcome == "taken back: the turn has no final"
    told = [(replace(event, attempt=3) if isinstance(event, Final) else event, stamp) for event, stamp in TURN]
    _, second, third = receipt("desk", told, REWRITINGS).attempts
    assert (second.outcome, third.outcome, third.sample) == ("computed for nothing: its end has more", "used", at(1.8))


def test_a_text_that_was_not_believed_says_why() -> None:
    kept = Final(
        at(1.8), 8, "what time is it", TextSource.FIRST_PASS, "what time is it", "too long for its sound", attempt=2, refused="long"
    )
    told = [(kept if isinstance(event, Final) else event, stamp) for event, stamp in TURN]
    found = receipt("desk", told, REWRITINGS)
    assert found.attempts[1].outcome == "not used: too long for its sound" and found.refused == "long"


def test_without_a_clock_the_final_is_reckoned() -> None:
    """Its second pass began at its sign, 1.7 s: 45 ms later it had answered, before the endpoint; 250 ms would be waited for."""
    found = receipt("", [(event, Stamps()) for event, _ in TURN])
    assert not found.clocked
    assert found.latencies["final.finalization_ms"] == (300,) and found.latencies["final.computational_ms"] == (0,)
    assert "partial.computational_ms" not in found.latencies
    assert found.latencies["partial.time_to_first_token_ms"] == (600,)
    assert [(attempt.sample, attempt.outcome) for attempt in found.attempts] == [
        (at(1.1), "taken back: the speaker went on"), (at(1.7), "used"),
    ]  # fmt: skip
    slow = Final(at(1.8), 8, "a", TextSource.SECOND_PASS, "a", "", {"second_pass_ms": 250.0}, "a", attempt=2)
    told = [(slow if isinstance(event, Final) else event, Stamps()) for event, _ in TURN]
    assert receipt("", told).latencies["final.finalization_ms"][0] == pytest.approx(450)


def test_a_turn_that_is_not_over_has_no_receipt() -> None:
    for told in ((), TURN[:-1]):
        with pytest.raises(ValueError, match="a turn that is over"):
            receipt("desk", told)


def test_a_turn_without_words_has_a_receipt_all_the_same() -> None:
    wake = Wake(FIRST, 8, "", FIRST, 1.0, "asked for by a client")
    found = receipt("desk", [(wake, stamps(0)), (TurnClosed(at(3), 8, CloseReason.NO_SPEECH, FIRST, at(3)), stamps(3))])
    assert (found.reason, found.text, found.latencies, found.attempts) == ("no speech", "", {}, ())
    assert [mark.what for mark in found.marks] == ["opened", "closed"]


# ── saved events ───────────────────────────────────────────────────────────────────────────────────────────────────────


def lines(**beside: Any) -> list[dict[str, Any]]:
    return [json.loads(json.dumps({**beside, **encode(event)})) for event, _ in TURN]


def test_saved_events_give_the_receipt_that_the_daemon_would() -> None:
    """By what the lane measured, where a client saved when each event was told."""
    (reckoned,) = from_lines(lines(file="a.wav"))
    assert (reckoned.lane, reckoned.clocked, reckoned.text) == ("a.wav", False, "What time is it?")
    saved = [{**plain, "monotonic_us": stamp.published_ns // 1000} for plain, (_, stamp) in zip(lines(lane="desk"), TURN, strict=True)]
    (measured,) = from_lines(saved)
    assert measured.clocked and latencies(measured) == latencies(receipt("desk", TURN))


def test_turns_of_two_files_are_not_mixed_and_what_is_no_turn_is_passed_over() -> None:
    mixed = [line for pair in zip(lines(file="a"), lines(file="b"), strict=True) for line in pair]
    found = from_lines([{**encode(NearMiss(1, "jarvis", 0.8, 0.9)), "file": "a"}, *mixed])
    assert [one.lane for one in found] == ["a", "b"]
    assert to_plain(found[0]) | {"lane": "b"} == to_plain(found[1])
    assert from_lines(lines()[:-1]) == []
    with pytest.raises(ValueError, match="no such event"):
        from_lines([{"event": "Sunrise", "sample": 1}])


def test_plain_forms_are_json_and_leave_out_what_is_not_known() -> None:
    plain = to_plain(receipt("", [(event, Stamps()) for event, _ in TURN]))
    assert json.loads(json.dumps(plain)) == plain
    assert "queue_ms" not in plain and "clock_ms" not in plain["marks"][1]
    row = brief(receipt("desk", TURN, REWRITINGS))
    assert row["latencies"]["partial.computational_ms"] == pytest.approx(27) and row["attempts"] == 2 and "marks" not in row


# ── laws ───────────────────────────────────────────────────────────────────────────────────────────────────────────────


@st.composite
def told_turns(draw: st.DrawFn) -> list[tuple[Event, Stamps]]:
    """Events in the order of their samples, each told after its sound came, and after what was told before it."""
    positions = [FIRST + offset for offset in sorted(draw(st.lists(st.integers(0, 30 * RATE), min_size=5, max_size=12)))]
    speech = draw(st.integers(FIRST, positions[1]))
    end = draw(st.integers(FIRST, positions[-2]))
    events: list[Event] = [Wake(positions[0], 1, "jarvis", FIRST, 1.0, ""), SpeechStarted(positions[1], 1, speech)]
    for number, sample in enumerate(positions[2:-2]):
        heard = draw(st.integers(FIRST, sample))
        events.append(Partial(sample, 1, "word " * number, 0, heard, draw(st.none() | st.integers(FIRST, heard))))
    token = draw(st.none() | st.integers(FIRST, positions[-2]))
    measured = {"second_pass_ms": draw(st.floats(0, 3000))}
    events += [
        Endpoint(positions[-2], 1, CloseReason.SILENCE, end, draw(st.sampled_from(("", "word ", "word word "))), end_token=token),
        Final(positions[-1], 1, "words", TextSource.SECOND_PASS, "words", "", measured, attempt=draw(st.integers(0, 2))),
        TurnClosed(positions[-1], 1, CloseReason.SILENCE, FIRST, positions[-1]),
    ]
    clocked, last, told = draw(st.booleans()), 0, []
    for event in events:
        arrived = BORN_NS + round((event.sample - FIRST) / RATE * SECOND_NS) + draw(st.integers(0, 40_000_000))
        taken, done, published = (draw(st.integers(0, SECOND_NS)) for _ in range(3))
        last = max(last, arrived + taken + done + published)
        told.append((event, Stamps(arrived, arrived + taken, arrived + taken + done, last) if clocked else Stamps()))
    return told


@given(told_turns())
def test_no_latency_is_negative_and_the_final_is_the_sum_of_its_parts(told: list[tuple[Event, Stamps]]) -> None:
    found = receipt("desk", told)
    assert found.clocked == any(stamp.arrived_ns for _, stamp in told)
    assert all(value >= 0 for values in found.latencies.values() for value in values)
    whole, *parts = (found.latencies[f"final.{name}_ms"][0] for name in ("finalization", "algorithmic", "computational"))
    assert whole == pytest.approx(sum(parts))


@given(told_turns())
def test_clocks_never_run_backwards_nor_before_their_sound(told: list[tuple[Event, Stamps]]) -> None:
    found = receipt("desk", told)
    published = [mark.clock_ms for mark in found.marks if mark.what in ("wake", "speech", "partial", "endpoint", "final", "closed")]
    clocks = [clock for clock in published if clock is not None]
    assert len(clocks) == (len(published) if found.clocked else 0)
    assert all(earlier <= later for earlier, later in pairwise(clocks))
    for mark in found.marks:
        assert mark.clock_ms is None or mark.clock_ms >= (mark.sample - found.first) * 1000 / RATE - 1e-3
    assert json.loads(json.dumps(to_plain(found))) == to_plain(found)
