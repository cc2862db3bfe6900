"""`voicectl doctor`: every question of checkup.py, and a daemon's own answer where one runs.

What lives here: the order, the bus, the output. What must not: what is wrong with what (checkup.py). No daemon is needed, and no library:
what is missing is what is told.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from voiced.api import BusError, CallError, Client, Finding, board, find_bus

from . import checkup

NO = 1

DENIED = "org.freedesktop.DBus.Error.AccessDenied"


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--config", metavar="FILE", type=Path, help="settings to be looked at (else those that voiced would read)")


def doctor(options: argparse.Namespace) -> int:
    """0 where nothing is wrong, else 1."""
    good = True
    for finding in examine(options.bus, options.config):
        good &= finding.good
        show(finding, as_json=options.json)
    return 0 if good else NO


def examine(bus: str | None, config: Path | None) -> Iterator[Finding]:
    """All findings, as they are found: some questions take seconds."""
    system = bus == "system"
    settings, found = checkup.settings(config)
    yield from checkup.versions(board_name=board(settings.placement.board).name)
    yield from found
    yield from checkup.models(settings)
    yield from checkup.microphone(settings)
    yield from checkup.rights(os.environ, system=system, uid=os.geteuid(), groups=(os.getegid(), *os.getgroups()))
    status, of_bus = asyncio.run(ask(bus))
    yield from of_bus
    yield from checkup.policy(system=system)
    yield from checkup.placement(settings, status["placement"] if status else ())
    yield from (replace(finding, name="placement") for finding in checkup.ai_cores(settings))
    yield from checkup.limits()
    yield from checkup.clock()


async def ask(bus: str | None) -> tuple[Mapping[str, Any] | None, list[Finding]]:
    """The running daemon's status, and what is to be said of the bus and of it."""
    start = checkup.starting(system=bus == "system")
    try:
        address = find_bus(bus)
        if address is None:
            return None, [Finding("bus", False, "there is no session bus, and no private one: voiced does not run", start)]
        async with Client(address) as client:
            status = await client.status()
    except CallError as error:
        if error.name == DENIED:
            return None, [
                Finding("policy", False, "the bus does not let this user speak to voiced", "sudo usermod -aG voice USER, then log in again")
            ]
        return None, [Finding("bus", False, f"{error.where}: {error.what}", "systemctl restart voiced")]
    except BusError as error:
        advice = start if "does not run" in error.what else error.advice or start
        return None, [Finding("bus", False, f"{error.where}: {error.what}", advice)]
    except ImportError:
        return None, [Finding("bus", False, "voiced cannot be asked without a D-Bus library", "voiced-setup")]
    return status, list(checkup.running(status))


def show(finding: Finding, *, as_json: bool) -> None:
    if as_json:
        facts = {"check": finding.name, "good": finding.good, "what": finding.what, "mend": finding.advice or None}
        print(json.dumps(facts, ensure_ascii=False), flush=True)
        return
    print(f"{'ok   ' if finding.good else 'WRONG'}  {finding.name:11} {finding.what}", flush=True)
    if not finding.good:
        print(f"                    → {finding.advice}", flush=True)
