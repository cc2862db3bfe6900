"""The client against a real service: calls, events, and life after a restart."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

import pytest
from voicectl.client import of_lane
from voiced import events
from voiced.bus import client as module
from voiced.bus import interface
from voiced.bus.client import Changed, Client, Presence, Unknown
from voiced.bus.connection import CallError, connect
from voiced.desk import LevelHeard
from voiced.errors import BusError

if TYPE_CHECKING:
    from bus.conftest import Bus, MemoryDesk, Serving

Go = Callable[[Coroutine[Any, Any, None]], None]


def partial(number: int) -> events.Partial:
    return events.Partial(number, 1, f"word {number}")


def test_calls(bus: Bus, library: str, go: Go, desk: MemoryDesk, serving: type[Serving]) -> None:
    async def test() -> None:
        async with serving(desk, bus.address, library), Client(bus.address, library=library) as client:
            assert (await client.status())["version"] == "0.1.0"
            assert await client.trigger("kitchen", {"note": "hi", "count": 3, "loud": True, "gain": 0.5}) == 42
            await client.stop("living-room")
            await client.cancel("kitchen")
            await client.mute(True)
            await client.mute(False, "kitchen")
            assert desk.asked == [
                ("trigger", "kitchen", {"note": "hi", "count": 3, "loud": True, "gain": 0.5}),
                ("stop", "living-room"),
                ("cancel", "kitchen", 0),
                ("mute", None, True),
                ("mute", "kitchen", False),
            ]
            with pytest.raises(BusError, match="expected one of kitchen, living-room, got none"):
                await client.trigger()
            with pytest.raises(CallError, match="no lane 'attic'"):
                await client.stop("attic")
            desk.become(lanes=desk.now.lanes[:1])
            assert await client.trigger() == 42  # the only one needs no name

    go(test())


def test_no_daemon_and_no_bus(bus: Bus, library: str, go: Go) -> None:
    async def test() -> None:
        async with Client(bus.address, library=library) as client:
            with pytest.raises(BusError, match=r"voiced does not run on unix:path=.*start it"):
                await client.status()
        with pytest.raises(BusError, match="no bus"):
            async with Client("unix:path=/nonexistent/bus", library=library):
                pass

    go(test())


@pytest.mark.parametrize("unicast", [False, True])
def test_watch_outlives_the_daemon(bus: Bus, library: str, go: Go, desk: MemoryDesk, serving: type[Serving], unicast: bool) -> None:
    """CASES B3: NameOwnerChanged says when it goes and when it is back."""

    async def test() -> None:
        async with Client(bus.address, library=library) as client:
            watching = client.watch()
            assert await anext(watching) == Presence(False)
            for _ in range(2):
                async with serving(desk, bus.address, library, unicast=unicast) as service:
                    assert await anext(watching) == Presence(True)
                    while unicast and not service.state().subscribers:
                        await client.status()
                    sent = [desk.publish("kitchen", partial(number)) for number in range(3)]
                    assert [await anext(watching) for _ in sent] == sent
                    desk.change(dataclasses.replace(desk.now.lanes[0], state="hearing"))
                    changed = await anext(watching)
                    assert isinstance(changed, Changed)
                    assert (changed.lane, changed.values["State"]) == ("kitchen", "hearing")
                assert await anext(watching) == Presence(False)
            await watching.aclose()

    go(test())


def test_watch_outlives_the_bus(bus: Bus, library: str, go: Go, desk: MemoryDesk, serving: type[Serving]) -> None:
    """CASES B4, a client's side."""

    async def test() -> None:
        async with (
            serving(desk, bus.address, library, revive=bus.private.ensure) as service,
            Client(bus.address, library=library) as client,
        ):
            watching = client.watch()
            assert await anext(watching) == Presence(True)
            bus.kill()
            assert await anext(watching) == Presence(False)
            while (heard := await anext(watching)) != Presence(True):
                assert heard == Presence(False)
            while not service.state().connected:  # the bus told us of the name before it answered the service
                await asyncio.sleep(0)
            news = desk.publish("kitchen", partial(1))
            assert await anext(watching) == news
            await watching.aclose()

    go(test())


def test_what_is_not_understood_is_passed_on_and_strangers_are_not_believed(
    bus: Bus, library: str, go: Go, desk: MemoryDesk, serving: type[Serving]
) -> None:
    async def test() -> None:
        async with serving(desk, bus.address, library) as service, Client(bus.address, library=library) as client:
            watching = client.watch()
            assert await anext(watching) == Presence(True)
            assert client._connection is not None
            stranger = await connect(bus.address, library)
            body = [1, 1, 1, "forged", {}]
            path = interface.lane_path("kitchen")
            stranger.signal(path, interface.LANE.name, "Partial", "tttsa{sv}", body, destination=client._connection.unique_name)
            await stranger.ask("GetId")  # the bus has passed it on
            assert service._connection is not None
            service._connection.signal(path, interface.LANE.name, "Applause", "t", [1])
            assert await anext(watching) == Unknown("kitchen", "Applause", [1])
            stranger.close()
            await watching.aclose()

    go(test())


def test_levels_take_the_place_of_older_ones(bus: Bus, library: str, go: Go, desk: MemoryDesk, serving: type[Serving]) -> None:
    """A reader that runs a command for minutes misses no event for them."""

    async def test() -> None:
        async with serving(desk, bus.address, library), Client(bus.address, library=library) as client:
            watching = client.watch()
            assert await anext(watching) == Presence(True)
            for number in range(2 * module.WAITING):
                desk.tell(LevelHeard(("kitchen", "living-room")[number % 2], number, -50.0, -40.0))
                await asyncio.sleep(0)
            sent = desk.publish("kitchen", partial(1))
            heard = [await anext(watching)]
            while heard[-1] != sent:
                heard.append(await anext(watching))
            last = {item.lane: item.sample for item in heard if isinstance(item, LevelHeard)}
            assert last == {"kitchen": 2 * module.WAITING - 2, "living-room": 2 * module.WAITING - 1}
            assert client.lost == 0
            await watching.aclose()

    go(test())


def test_a_slow_reader_loses_events_and_they_are_counted(
    bus: Bus,
    library: str,
    go: Go,
    desk: MemoryDesk,
    serving: type[Serving],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(module, "WAITING", 5)

    async def test() -> None:
        async with serving(desk, bus.address, library), Client(bus.address, library=library) as client:
            watching = of_lane(client, None)  # as voicectl watches: it says so
            assert await anext(watching) == Presence(True)
            sent = [desk.publish("kitchen", partial(number)) for number in range(9)]
            while client.lost < 4:
                await asyncio.sleep(0)
            assert [await anext(watching) for _ in range(5)] == sent[:5]
            await watching.aclose()

    go(test())
    assert capsys.readouterr().err == "voicectl: 4 events were missed: they came faster than they were taken\n"
