"""The turn: its table, what each fact does, and what holds whatever the facts are."""

from __future__ import annotations

import itertools
import re
import textwrap
from pathlib import Path

import pytest
from turns import HOP, SECOND, Lane, kinds, machine, reasons
from voiced.events import (
    AudioLost,
    Cancel,
    CloseReason,
    Endpoint,
    Final,
    Partial,
    Rewritten,
    Shutdown,
    SpeechProbability,
    SpeechStarted,
    Stop,
    TextSource,
    Trigger,
    TurnClosed,
    Wake,
)
from voiced.states import TABLE, Cue, State, diagram, next_state
from voiced.turn import PHRASE_TAIL_MS
from voiced.units import HARD_CAP_MS, to_samples

README = Path(__file__).resolve().parents[1] / "README.md"


@pytest.fixture
def lane() -> Lane:
    return Lane(machine())


# ── the table ──────────────────────────────────────────────────────────────────────────────────────────────────────────

ABSENT = {
    (State.ASLEEP, Cue.SPEECH), (State.ASLEEP, Cue.SILENCE), (State.AWAKE, Cue.SILENCE),
    (State.HEARING, Cue.SPEECH), (State.TRAILING, Cue.SILENCE),
}  # fmt: skip


def test_every_pair_is_in_the_table_or_known_to_be_absent() -> None:
    assert set(TABLE) | ABSENT == set(itertools.product(State, Cue))
    assert not set(TABLE) & ABSENT


@pytest.mark.parametrize(("state", "cue"), sorted(ABSENT, key=str))
def test_an_absent_pair_raises(state: State, cue: Cue) -> None:
    before = dict(TABLE)
    with pytest.raises(ValueError, match=f"no transition from {state.value} on {cue.value}"):
        next_state(state, cue)
    assert before == TABLE


def test_every_state_is_reached_and_left() -> None:
    moves = {(state, after) for (state, _), after in TABLE.items() if state is not after}
    assert {state for state, _ in moves} == {after for _, after in moves} == set(State)
    assert all(next_state(state, Cue.CLOSED) is State.ASLEEP for state in State)


def test_the_picture_shows_the_whole_table() -> None:
    picture = diagram()
    top, *below = picture.split("\n")
    assert re.split(r" ──(?:\w+)──▶ ", top) == [state.value for state in State]
    for (state, cue), after in TABLE.items():
        if state is after:
            assert f"{cue.value} while {state.value}" in below[-1]
    at = {state: top.index(state.value) for state in State}
    back = {(state, cue): after for (state, cue), after in TABLE.items() if at[after] < at[state]}
    for after, cue in set(zip(back.values(), (cue for _, cue in back), strict=True)):
        (row,) = (line for line in below[:-1] if cue.value in line)
        assert below[0][row.index("└")] == "▲"
        assert at[after] <= row.index("└") < at[after] + len(after.value)
        for state in State:  # each state that this cue leads back from has a line down to this row
            joins = row[at[state] + 1 : at[state] + 2] in ("┴", "┘", "┤")
            assert joins is (back.get((state, cue)) is after)


def test_the_readme_shows_this_picture() -> None:
    found = re.search(r"<!-- states -->\n(.*?)<!-- /states -->", README.read_text(), re.DOTALL)
    assert found, "README.md wants <!-- states --> and <!-- /states --> around the picture that states.diagram() gives"
    lines = [line for line in found[1].split("\n") if not line.startswith("```")]
    assert textwrap.dedent("\n".join(lines)).strip("\n") == diagram()


# ── one turn ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_turn_from_wake_to_final(lane: Lane) -> None:
    lane.now = 20_000
    assert lane.wake(phrase_end=21_000) == [Wake(20_000, 1, "jarvis", 21_000, 0.99, "heard")]
    assert lane.state() is State.AWAKE
    lane.now = 21_504
    told = lane.say("turn on")
    assert kinds(told) == [SpeechStarted, Partial]
    assert lane.state() is State.HEARING
    assert lane.words("turn on") == []  # the same text is no news
    assert lane.words("turn on the lights") == [Partial(lane.now, 1, "turn on the lights", len("turn on"))]
    speech_end = lane.now
    told = lane.windows(0.0, SECOND)
    (endpoint,) = told
    assert isinstance(endpoint, Endpoint)
    assert (endpoint.reason, endpoint.speech_end, endpoint.text) == (CloseReason.SILENCE, speech_end, "turn on the lights")
    assert 0 <= endpoint.sample - speech_end - to_samples(700) < HOP
    assert (lane.heart.state, lane.heart.open_turn, lane.heart.pending_turns) == (State.ASLEEP, 0, (1,))
    assert lane.rewrite("Turn on the lights.") == [
        Final(
            lane.now,
            1,
            "Turn on the lights.",
            TextSource.SECOND_PASS,
            "turn on the lights",
            "",
            {"second_pass_ms": 40.0},
            second_pass="Turn on the lights.",
            attempt=1,
        ),
        TurnClosed(lane.now, 1, CloseReason.SILENCE, 21_000, endpoint.sample),
    ]
    assert lane.heart.pending_turns == ()


def test_an_end_token_ends_the_turn_sooner(lane: Lane) -> None:
    lane.wake()
    lane.say("stop")
    lane.words("stop", token=lane.now)
    spoken = lane.now
    (endpoint,) = lane.windows(0.0, SECOND)
    assert isinstance(endpoint, Endpoint)
    assert endpoint.reason is CloseReason.END_TOKEN
    assert endpoint.sample - spoken == 4 * HOP  # the least that is 100 ms


def test_speech_takes_the_end_token_back(lane: Lane) -> None:
    lane.wake()
    lane.say("turn on")
    lane.words("turn on", token=lane.now)
    lane.windows(1.0, SECOND // 2)
    assert lane.windows(0.0, SECOND // 2) == []
    assert reasons(lane.windows(0.0, SECOND)) == []
    assert isinstance(lane.events[-1], Endpoint)
    assert lane.events[-1].reason is CloseReason.SILENCE


def test_a_pause_goes_on_to_trailing_and_back(lane: Lane) -> None:
    lane.wake()
    lane.say("turn on")
    lane.windows(0.0, 1)
    assert lane.state() is State.TRAILING
    lane.windows(0.0, SECOND // 2)
    assert lane.windows(1.0, SECOND) == []  # speech starts once a turn
    assert lane.state() is State.HEARING
    assert lane.heart.open_turn == 1


def test_a_click_in_the_silence_does_not_begin_it_anew(lane: Lane) -> None:
    lane.wake()
    lane.say("turn on")
    spoken = lane.now
    lane.windows(0.0, SECOND // 2)
    lane.windows(1.0, 2)  # 64 ms, less than the least speech
    assert lane.state() is State.TRAILING
    lane.windows(0.0, SECOND)
    (endpoint,) = (event for event in lane.events if isinstance(event, Endpoint))
    assert 0 <= endpoint.sample - spoken - to_samples(700) < HOP


def test_a_short_word_counts_as_speech(lane: Lane) -> None:
    """E8: "stop" of 180 ms fills five windows."""
    lane.wake()
    lane.windows(0.0, 3)
    assert kinds(lane.windows(0.9, 5)) == [SpeechStarted]
    lane.words("stop")
    (endpoint,) = lane.windows(0.0, SECOND)
    assert isinstance(endpoint, Endpoint)
    assert endpoint.speech_end == 8 * HOP
    (order,) = lane.rewrites
    assert (order.first, order.last) == (0, 10 * HOP)  # the pad before it is cut at the turn's own start; asked for after 64 ms


def test_the_phrases_own_tail_is_not_speech(lane: Lane) -> None:
    """D8, in a voice that drags: the VAD lets go after the phrase's end as it was reckoned."""
    lane.wake(phrase_end=100)
    whole = (100 + to_samples(PHRASE_TAIL_MS) - 1) // HOP
    assert lane.windows(1.0, whole) == []
    assert lane.state() is State.AWAKE
    told = lane.windows(0.0, 6 * SECOND)
    assert reasons(told) == [CloseReason.NO_SPEECH]
    assert kinds(told) == [TurnClosed]


def test_words_right_after_the_phrase_are_speech_once_they_outlast_its_tail(lane: Lane) -> None:
    lane.wake(phrase_end=100)
    (started,) = lane.windows(1.0, SECOND // 2)
    assert isinstance(started, SpeechStarted)
    assert 0 <= started.sample - 100 - to_samples(PHRASE_TAIL_MS) < HOP
    lane.words("lights")
    lane.windows(0.0, SECOND)
    assert lane.rewrites[0].first == 100  # speech began with the turn, not before


def test_speech_that_was_heard_before_the_phrase_was_known_is_not_dated_back(lane: Lane) -> None:
    """A phrase given as text is told a chunk late: the VAD has heard what follows it."""
    lane.now = 40 * HOP
    lane.wake(phrase_end=20 * HOP)
    told = [event for at in range(21, 41) for event in lane.take(SpeechProbability(at * HOP, 1.0))]
    assert told == [SpeechStarted(lane.now, 1, 20 * HOP)]


def test_a_wake_into_silence_ends_after_five_seconds(lane: Lane) -> None:
    """D8: no final, and the machine sleeps for the other 25."""
    lane.wake()
    lane.last_word = "the"  # what a recognizer makes of silence when it is flushed
    told = lane.windows(0.0, 30 * SECOND)
    (closed,) = told
    assert isinstance(closed, TurnClosed)
    assert (closed.reason, closed.first) == (CloseReason.NO_SPEECH, 0)
    assert 0 <= closed.last - to_samples(5000) < HOP
    assert lane.rewrites == []


def test_noise_without_words_ends_without_a_final(lane: Lane) -> None:
    lane.wake()
    lane.windows(0.0, 2)
    lane.windows(1.0, SECOND)
    told = lane.windows(0.0, 2 * SECOND)
    assert kinds(told) == [TurnClosed]
    assert reasons(told) == [CloseReason.NO_TEXT]
    assert lane.rewrites == []


def test_the_flush_may_give_the_only_word(lane: Lane) -> None:
    lane.wake()
    lane.windows(0.0, 2)
    lane.windows(1.0, SECOND // 4)
    lane.last_word = "stop"
    (endpoint,) = lane.windows(0.0, 2 * SECOND)
    assert isinstance(endpoint, Endpoint)
    assert (endpoint.reason, endpoint.text) == (CloseReason.SILENCE, "stop")
    assert lane.rewrite("Stop.")[-1] == TurnClosed(lane.now, 1, CloseReason.SILENCE, 0, endpoint.sample)


@pytest.mark.parametrize("token", [False, True])
def test_a_word_that_the_flush_takes_back_was_none(lane: Lane, token: bool) -> None:
    """A recognizer's crumb of a sneeze: who reads "silence" or "end token" waits for a final."""
    lane.wake()
    lane.say("i")
    lane.words("i", token=lane.now if token else None)
    lane.text = ""
    told = lane.windows(0.0, 2 * SECOND)
    assert kinds(told) == [TurnClosed]
    assert reasons(told) == [CloseReason.NO_TEXT]
    assert lane.rewrites == []


def test_a_whisper_that_the_vad_does_not_hear_gets_its_final(lane: Lane) -> None:
    lane.wake()
    lane.windows(0.1, SECOND)
    lane.words("good night")
    (endpoint,) = lane.windows(0.1, 5 * SECOND)
    assert isinstance(endpoint, Endpoint)
    assert endpoint.reason is CloseReason.SILENCE
    assert (lane.rewrites[0].first, lane.rewrites[0].last) == (0, endpoint.sample)


def test_talk_that_does_not_stop_is_cut_at_the_limit(lane: Lane) -> None:
    """E1: a television goes on after the query."""
    lane.wake()
    lane.say("turn on the lights")
    told = lane.windows(1.0, 20 * SECOND)
    (endpoint,) = told
    assert isinstance(endpoint, Endpoint)
    assert endpoint.reason is CloseReason.TOO_LONG
    assert 0 <= endpoint.sample - to_samples(15_000) < HOP


def test_the_cap_holds_where_every_rule_is_turned_off() -> None:
    """E16."""
    lane = Lane(machine(token_threshold=1, silence_ms=1e9, no_text_ms=1e9, no_speech_ms=1e9, too_long_ms=1e9))
    lane.wake()
    lane.say("turn on the lights")
    (endpoint,) = lane.windows(1.0, 40 * SECOND)
    assert isinstance(endpoint, Endpoint)
    assert endpoint.reason is CloseReason.TOO_LONG
    assert 0 <= endpoint.sample - to_samples(HARD_CAP_MS) < HOP


def test_no_turn_ends_in_the_middle_of_a_sound(lane: Lane) -> None:
    """Which may become speech: the rule waits until it is over."""
    lane.wake()
    lane.say("turn on")
    lane.windows(0.0, 20)  # 640 ms
    assert lane.windows(1.0, 3) == []  # until 736
    assert kinds(lane.windows(0.0, 1)) == [Endpoint]


def test_a_turn_knows_nothing_of_the_sound_before_it(lane: Lane) -> None:
    """A voice of 0.4 goes on speaking but does not begin to."""
    into(State.HEARING, lane)
    lane.take(Cancel(lane.now))
    lane.windows(0.4, 1)
    lane.wake()
    assert lane.windows(0.4, SECOND) == []
    assert lane.state() is State.AWAKE


def test_a_window_that_was_heard_before_is_not_heard_again(lane: Lane) -> None:
    lane.now = 10 * HOP
    lane.wake()
    lane.say("turn on")
    spoken = lane.now
    for sample in range(11 * HOP, spoken + 1, HOP):  # the VAD was started again
        assert lane.take(SpeechProbability(sample, 0.0)) == []
    assert lane.state() is State.HEARING


# ── clients and the world ──────────────────────────────────────────────────────────────────────────────────────────────


def into(state: State, lane: Lane) -> None:
    if state is not State.ASLEEP:
        lane.wake()
    if state in (State.HEARING, State.TRAILING):
        lane.say("turn on")
    if state is State.TRAILING:
        lane.windows(0.0, 3)
    assert lane.heart.state is state


@pytest.mark.parametrize("state", State)
def test_cancel_in_every_state_then_wake(lane: Lane, state: State) -> None:
    """D10."""
    into(state, lane)
    told = lane.take(Cancel(lane.now))
    assert reasons(told) == ([CloseReason.CANCELLED] if state is not State.ASLEEP else [])
    assert lane.state() is State.ASLEEP
    assert lane.rewrites == []
    assert kinds(lane.wake()) == [Wake]
    lane.say("stop")
    assert kinds(lane.windows(0.0, SECOND)) == [Endpoint]


@pytest.mark.parametrize("state", State)
@pytest.mark.parametrize(("kind", "reason"), [(Stop, CloseReason.STOPPED), (AudioLost, CloseReason.AUDIO_LOST)])
def test_an_end_from_outside_gives_what_was_heard(lane: Lane, state: State, kind: type[Stop | AudioLost], reason: CloseReason) -> None:
    into(state, lane)
    told = lane.take(kind(lane.now))
    match state:
        case State.ASLEEP:
            assert told == []
        case State.AWAKE:  # nothing was said
            assert kinds(told) == [TurnClosed]
            assert reasons(told) == [reason]
        case _:
            assert kinds(told) == [Endpoint]
            assert reasons(lane.rewrite("Turn on.")) == [reason]
    assert lane.state() is State.ASLEEP


@pytest.mark.parametrize("state", [State.AWAKE, State.HEARING, State.TRAILING])
def test_a_wake_inside_a_turn_belongs_to_the_turn(lane: Lane, state: State) -> None:
    into(state, lane)
    assert lane.wake() == []
    assert lane.take(Trigger(lane.now)) == []
    assert (lane.heart.state, lane.heart.open_turn) == (state, 1)


def test_a_client_opens_a_turn_without_a_phrase(lane: Lane) -> None:
    assert lane.take(Trigger(700)) == [Wake(700, 1, "", 700, 1.0, "asked for by a client")]


def test_a_phrase_that_ends_later_than_it_is_known_can_be_stopped_at_once(lane: Lane) -> None:
    lane.now = 1000
    lane.wake(phrase_end=4000)
    assert lane.take(Stop(1000)) == [TurnClosed(1000, 1, CloseReason.STOPPED, 4000, 4000)]


# ── the second pass ────────────────────────────────────────────────────────────────────────────────────────────────────


def spoken_turn(lane: Lane, text: str = "turn on") -> None:
    lane.wake()
    lane.say(text)
    lane.windows(0.0, SECOND)


@pytest.mark.parametrize(
    ("text", "failure", "note"),
    [
        ("", "the second pass was late", "the second pass was late"),
        ("Words", "too long", "too long"),
        ("", "", "the second pass heard nothing"),
    ],
)
def test_a_second_pass_that_fails_leaves_the_first(lane: Lane, text: str, failure: str, note: str) -> None:
    spoken_turn(lane)
    final, closed = lane.rewrite(text, failure)
    assert isinstance(final, Final)
    assert (final.text, final.source, final.first_pass, final.note) == ("turn on", TextSource.FIRST_PASS, "turn on", note)
    assert isinstance(closed, TurnClosed)


def test_a_late_answer_is_ignored(lane: Lane) -> None:
    spoken_turn(lane)
    lane.rewrite("", "the second pass was late")
    assert lane.take(Rewritten(lane.now, 1, 1, "Turn on.")) == []
    assert lane.take(Rewritten(lane.now, 99, 1, "Turn on.")) == []
    lane.wake()
    assert lane.take(Rewritten(lane.now, 2, 1, "Not yet.")) == []  # nor is there an answer for an open turn


def test_a_final_is_not_dated_back(lane: Lane) -> None:
    """The answer carries the position of the question; the sound has gone on."""
    spoken_turn(lane)
    asked = lane.rewrites[0].sample
    lane.wake()
    lane.windows(0.0, SECOND)
    told = lane.take(Rewritten(asked, 1, 1, "Turn on."))
    assert [event.sample for event in told] == [lane.now] * 2


def test_without_a_second_pass_the_final_comes_with_the_endpoint() -> None:
    lane = Lane(machine(changed={"second_pass": False}))
    spoken_turn(lane)
    assert kinds(lane.events[-3:]) == [Endpoint, Final, TurnClosed]
    final = lane.events[-2]
    assert isinstance(final, Final)
    assert (final.text, final.source, final.note, final.measured) == ("turn on", TextSource.FIRST_PASS, "no second pass", {})


def test_the_next_turn_runs_while_finals_are_pending(lane: Lane) -> None:
    spoken_turn(lane, "turn on")
    spoken_turn(lane, "turn off")
    lane.wake()
    assert (lane.heart.open_turn, lane.heart.pending_turns) == (3, (1, 2))
    lane.rewrites.reverse()  # answers may come in any order
    final = lane.rewrite("Turn off.")[0]
    assert isinstance(final, Final)
    assert (final.turn, final.first_pass) == (2, "turn off")
    assert lane.heart.pending_turns == (1,)
    assert lane.state() is State.AWAKE


def test_the_second_pass_gets_the_speech_and_a_margin() -> None:
    lane = Lane(machine(changed={"speculative": False}))
    lane.wake()
    lane.windows(0.0, 20)
    lane.windows(1.0, 10)
    lane.words("turn on")
    lane.windows(0.0, SECOND)
    (order,) = lane.rewrites
    assert (order.first, order.last) == (20 * HOP - to_samples(100), 30 * HOP + to_samples(200))


def test_shutdown_gives_every_turn_its_final_now(lane: Lane) -> None:
    spoken_turn(lane, "turn on")
    spoken_turn(lane, "turn off")
    lane.wake()
    lane.say("good night")
    told = lane.take(Shutdown(lane.now))
    assert {event.turn: (event.text, event.source, event.note) for event in told if isinstance(event, Final)} == {
        turn: (text, TextSource.FIRST_PASS, "shutting down") for turn, text in ((1, "turn on"), (2, "turn off"), (3, "good night"))
    }
    assert reasons(told) == [CloseReason.SILENCE, CloseReason.SILENCE, CloseReason.SHUTDOWN]
    assert (lane.heart.open_turn, lane.heart.pending_turns) == (0, ())


def test_ids_go_on_with_the_next_source_and_begin_anew_after_reset() -> None:
    lane = Lane(machine(first_turn=1003, turn_step=8))
    spoken_turn(lane)
    lane.wake()
    lane.heart.next_source()
    assert (lane.heart.state, lane.heart.open_turn, lane.heart.pending_turns) == (State.ASLEEP, 0, ())
    lane.now = 0
    (wake,) = lane.wake()
    assert isinstance(wake, Wake)
    assert (wake.turn, wake.sample) == (1003 + 2 * 8, 0)
    lane.heart.reset()
    (wake,) = lane.wake()
    assert isinstance(wake, Wake)
    assert wake.turn == 1003
