"""Chinese from a recognizer's tokens to a subscriber's line: partials, finals, the guard, the links, D-Bus, the log.

The vendor's streaming model of the K3 hears Chinese and English. No such model is fetched for a test: its tokens are written down here, and
all that comes after them is real.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import subprocess
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from voiced import wire
from voiced.bus.client import Client
from voiced.desk import Published, Snapshot
from voiced.events import CloseReason, Endpoint, Event, Final, Partial, TextSource, TurnClosed, Wake
from voiced.guard import Refused, letters, refusal
from voiced.hearing import Hearing
from voiced.lanestate import LaneState
from voiced.ledger import Ledger
from voiced.plain import decode, encode
from voiced.publisher import Publisher
from voiced.receipts import Stamps
from voiced.settings import LaneSettings
from voiced.stages.transducer import read
from voiced.statistics import Statistics
from voiced.terminal import json_line

if TYPE_CHECKING:
    from bus.conftest import Bus, MemoryDesk, Serving

Go = Callable[[Coroutine[Any, Any, None]], None]

TEXT = "打开厨房的灯"
MIXED = "播放 JAZZ 音乐"
TURN: tuple[Event, ...] = (
    Wake(16_000, 7, "jarvis", 15_000, 0.97, "heard"),
    Partial(24_000, 7, "打开", stable=2),
    Partial(32_000, 7, TEXT, stable=4),
    Endpoint(40_000, 7, CloseReason.SILENCE, 36_000, TEXT),
    Final(40_000, 7, f"{TEXT}。", TextSource.SECOND_PASS, TEXT),
    TurnClosed(40_000, 7, CloseReason.SILENCE, 16_000, 40_000),
)


@pytest.mark.parametrize(
    ("tokens", "text", "words"),
    [
        (list(TEXT), TEXT, 1),
        (["▁打", "开", "厨", "房", "的", "灯"], TEXT, 1),
        (["播", "放", "▁JA", "ZZ", "▁", "音", "乐"], MIXED, 3),
    ],
)
def test_tokens_become_text(tokens: list[str], text: str, words: int) -> None:
    found = read(tokens, None)
    assert found.text == text
    assert len(found.words) == words


def test_the_guard_reads_it() -> None:
    assert letters(f"{TEXT}。") == TEXT
    assert refusal(f"{TEXT}。", first_pass=TEXT, speech_s=1.2) is None
    assert refusal("打开厨房里的灯", first_pass=TEXT, speech_s=1.2) is None
    found = refusal("谢谢观看请订阅", first_pass=TEXT, speech_s=1.2)
    assert found is not None and found.reason is Refused.UNLIKE
    found = refusal("谢谢" * 8, first_pass=TEXT, speech_s=3.0)
    assert found is not None and found.reason is Refused.REPEATS


def test_the_links_between_processes_keep_it() -> None:
    ours, socket = wire.Link.pair()
    theirs = wire.Link.from_fd(socket.detach())
    try:
        for event in TURN:
            assert ours.send({"event": encode(event)})
            message = theirs.receive(60)
            assert message is not None
            assert decode(message.body["event"]) == event
    finally:
        ours.close()
        theirs.close()


def test_the_bus_brings_it_to_a_subscriber(bus: Bus, library: str, go: Go, desk: MemoryDesk, serving: type[Serving]) -> None:
    async def test() -> None:
        async with serving(desk, bus.address, library), Client(bus.address, library=library) as client:
            heard: list[Event] = []
            watching = client.watch()
            await anext(watching)
            for event in TURN:
                desk.publish("kitchen", event)
            while len(heard) < len(TURN):
                item = await anext(watching)
                if isinstance(item, Published):
                    heard.append(item.event)
            assert [event.text for event in heard if isinstance(event, Partial)] == ["打开", TEXT]
            assert [event.text for event in heard if isinstance(event, Final)] == [f"{TEXT}。"]
            assert (await client.turn(7))["text"] == f"{TEXT}。"
            await watching.aclose()

    go(test())


@pytest.mark.parametrize("locale", ["C.UTF-8", "POSIX"])
def test_listen_gives_it_to_a_command_as_it_was_spoken(
    locale: str, bus: Bus, go: Go, desk: MemoryDesk, serving: type[Serving], tmp_path: Path
) -> None:
    """In any locale: a service often has none."""

    async def test() -> None:
        env = {**os.environ, "LC_ALL": locale, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "PYTHONCOERCECLOCALE": "0"}
        command = [
            sys.executable,
            "-m",
            "voicectl",
            "--bus",
            bus.address,
            "listen",
            "--count",
            "1",
            "--exec",
            f'printf %s "$1" >{tmp_path}/text',
        ]
        async with serving(desk, bus.address, "auto") as service:
            process = await asyncio.create_subprocess_exec(*command, env=env)
            while not process.returncode and not (tmp_path / "text").exists():
                for event in TURN:  # it is told of those that come after it has subscribed
                    desk.publish("kitchen", event)
                await asyncio.sleep(0.1)
            assert await process.wait() == 0
            assert service is not None
        assert (tmp_path / "text").read_bytes().decode() == f"{TEXT}。"

    go(test())


@pytest.mark.parametrize("text", [True, False])
def test_the_log_has_it_where_it_may(text: bool, caplog: pytest.LogCaptureFixture) -> None:
    lane = LaneState(LaneSettings("desk"), Ledger(1, 8), Hearing(3.0), ready=True, source_health="ok")
    publisher = Publisher({"desk": lane}, Statistics(), lambda: Snapshot("1", "ok", False, ()))
    with caplog.at_level(logging.INFO, "voiced"):
        for event in TURN:
            publisher.publish(lane, event, Stamps(), text=text, receipts=5)
    assert (TEXT in caplog.text) is text


def test_a_line_of_json_keeps_it_and_a_terminal_without_it_spells_it_out() -> None:
    line = json_line(TURN[4])
    assert TEXT in line
    program = f"from voiced.terminal import prepare_output; prepare_output(); print({TEXT!a})"
    env = {**os.environ, "LC_ALL": "POSIX", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0", "PYTHONIOENCODING": "ascii"}
    done = subprocess.run([sys.executable, "-c", program], env=env, capture_output=True, text=True, check=True)
    assert json.loads(f'"{done.stdout.strip()}"') == TEXT
