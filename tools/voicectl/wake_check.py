"""`voicectl wake check`: will this phrase do as a wake phrase given by its text? It is rated before anybody uses it; no sound is heard.

What lives here: the command, and the figures behind its answer: pieces, syllables, what sounds alike. What must not: how a text is spelled
or heard (voiced). Exit codes: 0 it will do; 1 it is weak, and the answer says what to do; 2 it cannot be said or spelled; 66 the model is
missing; 78 the settings, whose other phrases it is held against, are wrong.

Sounds are guessed from letters by a few rules of English, so "alike" is a hint and not a measurement: `voicectl wake eval` measures.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from voiced.api import TEXT_BOOST, TEXT_THRESHOLD, UsageError, default_library, find_config, phrase_words, read_settings, unsayable

if TYPE_CHECKING:
    from voiced.api import Pieces

Rating = Literal["good", "fair", "poor"]

LEAST_SYLLABLES = 3
"""Shorter phrases are part of much that is said: with two, a wake in an hour of talk is to be expected."""

RARE = 0.92
"""Of a vocabulary's ranks: pieces beyond it are its rarest letters, of which a model has heard little."""

SAME, ALIKE, NEAR = 0.1, 0.2, 0.34
"""Distances of sounds: up to the first nobody tells two phrases apart, up to the others a model often, or now and then, does not."""

LONG = 16
"""Pieces: some six words, for a model whose pieces are short."""

_NEAR_SHOWN = 4


def arguments(one: argparse.ArgumentParser) -> None:
    """Adds the options of `wake check`."""
    one.add_argument("phrase", metavar="PHRASE", nargs="+", help='what shall wake, as one says it: "hey kitchen"; or several, each rated')
    one.add_argument("--config", metavar="FILE", type=Path, help="settings whose phrases it is held against (default: the daemon's)")
    one.add_argument("--path", metavar="DIR", default="", help="folder that is searched for models first (the setting models.path)")
    one.add_argument("--json", action="store_true", help="one JSON object a phrase")


@dataclass(frozen=True, slots=True)
class Likeness:
    """A phrase that sounds like the one rated: `distance` from 0, the same sounds, to 1; `configured`: the settings have it."""

    text: str
    distance: float
    configured: bool = False


@dataclass(frozen=True, slots=True)
class Report:
    """What is known of a phrase as a text. `rare`: those of its pieces that the model has heard little of; `boost` and `threshold`: to
    begin with; `head`: the id of one that was trained for the phrase, or empty."""

    phrase: str
    rating: Rating
    pieces: tuple[str, ...]
    rare: tuple[str, ...]
    syllables: int
    near: tuple[Likeness, ...]
    notes: tuple[str, ...]
    boost: float
    threshold: float
    head: str = ""


def check(options: argparse.Namespace) -> int:
    """Rates phrases and prints what it found. Raises VoicedError."""
    from voiced.api import speller

    settings = read_settings(find_config(options.config))
    library = default_library(options.path or settings.models.path)
    pieces = speller(library, settings.models.wake_text)
    heads = {phrase_words(model.id): model.id for model in library.models() if model.role == "wake-head"}
    configured = [entry.name.replace("-", " ") for entry in settings.wake.phrases]
    reports = [replace(rate(phrase, pieces, configured), head=heads.get(phrase, "")) for phrase in map(said, options.phrase)]
    for report in reports:
        print(json.dumps(asdict(report), ensure_ascii=False) if options.json else told(report))
    return int(any(report.rating == "poor" for report in reports))


def said(phrase: str) -> str:
    """In lower case, one space between words. Raises UsageError for what nobody can say."""
    if wrong := unsayable(phrase):
        raise UsageError("PHRASE", f"must be words as they are said, {wrong}; got {phrase!r}", 'for example: "hey kitchen"')
    return phrase_words(phrase)


def rate(phrase: str, pieces: Pieces, configured: Sequence[str] = ()) -> Report:
    """Raises UsageError where the model cannot spell it."""
    try:
        spelled = pieces.spell(phrase)
    except ValueError as error:
        raise UsageError("PHRASE", str(error), "name another model in models.wake_text") from None
    rare = tuple(piece for piece in spelled if pieces.rarity(piece) > RARE)
    count = syllables(phrase)
    near = nearest(phrase, configured)
    weak = tuple(_weaknesses(phrase, spelled, rare, count, near))
    ratings: tuple[Rating, ...] = ("good", "fair", "poor")
    rating = ratings[max((grave for grave, _ in weak), default=0)]
    boost = TEXT_BOOST + 1 if 3 * len(rare) >= len(spelled) else TEXT_BOOST
    threshold = TEXT_THRESHOLD * (2 if count < LEAST_SYLLABLES else 1)
    return Report(phrase, rating, spelled, rare, count, near, tuple(note for _, note in weak), boost, threshold)


def _weaknesses(
    phrase: str, spelled: Sequence[str], rare: Sequence[str], count: int, near: Sequence[Likeness]
) -> Iterable[tuple[int, str]]:
    """(how grave, what is weak and what to do): 2 makes a phrase poor, 1 fair, 0 is a hint."""
    words = phrase.split()
    everyday = all(word in _COMMON for word in words) and not (len(words) > 1 and words[0] in _CALLS)
    if count < LEAST_SYLLABLES:
        what = "one syllable" if count == 1 else f"{count} syllables"
        more = "a longer word" if words[0] in _CALLS else f'"hey {phrase}"'
        yield 2 if count == 1 or everyday else 1, f"short, {what}: talk will hold it; say more, such as {more}"
    if len(spelled) > LONG:
        yield 1, f"long, {len(spelled)} pieces: one that is misheard loses it; two or three words are enough"
    if everyday:
        yield 1, "everyday words alone: they are said without meaning it; add a call (hey) or a word of your own"
    if 3 * len(rare) >= len(spelled):
        yield (
            1,
            f"{len(rare)} of {len(spelled)} pieces are rare ({' '.join(rare)}): it will be missed more often; a common word, or more boost",
        )
    for one in near:
        if one.configured:
            yield 2 if one.distance <= ALIKE else 1, f'sounds like "{one.text}", a phrase of the settings: choose another'
        elif one.distance <= ALIKE:
            yield 2 if one.distance <= SAME else 1, f'sounds like "{one.text}", which is often said: choose another'
    sounds = sounds_of(phrase)
    if sounds[0] in _VOWELS + "f0":
        yield 0, f"begins softly ({words[0]}): in noise its first sound is lost; k, t, p, b, d, g, j and s are heard better"
    if sounds[-1] in "f0hv":
        yield 0, f"ends softly ({words[-1]}): in noise its end is lost; a vowel or a hard sound is heard better"


# ── sounds, guessed from letters ───────────────────────────────────────────────────────────────────────────────────────

_VOWELS = "aeiou"
_SPELLINGS = (
    ("tch", "C"), ("sch", "S"), ("sh", "S"), ("ch", "C"), ("ck", "k"), ("ph", "f"), ("th", "0"), ("wh", "w"), ("wr", "r"), ("kn", "n"),
    ("gh", ""), ("qu", "kw"), ("q", "k"), ("x", "ks"), ("ce", "se"), ("ci", "si"), ("cy", "si"), ("c", "k"), ("dge", "J"), ("j", "J"),
    ("ge", "Je"), ("gi", "Ji"), ("ng", "n"), ("y", "i"), ("z", "s"), ("'", ""), ("-", ""),
)  # fmt: skip
"""Letters → sounds, the first that fits. C, S, J, 0: as in church, she, jar, thin."""

_KINDS = ("bp", "dt0", "gk", "fv", "sSCJ", "mn", "lr", "w", "h", _VOWELS)
"""Sounds that are taken for each other: a substitution within a row costs half."""


def sounds_of(phrase: str) -> str:
    """A rough pronunciation: vowels stay one letter a group, silent e's and doubled letters go."""
    found = ""
    for word in phrase.split():
        letters = re.sub(r"(?<=[aeiouy][^aeiouy])e$", "", word) if len(word) > 3 else word
        at, sounds = 0, ""
        while at < len(letters):
            spelling, sound = next(((key, value) for key, value in _SPELLINGS if letters.startswith(key, at)), (letters[at], letters[at]))
            sounds += sound
            at += len(spelling)
        found += re.sub(r"([aeiou])[aeiou]+", r"\1", re.sub(r"(.)\1+", r"\1", sounds))
    return found or phrase


def syllables(phrase: str) -> int:
    """Groups of vowels, a silent e at the end not counted; at least one a word."""
    found = 0
    for word in phrase.split():
        plain = re.sub(r"(?<=[^aeiouyl])e$|(?<=[aeiouy]l)e$|(?<=[^aeiouytd])ed$", "", word) if len(word) > 3 else word
        plain = re.sub(r"^y|qu", "", plain)
        found += max(1, len(re.findall(r"[aeiouyàâäáåæéèêëíîïóôöøúûü]+", plain)) + len(re.findall(r"i[ao](?!u)|eo|[^aeiouy]uo", plain)))
    return found


def distance(one: str, other: str) -> float:
    """Of two phrases' sounds, from 0 to 1: what must be changed, over the longer one's length (Levenshtein 1966, kin sounds at half)."""
    first, second = sounds_of(one), sounds_of(other)
    row = [float(at) for at in range(len(second) + 1)]
    for line, sound in enumerate(first, 1):
        before, row[0] = row[0], float(line)
        for at, other_sound in enumerate(second, 1):
            before, row[at] = row[at], min(row[at] + 1, row[at - 1] + 1, before + _cost(sound, other_sound))
    return row[-1] / max(len(first), len(second))


def _cost(one: str, other: str) -> float:
    if one == other:
        return 0.0
    return 0.5 if any(one in kind and other in kind for kind in _KINDS) else 1.0


def nearest(phrase: str, configured: Sequence[str]) -> tuple[Likeness, ...]:
    """What sounds like it, the nearest first: everyday words and pairs of them, and the phrases configured, unless it is one of them."""
    everyday = [*_COMMON, *(f"{first} {second}" for first, second in pairwise(_TALK.split()))]
    found = [Likeness(text, round(distance(phrase, text), 2)) for text in dict.fromkeys(everyday) if f" {text} " not in f" {phrase} "]
    found += [Likeness(text, round(distance(phrase, text), 2), configured=True) for text in configured if text != phrase]
    return tuple(sorted((one for one in found if one.distance <= NEAR), key=lambda one: (one.distance, one.text))[:_NEAR_SHOWN])


_COMMON = frozenset(
    """a about after again all also always am an and another any anything are around ask away baby back bad be because been before
    begin believe better big body book both boy bring brother build business but buy by call can car care carry case chance change child
    city class clean clear close coffee cold come company complete computer control cook could country course cut day dear decide did
    dinner do doctor dog done door down drink drive each early easy eat eight end enough even evening ever every everyone eye face fact
    family far fast father feel few find fine finish fire first five floor follow food for four free friend from front full funny game
    garden get girl give glad glass go god going gone good got great green group had half hand happen happy hard has have he head hear
    heard heart hello help her here hey high him his hold home hope hot hour house how idea if important in inside into is it job just
    keep kid kind kitchen know large last late later laugh leave left less let letter life light like line listen little live living
    long look lot love lunch made make man many matter may maybe me mean mercy message middle might mind mine minute mirror miss moment
    money month more morning most mother move movie much music must my name near need nervous never new news next nice night nine no
    none nothing now number of off office often oh okay old on once one only open or order other our out over own page paper part party
    pass past pay people person phone pick picture place plan play please point power pretty problem pull push put question quick quiet
    quite radio rain read ready real really red remember rest right road room run said same saturday say school second see seem send
    service set seven share she short should show side since sister sit six sleep slow small smart smile so some someone something
    sometimes son song soon sorry speak stand start stay still stop story street study such summer sun sunday sure table take talk tea
    tell ten than thank thanks that the their them then there these they thing think this those thought three through till time tired
    to today together told tomorrow tonight too took top town travel tree tried true try turn two under understand until up us use
    very visit wait walk wall want warm was watch water way we wear weather week well went were what when where which while white who
    whole why will window winter wish with woman wonder word work world worry would write wrong year yes yesterday yet you young
    your""".split()  # noqa: SIM905
)
"""Words of everyday English talk."""

_CALLS = frozenset(("hey", "hi", "hello", "okay", "ok"))
"""Said to somebody: a word after one of them is a name."""

_TALK = """come here over there turn it off and on again what is it now look at this one more time to go home hey you all right then
    good morning thank you so much see you later never mind let me see how are you doing i think so excuse me please wait a minute
    of course not yet no way oh my god give it to her in the kitchen next to the window"""
"""How words meet in talk: each neighbouring pair is held against the phrase."""


def told(report: Report) -> str:
    """For people."""
    near = ", ".join(f'"{one.text}" ({one.distance:.2f})' for one in report.near) or "nothing"
    heads = [report.head] if report.head else []
    lines = [
        f'"{report.phrase}": {report.rating}',
        *(f"  head       {name} is trained for it and hears it more surely than a text: `- phrase: {name}`" for name in heads),
        f"  pieces     {len(report.pieces)}: {' '.join(report.pieces)}" + (f" (rare: {' '.join(report.rare)})" if report.rare else ""),
        f"  syllables  {report.syllables}",
        f"  near       {near}",
        *(f"  {'weak' if at == 0 else '    '}       {note}" for at, note in enumerate(report.notes)),
        f"  begin with boost {report.boost:g}, threshold {report.threshold:g}",
    ]
    return "\n".join(lines)
