"""Words that nobody said, and words that are not believed: a second pass and its guard, on noise and on speech.

What lives here: pieces of noise and music, what a second pass writes for them alone and what becomes of a whole turn, with the guard and
without; right texts that the guard refuses. What must not: the guard's measures (voiced.guard), a model's own loop (endpoint_tape.py).
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from voiced.api import (
    RATE,
    InputError,
    Limits,
    Samples,
    SegmentRules,
    Settings,
    SpeechProbability,
    __version__,
    is_crumb,
    letters,
    read_audio,
    reason_of,
    refusal,
    segments,
    to_samples,
)

from .clips import Clip, LeftOut
from .endpoint_points import never
from .endpoint_queries import Query, of_clip
from .endpoint_replay import replay
from .endpoint_tape import Library, Tape
from .report import rate_text
from .scores import Rate, share, slots_found, word_errors
from .sounds import VAD_HOP, room_noise
from .tables import Table

PIECE_S = 10.0
"""Of noise, a turn: longer than a turn waits for somebody to speak."""
_SHORTEST_S = 0.5
_RIGHT_WER = 0.34
"""A text with at most a third of its words wrong is a good second pass: to lose it costs something."""

WHAT = (
    f"Noise and music: pieces of at most {PIECE_S:g} s. Invented is a text that has a letter or a figure; notes of music are none.",
    "Second pass alone: the engine is given the piece as it is. With the guard it is asked only where the VAD has speech or the first pass "
    "a word, and its text must pass.",
    "Whole turn: a client opens a turn where the piece begins, and the daemon's own rules close it; what is published, of either pass.",
    f"Right texts: at most {_RIGHT_WER:.0%} of the words are wrong; of an order all slots are there. No rule cuts these turns.",
    "[a, b]: Wilson's 95 % interval.",
)

Progress = Callable[[str, int, int], None]
"""Told what is measured, how much of it is done, and how much there is."""


@dataclass(frozen=True, slots=True)
class Piece:
    """Sound in which nobody says a word."""

    set: str
    name: str
    samples: Samples


@dataclass(frozen=True, slots=True)
class NoiseHeard:
    """One piece. `refused` is why the guard does not believe `second_pass`, of the piece alone; "not asked" where it would not be asked."""

    set: str
    name: str
    seconds: float
    speech_s: float
    first_pass: str
    confidence: float | None
    second_pass: str
    refused: str
    turn_unguarded: str
    turn: str
    closed: str


@dataclass(frozen=True, slots=True)
class SpeechHeard:
    """One clip of speech, its turn heard whole. right: of the second pass's text; lost: with the guard the turn has no text at all."""

    set: str
    name: str
    speech_s: float
    text: str | None
    first_pass: str
    confidence: float | None
    second_pass: str
    refused: str
    note: str
    right: bool
    lost: bool


def made() -> Iterator[Piece]:
    """What any room may have and few recordings do: digital silence, a quiet room, the mains' hum, hiss."""
    count, random = to_samples(1000 * PIECE_S), np.random.default_rng(0)
    yield Piece("made", "silence", np.zeros(count, np.int16))
    for dbfs in (-70, -50, -30):
        yield Piece("made", f"a room at {dbfs} dBFS", room_noise(count, dbfs, random))
    for hertz in (50, 60):
        time_s = np.arange(count) / RATE
        hum = sum(np.sin(2 * np.pi * hertz * part * time_s) / part for part in (1, 2, 3, 5, 7))
        yield Piece("made", f"hum of {hertz} Hz", np.round(hum * 32768 * 10 ** (-30 / 20)).astype(np.int16))


def noises(data: Path, per_file: int | None, left_out: Callable[[LeftOut], None]) -> Iterator[Piece]:
    """The manifest's noise and music in pieces, at most `per_file` of a file. Raises InputError where the manifest cannot be read."""
    path = data / "manifest.jsonl"
    try:
        entries = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    except (OSError, ValueError) as error:
        raise InputError(str(path), f"cannot be read: {reason_of(error)}", "name a folder that has manifest.jsonl") from None
    length = to_samples(1000 * PIECE_S)
    for entry in entries:
        if entry.get("role") not in ("noise", "music"):
            continue
        name, where = str(entry["path"]), str(entry["source"])
        try:
            samples, _ = read_audio(data / name)
        except InputError as error:
            left_out(LeftOut(where, name, error.what))
            continue
        starts = [at for at in range(0, len(samples), length) if len(samples) - at >= _SHORTEST_S * RATE]
        for at in starts[:per_file]:
            yield Piece(where, f"{name}+{at / RATE:g}s" if at else name, samples[at : at + length])


def hear_noises(
    data: Path, per_file: int | None, library: Library, settings: Settings, progress: Progress, left_out: Callable[[LeftOut], None]
) -> list[NoiseHeard]:
    """What the settings make of every piece, made ones first; of none where the manifest lists no noise."""
    pieces = list(noises(data, per_file, left_out))
    if not pieces:
        return []
    heard = []
    pieces = [*made(), *pieces]
    for row, piece in enumerate(pieces):
        progress("noise", row, len(pieces))
        heard.append(hear_noise(piece, library, settings))
    progress("noise", len(pieces), len(pieces))
    return heard


def hear_clips(
    sets: Mapping[str, Sequence[Clip]],
    library: Library,
    settings: Settings,
    seed: int,
    progress: Progress,
    left_out: Callable[[LeftOut], None],
) -> list[SpeechHeard]:
    """What they make of clips of speech; one that is no query is told to `left_out`."""
    heard = []
    for name, clips in sets.items():
        for row, clip in enumerate(clips):
            progress(name, row, len(clips))
            try:
                heard.append(hear_speech(clip, library, settings, seed))
            except InputError as error:
                left_out(LeftOut(name, clip.name, error.what))
            except ValueError as error:
                left_out(LeftOut(name, clip.name, str(error)))
        progress(name, len(clips), len(clips))
    return heard


def speech_s(tape: Tape, settings: Settings) -> float:
    """Seconds that the VAD takes for speech, as the turn machine counts them: no padding, no bridged pauses."""
    vad = settings.vad
    rules = SegmentRules(vad.on, vad.off, min_silence=0, min_speech=to_samples(vad.min_speech_ms), pad=0)
    probabilities = [fact.probability for fact in tape.facts if isinstance(fact, SpeechProbability)]
    return sum(end - first for first, end in segments(probabilities, rules, VAD_HOP)) / RATE


def hear_noise(piece: Piece, library: Library, settings: Settings) -> NoiseHeard:
    tape = library.tape(piece.samples)
    spoken, first = speech_s(tape, settings), tape.whole.text
    text = library.second_pass(tape, piece.samples, 0, len(piece.samples)).value
    query = Query(piece.name, piece.set, None, piece.samples, 0, 0, "nobody speaks")
    guarded = replay(_guarded(settings, True), library, query, tape)
    unguarded = replay(_guarded(settings, False), library, query, tape)
    library.keep(piece.samples, tape)
    refused = "not asked"
    if spoken or first:
        found = refusal(text, first_pass=first, speech_s=spoken)
        refused = found.reason.value if found else ""
    return NoiseHeard(
        piece.set, piece.name, len(piece.samples) / RATE, spoken, first, tape.whole.confidence, text, refused,
        unguarded.final, guarded.final, guarded.reason,
    )  # fmt: skip


def hear_speech(clip: Clip, library: Library, settings: Settings, seed: int) -> SpeechHeard:
    """Raises InputError where the clip cannot be read, ValueError where it is no query."""
    query = of_clip(clip, library.stages.vad, seed)
    tape = library.tape(query.samples)
    unguarded = replay(never(_guarded(settings, False)), library, query, tape)
    guarded = replay(never(_guarded(settings, True)), library, query, tape)
    library.keep(query.samples, tape)
    return SpeechHeard(
        clip.set, clip.name, speech_s(tape, settings), clip.text, tape.whole.text, tape.whole.confidence, unguarded.second_pass,
        guarded.refused, guarded.note, _right(clip, unguarded.second_pass), not guarded.final,
    )  # fmt: skip


def _guarded(settings: Settings, guard: bool) -> Settings:
    return replace(settings, second_pass=replace(settings.second_pass, guard=guard))


def _right(clip: Clip, text: str) -> bool:
    if not letters(text):
        return False
    if clip.text is None:
        return slots_found(clip.slots, text) == len(clip.slots)
    errors = word_errors(clip.text, text)
    return errors.count <= _RIGHT_WER * errors.words


# ── figures ────────────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class NoiseFigures:
    """Shares of pieces with invented words."""

    set: str
    pieces: int
    minutes: float
    alone_unguarded: Rate
    alone: Rate
    turn_unguarded: Rate
    turn: Rate


@dataclass(frozen=True, slots=True)
class SpeechFigures:
    """refused: of right texts; kept: of wrong texts those that pass; lost: turns without any text."""

    set: str
    clips: int
    refused: Rate | None
    kept: Rate | None
    lost: Rate


def noise_figures(heard: Sequence[NoiseHeard]) -> list[NoiseFigures]:
    """A row a set, and one of all."""
    sets = dict.fromkeys(one.set for one in heard)
    rows = [_noise_row(name, [one for one in heard if one.set == name]) for name in sets]
    return [*rows, _noise_row("all", heard)] if len(rows) > 1 else rows


def _noise_row(name: str, heard: Sequence[NoiseHeard]) -> NoiseFigures:
    alone, passed, off, on = (
        _share([bool(letters(text)) and believed for text, believed in column])
        for column in (
            [(one.second_pass, True) for one in heard],
            [(one.second_pass, not one.refused) for one in heard],
            [(one.turn_unguarded, True) for one in heard],
            [(one.turn, True) for one in heard],
        )
    )
    return NoiseFigures(name, len(heard), sum(one.seconds for one in heard) / 60, alone, passed, off, on)


def speech_figures(heard: Sequence[SpeechHeard]) -> list[SpeechFigures]:
    sets = dict.fromkeys(one.set for one in heard)
    rows = [_speech_row(name, [one for one in heard if one.set == name]) for name in sets]
    return [*rows, _speech_row("all", heard)] if len(rows) > 1 else rows


def _speech_row(name: str, heard: Sequence[SpeechHeard]) -> SpeechFigures:
    refused = share([bool(one.refused) for one in heard if one.right])
    kept = share([not one.refused for one in heard if not one.right])
    return SpeechFigures(name, len(heard), refused, kept, _share([one.lost for one in heard]))


def _share(answers: Sequence[bool]) -> Rate:
    rate = share(answers)
    assert rate is not None  # a row has clips
    return rate


def tables(noise: Sequence[NoiseHeard], speech: Sequence[SpeechHeard]) -> list[Table]:
    found = []
    if noise:
        head = ["noise", "pieces", "min", "second pass alone", "with the guard", "whole turn, no guard", "whole turn, with it"]
        found.append([head] + [
            [
                row.set, str(row.pieces), f"{row.minutes:.1f}",
                *map(rate_text, (row.alone_unguarded, row.alone, row.turn_unguarded, row.turn)),
            ]
            for row in noise_figures(noise)
        ])  # fmt: skip
    if speech:
        head = ["speech", "clips", "right texts refused", "wrong texts that pass", "turns without text"]
        found.append(
            [head] + [[row.set, str(row.clips), *map(rate_text, (row.refused, row.kept, row.lost))] for row in speech_figures(speech)]
        )
        reasons = Counter(one.refused for one in speech if one.refused and one.right)
        found.append([["right texts refused for", "clips"], *([reason, str(count)] for reason, count in reasons.most_common())])
    if noise:
        reasons = Counter(one.refused or "believed" for one in noise if letters(one.second_pass) or not one.refused)
        found.append([["texts for noise", "pieces"], *([reason, str(count)] for reason, count in reasons.most_common())])
    return found


def document(
    data: Path, model: str, noise: Sequence[NoiseHeard], speech: Sequence[SpeechHeard], left: Sequence[LeftOut]
) -> Mapping[str, Any]:
    """Everything, in plain values; keys may be added, none changes its meaning. Rates 0 … 1."""
    return {
        "voiced": __version__,
        "data": str(data),
        "second_pass": model,
        "limits": asdict(Limits()),
        "noise": [asdict(row) for row in noise_figures(noise)] if noise else [],
        "speech": [asdict(row) for row in speech_figures(speech)] if speech else [],
        "pieces": [asdict(one) | {"crumb": is_crumb(one.first_pass, confidence=one.confidence, speech_s=one.speech_s)} for one in noise],
        "clips": [asdict(one) for one in speech],
        "left_out": [asdict(one) for one in left],
        "what": list(WHAT),
    }
