"""What lies in systemd/: units that systemd takes, a sandbox that is as tight as it can be, users and folders that come of it."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from livedaemon import PATIENCE, SAMPLE, environment
from voiced.bus.connection import connect
from voiced.bus.interface import NAME
from voiced.errors import ConfigError, ModelError, UsageError

FILES = Path(__file__).resolve().parents[1] / "systemd"
SYSTEM, USER = FILES / "system" / "voiced.service", FILES / "user" / "voiced.service"
UNITS = pytest.mark.parametrize("unit", [SYSTEM, USER], ids=["system", "user"])
EXPOSURE = 1.5

needs_analyze = pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="systemd-analyze is not installed (Debian: systemd)")


def analyze(*arguments: str | Path, **env: str) -> subprocess.CompletedProcess[str]:
    words = ["systemd-analyze", *map(str, arguments)]
    return subprocess.run(words, capture_output=True, text=True, check=False, env=os.environ | env)


def version() -> int:
    found = re.match(r"systemd (\d+)", analyze("--version").stdout)
    assert found
    return int(found[1])


def values(unit: Path, key: str) -> list[str]:
    return [line.partition("=")[2] for line in unit.read_text().splitlines() if line.partition("=")[0] == key]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A system with our unit where a package puts it, its commands, and systemd's own units."""
    shutil.copytree("/usr/lib/systemd/system", tmp_path / "usr/lib/systemd/system", symlinks=True)
    shutil.copy(SYSTEM, tmp_path / "usr/lib/systemd/system")
    for command in ("voiced", "voicectl"):
        path = tmp_path / "usr/bin" / command
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("#!/bin/sh\n")
        path.chmod(0o755)
    return tmp_path


def complaints(verified: subprocess.CompletedProcess[str]) -> list[str]:
    """What systemd says of our units; before 254 it does not know how a pause grows, and begins again after the first one each time."""
    lines = [line for line in verified.stderr.splitlines() if "voiced" in line]
    return [line for line in lines if version() >= 254 or not re.search("Unknown key.*'(RestartSteps|RestartMaxDelaySec)'", line)]


@needs_analyze
@pytest.mark.parametrize("drop_ins", [(), ("network.conf", "k3.conf")], ids=["alone", "with drop-ins"])
def test_systemd_takes_the_system_unit(root: Path, drop_ins: tuple[str, ...]) -> None:
    folder = root / "etc/systemd/system/voiced.service.d"
    folder.mkdir(parents=True)
    for name in drop_ins:
        shutil.copy(FILES / "drop-ins" / name, folder)
    found = analyze("verify", "--man=no", f"--root={root}", "voiced.service")
    assert (complaints(found), found.returncode) == ([], 0), found.stderr


@needs_analyze
def test_systemd_takes_the_user_unit(tmp_path: Path) -> None:
    found = analyze("verify", "--man=no", "--user", USER, XDG_RUNTIME_DIR=str(tmp_path))
    assert (complaints(found), found.returncode) == ([], 0), found.stderr


@needs_analyze
def test_the_sandbox_is_tight() -> None:
    found = analyze("security", "--offline=true", f"--threshold={EXPOSURE * 10:.0f}", "--no-pager", SYSTEM)
    assert found.returncode == 0, found.stdout
    exposure = re.search(r"exposure level for voiced\.service: ([0-9.]+)", found.stdout)
    assert exposure and float(exposure[1]) <= EXPOSURE


@UNITS
def test_starting_again_is_for_what_it_mends(unit: Path) -> None:
    (codes,) = values(unit, "RestartPreventExitStatus")
    assert {int(code) for code in codes.split()} == {kind.exit_code for kind in (UsageError, ModelError, ConfigError)}
    assert values(unit, "Type") == ["notify"] and values(unit, "WatchdogSec") == ["30"]


def test_the_bus_starts_the_unit_by_its_alias() -> None:
    """A name on the bus, the file that activates it, the unit and the policy speak of one thing."""
    activation = FILES / f"{NAME}.service"
    (alias,) = values(SYSTEM, "Alias")
    assert (values(activation, "Name"), values(activation, "SystemdService")) == ([NAME], [alias])
    assert values(SYSTEM, "BusName") == [NAME]
    (user,) = values(SYSTEM, "User")
    policy = ET.parse(FILES / f"{NAME}.conf")
    owners = [item.get("user") for item in policy.iter("policy") if any(rule.get("own") == NAME for rule in item.findall("allow"))]
    assert sorted(map(str, owners)) == ["root", user]


BUS = """<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN"
 "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
<busconfig>
  <type>session</type>
  <listen>unix:path={folder}/bus</listen>
  <servicedir>{folder}/services</servicedir>
  <policy context="default"><allow send_destination="*"/><allow receive_sender="*"/><allow user="*"/></policy>
</busconfig>
"""


def test_a_bus_knows_that_the_name_can_be_asked_for() -> None:
    async def names(address: str) -> list[str]:
        connection = await connect(address)
        (found,) = await connection.ask("ListActivatableNames")
        connection.close()
        return list(found)

    with tempfile.TemporaryDirectory(prefix="voiced-") as folder:
        (Path(folder) / "services").mkdir()
        shutil.copy(FILES / f"{NAME}.service", Path(folder) / "services")
        config = Path(folder) / "bus.conf"
        config.write_text(BUS.format(folder=folder))
        command = ["dbus-daemon", f"--config-file={config}", "--nofork", "--nopidfile", "--print-address"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout
            address = process.stdout.readline().strip().partition(",")[0]
            assert NAME in asyncio.run(names(address))
            process.terminate()


@pytest.mark.skipif(not shutil.which("systemd-sysusers"), reason="systemd-sysusers is not installed (Debian: systemd)")
def test_users_and_folders(tmp_path: Path) -> None:
    (tmp_path / "usr/lib/sysusers.d").mkdir(parents=True)
    shutil.copy(FILES / "sysusers.conf", tmp_path / "usr/lib/sysusers.d/voiced.conf")
    shutil.copy(FILES / "tmpfiles.conf", tmp_path / "tmpfiles.conf")
    (tmp_path / "etc").mkdir()
    for command in (["systemd-sysusers", f"--root={tmp_path}", "voiced.conf"], ["systemd-tmpfiles", "--create", f"--root={tmp_path}"]):
        more = [str(tmp_path / "tmpfiles.conf")] * command[0].endswith("tmpfiles")
        done = subprocess.run([*command, *more], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    name, _, uid, _, _, home, shell = (tmp_path / "etc/passwd").read_text().strip().split(":")
    assert (name, home, shell.rpartition("/")[2]) == ("voiced", "/var/lib/voiced", "nologin")
    groups = {line.split(":")[0]: line.strip().split(":")[3] for line in (tmp_path / "etc/group").read_text().splitlines()}
    assert groups == {"voice": "", "audio": "voiced", "voiced": ""}
    state, settings = tmp_path / "var/lib/voiced", tmp_path / "etc/voiced/voiced.yaml.d"
    assert (state.stat().st_uid, state.stat().st_mode & 0o777) == (int(uid), 0o700)
    assert settings.is_dir() and settings.stat().st_uid == 0


# ── the sandbox, tried ─────────────────────────────────────────────────────────────────────────────────────────────────


def sandboxed(unit: Path, tmp_path: Path, *command: str | Path) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, "-m", "sandbox", str(unit), *map(str, command)]
    done = subprocess.run(words, env=environment(tmp_path), capture_output=True, text=True, timeout=2 * PATIENCE, check=False)
    if "Operation not permitted: 'unshare" in done.stderr or "PR_SET_MDWE" in done.stderr or "libseccomp" in done.stderr:
        pytest.skip(f"this machine cannot: {done.stderr.splitlines()[-1]}")
    return done


TRIES = """
import ctypes, mmap, os, socket
def tried(what, do):
    try: do()
    except (OSError, MemoryError) as error: print(what, "refused")
    else: print(what, "allowed")
tried("inet", lambda: socket.socket(socket.AF_INET))
tried("unix", lambda: socket.socket(socket.AF_UNIX))
tried("code", lambda: mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC))
tried("chroot", lambda: os.chroot("/"))
tried("cores", lambda: os.sched_setaffinity(0, os.sched_getaffinity(0)))
"""


@needs_analyze
@UNITS
def test_the_sandbox_forbids(unit: Path, tmp_path: Path) -> None:
    """What is tried below is tried under something."""
    done = sandboxed(unit, tmp_path, "-c", TRIES)
    assert done.stdout.splitlines() == ["inet refused", "unix allowed", "code refused", "chroot refused", "cores allowed"], done.stderr


@needs_analyze
def test_all_models_work_in_the_sandbox(tmp_path: Path) -> None:
    """Gate, wake, VAD, transducer and second pass: no writable code, no network, none of the forbidden calls."""
    done = sandboxed(SYSTEM, tmp_path, "-m", "voiced", "--input", SAMPLE, "--json")
    assert done.returncode == 0, done.stderr
    finals = [event for event in map(json.loads, done.stdout.splitlines()) if event["event"] == "Final"]
    assert [(event["text"], event["source"]) for event in finals] == [
        ("Turn on the lights in the kitchen.", "second pass"), ("What time is it?", "second pass"),
    ]  # fmt: skip
