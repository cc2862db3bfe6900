"""How far a download is, on a terminal or in a log. It writes to the stream it is given and keeps nothing else."""

from __future__ import annotations

import os
from typing import Protocol, TextIO


class Progress(Protocol):
    """Told how far a named piece of work is. Both numbers are bytes; a `total` of 0 is not known. `done == total` is its end."""

    def __call__(self, what: str, done: int, total: int) -> None: ...


def silent(what: str, done: int, total: int) -> None:
    """The Progress that says nothing."""


def bar(stream: TextIO) -> Progress:
    """A Progress that draws one line a piece of work on a terminal, and writes one line at its end anywhere else.

    The line is written again only when its text changes, and over itself, so that it does not flicker.
    """
    terminal = stream.isatty()
    last = ""

    def draw(what: str, done: int, total: int) -> None:
        nonlocal last
        finished = 0 < total <= done
        if not terminal and not finished:
            return
        line = what + (f" {_megabytes(done)} MB" if finished or not total else f" {_meter(done, total)}")
        if line == last:
            return
        last = "" if finished else line
        if terminal:
            width = os.get_terminal_size(stream.fileno()).columns or 80  # a serial console says 0
            line = "\r" + line[: max(width - 1, 10)] + "\x1b[K"
        stream.write(line + ("\n" if finished else ""))
        stream.flush()

    return draw


def _meter(done: int, total: int, cells: int = 24) -> str:
    filled = cells * done // total
    return f"[{'█' * filled}{'·' * (cells - filled)}] {100 * done // total:3d} % of {_megabytes(total)} MB"


def _megabytes(count: int) -> str:
    return f"{count / 1e6:.1f}"
