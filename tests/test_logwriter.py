"""The log's way to standard error: lines wait, are lost and counted, and come whole again; the program never waits."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from collections.abc import Iterator

import pytest
from soundserver import wait_for
from voiced.logwriter import WAITING, LogWriter

PIPE = 65_536


class Pipe:
    def __init__(self) -> None:
        self.reader, self.writer = os.pipe()
        self.log = logging.Logger("test")
        self.handler = LogWriter(self.writer)
        self.log.addHandler(self.handler)

    def fill(self) -> None:
        os.set_blocking(self.writer, False)
        assert os.write(self.writer, b"." * PIPE) == PIPE
        os.set_blocking(self.writer, True)

    def lines(self) -> list[str]:
        """All that is written from now on, to the end."""
        text = b""
        while not text.endswith(b"end\n"):
            text += os.read(self.reader, PIPE)
        return text.lstrip(b".").decode().splitlines()


@pytest.fixture
def pipe() -> Iterator[Pipe]:
    pipe = Pipe()
    yield pipe
    os.close(pipe.reader)  # a thread that hangs in a write ends
    pipe.handler.flush()
    os.close(pipe.writer)


def test_lines_come_in_order(pipe: Pipe) -> None:
    for number in range(100):
        pipe.log.warning("line %d", number)
    pipe.log.warning("end")
    assert pipe.lines() == [*(f"line {number}" for number in range(100)), "end"]
    assert pipe.handler.lost == 0


def test_what_cannot_wait_is_counted_and_told_when_somebody_reads_again(pipe: Pipe) -> None:
    pipe.fill()
    pipe.log.warning("line 0")
    wait_for(lambda: not pipe.handler._waiting, "the thread to take it, and hang")
    for number in range(1, WAITING + 100):
        pipe.log.warning("line %d", number)
    assert pipe.handler.lost == 99
    read = b""
    while b"missing" not in read or not read.endswith(b"\n"):
        read += os.read(pipe.reader, PIPE)
    *lines, last = read.lstrip(b".").decode().splitlines()
    assert lines == [f"line {number}" for number in range(WAITING + 1)]
    assert last == "99 lines are missing here: nobody read the log in time, or its disk was full"
    pipe.log.warning("end")
    assert pipe.lines() == ["end"]


def test_a_text_that_the_encoding_has_not_is_spelled_out(pipe: Pipe) -> None:
    pipe.log.warning("\ud800")
    pipe.log.warning("end")
    assert pipe.lines() == ["\\ud800", "end"]


def test_an_end_that_others_made_not_to_block_is_waited_for(pipe: Pipe) -> None:
    pipe.fill()
    os.set_blocking(pipe.writer, False)
    pipe.log.warning("end")
    assert pipe.lines() == ["end"]


SCRIPT = """
import os, sys
from voiced.logwriter import start_log, log
start_log("info", terminal=False)
for number in range(int(sys.argv[1])):
    log.info("line %d", number)
"""


def test_a_reader_that_has_gone_is_no_traceback() -> None:
    run = f"{SCRIPT}\nprint('over')"
    process = subprocess.Popen([sys.executable, "-c", run, "100"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stderr and process.stdout
    process.stderr.close()
    assert process.stdout.read() == "over\n"
    assert process.wait(60) == 0
    process.stdout.close()


def test_a_reader_that_never_reads_keeps_nobody_from_ending() -> None:
    reader, writer = os.pipe()
    process = subprocess.Popen([sys.executable, "-c", SCRIPT, "5000"], stderr=writer)
    os.close(writer)
    assert process.wait(60) == 0
    os.close(reader)


def test_all_is_written_before_the_end() -> None:
    patient = f"import voiced.logwriter\nvoiced.logwriter.FLUSH_S = 60\n{SCRIPT}"  # for a machine that stands still meanwhile
    done = subprocess.run([sys.executable, "-c", patient, "900"], stderr=subprocess.PIPE, text=True, check=True)
    assert [line.partition(" ")[2] for line in done.stderr.splitlines()] == [f"line {number}" for number in range(900)]
