"""Whether a second pass's text is believed.

What lives here: measures of a text against its sound and against the first pass, and the limits they are held to. What must not: a model,
sound, a list of phrases that models are known to invent. An encoder-decoder writes fluent text for any sound: for music it loops, for
noise it thanks the listener. It cannot know; but what it writes then is too much for the speech there was, or repeats itself, or has
nothing to do with what the first pass heard, which is a transducer, bound to the frames, and makes only crumbs of noise.

The limits are calibrated on recorded speech (`voicectl asr guard` prints what they refuse there, and what they let through of noise).
"""

from __future__ import annotations

import re
import unicodedata
import zlib
from collections import Counter
from dataclasses import dataclass, fields
from enum import Enum

from .events import Rewritten


class Refused(Enum):
    """Why a text is not believed. The values are published, as names of counts too: they may grow, never change."""

    NO_WORDS = "no words"
    TOO_LONG = "too long"
    REPEATS = "repeats"
    UNSURE = "unsure"
    UNLIKE = "unlike"


@dataclass(frozen=True, slots=True)
class Refusal:
    """`note` is one line: the figure and the limit."""

    reason: Refused
    note: str


@dataclass(frozen=True, slots=True)
class Limits:
    """What a text may be; measured with `voicectl asr guard`.

    characters_per_s  letters and figures a second of speech, beyond SLACK of them: recorded speech has up to 18
    compression       bytes of the text to bytes of it compressed: Whisper's own limit (Radford et al. 2022, 4.5); speech has at most 1.5
    log_probability   natural logarithm, mean over its tokens, where the engine tells it: Whisper's own limit
    likeness          to the first pass's text: a right text has more, though half of the first pass's words are wrong; of texts of
                      another recording one in twenty has it
    """

    characters_per_s: float = 25.0
    compression: float = 2.4
    log_probability: float = -1.0
    likeness: float = 0.3


SLACK = 15
"""Letters that need no time: a VAD cuts a short word's ends, and "yes, please" is longer than what it leaves of it."""

LOOPS = 4
"""So often one after the other nobody says the same letters, unless the first pass heard it too: "no, no, no" is said."""

_LOOP = re.compile(rf"(.{{1,40}}?)\1{{{LOOPS - 1},}}")

FIGURE = 4
"""Letters of the first pass that a figure of the second is as good as: one writes 25, the other "twenty five"."""

SHORTEST = 4
"""Letters that any text counts for at the least: one that "so" and "on" share is no likeness."""

CRUMB_LETTERS, CRUMB_SPEECH_S = 8, 0.5
CRUMB_CONFIDENCE, CRUMB_CONFIDENCE_UNSPOKEN = 0.3, 0.5
"""What a transducer makes of noise is less than each of these: "he", "on", "the man"; where the VAD has no speech at all, "now" of a dog's
bark may be more confident. A word that somebody said has more of one of them, or a second pass that agrees: whispers and voices from afar
have as little confidence, but more words."""


NOTHING = "the second pass heard nothing"


def letters(text: str) -> str:
    """Letters and figures alone, in one case and one form: what is compared."""
    return "".join(letter for letter in unicodedata.normalize("NFKC", text).casefold() if letter.isalnum())


def is_crumb(first_pass: str, *, confidence: float | None, speech_s: float) -> bool:
    """Whether the first pass's text may be noise alone, by so little sign of speech that it wants a second pass that agrees.

    confidence  of the first pass (events.Final); None where it tells none: then it is trusted
    """
    least = CRUMB_CONFIDENCE if speech_s else CRUMB_CONFIDENCE_UNSPOKEN
    doubtful = confidence is not None and confidence < least
    return doubtful and speech_s < CRUMB_SPEECH_S and len(letters(first_pass)) < CRUMB_LETTERS


def refusal(
    text: str, *, first_pass: str, speech_s: float, log_probability: float | None = None, limits: Limits = Limits()
) -> Refusal | None:
    """None where the text is believed; the first of the reasons where it is not.

    first_pass       the first pass's whole text of the same sound
    speech_s         seconds of speech in it, as the VAD has it
    log_probability  mean over the text's tokens; None where the engine tells none
    """
    found, first = letters(text), letters(first_pass)
    if not found:  # notes of music and dots, too
        return Refusal(Refused.NO_WORDS, NOTHING)
    longest = SLACK + limits.characters_per_s * speech_s
    if len(found) > longest:
        return Refusal(Refused.TOO_LONG, f"{len(found)} letters, at most {longest:.0f} are said in {speech_s:.1f} s of speech")
    if (times := compression(text)) > limits.compression:
        return Refusal(Refused.REPEATS, f"it compresses {times:.1f} times, at most {limits.compression:g}")
    if (same := loop(found)) and not loop(first):
        return Refusal(Refused.REPEATS, f"it says {len(same)} letters {LOOPS} times in a row, the first pass does not")
    if log_probability is not None and log_probability < limits.log_probability:
        return Refusal(Refused.UNSURE, f"mean log-probability {log_probability:.2f}, at least {limits.log_probability:g}")
    if (like := likeness(found, first)) < limits.likeness:
        return Refusal(Refused.UNLIKE, f"likeness to the first pass {like:.2f}, at least {limits.likeness:g}")
    return None


@dataclass(frozen=True, slots=True)
class Heard:
    """What is known of a turn's sound besides the second pass's text.

    confidence  of the first pass; None where it tells none
    speech_s    seconds of speech, as the VAD has it; words_s: from the first pass's first word to its last, where it gives times
    """

    first_pass: str
    confidence: float | None
    speech_s: float
    words_s: float


@dataclass(frozen=True, slots=True)
class Verdict:
    """note: why the first pass's text is the final, empty where the second's is; refused: a Refused's value, or empty; noise: neither is,
    since nobody said anything."""

    note: str = ""
    refused: str = ""
    noise: bool = False


@dataclass(frozen=True, slots=True)
class GuardStatistics:
    believed: int
    no_words: int
    too_long: int
    repeats: int
    unsure: int
    unlike: int
    noise: int
    """Turns that end without a text, though the first pass has a crumb of one."""


class Guard:
    """Judges the answers of one lane's turns, and counts. The same answers get the same verdicts."""

    def __init__(self) -> None:
        self._tally: Counter[str] = Counter()

    def judge(self, answer: Rewritten, heard: Heard, *, second_pass: bool, strict: bool) -> Verdict:
        """second_pass: there is one, so that a crumb can be asked about; strict: by the measures, else every text is believed."""
        crumb = strict and is_crumb(heard.first_pass, confidence=heard.confidence, speech_s=heard.speech_s)
        if answer.failure:  # it costs the second pass, never what somebody said
            return self._noise() if crumb and not second_pass and not heard.speech_s else Verdict(answer.failure)
        if not strict:
            return Verdict("" if answer.text else NOTHING)
        spoken_s = max(heard.speech_s, heard.words_s)  # of a whisper the VAD may have nothing
        found = refusal(answer.text, first_pass=heard.first_pass, speech_s=spoken_s, log_probability=answer.log_probability)
        self._tally[found.reason.name.lower() if found else "believed"] += 1
        if found is None:
            return Verdict()
        return self._noise() if crumb else Verdict(found.note, found.reason.value)

    def _noise(self) -> Verdict:
        self._tally["noise"] += 1
        return Verdict(noise=True)

    def statistics(self) -> GuardStatistics:
        return GuardStatistics(**{item.name: self._tally[item.name] for item in fields(GuardStatistics)})


def compression(text: str) -> float:
    """Bytes of a text to bytes of it compressed: 1 to 1.5 of speech, more of a loop. A short text hardly compresses whatever it says."""
    plain = text.encode()
    return len(plain) / len(zlib.compress(plain))


def loop(text: str) -> str:
    """What the text says LOOPS times in a row or more, "" where nothing: "you" of "youyouyouyou". Longer loops compress."""
    found = _LOOP.search(text)
    return found[1] if found else ""


def likeness(text: str, first: str) -> float:
    """1 for the same letters, 0 for none in common: one less the edit distance, a share of the longer text. Of what `letters` gives.

    It bears a weak first pass, which hears most sounds of a word that it gets wrong.
    """
    plain = "".join(letter for letter in text if not letter.isdecimal())
    if text == first or not plain:
        return 1.0
    figures = min(FIGURE * (len(text) - len(plain)), max(0, len(first) - len(plain)))
    longer = max(len(plain) + figures, len(first))
    return max(0, longer - distance(plain, first) + figures) / max(longer, SHORTEST)


def distance(one: str, other: str) -> int:
    """Letters put in, left out or exchanged that make one text the other, at least (Levenshtein).

    A column at once, as the bits of an integer (Myers, J. ACM 46, 1999; Hyyrö, "A bit-vector algorithm for computing Levenshtein
    and Damerau edit distances", 2003).
    """
    if not one:
        return len(other)
    every, last = (1 << len(one)) - 1, 1 << len(one) - 1
    places: dict[str, int] = {}
    for at, letter in enumerate(one):
        places[letter] = places.get(letter, 0) | 1 << at
    count, more, less = len(one), every, 0  # of the last row; rows that have one more, or less, than the row above
    for letter in other:
        same = places.get(letter, 0)
        kept = ((same & more) + more ^ more) | same | less
        right, left = less | every & ~(kept | more), kept & more  # the same along the row
        count += bool(right & last) - bool(left & last)
        right, left = right << 1 | 1, left << 1
        more, less = (left | ~(kept | right)) & every, right & kept & every
    return count
