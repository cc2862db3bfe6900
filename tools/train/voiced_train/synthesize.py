"""Spoken commands, synthesized: sentences in, recordings and a manifest out.

What lives here: which sentence is said by whom, how fast and with which hesitation, and a run that can be stopped at any
time and goes on where it was. What must not: how a voice speaks (voices.py).

    python -m voiced_train.synthesize fetch
    python -m voiced_train.synthesize commands --texts commands.tsv --out DIR [--count N] [--share 1/2] [--voice NAME]
    python -m voiced_train.synthesize sample DIR

One process, one thread; several shares may fill one folder at the same time. A line of manifest.jsonl is written after its
recording is whole, in one write, so what the manifest names is always there. Seeded: sentence, voice, speed and shape of
job k depend on the seed and on k alone; the noise that a voice draws does not repeat over a restart.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from voiced.errors import InputError, UsageError, VoicedError

from .sound import RATE, Sound, at_16k, faded, silence, speech_bounds
from .voices import Speaker, cache_folder, fetch

_SLOWEST, _FASTEST = 0.85, 1.2
_ENGLISH_SHARE = 0.75
"""Of the sentences, spoken by voices whose own language is English; the other voices speak with an accent."""

_PLAIN_FIRST = 2000
"""So many first jobs are whole sentences said in one go: words come first, the end of a query second."""
_SHAPES = {"plain": 0.6, "pause": 0.14, "hesitation": 0.13, "cut-off": 0.13}

_SHORTEST_PAUSE_MS, _LONGEST_PAUSE_MS = 300, 1400
_FILLERS = ("um", "uh", "er", "hmm")
_OPEN_WORDS = set("a an and at by for from in is my of on or our that the to with your".split())  # noqa: SIM905
"""A sentence that stops after one of these is not finished."""
_QUESTIONS = """
am are can could did do does had has have how is may should was were what what's when where which who who's whose why will would
"""
_QUESTION_WORDS = set(_QUESTIONS.split())
_LICENCES = {"joe": "MIT", "kokoro": "Apache-2.0"}


@dataclass(frozen=True, slots=True)
class Job:
    """One recording.

    pieces     what is said in one go each, with punctuation; more than one only where a pause lies between
    pause_ms   the quiet between two pieces
    text       its words, as a recognizer should give them (without fillers)
    complete   whether the sentence ends; no </s> belongs after one that does not
    """

    index: int
    shape: str
    pieces: tuple[str, ...]
    pause_ms: float
    text: str
    source: str
    voice: str
    speed: float
    complete: bool


def read_texts(path: Path) -> list[tuple[str, str]]:
    """(sentence, source) of each line `sentence TAB source`, in order, without repetitions. Raises InputError by line."""
    texts: dict[str, str] = {}
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(str(path), f"cannot be read ({error})") from None
    for number, line in enumerate(lines, 1):
        text, tab, source = line.partition("\t")
        words = text.split()
        if not (tab and words and source):
            raise InputError(f"{path}:{number}", f"must be a sentence, a tab and its source; got {line[:60]!r}")
        texts.setdefault(" ".join(words), source)
    if not texts:
        raise InputError(str(path), "holds no sentence")
    return list(texts.items())


def plan(texts: Sequence[tuple[str, str]], voices: Sequence[str], count: int, seed: int, plain_first: int = _PLAIN_FIRST) -> Iterator[Job]:
    """The first `count` jobs; a larger count begins with the same ones. When all sentences are said, they come again.

    plain_first  jobs before shapes are drawn
    """
    order = list(range(len(texts)))
    random.Random(f"{seed}:order").shuffle(order)
    english = [voice for voice in voices if voice[0] in "ab" or voice == "joe"]
    foreign = [voice for voice in voices if voice not in english] or english
    english = english or foreign
    for index in range(count):
        text, source = texts[order[index % len(order)]]
        rng = random.Random(f"{seed}:{index}")
        voice = rng.choice(english if rng.random() < _ENGLISH_SHARE else foreign)
        speed = round(rng.uniform(_SLOWEST, _FASTEST), 2)
        shape = rng.choices(list(_SHAPES), list(_SHAPES.values()))[0] if index >= plain_first else "plain"
        shape, pieces, text = _shaped(shape, text.split(), rng)
        pause = round(rng.uniform(_SHORTEST_PAUSE_MS, _LONGEST_PAUSE_MS)) if len(pieces) > 1 else 0
        yield Job(index, shape, pieces, pause, text, source, voice, speed, shape != "cut-off")


def _shaped(shape: str, words: list[str], rng: random.Random) -> tuple[str, tuple[str, ...], str]:
    """(shape, pieces, text): what is too short for a shape is said plainly."""
    text = " ".join(words)
    mark = "?" if words[0] in _QUESTION_WORDS else "."
    breaks = range(2, len(words))  # at least two words before, one after
    cuts = [i for i in breaks if words[i - 1] in _OPEN_WORDS]
    if shape == "cut-off" and cuts:
        begun = " ".join(words[: rng.choice(cuts)])
        return shape, (begun + "…",), begun
    if shape == "hesitation" and breaks:
        at, filler = rng.choice(breaks), rng.choice(_FILLERS)
        return shape, (f"{' '.join(words[:at])}, {filler}, {' '.join(words[at:])}{mark}",), text
    if shape == "pause" and breaks:
        at = rng.choice(breaks)
        return shape, (" ".join(words[:at]) + ",", " ".join(words[at:]) + mark), text
    return "plain", (text + mark,), text


def speak(job: Job, speaker: Speaker) -> tuple[Sound, dict[str, Any]]:
    """The recording (float32, 16 kHz) and its manifest line, without its path. Positions are samples at 16 kHz.

    Raises VoicedError where the voice cannot say it, ValueError where it said nothing.
    """
    spoken = [at_16k(*speaker.say(piece, job.voice, job.speed)) for piece in job.pieces]
    pauses = []
    sound, rest = spoken[0], spoken[1:]
    for piece in rest:
        before, after = sound[: speech_bounds(sound)[1]], piece[speech_bounds(piece)[0] :]
        quiet = silence(job.pause_ms)
        pauses.append([len(before), len(before) + len(quiet)])
        sound = np.concatenate([faded(before), quiet, faded(after)])
    start, end = speech_bounds(sound)
    engine = "joe" if job.voice == "joe" else "kokoro"
    line = {
        "role": "synthetic",
        "seconds": round(len(sound) / RATE, 3),
        "text": job.text,
        "said": " ".join(job.pieces),
        "speaker": f"{engine}:{job.voice}",
        "speed": job.speed,
        "shape": job.shape,
        "complete": job.complete,
        "speech": [start, end],
        "pauses": pauses,
        "source": job.source,
        "licence": _LICENCES[engine],
        "index": job.index,
    }
    return sound, line


def finished(manifest: Path) -> set[int]:
    """Indices of the jobs that the manifest has. A line that a crash cut short is closed, and counts for nothing."""
    if not manifest.exists():
        return set()
    content = manifest.read_bytes()
    if content and not content.endswith(b"\n"):
        _append(manifest, b"\n")
    done = set()
    for line in content.splitlines():
        try:
            done.add(int(json.loads(line)["index"]))
        except (ValueError, KeyError, TypeError):
            continue
    return done


def _append(manifest: Path, line: bytes) -> None:
    file = os.open(manifest, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(file, line)  # one write at the end of a regular file: shares do not mix their lines
    finally:
        os.close(file)


def run(jobs: Iterator[Job], out: Path, speaker: Speaker, share: tuple[int, int] = (1, 1)) -> tuple[int, int]:
    """Makes what is missing of a share; returns how many recordings were made and how many could not be."""
    import soundfile

    manifest = out / "manifest.jsonl"
    out.mkdir(parents=True, exist_ok=True)
    done = finished(manifest)
    made = failed = 0
    seconds, started = 0.0, time.monotonic()
    for job in jobs:
        if job.index % share[1] != share[0] - 1 or job.index in done:
            continue
        path = Path("audio") / f"{job.index // 1000:03d}" / f"{job.index:06d}.flac"
        try:
            sound, line = speak(job, speaker)
        except (VoicedError, ValueError) as error:
            failed += 1
            print(f"job {job.index} ({job.voice}: {job.text!r}) could not be said: {error}", file=sys.stderr, flush=True)
            continue
        (out / path).parent.mkdir(parents=True, exist_ok=True)
        part = (out / path).with_suffix(".part")
        soundfile.write(part, sound, RATE, subtype="PCM_16", format="FLAC")
        part.replace(out / path)
        _append(manifest, json.dumps({"path": str(path), **line}, ensure_ascii=False).encode() + b"\n")
        made += 1
        seconds += line["seconds"]
        if made % 50 == 0:
            speed = seconds / (time.monotonic() - started)
            print(f"{made} made, {failed} failed, {seconds / 3600:.2f} h of speech, {speed:.2f} x real time", flush=True)
    return made, failed


def _share(text: str) -> tuple[int, int]:
    part, slash, parts = text.partition("/")
    if not (slash and part.isdecimal() and parts.isdecimal() and 1 <= int(part) <= int(parts)):
        raise argparse.ArgumentTypeError(f"must be I/N with 1 <= I <= N, got {text!r}")
    return int(part), int(parts)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m voiced_train.synthesize", description="Synthesize speech for training.")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("fetch", help="fetch the voices, and name them")
    sample = commands.add_parser("sample", help="make the sample recording that ships with voiced")
    sample.add_argument("out", type=Path, metavar="DIR")
    many = commands.add_parser("commands", help="speak command sentences; goes on where an earlier run stopped")
    many.add_argument("--texts", type=Path, required=True, metavar="FILE", help="lines of: sentence, tab, source")
    many.add_argument("--out", type=Path, required=True, metavar="DIR", help="recordings and manifest.jsonl")
    many.add_argument("--count", type=int, default=6000, metavar="N", help="recordings in all (default: %(default)s)")
    many.add_argument("--share", type=_share, default=(1, 1), metavar="I/N", help="make the I-th of N shares (default: 1/1)")
    many.add_argument("--seed", type=int, default=0, metavar="N", help="(default: %(default)s)")
    many.add_argument("--plain", type=int, default=_PLAIN_FIRST, metavar="N", help="sentences before shapes come (default: %(default)s)")
    many.add_argument("--voice", action="append", metavar="NAME", help="one to speak with, may be repeated (default: all)")
    options = parser.parse_args(arguments)
    try:
        if options.command == "fetch":
            print("\n".join(Speaker(fetch(cache_folder())).voices()))
            return 0
        if options.command == "sample":
            from .sample import write

            write(options.out, Speaker(fetch(cache_folder())))
            return 0
        if options.count < 1:
            raise UsageError("--count", f"must be at least 1, got {options.count}")
        texts = read_texts(options.texts)
        speaker = Speaker(fetch(cache_folder()), seed=options.seed)
        chosen = options.voice or speaker.voices()
        if unknown := sorted(set(chosen) - set(speaker.voices())):
            raise UsageError("--voice", f"{unknown[0]!r} is not one of {', '.join(speaker.voices())}")
        jobs = plan(texts, chosen, options.count, options.seed, options.plain)
        made, failed = run(jobs, options.out, speaker, options.share)
        print(f"{made} recordings made, {failed} failed")
        return 1 if failed else 0
    except VoicedError as error:
        print(f"synthesize: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
