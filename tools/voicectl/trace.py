"""`voicectl trace`: the receipt of one turn, as a timeline.

What lives here: where the receipt is from (a running daemon, or events that were saved) and where it goes to. What must not: how it is
drawn (timeline.py).
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from voiced.api import InputError, OutputError, UsageError, plain_receipt, receipts_from_lines

from . import timeline
from .client import connect


def arguments(one: argparse.ArgumentParser) -> None:
    one.add_argument("turn", metavar="TURN", type=int, nargs="?", help="id of the turn, as `voicectl turns` shows it (the newest)")
    one.add_argument(
        "--events", metavar="FILE", type=Path, help="saved events (voiced --input … --json, voicectl watch --json) in place of a daemon"
    )
    one.add_argument("--svg", metavar="FILE", type=Path, help="draw it as an SVG")
    one.add_argument("--png", metavar="FILE", type=Path, help="draw it as a PNG (wants matplotlib)")


async def trace(options: argparse.Namespace) -> int:
    """UsageError where there is no such turn, InputError for a file that has no events, OutputError for one that cannot be written."""
    if options.png:
        timeline.can_draw()
    receipt = saved(options.events, options.turn) if options.events else await asked(options)
    if options.svg:
        _write(options.svg, lambda path: path.write_text(timeline.svg(receipt), encoding="utf-8"))
    if options.png:
        _write(options.png, lambda path: timeline.png(path, receipt))
    if options.json:
        print(json.dumps(receipt, ensure_ascii=False))
    elif not (options.svg or options.png):
        print("\n".join(timeline.text(receipt)))
    return 0


async def asked(options: argparse.Namespace) -> dict[str, Any]:
    """From a running daemon."""
    async with connect(options) as client:
        turn = options.turn
        if turn is None:
            newest = await client.turns(None, 1)
            if not newest:
                raise UsageError("trace", "no turn is over yet, or log.receipts is 0", "say something first")
            turn = newest[0]["turn"]
        return await client.turn(turn)


def saved(path: Path, turn: int | None) -> dict[str, Any]:
    """From a file of events; the newest turn of that id, or of all."""
    try:
        found = receipts_from_lines(_lines(path))
    except ValueError as error:
        raise InputError(str(path), f"has what is no event: {error}", "save them with --json") from None
    kept = {receipt.turn: receipt for receipt in found}
    if not kept:
        raise InputError(str(path), "has no turn that is over", "save events from a wake to its end")
    if turn is not None and turn not in kept:
        raise UsageError("TURN", f"expected one of {', '.join(map(str, sorted(kept)))}, the turns of {path}; got {turn}")
    return plain_receipt(found[-1] if turn is None else kept[turn])


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    try:
        said = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise InputError(str(path), f"cannot be read: {why}") from None
    for number, line in enumerate(said.splitlines(), 1):
        if not line.strip():
            continue
        try:
            plain = json.loads(line)
        except ValueError:
            plain = None
        if not isinstance(plain, dict):
            raise InputError(f"{path}:{number}", "expected one JSON object a line", "save events with --json")
        yield plain


def _write(path: Path, draw: Any) -> None:
    try:
        draw(path)
    except OSError as error:
        raise OutputError(str(path), f"cannot be written: {error.strerror}") from None
