"""Sentences that order a drink, from a grammar of our own: what spoken orders are made of, in more words and orders than anyone recorded.

What lives here: the grammar, and which of its sentences are drawn. What must not: sound; sentences that held-out recordings say.

    python -m voiced_train.orders --count 250 --manifest MANIFEST --held-out held-out.txt --out orders.tsv

writes lines of `sentence TAB source` for voiced_train.synthesize. Seeded. What a held-out recording of the manifest says, by its text or by
a machine's, is never drawn.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections.abc import Sequence
from pathlib import Path

from voiced.errors import InputError, UsageError, VoicedError

from .data import normal, read_held_out

SOURCE = "grammar of orders"

_ASK = (
    "can i have", "can i get", "could i have", "could i get", "may i have", "i'd like", "i would like", "i want", "i'll have", "i'll take",
    "give me", "get me", "make me", "brew", "brew me", "please make", "please get me", "let me have", "we'd like",
)  # fmt: skip
_SIZES = ("small", "medium", "large", "eight ounce", "twelve ounce", "sixteen ounce", "twenty ounce")
_ROASTS = ("light roast", "medium roast", "dark roast")
_SHOTS = ("single shot", "double shot", "triple shot")
_DRINKS = (
    "americano", "cappuccino", "coffee", "drip coffee", "espresso", "house coffee", "iced coffee", "iced mocha", "latte", "mocha",
)  # fmt: skip
_OTHER_DRINKS = ("flat white", "macchiato", "cold brew", "hot chocolate", "green tea", "black tea", "iced latte", "chai latte")
_AMOUNTS = ("", "", "some", "a bit of", "a little bit of", "a lot of", "lots of", "a splash of", "extra", "no")
_MILKS = ("milk", "cream", "whole milk", "skim milk", "soy milk", "almond milk", "oat milk")
_SUGARS = ("sugar", "brown sugar", "sweetener", "honey", "vanilla syrup")
_PLEASE = ("", "", "", "", "please", "to go", "for here", "thank you")
_OTHER_SHARE = 0.12
_TRIES = 200
"""Draws for one new sentence, after which the grammar counts as exhausted."""


def sentence(rng: random.Random) -> str:
    """One order: how it is asked for, the drink with up to three words before it, and up to two things in it."""
    about = [rng.choice(words) for words in (_SIZES, _ROASTS, _SHOTS) if rng.random() < 0.5]
    rng.shuffle(about)
    drink = " ".join([*about, rng.choice(_OTHER_DRINKS if rng.random() < _OTHER_SHARE else _DRINKS)])
    with_it = [f"{rng.choice(_AMOUNTS)} {rng.choice(things)}".strip() for things in (_MILKS, _SUGARS) if rng.random() < 0.5]
    rng.shuffle(with_it)
    words = [rng.choice(_ASK), "an" if drink[0] in "aei" else "a", drink]
    if with_it:
        words += ["with", " and ".join(with_it)]
    return " ".join([*words, rng.choice(_PLEASE)]).strip()


def draw(count: int, not_these: frozenset[str], seed: int) -> list[str]:
    """`count` different sentences, none of `not_these` (lower case, no punctuation). Raises UsageError where there are fewer."""
    rng = random.Random(seed)
    drawn: dict[str, None] = {}
    tries = 0
    while len(drawn) < count:
        tries = 0 if (one := sentence(rng)) not in drawn and one not in not_these else tries + 1
        if tries > _TRIES:
            raise UsageError("--count", f"the grammar gave {len(drawn)} sentences, {count} were wanted")
        if not tries:
            drawn[one] = None
    return list(drawn)


def held_out_texts(manifest: Path, held_out: frozenset[str]) -> frozenset[str]:
    """What held-out recordings and speakers of a manifest say. Raises InputError."""
    texts = set()
    try:
        for line in manifest.read_text(encoding="utf-8").splitlines():
            entry = json.loads(line)
            if {Path(entry["path"]).stem, entry.get("speaker", ""), entry["source"]} & held_out:
                texts |= {entry[key] for key in ("text", "asr_moonshine_tiny") if entry.get(key)}
    except (OSError, ValueError, KeyError) as error:
        raise InputError(str(manifest), f"is no manifest ({error})") from None
    return frozenset(found for text in texts if (found := _plain(text)))


def _plain(text: str) -> str:
    try:
        return normal(text)
    except ValueError:  # figures and other scripts: the grammar has none
        return ""


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m voiced_train.orders", description="Draw sentences that order a drink.")
    parser.add_argument("--count", type=int, default=250, metavar="N", help="(default: %(default)s)")
    parser.add_argument("--manifest", type=Path, required=True, metavar="FILE", help="whose held-out recordings are not to be said again")
    parser.add_argument("--held-out", type=Path, required=True, metavar="FILE")
    parser.add_argument("--seed", type=int, default=0, metavar="N")
    parser.add_argument("--out", type=Path, required=True, metavar="FILE")
    options = parser.parse_args(arguments)
    try:
        if options.count < 1:
            raise UsageError("--count", f"must be at least 1, got {options.count}")
        avoided = held_out_texts(options.manifest, read_held_out(options.held_out))
        sentences = draw(options.count, avoided, options.seed)
        options.out.write_text("".join(f"{one}\t{SOURCE}\n" for one in sentences), encoding="utf-8")
        print(f"{options.out}: {len(sentences)} sentences, none of {len(avoided)} held-out ones")
        return 0
    except VoicedError as error:
        print(f"orders: {error}", file=sys.stderr)
        return error.exit_code


if __name__ == "__main__":
    sys.exit(main())
