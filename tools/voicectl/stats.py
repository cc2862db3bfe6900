"""`voicectl stats`: percentiles of each latency, partials and finals apart, by the length of the turn.

What lives here: the table. What must not: D-Bus (voiced.api has a client), reckoning.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from typing import Any

from .client import connect

PERCENTILES = ("p50", "p90", "p95", "p99")
HEAD = f"{'latency (ms)':<30} {'turns':<7} {'count':>6}" + "".join(f"{name:>8}" for name in PERCENTILES)


async def stats(options: argparse.Namespace) -> int:
    """0, also where there is nothing to reckon with yet."""
    async with connect(options) as client:
        rows = await client.latencies(options.lane)
    if options.json:
        for one in rows:
            print(json.dumps(one, ensure_ascii=False))
        return 0
    print(HEAD if rows else "no turn is over yet")
    for one in rows:
        print(line(one))
    return 0


def line(one: Mapping[str, Any]) -> str:
    name = one["latency"].removesuffix("_ms").replace(".", ": ").replace("_", " ")
    return f"{name:<30} {one['length']:<7} {int(one['count']):>6}" + "".join(f"{one[percent]:8.0f}" for percent in PERCENTILES)
