"""The policy file of the system bus, in a real dbus-daemon with real users: who may own the name, who may ask, who may only look."""

from __future__ import annotations

import asyncio
import grp
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from voiced import events
from voiced.bus.connection import CallError, Connection, Incoming, connect
from voiced.bus.interface import LANE, MANAGER, NAME, ROOT, STATUS, STATUS_PATH, lane_path
from voiced.errors import BusError

if TYPE_CHECKING:
    from bus.conftest import MemoryDesk, Serving

POLICY = Path(__file__).resolve().parents[2] / "systemd" / f"{NAME}.conf"
DBUS = "org.freedesktop.DBus"
PROPERTIES = f"{DBUS}.Properties"
DENIED = f"{DBUS}.Error.AccessDenied"
KITCHEN = lane_path("kitchen")

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0 or not shutil.which("unshare"), reason="only root may become other users, and only in a namespace of its own"
)


@dataclass(frozen=True)
class User:
    name: str
    uid: int
    groups: tuple[int, ...] = ()


VOICE = next((item.gr_gid for item in grp.getgrall() if item.gr_name == "voice"), 64_100)
"""Debian has the group of old; elsewhere it is this test's."""

SERVICE, MEMBER, OUTSIDER = User("voiced", 64_000), User("vera", 64_001, (VOICE,)), User("otto", 64_002)

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
    <deny send_destination="org.freedesktop.DBus" send_interface="org.freedesktop.DBus.Monitoring"/>
  </policy>
  <include>{policy}</include>
</busconfig>
"""


@pytest.fixture(scope="module")
def system_bus() -> Iterator[str]:
    """A dbus-daemon with a system bus's rules and ours, on a machine where the three users are: it alone sees their /etc/passwd."""
    with tempfile.TemporaryDirectory(prefix="voiced-") as folder:
        directory = Path(folder)
        directory.chmod(0o755)
        policy = directory / POLICY.name
        policy.write_bytes(POLICY.read_bytes())
        config = directory / "bus.conf"
        config.write_text(SYSTEM.format(directory=directory, policy=policy))
        users = [f"{user.name}:x:{user.uid}:{user.uid}::/nonexistent:/usr/sbin/nologin" for user in (SERVICE, MEMBER, OUTSIDER)]
        (directory / "passwd").write_text(Path("/etc/passwd").read_text() + "\n".join(users) + "\n")
        groups = [line for line in Path("/etc/group").read_text().splitlines() if not line.startswith("voice:")]
        (directory / "group").write_text("\n".join([*groups, f"voice:x:{VOICE}:{MEMBER.name}"]) + "\n")
        mounts = " && ".join(f"mount --bind {directory}/{name} /etc/{name}" for name in ("passwd", "group"))
        daemon = f"exec dbus-daemon --config-file={config} --nofork --nopidfile --nosyslog --print-address"
        with subprocess.Popen(["unshare", "--mount", "sh", "-c", f"{mounts} && {daemon}"], stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout
            address = process.stdout.readline().strip()
            if not address and process.wait() in (1, 32):  # unshare's and mount's own failures
                pytest.skip("this machine has no namespaces for root")
            assert address, "dbus-daemon refuses the file"
            yield address.partition(",")[0]
            process.terminate()


@contextmanager
def become(user: User) -> Iterator[None]:
    """This process is that user; the way back is the saved user id."""
    groups = os.getgroups()
    os.setgroups(user.groups)
    os.setresgid(user.uid, user.uid, 0)
    os.setresuid(user.uid, user.uid, 0)
    try:
        yield
    finally:
        os.setresuid(0, 0, 0)
        os.setresgid(0, 0, 0)
        os.setgroups(groups)


async def connect_as(user: User, address: str) -> Connection:
    """A bus knows a client by who it was when it connected."""
    (await connect(address)).close()  # what has to be imported is imported as root, whose modules they may be
    with become(user):
        return await connect(address)


async def denied(connection: Connection, path: str, interface: str, member: str, signature: str = "", *body: Any, to: str = NAME) -> bool:
    try:
        await connection.call(to, path, interface, member, signature, *body)
    except CallError as error:
        assert error.name == DENIED, error
        return True
    return False


class Ears:
    """All that comes to a connection that is no answer."""

    def __init__(self, connection: Connection) -> None:
        self.heard: list[Incoming] = []
        connection.on_message = self

    def __call__(self, message: Incoming) -> bool:
        if message.sender != DBUS:
            self.heard.append(message)
        return False


Go = Callable[[Coroutine[Any, Any, None]], None]


def test_an_outsider_may_look_at_status_and_hears_no_text(system_bus: str, go: Go, desk: MemoryDesk, serving: type[Serving]) -> None:
    """CASES B11. As the user voiced serves, one of the group uses, one of no group tries all there is."""

    async def test() -> None:
        outsider, member = await connect_as(OUTSIDER, system_bus), await connect_as(MEMBER, system_bus)
        # a service's connection is made where it starts
        service = serving(desk, system_bus, "auto", unicast=True)
        with become(SERVICE):
            await service.service.start()
        serves = asyncio.create_task(service.service.run())

        status = await outsider.call(NAME, STATUS_PATH, PROPERTIES, "GetAll", "s", STATUS.name)
        assert status == [{"Version": "0.1.0", "Health": "ok", "Muted": False}]
        ((unique,),) = [await outsider.ask("GetNameOwner", "s", NAME)]
        for to in (NAME, unique):
            for path, interface, member_name, signature, *body in (
                (ROOT, PROPERTIES, "GetAll", "s", MANAGER.name),
                (ROOT, MANAGER.name, "GetStatus", ""),
                (ROOT, MANAGER.name, "Subscribe", ""),
                (ROOT, MANAGER.name, "GetTurn", "t", 1),
                (ROOT, MANAGER.name, "ListTurns", "su", "", 0),
                (ROOT, MANAGER.name, "Explain", "su", "", 0),
                (ROOT, MANAGER.name, "Reload", ""),
                (ROOT, f"{DBUS}.ObjectManager", "GetManagedObjects", ""),
                (ROOT, f"{DBUS}.Introspectable", "Introspect", ""),
                (KITCHEN, PROPERTIES, "Get", "ss", LANE.name, "State"),
                (KITCHEN, LANE.name, "Trigger", "a{sv}", {}),
                (KITCHEN, LANE.name, "Playback", "b", True),
                (KITCHEN, LANE.name, "Mute", "b", True),
            ):
                assert await denied(outsider, path, interface, member_name, signature, *body, to=to), (to, member_name)
        assert not desk.asked

        # it listens to all that it can, and tries to be let in on the rest
        overheard = Ears(outsider)
        await outsider.add_match("type='signal'")
        with suppress(CallError):  # an old bus takes the word and does as its policy says
            await outsider.add_match(f"eavesdrop='true',path_namespace='{ROOT}'")
        assert await denied(outsider, "/org/freedesktop/DBus", f"{DBUS}.Monitoring", "BecomeMonitor", "asu", [], 0, to=DBUS)
        ears = Ears(member)
        await member.call(NAME, ROOT, MANAGER.name, "Subscribe")
        desk.publish("kitchen", events.Final(1, 1, "secret words", events.TextSource.FIRST_PASS, "secret words"))
        desk.become(health="stalled")
        while len(ears.heard) < 2 or not overheard.heard:
            await asyncio.sleep(0.01)
        assert [item.body[3] for item in ears.heard if item.member == "Final"] == ["secret words"]
        assert {item.path for item in overheard.heard} == {STATUS_PATH}
        assert "secret" not in str(overheard.heard)
        (turn,) = await member.call(NAME, KITCHEN, LANE.name, "Trigger", "a{sv}", {})
        assert turn == 42

        serves.cancel()
        await asyncio.wait([serves])
        outsider.close()
        member.close()

    go(test())


@pytest.mark.parametrize("user", [OUTSIDER, MEMBER], ids=lambda user: user.name)
def test_nobody_else_may_own_the_name(system_bus: str, go: Go, user: User) -> None:
    async def test() -> None:
        connection = await connect_as(user, system_bus)
        with pytest.raises(BusError, match="the bus refuses the name to uid") as refused:
            await connection.request_name(NAME)
        assert "put systemd/org.voiced.Voice1.conf into /etc/dbus-1/system.d" in str(refused.value)
        connection.close()

    go(test())


def test_root_may_run_it_too(system_bus: str, go: Go) -> None:
    async def test() -> None:
        root = await connect(system_bus)
        await root.request_name(NAME)
        root.close()

    go(test())
