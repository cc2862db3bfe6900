"""`voicectl mic test`: listens to a microphone for some seconds and says what is wrong with it. No daemon is needed.

What lives here: the command, and what of the machine itself is wrong (rights, session). What must not: figures and their meaning
(voiced.api has them). Exit codes: 0 nothing that would keep voiced from its work; 1 something does; 2 options; 74 no such device, or it
has gone.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from voiced.api import ModelError, __version__, default_library

from .mic import channel, listening, seconds, shared, wanted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from voiced.api import AudioFrame, Measures, Opened, Recording, Samples, SoundFinding, Vad

SECONDS = 10.0


def arguments(one: argparse.ArgumentParser) -> None:
    """Adds the options of `mic test`."""
    shared(one)
    one.add_argument("--seconds", metavar="S", type=seconds, default=SECONDS, help=f"how long it listens ({SECONDS:g})")
    one.add_argument("--channel", metavar="C", type=channel, help="auto, mix or a number from 0 (default: the settings')")


def test(options: argparse.Namespace) -> int:
    """Listens and prints a verdict; 1 where a finding fails. Raises VoicedError."""
    from voiced.api import Grade, Recording, channel_to_hear, diagnose, worst_grade

    beside, talk = session(), Talk()  # before the device is opened: what takes long must not cost its sound
    device, heard = wanted(options)
    heard = options.channel or heard
    with Recording(device) as recording:
        opened = recording.opened
        print(f"{opened.device} ({opened.host}): {opened.rate} Hz, {opened.channels} ch; {opened.why}", file=sys.stderr)
        print(f"Say something, as you would to voiced: it listens for {options.seconds:g} s.", file=sys.stderr)
        measures = _listen(recording, options.seconds, heard, talk)
    found = [*beside, *diagnose(measures, heard)]
    grade = worst_grade(found)
    if options.json:
        print(json.dumps(document(opened, measures, found, grade.value, heard), ensure_ascii=False))
    else:
        print("\n".join(told(found, grade.value)))
        print(f"\nFor the settings:\n\n{block(opened, channel_to_hear(found, heard))}", end="")
    return int(grade is Grade.FAIL)


def _listen(recording: Recording, length_s: float, heard: str, talk: Talk) -> Measures:
    import numpy as np
    from voiced.api import drift_of, measure

    rate = recording.opened.rate
    sounds: list[Samples] = []
    marks: list[tuple[int, int]] = []
    with listening(recording, heard) as pieces:
        for piece in pieces:
            sounds.append(piece.sound)
            marks.append((piece.ended, piece.ended_ns))
            pieces.speech = talk.feed(piece.heard)
            if piece.ended >= length_s * rate:
                break
    sound = np.concatenate(sounds)
    return measure(sound, rate, talk.windows, drift_of(marks, rate), recording.lost / (len(sound) + recording.lost))


class Talk:
    """Whether somebody speaks, window by window; without the model of the VAD nobody is said to."""

    def __init__(self) -> None:
        import numpy as np
        from voiced.api import Vad, defaults

        self.windows: list[bool] = []
        self._rest = np.zeros(0, np.int16)
        self._vad: Vad | None = None
        try:
            self._vad = Vad(default_library().find(defaults().models.vad, "vad").files["model"])
        except ModelError as error:
            print(f"voicectl: {error}; without it nobody is heard to speak", file=sys.stderr)

    def feed(self, heard: Sequence[AudioFrame]) -> bool | None:
        """Takes the next frames; whether there is speech in the newest window, None where nobody can tell."""
        import numpy as np

        if self._vad is None:
            return None
        sound = np.concatenate([self._rest, *(frame.samples for frame in heard)])
        hop = self._vad.hop
        for at in range(0, len(sound) - hop + 1, hop):
            self.windows.append(self._vad.step(sound[at : at + hop]) >= 0.5)
        self._rest = sound[len(sound) // hop * hop :]
        return bool(self.windows) and self.windows[-1]


def session() -> list[SoundFinding]:
    """What is wrong with the session that this runs in, whatever the microphone gives."""
    from voiced.api import Grade, SoundFinding, closed_nodes, find_devices

    found = []
    if "XDG_RUNTIME_DIR" not in os.environ:
        advice = "loginctl enable-linger USER as root, and set XDG_RUNTIME_DIR to /run/user/UID; a service of the system has only ALSA"
        what = "XDG_RUNTIME_DIR is not set, so no sound server of a user can be found"
        found.append(SoundFinding("session", Grade.WARN, what, "no_session", advice))
    elif not find_devices().server:
        what = "no sound server answers this user: cards are opened directly, by one program at a time"
        found.append(SoundFinding("session", Grade.OK, what))
    if closed := closed_nodes():
        what, _, advice = closed.partition(": ")
        found.append(SoundFinding("rights", Grade.WARN, what, "no_rights", advice))
    return found


def told(found: Sequence[SoundFinding], grade: str) -> list[str]:
    """A line a finding, its advice below it, and the verdict."""
    verdict = {
        "ok": "This microphone is good.",
        "warn": "This microphone works, and could be better.",
        "fail": "This microphone will not do.",
    }
    width = max(len(one.name) for one in found)
    lines = []
    for one in found:
        lines.append(f"{one.grade.value:<4}  {one.name:<{width}}  {one.found}")
        if one.advice:
            lines.append(f"      {'':<{width}}  → {one.advice}")
    return [*lines, "", verdict[grade]]


def document(opened: Opened, measures: Measures, found: Sequence[SoundFinding], grade: str, channel: str) -> dict[str, Any]:
    """Everything, in plain values; keys may be added, none changes its meaning."""
    from voiced.api import channel_to_hear

    figures = asdict(measures)
    finite = {key: None if value in (float("inf"), float("-inf")) else value for key, value in figures.items()}
    findings = [{**asdict(one), "grade": one.grade.value} for one in found]
    return {
        "voiced": __version__,
        "grade": grade,
        "device": asdict(opened),
        "findings": findings,
        **finite,
        "yaml": block(opened, channel_to_hear(found, channel)),
    }


def block(opened: Opened, channel: str) -> str:
    """A lane that hears this device, wherever it is plugged in."""
    source = json.dumps(opened.id or opened.device, ensure_ascii=False)  # a string of JSON is one of YAML
    return f"lanes:\n  - name: main\n    source: {source}\n    channel: {channel}\n"
