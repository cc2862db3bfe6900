"""What sounds like a phrase and is not it: what a head must be taught to leave alone.

What lives here: near words of the phrases that ship, by hand, and a rule that makes some for any phrase. What must not: sound. A near word
differs by a sound that every accent keeps (an onset, a syllable more or less), never by a vowel that one speaker says as another's.
"""

from __future__ import annotations

import re
from itertools import zip_longest

from voiced.errors import UsageError

BY_HAND = {
    "jarvis": """harvest, nervous, service, jar of this, carve this, marvellous, purpose, jazz, java, Jeffrey, Travis, Mavis,
        Davis, Jarrett, Charles is, Charlie, jargon, jars, a jar of ice, starve us, Elvis, Paris, Harvey, jarring,
        jealous, gorgeous, hi Jarrett, hi Travis baby, hey Charlie, hey Davis, harness, Jupiter, germs, journalist,
        carcass, started, car service, far less, Jonas, jarful, garbage, chaos""",
    "computer": """commuter, compute, computing, competitor, come to her, committee, confusion, composer, communicate, company,
        compare it, the pewter, tutor, scooter, pure butter, come pick her up, complete, commute to work, conduct her,
        consumer, compartment, compacter, hi commuter, hey tutor, hey composer, compost, consult her, contribute,
        compass, constitute, disputed, reputation, puter, a cute one""",
    "alexa": """a lecture, election, electric, a letter, relax, Lexus, a lesson plan, collect a, a lapse, erects a, elector, a
        lesson, Alaska, a leg, select a, collect her, elect a president, Lecter, election day, Alec said, flex her,
        Texas, a legend, Elektra, hi Alex, hey Alex baby, hey Lexi, left her, elections, unless a, lecturer, reflex,
        annex a, perplexed, a lexicon, all of us, Alice, I let her, a lick""",
    "smart mirror": """smart, mirror, smartphone, start mirroring, smart meter, smart era, art mirror, small mirror, mart, smart one,
        mere, miracle, smart marrow, dark mirror, smart water, some art here, smart Amir, heart murmur, starting near,
        smarter, smart men are, car mirror, black mirror, smart kitchen, my mirror, the mirror, smart enough, smart
        miller, hey mirror, hi smart aleck, Myra, smear her""",
    "snowboy": """snow, boy, snowball, snowboard, snow boots, no boy, snowman, cowboy, low boy, so boy, homeboy, snow day,
        playboy, show boy, know boys, snow blower, slow boil, snobby, snow white, hey boy, hi snowball, hey snowman,
        oh boy, go boy, snowbank, enjoy, annoy, no boiling, snow bound, tow boy, busboy, noble, snow bird, schoolboy,
        the snow, soybean""",
    "view glass": """view, glass, few glasses, new glass, blue glass, view class, you pass, hourglass, viewed, viewpoint, you
        guess, fuel gas, eyeglass, glasses, view grass, a class, a few lasses, hue, view last, you glance, two glass,
        review class, view, you laugh, magnifying, the view, beautiful glass, hey glass, hi blue glass, refuel,
        Douglas, review, glance, viewers, view gloss, plate glass, view it""",
}
"""Parts of the phrase, rhymes, beginnings and frames of each."""

_ONSETS = ("b", "d", "g", "h", "k", "l", "m", "n", "p", "r", "s", "t", "v", "w", "z", "sh", "ch", "br", "st")
_ENDINGS = ("o", "ing", "um", "ack", "oid", "een", "ful")
_FRAMES = ("hi {}", "hey {}", "{} baby", "the {} is", "my {}", "a {} of")
_WANTED = 50

_EVERYDAY = """yes, no, hello, good morning, thank you, sorry, please, maybe, what, where is it, stop it, come on, all right,
    never mind, wait, look, listen, one, two, three, twelve, eleven, Monday, Friday, August, mother, water, coffee,
    dinner, kitchen, window, weather, music, movie, money, number, paper, people, picture, problem, question, school,
    summer, table, ticket, today, together, tomorrow, tonight, under, very, yesterday, believe, remember, another,
    anything, family, minute, story, body, letter, okay then, happy, heavy, open, over"""
"""What fills the list of a phrase too short to be changed."""


def near_words(phrase: str) -> list[str]:
    """At least fifty, the ones by hand first; none has the phrase in it. Raises UsageError for a phrase without a letter."""
    plain = normal(phrase)
    by_hand = [entry for entry in (" ".join(each.split()) for each in BY_HAND.get(plain, "").split(",")) if entry]
    made = _made(plain)
    frames = [frame.format(word) for frame in _FRAMES for word in made]
    everyday = [" ".join(each.split()) for each in _EVERYDAY.split(",")]
    found: list[str] = []
    for word in dict.fromkeys((*by_hand, *made, *frames, *everyday)):
        if len(found) >= max(_WANTED, len(by_hand)):
            break
        if not re.search(rf"\b{re.escape(plain)}", word.lower()):
            found.append(word)
    return found


def normal(phrase: str) -> str:
    """Lower case, one space between words. Raises UsageError for what has no letters, or figures, which may be said in several ways."""
    plain = " ".join(phrase.lower().replace("-", " ").split())
    if not any(letter.isalpha() for letter in plain):
        raise UsageError("PHRASE", f"must be words to say, got {phrase!r}", 'for example: "hey kitchen"')
    if strange := re.search(r"[^\w ']|[\d_]", plain):
        raise UsageError("PHRASE", f"has {strange[0]!r}, which may be said in several ways, in {phrase!r}", "spell it out in letters")
    return plain


def _made(plain: str) -> list[str]:
    """Onsets exchanged, syllables left out, endings exchanged, parts of the phrase: in turns, so that a few of them are of all kinds."""
    words = plain.split()
    first = words[0]
    onset = re.match(r"(?:qu|[^aeiouy])*", first)
    begins = onset[0] if onset else ""
    rest = " ".join([first[len(begins) :], *words[1:]])
    hard_c = begins.startswith(("c", "q", "k"))
    # before a vowel nothing is exchanged: "call Alexa" has the phrase in it
    onsets = [each + rest for each in _ONSETS if begins and each[0] != begins[0] and not (hard_c and each == "k")]
    syllables = re.findall(r"[^aeiouy]*[aeiouy]+(?:[^aeiouy]+(?=[^aeiouy]+[aeiouy])|[^aeiouy]+$)?", words[-1]) or [words[-1]]
    stem = " ".join([*words[:-1], "".join(syllables[:-1]) or words[-1]])
    endings = [stem + each for each in _ENDINGS]
    parts = [*(words if len(words) > 1 else ()), "".join(syllables[1:]), "".join(syllables[:-1])]
    # without a weak first vowel it is the phrase as many say it
    parts = [part for part in parts if len(syllables[0]) > 1 or part != "".join(syllables[1:])]
    mixed = [word for trio in zip_longest(onsets, endings, parts) for word in trio if word]
    return [word for word in dict.fromkeys(mixed) if len(word) > 1 and word != plain]
