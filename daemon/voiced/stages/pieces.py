"""Text → the pieces of a model's own vocabulary, as its training wrote them.

What lives here: the merges of a byte-pair vocabulary (bpe.vocab: a piece, a tab, its score), and the numbers that a model's tokens.txt
gives to pieces. What must not: sound, models. Pure, but for the reading of the two files.

Byte-pair encoding (Sennrich, Haddow and Birch 2016) as sentencepiece does it: of all neighbours whose join is a piece, those with
the highest score are joined, the leftmost first, until none is left. sentencepiece itself is not needed for that.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path

from ..errors import ModelError, reason_of

WORD_START = "▁"


class Pieces:
    """Spells texts. Without state; from any thread.

    scores   piece → its score; a join with a higher one goes first
    numbers  piece → its number in the model
    """

    def __init__(self, scores: Mapping[str, float], numbers: Mapping[str, int]) -> None:
        self.numbers = dict(numbers)
        self._scores = dict(scores)
        # the texts that it learned from were all in one case, which its pieces tell; <blk> and its like are no text
        letters = "".join(piece for piece in numbers if not piece.startswith("<"))
        self._upper = letters.upper() == letters and letters.lower() != letters
        self._lower = letters.lower() == letters and letters.upper() != letters

    @classmethod
    def read(cls, vocabulary: Path, tokens: Path) -> Pieces:
        """bpe.vocab and tokens.txt of one model. Raises ModelError, with the line, where one cannot be read."""
        return cls(dict(_rows(vocabulary, "\t")), cls.read_numbers(tokens))

    @staticmethod
    def read_numbers(tokens: Path) -> dict[str, int]:
        """piece → its number, of a tokens.txt. Raises as `read`."""
        return {piece: int(number) for piece, number in _rows(tokens, " ")}

    def spell(self, text: str) -> tuple[str, ...]:
        """The pieces of a text, spaces and case brought to what the model has. Raises ValueError for what it cannot spell."""
        words = unicodedata.normalize("NFKC", text).split()
        plain = "".join(WORD_START + word for word in words)
        cased = plain.upper() if self._upper else plain.lower() if self._lower else plain
        pieces = _merged(list(cased), self._scores)
        strange = sorted({piece for piece in pieces if piece not in self.numbers})
        if strange or not pieces:
            lack = "it has no word" if not pieces else f"the model has no piece for {', '.join(map(repr, strange))}"
            raise ValueError(f"{text!r} cannot be spelled: {lack}")
        return tuple(pieces)

    def rarity(self, piece: str) -> float:
        """0 for the piece that was joined first, towards 1 for those learned last and for single letters."""
        return sum(score > self._scores[piece] for score in self._scores.values()) / len(self._scores)

    def encode(self, text: str) -> tuple[tuple[int, ...], ...]:
        """The numbers of each of `spell`'s pieces: its own, and that of what sounds the same, with or without the mark of a word's
        beginning, where the model has it. Raises as `spell` does."""
        return tuple(tuple(self.numbers[form] for form in (piece, _other(piece)) if form in self.numbers) for piece in self.spell(text))


def _other(piece: str) -> str:
    return piece.removeprefix(WORD_START) if piece.startswith(WORD_START) else WORD_START + piece


def _merged(symbols: list[str], scores: Mapping[str, float]) -> list[str]:
    """A phrase has some dozen letters, so the best pair is looked for anew after each join."""
    while True:
        pairs = [left + right for left, right in pairwise(symbols)]
        joins = [(-scores[pair], at) for at, pair in enumerate(pairs) if pair in scores]
        if not joins:
            return symbols
        at = min(joins)[1]
        symbols[at : at + 2] = [symbols[at] + symbols[at + 1]]


def _rows(path: Path, between: str) -> Iterator[tuple[str, float]]:
    """What stands before and after the last `between` of each line."""
    advice = "check it with: voicectl models verify"
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ModelError(str(path), f"cannot be read: {reason_of(error)}", advice) from None
    for number, line in enumerate(lines, 1):
        piece, found, value = line.rpartition(between)
        try:
            yield piece, float(value)
        except ValueError:
            found = ""
        if not (piece and found):
            raise ModelError(
                f"{path}:{number}", f"must be a piece and a number; got {line[:80]!r}", "check it with: voicectl models verify"
            )
