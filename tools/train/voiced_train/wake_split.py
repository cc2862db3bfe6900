"""Which recordings a wake head may learn from, and which it is judged by.

What lives here: the rule, and the reading of a manifest by it: phrases, and sound that has none. What must not: sound, NumPy.

A recording is in one part only, by a hash of its speaker's name where that is known, else of its path: nobody moves when recordings are
added. Sound under a share-alike licence is only judged by. What holds a wake phrase never counts as foreign to that phrase.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from voiced.errors import InputError, reason_of

Part = Literal["train", "dev", "test"]

PHRASE_PARTS = {"test": 0.4, "dev": 0.1}
FOREIGN_PARTS = {"test": 0.5, "dev": 0.05}
"""Shares of the recordings; the rest trains. The hours without an accept say the more the longer they are."""

_FOREIGN_ROLES = frozenset(("wake-negative", "negative", "asr", "command", "endpoint", "music", "noise"))
_SHARE_ALIKE = re.compile(r"\bA?GPL|BY-SA|BY-NC", re.IGNORECASE)
_TRANSLATED = re.compile(r"^[^()]*\([a-z]{2}\)")
"""A phrase with a language is said in that language: in "hey computer (es)" one hears "oye, ordenador"."""
_NO_PHRASE = frozenset(("", "(not-wake)", "multiple_keywords"))


@dataclass(frozen=True, slots=True)
class Recording:
    """One file.

    name     its path as the manifest has it
    role     of the manifest: wake, negative, asr, noise …
    phrase   what is said in it where that is a wake phrase, else ""
    free     whether its licence lets a model learn from it
    words    what is known of its words, by whomever, in lower case
    """

    path: Path
    name: str
    role: str
    source: str
    phrase: str
    part: Part
    seconds: float
    free: bool
    words: str = ""


def draw(name: str) -> float:
    """0 ≤ x < 1, by the name alone."""
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big") / 2**64


def part(name: str, shares: Mapping[str, float]) -> Part:
    """The part of a speaker or a path."""
    at = draw(name)
    return "test" if at < shares["test"] else "dev" if at < shares["test"] + shares["dev"] else "train"


def read(manifest: Path) -> list[Recording]:
    """Every recording of a wake phrase or of sound without one. Raises InputError, with the line, where the manifest cannot be read."""
    try:
        lines = manifest.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(str(manifest), f"cannot be read: {reason_of(error)}", "name a folder that has manifest.jsonl") from None
    found: list[Recording] = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            found.extend(_recording(json.loads(line), manifest.parent))
        except json.JSONDecodeError as error:
            raise InputError(f"{manifest}:{number}", f"is not JSON: {error.msg}") from None
        except (KeyError, ValueError, TypeError) as error:
            raise InputError(f"{manifest}:{number}", f"needs path, role, source, licence and seconds ({error})") from None
    return found


def _recording(entry: Mapping[str, Any], folder: Path) -> Iterator[Recording]:
    role, name = str(entry["role"]), str(entry["path"])
    phrase = str(entry.get("keyword", "")) if role == "wake" else ""
    if role != "wake" and role not in _FOREIGN_ROLES:
        return
    if role == "wake" and str(entry.get("keyword", "")).startswith("multiple"):
        return  # several phrases at places that nobody knows
    shares = PHRASE_PARTS if phrase not in _NO_PHRASE else FOREIGN_PARTS
    where = part(str(entry.get("speaker") or name), shares)
    free = not _SHARE_ALIKE.search(str(entry["licence"]))
    yield Recording(
        folder / name,
        name,
        role,
        str(entry["source"]),
        "" if phrase in _NO_PHRASE else phrase,
        where if free else "test",
        float(entry["seconds"]),
        free,
        " ".join(str(entry.get(key, "")) for key in ("keyword", "text", "asr_moonshine_tiny")).lower(),
    )


def of_phrase(recordings: Sequence[Recording], phrase: str, where: Part) -> list[Recording]:
    return [one for one in recordings if one.phrase == phrase and one.part == where]


def without_phrase(recordings: Sequence[Recording], phrase: str, where: Part) -> list[Recording]:
    """Sound in which the phrase is not said: foreign sound, and other phrases unless one holds the other ("hey computer")."""
    return [one for one in recordings if one.part == where and not holds(one.phrase, phrase)]


def holds(said: str, phrase: str) -> bool:
    """Whether the words have the phrase among them, as whole words and untranslated."""
    return bool(re.search(rf"\b{re.escape(phrase)}\b", _TRANSLATED.sub("", said.lower())))


def saying(recordings: Sequence[Recording], phrase: str) -> frozenset[str]:
    """Names of recordings in which the phrase is said, whatever they were made for: in these it is no false accept."""
    return frozenset(one.name for one in recordings if holds(one.words, phrase))
