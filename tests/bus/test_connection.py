"""What the libraries get wrong and Connection gets right, on a real bus, with both libraries."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import socket
import tempfile
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from descriptors import opened
from voiced.bus import connection as module
from voiced.bus.connection import CallError, Connection, Incoming, Value, connect
from voiced.bus.library import load
from voiced.bus.outbox import Outbox
from voiced.errors import BusError

if TYPE_CHECKING:
    from bus.conftest import Bus

Go = Callable[[Coroutine[Any, Any, None]], None]
PATH, INTERFACE = "/org/example/Test", "org.example.Test"


class Ear:
    """Keeps the signals of the test's interface and wakes the test at the wanted number."""

    def __init__(self, connection: Connection, wanted: int) -> None:
        self.heard: list[Incoming] = []
        self.wanted, self.enough = wanted, asyncio.Event()
        connection.on_message = self

    def __call__(self, message: Incoming) -> bool:
        if message.interface == INTERFACE and not message.is_call:
            self.heard.append(message)
            if len(self.heard) >= self.wanted:
                self.enough.set()
        return False


@contextlib.asynccontextmanager
async def two(address: str, library: str) -> Any:
    one, other = await connect(address, library), await connect(address, library)
    try:
        await other.add_match(f"type='signal',interface='{INTERFACE}'")
        yield one, other
    finally:
        one.close()
        other.close()


def send(connection: Connection, number: int, key: str | None = None) -> bool:
    return connection.signal(PATH, INTERFACE, "Count", "ts", [number, "x" * 300], key=key)


def test_a_thousand_signals_in_one_turn_of_the_loop(bus: Bus, library: str, go: Go) -> None:
    async def test() -> None:
        async with two(bus.address, library) as (one, other):
            ear = Ear(other, 1_000)
            assert all(send(one, number) for number in range(1_000))
            await ear.enough.wait()
            assert [message.body[0] for message in ear.heard] == list(range(1_000))
            assert await one.drain(5)
            assert not one.disconnected.is_set()
            done = one.statistics()
            assert (done.sent, done.waiting, done.replaced, done.dropped) == (1_000, 0, 0, 0)

    go(test())


def test_a_bus_that_stands_still(bus: Bus, library: str, go: Go) -> None:
    """Finals queue and arrive in order, partials are replaced, the queue is bounded, what overflows is counted, the loop turns."""

    async def test() -> None:
        async with two(bus.address, library) as (one, other):
            ear = Ear(other, 1)
            one._outbox = Outbox(1_000)  # as full as LIMIT, sooner
            bus.signal(signal.SIGSTOP)
            turned, accepted = 0, []
            for number in range(3_000):
                if number % 2:
                    send(one, number, key="partial")
                elif send(one, number):
                    accepted.append(number)
                if number % 100 == 0:
                    await asyncio.sleep(0)
                    turned += 1
            now = one.statistics()
            assert turned == 30
            assert now.waiting <= 1_001
            assert now.replaced > 0
            assert now.dropped == 1_500 - len(accepted) > 0
            ear.wanted = len(accepted)
            bus.signal(signal.SIGCONT)
            assert await one.drain(20)
            send(one, 5_000)
            while not ear.heard or ear.heard[-1].body[0] != 5_000:
                ear.enough.clear()
                ear.wanted = len(ear.heard) + 1
                await ear.enough.wait()
            got = [message.body[0] for message in ear.heard]
            assert [number for number in got if number % 2 == 0] == [*accepted, 5_000]
            assert got == sorted(got)

    go(test())


def test_a_call_to_a_bus_that_stands_still_ends_in_time(bus: Bus, library: str, go: Go) -> None:
    async def test() -> None:
        connection = await connect(bus.address, library)
        bus.signal(signal.SIGSTOP)
        with pytest.raises(BusError, match=r"GetId: no answer within 0.1 s"):
            await connection.call(module.DAEMON, module.DAEMON_PATH, module.DAEMON, "GetId", timeout_s=0.1)
        with pytest.raises(BusError, match=r"no answer within 0.1 s"):
            await connect(bus.address, library, timeout_s=0.1)
        bus.signal(signal.SIGCONT)
        assert await connection.ask("GetId")  # the late answer to the first call troubles nobody
        connection.close()

    go(test())


def test_death_of_the_bus_ends_calls_and_never_hangs(bus: Bus, library: str, go: Go) -> None:
    async def test() -> None:
        one, other = await connect(bus.address, library), await connect(bus.address, library)
        waiting = asyncio.create_task(one.call(other.unique_name, PATH, INTERFACE, "NeverAnswered"))
        other.on_message = lambda message: message.is_call
        await asyncio.sleep(0)
        bus.kill()
        with pytest.raises(BusError, match="connection ended"):
            await waiting
        await other.disconnected.wait()
        assert one.reason
        assert not send(one, 1)
        assert not await one.drain(1)
        with pytest.raises(BusError, match="was not sent"):
            await one.ask("GetId")

    go(test())


def test_descriptors_are_given_back(bus: Bus, library: str, go: Go) -> None:
    async def test() -> None:
        (await connect(bus.address, library)).close()
        before = opened("socket:")
        kept = []
        for _ in range(50):
            connection = await connect(bus.address, library)
            connection.close()
            kept.append(connection)  # so that no garbage collection does the work
        bus.kill()
        for _ in range(50):
            with pytest.raises(BusError) as caught:
                await connect(bus.address, library)
            kept.append(caught.value)  # type: ignore[arg-type]
        assert opened("socket:") <= before

    go(test())


@pytest.fixture
def mute_server() -> Iterator[tuple[str, socket.socket]]:
    with tempfile.TemporaryDirectory(prefix="voiced-") as directory, socket.socket(socket.AF_UNIX) as server:
        path = Path(directory) / "s"
        server.bind(str(path))
        server.listen(1)
        yield f"unix:path={path}", server


def test_a_handshake_that_breaks_off(mute_server: tuple[str, socket.socket], library: str, go: Go) -> None:
    address, server = mute_server

    async def test() -> None:
        before = opened("socket:")
        connecting = asyncio.create_task(connect(address, library))
        server.setblocking(False)
        accepted, _ = await asyncio.get_running_loop().sock_accept(server)
        accepted.close()
        with pytest.raises(BusError, match="no bus"):
            await connecting
        assert opened("socket:") <= before

    go(test())


def test_a_server_that_accepts_nobody_blocks_nobody(mute_server: tuple[str, socket.socket], library: str, go: Go) -> None:
    """More connections than its backlog holds: a blocking connect would stop the loop here."""
    address, _ = mute_server

    async def test() -> None:
        attempts = [asyncio.create_task(connect(address, library, timeout_s=0.2)) for _ in range(6)]
        results = await asyncio.gather(*attempts, return_exceptions=True)
        assert all(isinstance(result, BusError) for result in results)

    go(test())


@pytest.mark.parametrize(
    ("address", "says"),
    [
        ("unix:path=/nonexistent/bus", "No such file"),
        ("tcp:host=127.0.0.1,port=1", "expected a local bus"),
        ("nonsense", "expected an address"),
        ("", "expected an address"),
        ("unix:tmpdir=/tmp", "expected path= or abstract="),
        ("unix:path=/nonexistent/a;unix:path=/nonexistent/b", "No such file.*No such file"),
    ],
)
def test_no_bus_is_one_clear_line(address: str, says: str, library: str, go: Go) -> None:
    async def test() -> None:
        with pytest.raises(BusError, match=says) as caught:
            await connect(address, library)
        assert "\n" not in str(caught.value)

    go(test())


def test_the_second_of_two_addresses(bus: Bus, library: str, go: Go) -> None:
    async def test() -> None:
        connection = await connect(f"unix:path=/nonexistent/bus;{bus.address}", library)
        assert connection.unique_name.startswith(":")
        connection.close()

    go(test())


def test_values_there_and_back(bus: Bus, library: str, go: Go) -> None:
    """Variants in dicts, structs, and texts that would cost the connection: NUL and a lone surrogate."""

    async def test() -> None:
        async with two(bus.address, library) as (one, other):
            ear = Ear(other, 1)
            body = [{"a": Value("a{sd}", {"x": 1.5}), "s": Value("(si)", ("y", -3))}, [(1, [2])], "nul\0 sur\ud800 ü"]
            assert one.signal(PATH, INTERFACE, "Values", "a{sv}a(uau)s", body, destination=other.unique_name)
            await ear.enough.wait()
            assert ear.heard[0].body == [{"a": {"x": 1.5}, "s": ["y", -3]}, [[1, [2]]], "nul\ufffd sur? ü"]
            assert not one.disconnected.is_set()

    go(test())


def test_a_handler_that_raises_tells_no_traceback(bus: Bus, library: str, go: Go, caplog: pytest.LogCaptureFixture) -> None:
    def broken(message: Incoming) -> bool:
        if message.is_call:
            raise RuntimeError("secret in /some/path")
        return False

    async def test() -> None:
        async with two(bus.address, library) as (one, other):
            other.on_message = broken
            with caplog.at_level(logging.CRITICAL, logger="voiced.bus.connection"), pytest.raises(CallError) as caught:
                await one.call(other.unique_name, PATH, INTERFACE, "Anything")
            assert caught.value.name == "org.freedesktop.DBus.Error.Failed"
            assert "secret" not in str(caught.value)
            assert "Traceback" not in str(caught.value)

    go(test())


def test_names_are_owned_or_told_why_not(bus: Bus, library: str, go: Go) -> None:
    async def test() -> None:
        async with two(bus.address, library) as (one, other):
            await one.request_name("org.example.Name")
            await one.request_name("org.example.Name")
            with pytest.raises(BusError, match=rf"org.example.Name: the name is taken by process {os.getpid()} on unix:path="):
                await other.request_name("org.example.Name")
            with pytest.raises(BusError, match="refuses the name"):
                await other.request_name("org.freedesktop.DBus")

    go(test())


def test_an_unknown_library_is_named() -> None:
    with pytest.raises(BusError, match=r"bus.library: expected auto, dbus-fast or dbus-next, got 'gdbus'"):
        load("gdbus")
    assert load("auto").name in ("dbus-fast", "dbus-next")
