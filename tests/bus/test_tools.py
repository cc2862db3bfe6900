"""The daemon by the tools that are there anyway: busctl and gdbus, strict readers of what it says of itself."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

import pytest
from voiced.bus import interface

if TYPE_CHECKING:
    from bus.conftest import Bus, MemoryDesk, Serving

Go = Callable[[Coroutine[Any, Any, None]], None]
KITCHEN = interface.lane_path("kitchen")


def tool(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(words, capture_output=True, text=True, check=False, timeout=120)


@pytest.mark.skipif(not shutil.which("busctl"), reason="busctl is not installed (Debian: systemd)")
def test_a_script_has_all_it_needs(bus: Bus, go: Go, desk: MemoryDesk, serving: type[Serving]) -> None:
    """CASES B1: start, stop, toggle, state, and the last final by a method."""
    from bus.test_service import turn_of

    def script() -> None:
        def busctl(*words: str) -> str:
            done = tool("busctl", f"--address={bus.address}", *words)
            assert done.returncode == 0, (words, done.stderr)
            return done.stdout

        tree = busctl("tree", "--list", interface.NAME).split()
        assert {interface.ROOT, interface.STATUS_PATH, KITCHEN, interface.lane_path("living-room")} <= set(tree)
        lane = (interface.NAME, KITCHEN, interface.LANE.name)
        assert busctl("get-property", *lane, "State") == 's "asleep"\n'
        assert busctl("call", *lane, "Trigger", "a{sv}", "1", "hold", "b", "false") == "t 42\n"
        assert busctl("call", *lane, "Stop") == ""
        assert busctl("call", *lane, "Mute", "b", "true") == ""
        assert busctl("get-property", *lane, "Muted") == "b true\n"
        assert busctl("call", *lane, "FollowUp", "a{sv}", "0") == "t 0\n"
        turns = json.loads(
            busctl("--json=short", "call", interface.NAME, interface.ROOT, interface.MANAGER.name, "ListTurns", "su", "", "1")
        )
        assert turns["data"][0][0]["text"]["data"] == "Hello."
        for path, offered in ((KITCHEN, interface.LANE), (interface.ROOT, interface.MANAGER), (interface.STATUS_PATH, interface.STATUS)):
            listed = {line.split()[0] for line in busctl("introspect", interface.NAME, path, offered.name).splitlines()[1:]}
            assert {f".{item.name}" for kind in (offered.methods, offered.signals, offered.properties) for item in kind} == listed

    async def test() -> None:
        for event in turn_of(1):
            desk.publish("kitchen", event)
        async with serving(desk, bus.address, "auto"):
            await asyncio.to_thread(script)

    go(test())


@pytest.mark.skipif(not shutil.which("gdbus"), reason="gdbus is not installed (Debian: libglib2.0-bin)")
def test_glib_reads_every_object(bus: Bus, go: Go, desk: MemoryDesk, serving: type[Serving]) -> None:
    """GLib refuses a reply whose type is not the introspected one, and an object manager that is not by the specification."""

    def script() -> None:
        for path in (interface.ROOT, interface.STATUS_PATH, KITCHEN):
            done = tool("gdbus", "introspect", "--address", bus.address, "--dest", interface.NAME, "--object-path", path)
            assert done.returncode == 0 and not done.stderr, done.stderr
        call = ("gdbus", "call", "--address", bus.address, "--dest", interface.NAME, "--object-path", interface.ROOT, "--method")
        managed = tool(*call, "org.freedesktop.DBus.ObjectManager.GetManagedObjects")
        assert managed.returncode == 0 and KITCHEN in managed.stdout and f"{interface.ROOT}'" not in managed.stdout
        status = tool(*call, f"{interface.MANAGER.name}.GetStatus")
        assert status.returncode == 0 and "'health': <'ok'>" in status.stdout

    async def test() -> None:
        async with serving(desk, bus.address, "auto"):
            await asyncio.to_thread(script)

    go(test())
