"""`voicectl turns`: the turns that are over, one a line.

What lives here: the table. What must not: D-Bus (voiced.api has a client), what a receipt says.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from .client import connect


async def turns(options: argparse.Namespace) -> int:
    """0, also where no turn is kept."""
    async with connect(options) as client:
        found = await client.turns(options.lane, options.last)
        several = len((await client.status())["lanes"]) > 1
    for one in found:
        print(json.dumps(one, ensure_ascii=False) if options.json else row(one, several=several))
    if not (found or options.json):
        print("no turn is kept: none is over yet, or log.receipts is 0")
    return 0


def row(one: Mapping[str, Any], *, several: bool) -> str:
    """When, which, what opened and what closed it, how long the final took, and its text."""
    at = datetime.fromtimestamp(one["realtime_us"] / 1e6).strftime("%H:%M:%S")
    lane = f"{one['lane']:<10} " if several else ""
    took = one["latencies"].get("final.finalization_ms")
    late = f"{took:5.0f} ms" if took is not None else f"{'':8}"
    text = one.get("text") or "(no text)"
    return f"{at}  {lane}{one['turn']}  {one.get('phrase') or 'a client':<10}  {one['reason']:<13} {late}  {text}"
