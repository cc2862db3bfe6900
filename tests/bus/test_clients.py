"""What clients have and what becomes of it when they vanish: on a real bus, with clients that are killed as a connection is."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

import pytest
from voiced import events
from voiced.bus import clients, interface
from voiced.bus.client import Client
from voiced.bus.connection import CallError, Connection, Incoming, Value, connect
from voiced.desk import LevelHeard

if TYPE_CHECKING:
    from bus.conftest import Bus, MemoryDesk, Serving

Go = Callable[[Coroutine[Any, Any, None]], None]
KITCHEN, LANE, MANAGER = interface.lane_path("kitchen"), interface.LANE.name, interface.MANAGER.name
HOLD = {"hold": Value("b", True)}


async def ask(connection: Connection, member: str, signature: str = "", *body: Any, path: str = KITCHEN, of: str = LANE) -> Any:
    result = await connection.call(interface.NAME, path, of, member, signature, *body)
    return result[0] if result else None


async def until(desk: MemoryDesk, wanted: tuple[Any, ...]) -> None:
    """The service hears of a client's end by a signal of the bus; go() bounds the wait."""
    while wanted not in desk.asked:
        await asyncio.sleep(0.01)


def test_a_held_turn_ends_with_its_client(bus: Bus, library: str, go: Go, desk: MemoryDesk, serving: type[Serving]) -> None:
    """CASES D11, B7: that turn and no other is cancelled."""

    async def test() -> None:
        async with serving(desk, bus.address, library):
            client = await connect(bus.address, library)
            assert await ask(client, "Trigger", "a{sv}", HOLD) == 42
            client.close()
            await until(desk, ("cancel", "kitchen", 42))

    go(test())


def test_a_turn_that_nobody_holds_outlives_who_asked_for_it(
    bus: Bus, library: str, go: Go, desk: MemoryDesk, serving: type[Serving]
) -> None:
    """A one-shot command works: `voicectl trigger` is gone before anybody has spoken."""

    async def test() -> None:
        async with serving(desk, bus.address, library):
            once, other = [await connect(bus.address, library) for _ in range(2)]
            assert await ask(once, "Trigger", "a{sv}", {}) == 42
            assert await ask(other, "Trigger", "a{sv}", HOLD) == 42  # is watched: its end is heard of after that of the first
            once.close()
            other.close()
            await until(desk, ("cancel", "kitchen", 42))
            assert [asked for asked in desk.asked if asked[0] == "cancel"] == [("cancel", "kitchen", 42)]

    go(test())


def test_one_holds_and_many_listen(bus: Bus, library: str, go: Go, desk: MemoryDesk, serving: type[Serving]) -> None:
    """CASES B12. When the turn is over it is nobody's, and its holder's end cancels nothing."""

    async def test() -> None:
        async with serving(desk, bus.address, library) as service:
            one, other = [await connect(bus.address, library) for _ in range(2)]
            for client in (one, other):
                await ask(client, "Subscribe", path=interface.ROOT, of=MANAGER)
            assert service.state().subscribers == 2
            assert await ask(one, "Trigger", "a{sv}", HOLD) == 42
            assert await ask(one, "Trigger", "a{sv}", HOLD) == 42
            with pytest.raises(CallError, match="turn 42 is held by another client") as refused:
                await ask(other, "Trigger", "a{sv}", HOLD)
            assert refused.value.name == interface.BUSY
            assert await ask(other, "Trigger", "a{sv}", {}) == 42, "whoever does not want it for itself is told its id"
            desk.publish("kitchen", events.TurnClosed(1, 42, events.CloseReason.SILENCE, 0, 1))
            assert await ask(other, "Trigger", "a{sv}", HOLD) == 42
            one.close()
            other.close()
            await until(desk, ("cancel", "kitchen", 42))
            assert sum(asked[0] == "cancel" for asked in desk.asked) == 1

    go(test())


def test_a_turn_that_is_over_before_its_answer_is_not_held(
    bus: Bus, library: str, go: Go, desk: MemoryDesk, serving: type[Serving], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def trigger(lane: str, options: object) -> int:
        return 41  # and by now the lane's open turn is another, or none

    monkeypatch.setattr(desk, "trigger", trigger)

    async def test() -> None:
        async with serving(desk, bus.address, library):
            client, other = [await connect(bus.address, library) for _ in range(2)]
            assert await ask(client, "Trigger", "a{sv}", HOLD) == 41
            assert await ask(other, "Trigger", "a{sv}", HOLD) == 41, "it is nobody's"
            client.close()
            other.close()

    go(test())


def test_a_hold_must_be_a_boolean(bus: Bus, library: str, go: Go, desk: MemoryDesk, serving: type[Serving]) -> None:
    async def test() -> None:
        async with serving(desk, bus.address, library):
            client = await connect(bus.address, library)
            with pytest.raises(CallError, match="hold must be a boolean") as refused:
                await ask(client, "Trigger", "a{sv}", {"hold": Value("s", "yes")})
            assert refused.value.name == interface.BAD_ARGUMENT
            client.close()

    go(test())


def test_playback_counts_while_anybody_plays(bus: Bus, library: str, go: Go, desk: MemoryDesk, serving: type[Serving]) -> None:
    async def test() -> None:
        async with serving(desk, bus.address, library):
            one, other = [await connect(bus.address, library) for _ in range(2)]
            for client in (one, other):
                await ask(client, "Playback", "b", True)
            await ask(one, "Playback", "b", False)
            await ask(one, "Playback", "b", False)
            assert ("playback", "kitchen", False) not in desk.asked
            other.close()  # in the middle of a sentence
            await until(desk, ("playback", "kitchen", False))
            with pytest.raises(CallError) as refused:
                await ask(one, "Playback", "b", True, path=interface.lane_path("attic"))
            assert refused.value.name == interface.NO_SUCH_LANE
            one.close()

    go(test())


def test_a_follow_up_that_waits_is_forgotten_with_its_client(
    bus: Bus, library: str, go: Go, desk: MemoryDesk, serving: type[Serving]
) -> None:
    """Nobody is listened to for a client that is not there; one that is open already goes on."""

    async def test() -> None:
        async with serving(desk, bus.address, library):
            for opens in (False, True):
                desk.asked.clear()
                client, last = [await connect(bus.address, library) for _ in range(2)]
                assert await ask(client, "FollowUp", "a{sv}", {}) == 0
                await ask(last, "Playback", "b", True)
                if opens:
                    desk.publish("kitchen", events.Wake(1, 42, "", 1, 1.0, "a follow-up, asked for by a client"))
                client.close()
                last.close()
                await until(desk, ("playback", "kitchen", False))
                if opens:
                    assert ("withdraw", "kitchen") not in desk.asked
                else:
                    await until(desk, ("withdraw", "kitchen"))

    go(test())


def test_all_that_clients_have_ends_with_the_bus(bus: Bus, library: str, go: Go, desk: MemoryDesk, serving: type[Serving]) -> None:
    async def test() -> None:
        async with serving(desk, bus.address, library, revive=bus.private.ensure) as service:
            client = await connect(bus.address, library)
            await ask(client, "Subscribe", path=interface.ROOT, of=MANAGER)
            await ask(client, "Trigger", "a{sv}", HOLD)
            await ask(client, "Playback", "b", True)
            bus.kill()
            for wanted in (("cancel", "kitchen", 42), ("playback", "kitchen", False), ("levels", False)):
                await until(desk, wanted)
            while not service.state().connected:
                await asyncio.sleep(0.01)
            assert service.state().subscribers == 0

    go(test())


def test_levels_go_to_subscribers_only_and_only_while_there_are_some(
    bus: Bus, library: str, go: Go, desk: MemoryDesk, serving: type[Serving]
) -> None:
    """Also on the session bus, where all else is broadcast: a level tells that somebody speaks."""

    async def test() -> None:
        async with serving(desk, bus.address, library):
            overheard: list[str] = []
            stranger = await connect(bus.address, library)

            def overhear(message: Incoming) -> bool:
                overheard.append(message.member)
                return False

            stranger.on_message = overhear
            await stranger.add_match(f"type='signal',path_namespace='{interface.ROOT}'")
            async with Client(bus.address, library=library) as client:
                heard = client.watch()
                await anext(heard)
                assert desk.asked == [("levels", True)]
                level = LevelHeard("kitchen", 32_000, -42.5, -30.0, 77, 42)
                desk.tell(level)
                assert await anext(heard) == level
                desk.change(dataclasses.replace(desk.now.lanes[0], state="hearing"))
                await anext(heard)
                await heard.aclose()
            await until(desk, ("levels", False))
            while "PropertiesChanged" not in overheard:
                await asyncio.sleep(0.01)
            assert "Level" not in overheard
            stranger.close()

    go(test())


def test_there_is_an_end_to_clients(
    bus: Bus, library: str, go: Go, desk: MemoryDesk, serving: type[Serving], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clients, "LIMIT", 3)

    async def test() -> None:
        async with serving(desk, bus.address, library):
            several = [await connect(bus.address, library) for _ in range(4)]
            for client in several[:3]:
                await ask(client, "Playback", "b", True)
            with pytest.raises(CallError, match="3 clients have something here") as refused:
                await ask(several[3], "Subscribe", path=interface.ROOT, of=MANAGER)
            assert refused.value.name.endswith(".LimitsExceeded")
            await ask(several[0], "Playback", "b", False)  # has nothing any more
            await ask(several[3], "Subscribe", path=interface.ROOT, of=MANAGER)
            for client in several:
                client.close()

    go(test())


def test_calls_of_one_client_hold_in_the_order_they_came(bus: Bus, library: str, go: Go, desk: MemoryDesk, serving: type[Serving]) -> None:
    """A client need not wait for an answer before it asks for the next thing: a sound ends and another begins."""

    async def test() -> None:
        async with serving(desk, bus.address, library) as service:
            client, other = [await connect(bus.address, library) for _ in range(2)]
            await asyncio.gather(ask(client, "Subscribe", path=interface.ROOT, of=MANAGER), ask(client, "Playback", "b", False))
            assert service.state().subscribers == 1
            await ask(client, "Playback", "b", True)
            await asyncio.gather(ask(client, "Playback", "b", False), ask(client, "Playback", "b", True))
            await ask(client, "Unsubscribe", path=interface.ROOT, of=MANAGER)
            await ask(client, "Subscribe", path=interface.ROOT, of=MANAGER)
            assert [asked[2] for asked in desk.asked if asked[0] == "playback"][-1] is True
            await asyncio.gather(*(ask(other, member, path=interface.ROOT, of=MANAGER) for member in ("Subscribe", "Unsubscribe")))
            assert service.state().subscribers == 1
            client.close()
            other.close()

    go(test())


def test_a_follow_up_that_two_wait_for_is_not_forgotten_with_the_first_to_leave(
    bus: Bus, library: str, go: Go, desk: MemoryDesk, serving: type[Serving]
) -> None:
    async def test() -> None:
        async with serving(desk, bus.address, library):
            one, other, last = [await connect(bus.address, library) for _ in range(3)]
            for client in (one, other):
                assert await ask(client, "FollowUp", "a{sv}", {}) == 0
            await ask(last, "Playback", "b", True)
            other.close()
            last.close()
            await until(desk, ("playback", "kitchen", False))
            assert ("withdraw", "kitchen") not in desk.asked
            one.close()
            await until(desk, ("withdraw", "kitchen"))

    go(test())
