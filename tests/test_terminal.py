"""What a person sees: on a pipe a line an event, on a real terminal (a pty) a partial that is rewritten in place."""

from __future__ import annotations

import fcntl
import io
import json
import os
import re
import struct
import termios
import threading
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from voiced.events import CloseReason, Endpoint, Event, Final, Partial, SpeechStarted, TextSource, TurnClosed, Wake, WakeRefused
from voiced.plain import decode
from voiced.terminal import Conversation, Output, Printer, json_line

TURN: list[Event] = [
    Wake(16_000, 1, "jarvis", 17_000, 0.987, "heard"),
    SpeechStarted(24_000, 1),
    Partial(32_000, 1, "turn on"),
    Partial(40_000, 1, "turn on the lights"),
    Endpoint(48_000, 1, CloseReason.END_TOKEN, 44_800, "turn on the lights"),
    Final(48_000, 1, "Turn on the lights.", TextSource.SECOND_PASS, "turn on the lights", "", {"second_pass_ms": 41.6}),
    TurnClosed(48_000, 1, CloseReason.END_TOKEN, 17_000, 48_000),
]
FINAL = TURN[-2]
OnTerminal = Callable[..., str]


def on_pipe(events: Sequence[Event], lane: str = "", *, several: bool = False) -> str:
    stream = io.StringIO()
    conversation = Conversation(stream, several=several)
    for event in events:
        conversation.show(event, lane)
    return stream.getvalue()


@pytest.fixture
def on_terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[OnTerminal]:
    """Shows events on a pseudo-terminal of so many columns and gives the bytes that came out of it."""
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("COLUMNS", "500")  # of some other terminal: the stream's own counts
    master, slave = os.openpty()
    raw = termios.tcgetattr(slave)
    raw[1] &= ~termios.OPOST  # "\n" stays what it is
    termios.tcsetattr(slave, termios.TCSANOW, raw)

    def show(events: Sequence[Event], columns: int = 100, say: str = "") -> str:
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 25, columns, 0, 0))
        with os.fdopen(slave, "w", closefd=False) as stream:
            conversation = Conversation(stream)
            for event in events:
                conversation.show(event)
            if say:
                conversation.say(say)
            stream.write("\0")  # nothing else writes one
        shown = b""
        while not shown.endswith(b"\0"):  # what is shown here is less than a terminal's buffer holds
            shown += os.read(master, 10_000)
        return shown[:-1].decode()

    yield show
    os.close(slave)
    os.close(master)


def rows(shown: str) -> list[str]:
    """What stays on the screen: colours apart, a row that was cleared is what was written last."""
    plain = re.sub(r"\x1b\[[0-9;]*m", "", shown)
    return [line.rpartition("\r\x1b[K")[2] for line in plain.split("\n")]


def width(text: str) -> int:
    return sum(0 if unicodedata.combining(each) else 2 if unicodedata.east_asian_width(each) in "WF" else 1 for each in text)


# ── a pipe ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_on_a_pipe_each_event_is_a_line() -> None:
    assert on_pipe(TURN).split("\n") == [
        "    1.00 s  wake     jarvis (0.99)",
        "    1.50 s  speech",
        "    2.00 s  partial  turn on …",
        "    2.50 s  partial  turn on the lights …",
        "    3.00 s  endpoint end token, 200 ms after the last speech",
        "    3.00 s  final    Turn on the lights.  (second pass, 42 ms)",
        "",
    ]


def test_several_lanes_are_named() -> None:
    assert on_pipe(TURN[:1], "kitchen", several=True) == "    1.00 s  kitchen    wake     jarvis (0.99)\n"
    assert on_pipe(TURN[:1], "kitchen") == "    1.00 s  wake     jarvis (0.99)\n"


def test_a_turn_without_a_final_says_why_it_closed() -> None:
    closed = TurnClosed(96_000, 1, CloseReason.NO_SPEECH, 17_000, 96_000)
    assert on_pipe([TURN[0], closed]).split("\n")[1] == "    6.00 s  closed   no speech"


def test_the_same_turn_id_on_another_lane_is_another_turn() -> None:
    stream = io.StringIO()
    conversation = Conversation(stream)
    conversation.show(TURN[4], "a")
    conversation.show(TurnClosed(96_000, 1, CloseReason.CANCELLED, 0, 96_000), "b")
    assert stream.getvalue().endswith("    6.00 s  closed   cancelled\n")


def test_the_other_lines() -> None:
    assert on_pipe([Wake(16_000, 1, "", 16_000, 1.0, "asked for by a client")]) == "    1.00 s  wake     asked for by a client\n"
    refused = WakeRefused(16_000, "jarvis", 0.95, "1 hop (2 wanted)")
    assert on_pipe([refused]) == "    1.00 s  refused  jarvis: 1 hop (2 wanted)\n"
    kept = Final(48_000, 1, "hi", TextSource.FIRST_PASS, "hi", "the second pass was late")
    assert on_pipe([kept]) == "    3.00 s  final    hi  (first pass: the second pass was late)\n"
    inside = Endpoint(48_000, 1, CloseReason.STOPPED, 48_000, "hi")
    assert on_pipe([inside]) == "    3.00 s  endpoint stopped\n"


# ── a terminal ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_on_a_terminal_partials_are_rewritten_in_place(on_terminal: OnTerminal) -> None:
    shown = on_terminal(TURN)
    assert rows(shown) == [
        "    1.00 s  wake     jarvis (0.99)",
        "    1.50 s  speech",
        "    3.00 s  endpoint end token, 200 ms after the last speech",
        "    3.00 s  final    Turn on the lights.  (second pass, 42 ms)",
        "",
    ]
    assert shown.count("\r\x1b[K") == 2  # the second partial over the first, the endpoint over the second
    assert "\x1b[1;32mTurn on the lights.\x1b[0m" in shown


def test_no_color(on_terminal: OnTerminal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    shown = on_terminal(TURN)
    assert re.findall(r"\x1b\[[^K]", shown) == []
    assert shown.count("\r\x1b[K") == 2  # rewriting in place is no colour


def test_an_empty_no_color_is_none(on_terminal: OnTerminal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "")
    assert "\x1b[1;32m" in on_terminal(TURN)


def test_a_dumb_terminal_gets_what_a_pipe_gets(on_terminal: OnTerminal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "dumb")
    assert on_terminal(TURN) == on_pipe(TURN)


@pytest.mark.parametrize(
    "text", ["turn on all the lights in the kitchen and the hall", "打开厨房和走廊里所有的灯，然后把窗帘拉上", "e\u0301te\u0301 " * 12]
)
@pytest.mark.parametrize("columns", [32, 33, 40, 41, 60])
def test_a_partial_never_takes_more_than_one_row(on_terminal: OnTerminal, text: str, columns: int) -> None:
    """A row that wraps could not be cleared again. What is cut is the beginning."""
    shown = on_terminal([Partial(40_000, 1, text)], columns)
    (row,) = rows(shown)
    assert columns - 3 <= width(row) < columns or row.endswith(f"partial  {text} …")
    head, text_shown = row[:21], row[21:]
    assert head == "    2.50 s  partial  "
    if text_shown != f"{text} …":
        assert text_shown.startswith("…")
        assert f"{text} …".endswith(text_shown[1:])
        assert not unicodedata.combining(text_shown[1])


def test_what_fits_exactly_is_not_cut(on_terminal: OnTerminal) -> None:
    fits = "x" * (60 - 21 - 2 - 1)  # the head, the dots, and the last column, where some terminals wrap
    assert rows(on_terminal([Partial(0, 1, fits)], 60))[0].endswith(f"{fits} …")
    assert rows(on_terminal([Partial(0, 1, f"y{fits}")], 60))[0].endswith(f"  …{fits[1:]} …")


def test_a_terminal_that_does_not_know_its_width_has_the_usual_one(on_terminal: OnTerminal) -> None:
    (row,) = rows(on_terminal([Partial(0, 1, "word " * 100)], 0))
    assert width(row) == 79


def test_a_final_is_never_cut(on_terminal: OnTerminal) -> None:
    long = "Turn on all the lights in the kitchen and the hall."
    assert long in on_terminal([Final(0, 1, long, TextSource.SECOND_PASS, "")], 40)


def test_a_remark_leaves_the_open_partial_on_its_row(on_terminal: OnTerminal) -> None:
    assert rows(on_terminal(TURN[:3], say="the microphone has gone"))[2:] == [
        "    2.00 s  partial  turn on …",
        "the microphone has gone",
        "",
    ]


@given(st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]), max_size=60))
def test_any_text_on_a_pipe_is_whole(text: str) -> None:
    assert on_pipe([Partial(0, 1, text)]) == f"    0.00 s  partial  {text} …\n"


# ── JSON ───────────────────────────────────────────────────────────────────────────────────────────────────────────────


@given(st.text())
def test_a_json_line_is_one_line_and_the_event(text: str) -> None:
    event = Partial(40_000, 1, text)
    line = json_line(event, file="a.wav", sequence=3)
    assert len(line.split("\n")) == 1
    plain = json.loads(line)
    assert list(plain)[:2] == ["file", "sequence"]
    assert (plain.pop("file"), plain.pop("sequence")) == ("a.wav", 3)
    assert decode(plain) == event


def test_a_json_line_can_be_read_by_a_person() -> None:
    plain = '{"event": "Partial", "sample": 1, "turn": 1, "text": "zwölf 灯", "stable": 0, "heard": 0, "last_word": null}'
    assert json_line(Partial(1, 1, "zwölf 灯")) == plain


def test_a_line_ends_with_its_last_word(on_terminal: OnTerminal) -> None:
    assert not [line for line in on_pipe(TURN, "desk", several=True).splitlines() if line != line.rstrip()]
    assert rows(on_terminal(TURN))[1] == "    1.50 s  speech"


@pytest.mark.parametrize("columns", [1, 12, 31])
def test_a_terminal_too_narrow_to_rewrite_a_row_gets_lines(on_terminal: OnTerminal, columns: int) -> None:
    shown = on_terminal(TURN[2:4], columns)
    assert "\r" not in shown
    assert rows(shown) == ["    2.00 s  partial  turn on …", "    2.50 s  partial  turn on the lights …", ""]


# ── the printer ────────────────────────────────────────────────────────────────────────────────────────────────────────


class Pipe:
    """A pipe to print to, whose reader stands still until it is asked."""

    def __init__(self) -> None:
        self.read_end, self.write_end = os.pipe()
        fcntl.fcntl(self.write_end, fcntl.F_SETPIPE_SZ, 4096)
        self.ended = threading.Event()

    def printer(self, *, as_json: bool = True) -> Printer:
        stream = Output(open(self.write_end, "wb"), "utf-8")  # noqa: PTH123, SIM115  the printer closes it
        return Printer(stream, as_json=as_json, several=False, on_end=self.ended.set)

    def read(self) -> str:
        """All, to the end."""
        with open(self.read_end, encoding="utf-8") as reader:  # noqa: PTH123
            return reader.read()


def test_the_printer_prints_all_in_order_and_ends() -> None:
    pipe = Pipe()
    reader: list[str] = []
    thread = threading.Thread(target=lambda: reader.append(pipe.read()))
    thread.start()
    printer = pipe.printer()
    for number in range(Printer.WAITING):
        printer.show(Partial(number, 1, "words"), "desk")
    printer.close()
    thread.join()
    assert [json.loads(line)["sample"] for line in reader[0].splitlines()] == list(range(Printer.WAITING))
    assert (printer.lost, printer.error) == (0, None)
    assert not pipe.ended.is_set()


def test_a_reader_that_stands_still_costs_partials_first_and_holds_nobody_up() -> None:
    pipe = Pipe()
    printer = pipe.printer()
    shown = 3 * Printer.WAITING
    for number in range(shown):  # comes to its end, whoever reads
        printer.show(FINAL if number % 4 == 0 else Partial(number, 1, "words"), "desk")
    reader: list[str] = []
    thread = threading.Thread(target=lambda: reader.append(pipe.read()))
    thread.start()
    printer.close()
    thread.join()
    kinds = Counter(json.loads(line)["event"] for line in reader[0].splitlines())
    assert kinds["Final"] == shown // 4
    assert printer.lost == shown - kinds.total() > 0


def test_the_bound_holds_for_what_is_no_partial_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Printer, "FLUSH_S", 0.0)
    pipe = Pipe()
    printer = pipe.printer()
    for _ in range(2 * Printer.WAITING):
        printer.show(FINAL, "desk")
    assert printer.waiting <= Printer.WAITING
    printer.close()  # nobody reads: it ends all the same
    assert printer.lost > Printer.WAITING
    assert len(pipe.read().splitlines()) + printer.lost == 2 * Printer.WAITING


def test_a_reader_that_has_gone_ends_it() -> None:
    pipe = Pipe()
    os.close(pipe.read_end)
    printer = pipe.printer(as_json=False)
    printer.say("hello")
    assert pipe.ended.wait(30)
    printer.show(FINAL, "desk")
    printer.close()
    assert printer.error is None


def test_a_full_disk_ends_it_with_a_reason() -> None:
    ended = threading.Event()
    stream = Output(open("/dev/full", "wb"), "utf-8")  # noqa: PTH123, SIM115
    printer = Printer(stream, as_json=True, several=False, on_end=ended.set)
    printer.show(FINAL, "desk")
    assert ended.wait(30)
    printer.close()
    assert str(printer.error) == "standard output: cannot be written: No space left on device; make room, or send it elsewhere"
