"""Which clips are measured: a manifest in, sets of clips out.

What lives here: the rules by which a manifest's line is a clip of a set, or is left out by name. What must not: sound, models. A line
is never passed over in silence: what cannot be used is in the answer, with its reason.

A set is named after its source, but for four that are made of several or have a rule of their own: librispeech, common-voice, commands
(spoken, with their exact words) and orders (spoken, of which only the slots are known). Where a list of held-out speakers names anybody
of a set, only those are measured; a set of which it names nobody is measured whole, and the report says so.
"""

from __future__ import annotations

import json
import random
import zlib
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from voiced.api import InputError, UsageError, counted, reason_of, to_samples

from .scores import no_reference, normalised

FIRST_SETS = ("librispeech", "common-voice", "commands", "orders")
"""What is measured where nothing else is asked for."""

_ROLES = ("asr", "command", "endpoint", "synthetic")
_FASTEST = 30.0
"""Characters a second, twice a fast speaker's: a longer text is not this recording's."""
_SLOWEST_S = 5.0
"""Seconds a word: a recording with fewer words says more than its text."""


@dataclass(frozen=True, slots=True)
class Clip:
    """A recording to measure by.

    name        its path as the manifest has it
    text        what is said, or None where only the slots are known
    complete    whether the sentence ends, so that an end token belongs after it
    speech_end  end of speech in samples by the manifest's labels, or None
    """

    path: Path
    name: str
    set: str
    text: str | None
    slots: tuple[str, ...] = ()
    complete: bool = True
    speech_end: int | None = None
    held_out: bool = False


@dataclass(frozen=True, slots=True)
class LeftOut:
    set: str
    name: str
    why: str


NAMED = 20
"""Of what was left out, under tables; the JSON names all."""


def told(left_out: Sequence[LeftOut], what: str) -> list[str]:
    """Lines under tables: how many, and which and why. `what` they are, in the singular."""
    if not left_out:
        return []
    more = [f"  … and {len(left_out) - NAMED} more: --json names all."] if len(left_out) > NAMED else []
    return [f"Left out: {counted(len(left_out), what)}.", *(f"  {one.name}: {one.why}" for one in left_out[:NAMED]), *more]


def first_of(left_out: Sequence[LeftOut]) -> str:
    """For the end of a line that says that there is nothing."""
    return f"; the first of {len(left_out)} left out: {left_out[0].name}: {left_out[0].why}" if left_out else ""


@dataclass(frozen=True, slots=True)
class Clips:
    """The sets of a manifest.

    sets        by name; no set is empty
    left_out    lines that should be clips and cannot be
    other       lines that are no speech to be recognised, by role or language
    trained     sets (by name) cut down to their held-out clips: how many clips are not
    """

    sets: Mapping[str, tuple[Clip, ...]]
    left_out: tuple[LeftOut, ...]
    other: Mapping[str, int]
    trained: Mapping[str, int]


def read_held_out(path: Path) -> frozenset[str]:
    """Speakers, sources, and recordings by their file's name without its ending, one a line; `#` begins a comment. Raises InputError."""
    return frozenset(name for line in lines_of(path, "name a file of names, one a line") if (name := line.partition("#")[0].strip()))


def lines_of(path: Path, advice: str = "name a folder that has manifest.jsonl") -> list[str]:
    """Of a manifest, or of another file. Raises InputError where it cannot be read."""
    try:
        return path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(str(path), f"cannot be read: {reason_of(error)}", advice) from None


def read_clips(data: Path, held_out: frozenset[str] = frozenset()) -> Clips:
    """All sets of `data`/manifest.jsonl, a line a recording. Raises InputError where the manifest cannot be read."""
    found: defaultdict[str, list[Clip]] = defaultdict(list)
    left_out: list[LeftOut] = []
    other: Counter[str] = Counter()
    for number, line in enumerate(lines_of(data / "manifest.jsonl"), 1):
        if not line.strip():
            continue
        name, where = f"manifest.jsonl:{number}", ""
        try:
            entry = json.loads(line)
            name, role = str(entry["path"]), str(entry["role"])
            language = str(entry.get("lang", "en"))
            if role not in _ROLES or not f"{language}-".startswith("en-"):
                other[role if role not in _ROLES else f"{role} in {language}"] += 1
                continue
            where = _set(entry)
            clip = _clip(entry, data, where, held_out)
            found[where].append(clip)
        except json.JSONDecodeError as error:
            left_out.append(LeftOut(where, name, f"is not JSON: {error.msg}"))
        except KeyError as error:
            left_out.append(LeftOut(where, name, f"has no {error.args[0]!r}"))
        except (ValueError, TypeError, AttributeError) as error:
            left_out.append(LeftOut(where, name, str(error)))
    trained = {}
    for where, clips in found.items():
        if kept := [clip for clip in clips if clip.held_out]:
            trained[where] = len(clips) - len(kept)
            found[where] = kept
    sets = {name: tuple(found[name]) for name in sorted(found, key=lambda name: (_rank(name), name))}
    return Clips(sets, tuple(left_out), dict(other), trained)


def _rank(name: str) -> int:
    return FIRST_SETS.index(name) if name in FIRST_SETS else len(FIRST_SETS)


def _set(entry: Mapping[str, Any]) -> str:
    source = str(entry["source"])
    if entry["role"] == "synthetic":
        return "synthetic" if entry.get("complete", True) else "synthetic, cut off"
    if source.startswith("librispeech"):
        return "librispeech"
    if source.startswith("common-voice"):
        return "common-voice"
    if entry["role"] == "command":
        return "orders" if "text" not in entry and "intent" in entry else "commands"
    return source


def _clip(entry: Mapping[str, Any], data: Path, where: str, held_out: frozenset[str]) -> Clip:
    """ValueError, TypeError, KeyError or AttributeError where the line is none."""
    path = data / entry["path"]
    text = entry.get("text")
    slots: tuple[str, ...] = ()
    seconds = float(entry["seconds"])
    if text is None and "intent" in entry:
        slots = tuple(normalised(str(value)) for value in entry["intent"]["slots"].values())
        if not all(slots) or not slots:
            raise ValueError("its intent has no slots, or an empty one")
    elif text is None:
        raise ValueError("nobody knows its words")
    elif not isinstance(text, str):
        raise ValueError("its text is no text")
    elif why := no_reference(text):
        raise ValueError(why)
    elif entry.get("keyword"):
        raise ValueError("it is a wake phrase, not a query")
    elif len(text) > seconds * _FASTEST:
        raise ValueError(f"it is too short: {len(text)} characters cannot be said in {seconds:g} s")
    elif seconds > _SLOWEST_S * len(normalised(text).split()):
        raise ValueError(f"{seconds:g} s hold more than its {len(normalised(text).split())} words")
    return Clip(
        path,
        str(entry["path"]),
        where,
        text,
        slots,
        bool(entry.get("complete", True)),
        _labelled_end(entry.get("vad_labels")),
        bool({str(entry.get("speaker", "")), str(entry["source"]), path.stem} & held_out),
    )


def _labelled_end(labels: str | None) -> int | None:
    """`name,start,end,flag,start,end,flag…` in seconds, flag 1 for speech → where the last speech ends, in samples."""
    if labels is None:
        return None
    parts = labels.split(",")[1:]
    ends = [float(end) for end, flag in zip(parts[1::3], parts[2::3], strict=True) if flag == "1"]
    if not ends:
        raise ValueError("its vad_labels have no speech")
    return to_samples(1000 * max(ends))


def choose(clips: Clips, names: Sequence[str], limit: int | None, seed: int) -> Clips:
    """The sets of these names (none: FIRST_SETS where there are any, else all; "all": all), each at most `limit` clips drawn by the seed.

    Raises UsageError for a name that the manifest has no set of, InputError where nothing is left to measure.
    """
    if unknown := [name for name in names if name != "all" and name not in clips.sets]:
        there = ", ".join(clips.sets) or "none"
        raise UsageError("--sets", f"there is no set {unknown[0]!r} in the manifest", f"there are: {there}")
    chosen = [name for name in clips.sets if "all" in names or name in names]
    if not names:
        chosen = [name for name in FIRST_SETS if name in clips.sets] or list(clips.sets)
    if not chosen:
        raise InputError("manifest.jsonl", f"has no clip to measure by{first_of(clips.left_out)}")
    sets = {name: draw(clips.sets[name], limit, seed) for name in chosen}
    # a line whose set is not known might have been of any
    left_out = tuple(one for one in clips.left_out if one.set in (*chosen, "") or one.set not in clips.sets)
    return replace(clips, sets=sets, left_out=left_out, trained={name: n for name, n in clips.trained.items() if name in chosen})


def draw(clips: tuple[Clip, ...], limit: int | None, seed: int) -> tuple[Clip, ...]:
    """At most `limit` of a set, in their order; the same seed draws the same."""
    if limit is None or limit >= len(clips):
        return clips
    # a set's draw does not depend on which other sets are measured
    drawn = random.Random(f"{seed} {clips[0].set}").sample(range(len(clips)), limit)
    return tuple(clips[index] for index in sorted(drawn))


def clip_seed(clip: Clip, seed: int) -> tuple[int, int]:
    """For NumPy's generator: the same noise for the same clip, whatever else is measured."""
    return seed, zlib.crc32(clip.name.encode())
