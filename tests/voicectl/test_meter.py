"""The meter's line: in any width, never longer, and nothing but text where there is no terminal."""

from __future__ import annotations

import fcntl
import io
import os
import pty
import struct
import termios
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

import pytest
from hypothesis import given
from hypothesis import strategies as st
from voicectl.meter import HOLD_S, Hold, Meter, Reading, line

QUIET = Reading(1.0, -60, -55)
LOUD = Reading(12.3, -6, -1, clips=True, speech=True, note="jarvis 0.98/0.50")


@given(
    st.builds(
        Reading,
        st.floats(0, 99_999),
        st.floats(-120, 0),
        st.floats(-120, 0),
        st.booleans(),
        st.none() | st.booleans(),
        st.sampled_from(["", "jarvis 0.98/0.50", "quiet"]),
    ),
    st.integers(1, 300),
)
def test_a_line_is_never_wider_than_the_terminal(reading: Reading, width: int) -> None:
    text = line(reading, width)
    assert 0 < len(text) <= width
    assert "\n" not in text


@given(st.floats(-120, 0), st.floats(-120, 0))
def test_more_sound_is_more_bar(one: float, other: float) -> None:
    bars = [line(Reading(0, level, -120), 80).count("█") for level in sorted((one, other))]
    assert bars == sorted(bars)


def test_marks_and_notes_are_shown() -> None:
    assert line(LOUD, 100).endswith(" -6 dBFS, peak   -1  CLIP  speech  jarvis 0.98/0.50")
    assert "CLIP" not in line(QUIET, 100) and "speech" not in line(QUIET, 100)
    assert line(QUIET, 30).startswith("  1.0 s")  # narrow: no bar
    assert "#" in line(LOUD, 100, ("#", "-", "|")) and line(LOUD, 100, ("#", "-", "|")).isascii()


def test_a_peak_stays_for_a_while() -> None:
    hold = Hold()
    assert hold.feed(0.0, -10, clips=True) == (-10, True)
    assert hold.feed(1.0, -30, clips=False) == (-10, True)
    assert hold.feed(HOLD_S, -30, clips=False) == (-30, False)
    assert hold.feed(HOLD_S + 0.1, -20, clips=False) == (-20, False)


@contextmanager
def terminal(columns: int) -> Iterator[tuple[TextIO, int]]:
    """A stream on a terminal so wide, and the other end's descriptor."""
    ours, theirs = pty.openpty()
    resize(theirs, columns)
    with os.fdopen(theirs, "w", encoding="utf-8") as stream:
        yield stream, ours
    os.close(ours)


def resize(fd: int, columns: int) -> None:
    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))


def drawn(stream: TextIO, fd: int) -> str:
    """All that was written so far: a terminal hands it on bit by bit, and when it has time."""
    stream.write("\0")  # nothing else writes one
    stream.flush()
    data = b""
    while not data.endswith(b"\0"):
        data += os.read(fd, 65_536)
    return data[:-1].decode()


def test_a_terminal_that_is_resized_gets_lines_of_its_new_width(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("NO_COLOR", "1")
    with terminal(100) as (stream, seen):
        meter = Meter(stream)
        widths = []
        for number, columns in enumerate((100, 60, 20, 200)):
            resize(stream.fileno(), columns)
            meter.show(Reading(number, -20, -10, note="x" * 10))
            text = drawn(stream, seen)
            assert text.startswith("\r") and text.endswith("\x1b[K") and text.count("\x1b") == 1  # one write, over the last, no colour
            widths.append(len(text[1:-3]))
        assert [width < columns for width, columns in zip(widths, (100, 60, 20, 200), strict=True)] == [True] * 4
        assert widths[2] == 19
        meter.say("a line that stays")
        assert drawn(stream, seen).replace("\r\n", "\n") == "\r\x1b[Ka line that stays\n"
        meter.clear()  # there is nothing


def test_it_is_drawn_only_when_it_changes_and_ten_times_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    with terminal(80) as (stream, seen):
        meter = Meter(stream)
        for number in range(100):
            meter.show(Reading(1 + number * 0.01, -20, -10))
        assert drawn(stream, seen).count("\r") == 10  # the time changes at each tenth
        meter.clear()
        assert drawn(stream, seen) == "\r\x1b[K"


def test_colour_says_how_loud(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    with terminal(80) as (stream, seen):
        for reading, colour in ((QUIET, "32"), (Reading(2, -20, -8), "33"), (LOUD, "31")):
            Meter(stream).show(reading)
            assert f"\x1b[{colour}m" in drawn(stream, seen)


@pytest.mark.parametrize("term", ["dumb", "xterm"])
def test_without_a_terminal_nothing_is_drawn(monkeypatch: pytest.MonkeyPatch, term: str) -> None:
    monkeypatch.setenv("TERM", term)
    stream = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    meter = Meter(stream)
    meter.show(LOUD)
    meter.say("text")
    meter.clear()
    stream.flush()
    assert stream.buffer.getvalue() == b"text\n"
