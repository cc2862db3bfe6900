"""`voicectl replay`: recordings through the whole pipeline, faster than they were spoken, and whether the same comes out as before.

What lives here: the command, and the saved turn (its file, what is held against it). What must not: how sound is heard (voiced.api.hear).

A saved turn is `NAME.turn.json`: the audio file beside it, and the events that are expected of it. Held against what is heard: which
events, in which order, with which words; positions within HOP. Scores and margins are not in it: int8 kernels round otherwise on another
processor. Turns count from 1 in each file.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any

from voiced.api import (
    RATE,
    Begun,
    Conversation,
    InputError,
    OutputError,
    Over,
    Refused,
    Remark,
    Settings,
    UsageError,
    __version__,
    encode,
    find_config,
    hear,
    json_line,
    read_settings,
    roles,
    to_ms,
    to_samples,
)

SUFFIX = ".turn.json"
FORMAT = 1

HOP = to_samples(80)
"""The longest hop of any stage, the wake stage's: so far a position may be off."""

POSITIONS = ("sample", "phrase_end", "first", "last", "speech_end")
WORDS = ("event", "turn", "phrase", "text", "why", "reason", "rule", "source", "first_pass", "second_pass", "refused")

Line = dict[str, Any]
"""An event as it is saved: of WORDS and POSITIONS what it has."""


@dataclass(slots=True)
class Replayed:
    """A file that was heard. `seconds` of sound took `took_s`; `refused` is why it could not be heard (to its end)."""

    file: Path
    events: list[Line] = field(default_factory=list)
    first_turn: int | None = None
    seconds: float = 0.0
    took_s: float = 0.0
    refused: str = ""
    code: int = 0


@dataclass(frozen=True, slots=True)
class Saved:
    """What a turn file says. `models`: role to model id, when it was written."""

    audio: Path
    events: Sequence[Line]
    models: Mapping[str, str]


def arguments(one: argparse.ArgumentParser) -> None:
    one.add_argument("files", metavar="FILE", type=Path, nargs="+", help=f"WAV, FLAC, Ogg, or a saved turn (NAME{SUFFIX})")
    what = one.add_mutually_exclusive_group()
    what.add_argument("--expect", metavar="TURN.json", type=Path, help="hold what is heard against this saved turn")
    what.add_argument("--write-expect", action="store_true", help=f"save what is heard, beside each FILE, as NAME{SUFFIX}")
    one.add_argument("--config", metavar="FILE", type=Path, help="settings to hear by (default: as voiced finds them)")


def replay(options: argparse.Namespace) -> int:
    """0: as expected, or nothing was; 1: something else was heard. Raises UsageError, InputError, OutputError, ModelError."""
    if options.expect and len(options.files) > 1:
        raise UsageError("--expect", f"goes with one FILE; {len(options.files)} were given", f"save a turn for each: {SUFFIX} beside it")
    settings = read_settings(find_config(options.config))
    saved = {file: load(file) for file in options.files if file.name.endswith(SUFFIX)}
    if options.expect:
        saved[options.files[0]] = load(options.expect)
    audio = [saved[file].audio if file.name.endswith(SUFFIX) else file for file in options.files]
    code = 0
    heard = listen(settings, audio, as_json=options.json)
    for file, one in zip(options.files, heard, strict=True):
        if one.refused:
            code = one.code
            continue
        said = f"{len(one.events)} events, {one.seconds:.1f} s of sound in {one.took_s:.1f} s"
        if options.write_expect:
            where = file if file.name.endswith(SUFFIX) else file.with_suffix(SUFFIX)
            write(where, one, settings)
            _say(options, f"{where}: saved ({said})")
        elif file in saved:
            off = differences(saved[file].events, one.events)
            for line in off:
                _say(options, f"{file}: {line}")
            if off and (moved := others(saved[file].models, roles(settings))):
                _say(options, f"{file}: it was saved with other models: {moved}")
            _say(options, f"{file}: {f'{len(off)} differences' if off else 'as expected'} ({said})")
            code = code or (1 if off else 0)
        else:
            _say(options, f"{file}: {said}")
    return code


def _say(options: argparse.Namespace, line: str) -> None:
    """Among events, where a program reads them, it would be none."""
    print(line, file=sys.stderr if options.json else sys.stdout)


def listen(settings: Settings, files: Sequence[Path], *, as_json: bool) -> list[Replayed]:
    """Hears them, and shows what is heard."""
    conversation = Conversation(sys.stdout)
    found: list[Replayed] = []
    began = 0.0
    for told in hear(settings, [str(file) for file in files]):
        match told:
            case Begun(file):
                found.append(Replayed(Path(file)))
                began = time.monotonic()
                if not as_json:
                    conversation.say(f"── {file}")
            case Remark(line):
                print(f"voicectl: {found[-1].file}: {line}", file=sys.stderr)
            case Refused(line, code):
                print(f"voicectl: {line}", file=sys.stderr)
                found[-1].refused, found[-1].code = line, code
            case Over(samples):
                found[-1].seconds, found[-1].took_s = samples / RATE, time.monotonic() - began
            case event:
                found[-1].events.append(_line(encode(event), found[-1]))
                if as_json:
                    print(json_line(event, file=str(found[-1].file)))
                else:
                    conversation.show(event)
    return found


def _line(plain: Line, of: Replayed) -> Line:
    line = {name: plain[name] for name in (*WORDS, *POSITIONS) if plain.get(name) not in (None, "")}
    if "turn" in line:
        of.first_turn = line["turn"] if of.first_turn is None else of.first_turn
        line["turn"] += 1 - of.first_turn
    return line


# ── the saved turn ─────────────────────────────────────────────────────────────────────────────────────────────────────


def write(path: Path, heard: Replayed, settings: Settings) -> None:
    """OutputError where it cannot be written."""
    try:
        audio = os.path.relpath(heard.file, path.parent)
        plain = {"format": FORMAT, "voiced": __version__, "audio": audio, "models": roles(settings)}
        events = ",\n".join(f"  {json.dumps(line, ensure_ascii=False)}" for line in heard.events)  # an event a line, for whoever compares
        path.write_text(f'{json.dumps(plain)[:-1]}, "events": [\n{events}\n]}}\n', encoding="utf-8")
    except OSError as error:
        raise OutputError(str(path), f"cannot be written: {error.strerror}") from None


def load(path: Path) -> Saved:
    """InputError where it is no saved turn."""
    advice = "save one: voicectl replay FILE --write-expect"
    try:
        plain = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(str(path), f"cannot be read: {error.strerror}", advice) from None
    except ValueError:
        raise InputError(str(path), "is no JSON", advice) from None
    match plain:
        case {"format": 1, "audio": str(audio), "models": dict(models), "events": list(events)} if all(map(_is_line, events)):
            return Saved(path.parent / audio, events, models)
        case {"format": int(other)} if other != FORMAT:
            raise InputError(str(path), f"expected format {FORMAT}; got {other}", advice)
    raise InputError(str(path), "is no saved turn: expected format, audio, models and events", advice)


def _is_line(line: object) -> bool:
    return isinstance(line, dict) and isinstance(line.get("event"), str) and all(isinstance(line.get(at, 0), int) for at in POSITIONS)


def others(then: Mapping[str, str], now: Mapping[str, str]) -> str:
    """The roles whose model is another, in words."""
    return ", ".join(
        f"{role} {then.get(role, 'none')}, now {now.get(role, 'none')}" for role in sorted({*then, *now}) if then.get(role) != now.get(role)
    )


def differences(expected: Sequence[Line], heard: Sequence[Line]) -> list[str]:
    """What is not as it was, a line each, in the order of the events."""
    was, now = ([tuple((name, line.get(name)) for name in WORDS) for line in lines] for lines in (expected, heard))
    found: list[str] = []
    for what, i, j, k, m in SequenceMatcher(None, was, now, autojunk=False).get_opcodes():
        if what == "equal":
            found += [told for old, new in zip(expected[i:j], heard[k:m], strict=True) for told in _off(old, new)]
            continue
        found += [f"expected {_told(line)}" for line in expected[i:j]]
        found += [f"heard    {_told(line)}" for line in heard[k:m]]
    return found


def _off(old: Line, new: Line) -> list[str]:
    """Positions of one event that are further off than a hop."""
    return [
        f"{_told(new)}: its {name} is {to_ms(new[name] - old[name]):+.0f} ms off"
        if name in old and name in new
        else f"{_told(new)}: {name} is new or gone"
        for name in POSITIONS
        if (name in old) != (name in new) or (name in old and abs(old[name] - new[name]) > HOP)
    ]


def _told(line: Line) -> str:
    words = ", ".join(str(line[name]) for name in WORDS[2:] if name in line)
    turn = f" of turn {line['turn']}" if "turn" in line else ""
    return f"{line['event']}{turn} at {to_ms(line.get('sample', 0)) / 1000:.2f} s" + (f" ({words})" if words else "")
