"""What a text alone tells while it grows: whether more must come, and how much of it stays as it is.

What lives here: pure functions of texts. What must not: sound, positions, a decision (endpoint.py and turn.py make those).

An open end is known for English alone, from short lists of our own; they name words that a finished request cannot end in, so a word
that often ends one is left out even where it can also lead on: particles ("turn it on", "come in"), copulas ("what time it is"), "that",
"her". Missing an open end costs nothing but the usual silence; seeing one where there is none makes the speaker wait.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from dataclasses import dataclass


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_MORE_FOLLOWS = _words(
    # articles and determiners: their noun is missing
    "a an the my your our their every "
    # prepositions that are no particles: their noun is missing
    "about against at between by during for from into of onto per than to toward until via with without "
    # conjunctions: half of the sentence is missing
    "and although because but if or unless when whether while "
    # auxiliaries and contractions that want a verb or a complement
    "should would will must gonna i'm i'll i'd it's that's what's where's who's how's let's we're you're "
    # hesitations: the speaker is still looking for the word
    "um umm uh uhm er erm hmm"
)

_WANTS_OBJECT = _words("add ask call change create dial find give make put remind schedule search send set show switch tell text turn")
"""Verbs that are no request by themselves, as "play" and "stop" are."""

_DIGITS = _words("zero oh one two three four five six seven eight nine")
_NUMBERS = _DIGITS | _words(
    "ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen "
    "twenty thirty forty fifty sixty seventy eighty ninety hundred thousand"
)
_WANTS_UNIT = _words("timer countdown wait snooze")
"""With "for" and a number: of seconds, minutes or hours. An alarm "for seven" wants none."""
_WANTS_DIGITS = _words("call dial number code pin")
_BEFORE_A_TIME = _words("at to by until for past")
_LONG_NUMBER = 10
"""Digits after which a number that is dictated one by one may be whole."""
_POLITE = _words("please ok okay hey so well now can could you")


def ends_open(text: str) -> bool:
    """An English text that must go on: "set a timer for", "a timer for twenty", "r o b", "and um". False says nothing."""
    words = text.lower().replace("’", "'").strip(" .,!?…").split()
    if not words:
        return False
    if words[-1] in _MORE_FOLLOWS:
        return True
    asked = [word for word in words if word not in _POLITE]
    if asked and asked[0] in _WANTS_OBJECT and asked[1:] in ([], ["me"]):
        return True
    return _open_number(words)


def _open_number(words: list[str]) -> bool:
    """The text ends in a number that lacks its unit, or in digits or letters that are said one by one and may lack some."""
    before, number = _split(words, lambda word: word in _NUMBERS or word.isdecimal())
    if before and number and (before[-1] == "in" or (before[-1] == "for" and not _WANTS_UNIT.isdisjoint(before))):
        return True
    before, spelled = _split(words, lambda word: word in _DIGITS or word.isdecimal() or (len(word) == 1 and word.isascii()))
    said = sum(len(word) if word.isdecimal() else 1 for word in spelled)
    if not 0 < said < _LONG_NUMBER:
        return False
    clock = before and before[-1] in _BEFORE_A_TIME  # "at six oh five"
    return not before or not _WANTS_DIGITS.isdisjoint(before) or (len(spelled) > 1 and not clock)


def _split(words: list[str], belongs: Callable[[str], bool]) -> tuple[list[str], list[str]]:
    """Its end, of words that belong to it, and what stands before."""
    count = next((at for at, word in enumerate(reversed(words)) if not belongs(word)), len(words))
    return words[: len(words) - count], words[len(words) - count :]


def stable_prefix(before: str, after: str) -> int:
    """Code points at the start that two hypotheses in a row share, cut back to the end of a word.

    A word counts as ended where in both texts a space or nothing follows; in a script written without spaces any character ends one.
    """
    length = next((at for at, (one, other) in enumerate(zip(before, after, strict=False)) if one != other), min(len(before), len(after)))
    while length and not (_may_end(before, length) and _may_end(after, length)):
        length -= 1
    return len(after[:length].rstrip())


@dataclass(frozen=True, slots=True)
class Stable:
    """Of a text that grows: `length`, the code points at its start that stay, and how often a later text took some of them back."""

    length: int = 0
    flicker: int = 0

    def then(self, before: str, after: str) -> Stable:
        """After one text has followed another: more stays than did, unless the newer does not begin with what did."""
        shared = stable_prefix(before, after)
        if after.startswith(before[: self.length]):
            return Stable(max(self.length, shared), self.flicker)
        return Stable(shared, self.flicker + 1)


def _may_end(text: str, at: int) -> bool:
    following = text[at : at + 1]
    if not following or following.isspace() or text[at - 1].isspace():
        return True
    mark = unicodedata.category(following).startswith("M")  # belongs to the character before it
    return not mark and _unspaced(following) and _unspaced(text[at - 1])


def _unspaced(character: str) -> bool:
    """Of a script that is written without spaces: East Asian wide ones, Thai, Lao, Burmese, Khmer."""
    return (
        unicodedata.east_asian_width(character) in "WF"
        or "\u0e00" <= character <= "\u0eff"
        or ("\u1000" <= character <= "\u109f" or "\u1780" <= character <= "\u17ff")
    )
