"""What a growing text tells: open ends in English, and the part of it that stays."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from voiced.wording import Stable, ends_open, stable_prefix

OPEN = (
    "set a timer for", "turn on the", "what is the weather in my", "remind me to", "play something by", "lights off and", "call mom if",
    "what's", "tell me what's", "set a timer for twenty", "set a timer for 20", "turn off the lights in five", "please call", "call",
    "okay remind me", "can you please set", "call five five five", "my number is four one five", "i want um", "uh", "Set a timer for…",
    "seven", "seven nine", "my name is r o b", "the code has a b three",
)  # fmt: skip
DONE = (
    "", "turn it on", "switch the light off", "come in", "what time is it", "tell me what time it is", "call mom", "stop", "play", "yes",
    "set a timer for twenty minutes", "set an alarm for seven", "set the volume to five", "turn on the lights in the kitchen",
    "call four one five five five five zero one two three", "i think so", "do that", "twenty five", "never mind", "可以", "打开灯", "好 的",
    "wake me at six oh five", "nine one two three four five six seven eight nine", "do i",
)  # fmt: skip


@pytest.mark.parametrize("text", OPEN)
def test_what_must_go_on_ends_open(text: str) -> None:
    assert ends_open(text)


@pytest.mark.parametrize("text", DONE)
def test_what_may_be_whole_does_not(text: str) -> None:
    assert not ends_open(text)


@pytest.mark.parametrize(
    ("before", "after", "stays"),
    [
        ("", "turn", ""),
        ("turn", "turn on", "turn"),
        ("turn on the kit", "turn on the kitchen", "turn on the"),  # a word that still grows
        ("turn on the lights", "turn off the lights", "turn"),
        ("turn on", "turn", "turn"),
        ("turned", "turn", ""),
        ("打开", "打开灯", "打开"),  # no spaces: each character may end a word
        ("打开 the kit", "打开 the kitchen", "打开 the"),
        ("ส", "ส\u0e35", ""),  # its vowel sign belongs to the letter
    ],
)
def test_what_two_hypotheses_agree_on_up_to_the_end_of_a_word(before: str, after: str, stays: str) -> None:
    assert after[: stable_prefix(before, after)] == stays


texts = st.text(st.sampled_from("ab 灯\u0e2a\u0e35"), max_size=12)


@given(texts, texts)
def test_a_stable_prefix_is_shared_and_ends_no_word_early(before: str, after: str) -> None:
    length = stable_prefix(before, after)
    assert before[:length] == after[:length]
    assert not length or not after[length - 1].isspace()
    for text in (before, after):
        assert not (length and text[length - 1 : length].isascii() and text[length : length + 1].isalpha() and text[length].isascii())


@given(st.lists(texts, max_size=8))
def test_what_stays_never_shrinks_but_where_a_text_contradicts_it(hypotheses: list[str]) -> None:
    """B8: each such time is counted."""
    stable, flicker = Stable(), 0
    for before, after in pairwise(["", *hypotheses]):
        was, stable = stable, stable.then(before, after)
        contradicted = not after.startswith(before[: was.length])
        flicker += contradicted
        assert stable.length <= len(after)
        assert contradicted or stable.length >= was.length
    assert stable.flicker == flicker
