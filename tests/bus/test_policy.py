"""The policy file of the system bus, in a real dbus-daemon: who may own the name, who may ask, who may only look."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from voiced.bus.connection import connect
from voiced.bus.interface import LANE, MANAGER, NAME, ROOT, STATUS, STATUS_PATH, lane_path

if TYPE_CHECKING:
    from bus.conftest import MemoryDesk, Serving

POLICY = Path(__file__).resolve().parents[2] / "systemd" / f"{NAME}.conf"
NOBODY = 65534

# what a system's own configuration says before any policy file: nobody owns a name or calls a method
SYSTEM = """<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN"
 "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
<busconfig>
  <type>system</type>
  <listen>unix:path={directory}/bus</listen>
  <auth>EXTERNAL</auth>
  <policy context="default">
    <allow user="*"/>
    <deny own="*"/>
    <deny send_type="method_call"/>
    <allow send_type="signal"/>
    <allow send_requested_reply="true" send_type="method_return"/>
    <allow send_requested_reply="true" send_type="error"/>
    <allow receive_type="method_call"/>
    <allow receive_type="method_return"/>
    <allow receive_type="error"/>
    <allow receive_type="signal"/>
    <allow send_destination="org.freedesktop.DBus"/>
  </policy>
  <include>{policy}</include>
</busconfig>
"""


@pytest.fixture
def system_bus() -> Iterator[str]:
    """A dbus-daemon with a system bus's rules and ours."""
    with tempfile.TemporaryDirectory(prefix="voiced-") as folder:
        directory = Path(folder)
        directory.chmod(0o755)
        policy = directory / POLICY.name
        policy.write_bytes(POLICY.read_bytes())
        config = directory / "bus.conf"
        config.write_text(SYSTEM.format(directory=directory, policy=policy))
        command = ["dbus-daemon", f"--config-file={config}", "--nofork", "--nopidfile", "--nosyslog", "--print-address"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout
            address = process.stdout.readline().strip()
            assert address, "dbus-daemon refuses the file"
            yield address.partition(",")[0]
            process.terminate()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may become another user, and own the name")
def test_others_may_look_at_status_and_at_nothing_else(
    system_bus: str, go: Callable[[Coroutine[Any, Any, None]], None], desk: MemoryDesk, serving: type[Serving]
) -> None:
    def as_nobody(path: str, interface: str, member: str, *arguments: str) -> int:
        command = ["dbus-send", f"--bus={system_bus}", "--print-reply", f"--dest={NAME}", path, f"{interface}.{member}", *arguments]
        return subprocess.run(command, capture_output=True, check=False, user=NOBODY, group=NOBODY, extra_groups=[]).returncode

    def ask_as_nobody() -> list[int]:
        get_all = ("org.freedesktop.DBus.Properties", "GetAll")
        return [
            as_nobody(STATUS_PATH, *get_all, f"string:{STATUS.name}"),
            as_nobody(ROOT, *get_all, f"string:{MANAGER.name}"),
            as_nobody(lane_path("kitchen"), *get_all, f"string:{LANE.name}"),
            as_nobody(ROOT, MANAGER.name, "Subscribe"),
            as_nobody(lane_path("kitchen"), LANE.name, "Stop"),
        ]

    async def test() -> None:
        async with serving(desk, system_bus, "auto", unicast=True):
            assert await asyncio.to_thread(ask_as_nobody) == [0, 1, 1, 1, 1]
            root = await connect(system_bus)
            (status,) = await root.call(NAME, ROOT, MANAGER.name, "GetStatus")
            assert status["health"] == "ok"
            root.close()

    go(test())


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may become another user")
def test_nobody_else_may_own_the_name(system_bus: str) -> None:
    code = (
        "import asyncio, sys\nfrom voiced.bus.connection import connect\n"
        f"async def own():\n    await (await connect(sys.argv[1])).request_name({NAME!r})\nasyncio.run(own())"
    )
    # the modules' folders may be root's alone: they are read by root and the user is changed after that
    become = f"import os, voiced.bus.connection as c; c.load('auto'); os.setgroups([]); os.setgid({NOBODY}); os.setuid({NOBODY})\n{code}"
    tried = subprocess.run([sys.executable, "-c", become, system_bus], capture_output=True, text=True, check=False)
    assert tried.returncode != 0
    assert "the bus refuses the name to uid" in tried.stderr
    assert "put systemd/org.voiced.Voice1.conf into /etc/dbus-1/system.d" in tried.stderr


def test_a_bus_takes_the_file(system_bus: str) -> None:
    assert system_bus.startswith("unix:path=")
