"""The sample recording that ships with voiced: two turns, and talk between them that must not wake.

What lives here: its script and how it is put together; each phrase is spoken alone and placed, so that every position is
known to the sample. What must not: anything that another recording would need.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .sound import RATE, Sound, at_16k, at_level, faded, room_noise, silence, trimmed
from .voices import Speaker

_SPEECH_DBFS = -20.0
_NOISE_DBFS = -65.0
_SEED = 20


@dataclass(frozen=True, slots=True)
class Part:
    """`pause_ms` of quiet, then `text` by `voice`. What is said for the `wake` phrase has the phrase as its text."""

    pause_ms: float
    text: str
    voice: str
    kind: str
    speed: float = 1.0


SCRIPT = (
    Part(1195, "jarvis", "af_heart", "wake"),
    # 150 and not 250: the starter model then says </s> half a second after the end, before silence alone would close the turn
    Part(150, "Turn on the lights in the kitchen.", "af_heart", "turn"),
    Part(2500, "I think the bread is almost done.", "am_michael", "talk"),
    Part(2085, "jarvis", "af_heart", "wake"),
    Part(250, "What time is it?", "af_heart", "turn"),
)
_LAST_PAUSE_MS = 2000


def make(speaker: Speaker) -> tuple[Sound, dict[str, Any]]:
    """The sound (float32, 16 kHz) and its description, as sample.json has it. Takes some seconds."""
    pieces: list[Sound] = []
    marks: list[tuple[Part, int, int]] = []
    position = 0
    for part in SCRIPT:
        said = part.text.capitalize() + "," if part.kind == "wake" else part.text  # the comma keeps the voice up
        spoken = faded(at_level(trimmed(at_16k(*speaker.say(said, part.voice, part.speed))), _SPEECH_DBFS))
        quiet = silence(part.pause_ms)
        start = position + len(quiet)
        position = start + len(spoken)
        pieces += [quiet, spoken]
        marks.append((part, start, position))
    sound = np.concatenate([*pieces, silence(_LAST_PAUSE_MS)])
    sound += room_noise(len(sound), _NOISE_DBFS, np.random.default_rng(_SEED))
    return sound, _describe(marks, len(sound))


def _describe(marks: list[tuple[Part, int, int]], samples: int) -> dict[str, Any]:
    turns: list[dict[str, Any]] = []
    talk: list[dict[str, Any]] = []
    for part, start, end in marks:
        if part.kind == "wake":
            turns.append({"phrase": part.text, "phrase_start": start, "phrase_end": end, "voice": part.voice})
        elif part.kind == "turn":
            turns[-1] |= {"text": part.text, "speech_start": start, "speech_end": end}
        else:
            talk.append({"text": part.text, "speech_start": start, "speech_end": end, "voice": part.voice})
    return {"rate": RATE, "samples": samples, "turns": turns, "talk": talk}


def write(folder: Path, speaker: Speaker) -> None:
    """sample.flac (16 kHz, mono, 16 bit) and sample.json in `folder`."""
    import soundfile

    sound, description = make(speaker)
    folder.mkdir(parents=True, exist_ok=True)
    soundfile.write(folder / "sample.flac", sound, RATE, subtype="PCM_16")
    (folder / "sample.json").write_text(json.dumps(description, indent=2, ensure_ascii=False) + "\n")
