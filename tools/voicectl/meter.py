"""A level meter on one line of a terminal.

What lives here: the line, and when it is drawn. What must not: where the sound is from. It is written anew over itself, only when its text
has changed, in whatever width the terminal has at that moment; without a terminal nothing is drawn.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TextIO

FLOOR_DBFS = -60.0
"""The left end: a quiet room is about -60."""

HOLD_S = 1.5
"""So long a peak and a clip stay to be seen."""

_DRAW_S = 0.1
_USUAL_WIDTH = 80
_BAR = ("█", "·", "▏")
_PLAIN_BAR = ("#", "-", "|")
_GREEN, _YELLOW, _RED = "32", "33", "31"
_LOUD_DBFS, _TOO_LOUD_DBFS = -12.0, -3.0


@dataclass(frozen=True, slots=True)
class Reading:
    """What is shown. Levels in dBFS; `speech` None: nobody asked; `note`: whatever else."""

    seconds: float
    level: float
    peak: float
    clips: bool = False
    speech: bool | None = None
    note: str = ""


class Hold:
    """A peak that stays for HOLD_S, and whether something clipped meanwhile. Times are the sound's own."""

    def __init__(self) -> None:
        self.peak = -120.0
        self._since = self._clipped = -1e9

    def feed(self, seconds: float, peak: float, *, clips: bool) -> tuple[float, bool]:
        if peak >= self.peak or seconds - self._since >= HOLD_S:
            self.peak, self._since = peak, seconds
        if clips:
            self._clipped = seconds
        return self.peak, seconds - self._clipped < HOLD_S


def line(reading: Reading, width: int, signs: tuple[str, str, str] = _BAR) -> str:
    """As it is shown in so many columns; where they are few, the bar goes first, then what stands on the right."""
    full, empty, mark = signs
    marks = ("  CLIP" if reading.clips else "") + ("" if reading.speech is None else "  speech" if reading.speech else "        ")
    left, right = f"{reading.seconds:5.1f} s ", f" {reading.level:4.0f} dBFS, peak {reading.peak:4.0f}{marks}"
    right += f"  {reading.note}" if reading.note else ""
    cells = min(40, width - len(left) - len(right))
    if cells < 8:
        return (left + right.strip())[:width]

    def cell(dbfs: float) -> int:
        return max(0, min(cells - 1, round((dbfs - FLOOR_DBFS) / -FLOOR_DBFS * cells)))

    filled, held = cell(reading.level), cell(reading.peak)
    bar = [full if at < filled else empty for at in range(cells)]
    if held >= filled:
        bar[held] = mark
    return left + "".join(bar) + right


class Meter:
    """Draws readings on a stream. One thread."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self.live = stream.isatty() and os.environ.get("TERM", "dumb") != "dumb"
        self._colour = self.live and not os.environ.get("NO_COLOR")
        encoding = (stream.encoding or "ascii").lower()
        self._signs = _BAR if "utf" in encoding else _PLAIN_BAR
        self._drawn = ""
        self._due = 0.0

    def show(self, reading: Reading) -> None:
        """Draws it, ten times a second at the most."""
        if not self.live or reading.seconds < self._due:
            return
        self._due = reading.seconds + _DRAW_S
        text = line(reading, self._width() - 1, self._signs)
        if text == self._drawn:
            return
        self._drawn = text
        colour = _RED if reading.clips or reading.peak > _TOO_LOUD_DBFS else _YELLOW if reading.peak > _LOUD_DBFS else _GREEN
        painted = f"\x1b[{colour}m{text}\x1b[0m" if self._colour else text
        self._stream.write(f"\r{painted}\x1b[K")
        self._stream.flush()

    def say(self, text: str) -> None:
        """A line that stays, above the meter."""
        self.clear()
        self._stream.write(f"{text}\n")
        self._stream.flush()

    def clear(self) -> None:
        """The meter's line is gone."""
        if self._drawn:
            self._stream.write("\r\x1b[K")
            self._stream.flush()
        self._drawn, self._due = "", 0.0

    def _width(self) -> int:
        try:
            return os.get_terminal_size(self._stream.fileno()).columns or _USUAL_WIDTH
        except (OSError, ValueError):
            return _USUAL_WIDTH
