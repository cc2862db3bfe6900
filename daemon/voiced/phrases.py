"""The knobs of the wake phrases, and what may not be said of one or of two at once.

What lives here: the section `wake`, with its entries, a trained head's or a text's, and the rules between them that need no
model. What must not: the file (settings.py), how a model spells a text (spelling.py).
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from .knobs import knob

MODEL = r"[a-z0-9][a-z0-9._-]{0,99}"
MODEL_FORM = "the id of a model (voicectl models list)"

HEAD_THRESHOLD, HEAD_HOPS = 0.5, 2
TEXT_THRESHOLD, TEXT_BOOST = 0.1, 2.0

HEAD_EVIDENCE = {"jarvis": -4.0}
"""Of heads that do better with a value of their own than with everybody's (models/wake/README.md)."""


def _told(values: Mapping[str, float]) -> str:
    return ", ".join(f"{value:g} of {name}" for name, value in values.items())


TEXT_LIMIT = 60
"""Characters of a text: what stage 2 looks back on has room for 1.5 s of speech, some 25."""

Broken = tuple[tuple[str, ...], str]
"""The keys a rule is about, the one to change first, and what must be."""


@dataclass(frozen=True, slots=True)
class PhraseSettings:
    """A wake phrase: a trained head's, or any text's. A 0 or a null becomes the usual value of its kind, or stays where that has none."""

    phrase: str = knob("", "Id of a head model, once in the list; or else text.", pattern=f"|{MODEL}", form=f'"" or {MODEL_FORM}')
    text: str = knob("", 'Words that no head was trained for, as they are said: "hey kitchen" (voicectl wake check rates them).')
    threshold: float = knob(
        0.0, f"Score that counts as heard; 0: {HEAD_THRESHOLD:g} of a head, {TEXT_THRESHOLD:g} of a text.", low=0, high=1, live=True
    )
    boost: float = knob(
        0.0, f"How far the search leans to each piece of a text; 0: {TEXT_BOOST:g}.", low=0, high=10, unit="natural logarithm", live=True
    )
    hops: int = knob(0, f"Scores of a head in a row, one every 80 ms, that must count; 0: {HEAD_HOPS}.", low=0, high=25, live=True)
    verify_evidence: float | None = knob(
        None,
        f"What counts for the second stage, of this phrase; null: {_told(HEAD_EVIDENCE)}, else wake.verify_evidence.",
        low=-30,
        high=5,
        unit="natural logarithm",
        live=True,
    )

    def __post_init__(self) -> None:
        usual = (TEXT_THRESHOLD, TEXT_BOOST, 0) if self.text else (HEAD_THRESHOLD, 0.0, HEAD_HOPS)
        for name, value in zip(("threshold", "boost", "hops"), usual, strict=True):
            object.__setattr__(self, name, getattr(self, name) or value)
        if self.verify_evidence is None and not self.text:  # of an evidence 0 is a value as others are
            object.__setattr__(self, "verify_evidence", HEAD_EVIDENCE.get(self.phrase))

    @property
    def name(self) -> str:
        """What events and clients call it."""
        return plain(self.text) if self.text else self.phrase


@dataclass(frozen=True, slots=True)
class WakeSettings:
    """The wake phrase, in two stages"""

    phrases: tuple[PhraseSettings, ...] = knob(
        (PhraseSettings("jarvis"),), "Phrases listened for; none: only clients open turns.", low=0, high=16, live=True
    )
    refractory_ms: float = knob(1500.0, "After a decision the phrase is not decided again for so long.", low=0, high=60_000, live=True)
    # over recordings of one word: 110 ms before its end at the median, 10 ms after it at the 95th percentile
    phrase_end_ms: float = knob(305.0, "The phrase is taken to end so long after the first score that counts.", low=0, high=1000, live=True)
    verifier: str = knob(
        "phrase", "The second stage: by the words' likelihood, or by how long the score stays up.", choices=("phrase", "score"), live=True
    )
    verify_evidence: float = knob(
        -4.7,
        "phrase: what counts where a phrase has none of its own: a piece's likelihood, a quarter of the weakest one's, half the log-odds.",
        low=-30,
        high=5,
        unit="natural logarithm",
        live=True,
    )
    verify_wait_ms: float = knob(
        400.0, "The second stage is asked so long after the first score that counts, to hear all.", low=0, high=1500, live=True
    )
    phrase_tail_ms: float = knob(
        190.0, "phrase: the phrase is taken to end so long after its last piece was heard.", low=0, high=1000, live=True
    )
    verify_hops: int = knob(3, "score: scores in a row, from the first that counts, that are wanted.", low=1, high=25, live=True)
    verify_threshold: float = knob(0.85, "score: what each of them must keep.", low=0, high=1, live=True)
    verify_speech: int = knob(
        8, "score: windows of 32 ms in the last 1.6 s that must be speech.", low=0, high=50, unit="windows", live=True
    )


def plain(text: str) -> str:
    """Words in lower case with one space between them."""
    return " ".join(unicodedata.normalize("NFKC", text).replace("-", " ").lower().split())


def heads(phrases: Sequence[PhraseSettings]) -> tuple[PhraseSettings, ...]:
    return tuple(entry for entry in phrases if not entry.text)


def texts(phrases: Sequence[PhraseSettings]) -> tuple[PhraseSettings, ...]:
    return tuple(entry for entry in phrases if entry.text)


def wrong_phrases(phrases: Sequence[PhraseSettings], key: str) -> Iterator[Broken]:
    """What is wrong with the entries of the list `key`, by themselves and together."""
    said: dict[str, str] = {}
    for at, entry in enumerate(phrases):
        mine, other = f"{key}[{at}].{'text' if entry.text else 'phrase'}", f"{key}[{at}].{'phrase' if entry.text else 'text'}"
        if bool(entry.phrase) == bool(entry.text):
            yield (mine, other), "each entry must have one of phrase and text"
            continue
        if entry.text and (wrong := unsayable(entry.text)):
            yield (mine,), f"must be words as they are said, {wrong}"
        if entry.text and entry.hops:
            yield (f"{key}[{at}].hops", mine), "hops are a head's: a text must have none"
        if not entry.text and entry.boost:
            yield (f"{key}[{at}].boost", mine), "boost is a text's: a head must have none"
        if entry.threshold < 0.01:
            yield (f"{key}[{at}].threshold",), "must be 0 (the usual one) or at least 0.01"
        if (same := said.setdefault(plain(entry.name), mine)) != mine:
            yield (mine, same), "each phrase must be in the list once, as a head or as a text"


def unsayable(text: str) -> str:
    """Why nobody knows how to say it: "" for words of letters, with ' and - in them. A figure may be said in several ways."""
    for character in text:
        if unicodedata.category(character)[0] not in "LM" and character not in " '’-":
            return f"spelled out; {character!r} is none of theirs"
    if not any(map(str.isalpha, text)):
        return "of letters"
    return f"of at most {TEXT_LIMIT} characters" if len(text) > TEXT_LIMIT else ""
