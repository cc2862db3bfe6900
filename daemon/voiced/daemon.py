"""The daemon's life: bus, supervisor and systemd put together, from the first line of the log to the last.

What lives here: the order in which things start and end. What must not: what any of them does.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import logging
import os
import shutil
import signal
import sys
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from . import __version__, placement
from .bus.address import entries, is_system, session_address
from .bus.private import find_bus, start_private_bus
from .bus.service import Service
from .desk import News, PlacementRow, Published, Reloaded
from .errors import INTERRUPTED, BusError, ConfigError, InputError, InternalError, UsageError, VoicedError
from .folder import Folder
from .knobs import fits, rows
from .lifeline import Lifeline
from .logwriter import set_level, start_log
from .results import Results
from .runtime_dir import runtime_directory
from .settings import BusSettings, LaneSettings, Settings
from .settingsfile import find_config, read
from .spelling import unspellable
from .supervisor import Supervisor
from .systemd import Notifier
from .terminal import Printer, own_output
from .turnids import TurnIds, state_folder

log = logging.getLogger("voiced")

BUS_PATIENCE_S = 60.0
"""A service may be begun before its bus; somebody at a terminal is told at once that there is none."""


@dataclass(frozen=True, slots=True)
class Job:
    """A folder to hear, and where it goes."""

    folder: Folder
    results: Results


def run_daemon(settings: Settings, options: argparse.Namespace, files: Sequence[Path], job: Job | None = None) -> int:
    """Runs until it is told to end, or until `files` (each a lane of its own, at the pace of speech), or those of the job, have come to
    theirs."""
    lanes = job.folder.lanes if job else file_lanes(files, demo=options.demo) if files else ()

    def hearing(settings: Settings) -> Settings:
        return replace(settings, lanes=lanes) if lanes else settings

    def reread() -> Settings:
        return hearing(read(find_config(options.config), options.board or "", (unspellable,)))

    settings = hearing(settings)
    row = placement.pin("bus", settings.placement.bus, process="main")
    writer = start_log(settings.log.level, terminal=bool(lanes) or options.show)
    try:
        with runtime_directory() as directory:
            return asyncio.run(_run(settings, reread, options, directory, row, bool(lanes), job))
    finally:
        writer.flush()  # before the line that says why it ends


def file_lanes(files: Sequence[Path], *, demo: bool = False) -> tuple[LaneSettings, ...]:
    """A lane for each file, to be heard at once. UsageError for more than there can be, InputError for a name that no setting can have."""
    most = rows(Settings)["lanes"].knob.high
    if most and len(files) > most:
        what = f"at most {most:g} files can be heard at once, at the pace of speech; {len(files)} were given"
        raise UsageError("--pace realtime", what, "give fewer, or hear them one after the other: --pace max")
    source = rows(LaneSettings)["source"]
    lanes = []
    for number, file in enumerate(files, 1):
        lane = LaneSettings("demo" if demo else f"file{number}", f"file:{file.absolute()}")
        if not fits(source, lane.source):
            raise InputError(ascii(str(file)), "a file's path must be printable text of some length", "rename it, or hear it by --pace max")
        lanes.append(lane)
    return tuple(lanes)


async def _run(
    settings: Settings,
    reread: Callable[[], Settings],
    options: argparse.Namespace,
    directory: Path,
    row: PlacementRow,
    until_files_end: bool,
    job: Job | None,
) -> int:
    ids, feed = TurnIds(state_folder(os.environ)), job.folder if job else None
    supervisor = Supervisor(settings, directory, version=__version__, row=row, read=reread, ids=ids, feed=feed)
    if job:
        job.results.follow(supervisor.desk.turn)
        supervisor.desk.listen(job.results.news)
    lifeline = Lifeline(Notifier(), lambda: supervisor.snapshot().lanes, supervisor.deaf)
    supervisor.desk.listen(lifeline.news)
    supervisor.desk.listen(_heed_level(supervisor, terminal=until_files_end or options.show))
    loop = asyncio.get_running_loop()
    told = asyncio.Event()
    printer = None
    async with contextlib.AsyncExitStack() as stack:
        if job:
            stack.callback(job.results.close)  # after the lanes' last turns
        if (until_files_end or options.show) and not options.headless:
            several = len(settings.lanes) > 1
            printer = Printer(own_output(), as_json=options.json, several=several, on_end=lambda: loop.call_soon_threadsafe(told.set))
            stack.callback(_close, printer)
            _show(supervisor, printer)
        _beside(stack, lifeline.run())
        # before the wait for the bus: unheeded it ends a service, and systemd takes that end for a clean one
        loop.add_signal_handler(signal.SIGHUP, _hang_up(told, supervisor))
        # the name first: a second daemon is told at once, and clients see `starting` instead of nothing
        address, private, serving = await _start_bus(stack, supervisor, settings, options, lifeline, optional=until_files_end)
        if serving:
            serving.add_done_callback(lambda _: told.set())
        stack.push_async_callback(supervisor.close)
        stack.callback(lifeline.stopping)
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, told.set)
        if printer and options.demo and not options.json:
            printer.say(f"A recording of two turns and some talk between them, heard at the pace of speech by voiced {__version__}.")
            if address:
                where = f"a private bus, {address}, since no session bus is here" if private else "D-Bus"
                beside = "voicectl" if shutil.which("voicectl") else str(Path(sys.executable).parent / "voicectl")
                printer.say(f"In a second terminal, `{beside} watch` shows the same from {where}.")
        await _first(told.wait(), supervisor.start())
        if not told.is_set():
            if job:
                job.results.begin()
            lifeline.ready()
            log.info("ready")
            if printer and options.show and not options.json:
                printer.say(_invitation(settings))
            ended = asyncio.ensure_future(supervisor.ended())
            await _first(told.wait(), ended)
            if not ended.cancelled():
                if job:
                    summary = await asyncio.to_thread(job.results.finish, supervisor.snapshot().statistics)
                    print(summary, file=sys.stderr, flush=True)
                return ended.result()
        if serving and serving.done():  # it serves until it is cancelled
            serving.result()
            raise InternalError("D-Bus", "the service ended by itself", "start voiced again")
    if printer and printer.error:
        raise printer.error
    if job:
        log.warning("interrupted: the results are of what was heard until then, and metrics.json is not written")
        return INTERRUPTED
    return 0


def _invitation(settings: Settings) -> str:
    """To whoever sits before it."""
    phrases = " or ".join(f'"{phrase.name.replace("-", " ")}"' for phrase in settings.wake.phrases)
    if all(lane.listen == "always" for lane in settings.lanes):
        what = "speak"
    else:
        what = f"say {phrases}, then what you want" if phrases else "no phrase is set, so a turn begins with voicectl trigger"
    return f"Ready: {what}; ^C ends it."


def _hang_up(told: asyncio.Event, supervisor: Supervisor) -> Callable[[], None]:
    """What SIGHUP does: a terminal that goes takes us with it; without one the settings file is read anew."""
    if sys.stdin and sys.stdin.isatty():
        return told.set
    running: set[asyncio.Task[None]] = set()

    async def reload() -> None:
        with contextlib.suppress(VoicedError):  # the log has it
            await supervisor.reload()

    def reload_soon() -> None:
        running.add(task := asyncio.get_running_loop().create_task(reload()))
        task.add_done_callback(running.discard)

    return reload_soon


def _heed_level(supervisor: Supervisor, *, terminal: bool) -> Callable[[News], None]:
    """The log has its new level after a reload."""

    def news(item: News) -> None:
        if isinstance(item, Reloaded):
            set_level(supervisor.settings.log.level, terminal=terminal)

    return news


def _beside(stack: contextlib.AsyncExitStack, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
    """Runs it as long as the daemon."""
    task = asyncio.create_task(work)

    async def stop() -> None:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    stack.push_async_callback(stop)
    return task


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
    stack: contextlib.AsyncExitStack,
    supervisor: Supervisor,
    settings: Settings,
    options: argparse.Namespace,
    lifeline: Lifeline,
    *,
    optional: bool,
) -> tuple[str, bool, asyncio.Task[None] | None]:
    """Connects and serves; returns the address, whether that bus is our own, and what serves ("" and None where a demonstration goes
    on without a bus)."""
    wanted = wanted_bus(options, settings.bus)
    if wanted and wanted == settings.bus.address:
        try:
            entries(wanted)
        except BusError as error:
            raise ConfigError("bus.address", error.what, "see the comment in config/voiced.yaml") from None
    try:
        address = find_bus(wanted)
        revive = None
        # a private bus that answers may be the last breath of one whose voiced was killed: `start_private_bus` sees to it that one lives
        if address is None or not (wanted or address == session_address()):
            private = start_private_bus()
            stack.callback(private.close)
            address, revive = private.address, private.ensure
        service = Service(supervisor.desk, address, library=settings.bus.library, unicast=is_system(address), revive=revive)
        patience_s = BUS_PATIENCE_S if lifeline.listened_to and not revive else 0.0
        await service.start(patience_s, on_wait=lambda: lifeline.waiting("waiting for the bus"))
    except BusError as error:
        if not optional or error.exit_code == UsageError.exit_code:
            raise
        print(f"voiced: {error}; going on without a bus", file=sys.stderr)
        return "", False, None
    if revive is not None:
        log.info("no session bus here: a private one is at %s, where voicectl finds it", address)
    return address, revive is not None, _beside(stack, service.run())


def wanted_bus(options: argparse.Namespace, settings: BusSettings) -> str | None:
    """An address, "session" or "system": what the command line says, else the settings; None: whichever is there."""
    said = options.bus or ("session" if options.session else "system" if options.system else None)
    return said or settings.address or ("system" if settings.kind == "system" else None)


def _show(supervisor: Supervisor, printer: Printer) -> None:
    def news(item: News) -> None:
        if isinstance(item, Published):
            printer.show(item.event, item.lane)

    supervisor.desk.listen(news)


def _close(printer: Printer) -> None:
    printer.close()
    if printer.lost:
        log.warning("%d events were not shown: nobody read them in time", printer.lost)
