"""What a soak says, what it looks at, and what must hold after it.

What lives here: the day's sound, a look at a process, what is broken. What must not: what hears the sound (soak.py, soak_daemon.py).

A turn is one of the recordings that come with voiced, said after a piece of a quiet room or of digital silence, and now and then there is
talk that must wake nobody.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from voiced.audio import Samples
from voiced.units import RATE, to_samples

from . import recordings
from .running import own_mb, rss_mb

HOUR = 3600 * RATE
SLOPE_MB = 1.0
"""Memory that an hour of sound may add to a process."""
LOOKS = 50
"""In a run, at each of its processes."""

_GRAIN_MB = 20.0
"""Memory that comes and goes with one turn: in a short run no slope stands out of it."""
_WARM = 0.2
"""Of the run, before memory is looked at: buffers fill, and the allocator takes what the longest turn needs."""
_TALK_EVERY = 10
_BEFORE, _AFTER = to_samples(500), to_samples(2500)
_TRIES = 3


@dataclass(frozen=True, slots=True)
class Look:
    """At a process after so many hours of sound: its own memory and its resident set in MB (10^6 bytes), open files, threads."""

    hours: float
    own_mb: float
    rss_mb: float
    files: int
    threads: int

    @classmethod
    def at(cls, pid: int, hours: float) -> Look:
        """OSError where it has ended."""
        proc = Path(f"/proc/{pid}")
        # one that is open for a moment only (who watches others reads /proc) is none that stays
        files = min(len(list((proc / "fd").iterdir())) for _ in range(_TRIES))
        return cls(hours, own_mb(pid), rss_mb(pid), files, len(list((proc / "task").iterdir())))


@dataclass(frozen=True, slots=True)
class Process:
    """One that was looked at. `slope_mb` is its own memory an hour of sound, once it was warm."""

    name: str
    looks: tuple[Look, ...]
    slope_mb: float

    @classmethod
    def of(cls, name: str, looks: Sequence[Look]) -> Process:
        return cls(name, tuple(looks), slope(_warm(looks)))

    def broken(self) -> list[str]:
        wrong, warm = [], _warm(self.looks)
        if self.slope_mb > SLOPE_MB and self.slope_mb * self.looks[-1].hours > _GRAIN_MB:
            wrong.append(f"memory grows by {self.slope_mb:.2f} MB an hour of sound, at most {SLOPE_MB:g} expected")
        for what, counts in (("open files", {look.files for look in warm}), ("threads", {look.threads for look in warm})):
            if len(counts) > 1:
                wrong.append(f"{what} went from {min(counts)} to {max(counts)}, expected to stay")
        return [f"{self.name}: {what}" for what in wrong]


@dataclass(frozen=True, slots=True)
class Result:
    """What was said, what came of it, and what the processes were like meanwhile. `rewritten` are finals of the second pass; `wrong` is
    what else does not hold, in words; `log` what the daemon wrote beside its line a turn."""

    hours: float
    said: int
    wakes: int
    finals: int
    rewritten: int
    closed: int
    processes: tuple[Process, ...]
    seconds: float
    wrong: tuple[str, ...] = ()
    log: tuple[str, ...] = ()

    def broken(self) -> list[str]:
        """What does not hold, in words."""
        counted = (("wakes", self.wakes), ("finals", self.finals), ("closed turns", self.closed))
        miscounted = [f"{count} {what}, expected {self.said}" for what, count in counted if count != self.said]
        return [*miscounted, *(wrong for process in self.processes for wrong in process.broken()), *self.wrong]


@dataclass(frozen=True, slots=True)
class Period:
    """A turn's part of the day, in this order."""

    quiet: tuple[Samples, ...]
    said: Samples
    talk: tuple[Samples, ...]


def pieces() -> tuple[list[Samples], Samples]:
    """The turns of the sample, each from a little before its phrase to a while after its query, and its talk."""
    sound, facts = recordings.sample(), recordings.facts()
    turns = [sound[turn["phrase_start"] - _BEFORE : turn["speech_end"] + _AFTER] for turn in facts["turns"]]
    talk = facts["talk"][0]
    before_next = min(turn["phrase_start"] for turn in facts["turns"] if turn["phrase_start"] > talk["speech_end"]) - _BEFORE
    return turns, sound[talk["speech_start"] - _BEFORE : min(talk["speech_end"] + _AFTER, before_next)]


def day(hours: float, turns: int) -> Iterator[Period]:
    """So much sound, with so many turns in equal distances. Raises ValueError where they do not fit."""
    if not (0 < hours < math.inf and turns > 0):
        raise ValueError(f"hours and turns must be more than 0, got {hours:g} and {turns}")
    said, talk = pieces()
    length = round(hours * HOUR / turns)
    longest = max(map(len, said)) + len(talk)
    if length < longest:
        raise ValueError(f"{turns} turns do not fit into {hours:g} hours: each takes {longest / RATE:.1f} s")
    return _periods(length, turns, said, talk)


def _periods(length: int, turns: int, said: Sequence[Samples], talk: Samples) -> Iterator[Period]:
    room = recordings.room(60.0)
    silence = np.zeros_like(room)
    for turn in range(turns):
        own, also = said[turn % len(said)], (talk,) if turn % _TALK_EVERY == 0 else ()
        left = length - len(own) - sum(map(len, also))
        whole = silence if turn % 2 else room
        yield Period(tuple(whole[: min(len(room), left - start)] for start in range(0, left, len(room))), own, also)


def slope(looks: Sequence[Look]) -> float:
    """MB an hour of sound, by least squares (numpy.polyfit); 0 for fewer than three looks."""
    if len(looks) < 3:
        return 0.0
    return float(np.polyfit([look.hours for look in looks], [look.own_mb for look in looks], 1)[0])


def _warm(looks: Sequence[Look]) -> list[Look]:
    return [look for look in looks if look.hours >= _WARM * looks[-1].hours]
