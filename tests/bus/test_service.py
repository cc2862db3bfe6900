"""The service on a real bus: what it serves, refuses and survives."""

from __future__ import annotations

import asyncio
import dataclasses
import errno
import logging
import os
import signal
import threading
import xml.etree.ElementTree as ET
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

import pytest
from descriptors import opened
from voiced import events
from voiced.bus import bodies, dispatch, interface
from voiced.bus.connection import CallError, Connection, Incoming, Value, connect
from voiced.desk import LaneView, Reloaded
from voiced.errors import BusError

if TYPE_CHECKING:
    from bus.conftest import Bus, MemoryDesk, Serving

Go = Callable[[Coroutine[Any, Any, None]], None]
DBUS = "org.freedesktop.DBus"
MANAGER, LANE, STATUS = (item.name for item in interface.OURS)
KITCHEN = interface.lane_path("kitchen")


async def ask(connection: Connection, path: str, what: str, signature: str = "", *body: Any) -> Any:
    """Calls "interface.Member"; the only result, or None."""
    name, _, member = what.rpartition(".")
    result = await connection.call(interface.NAME, path, name, member, signature, *body)
    return result[0] if result else None


class Ear:
    """Everything the daemon says to a connection, in order; `until` waits for a member."""

    def __init__(self, connection: Connection) -> None:
        self.heard: list[Incoming] = []
        self._news = asyncio.Event()
        connection.on_message = self

    def __call__(self, message: Incoming) -> bool:
        if not message.is_call and message.sender != DBUS:
            self.heard.append(message)
            self._news.set()
        return False

    async def until(self, member: str, count: int = 1) -> list[Incoming]:
        while len(found := [message for message in self.heard if message.member == member]) < count:
            self._news.clear()
            await self._news.wait()
        return found


async def listener(bus: Bus, library: str) -> tuple[Connection, Ear]:
    connection = await connect(bus.address, library)
    ear = Ear(connection)
    await connection.add_match(f"type='signal',path_namespace='{interface.ROOT}'")
    return connection, ear


def partial(number: int) -> events.Partial:
    return events.Partial(number, 1, f"word {number}")


def final(number: int) -> events.Final:
    return events.Final(number, number, f"text {number}", events.TextSource.SECOND_PASS, "text", "", {"finalization_ms": 1.5})


# ── what it serves ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_properties_and_status(bus: Bus, library: str, go: Go, desk: MemoryDesk, serving: type[Serving]) -> None:
    """All there is to know, by properties and in one call."""

    async def test() -> None:
        async with serving(desk, bus.address, library):
            client = await connect(bus.address, library)
            assert await ask(client, KITCHEN, f"{DBUS}.Properties.GetAll", "s", LANE) == {
                "State": "asleep", "Health": "ok", "Muted": False, "Phrases": ["jarvis"], "Source": "microphone", "Turn": 0,
                "Reason": "", "StateReason": "", "Playing": False,
            }  # fmt: skip
            every = await ask(client, interface.ROOT, f"{DBUS}.Properties.GetAll", "s", MANAGER)
            assert set(every) == {prop.name for prop in interface.MANAGER.properties}
            assert every["Lanes"] == [KITCHEN, interface.lane_path("living-room")]
            assert every["Placement"][0] == ["ears", "lane kitchen", 10, 11, [2], [2], {}]
            assert every["Statistics"]["turns"] == 3.0
            assert every["Statistics"]["bus_dropped"] == 0.0
            for name, value in every.items():
                if name != "Statistics":  # which counts what we ask
                    assert await ask(client, interface.ROOT, f"{DBUS}.Properties.Get", "ss", MANAGER, name) == value
            status = await ask(client, interface.ROOT, f"{MANAGER}.GetStatus")
            assert set(status) == {name.lower() for name in every}
            assert [lane["name"] for lane in status["lanes"]] == ["kitchen", "living-room"]
            anyone = await ask(client, interface.STATUS_PATH, f"{DBUS}.Properties.GetAll", "s", STATUS)
            assert anyone == {"Version": "0.1.0", "Health": "ok", "Muted": False}
            client.close()

    go(test())


def test_reload_gives_what_waits_or_every_mistake(bus: Bus, library: str, go: Go, desk: MemoryDesk, serving: type[Serving]) -> None:
    async def test() -> None:
        async with serving(desk, bus.address, library):
            client, ear = await listener(bus, library)
            assert await ask(client, interface.ROOT, f"{MANAGER}.Reload") == ["models.vad"]
            desk.mistakes = ("f:1: vad.on: must be a number", "f:2: no such section")
            with pytest.raises(CallError) as refused:
                await ask(client, interface.ROOT, f"{MANAGER}.Reload")
            assert (refused.value.name, refused.value.what) == (interface.BAD_SETTINGS, "\n".join(desk.mistakes))
            # and whoever was not the one that asked hears of it
            desk.now = dataclasses.replace(desk.now, reloaded=Reloaded(desk.mistakes, ("models.vad",)))
            desk.tell(desk.now.reloaded)
            (changed,) = await ear.until("PropertiesChanged")
            assert changed.body[0] == MANAGER
            assert (changed.body[1]["Mistakes"], changed.body[1]["NextStart"]) == (list(desk.mistakes), ["models.vad"])
            client.close()

    go(test())


def test_explain_gives_decisions(bus: Bus, library: str, go: Go, desk: MemoryDesk, serving: type[Serving]) -> None:
    async def test() -> None:
        async with serving(desk, bus.address, library):
            client = await connect(bus.address, library)
            for sample, lane in enumerate(("kitchen", "living-room", "kitchen")):
                desk.decisions.append(desk.publish(lane, events.NearMiss(sample, "jarvis", 0.75, 1.0)))
            every = await ask(client, interface.ROOT, f"{MANAGER}.Explain", "su", "", 0)
            assert [(one["lane"], one["sample"], one["margin"]) for one in every] == [
                ("kitchen", 0, -0.25), ("living-room", 1, -0.25), ("kitchen", 2, -0.25),
            ]  # fmt: skip
            (last,) = await ask(client, interface.ROOT, f"{MANAGER}.Explain", "su", "kitchen", 1)
            assert (last["event"], last["sample"], last["scores"]) == ("NearMiss", 2, {"stage1": 0.75, "stage1_threshold": 1.0})
            with pytest.raises(CallError) as refused:
                await ask(client, interface.ROOT, f"{MANAGER}.Explain", "su", "attic", 1)
            assert refused.value.name == interface.NO_SUCH_LANE
            client.close()

    go(test())


def turn_of(number: int) -> list[events.Event]:
    return [
        events.Wake(0, number, "jarvis", 0, 0.9, "heard", {"stage1": 0.95, "stage1_threshold": 0.9}),
        events.Partial(8_000, number, "hello", 0, 6_000, 5_000),
        events.LikelyEnd(9_000, number, events.EndSign.SILENCE, 1),
        events.Endpoint(16_000, number, events.CloseReason.SILENCE, 8_000, "hello", "silence", {"silence_ms": 20.0}),
        events.Final(16_000, number, "Hello.", events.TextSource.SECOND_PASS, "hello", attempt=1),
        events.TurnClosed(16_000, number, events.CloseReason.SILENCE, 0, 16_000),
    ]


def test_turns_can_be_asked_for_when_they_are_over(bus: Bus, library: str, go: Go, desk: MemoryDesk, serving: type[Serving]) -> None:
    """CASES B9."""

    async def test() -> None:
        async with serving(desk, bus.address, library):
            client = await connect(bus.address, library)
            for number, lane in enumerate(("kitchen", "living-room", "kitchen"), 1):
                for event in turn_of(number):
                    desk.publish(lane, event)
            desk.publish("kitchen", turn_of(4)[0])
            found = await ask(client, interface.ROOT, f"{MANAGER}.GetTurn", "t", 2)
            assert (found["lane"], found["text"], found["rule"], found["clocked"]) == ("living-room", "Hello.", "silence", False)
            assert found["latencies"]["final.finalization_ms"] == [500.0] and found["scores"]["stage1"] == 0.95
            assert [mark["what"] for mark in found["marks"]][-3:] == ["endpoint", "final", "closed"]
            assert (found["attempts"][0]["outcome"], found["attempts"][0]["sample"]) == ("used", 9_000)
            listed = await ask(client, interface.ROOT, f"{MANAGER}.ListTurns", "su", "kitchen", 0)
            assert [(one["turn"], one["text"], one["latencies"]["final.finalization_ms"]) for one in listed] == [
                (1, "Hello.", 500.0), (3, "Hello.", 500.0),
            ]  # fmt: skip
            assert len(await ask(client, interface.ROOT, f"{MANAGER}.ListTurns", "su", "", 1)) == 1
            rows = await ask(client, interface.ROOT, f"{MANAGER}.GetLatencies", "s", "")
            assert {row["latency"]: row["count"] for row in rows if row["length"] == "all"}["final.finalization_ms"] == 3
            for member, signature, body in (("ListTurns", "su", ("attic", 1)), ("GetLatencies", "s", ("attic",))):
                with pytest.raises(CallError) as refused:
                    await ask(client, interface.ROOT, f"{MANAGER}.{member}", signature, *body)
                assert refused.value.name == interface.NO_SUCH_LANE
            for unknown in (4, 99):
                with pytest.raises(CallError) as refused:
                    await ask(client, interface.ROOT, f"{MANAGER}.GetTurn", "t", unknown)
                assert refused.value.name == interface.NO_SUCH_TURN
            client.close()

    go(test())


def test_methods_reach_the_desk(bus: Bus, library: str, go: Go, desk: MemoryDesk, serving: type[Serving]) -> None:
    async def test() -> None:
        async with serving(desk, bus.address, library):
            client = await connect(bus.address, library)
            assert await ask(client, KITCHEN, f"{LANE}.Trigger", "a{sv}", {"note": Value("s", "hello")}) == 42
            assert await ask(client, KITCHEN, f"{LANE}.Stop") is None
            assert await ask(client, interface.lane_path("living-room"), f"{LANE}.Cancel") is None
            await ask(client, KITCHEN, f"{LANE}.Mute", "b", True)
            await ask(client, interface.ROOT, f"{MANAGER}.Mute", "b", False)
            assert await ask(client, KITCHEN, "Stop") is None  # a call may leave its interface out
            assert desk.asked == [
                ("trigger", "kitchen", {"note": "hello"}),
                ("stop", "kitchen"),
                ("cancel", "living-room", 0),
                ("mute", "kitchen", True),
                ("mute", None, False),
                ("stop", "kitchen"),
            ]
            client.close()

    go(test())


def test_every_method_of_the_tables_is_answered(bus: Bus, library: str, go: Go, desk: MemoryDesk, serving: type[Serving]) -> None:
    some: dict[str, list[Any]] = {
        "": [], "b": [True], "a{sv}": [{}], "s": [""], "ss": [MANAGER, "Health"], "ssv": ["", "Health", Value("s", "x")],
        "su": ["", 1], "t": [1],
    }  # fmt: skip

    async def test() -> None:
        async with serving(desk, bus.address, library):
            client = await connect(bus.address, library)
            standard = (interface.PROPERTIES, interface.INTROSPECTABLE, interface.PEER)
            for path, offered in {interface.ROOT: (interface.MANAGER, interface.OBJECT_MANAGER), KITCHEN: (interface.LANE,)}.items():
                for item in (*offered, *standard):
                    for method in item.methods:
                        try:
                            result = await client.call(
                                interface.NAME, path, item.name, method.name, method.signature, *some[method.signature]
                            )
                        except CallError as error:
                            assert error.name.rpartition(".")[2] in (
                                "PropertyReadOnly",
                                "UnknownProperty",
                                "UnknownInterface",
                                "NoSuchTurn",
                            ), error
                        else:
                            assert len(result) == len(method.gives)
            client.close()

    go(test())


def test_object_manager_is_strict(bus: Bus, library: str, go: Go, desk: MemoryDesk, serving: type[Serving]) -> None:
    """Only at its path, lists the objects below it, announces from its path."""

    async def test() -> None:
        async with serving(desk, bus.address, library):
            client, ear = await listener(bus, library)
            objects = await ask(client, interface.ROOT, f"{DBUS}.ObjectManager.GetManagedObjects")
            assert set(objects) == {interface.STATUS_PATH, KITCHEN, interface.lane_path("living-room")}
            assert objects[KITCHEN][LANE]["State"] == "asleep"
            for path in ("/", KITCHEN, interface.STATUS_PATH, interface.LANES_PATH):
                with pytest.raises(CallError) as caught:
                    await ask(client, path, f"{DBUS}.ObjectManager.GetManagedObjects")
                assert caught.value.name == f"{DBUS}.Error.UnknownInterface"
            desk.change(LaneView("attic", "asleep", "starting", False, (), "wav"))
            desk.become(lanes=tuple(view for view in desk.now.lanes if view.name != "kitchen"))
            (added,) = await ear.until("InterfacesAdded")
            (removed,) = await ear.until("InterfacesRemoved")
            assert added.path == removed.path == interface.ROOT
            assert added.body[0] == interface.lane_path("attic")
            assert added.body[1][LANE]["Health"] == "starting"
            assert removed.body[0] == KITCHEN
            assert LANE in removed.body[1]
            client.close()

    go(test())


def test_introspection_is_the_files(bus: Bus, library: str, go: Go, desk: MemoryDesk, serving: type[Serving]) -> None:
    def of(text: str) -> dict[str, str]:
        found = ET.fromstring(text).iter("interface")
        return {str(item.get("name")): ET.canonicalize(ET.tostring(item, "unicode"), strip_text=True) for item in found}

    async def test() -> None:
        async with serving(desk, bus.address, library):
            client = await connect(bus.address, library)
            served: dict[str, str] = {}
            for path in (interface.ROOT, KITCHEN, interface.STATUS_PATH):
                served |= of(await ask(client, path, f"{DBUS}.Introspectable.Introspect"))
            files = {name: text for path in interface.DATA.glob("*.xml") for name, text in of(path.read_text()).items()}
            assert {name: text for name, text in served.items() if name.startswith(interface.NAME)} == files
            assert {f"{DBUS}.{name}" for name in ("Properties", "Introspectable", "Peer", "ObjectManager")} == set(served) - set(files)
            for path, child in {"/": "org", "/org": "voiced", interface.ROOT: "lanes", interface.LANES_PATH: "living_2droom"}.items():
                root = ET.fromstring(await ask(client, path, f"{DBUS}.Introspectable.Introspect"))
                assert child in [node.get("name") for node in root.findall("node")]
            client.close()

    go(test())


# ── what it refuses ────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("path", "what", "signature", "body", "name", "says"),
    [
        (interface.lane_path("attic"), f"{LANE}.Stop", "", [], interface.NO_SUCH_LANE, "no lane 'attic'; the lanes are: kitchen, living"),
        ("/org/voiced/Voice1/nothing", f"{LANE}.Stop", "", [], f"{DBUS}.Error.UnknownObject", "no object"),
        ("/elsewhere", f"{DBUS}.Introspectable.Introspect", "", [], f"{DBUS}.Error.UnknownObject", "no object"),
        (KITCHEN, f"{LANE}.Dance", "", [], f"{DBUS}.Error.UnknownMethod", "Dance"),
        (KITCHEN, f"{MANAGER}.GetStatus", "", [], f"{DBUS}.Error.UnknownInterface", MANAGER),
        (KITCHEN, f"{LANE}.Trigger", "s", ["x"], f"{DBUS}.Error.InvalidArgs", r"Trigger expects \(a\{sv\}\), got \(s\)"),
        (KITCHEN, f"{LANE}.Mute", "", [], f"{DBUS}.Error.InvalidArgs", r"Mute expects \(b\), got \(\)"),
        (KITCHEN, f"{DBUS}.Properties.Get", "ss", [LANE, "Text"], f"{DBUS}.Error.UnknownProperty", "no property Text"),
        (KITCHEN, f"{DBUS}.Properties.Get", "ss", [MANAGER, "Health"], f"{DBUS}.Error.UnknownInterface", MANAGER),
        (KITCHEN, f"{DBUS}.Properties.Set", "ssv", [LANE, "Muted", Value("b", True)], f"{DBUS}.Error.PropertyReadOnly", "read-only"),
        (KITCHEN, f"{LANE}.Trigger", "a{sv}", [{"do": Value("s", "device")}], interface.NO_DEVICE, "no microphone; plug one in"),
        (KITCHEN, f"{LANE}.Trigger", "a{sv}", [{"do": Value("s", "usage")}], interface.BAD_ARGUMENT, "unknown option"),
        (KITCHEN, f"{LANE}.Trigger", "a{sv}", [{"do": Value("s", "busy")}], interface.BUSY, "is restarting; try again"),
        (KITCHEN, f"{LANE}.Trigger", "a{sv}", [{"do": Value("s", "gone")}], interface.NO_SUCH_LANE, "no lane 'kitchen'"),
        (KITCHEN, f"{LANE}.Trigger", "a{sv}", [{"do": Value("s", "bug")}], interface.FAILED, r"internal error \(ZeroDivisionError\)"),
    ],
)  # fmt: skip
def test_a_refusal_is_a_name_and_one_line(
    bus: Bus, library: str, go: Go, desk: MemoryDesk, serving: type[Serving], caplog: pytest.LogCaptureFixture,
    path: str, what: str, signature: str, body: list[Any], name: str, says: str,
) -> None:  # fmt: skip
    async def test() -> None:
        async with serving(desk, bus.address, library) as service:
            client = await connect(bus.address, library)
            with pytest.raises(CallError, match=says) as caught:
                await ask(client, path, what, signature, *body)
            assert caught.value.name == name
            for word in ("Traceback", "secret", "\n", ".py"):
                assert word not in str(caught.value)
            before = service.state().sent
            await ask(client, KITCHEN, f"{DBUS}.Peer.Ping")
            assert service.state().sent == before + 1  # exactly one reply to each
            client.close()

    with caplog.at_level(logging.CRITICAL, logger="voiced.bus.dispatch"):
        go(test())


def test_a_slow_call_delays_no_other_and_ends_with_us(bus: Bus, library: str, go: Go, desk: MemoryDesk, serving: type[Serving]) -> None:
    async def test() -> None:
        async with serving(desk, bus.address, library):
            client = await connect(bus.address, library)
            slow = asyncio.create_task(ask(client, KITCHEN, f"{LANE}.Trigger", "a{sv}", {"do": Value("s", "wait")}))
            await desk.entered.wait()
            assert await ask(client, KITCHEN, f"{LANE}.Stop") is None
            assert not slow.done()
        with pytest.raises(CallError, match="voiced is stopping") as caught:
            await slow
        assert caught.value.name == interface.FAILED
        client.close()

    go(test())


def test_a_reload_may_take_longer_than_any_other_call(
    bus: Bus, library: str, go: Go, desk: MemoryDesk, serving: type[Serving], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It loads models; `systemctl reload` is told how it went, not that nobody waited for it."""
    monkeypatch.setattr(dispatch, "CALL_S", 0.05)

    async def reload() -> tuple[str, ...]:
        desk.entered.set()
        await desk.release.wait()
        return ("models.vad",)

    monkeypatch.setattr(desk, "reload", reload)

    async def test() -> None:
        async with serving(desk, bus.address, library):
            client = await connect(bus.address, library)
            loading = asyncio.create_task(ask(client, interface.ROOT, f"{MANAGER}.Reload"))
            await desk.entered.wait()
            with pytest.raises(CallError, match="Trigger: not done within") as refused:
                await ask(client, KITCHEN, f"{LANE}.Trigger", "a{sv}", {"do": Value("s", "wait")})
            assert refused.value.name == interface.FAILED
            desk.release.set()
            assert await loading == ["models.vad"]
            client.close()

    go(test())


def test_too_many_calls_at_once(bus: Bus, library: str, go: Go, desk: MemoryDesk, serving: type[Serving]) -> None:
    async def test() -> None:
        async with serving(desk, bus.address, library):
            client = await connect(bus.address, library)
            wait = {"do": Value("s", "wait")}
            tasks = [asyncio.create_task(ask(client, KITCHEN, f"{LANE}.Trigger", "a{sv}", wait)) for _ in range(dispatch.CALLS + 1)]
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            (refused,) = done
            error = refused.exception()
            assert isinstance(error, CallError)
            assert error.name == f"{DBUS}.Error.LimitsExceeded"
            desk.release.set()
            assert sum(isinstance(item, int) for item in await asyncio.gather(*tasks, return_exceptions=True)) == dispatch.CALLS
            client.close()

    go(test())


def test_no_reply_where_none_is_wanted(bus: Bus, library: str, go: Go, desk: MemoryDesk, serving: type[Serving]) -> None:
    async def test() -> None:
        async with serving(desk, bus.address, library) as service:
            client = await connect(bus.address, library)
            before = service.state().sent
            client.send_call(interface.NAME, KITCHEN, LANE, "Stop")
            client.send_call(interface.NAME, KITCHEN, LANE, "Dance")
            await ask(client, KITCHEN, f"{DBUS}.Peer.Ping")
            assert desk.asked == [("stop", "kitchen")]
            assert service.state().sent == before + 1
            client.close()

    go(test())


# ── signals ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_broadcast_on_a_session_bus(bus: Bus, library: str, go: Go, desk: MemoryDesk, serving: type[Serving]) -> None:
    async def test() -> None:
        async with serving(desk, bus.address, library):
            client, ear = await listener(bus, library)
            sent = [desk.publish("kitchen", event) for event in (partial(1), final(2))]
            desk.change(dataclasses.replace(desk.now.lanes[0], state="hearing", turn=7))
            desk.become(health="stalled", muted=True)
            changes = await ear.until("PropertiesChanged", 3)
            got = [bodies.from_signal("kitchen", message.member, message.body) for message in ear.heard if message.interface == LANE]
            assert got == sent
            said = {message.path: message.body for message in changes}
            assert said[KITCHEN][0] == LANE
            assert said[KITCHEN][1]["State"] == "hearing"
            assert said[KITCHEN][1]["Turn"] == 7
            assert said[interface.STATUS_PATH][1] == {"Health": "stalled", "Muted": True}
            assert said[interface.ROOT][1]["Health"] == "stalled"
            client.close()

    go(test())


def test_only_subscribers_hear_lanes_on_a_system_bus(bus: Bus, library: str, go: Go, desk: MemoryDesk, serving: type[Serving]) -> None:
    async def test() -> None:
        async with serving(desk, bus.address, library, unicast=True) as service:
            eavesdropper, overheard = await listener(bus, library)
            subscriber = await connect(bus.address, library)
            ear = Ear(subscriber)  # has no match rule: what comes was sent to it
            await ask(subscriber, interface.ROOT, f"{MANAGER}.Subscribe")
            await ask(subscriber, interface.ROOT, f"{MANAGER}.Subscribe")
            assert service.state().subscribers == 1
            sent = desk.publish("kitchen", final(1))
            desk.change(dataclasses.replace(desk.now.lanes[0], state="hearing"))
            desk.become(health="stalled")
            await overheard.until("PropertiesChanged")
            await ear.until("PropertiesChanged", 2)
            assert [bodies.from_signal("kitchen", item.member, item.body) for item in ear.heard if item.interface == LANE] == [sent]
            assert {message.path for message in overheard.heard} == {interface.STATUS_PATH}

            await ask(subscriber, interface.ROOT, f"{MANAGER}.Unsubscribe")
            count = len(ear.heard)
            desk.publish("kitchen", final(2))
            await ask(subscriber, interface.ROOT, f"{MANAGER}.Subscribe")
            desk.publish("kitchen", final(3))
            await ear.until("Final", 2)
            assert [item.body[1] for item in ear.heard[count:]] == [3]

            subscriber.close()
            while service.state().subscribers:  # NameOwnerChanged is on its way
                await ask(eavesdropper, interface.ROOT, f"{DBUS}.Peer.Ping")
            eavesdropper.close()

    go(test())


# ── what it survives ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_stalled_bus_costs_partials_only(bus: Bus, library: str, go: Go, desk: MemoryDesk, serving: type[Serving]) -> None:
    async def test() -> None:
        async with serving(desk, bus.address, library) as service:
            client, ear = await listener(bus, library)
            bus.signal(signal.SIGSTOP)
            for number in range(2_000):
                desk.publish("kitchen", final(number) if number % 10 == 0 else partial(number))
                if number % 50 == 0:
                    await asyncio.sleep(0)
            state = service.state()
            assert 0 < state.waiting <= 1_001
            assert state.replaced > 0
            assert state.dropped == 0
            bus.signal(signal.SIGCONT)
            finals = await ear.until("Final", 200)
            assert [message.body[1] for message in finals] == list(range(0, 2_000, 10))
            sequences = [message.body[0] for message in ear.heard if message.interface == LANE]
            assert sequences == sorted(sequences)
            statistics = await ask(client, interface.ROOT, f"{DBUS}.Properties.Get", "ss", MANAGER, "Statistics")
            assert statistics["bus_replaced"] == state.replaced
            assert statistics["bus_reconnects"] == 0
            client.close()

    go(test())


def test_comes_back_with_its_bus(bus: Bus, library: str, go: Go, desk: MemoryDesk, serving: type[Serving]) -> None:
    async def test() -> None:
        async with serving(desk, bus.address, library, unicast=True, revive=bus.private.ensure) as service:
            for round_number in range(1, 3):
                client = await connect(bus.address, library)
                await ask(client, interface.ROOT, f"{MANAGER}.Subscribe")
                bus.kill()
                await client.disconnected.wait()
                while service.state().connected:
                    await asyncio.sleep(0)
                desk.publish("kitchen", final(1))
                assert service.state().unheard == round_number
                while not service.state().connected:
                    await asyncio.sleep(0.01)
                assert service.state().subscribers == 0
                client = await connect(bus.address, library)
                ear = Ear(client)
                assert (await ask(client, interface.ROOT, f"{MANAGER}.GetStatus"))["health"] == "ok"
                assert await ask(client, KITCHEN, f"{LANE}.Trigger", "a{sv}", {}) == 42
                await ask(client, interface.ROOT, f"{MANAGER}.Subscribe")
                desk.publish("kitchen", final(2))
                await ear.until("Final")
                assert service.state().reconnects == round_number
                client.close()

    go(test())


def test_a_bus_that_cannot_be_begun_again_yet_is_tried_again(
    bus: Bus, library: str, go: Go, desk: MemoryDesk, serving: type[Serving]
) -> None:
    tried: list[int] = []

    def revive() -> None:
        tried.append(threading.get_ident())
        if len(tried) == 1:
            raise OSError(errno.ENOSPC, "No space left on device")
        if len(tried) == 2:
            raise BusError("dbus-daemon", "did not start")
        bus.private.ensure()

    async def test() -> None:
        async with serving(desk, bus.address, library, revive=revive) as service:
            bus.kill()
            while "No space left" not in service.state().reason:
                await asyncio.sleep(0.01)
            while not service.state().connected:
                await asyncio.sleep(0.01)
            assert service.state().reconnects == 1

    go(test())
    assert len(tried) == 3
    assert threading.get_ident() not in tried, "the loop would have stood still"


def test_the_first_start_says_why_not(bus: Bus, library: str, go: Go, desk: MemoryDesk, serving: type[Serving]) -> None:
    async def test() -> None:
        async with serving(desk, bus.address, library):
            before = opened("socket:")
            with pytest.raises(BusError, match=rf"taken by process {os.getpid()}"):
                await serving(desk, bus.address, library).service.start()
            with pytest.raises(BusError, match="no bus: No such file"):
                await serving(desk, "unix:path=/nonexistent/bus", library).service.run()
            assert opened("socket:") <= before

    go(test())


def test_what_cannot_be_sent_is_counted_and_spreads_no_further(
    bus: Bus, library: str, go: Go, desk: MemoryDesk, serving: type[Serving], caplog: pytest.LogCaptureFixture
) -> None:
    async def test() -> None:
        async with serving(desk, bus.address, library) as service:
            client, ear = await listener(bus, library)
            desk.publish("kitchen", events.Partial(-1, 1, "a position that cannot be"))
            desk.publish("kitchen", events.Final(1, 1, "nul\0 and \udfff", events.TextSource.FIRST_PASS, ""))
            (heard,) = await ear.until("Final")
            assert heard.body[3] == "nul\ufffd and ?"
            assert service.state().unheard == 1
            assert service.state().connected
            client.close()

    with caplog.at_level(logging.CRITICAL, logger="voiced.bus.service"):
        go(test())
