"""A lane's events as a conversation on a terminal, or as one JSON object a line.

What lives here: how events look to a person. What must not: where they come from (a demo, files and a bus look the same).
On a terminal a partial is rewritten in place until its final; in a pipe each is a line of its own.
"""

from __future__ import annotations

import json
import os
import sys
import unicodedata
from typing import Any, TextIO

from .events import Endpoint, Event, Final, Partial, SpeechStarted, TextSource, TurnClosed, Wake, WakeRefused, encode
from .units import to_ms

_PLAIN, _DIM, _BOLD, _GREEN, _YELLOW, _CYAN = "", "2", "1", "32", "33", "36"
_CLEAR_LINE = "\r\x1b[K"
_USUAL_WIDTH = 80
_LEAST_ROOM = 10
"""Columns of a partial that are shown at the least: a word. A terminal too narrow for it wraps."""


def _columns(text: str) -> list[int]:
    """What each character takes on a terminal: 2 for the wide ones of East Asia, 0 for a mark on the one before it."""
    return [0 if unicodedata.combining(each) else 2 if unicodedata.east_asian_width(each) in "WF" else 1 for each in text]


def _end_of(text: str, room: int) -> str:
    """The text, or as much of its end as `room` columns show: the newest words are the ones looked for."""
    columns = _columns(text)
    if sum(columns) <= room:
        return text
    taken, first = 1, len(text)  # the ellipsis
    while taken + columns[first - 1] <= room:
        first -= 1
        taken += columns[first]
    while first < len(text) and not columns[first]:
        first += 1  # a mark whose letter is cut off
    return f"…{text[first:]}"


class Conversation:
    """Prints events to a stream. One thread.

    several   name the lane on each line
    """

    def __init__(self, stream: TextIO, *, several: bool = False) -> None:
        self._stream = stream
        self._several = several
        self._live = stream.isatty() and os.environ.get("TERM", "dumb") != "dumb"
        self._colour = self._live and not os.environ.get("NO_COLOR")
        self._open_line = False
        self._ended: set[tuple[str, int]] = set()  # lane and turn that have an endpoint: their final says how they closed

    def show(self, event: Event, lane: str = "") -> None:
        match event:
            case Wake(phrase=phrase, score=score):
                self._line(event, lane, "wake", f"{phrase} ({score:.2f})" if phrase else "asked for by a client", _CYAN)
            case WakeRefused(phrase=phrase, verdict=verdict):
                self._line(event, lane, "refused", f"{phrase}: {verdict}", _DIM)
            case SpeechStarted():
                self._line(event, lane, "speech", "", _DIM)
            case Partial(text=text):
                self._line(event, lane, "partial", f"{text} …", _PLAIN, stays=not self._live)
            case Endpoint(sample=sample, speech_end=end, reason=reason):
                self._ended.add((lane, event.turn))
                after = f", {to_ms(sample - end):.0f} ms after the last speech" if sample > end else ""
                self._line(event, lane, "endpoint", f"{reason.value}{after}", _YELLOW)
            case Final(text=text, source=source, note=note, measured=measured):
                took = f", {measured['second_pass_ms']:.0f} ms" if "second_pass_ms" in measured else ""
                of = "second pass" if source is TextSource.SECOND_PASS else f"first pass: {note}"
                self._line(event, lane, "final", text, f"{_BOLD};{_GREEN}", aside=f"({of}{took})")
            case TurnClosed(turn=turn, reason=reason):
                if (lane, turn) not in self._ended:
                    self._line(event, lane, "closed", reason.value, _DIM)
                self._ended.discard((lane, turn))

    def say(self, text: str) -> None:
        """A line that is no event."""
        self._end_open_line()
        self._stream.write(f"{text}\n")
        self._stream.flush()

    def _line(self, event: Event, lane: str, what: str, text: str, colour: str, *, aside: str = "", stays: bool = True) -> None:
        head = f"{to_ms(event.sample) / 1000:8.2f} s  " + (f"{lane:<10} " if self._several else "") + f"{what:<9}"
        if not stays:  # only what fits on one row can be rewritten in place
            text = _end_of(text, max(_LEAST_ROOM, self._width() - len(head) - 1))
        aside = f"  {self._paint(aside, _DIM)}" if aside else ""
        self._stream.write((_CLEAR_LINE if self._open_line else "") + self._paint(head, _DIM) + self._paint(text, colour) + aside)
        self._open_line = not stays
        if stays:
            self._stream.write("\n")
        self._stream.flush()

    def _width(self) -> int:
        """Columns of this stream's terminal, not of another that COLUMNS may tell of."""
        try:
            return os.get_terminal_size(self._stream.fileno()).columns or _USUAL_WIDTH
        except (OSError, ValueError):
            return _USUAL_WIDTH

    def _end_open_line(self) -> None:
        if self._open_line:
            self._stream.write("\n")
            self._open_line = False

    def _paint(self, text: str, colour: str) -> str:
        return f"\x1b[{colour}m{text}\x1b[0m" if self._colour and colour and text else text


def reader_gone() -> None:
    """Whoever read our output has closed it: what is still written, Python's own flush at the end included, goes nowhere."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def json_line(event: Event, **beside: Any) -> str:
    """One event as one line, what is `beside` it (lane, file, sequence …) first."""
    return json.dumps(beside | encode(event), ensure_ascii=False)
