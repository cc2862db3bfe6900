"""Commands that speak to a running daemon.

What lives here: one coroutine a command, which prints and returns the exit code. What must not: D-Bus (voiced.api has a
client), arguments.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, aclosing
from typing import Any

from voiced.api import (
    BusError,
    Client,
    CloseReason,
    Conversation,
    Endpoint,
    Final,
    Heard,
    Presence,
    Published,
    TurnClosed,
    UsageError,
    find_bus,
    json_line,
)

NO = 1

LOOK_AGAIN_S = 0.5
"""Between two looks for a bus that is not there yet."""

SPOKEN_TO_THE_END = frozenset(
    (
        CloseReason.END_TOKEN,
        CloseReason.TURN_DETECTOR,
        CloseReason.SILENCE,
        CloseReason.TOO_LONG,
        CloseReason.STOPPED,
        CloseReason.AUDIO_LOST,
    )
)
"""How turns close whose text is what somebody meant to say. The text of others (shutdown, restarted) may be half a command."""


def connect(options: argparse.Namespace) -> Client:
    """A client of the daemon that the arguments name; BusError where there is no bus at all."""
    address = find_bus(options.bus)
    if address is None:
        raise BusError("D-Bus", "voiced does not run: there is no session bus, and no private one of voiced's", "start it: voiced")
    return Client(address)


async def arrive(stack: AsyncExitStack, options: argparse.Namespace) -> Client:
    """A client as soon as there is a bus: for what waits for a daemon anyway."""
    told = False
    while True:
        try:
            return await stack.enter_async_context(connect(options))
        except BusError as error:
            if error.exit_code != BusError.exit_code:  # nothing that waiting would mend
                raise
            if not told:
                print(f"voicectl: {error}; waiting for it", file=sys.stderr, flush=True)
            told = True
        await asyncio.sleep(LOOK_AGAIN_S)


async def status(options: argparse.Namespace) -> int:
    """0 when every lane hears, else 1: a script can ask."""
    async with connect(options) as client:
        found = {"bus": client.address, **await client.status()}
    if options.json:
        print(json.dumps(found, ensure_ascii=False))
    else:
        muted = ", muted" if found["muted"] and found["health"] != "muted" else ""
        print(f"voiced {found['version']}: {found['health']}{muted}")
        print(f"  bus: {found['bus']}")
        for lane in found["lanes"]:
            turn = f", turn {lane['turn']}" if lane["turn"] else ""
            phrases = ", ".join(lane["phrases"]) or "no phrase"
            why = f" ({lane['reason']})" if lane.get("reason") else ""
            plays = ", deaf to phrases while a client plays sound" if lane.get("playing") else ""
            print(f"  lane {lane['name']}: {lane['health']}{why}, {lane['state']}{turn}{plays}; hears {lane['source']} for {phrases}")
        for line in found["mistakes"]:
            print(f"  the settings stay as they were: {line}")
        if found["nextstart"]:
            print(f"  takes effect at the next start: {', '.join(found['nextstart'])}")
        for role, model in found["models"].items():
            print(f"  {role}: {model}")
        for role, process, pid, tid, wanted, actual, *_ in found["placement"]:
            where = "any core" if not wanted else f"wanted {_cores(wanted)}, runs on {_cores(actual)}"
            print(f"  thread {role} ({process or 'main'}, pid {pid}, tid {tid}): {where}")
        for name, value in sorted(found["statistics"].items()):
            if value:
                print(f"  {name}: {int(value) if value == int(value) else format(value, '.3f')}")
    return 0 if found["health"] == "ok" else NO


def _cores(cores: list[int]) -> str:
    return ",".join(map(str, cores))


async def watch(options: argparse.Namespace) -> int:
    """Shows events until ^C; the daemon may go and come back meanwhile."""
    conversation = Conversation(sys.stdout, several=options.lane is None)
    finals = 0
    async with AsyncExitStack() as stack:
        client = await arrive(stack, options)
        async for item in await stack.enter_async_context(aclosing(of_lane(client, options.lane))):
            if isinstance(item, Presence):
                where = "listening to voiced" if item.there else "voiced is not there; waiting for it"
                print(f"voicectl: {where}", file=sys.stderr, flush=True)
            elif isinstance(item, Published):
                if options.json:
                    stamps = {
                        "lane": item.lane,
                        "sequence": item.sequence,
                        "monotonic_us": item.monotonic_us,
                        "realtime_us": item.realtime_us,
                    }
                    print(json_line(item.event, **stamps), flush=True)
                else:
                    conversation.show(item.event, item.lane)
                finals += isinstance(item.event, Final)
                if finals == options.count:
                    return 0
    return 0


async def listen(options: argparse.Namespace) -> int:
    """Each final of a turn that was spoken to its end, as a line of text or as a run of a command (one at a time: order is kept)."""
    finals = 0
    broken_off: set[tuple[str, int]] = set()
    async with AsyncExitStack() as stack:
        client = await arrive(stack, options)
        async for item in await stack.enter_async_context(aclosing(of_lane(client, options.lane))):
            if not isinstance(item, Published):
                continue
            if isinstance(item.event, Endpoint) and item.event.reason not in SPOKEN_TO_THE_END:
                broken_off.add((item.lane, item.event.turn))
            if isinstance(item.event, TurnClosed):
                broken_off.discard((item.lane, item.event.turn))
            if not isinstance(item.event, Final) or (item.lane, item.event.turn) in broken_off:
                continue
            if options.run:
                await _run(options.run, item, item.event)
            elif options.json:
                print(json_line(item.event, lane=item.lane), flush=True)
            else:
                print(item.event.text, flush=True)
            finals += 1
            if finals == options.count:
                return 0
    return 0


async def _run(command: str, item: Published, final: Final) -> None:
    # the text goes as an argument, never into the command line itself: what is spoken must not be run
    beside = {"VOICED_TURN": str(final.turn), "VOICED_LANE": item.lane, "VOICED_TEXT": final.text}
    process = await asyncio.create_subprocess_exec("sh", "-c", command, "voicectl", final.text, env={**os.environ, **beside})
    code = await process.wait()
    if code:
        print(f"voicectl: {command}: exit code {code}", file=sys.stderr, flush=True)


async def of_lane(client: Client, lane: str | None) -> AsyncGenerator[Heard, None]:
    """What the client hears, of one lane where one is named. UsageError where the daemon has none of that name."""
    told = 0
    async with aclosing(client.watch()) as heard:
        async for item in heard:
            if client.lost > told:
                missed, told = client.lost - told, client.lost
                print(f"voicectl: {missed} events were missed: they came faster than they were taken", file=sys.stderr, flush=True)
            if lane is not None and isinstance(item, Presence) and item.there:
                there = [str(one["name"]) for one in (await client.status())["lanes"]]
                if lane not in there:
                    raise UsageError("--lane", f"expected one of {', '.join(there) or '(no lanes)'}; got {lane}")
            if lane is None or not isinstance(item, Published) or item.lane == lane:
                yield item


async def trigger(options: argparse.Namespace) -> int:
    async with connect(options) as client:
        if not options.wait:
            turn = await client.trigger(options.lane)
            _say(options, {"turn": turn}, str(turn))
            return 0
        async with aclosing(client.watch()) as heard:
            await anext(heard)  # we are subscribed: no event of the turn can be missed
            turn = await client.trigger(options.lane, {"hold": True})  # ^C cancels it
            text: str | None = None
            async for item in heard:
                event = item.event if isinstance(item, Published) else None
                if isinstance(item, Presence) and not item.there:
                    raise BusError("D-Bus", f"voiced went away before turn {turn} had its final", "see its log")
                if isinstance(event, Final) and event.turn == turn:
                    text = event.text
                if isinstance(event, TurnClosed) and event.turn == turn:
                    _say(options, {"turn": turn, "reason": event.reason.value, "text": text}, text if text is not None else "")
                    return 0 if text is not None else NO
    return NO


def _say(options: argparse.Namespace, found: dict[str, Any], text: str) -> None:
    if options.json:
        print(json.dumps(found, ensure_ascii=False))
    elif text:
        print(text)


async def stop(options: argparse.Namespace) -> int:
    async with connect(options) as client:
        await client.stop(options.lane)
    return 0


async def cancel(options: argparse.Namespace) -> int:
    async with connect(options) as client:
        await client.cancel(options.lane)
    return 0


async def mute(options: argparse.Namespace) -> int:
    async with connect(options) as client:
        await client.mute(True, options.lane)
    return 0


async def unmute(options: argparse.Namespace) -> int:
    async with connect(options) as client:
        await client.mute(False, options.lane)
    return 0


async def reload(options: argparse.Namespace) -> int:
    """ConfigError with every mistake of the file, which then has changed nothing."""
    async with connect(options) as client:
        restart = await client.reload()
    _say(options, {"restart": restart}, f"takes effect at the next start: {', '.join(restart)}" if restart else "")
    return 0
