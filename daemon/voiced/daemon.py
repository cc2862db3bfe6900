"""The daemon's life: bus, supervisor and systemd put together, from the first line of the log to the last.

What lives here: the order in which things start and end. What must not: what any of them does.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import logging
import os
import signal
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from . import __version__, placement
from .bus.address import session_address
from .bus.private import find_bus, start_private_bus
from .bus.service import Service
from .desk import News, PlacementRow, Published
from .errors import BusError
from .runtime_dir import runtime_directory
from .settings import LaneSettings, Settings
from .supervisor import Supervisor
from .systemd import Notifier
from .terminal import Conversation, json_line, reader_gone

log = logging.getLogger("voiced")


def run_daemon(settings: Settings, options: argparse.Namespace, files: Sequence[Path]) -> int:
    """Runs until it is told to end, or until `files` (each a lane of its own, at the pace of speech) have come to theirs."""
    if files:
        # a lane's name is the file's, made unique and fit for the bus
        names = ["demo"] if options.demo else [f"file{number}" for number in range(1, len(files) + 1)]
        settings = replace(
            settings, lanes=tuple(LaneSettings(name, f"file:{file.resolve()}") for name, file in zip(names, files, strict=True))
        )
    start_log(settings.log.level, terminal=bool(files) or options.show)
    row = placement.pin("bus", settings.placement.bus, process="main")
    with runtime_directory() as directory:
        return asyncio.run(_run(settings, options, directory, row, bool(files)))


async def _run(settings: Settings, options: argparse.Namespace, directory: Path, row: PlacementRow, until_files_end: bool) -> int:
    notifier = Notifier()
    supervisor = Supervisor(settings, directory, version=__version__, row=row)
    told = asyncio.Event()
    if until_files_end or options.show:
        _show(supervisor, options.json, told.set, several=len(settings.lanes) > 1)
    async with contextlib.AsyncExitStack() as stack:
        # the name first: a second daemon is told at once, and clients see `starting` instead of nothing
        address, private = await _start_bus(stack, supervisor, settings, options, optional=until_files_end)
        stack.push_async_callback(supervisor.close)
        stack.callback(notifier.stopping)
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, told.set)
        if options.demo and not options.json:
            print(f"A recording of two turns and some talk between them, heard at the pace of speech by voiced {__version__}.")
            if address:
                where = f"a private bus, {address}, since no session bus is here" if private else "D-Bus"
                print(f"In a second terminal, `voicectl watch` shows the same from {where}.")
        await _first(told.wait(), supervisor.start())
        if not told.is_set():
            notifier.ready("listening")
            log.info("ready")
            ended = asyncio.ensure_future(supervisor.ended())
            await _first(told.wait(), ended)
            return 0 if ended.cancelled() else ended.result()
    return 0


async def _first(*waits: Any) -> None:
    """Until the first of them is done; the others are cancelled. What it raises is raised."""
    tasks = [asyncio.ensure_future(wait) for wait in waits]
    done, pending = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in pending:
        task.cancel()
    await asyncio.gather(*pending, return_exceptions=True)
    for task in done:
        task.result()


async def _start_bus(
    stack: contextlib.AsyncExitStack, supervisor: Supervisor, settings: Settings, options: argparse.Namespace, *, optional: bool
) -> tuple[str, bool]:
    """Connects and serves; returns the address ("" where a demonstration goes on without a bus) and whether that bus is our own."""
    explicit = options.bus or settings.bus.address or ("session" if options.session else None)
    system = options.system or (settings.bus.kind == "system" and not explicit)
    try:
        address = find_bus(explicit, system=system)
        revive = None
        # a private bus that answers may be the last breath of one whose voiced was killed: `start_private_bus` sees to it that one lives
        if address is None or not (explicit or system or address == session_address()):
            private = start_private_bus()
            stack.callback(private.close)
            address, revive = private.address, private.ensure
            log.info("no session bus here: a private one is at %s, where voicectl finds it", address)
        service = Service(supervisor, address, library=settings.bus.library, unicast=system, revive=revive)
        await service.start()
    except BusError as error:
        if not optional:
            raise
        print(f"voiced: {error}; going on without a bus", file=sys.stderr)
        return "", False
    serving = asyncio.create_task(service.run())

    async def stop() -> None:
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)

    stack.push_async_callback(stop)
    return address, revive is not None


def _show(supervisor: Supervisor, as_json: bool, stop: Callable[[], None], *, several: bool) -> None:
    """Prints what is heard; `stop` is called when nobody reads it any more."""
    conversation = Conversation(sys.stdout, several=several)

    def news(item: News) -> None:
        if not isinstance(item, Published):
            return
        try:
            if as_json:
                print(json_line(item.event, lane=item.lane), flush=True)
            else:
                conversation.show(item.event, item.lane)
        except BrokenPipeError:
            reader_gone()
            stop()

    supervisor.listen(news)


class _Journal(logging.Formatter):
    """`<N>` before each line, N the syslog priority: systemd's way to tell them apart."""

    _PRIORITY = {logging.DEBUG: 7, logging.INFO: 6, logging.WARNING: 4, logging.ERROR: 3}

    def format(self, record: logging.LogRecord) -> str:
        return f"<{self._PRIORITY.get(record.levelno, 3)}>{super().format(record)}"


def start_log(level: str, *, terminal: bool) -> None:
    """One line an entry on stderr. `terminal`: where the conversation is shown; it gets warnings only, as any command's."""
    handler = logging.StreamHandler()
    if "JOURNAL_STREAM" in os.environ:
        handler.setFormatter(_Journal("%(message)s"))
    elif terminal:
        handler.setFormatter(logging.Formatter("voiced: %(message)s"))
    else:
        handler.setFormatter(logging.Formatter("%(asctime)s %(message)s", "%H:%M:%S"))
    log.addHandler(handler)
    log.setLevel("WARNING" if terminal and level == "info" else level.upper())
