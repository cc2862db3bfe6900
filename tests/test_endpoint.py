"""The endpointer: each rule at its border, their order, the cap that stays, and that more silence never un-ends a turn."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from voiced.endpoint import RULES, SCORE_MARKS_MS, TOKEN_GRACE_MS, WORTH_MS, Counts, Endpointer
from voiced.events import CloseReason, EndSign
from voiced.units import HARD_CAP_MS, to_samples

MS = to_samples(1)
LIMITS = {
    "token_threshold": -3.0,
    "token_silence_ms": 100,
    "foreseen_silence_ms": 240,
    "silence_complete_ms": 450,
    "silence_ms": 700,
    "silence_open_ms": 1200,
    "no_text_ms": 1000,
    "no_speech_ms": 5000,
    "too_long_ms": 15_000,
    "likely_end_ms": 64,
    "turn_detector_threshold": 0.5,
}


def endpointer(**changed: float) -> Endpointer:
    return Endpointer(**{**LIMITS, **changed})


def why(counts: Counts, **changed: float) -> CloseReason | None:
    return endpointer(**changed).decide(counts).reason


SPOKEN = Counts(since_start=2000 * MS, since_speech=0, speech=1000 * MS, words=2)
TOKEN = replace(SPOKEN, since_speech=100 * MS, since_token=100 * MS, token_log_probability=-3.0)
UNSURE = replace(TOKEN, token_log_probability=-9.0)


BORDERS = [
    (TOKEN, "end_token", CloseReason.END_TOKEN),
    (replace(SPOKEN, since_speech=240 * MS, foreseen=-3.0), "foreseen_token", CloseReason.END_TOKEN),
    (replace(UNSURE, since_speech=450 * MS), "silence_complete", CloseReason.SILENCE),
    (replace(SPOKEN, since_speech=700 * MS), "silence", CloseReason.SILENCE),
    (replace(SPOKEN, since_speech=1200 * MS, ends_open=True), "silence_open", CloseReason.SILENCE),
    (replace(SPOKEN, since_speech=1000 * MS, words=0), "no_text", CloseReason.NO_TEXT),
    (Counts(since_start=5000 * MS), "no_speech", CloseReason.NO_SPEECH),
    (Counts(since_start=5000 * MS, words=1), "no_speech_but_words", CloseReason.SILENCE),
    (replace(SPOKEN, since_start=15_000 * MS), "too_long", CloseReason.TOO_LONG),
]


@pytest.mark.parametrize(("counts", "rule", "reason"), BORDERS, ids=[rule for _, rule, _ in BORDERS])
def test_each_rule_at_its_border(counts: Counts, rule: str, reason: CloseReason) -> None:
    """The count that a rule wants ends the turn; one sample less does not."""
    decision = endpointer().decide(counts)
    assert (decision.reason, decision.rule, decision.margins[f"{rule}_ms"]) == (reason, rule, 0)
    if counts.since_speech:
        less = replace(counts, since_speech=counts.since_speech - 1)
    else:
        less = replace(counts, since_start=counts.since_start - 1)
    missing = endpointer().decide(less)
    assert (missing.reason, missing.rule) == (None, "")
    assert missing.margins[f"{rule}_ms"] == -1 / MS


DETECTED = replace(SPOKEN, since_speech=200 * MS, turn_score=0.5)


def test_no_row_is_dead() -> None:
    """Each is the first that some counts meet."""
    capped = endpointer(too_long_ms=1e9).decide(replace(SPOKEN, since_start=HARD_CAP_MS * MS))
    assert [rule.name for rule in RULES if rule.name not in {row for _, row, _ in BORDERS}] == [
        endpointer().decide(DETECTED).rule,
        capped.rule,
    ]


def test_a_turn_detector_ends_a_turn_when_it_is_sure() -> None:
    """It is asked in silence alone, so it wants none of its own; without a word it ends nothing: music has ends, too."""
    assert why(DETECTED) is CloseReason.TURN_DETECTOR
    for unsure in ({"turn_score": 0.49}, {"turn_score": None}, {"words": 0}, {"since_speech": None}, {"speaking": True}):
        assert why(replace(DETECTED, **unsure)) is None
    assert why(DETECTED, turn_detector_threshold=0.51) is None


@pytest.mark.parametrize("sign", [TOKEN, UNSURE, DETECTED], ids=["token", "unsure token", "detector"])
def test_against_an_open_text_a_sign_of_the_end_proves_nothing(sign: Counts) -> None:
    """E3: "set a timer for" and a token: neither the short silence nor the long one, but the usual."""
    against = replace(sign, ends_open=True)
    assert why(replace(against, since_speech=700 * MS - 1)) is None
    assert endpointer().decide(replace(against, since_speech=700 * MS)).rule == "silence"


def test_margins_tell_how_far_every_row_was() -> None:
    decision = endpointer().decide(replace(TOKEN, since_speech=150 * MS, token_log_probability=-1.0, turn_score=0.25))
    assert decision.rule == "end_token"
    assert decision.margins == {
        "end_token_ms": 0.0,  # the token is as young as 100 ms
        "silence_complete_ms": -300.0,
        "too_long_ms": -13_000.0,
        "hard_cap_ms": -28_000.0,
        "token_log_probability": 2.0,
        "turn_score": -0.25,
    }


# ── the first sign ─────────────────────────────────────────────────────────────────────────────────────────────────────


def sign(counts: Counts, **changed: float) -> EndSign | None:
    return endpointer(**changed).first_sign(counts)


def test_the_first_sign_is_a_little_silence() -> None:
    assert sign(replace(SPOKEN, since_speech=64 * MS)) is EndSign.SILENCE
    assert sign(replace(SPOKEN, since_speech=64 * MS - 1)) is None
    assert sign(replace(SPOKEN, since_speech=64 * MS), likely_end_ms=65) is None


def test_or_a_token_that_counts() -> None:
    early = replace(TOKEN, since_speech=1)
    assert sign(early) is EndSign.END_TOKEN
    assert sign(replace(early, token_log_probability=-9.0)) is None
    assert sign(replace(early, ends_open=True)) is None
    assert sign(replace(early, since_speech=0)) is None
    assert sign(Counts(since_start=1, words=1, since_token=0)) is EndSign.END_TOKEN  # a whisper


def test_without_a_word_only_speech_that_is_long_enough_is_worth_it() -> None:
    """What is short and has no text may be a cough; nothing at all is never sent."""
    cough = Counts(since_start=2000 * MS, since_speech=500 * MS, speech=WORTH_MS * MS - 1)
    assert sign(cough) is None
    assert sign(replace(cough, words=1)) is EndSign.SILENCE
    assert sign(replace(cough, speech=WORTH_MS * MS)) is EndSign.SILENCE
    assert sign(Counts(since_start=5000 * MS)) is None


# ── tokens, order, the cap ─────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "short",
    [
        pytest.param({"since_token": 100 * MS - 1}, id="the token is too young"),
        pytest.param({"since_speech": 100 * MS - 1}, id="the silence is too short"),
        pytest.param({"since_token": None}, id="there is none"),
        pytest.param({"token_log_probability": -3.0000001}, id="it is not probable enough"),
        pytest.param({"speech_after_token": TOKEN_GRACE_MS * MS + 1}, id="speech beyond the grace took it back"),
        pytest.param({"words": 0}, id="no word came before it"),
        pytest.param({"since_speech": 0}, id="speech goes on"),
    ],
)
def test_a_token_alone_does_not_end_a_turn(short: dict[str, Any]) -> None:
    assert why(TOKEN) is CloseReason.END_TOKEN
    assert why(replace(TOKEN, **short)) is None


def test_speech_within_the_grace_leaves_the_token() -> None:
    assert why(replace(TOKEN, speech_after_token=TOKEN_GRACE_MS * MS)) is CloseReason.END_TOKEN


def test_a_token_that_was_taken_back_leaves_the_rule_of_silence() -> None:
    taken = replace(TOKEN, speech_after_token=TOKEN_GRACE_MS * MS + 1, since_speech=700 * MS)
    assert why(taken) is CloseReason.SILENCE


def test_a_token_where_the_vad_heard_nothing_needs_its_silence_since_the_turn_began() -> None:
    whisper = Counts(since_start=100 * MS, words=2, since_token=100 * MS)
    assert why(whisper) is CloseReason.END_TOKEN
    assert why(replace(whisper, since_start=100 * MS - 1)) is None


def test_a_token_ends_no_turn_in_a_burst_that_may_become_its_first_speech() -> None:
    """Words too soft for the VAD, then louder ones."""
    whisper = Counts(since_start=1000 * MS, words=2, since_token=500 * MS)
    assert why(whisper) is CloseReason.END_TOKEN
    assert why(replace(whisper, speaking=True)) is None


def test_the_rules_are_tried_in_order() -> None:
    """Where all would end the turn the first says why; without it the next does."""
    everything = replace(TOKEN, since_start=30_000 * MS, since_speech=5000 * MS, since_token=5000 * MS)
    assert why(everything) is CloseReason.END_TOKEN
    assert why(replace(everything, since_token=None)) is CloseReason.SILENCE
    assert why(replace(everything, words=0)) is CloseReason.NO_TEXT
    assert why(replace(everything, since_token=None, since_speech=None, words=0)) is CloseReason.NO_SPEECH
    assert why(replace(everything, since_token=None, since_speech=0)) is CloseReason.TOO_LONG


@pytest.mark.parametrize("too_long_ms", [HARD_CAP_MS, 1e9])
def test_the_hard_cap_cannot_be_turned_off(too_long_ms: float) -> None:
    """Every rule set so high that it never fires (E16)."""
    never = endpointer(token_threshold=1.0, token_silence_ms=1e9, silence_ms=1e9, no_text_ms=1e9, no_speech_ms=1e9, too_long_ms=too_long_ms)
    cap = HARD_CAP_MS * MS
    for speech in (None, 0, cap // 2):
        assert never.decide(Counts(since_start=cap - 1, since_speech=speech, words=2)).reason is None
        assert never.decide(Counts(since_start=cap, since_speech=speech, words=2)).reason is CloseReason.TOO_LONG


def test_a_higher_threshold_means_fewer_tokens() -> None:
    assert why(replace(TOKEN, token_log_probability=-0.2), token_threshold=-0.1) is None
    assert why(replace(TOKEN, token_log_probability=-0.2), token_threshold=-0.2) is CloseReason.END_TOKEN


spans = st.integers(0, 40_000 * MS)


@st.composite
def any_counts(draw: st.DrawFn) -> Counts:
    speaking = draw(st.booleans())
    since_speech, words, speech = draw(st.none() | (st.just(0) if speaking else spans)), draw(st.integers(0, 3)), draw(spans)
    asked = since_speech is not None and (words > 0 or speech >= WORTH_MS * MS)  # at the first sign of an end
    return Counts(
        since_start=draw(spans),
        since_speech=since_speech,
        speaking=speaking,
        words=words,
        ends_open=draw(st.booleans()),
        speech=speech,
        turn_score=draw(st.none() | st.floats(0, 1)),
        since_token=draw(st.none() | spans),
        speech_after_token=draw(st.integers(0, 2 * TOKEN_GRACE_MS * MS)),
        token_log_probability=draw(st.floats(-10, 0)),
        foreseen=draw(st.none() | st.floats(-10, 0)) if asked else None,
        since_foreseen=draw(st.integers(-10_000 * MS, 40_000 * MS)),
    )


@given(any_counts(), st.integers(0, 10_000 * MS))
def test_more_silence_never_un_ends(counts: Counts, more: int) -> None:
    if why(counts) is None:
        return
    later = replace(
        counts,
        speaking=False,
        since_foreseen=counts.since_foreseen + more,
        since_start=counts.since_start + more,
        since_speech=None if counts.since_speech is None else counts.since_speech + more,
        since_token=None if counts.since_token is None else counts.since_token + more,
    )
    assert why(later) is not None


@given(any_counts())
def test_a_decision_is_the_first_row_that_is_met(counts: Counts) -> None:
    decision = endpointer().decide(counts)
    met = [rule for rule in RULES if decision.margins.get(f"{rule.name}_ms", -1) >= 0]
    assert (decision.rule, decision.reason) == ((met[0].name, met[0].reason) if met else ("", None))


@given(any_counts())
def test_no_end_comes_without_a_sign_of_it_first(counts: Counts) -> None:
    """What ends a turn by a token or by silence was a likely end, so that its rewrite has begun. A detector is asked in silence alone."""
    reason = why(counts)
    assume(reason is not CloseReason.TURN_DETECTOR or (counts.since_speech or 0) >= to_samples(SCORE_MARKS_MS[0]))
    if reason in (CloseReason.END_TOKEN, CloseReason.TURN_DETECTOR, CloseReason.SILENCE) and counts.since_speech:
        assert sign(counts) is not None


@given(any_counts(), st.floats(0, 1e6))
def test_every_turn_ends_at_the_cap_at_the_latest(counts: Counts, too_long_ms: float) -> None:
    beyond = replace(counts, since_start=min(to_samples(too_long_ms), HARD_CAP_MS * MS))
    assert why(beyond, too_long_ms=too_long_ms) is not None


@given(any_counts())
def test_it_has_no_memory(counts: Counts) -> None:
    same = endpointer()
    first = same.decide(counts)
    same.decide(TOKEN)
    assert same.decide(counts) == first


def test_a_burst_that_has_just_begun_is_not_cut_as_no_speech() -> None:
    """It is not speech before it has lasted for a while, and it is not nothing either."""
    assert why(Counts(since_start=5000 * MS, speaking=True)) is None
    assert why(Counts(since_start=15_000 * MS, speaking=True)) is CloseReason.TOO_LONG
