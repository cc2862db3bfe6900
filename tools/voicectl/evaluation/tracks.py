"""When a model said what: arithmetic on the changes of one stream.

What lives here: the record of a stream, where its end token stands and since when, when its last word was there. What must not: sound,
files, models. Positions are samples at 16 kHz from the clip's start.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from voiced.api import Words, to_samples

EARLY = to_samples(240)
"""A token this far before the end of speech, or farther, is early: a model's token may stand on the last speech frame that it hears ahead
(160 ms of look-ahead and two frames of 40 ms), and the end itself is known to some tens of milliseconds."""


@dataclass(frozen=True, slots=True)
class Track:
    """What a model made of one stream.

    words        every change; the last is what it ended with
    decodes      where the encoder had an answer: positions of the last sample it had heard, ascending
    samples      length of the sound
    cpu_seconds  what the model took, this process's processor time
    """

    words: tuple[Words, ...]
    decodes: tuple[int, ...]
    samples: int
    cpu_seconds: float

    @property
    def text(self) -> str:
        return self.words[-1].text


@dataclass(frozen=True, slots=True)
class Ending:
    """A stream's end token against the true end of speech, in samples after it.

    stands  where the token stands that it ended with; None: it has none
    known   when that one was first told, never to be taken back
    early   a token stood too early, taken back or not
    """

    stands: int | None
    known: int | None
    early: bool

    def within(self, limit: int) -> bool:
        """Whether the end is announced by a token that stands there, or up to `limit` samples after it, and none came early."""
        return not self.early and self.stands is not None and self.stands <= limit


def _counts(words: Words, threshold: float) -> bool:
    return words.end_token is not None and words.log_probability >= threshold


def ending(track: Track, end: int, threshold: float) -> Ending:
    """end: where speech ends. A token whose log-probability is below `threshold` counts as none, as in the daemon."""
    early = any(word.end_token is not None and word.end_token <= end - EARLY for word in track.words if _counts(word, threshold))
    last = track.words[-1]
    if not _counts(last, threshold) or last.end_token is None:
        return Ending(None, None, early)
    known = last.sample
    for word in reversed(track.words):
        if word.end_token != last.end_token or not _counts(word, threshold):
            break
        known = word.sample
    return Ending(last.end_token - end, known - end, early)


def in_pause(track: Track, start: int, end: int, threshold: float) -> bool:
    """Whether a token stood in the pause [start, end), or on the last speech before it, taken back or not."""
    return any(word.end_token is not None and start - EARLY < word.end_token < end for word in track.words if _counts(word, threshold))


def last_word_known(track: Track) -> int | None:
    """When the partial came that has all the words of the final text; None without words. What changed after it was no word."""
    if not track.text:
        return None
    known = track.words[-1].sample
    for word in reversed(track.words):
        if word.text != track.text:
            break
        known = word.sample
    return known


def first_word_known(track: Track) -> int | None:
    """When the first partial came that has a word; None where there was none."""
    return next((word.sample for word in track.words if word.text), None)


def answerable(decodes: Sequence[int], end: int, lookahead: int) -> int | None:
    """The first decode that could know what ends at `end`: it has heard that and the look-ahead. None where no decode had."""
    return next((at for at in decodes if at >= end + lookahead), None)


def emission_delay(track: Track, end: int, lookahead: int) -> int | None:
    """How long after the first decode that could know it the last word came: what the wait for a chunk and the look-ahead do not explain.

    end: of the last word. Negative where the word was guessed before its end. None without words, or where the stream ended first.
    """
    known, possible = last_word_known(track), answerable(track.decodes, end, lookahead)
    return None if known is None or possible is None else known - possible
