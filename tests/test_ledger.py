"""What is owed for a lane that died, whenever it dies: every turn that was opened gets its final and its end, once and in order."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st
from voiced.events import CloseReason, Endpoint, Event, Final, Partial, SpeechStarted, TextSource, TurnClosed, Wake, WakeRefused
from voiced.ledger import Ledger, summary

NOTE = "the lane was restarted"
STEP = 8


def a_turn(turn: int, at: int, texts: Sequence[str], rewritten: str | None, reason: CloseReason) -> list[Event]:
    """As a lane publishes it; without text it has no endpoint and no final."""
    events: list[Event] = [Wake(at, turn, "jarvis", at - 100, 1.0, ""), SpeechStarted(at + 1, turn)]
    events += [Partial(at + 2 + number, turn, text) for number, text in enumerate(texts)]
    end = at + 10
    if texts:
        source = TextSource.FIRST_PASS if rewritten is None else TextSource.SECOND_PASS
        events.append(Endpoint(end, turn, reason, end - 5, texts[-1]))
        events.append(Final(end, turn, texts[-1] if rewritten is None else rewritten, source, texts[-1]))
    return [*events, TurnClosed(end, turn, reason, at - 100, end)]


@st.composite
def lives(draw: st.DrawFn) -> list[Event]:
    """What a lane published until it died: turns, of which the last final may come while the next turn is open."""
    events: list[Event] = []
    held: list[Event] = []
    for number in range(draw(st.integers(1, 4))):
        texts = draw(st.lists(st.text(min_size=1, max_size=5), max_size=3))
        turn = a_turn(
            3 + STEP * number, 1000 * (number + 1), texts, draw(st.sampled_from((None, "Rewritten."))), draw(st.sampled_from(CloseReason))
        )
        late = 2 * (bool(texts) and draw(st.sampled_from((True, False))))  # the second pass goes on when the next phrase wakes
        now = turn[: len(turn) - late]
        events += [now[0], *held, *now[1:]]
        held = turn[len(turn) - late :]
    events += [WakeRefused(9000, "jarvis", 0.5, ""), *held]
    return events[: draw(st.integers(0, len(events)))]


@given(lives())
def test_whenever_a_lane_dies_each_turn_has_one_final_and_one_end(life: list[Event]) -> None:
    ledger = Ledger(3, STEP)
    for event in life:
        ledger.follow(event)
    owed = ledger.last_events(CloseReason.RESTARTED, NOTE)
    for event in owed:
        ledger.follow(event)
    whole = life + owed
    opened = [event.turn for event in whole if isinstance(event, Wake)]
    assert [event.turn for event in whole if isinstance(event, TurnClosed)] == opened
    assert ledger.turn == 0 and ledger.last_events(CloseReason.RESTARTED, NOTE) == []
    assert ledger.next_turn == 3 + STEP * len(opened)
    for turn in opened:
        mine = [event for event in whole if getattr(event, "turn", 0) == turn]
        seen = [event.text for event in mine if isinstance(event, Partial)]
        finals = [event for event in mine if isinstance(event, Final)]
        ends = [event for event in mine if isinstance(event, Endpoint)]
        assert len(finals) == len(ends) == (1 if seen else 0)
        assert isinstance(mine[-1], TurnClosed)
        assert mine[-1].first == 900 + 1000 * opened.index(turn)
        if finals and finals[0] in owed:
            assert (finals[0].text, finals[0].source, finals[0].note) == (seen[-1], TextSource.FIRST_PASS, NOTE)
        if ends and ends[0] in life:
            assert mine[-1].reason is ends[0].reason, "why it closed was known before the lane died"
        elif mine[-1] in owed:
            assert mine[-1].reason is CloseReason.RESTARTED
    assert all(event.sample >= max((event.sample for event in life), default=0) for event in owed)


def test_a_turn_of_which_the_wake_was_lost_is_a_turn() -> None:
    ledger = Ledger(1, 1)
    ledger.follow(Endpoint(10, 4, CloseReason.SILENCE, 8, "lights on"))
    final, closed = ledger.last_events(CloseReason.RESTARTED, NOTE)
    assert isinstance(final, Final) and (final.turn, final.text) == (4, "lights on")
    assert isinstance(closed, TurnClosed) and (closed.turn, closed.reason) == (4, CloseReason.SILENCE)


def test_the_log_has_the_words_only_where_they_are_asked_for() -> None:
    closed = TurnClosed(100, 7, CloseReason.END_TOKEN, 0, 100)
    final = Final(100, 7, "Lights on.", TextSource.SECOND_PASS, "lights on", measured={"endpoint_ms": 351.6, "second_pass_ms": 58.2})
    assert summary(closed, final, text=False) == "turn 7: end token, second pass, endpoint_ms 352, second_pass_ms 58"
    assert summary(closed, final, text=True) == "turn 7: end token, second pass, 'Lights on.', endpoint_ms 352, second_pass_ms 58"
    kept = Final(100, 7, "lights on", TextSource.FIRST_PASS, "lights on", "the second pass was late")
    assert summary(closed, kept, text=False) == "turn 7: end token, first pass (the second pass was late)"
    assert summary(TurnClosed(100, 7, CloseReason.NO_SPEECH, 0, 100), None, text=True) == "turn 7: no speech"
