"""A phrase and its near words, said by neural voices.

What lives here: who says what and how fast, and the sound, kept on disk. What must not: how a voice speaks (voices.py), what is done to the
sound (wake_data.py). A voice is in one part only: the voices that judge never train.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from voiced.errors import UsageError

from .near_words import near_words, normal
from .sound import RATE, Sound, at_16k
from .wake_data import Said, said
from .wake_split import Part, draw
from .wake_tracks import Progress, silent

_SLOWEST, _FASTEST = 0.85, 1.2
_SHARES = {"test": 0.2, "dev": 0.1}
_HEY = 0.3
"""Share of the sayings that begin with "hey"."""

_GROUP = 4
"""Near words in one utterance: a voice takes nearly as long for a word as for four."""

_LONGEST_S = 4.0
"""A phrase that takes longer is none: a head hears two seconds."""


class Speaks(Protocol):
    """voices.Speaker, as far as it is used here."""

    def voices(self) -> list[str]: ...
    def say(self, text: str, voice: str, speed: float = 1.0) -> tuple[Sound, int]: ...


@dataclass(frozen=True, slots=True)
class Line:
    """Something to be said."""

    text: str
    voice: str
    speed: float

    @property
    def name(self) -> str:
        return f"{self.voice} {self.speed} {self.text}"


def voice_part(voice: str) -> Part:
    at = draw(f"voice {voice}")
    return "test" if at < _SHARES["test"] else "dev" if at < _SHARES["test"] + _SHARES["dev"] else "train"


def phrase_lines(phrase: str, voices: Sequence[str], where: Part, times: int = 1) -> list[Line]:
    """The phrase by every voice of the part, `times` times at other speeds, with and without a "hey"."""
    plain = normal(phrase)
    lines = []
    for time in range(times):
        for voice in (each for each in voices if voice_part(each) == where):
            at = draw(f"{time} {plain} {voice}")
            hey = "Hey " if draw(f"hey {time} {plain} {voice}") < _HEY and not plain.startswith(("hey ", "hi ", "ok")) else ""
            lines.append(Line(f"{hey}{plain}.", voice, round(_SLOWEST + (_FASTEST - _SLOWEST) * at, 2)))
    return lines


def near_lines(phrase: str, voices: Sequence[str], where: Part, times: int = 2, alone: int = 0) -> list[Line]:
    """All near words, four an utterance, each utterance by `times` voices of the part; and each word for itself, by `alone` of them."""
    words = near_words(phrase)
    mine = sorted((each for each in voices if voice_part(each) == where), key=lambda each: draw(f"near {normal(phrase)} {each}"))
    groups = [words[at : at + _GROUP] for at in range(0, len(words), _GROUP)]
    lines = []
    for time in range(times):
        for at, group in enumerate(groups):
            voice = mine[(time * len(groups) + at) % len(mine)]
            lines.append(Line(", ".join(group) + ".", voice, _speed(f"near {time} {at} {normal(phrase)}")))
    for time in range(alone):
        for at, word in enumerate(words):
            voice = mine[(time * len(words) + at) % len(mine)]
            lines.append(Line(f"{word}.", voice, _speed(f"near alone {time} {word} {voice}")))
    return lines


def _speed(name: str) -> float:
    return round(_SLOWEST + (_FASTEST - _SLOWEST) * draw(name), 2)


def spoken(
    lines: Sequence[Line], speaker: Speaks, folder: Path, progress: Progress = silent, what: str = "voices"
) -> Iterator[tuple[Line, Sound]]:
    """Each line as float32 at 16 kHz, from the folder where it was said before."""
    for at, line in enumerate(lines):
        path = folder / f"{hashlib.sha256(line.name.encode()).hexdigest()[:20]}.npy"
        try:
            pcm: NDArray[np.int16] = np.load(path)
        except (OSError, ValueError, EOFError):
            sound = at_16k(*speaker.say(line.text, line.voice, line.speed))
            pcm = np.round(np.clip(sound, -1, 1) * 32767).astype(np.int16)
            folder.mkdir(parents=True, exist_ok=True)
            partial = path.with_suffix(".partial")
            with partial.open("wb") as file:
                np.save(file, pcm)
            partial.replace(path)
        progress(what, at + 1, len(lines))
        yield line, (pcm / np.float32(32767)).astype(np.float32)


def sayings(spoken_lines: Sequence[tuple[Line, Sound]], phrase: str) -> list[Said]:
    """Where the phrase is in each. Raises UsageError where no voice can say it, or where it is too long to be heard whole."""
    found = []
    for line, sound in spoken_lines:
        try:
            found.append(said(line.name, sound))
        except ValueError:
            continue
    if not found:
        raise UsageError("PHRASE", f"no voice says anything for {phrase!r}", "spell it as it is said")
    length = float(np.median([one.end - one.start for one in found])) / RATE
    if length > _LONGEST_S / 2:
        raise UsageError("PHRASE", f"takes {length:.1f} s to say, a head hears two seconds: {phrase!r}", "use two to four syllables")
    return found
