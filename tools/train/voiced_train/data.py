"""Manifests in, splits out: who trains, who is held out, and what is refused and why.

What lives here: reading the manifests, the rules of the split and of the labels. What must not: sound, features, models.

    python -m voiced_train.data MANIFEST… --out DIR

writes train.jsonl, dev.jsonl, test.jsonl and refused.jsonl. A speaker is in one split only: which one follows from a hash of
the name alone, so nobody moves when recordings are added. Recordings of a source that names no speakers count as one
speaker's. Nothing is dropped in silence: what cannot be used is in refused.jsonl, with its reason, and counted.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from voiced.errors import InputError, UsageError, VoicedError

SPLITS = ("train", "dev", "test")

_ROLES = frozenset(("asr", "command", "synthetic"))
_TEST_SOURCES = ("common-voice-en-clips", "ohf-speech-to-phrase-recordings", "assistant-repo-recordings", "assistant-command-recordings")
"""Small sets of real speech with exact words and no speakers' names: measured on, never trained on."""

_CUT_SHORT = ("dc-tts-own-recordings",)
"""Sets whose recordings mostly end before their texts do: a recognizer hears the first half of the sentence only."""

_NOT_FOR_TRAINING = re.compile(r"\bA?GPL|BY-SA|BY-NC", re.IGNORECASE)
"""Licences whose terms would reach a model trained on the recording."""

_FASTEST_CHARACTERS_A_SECOND = 30.0
"""Twice a fast speaker's: a text longer than that for its sound is another recording's, and has no alignment."""


@dataclass(frozen=True, slots=True)
class Utterance:
    """One recording that can be used.

    path      absolute
    text      lower case words of a to z and apostrophes, one space between
    exact     whether the text is what was said: a machine's transcript trains, and is never a reference
    complete  whether the sentence ends, so that an end token belongs after it
    pauses    [start, end) of pauses put into it, samples at 16 kHz
    """

    path: str
    text: str
    speaker: str
    seconds: float
    source: str
    licence: str
    exact: bool = True
    complete: bool = True
    pauses: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Refused:
    where: str
    why: str


def normal(text: str) -> str:
    """Lower case, without punctuation. Raises ValueError for what cannot be spelled so (digits, other scripts)."""
    plain = re.sub(r"[-–—]", " ", text.lower().replace("’", "'"))
    plain = re.sub(r"[.,;:!?\"“”()…]", " ", plain)
    strange = sorted(set(re.sub(r"[a-z' ]", "", " ".join(plain.split()))))
    if strange:
        raise ValueError(f"the text has {''.join(strange)!r}, which no token spells")
    words = [word for word in plain.split() if word.strip("'")]
    if not words:
        raise ValueError("the text is empty")
    return " ".join(words)


def read(manifest: Path) -> Iterator[Utterance | Refused]:
    """Each line of a manifest that is speech to train or test with; other roles and languages are passed over."""
    try:
        lines = manifest.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(str(manifest), f"cannot be read ({error})") from None
    for number, line in enumerate(lines, 1):
        where = f"{manifest}:{number}"
        if not line.strip():
            continue
        try:
            entry = json.loads(line)
            if entry["role"] in _ROLES and entry.get("lang", "en") == "en":
                yield _utterance(entry, manifest.parent.resolve())
        except json.JSONDecodeError as error:
            yield Refused(where, f"is not JSON ({error.msg})")
        except KeyError as error:
            yield Refused(where, f"has no {error.args[0]!r}")
        except (ValueError, TypeError, AttributeError) as error:
            yield Refused(where, str(error))


def _utterance(entry: dict[str, Any], folder: Path) -> Utterance:
    path = folder / entry["path"]
    if entry["source"] in _CUT_SHORT:
        raise ValueError("its set is cut short: the texts go on after the sound ends")
    exact = "text" in entry
    if not exact and not entry.get("asr_has_all_slot_words"):
        raise ValueError("nobody knows its words")
    text = normal(entry["text"] if exact else entry["asr_moonshine_tiny"])
    seconds = float(entry["seconds"])
    if len(text) > seconds * _FASTEST_CHARACTERS_A_SECOND:
        raise ValueError(f"{len(text)} characters cannot be said in {seconds:g} s")
    if not path.is_file():
        raise ValueError(f"{path} is not there")
    source = f"synthetic {entry['source']}" if entry["role"] == "synthetic" else entry["source"]
    return Utterance(
        path=str(path),
        text=text,
        speaker=entry.get("speaker") or f"somebody of {source}",
        seconds=seconds,
        source=source,
        licence=entry["licence"],
        exact=exact,
        complete=bool(entry.get("complete", True)),
        pauses=tuple((int(start), int(end)) for start, end in entry.get("pauses", ())),
    )


def place(
    utterance: Utterance,
    *,
    dev: float = 0.05,
    test: float = 0.05,
    test_sources: Sequence[str] = _TEST_SOURCES,
    held_out: frozenset[str] = frozenset(),
) -> str | None:
    """The split of an utterance, or None where no split may have it. Depends on nothing but the arguments.

    dev, test  shares of the speakers, 0 … 1
    held_out   sources, speakers, and recordings by their file's name without its ending, that are for testing whatever the draw
    """
    if {utterance.source, utterance.speaker, Path(utterance.path).stem} & held_out:
        return "test" if utterance.exact else None
    digest = hashlib.sha256(utterance.speaker.encode()).digest()
    draw = int.from_bytes(digest[:8], "big") / 2**64
    where = "test" if draw < test else "dev" if draw < test + dev else "train"
    if utterance.source in test_sources or _NOT_FOR_TRAINING.search(utterance.licence):
        where = "test"
    if not utterance.exact:  # its words are a machine's: it may train, and else stays out, lest its speaker be in two splits
        return "train" if where == "train" else None
    return where


def split(
    items: Iterable[Utterance | Refused],
    *,
    dev: float = 0.05,
    test: float = 0.05,
    test_sources: Sequence[str] = _TEST_SOURCES,
    held_out: frozenset[str] = frozenset(),
) -> tuple[dict[str, list[Utterance]], list[Refused]]:
    """All of it, sorted into SPLITS; a speaker who must be in test for one recording is there for all of them."""
    known: list[Utterance] = []
    refused: list[Refused] = []
    for item in items:
        if isinstance(item, Refused):
            refused.append(item)
        else:
            known.append(item)
    places = [place(item, dev=dev, test=test, test_sources=test_sources, held_out=held_out) for item in known]
    tested = {item.speaker for item, where in zip(known, places, strict=True) if where == "test"}
    splits: dict[str, list[Utterance]] = {name: [] for name in SPLITS}
    for item, where in zip(known, places, strict=True):
        if where is None or (item.speaker in tested and not item.exact):
            refused.append(Refused(item.path, "its speaker is held out and its words are a machine's"))
        else:
            splits["test" if item.speaker in tested else where].append(item)
    return splits, refused


def read_held_out(path: Path) -> frozenset[str]:
    """The names of a list of held-out sources, speakers and recordings, one a line; `#` begins a comment. Raises InputError."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(str(path), f"cannot be read ({error})") from None
    return frozenset(name for line in lines if (name := line.partition("#")[0].strip()))


def write(splits: dict[str, list[Utterance]], refused: list[Refused], out: Path) -> None:
    out.mkdir(parents=True, exist_ok=True)
    records: dict[str, Sequence[Utterance | Refused]] = {**splits, "refused": refused}
    for name, items in records.items():
        lines = [json.dumps(asdict(item), ensure_ascii=False) + "\n" for item in items]
        (out / f"{name}.jsonl").write_text("".join(lines), encoding="utf-8")


def report(splits: dict[str, list[Utterance]], refused: list[Refused]) -> str:
    """A line a split and source, and a line a reason."""
    lines = []
    for name, items in splits.items():
        hours: defaultdict[str, float] = defaultdict(float)
        for item in items:
            hours[item.source] += item.seconds / 3600
        lines.append(f"{name}: {len(items)} recordings, {sum(hours.values()):.2f} h, {len({item.speaker for item in items})} speakers")
        lines += [f"    {source}: {length:.2f} h" for source, length in sorted(hours.items())]
    lines.append(f"refused: {len(refused)}")
    reasons = Counter(re.sub(r"\d[\d.]*|/\S+|'.*'", "…", item.why) for item in refused)
    lines += [f"    {count}: {why}" for why, count in reasons.most_common()]
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m voiced_train.data", description="Split manifests by speaker.")
    parser.add_argument("manifests", type=Path, nargs="+", metavar="MANIFEST")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR")
    parser.add_argument("--dev", type=float, default=0.05, metavar="SHARE", help="share of the speakers (default: %(default)s)")
    parser.add_argument("--test", type=float, default=0.05, metavar="SHARE", help="share of the speakers (default: %(default)s)")
    parser.add_argument("--test-source", action="append", metavar="NAME", help=f"may be repeated (default: {', '.join(_TEST_SOURCES)})")
    parser.add_argument("--held-out", type=Path, metavar="FILE", help="sources, speakers and recordings for testing only")
    options = parser.parse_args(arguments)
    try:
        if not (options.dev >= 0 and options.test >= 0 and options.dev + options.test < 1):
            raise UsageError("--dev and --test", f"must be shares that leave someone to train, got {options.dev} and {options.test}")
        items = (item for manifest in options.manifests for item in read(manifest))
        sources = _TEST_SOURCES if options.test_source is None else options.test_source
        held_out = read_held_out(options.held_out) if options.held_out else frozenset()
        splits, refused = split(items, dev=options.dev, test=options.test, test_sources=sources, held_out=held_out)
        write(splits, refused, options.out)
        print(report(splits, refused))
        if empty := [name for name in SPLITS if not splits[name]]:
            raise InputError(", ".join(map(str, options.manifests)), f"give nothing for {' and '.join(empty)}", "add speakers")
        return 0
    except VoicedError as error:
        print(f"data: {error}", file=sys.stderr)
        return error.exit_code


if __name__ == "__main__":
    sys.exit(main())
