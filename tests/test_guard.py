"""The guard: what an encoder-decoder writes for noise is refused, what it writes for speech is believed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from voiced.guard import LOOPS, Limits, Refusal, Refused, compression, distance, is_crumb, letters, likeness, loop, refusal

SAID = ["turn", "on", "the", "lights", "what", "time", "is", "it", "five", "no", "please"]
WORDS = st.lists(st.sampled_from(SAID), min_size=1, max_size=8).map(" ".join)


def reason(text: str, first_pass: str, speech_s: float, log_probability: float | None = None) -> Refused | None:
    found = refusal(text, first_pass=first_pass, speech_s=speech_s, log_probability=log_probability)
    return found.reason if found else None


@pytest.mark.parametrize(
    ("text", "first_pass", "speech_s"),
    [
        ("Turn on the lights in the kitchen.", "turn on the light in the kitchen", 1.6),
        ("Earth and gravel seemed to fill the pan.", "fierson grable seemed to fill the pay", 2.1),  # a weak first pass
        ("Set a timer for 25 minutes.", "set a timer for twenty five minutes", 1.5),
        ("4155550134", "four one five five five five oh one three four", 4.0),
        ("No, no, no, no, no!", "no no no no no", 1.8),
        ("Stop.", "top", 0.2),
        ("Yes, please.", "yes please", 0.35),
        ("打开客厅的灯", "打开客厅的等", 1.2),
        ("Привет, включи свет.", "привет включи свет", 1.3),
    ],
)
def test_speech_is_believed(text: str, first_pass: str, speech_s: float) -> None:
    assert refusal(text, first_pass=first_pass, speech_s=speech_s) is None


@pytest.mark.parametrize(
    ("text", "first_pass", "speech_s", "why"),
    [
        ("", "he", 0.4, Refused.NO_WORDS),
        ("♪♪ ♪♪ ♪♪", "he", 0.4, Refused.NO_WORDS),
        (" . . . ", "he", 0.4, Refused.NO_WORDS),
        ("Thank you for watching!", "you", 0.4, Refused.UNLIKE),
        ("Thank you.", "ha", 0.3, Refused.UNLIKE),
        ("You", "he", 0.3, Refused.UNLIKE),
        ("I'm going to show you how to make a little bit of a difference.", "on", 0.3, Refused.TOO_LONG),
        ("youyouyouyou", "you", 0.5, Refused.REPEATS),
        ("You can use the button to use the button to use the button to use the button to use it.", "you", 9.0, Refused.REPEATS),
    ],
)
def test_what_is_written_for_noise_is_refused_without_a_list_of_it(text: str, first_pass: str, speech_s: float, why: Refused) -> None:
    assert reason(text, first_pass, speech_s) is why


def test_a_long_loop_compresses() -> None:
    sentence = "the first one is the first one of the first ones that we have seen today, and "
    assert loop(letters(sentence * 6)) == ""  # longer than what is looked for letter by letter
    assert reason(sentence * 6, sentence, 60.0) is Refused.REPEATS
    assert compression("Could you please turn on the lights in the kitchen and close the blinds?") < 1.5


def test_a_doubtful_text_is_refused_where_the_engine_says_so() -> None:
    told = refusal("turn on", first_pass="turn on", speech_s=1.0, log_probability=-1.25)
    assert told == Refusal(Refused.UNSURE, "mean log-probability -1.25, at least -1")
    assert refusal("turn on", first_pass="turn on", speech_s=1.0, log_probability=-0.9) is None


def test_a_refusal_has_its_figure_and_its_limit() -> None:
    limits = Limits(characters_per_s=10.0, likeness=0.5)
    long = refusal("a" + "bcdefghijk" * 3, first_pass="abc", speech_s=0.5, limits=limits)
    assert long == Refusal(Refused.TOO_LONG, "31 letters, at most 20 are said in 0.5 s of speech")
    unlike = refusal("lights", first_pass="li", speech_s=1.0, limits=limits)
    assert unlike == Refusal(Refused.UNLIKE, "likeness to the first pass 0.33, at least 0.5")


def slowly(one: str, other: str) -> int:
    """The textbook's table."""
    before = list(range(len(other) + 1))
    for count, letter in enumerate(one, 1):
        row = [count]
        for at, same in enumerate(other):
            row.append(min(before[at] + (letter != same), before[at + 1] + 1, row[at] + 1))
        before = row
    return before[-1]


@given(st.text("abc", max_size=70), st.text("abc", max_size=70))
def test_the_distance_is_levenshteins(one: str, other: str) -> None:
    assert distance(one, other) == slowly(one, other)


@given(st.text("abcd5", max_size=20), st.text("abcd", max_size=20))
def test_likeness_is_a_share_and_one_of_the_same(text: str, first: str) -> None:
    assert 0 <= likeness(text, first) <= 1
    assert likeness(first, first) == 1


def test_a_figure_stands_for_letters() -> None:
    assert likeness("seta25minutetimer", "setatwentyfiveminutetimer") > 0.9
    assert likeness("call4155550134", "callfouronefivefivefivefiveohonethreefour") > 0.9
    assert likeness("25", "twentyfive") == likeness("4", "four") == 1


@pytest.mark.parametrize(
    ("first_pass", "confidence", "speech_s", "crumb"),
    [
        ("he", 0.2, 0.0, True),  # of a baby's cry
        ("the man", 0.11, 0.0, True),  # of music
        ("you", 0.26, 0.38, True),  # of music, too
        ("for", 0.3, 0.0, True),  # "four", too short for the VAD: the second pass has to agree
        ("now", 0.38, 0.0, True),  # of a dog's bark
        ("i", 0.39, 0.38, False),  # "A"
        ("stop", 0.6, 0.0, False),
        ("stop", 0.25, 0.6, False),
        ("turlent the hars", 0.16, 0.0, False),  # at -60 dBFS
        ("he", None, 0.0, False),  # of a recognizer that tells no probabilities
    ],
)
def test_a_crumb_has_little_of_everything(first_pass: str, confidence: float | None, speech_s: float, crumb: bool) -> None:
    assert is_crumb(first_pass, confidence=confidence, speech_s=speech_s) is crumb


@given(st.text(min_size=1, max_size=8), st.integers(1, 9))
def test_a_loop_is_found_wherever_it_stands(said: str, times: int) -> None:
    assert bool(loop(f"<{said * times}>")) or times < LOOPS or "\n" in said
    assert not loop("abcdefghijklmnopqrstuvwxyz")


@given(WORDS, st.floats(0.5, 10))
def test_a_text_that_both_passes_heard_is_believed_in_any_spelling(said: str, slow: float) -> None:
    speech_s = len(said) / 25 * slow + 0.5
    assert refusal(said.upper() + "!", first_pass=said.lower(), speech_s=speech_s) is None


@given(st.text(max_size=40), st.text(max_size=40), st.floats(0, 30))
def test_any_text_has_an_answer(text: str, first_pass: str, speech_s: float) -> None:
    found = refusal(text, first_pass=first_pass, speech_s=speech_s)
    assert found is None or found.note
    assert letters(text) or found is not None
