"""Signals without end beside a subscriber that never reads: nobody else misses one, and nothing grows without end."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from fuzztable import own_mb
from voiced import events
from voiced.bus import interface
from voiced.bus.connection import Connection, Incoming, connect
from voiced.bus.outbox import LIMIT

if TYPE_CHECKING:
    from bus.conftest import MemoryDesk, Serving

Go = Callable[[Coroutine[Any, Any, None]], None]

SIGNALS, BURST = 10_000, 500
KEPT = 50  # receipts
BUS_LIMIT = 1_000_000
"""Bytes that the bus keeps for one of its clients, of which a system's has 127 MiB: what a client that does not read misses."""

CONFIG = """<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN"
 "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
<busconfig>
  <type>session</type>
  <listen>unix:path={directory}/bus</listen>
  <auth>EXTERNAL</auth>
  <policy context="default"><allow send_destination="*"/><allow receive_sender="*"/><allow own="*"/><allow user="*"/></policy>
  <limit name="max_outgoing_bytes">{limit}</limit>
</busconfig>
"""


@dataclass
class NarrowBus:
    address: str
    pid: int

    def megabytes(self) -> float:
        return own_mb(self.pid)


@pytest.fixture
def narrow() -> Iterator[NarrowBus]:
    with tempfile.TemporaryDirectory(prefix="voiced-") as directory:
        config = Path(directory) / "bus.conf"
        config.write_text(CONFIG.format(directory=directory, limit=BUS_LIMIT))
        command = ["dbus-daemon", f"--config-file={config}", "--nofork", "--nopidfile", "--nosyslog", "--print-address"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:  # it tells each message
            assert process.stdout
            yield NarrowBus(process.stdout.readline().strip().partition(",")[0], process.pid)
            process.terminate()


class Subscriber:
    """Heard: sequence numbers in the order in which they came, and the texts of finals."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.sequences: list[int] = []
        self.finals: dict[int, str] = {}
        connection.on_message = self

    def __call__(self, message: Incoming) -> bool:
        if message.interface == interface.LANE.name:
            self.sequences.append(message.body[0])
            if message.member == "Final":
                self.finals[message.body[1]] = message.body[3]
        return False

    @classmethod
    async def on(cls, address: str, library: str) -> Subscriber:
        connection = await connect(address, library)
        await connection.call(interface.NAME, interface.ROOT, interface.MANAGER.name, "Subscribe")
        return cls(connection)


SILENT = f"""
import asyncio, json, sys
from voiced.bus.connection import connect

async def main():
    finals, over = [], asyncio.Event()
    def hear(message):
        if message.member == "Final":
            finals.append(message.body[1])
        elif message.path.endswith("living_2droom"):
            over.set()
        return False
    connection = await connect(sys.argv[1])
    connection.on_message = hear
    await connection.call({interface.NAME!r}, {interface.ROOT!r}, {interface.MANAGER.name!r}, "Subscribe")
    print("ready", flush=True)
    await over.wait()
    print(json.dumps(finals), flush=True)

asyncio.run(main())
"""
"""A subscriber that a test may stop. Something of the other lane tells it that all is over."""


def signals() -> Iterator[events.Event]:
    """Of turns that follow each other: Wake, SpeechStarted, Endpoint, Final, TurnClosed."""
    for turn in range(1, SIGNALS // 5 + 1):
        text = f"what was said in turn {turn}"
        yield events.Wake(turn, turn, "jarvis", turn, 0.9, "heard", {"stage1": 0.95, "stage1_threshold": 0.9})
        yield events.SpeechStarted(turn, turn, turn)
        yield events.Endpoint(turn, turn, events.CloseReason.SILENCE, turn, text)
        yield events.Final(turn, turn, text, events.TextSource.SECOND_PASS, text)
        yield events.TurnClosed(turn, turn, events.CloseReason.SILENCE, turn, turn)


def test_ten_thousand_signals_in_bursts_beside_one_that_never_reads(
    narrow: NarrowBus, go: Go, desk: MemoryDesk, serving: type[Serving]
) -> None:
    async def test() -> None:
        desk.keep = KEPT
        async with serving(desk, narrow.address, "auto", unicast=True) as service:
            silent = await asyncio.create_subprocess_exec(sys.executable, "-c", SILENT, narrow.address, stdout=asyncio.subprocess.PIPE)
            assert silent.stdout
            assert await silent.stdout.readline() == b"ready\n"
            silent.send_signal(signal.SIGSTOP)
            healthy = [await Subscriber.on(narrow.address, "auto") for _ in range(2)]
            all_signals, done, before = signals(), 0, (0.0, 0.0)
            while done < SIGNALS:
                for _ in range(BURST):  # in one turn of the loop: nothing is written or read meanwhile but by us
                    desk.publish("kitchen", next(all_signals))
                done += BURST
                assert service.state().waiting <= LIMIT
                while any(len(one.sequences) < done for one in healthy):
                    await asyncio.sleep(0.001)  # the bus has work to do, too
                if done == SIGNALS // 4:  # all buffers are full
                    before = own_mb(), narrow.megabytes()
            for one in healthy:
                assert one.sequences == list(range(1, SIGNALS + 1))
                assert len(one.finals) == SIGNALS // 5
            assert (service.state().dropped, service.state().replaced) == (0, 0)
            # three quarters of the signals would be five megabytes for these subscribers
            assert own_mb() - before[0] < 10 and narrow.megabytes() - before[1] < 3

            # it wakes up: what the bus did not keep for it is asked for
            silent.send_signal(signal.SIGCONT)
            answer = asyncio.create_task(silent.stdout.readline())
            while not answer.done():
                desk.publish("living-room", events.NearMiss(1, "jarvis", 0.8, 0.9))
                await asyncio.sleep(0.1)
            heard = json.loads(answer.result())
            assert 0 < len(heard) < SIGNALS // 5, "the bus dropped some, for this one alone, which stays connected"
            missed = set(range(SIGNALS // 5 - KEPT + 1, SIGNALS // 5 + 1)) - set(heard)
            assert missed
            for turn in missed:
                connection = healthy[0].connection
                (receipt,) = await connection.call(interface.NAME, interface.ROOT, interface.MANAGER.name, "GetTurn", "t", turn)
                assert receipt["text"] == f"what was said in turn {turn}"
            for one in healthy:
                one.connection.close()
            assert await silent.wait() == 0

    go(test())
