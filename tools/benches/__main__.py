"""The command tools/bench: which benches, how thorough, and how their figures are told."""

from __future__ import annotations

import argparse
import importlib
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from voiced.errors import VoicedError

from . import page
from .rows import Row, machine, markdown

BENCHES = ("idle", "wake", "hearing", "partial", "dbus", "memory", "lanes", "fair", "isolation", "busy", "peers")
CHECKOUT = Path(__file__).resolve().parents[2]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser("tools/bench", description="What voiced costs, beside what it cannot avoid, on this machine.")
    parser.add_argument("names", metavar="NAME", nargs="*", help=f"of {', '.join(BENCHES)} (default: all)")
    parser.add_argument("--json", action="store_true", help="one object instead of a table")
    parser.add_argument("--quick", action="store_true", help="seconds instead of minutes: shows that it works, not what it costs")
    parser.add_argument("--readme", action="store_true", help="keep the figures, and tell them in README.md")
    parser.add_argument("--note", metavar="TEXT", default="", help="what else was so as this was measured; kept with the figures")
    options = parser.parse_args(arguments)
    unknown = [name for name in options.names if name not in BENCHES]
    if unknown:
        parser.error(f"no bench {', '.join(unknown)}; there are {', '.join(BENCHES)}")
    if options.quick and options.readme:
        parser.error("--quick shows that a bench works; its figures are none to keep")
    note = {"note": options.note} if options.note else {}
    about = machine(CHECKOUT) | note
    rows: list[Row] = []
    for name in options.names or BENCHES:
        print(f"{name} …", file=sys.stderr, flush=True)
        moment = machine(CHECKOUT) | note
        try:
            found = importlib.import_module(f"benches.{name}").run(options.quick)
        except VoicedError as error:
            print(f"tools/bench: {name}: {error}", file=sys.stderr)
            return error.exit_code
        rows += found
        if options.readme:
            page.keep(name, moment, found)
    if options.readme:
        page.write()
    if options.json:
        print(json.dumps({"machine": about, "rows": [row.plain() for row in rows]}, ensure_ascii=False, indent=1))
    else:
        print(markdown(about, rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
