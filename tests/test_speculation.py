"""The rewrite that begins before its turn has ended: when it is asked for, when it is dropped, when it counts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from turns import HOP, SECOND, Lane, kinds, machine, reasons
from voiced.events import (
    Cancel,
    CloseReason,
    Endpoint,
    EndSign,
    Event,
    Final,
    LikelyEnd,
    Partial,
    Resumed,
    Rewritten,
    SpeechProbability,
    SpeechStarted,
    Stop,
    TextSource,
    TurnClosed,
    TurnScore,
    Wake,
    Words,
)
from voiced.turn import ATTEMPTS_LIMIT, WORD_LATE_MS
from voiced.turnrules import TurnStatistics
from voiced.units import to_samples


@pytest.fixture
def lane() -> Lane:
    return Lane(machine(), signs=True)


def counted(lane: Lane) -> TurnStatistics:
    return lane.heart.statistics()


def likely(lane: Lane, text: str = "turn on", attempt: int = 1) -> Lane:
    """A wake, words, and 64 ms of silence, at which a Rewrite begins (0: none does)."""
    lane.wake()
    lane.say(text)
    (sign,) = lane.windows(0.0, 2)
    assert sign == LikelyEnd(lane.now, lane.heart.open_turn, EndSign.SILENCE, attempt)
    return lane


def the_final(told: list[Event]) -> Final:
    (final,) = (event for event in told if isinstance(event, Final))
    return final


# ── the first sign ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_rewrite_begins_with_the_first_sign_of_an_end(lane: Lane) -> None:
    likely(lane)
    (order,) = lane.rewrites
    speech = SECOND // 2 * HOP
    assert (order.turn, order.attempt, order.last) == (1, 1, lane.now)
    assert order.first == lane.now - 2 * HOP - speech - to_samples(100)
    assert lane.heart.open_turn == 1


def test_it_hears_no_more_silence_than_its_margin(lane: Lane) -> None:
    """A short word has no text yet, which comes when the silence is longer than what is kept of it."""
    lane.wake()
    lane.windows(0.0, 3)
    lane.windows(1.0, 5)
    spoken = lane.now
    assert lane.windows(0.0, 10) == []  # 160 ms of speech without a word: not worth it
    assert kinds(lane.words("stop")) == [Partial, LikelyEnd]
    (order,) = lane.rewrites
    assert order.last == spoken + to_samples(200)


def test_it_hears_a_first_word_that_was_too_soft_for_the_vad(lane: Lane) -> None:
    lane.wake()
    lane.windows(0.0, 12)
    soft = lane.now - 6 * HOP
    lane.windows(1.0, 10)
    lane.take(Words(lane.now, "what is it", word_first=(soft, lane.now - 4 * HOP, lane.now - HOP)))
    lane.windows(0.0, 3)
    assert lane.rewrites[0].first == soft - to_samples(100)


def test_a_token_is_a_sign_as_soon_as_the_vad_lets_go(lane: Lane) -> None:
    lane.wake()
    lane.say("stop")
    lane.words("stop", token=lane.now)
    assert lane.windows(0.0, 1) == [LikelyEnd(lane.now, 1, EndSign.END_TOKEN, 1)]


def test_a_sign_is_told_once(lane: Lane) -> None:
    likely(lane)
    assert lane.windows(0.0, 10) == []
    assert kinds(lane.words("turn on the")) == [Partial]
    assert len(lane.asked) == 1


@pytest.mark.parametrize("switch", ["second_pass", "speculative"])
def test_without_speculation_the_sign_is_told_all_the_same(switch: str) -> None:
    """For clients that may begin work of their own."""
    lane = Lane(machine(changed={switch: False}), signs=True)
    likely(lane, attempt=0)
    assert lane.asked == []
    assert kinds(lane.windows(1.0, 5)) == [Resumed]
    assert counted(lane).wasted == 0


# ── the speaker goes on ────────────────────────────────────────────────────────────────────────────────────────────────


def test_speech_takes_a_likely_end_back(lane: Lane) -> None:
    likely(lane)
    (resumed,) = lane.windows(1.0, 4)
    assert resumed == Resumed(lane.now, 1)
    assert lane.rewrites == []
    assert kinds(lane.windows(0.0, 2)) == [LikelyEnd]
    assert [order.attempt for order in lane.asked] == [1, 2]
    assert counted(lane) == TurnStatistics(1, 2, 1, 2, 0, 0, 1, 0)


def test_a_click_does_not(lane: Lane) -> None:
    likely(lane)
    assert lane.windows(1.0, 2) == []
    assert lane.windows(0.0, 3) == []
    assert len(lane.rewrites) == 1


def test_a_word_beyond_what_was_heard_takes_it_back_though_the_vad_heard_nothing(lane: Lane) -> None:
    likely(lane)
    last = lane.rewrites[0].last
    lane.windows(0.0, 8)
    late = last + to_samples(WORD_LATE_MS)
    assert kinds(lane.words("turn on the", at=late)) == [Partial]  # recognizers are a little late
    assert kinds(lane.words("turn on the lights", at=late + 1)) == [Partial, Resumed, LikelyEnd]
    assert [order.attempt for order in lane.asked] == [1, 2]
    assert lane.rewrites[0].last == lane.now


def test_words_whose_sound_was_heard_do_not(lane: Lane) -> None:
    """Partials lag by chunk and look-ahead: the text goes on when the speaker has long finished."""
    likely(lane)
    spoken = lane.rewrites[0].last - 2 * HOP
    lane.windows(0.0, 8)
    assert kinds(lane.words("turn on the lights", at=spoken)) == [Partial]
    (endpoint,) = lane.windows(0.0, SECOND)
    assert isinstance(endpoint, Endpoint)
    assert [order.attempt for order in lane.rewrites] == [1]


def test_a_turn_of_many_pauses_asks_a_bounded_number_of_times(lane: Lane) -> None:
    lane.wake()
    lane.say("well")
    for _ in range(ATTEMPTS_LIMIT + 5):
        assert LikelyEnd in kinds(lane.windows(0.0, 3))
        assert Resumed in kinds(lane.windows(1.0, 5))
    assert [order.attempt for order in lane.asked] == [*range(1, ATTEMPTS_LIMIT + 1)]
    lane.windows(0.0, SECOND)
    assert lane.asked[-1].attempt == ATTEMPTS_LIMIT + 1  # the one that counts is always asked for
    assert the_final(lane.rewrite("Well.")).attempt == ATTEMPTS_LIMIT + 1


# ── the end ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_final_comes_with_the_endpoint_where_its_answer_is_there(lane: Lane) -> None:
    likely(lane)
    assert lane.rewrite("Turn on.") == []
    told = lane.windows(0.0, SECOND)
    assert kinds(told) == [Endpoint, Final, TurnClosed]
    final = the_final(told)
    assert (final.sample, final.text, final.source, final.attempt) == (told[0].sample, "Turn on.", TextSource.SECOND_PASS, 1)
    assert final.measured == {"second_pass_ms": 40.0}
    assert len(lane.asked) == 1
    assert counted(lane) == TurnStatistics(1, 1, 0, 1, 0, 1, 0, 0)


def test_it_waits_for_the_answer_where_it_is_not(lane: Lane) -> None:
    likely(lane)
    assert kinds(lane.windows(0.0, SECOND)) == [Endpoint]
    assert lane.heart.pending_turns == (1,)
    assert kinds(lane.rewrite("Turn on.")) == [Final, TurnClosed]


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize(
    ("text", "failure", "note"), [("", "it died", "it died"), ("", "", "the second pass heard nothing"), ("Thanks!", "no", "no")]
)
def test_an_attempt_that_fails_costs_the_second_pass_whenever_it_fails(lane: Lane, late: bool, text: str, failure: str, note: str) -> None:
    likely(lane)
    if late:
        lane.windows(0.0, SECOND)
        told = lane.rewrite(text, failure)
    else:
        assert lane.rewrite(text, failure) == []
        told = lane.windows(0.0, SECOND)
    final = the_final(told)
    assert (final.text, final.source, final.note, final.second_pass) == ("turn on", TextSource.FIRST_PASS, note, text)
    assert reasons(told) == [CloseReason.SILENCE]


def test_a_word_that_only_the_flush_gives_wants_the_whole_once_more(lane: Lane) -> None:
    likely(lane)
    lane.rewrite("Turn on.")
    lane.last_word = "please"
    lane.last_word_at = lane.now + SECOND // 2 * HOP
    assert kinds(lane.windows(0.0, SECOND)) == [Endpoint]
    (order,) = lane.rewrites
    assert (order.attempt, order.turn) == (2, 1)
    assert order.last >= lane.asked[0].last + to_samples(WORD_LATE_MS)
    assert the_final(lane.rewrite("Turn on, please.")).text == "Turn on, please."


def test_stop_in_the_middle_of_a_word_includes_it(lane: Lane) -> None:
    """E13: also one that is too short yet to count as speech."""
    likely(lane)
    lane.rewrite("Turn on.")
    lane.windows(0.0, 5)
    lane.windows(1.0, 2)
    told = lane.take(Stop(lane.now))
    (endpoint,) = told
    assert isinstance(endpoint, Endpoint)
    assert (endpoint.reason, endpoint.speech_end) == (CloseReason.STOPPED, lane.now)
    (order,) = lane.rewrites
    assert (order.attempt, order.last) == (2, lane.now)
    assert the_final(lane.rewrite("Turn on it.")).text == "Turn on it."


def test_stop_in_silence_takes_what_is_there(lane: Lane) -> None:
    """E13: push-to-talk, finished before the key came up: the final is at once."""
    likely(lane)
    lane.rewrite("Turn on.")
    assert kinds(lane.take(Stop(lane.now))) == [Endpoint, Final, TurnClosed]


def test_a_cough_is_never_published_though_it_was_heard(lane: Lane) -> None:
    """And ends one second after it."""
    lane.wake()
    lane.windows(0.0, 4)
    lane.windows(1.0, SECOND // 3)
    cough = lane.now
    told = lane.windows(0.0, 2 * SECOND)
    assert kinds(told) == [LikelyEnd, TurnClosed]
    assert reasons(told) == [CloseReason.NO_TEXT]
    assert told[-1].sample - cough <= to_samples(1000) + HOP
    assert lane.rewrites == []
    assert lane.take(Rewritten(lane.now, 1, 1, "Thanks for watching!")) == []
    assert counted(lane).wasted == 1


def test_silence_is_never_sent(lane: Lane) -> None:
    """D8, and the hallucination rule."""
    lane.wake()
    lane.windows(0.1, 30 * SECOND)
    assert lane.asked == []


@pytest.mark.parametrize("answered", [False, True])
def test_a_cancelled_turn_drops_its_rewrite(lane: Lane, answered: bool) -> None:
    likely(lane)
    if answered:
        lane.rewrite("Turn on.")
    assert kinds(lane.take(Cancel(lane.now))) == [TurnClosed]
    assert lane.rewrites == []
    assert lane.take(Rewritten(lane.now, 1, 1, "Turn on.")) == []
    assert counted(lane).wasted == 1


def test_an_answer_to_a_dropped_attempt_is_nobodys(lane: Lane) -> None:
    likely(lane)
    lane.windows(1.0, 10)
    lane.words("turn on the lights")
    lane.take(Rewritten(lane.now, 1, 1, "Turn on."))
    assert kinds(lane.windows(0.0, 2)) == [LikelyEnd]  # of an attempt that begins meanwhile
    lane.take(Rewritten(lane.now, 1, 1, "Turn on."))
    lane.windows(0.0, SECOND)
    assert lane.heart.pending_turns == (1,)
    lane.take(Rewritten(lane.now, 1, 1, "Turn on."))
    assert the_final(lane.rewrite("Turn on the lights.")).text == "Turn on the lights."


# ── pauses, televisions, long dictation ────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("pause_ms", [300, 500, 650])
def test_a_thinking_pause_shorter_than_the_silence_does_not_cut(lane: Lane, pause_ms: int) -> None:
    """E3, E12: the logic of it; how often a token comes in one is the model's business and `voicectl endpoint eval`'s."""
    likely(lane, "set a timer for")
    lane.windows(0.0, to_samples(pause_ms) // HOP - 2)
    lane.windows(1.0, SECOND)
    lane.words("set a timer for ten minutes")
    assert lane.heart.open_turn == 1
    assert kinds(lane.windows(0.0, SECOND)) == [LikelyEnd, Endpoint]


def test_an_open_end_holds_a_turn_over_a_pause_of_a_second(lane: Lane) -> None:
    """E3, E12."""
    likely(lane, "set a timer for")
    assert lane.windows(0.0, SECOND) == []
    lane.windows(1.0, SECOND)
    assert lane.heart.open_turn == 1


def test_a_query_without_a_pause_after_the_wake_ends_by_silence(lane: Lane) -> None:
    """E2: not by the cap."""
    lane.wake(phrase_end=lane.now)
    lane.windows(1.0, 2 * SECOND)
    lane.words("turn on the lights")
    spoken = lane.now
    told = lane.windows(0.0, 20 * SECOND)
    (endpoint,) = (event for event in told if isinstance(event, Endpoint))
    assert (endpoint.reason, endpoint.rule) == (CloseReason.SILENCE, "silence")
    assert endpoint.sample - spoken <= to_samples(700) + HOP
    assert endpoint.margins["too_long_ms"] < 0


def test_a_television_after_the_query_ends_by_the_token_or_by_the_cap() -> None:
    """E1: the reason is published."""
    for token, reason in ((True, CloseReason.END_TOKEN), (False, CloseReason.TOO_LONG)):
        lane = Lane(machine())
        lane.wake()
        lane.say("turn on the lights")
        if token:
            lane.words("turn on the lights", token=lane.now)
        lane.windows(0.0, 4)
        told = lane.windows(0.9, 60 * SECOND)
        if token:
            assert isinstance(lane.events[-1], Endpoint)
            assert lane.events[-1].reason is reason
        else:
            (endpoint,) = (event for event in told if isinstance(event, Endpoint))
            assert endpoint.reason is reason
            assert endpoint.sample <= to_samples(15_000) + HOP


def test_partials_say_what_stays_and_what_was_heard(lane: Lane) -> None:
    """B8."""
    lane.wake()
    lane.say("turn on the kit")
    told = lane.take(Words(lane.now, "turn on the kitchen", heard=5120))
    assert told == [Partial(lane.now, 1, "turn on the kitchen", len("turn on the"), 5120)]


def test_words_of_sound_that_was_heard_late_are_not_dated_back(lane: Lane) -> None:
    """A recognizer that catches up after a gap: no event stands before one that was told."""
    likely(lane)
    (partial,) = lane.take(Words(lane.now - 3 * HOP, "turn on the", heard=lane.now - 5 * HOP))
    assert isinstance(partial, Partial)
    assert (partial.sample, partial.heard) == (lane.now, lane.now - 5 * HOP)


def test_a_dictation_of_six_turns_never_shows_an_earlier_turns_words(lane: Lane) -> None:
    """B8: the next turn's partials begin with nothing, also while the last one's final is pending."""
    for number in range(6):
        lane.wake()
        lane.say(f"sentence {number}")
        lane.windows(0.0, SECOND)
    partials = [event for event in lane.events if isinstance(event, Partial)]
    assert [(partial.turn, partial.text, partial.stable) for partial in partials] == [(at + 1, f"sentence {at}", 0) for at in range(6)]
    assert counted(lane).flicker == 0


def test_a_recognizer_that_contradicts_itself_is_counted(lane: Lane) -> None:
    lane.wake()
    for text in ("turn", "turn on", "turn on the", "burn on the"):
        lane.words(text)
    lane.say("burn on the lights")
    lane.windows(0.0, SECOND)
    assert the_final(lane.rewrite("Turn on the lights.")).flicker == 1
    assert counted(lane).flicker == 1


# ── a turn detector ────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def detecting() -> Lane:
    return Lane(machine(changed={"turn_detector": True}))


def test_a_turn_detector_is_asked_at_each_mark_of_the_silence() -> None:
    """E7."""
    lane = Lane(machine(changed={"turn_detector": True}, silence_open_ms=2500.0), signs=True)
    lane.wake()
    lane.say("set a timer for")  # open, so that silence alone waits for longer than all marks
    spoken = lane.now
    lane.windows(0.0, 3 * SECOND)
    marks = [order.last - spoken for order in lane.scores]
    assert [mark // HOP for mark in marks] == [to_samples(mark) // HOP + 1 for mark in (200, 500, 1200)]
    assert all((order.first, order.sample, order.turn) == (0, order.last, 1) for order in lane.scores)


def test_and_again_in_the_next_silence(detecting: Lane) -> None:
    lane = detecting
    lane.wake()
    lane.say("turn on")
    for _ in range(2):
        lane.windows(0.0, 10)
        lane.windows(1.0, 10)
    assert len(lane.scores) == 2


def test_a_sure_answer_ends_the_turn(detecting: Lane) -> None:
    lane = detecting
    lane.wake()
    lane.say("turn on")
    lane.windows(0.0, 7)
    (order,) = lane.scores
    assert lane.take(TurnScore(lane.now, 1, order.last, 0.49)) == []
    (endpoint,) = lane.take(TurnScore(lane.now, 1, order.last, 0.5))
    assert isinstance(endpoint, Endpoint)
    assert (endpoint.reason, endpoint.margins["turn_score"]) == (CloseReason.TURN_DETECTOR, 0.0)


def test_with_neither_token_nor_detector_silence_alone_decides() -> None:
    """Whatever a recognizer says of the end, and however sure it is."""
    lane = Lane(machine(changed={"end_token": False, "turn_detector": False}), signs=True)
    lane.wake()
    lane.say("turn on")
    spoken = lane.now
    lane.words("turn on", token=lane.now, log_probability=0.0)
    assert kinds(lane.windows(0.0, 2)) == [LikelyEnd]
    told = lane.windows(0.0, SECOND)
    (endpoint,) = told
    assert isinstance(endpoint, Endpoint)
    assert (endpoint.rule, endpoint.end_token) == ("silence", None)
    assert 0 <= endpoint.sample - spoken - to_samples(700) < HOP
    assert not lane.scores and not lane.foresights


def test_an_answer_that_speech_has_overtaken_is_not_used(detecting: Lane) -> None:
    lane = detecting
    lane.wake()
    lane.say("turn on")
    lane.windows(0.0, 7)
    (order,) = lane.scores
    lane.windows(1.0, 10)
    assert lane.take(TurnScore(lane.now, 1, order.last, 0.99)) == []
    lane.windows(0.0, 7)
    assert lane.take(TurnScore(lane.now, 1, order.last, 0.99)) == []
    assert lane.take(TurnScore(lane.now, 99, lane.now, 0.99)) == []
    assert lane.heart.open_turn == 1


# ── whatever comes, and whenever it is answered ────────────────────────────────────────────────────────────────────────

steps = st.lists(
    st.tuples(
        st.sampled_from([0.0, 0.0, 1.0]), st.integers(1, 12), st.sampled_from(["", "turn", "turn on", "turn on the lights"]), st.booleans()
    ),
    max_size=12,
)


def told_by(facts: list[tuple[float, int, str, bool]], answers_at: list[int]) -> list[Event]:
    """One turn of these facts; each rewrite is answered after so many further windows, dropped or not."""
    lane = Lane(machine(), signs=True)
    lane.wake()
    waiting: list[tuple[int, int]] = []  # (window at which it is answered, which order)
    window = seen = 0

    def answer(until: int) -> None:
        nonlocal seen
        for order in range(seen, len(lane.asked)):
            waiting.append((window + answers_at[order % len(answers_at)], order))
        seen = len(lane.asked)
        for due in [one for one in waiting if one[0] <= until]:
            waiting.remove(due)
            asked = lane.asked[due[1]]
            lane.take(Rewritten(asked.sample, asked.turn, asked.attempt, f"rewritten {asked.attempt} {asked.first} {asked.last}"))

    for probability, count, text, token in [*facts, (0.0, 6 * SECOND, "", False)]:
        if text and lane.heart.open_turn == 1:
            lane.words(text, token=lane.now if token else None, at=lane.now)
        for _ in range(count):
            window += 1
            lane.now += HOP
            lane.take(SpeechProbability(lane.now, probability))
            answer(window)
    answer(window + 10_000)
    assert lane.heart.pending_turns == ()
    return lane.events


@given(steps, st.lists(st.integers(0, 60), min_size=1, max_size=4))
def test_when_answers_come_moves_the_final_and_changes_nothing_else(
    facts: list[tuple[float, int, str, bool]], answers_at: list[int]
) -> None:
    """One thread or many, fast or slow: the same texts, the same reasons."""

    def without_time(events: list[Event]) -> list[object]:
        return [
            (type(event), event.sample if not isinstance(event, Final | TurnClosed) else 0, getattr(event, "text", "")) for event in events
        ]

    at_once, later = told_by(facts, [0]), told_by(facts, answers_at)
    assert without_time(at_once) == without_time(later)
    assert reasons(at_once) == reasons(later)


@given(steps)
def test_signs_alternate_and_only_what_was_said_is_rewritten(facts: list[tuple[float, int, str, bool]]) -> None:
    events = told_by(facts, [0])
    order = [kind for kind in kinds(events) if kind in (LikelyEnd, Resumed)]
    assert order == ([LikelyEnd, Resumed] * len(order))[: len(order)]
    if Final in kinds(events):
        assert kinds(events)[-3:] == [Endpoint, Final, TurnClosed]
        assert SpeechStarted in kinds(events) or Partial in kinds(events)
    assert kinds(events).count(TurnClosed) == kinds(events).count(Wake) == 1
