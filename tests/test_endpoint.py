"""The endpointer: each rule at its border, their order, the cap that stays, and that more silence never un-ends a turn."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from voiced.endpoint import TOKEN_GRACE_MS, Counts, Endpointer
from voiced.events import CloseReason
from voiced.units import HARD_CAP_MS, to_samples

MS = to_samples(1)
LIMITS = {
    "token_threshold": -3.0,
    "token_silence_ms": 100,
    "silence_ms": 700,
    "no_text_ms": 1000,
    "no_speech_ms": 5000,
    "too_long_ms": 15_000,
}


def endpointer(**changed: float) -> Endpointer:
    return Endpointer(**{**LIMITS, **changed})


SPOKEN = Counts(since_start=2000 * MS, since_speech=0, has_text=True)
TOKEN = replace(SPOKEN, since_speech=100 * MS, since_token=100 * MS, token_log_probability=-3.0)


@pytest.mark.parametrize(
    ("counts", "reason"),
    [
        pytest.param(TOKEN, CloseReason.END_TOKEN, id="token"),
        pytest.param(replace(SPOKEN, since_speech=700 * MS), CloseReason.SILENCE, id="silence"),
        pytest.param(replace(SPOKEN, since_speech=1000 * MS, has_text=False), CloseReason.NO_TEXT, id="no text"),
        pytest.param(Counts(since_start=5000 * MS), CloseReason.NO_SPEECH, id="no speech"),
        pytest.param(Counts(since_start=5000 * MS, has_text=True), CloseReason.SILENCE, id="words, but no speech"),
        pytest.param(replace(SPOKEN, since_start=15_000 * MS), CloseReason.TOO_LONG, id="too long"),
    ],
)
def test_each_rule_at_its_border(counts: Counts, reason: CloseReason) -> None:
    """The count that a rule wants ends the turn; one sample less does not."""
    assert endpointer().decide(counts) is reason
    if counts.since_speech:
        less = replace(counts, since_speech=counts.since_speech - 1)
    else:
        less = replace(counts, since_start=counts.since_start - 1)
    assert endpointer().decide(less) is None


@pytest.mark.parametrize(
    "short",
    [
        pytest.param({"since_token": 100 * MS - 1}, id="the token is too young"),
        pytest.param({"since_speech": 100 * MS - 1}, id="the silence is too short"),
        pytest.param({"since_token": None}, id="there is none"),
        pytest.param({"token_log_probability": -3.0000001}, id="it is not probable enough"),
        pytest.param({"speech_after_token": TOKEN_GRACE_MS * MS + 1}, id="speech beyond the grace took it back"),
        pytest.param({"has_text": False}, id="no word came before it"),
        pytest.param({"since_speech": 0}, id="speech goes on"),
    ],
)
def test_a_token_alone_does_not_end_a_turn(short: dict[str, Any]) -> None:
    assert endpointer().decide(TOKEN) is CloseReason.END_TOKEN
    assert endpointer().decide(replace(TOKEN, **short)) is None


def test_speech_within_the_grace_leaves_the_token() -> None:
    assert endpointer().decide(replace(TOKEN, speech_after_token=TOKEN_GRACE_MS * MS)) is CloseReason.END_TOKEN


def test_a_token_that_was_taken_back_leaves_the_rule_of_silence() -> None:
    taken = replace(TOKEN, speech_after_token=TOKEN_GRACE_MS * MS + 1, since_speech=700 * MS)
    assert endpointer().decide(taken) is CloseReason.SILENCE


def test_a_token_where_the_vad_heard_nothing_needs_its_silence_since_the_turn_began() -> None:
    whisper = Counts(since_start=100 * MS, has_text=True, since_token=100 * MS)
    assert endpointer().decide(whisper) is CloseReason.END_TOKEN
    assert endpointer().decide(replace(whisper, since_start=100 * MS - 1)) is None


def test_the_rules_are_tried_in_order() -> None:
    """Where all would end the turn the first says why; without it the next does."""
    everything = replace(TOKEN, since_start=30_000 * MS, since_speech=5000 * MS, since_token=5000 * MS)
    assert endpointer().decide(everything) is CloseReason.END_TOKEN
    assert endpointer().decide(replace(everything, since_token=None)) is CloseReason.SILENCE
    assert endpointer().decide(replace(everything, has_text=False)) is CloseReason.NO_TEXT
    assert endpointer().decide(replace(everything, since_token=None, since_speech=None, has_text=False)) is CloseReason.NO_SPEECH
    assert endpointer().decide(replace(everything, since_token=None, since_speech=0)) is CloseReason.TOO_LONG


@pytest.mark.parametrize("too_long_ms", [HARD_CAP_MS, 1e9, float("inf")])
def test_the_hard_cap_cannot_be_turned_off(too_long_ms: float) -> None:
    """Every rule set so high that it never fires (E16)."""
    never = endpointer(token_threshold=1.0, token_silence_ms=1e9, silence_ms=1e9, no_text_ms=1e9, no_speech_ms=1e9, too_long_ms=too_long_ms)
    cap = HARD_CAP_MS * MS
    for speech in (None, 0, cap // 2):
        assert never.decide(Counts(since_start=cap - 1, since_speech=speech, has_text=True)) is None
        assert never.decide(Counts(since_start=cap, since_speech=speech, has_text=True)) is CloseReason.TOO_LONG


def test_a_higher_threshold_means_fewer_tokens() -> None:
    assert endpointer(token_threshold=-0.1).decide(replace(TOKEN, token_log_probability=-0.2)) is None
    assert endpointer(token_threshold=-0.2).decide(replace(TOKEN, token_log_probability=-0.2)) is CloseReason.END_TOKEN


spans = st.integers(0, 40_000 * MS)


@st.composite
def any_counts(draw: st.DrawFn) -> Counts:
    return Counts(
        since_start=draw(spans),
        since_speech=draw(st.none() | spans),
        has_text=draw(st.booleans()),
        since_token=draw(st.none() | spans),
        speech_after_token=draw(st.integers(0, 2 * TOKEN_GRACE_MS * MS)),
        token_log_probability=draw(st.floats(-10, 0)),
    )


@given(any_counts(), st.integers(0, 10_000 * MS))
def test_more_silence_never_un_ends(counts: Counts, more: int) -> None:
    if endpointer().decide(counts) is None:
        return
    later = replace(
        counts,
        since_start=counts.since_start + more,
        since_speech=None if counts.since_speech is None else counts.since_speech + more,
        since_token=None if counts.since_token is None else counts.since_token + more,
    )
    assert endpointer().decide(later) is not None


@given(any_counts(), st.floats(0, 1e6))
def test_every_turn_ends_at_the_cap_at_the_latest(counts: Counts, too_long_ms: float) -> None:
    beyond = replace(counts, since_start=min(to_samples(too_long_ms), HARD_CAP_MS * MS))
    assert endpointer(too_long_ms=too_long_ms).decide(beyond) is not None


@given(any_counts())
def test_it_has_no_memory(counts: Counts) -> None:
    same = endpointer()
    first = same.decide(counts)
    same.decide(TOKEN)
    assert same.decide(counts) is first


def test_a_burst_that_has_just_begun_is_not_cut_as_no_speech() -> None:
    """It is not speech before it has lasted for a while, and it is not nothing either."""
    assert endpointer().decide(Counts(since_start=5000 * MS, speaking=True)) is None
    assert endpointer().decide(Counts(since_start=15_000 * MS, speaking=True)) is CloseReason.TOO_LONG
