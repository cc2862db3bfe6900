"""What the service adds to the bare library: latency of a signal, in one run, on one private bus.

The receiver is another process with the bare library (dbus-fast where there is one), so that reading and writing do not
share a loop. Every rate is measured in turns, bare and ours, so that a busy moment of the machine meets both; and beside a
daemon that hears a recording at the pace of speech, as in life.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from voiced import events
from voiced.bus import bodies, interface
from voiced.bus.library import LIBRARIES, load
from voiced.bus.private import start_private_bus
from voiced.bus.service import Service
from voiced.desk import LaneView, News, Published, Snapshot
from voiced.errors import BusError
from voiced.receipts import Receipt
from voiced.statistics import percentile

from .recordings import sample
from .rows import Row
from .running import hearing

BARE_PATH, BARE_INTERFACE = "/org/example/Bench", "org.example.Bench"
AIM = 1.5
RATES_HZ = (20, 200)
"""Partials of one lane, and of eight lanes that all hear at once."""

TEXT = "turn on the lights in the kitchen and close the window of the living room, please"


def now_us() -> int:
    return time.monotonic_ns() // 1000


class OneLane:
    """A desk with one lane that says what the bench wants."""

    def __init__(self) -> None:
        self.say: Callable[[News], None] = lambda _: None

    def snapshot(self) -> Snapshot:
        return Snapshot("0", "ok", False, (LaneView("kitchen", "hearing", "ok", False, (), "bench"),))

    def listen(self, callback: Callable[[News], None]) -> None:
        self.say = callback

    async def trigger(self, lane: str, options: Any) -> int:  # noqa: ARG002
        return 0

    async def stop(self, lane: str) -> None: ...

    async def cancel(self, lane: str, turn: int = 0) -> None: ...

    async def follow_up(self, lane: str) -> int:  # noqa: ARG002
        return 0

    async def withdraw(self, lane: str) -> None: ...

    async def playback(self, lane: str, active: bool) -> None: ...

    def levels(self, wanted: bool) -> None: ...

    async def mute(self, lane: str | None, muted: bool) -> None: ...

    async def reload(self) -> tuple[str, ...]:
        return ()

    def explain(self, lane: str | None, limit: int) -> list[Published]:  # noqa: ARG002
        return []

    def turn(self, turn: int) -> Receipt:
        raise KeyError(turn)

    def turns(self, lane: str | None, limit: int) -> list[Receipt]:  # noqa: ARG002
        return []

    def latencies(self, lane: str | None) -> list[dict[str, Any]]:  # noqa: ARG002
        return []


async def receive(address: str) -> None:
    """The receiver's process: for each signal a line with its kind and its age in microseconds."""
    root = importlib.import_module(load("auto").name.replace("-", "_"))
    aio = importlib.import_module(f"{root.__name__}.aio")
    bus = await aio.MessageBus(bus_address=address).connect()

    def hear(message: Any) -> bool:
        arrived = now_us()
        if message.member == "Partial":
            details = message.body[-1]
            print(json.dumps([message.interface == BARE_INTERFACE, arrived - details["monotonic_us"].value]), flush=True)
        return False

    bus.add_message_handler(hear)
    for name in (BARE_INTERFACE, interface.LANE.name):
        rule = f"type='signal',interface='{name}'"
        dbus = "org.freedesktop.DBus"
        await bus.call(
            root.Message(destination=dbus, path="/org/freedesktop/DBus", interface=dbus, member="AddMatch", signature="s", body=[rule])
        )
    print("ready", flush=True)
    await bus.wait_for_disconnect()


async def measure(address: str, library: str, rate_hz: int, count: int) -> tuple[list[int], list[int]]:
    """Ages in microseconds, bare and ours, `count` of each."""
    root = importlib.import_module(library.replace("-", "_"))
    aio = importlib.import_module(f"{root.__name__}.aio")
    bare = await aio.MessageBus(bus_address=address).connect()
    desk = OneLane()
    service = Service(desk, address, library=library)
    await service.start()
    serving = asyncio.create_task(service.run())
    receiver = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "benches.dbus", "--receive", address, stdout=asyncio.subprocess.PIPE, limit=1 << 20
    )
    assert receiver.stdout is not None
    await receiver.stdout.readline()
    signature = bodies.SIGNATURES["Partial"]

    def send_bare(number: int) -> None:
        details = {"monotonic_us": root.Variant("t", now_us()), "realtime_us": root.Variant("t", 0)}
        body = [number, 1, number * 1280, TEXT, details]
        bare.send(root.Message.new_signal(BARE_PATH, BARE_INTERFACE, "Partial", signature, body))

    def send_ours(number: int) -> None:
        desk.say(Published("kitchen", number, events.Partial(number * 1280, 1, TEXT), now_us(), 0))

    start = time.monotonic()
    for number in range(2 * count):
        await asyncio.sleep(max(0.0, start + number / rate_hz / 2 - time.monotonic()))
        (send_bare if number % 2 else send_ours)(number)
    ages: tuple[list[int], list[int]] = ([], [])
    while len(ages[0]) + len(ages[1]) < 2 * count:
        is_bare, age = json.loads(await receiver.stdout.readline())
        ages[0 if is_bare else 1].append(age)
    receiver.kill()
    await receiver.wait()
    serving.cancel()
    await asyncio.wait([serving])
    bare.disconnect()
    return ages


async def beside_turns(address: str, library: str, rate_hz: int, count: int) -> tuple[list[int], list[int]]:
    """As `measure`, while a daemon on a bus of its own is in one turn after the other."""
    turns = np.tile(sample(), 1 + count // rate_hz)  # 12 s each: more than it takes
    async with hearing(turns):
        return await measure(address, library, rate_hz, count)


def run(quick: bool) -> list[Row]:
    seconds = 1.0 if quick else 5.0
    rows = []
    with tempfile.TemporaryDirectory(prefix="voiced-") as directory:
        bus = start_private_bus(Path(directory) / "b")
        try:
            for library in LIBRARIES:
                try:
                    load(library)
                except BusError as error:
                    rows.append(Row("dbus", library, float("nan"), "ms", note=f"not measured: {error}"))
                    continue
                for rate_hz in RATES_HZ:
                    count = max(10, round(rate_hz * seconds))
                    bare, ours = asyncio.run(beside_turns(bus.address, library, rate_hz, count))
                    rows += _rows(f"{library}, {rate_hz} signals a second", bare, ours)
        finally:
            bus.close()
    return rows


def _rows(what: str, bare: list[int], ours: list[int]) -> list[Row]:
    note = f"{len(ours)} of each, in turns, beside a daemon that hears"
    return [
        Row("dbus", f"{what}, p{at}", percentile(ours, at) / 1000, "ms", bare=percentile(bare, at) / 1000, aim=AIM, note=note)
        for at in (50, 99)
    ]


if __name__ == "__main__":
    asyncio.run(receive(sys.argv[sys.argv.index("--receive") + 1]))
