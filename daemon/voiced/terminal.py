"""A lane's events as a conversation on a terminal, or as one JSON object a line.

What lives here: how events look to a person, and how they get to standard output. What must not: where they come from (a demo,
files and a bus look the same). On a terminal a partial is rewritten in place until its final; in a pipe each is a line of its own.
"""

from __future__ import annotations

import io
import json
import os
import sys
import threading
import unicodedata
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, TextIO

from .errors import OutputError
from .events import Endpoint, Event, Final, Partial, SpeechStarted, TextSource, TurnClosed, Wake, WakeRefused
from .plain import encode
from .units import to_ms

_PLAIN, _DIM, _BOLD, _GREEN, _YELLOW, _CYAN = "", "2", "1", "32", "33", "36"
_CLEAR_LINE = "\r\x1b[K"
_USUAL_WIDTH = 80
_LEAST_ROOM = 10
"""Columns of a partial that are shown at the least: a word. On a terminal too narrow for it each partial is a line of its own."""


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
            case Wake(phrase=phrase, score=score, verdict=verdict):
                self._line(event, lane, "wake", f"{phrase} ({score:.2f})" if phrase else verdict, _CYAN)
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
        room = self._width() - len(head) - 1
        stays = stays or room < _LEAST_ROOM
        if not stays:  # only what fits on one row can be rewritten in place
            text = _end_of(text, room)
        if not text:
            head = head.rstrip()
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


class Printer:
    """Prints in a thread of its own, so that a reader that stands still (^S, a pager) holds nobody up. Other methods: one thread.

    stream   belongs to the printer from now on, which closes it
    on_end   called in that thread when nothing can be printed any more: the reader has gone, or `error` says what is wrong
    """

    WAITING = 1000
    """Events that wait for a slow reader, some minutes of talk; then partials are left out first, and `lost` counts all."""

    FLUSH_S = 2.0
    """What still waits at the end has so long to be read."""

    def __init__(self, stream: TextIO, *, as_json: bool, several: bool, on_end: Callable[[], object]) -> None:
        self.lost = 0
        self.error: OutputError | None = None
        self._stream, self._as_json, self._on_end = stream, as_json, on_end
        self._conversation = Conversation(stream, several=several)
        self._waiting: deque[tuple[Event | str, str]] = deque()
        self._change = threading.Condition()
        self._closed = False
        # a daemon: who never reads must not keep us from ending
        self._thread = threading.Thread(target=self._run, name="printer", daemon=True)
        self._thread.start()

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    def say(self, text: str) -> None:
        """A line that is no event."""
        self._put(text, "")

    def show(self, event: Event, lane: str) -> None:
        self._put(event, lane)

    def close(self) -> None:
        """Returns when all is printed, or after FLUSH_S, when what was not is counted as lost."""
        with self._change:
            self._closed = True
            self._change.notify()
        self._thread.join(self.FLUSH_S)
        with self._change:
            self.lost += len(self._waiting)
            self._waiting.clear()

    def _put(self, item: Event | str, lane: str) -> None:
        with self._change:
            if len(self._waiting) >= self.WAITING:
                self.lost += 1
                at = next((at for at, (old, _) in enumerate(self._waiting) if isinstance(old, Partial)), None)
                if at is None or isinstance(item, Partial):
                    return
                del self._waiting[at]
            self._waiting.append((item, lane))
            self._change.notify()

    def _run(self) -> None:
        try:
            while (one := self._take()) is not None:
                self._print(*one)
            self._stream.close()
        except BrokenPipeError:
            pass
        except OutputError as error:
            self.error = error
        else:
            return
        with self._change:  # nobody will read what comes
            self._waiting = deque(maxlen=0)
        with suppress(OSError, OutputError):
            self._stream.close()
        self._on_end()

    def _take(self) -> tuple[Event | str, str] | None:
        """Waits for it; None at the end."""
        with self._change:
            self._change.wait_for(lambda: self._waiting or self._closed)
            return self._waiting.popleft() if self._waiting else None

    def _print(self, item: Event | str, lane: str) -> None:
        if isinstance(item, str):
            self._conversation.say(item)
        elif self._as_json:
            self._stream.write(json_line(item, lane=lane) + "\n")
            self._stream.flush()
        else:
            self._conversation.show(item, lane)


class Output(io.TextIOWrapper):
    """A text stream whose full disk is an OutputError, wherever it shows; a reader that has gone stays a BrokenPipeError."""

    def write(self, text: str) -> int:
        with _output_errors():
            return super().write(text)

    def flush(self) -> None:
        with _output_errors():
            super().flush()


@contextmanager
def _output_errors() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise OutputError("standard output", f"cannot be written: {error.strerror}", "make room, or send it elsewhere") from None


class Complaints(io.TextIOWrapper):
    """Standard error. What cannot be written there (its disk is full, nobody reads it) is lost: there is no other place to say so, and the
    exit code tells what it would tell."""

    def write(self, text: str) -> int:
        with suppress(OSError):
            super().write(text)
        return len(text)

    def flush(self) -> None:
        with suppress(OSError):
            super().flush()


def prepare_output() -> None:
    """Once, at a command's start, before anything is opened: standard output becomes an `Output` that spells out what its encoding has not,
    standard error `Complaints`. One that is closed goes nowhere, and no file or socket gets its number: libraries and children would
    write into that."""
    for fd in range(3):
        try:
            os.fstat(fd)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # the lowest number that is free
    sys.stdout, sys.stderr = _as(Output, sys.stdout), _as(Complaints, sys.stderr)


def _as(kind: type[io.TextIOWrapper], was: TextIO | None) -> TextIO:
    if was is None:
        return open(os.devnull, "w")  # noqa: PTH123  it lives as long as we do
    if type(was) is not io.TextIOWrapper:  # somebody has put there what he wants to have there
        return was
    encoding, by_line, at_once = was.encoding, was.line_buffering, was.write_through
    return kind(was.detach(), encoding, "backslashreplace", line_buffering=by_line, write_through=at_once)


def own_output() -> Output:
    """Standard output once more, with a buffer and a lock of its own: a thread that hangs in it keeps nobody from ending."""
    return Output(open(os.dup(sys.stdout.fileno()), "wb"), sys.stdout.encoding, "backslashreplace")  # noqa: PTH123


def reader_gone() -> None:
    """Whoever read our output has closed it: what is still written, Python's own flush at the end included, goes nowhere."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def json_line(event: Event, **beside: Any) -> str:
    """One event as one line, what is `beside` it (lane, file, sequence …) first."""
    return json.dumps(beside | encode(event), ensure_ascii=False)
