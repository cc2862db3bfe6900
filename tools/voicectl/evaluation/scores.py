"""Words against words, and how sure a figure is.

What lives here: the one rule by which texts are compared, word errors (counted by jiwer), slots, and intervals. What must not: sound,
files, models. Everything is a function of its arguments; chance comes from a seed.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

DRAWS = 1000
"""Bootstrap samples of an interval: its ends then move by some hundredths of its width from seed to seed."""

_NORMAL_95 = 1.959964
"""Standard deviations around the mean that hold 95 % of a normal distribution."""


def normalised(text: str) -> str:
    """The form in which a reference and what was heard are compared: lower case; a curly apostrophe is a straight one, and stays inside a
    word ("what's") but not at its edge ("'tis"); hyphens and dashes part words; other punctuation goes; one space between words. Numbers
    stay as they are written: "five" is not "5"."""
    plain = re.sub(r"[’ʼ`]", "'", text.lower())
    words = re.sub(r"[^\w']|_", " ", plain).split()
    return " ".join(word for raw in words if (word := raw.strip("'")))


def no_reference(text: str) -> str:
    """Why a text cannot be a reference, "" where it can: it is empty, or has figures, which may be said in several ways."""
    if not normalised(text):
        return "its text is empty"
    figures = re.search(r"\S*\d\S*", text)
    return f"its text has {figures[0]!r}, which may be said in several ways" if figures else ""


@dataclass(frozen=True, slots=True)
class WordErrors:
    """Of one clip. `words` are the reference's."""

    substitutions: int
    deletions: int
    insertions: int
    words: int

    @property
    def count(self) -> int:
        return self.substitutions + self.deletions + self.insertions


def word_errors(reference: str, heard: str) -> WordErrors:
    """Of two texts, which are normalised here. Raises ValueError where the reference has no words."""
    import jiwer

    wanted = normalised(reference)
    if not wanted:
        raise ValueError("word_errors wants a reference that has words")
    found = jiwer.process_words(wanted, normalised(heard))
    return WordErrors(found.substitutions, found.deletions, found.insertions, len(wanted.split()))


def slots_found(slots: Iterable[str], heard: str) -> int:
    """How many slot values stand in the text, as whole words in their order."""
    text = f" {normalised(heard)} "
    return sum(f" {normalised(slot)} " in text for slot in slots)


@dataclass(frozen=True, slots=True)
class Rate:
    """part / whole, summed over clips, and its 95 % interval over clips."""

    value: float
    low: float
    high: float
    part: int
    whole: int
    clips: int


def rate(counts: Sequence[tuple[int, int]], seed: int) -> Rate | None:
    """(part, whole) of each clip → their rate; None where there is nothing to divide by. The same seed gives the same interval.

    The percentile bootstrap over clips, since errors within a clip hang together (Bisani and Ney 2004).
    """
    table = np.array(counts, np.int64).reshape(-1, 2)
    part, whole = (int(total) for total in table.sum(0))
    if not whole:
        return None
    drawn = table[np.random.default_rng(seed).integers(len(table), size=(DRAWS, len(table)))].sum(1)
    drawn = drawn[drawn[:, 1] > 0]
    low, high = np.quantile(drawn[:, 0] / drawn[:, 1], [0.025, 0.975])
    return Rate(part / whole, float(low), float(high), part, whole, len(table))


def share(answers: Sequence[bool]) -> Rate | None:
    """The share of clips of which something is true; None of no clips.

    Wilson's interval (1927): a bootstrap of none in four says "0 to 0".
    """
    n, part = len(answers), sum(answers)
    if not n:
        return None
    value, z = part / n, _NORMAL_95
    middle = (value + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * math.sqrt(value * (1 - value) / n + z * z / (4 * n * n))
    return Rate(value, max(middle - half, 0.0), min(middle + half, 1.0), part, n, n)


@dataclass(frozen=True, slots=True)
class Spread:
    """Median and 90th percentile (linear between neighbours), milliseconds."""

    median_ms: float
    p90_ms: float
    clips: int


def spread(milliseconds: Sequence[float]) -> Spread | None:
    """None where there are no values."""
    if not milliseconds:
        return None
    median, p90 = np.quantile(milliseconds, [0.5, 0.9])
    return Spread(float(median), float(p90), len(milliseconds))
