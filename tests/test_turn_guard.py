"""The guard at a turn's end: whose text is the final, and when there is none."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from turns import HOP, Lane, machine
from voiced.events import CloseReason, Endpoint, Event, Final, FirstPass, Order, Rewrite, Rewritten, Stop, TextSource, TurnClosed
from voiced.guard import CRUMB_LETTERS, CRUMB_SPEECH_S
from voiced.turn import TurnMachine
from voiced.units import HARD_CAP_MS, RATE, to_samples

SPOKEN, UNSPOKEN = 60, 0
"""VAD windows: 1.9 s of speech, and none."""


def turn(
    first_pass: str,
    answer: str,
    *,
    speech: int = SPOKEN,
    confidence: float | None = 0.5,
    log_probability: float | None = None,
    failure: str = "",
    second_pass: bool = True,
    guard: bool = True,
) -> tuple[list[Event | Order], TurnMachine]:
    """A turn with so many windows of speech, stopped by a client: what it tells from its first pass on, and its machine."""
    heart = machine(changed={"guard": guard, "speculative": False, "second_pass": second_pass})
    lane = Lane(heart)
    lane.wake()
    lane.windows(0.0, 5)
    lane.windows(1.0, speech)
    lane.words(first_pass)
    lane.windows(0.0, 5)
    heart.take(Stop(lane.now))
    told = heart.take(FirstPass(lane.now, 1, first_pass, lane.now - HOP, (lane.now - 20 * HOP,), confidence))
    for order in [item for item in told if isinstance(item, Rewrite)]:
        told += heart.take(Rewritten(lane.now, order.turn, order.attempt, answer, failure, 40.0, log_probability))
    assert not heart.pending_turns
    return told, heart


def final_of(told: list[Event | Order]) -> Final:
    (final,) = (item for item in told if isinstance(item, Final))
    return final


def test_a_text_that_is_believed_is_the_final() -> None:
    told, heart = turn("turn of the light", "Turn off the light.")
    final = final_of(told)
    assert (final.text, final.source, final.note, final.refused) == ("Turn off the light.", TextSource.SECOND_PASS, "", "")
    assert (heart.guard.statistics().believed, heart.guard.statistics().noise) == (1, 0)


@pytest.mark.parametrize(
    ("answer", "log_probability", "refused", "note"),
    [
        ("", None, "no words", "the second pass heard nothing"),
        ("♪♪ ♪♪", None, "no words", "the second pass heard nothing"),
        ("Thank you for watching!", None, "unlike", "likeness to the first pass 0.26, at least 0.3"),
        ("I am going to show you how to make a little bit of a difference to all of this world.", None, "too long", "letters, at most 63"),
        ("turn off turn off turn off turn off", None, "repeats", "it says 7 letters 4 times in a row, the first pass does not"),
        ("Turn off the light.", -1.5, "unsure", "mean log-probability -1.50, at least -1"),
    ],
)
def test_a_text_that_is_refused_leaves_the_first_pass_and_says_why(
    answer: str, log_probability: float | None, refused: str, note: str
) -> None:
    told, heart = turn("turn of the light", answer, log_probability=log_probability)
    final = final_of(told)
    assert (final.text, final.source) == ("turn of the light", TextSource.FIRST_PASS)
    assert final.second_pass == answer
    assert final.refused == refused
    assert note in final.note
    counts = heart.guard.statistics()
    assert getattr(counts, refused.replace(" ", "_")) == 1
    assert counts.believed == counts.noise == 0


def test_a_crumb_of_noise_is_no_text_where_the_second_pass_does_not_agree() -> None:
    """CASES S14: "you" of a source that hears nobody."""
    told, heart = turn("he", "♪ Oh, oh, oh, oh, oh ♪", speech=UNSPOKEN, confidence=0.2)
    assert not [item for item in told if isinstance(item, Final)]
    (closed,) = (item for item in told if isinstance(item, TurnClosed))
    assert closed.reason is CloseReason.NO_TEXT
    assert heart.guard.statistics().noise == 1


def test_a_crumb_that_both_heard_is_a_word() -> None:
    """A soft "stop" that the VAD did not take for speech, of which the first pass is unsure."""
    told, _ = turn("stop", "Stop.", speech=UNSPOKEN, confidence=0.25)
    assert final_of(told).text == "Stop."


@pytest.mark.parametrize(
    ("first_pass", "speech", "confidence"),
    [
        ("turlent the hars", UNSPOKEN, 0.16),  # a voice at -60 dBFS: little confidence, many letters
        ("stop", UNSPOKEN, 0.6),
        ("stop", SPOKEN, 0.2),
        ("stop", UNSPOKEN, None),
    ],
)
def test_a_whisper_is_kept_where_the_second_pass_fails_it(first_pass: str, speech: int, confidence: float | None) -> None:
    told, _ = turn(first_pass, "Mm-hmm.", speech=speech, confidence=confidence)
    assert final_of(told).text == first_pass


@pytest.mark.parametrize("failure", ["the second pass died", "the second pass was late"])
def test_a_second_pass_that_fails_never_costs_a_word(failure: str) -> None:
    told, heart = turn("he", "", speech=UNSPOKEN, confidence=0.2, failure=failure)
    assert (final_of(told).text, final_of(told).note) == ("he", failure)
    assert heart.guard.statistics().noise == 0


def test_without_a_second_pass_a_crumb_without_speech_is_no_text() -> None:
    told, _ = turn("he", "", speech=UNSPOKEN, confidence=0.2, second_pass=False)
    assert not [item for item in told if isinstance(item, Final)]
    told, _ = turn("he", "", speech=6, confidence=0.2, second_pass=False)
    assert final_of(told).text == "he"


def test_switched_off_it_believes_everything() -> None:
    told, heart = turn("he", "Thank you for watching!", speech=UNSPOKEN, confidence=0.1, guard=False)
    assert final_of(told).text == "Thank you for watching!"
    assert heart.guard.statistics().believed == 0


def test_speech_is_counted_without_its_pauses() -> None:
    """2 s of speech in a turn of 12: so much may be said, and no more."""
    heart = machine(changed={"guard": True, "speculative": False}, silence_ms=9000, silence_open_ms=9000, silence_complete_ms=9000)
    lane = Lane(heart)
    lane.wake()
    for _ in range(2):
        lane.windows(0.0, 150)
        lane.windows(1.0, 31)
        lane.words("turn on the lights")
    heart.take(Stop(lane.now))
    (order,) = (item for item in heart.take(FirstPass(lane.now, 1, "turn on the lights")) if isinstance(item, Rewrite))
    final = final_of(heart.take(Rewritten(lane.now, order.turn, order.attempt, "x" + "turn on the lights " * 10)))
    assert final.note.endswith(f"at most {15 + 25 * 62 * HOP / RATE:.0f} are said in {62 * HOP / RATE:.1f} s of speech")


@given(
    st.text("abc ♪.", max_size=40),
    st.text("abc ", min_size=1, max_size=20).filter(str.strip),
    st.integers(0, 40),
    st.none() | st.floats(0, 1),
    st.none() | st.floats(-5, 0),
    st.sampled_from(["", "the second pass was late"]),
)
def test_a_turn_has_one_end_and_no_text_that_neither_pass_wrote(
    answer: str, first_pass: str, speech: int, confidence: float | None, log_probability: float | None, failure: str
) -> None:
    told, _ = turn(first_pass, answer, speech=speech, confidence=confidence, log_probability=log_probability, failure=failure)
    finals = [item for item in told if isinstance(item, Final)]
    (closed,) = (item for item in told if isinstance(item, TurnClosed))
    assert told[-1] is closed
    assert [type(item) for item in told if isinstance(item, Endpoint)] == [Endpoint]
    if not finals:  # so little of it that it may be noise, and a second opinion against it
        assert closed.reason is CloseReason.NO_TEXT
        assert not failure
        assert len(first_pass.replace(" ", "")) < CRUMB_LETTERS
        assert speech * HOP / RATE < CRUMB_SPEECH_S
    elif finals[0].source is TextSource.SECOND_PASS:
        assert (finals[0].text, finals[0].note, finals[0].refused) == (answer, "", "")
    else:
        assert finals[0].text == first_pass
        assert finals[0].note


def test_a_cap_on_a_turn_is_a_cap_on_what_the_second_pass_hears() -> None:
    """CASES C4: ten minutes of speech without a pause, by rules that would never end it."""
    forever = 10 * HARD_CAP_MS
    heart = machine(too_long_ms=forever, silence_ms=forever, silence_open_ms=forever, silence_complete_ms=forever)
    lane = Lane(heart)
    lane.wake()
    for _ in range(20):
        lane.windows(1.0, 30 * RATE // HOP)
        lane.words("and on and on")
    assert lane.asked
    assert max(order.last - order.first for order in lane.asked) <= to_samples(HARD_CAP_MS) + HOP
