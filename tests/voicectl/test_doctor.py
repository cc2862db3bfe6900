"""voicectl doctor: every finding is provoked, each has a command that mends it, and the exit code follows."""

from __future__ import annotations

import asyncio
import json
import os
import re
import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from livedaemon import Listener, Process, Start, environment, run, runtime_of_a_user
from voicectl import checkup, doctor
from voiced import __version__, models, preflight
from voiced.api import Finding
from voiced.bus.connection import connect
from voiced.bus.interface import NAME
from voiced.settings import LaneSettings, PlacementSettings, defaults

NOBODY = 4_000_000


def only(findings: Iterator[Finding]) -> Finding:
    (found,) = findings
    assert found.good or found.advice, "what is wrong has something that mends it"
    return found


def fine(name: str) -> Finding:
    return Finding(name, True, "1.0")


# ── versions ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_all_versions_are_told() -> None:
    found = only(checkup.versions(look=fine))
    assert found.good
    assert f"voiced {__version__}" in found.what and "numpy 1.0" in found.what


def test_a_python_that_is_too_old() -> None:
    found = next(checkup.versions(python=(3, 10, 2), look=fine))
    assert (found.good, found.what) == (False, "Python 3.10.2 is too old: 3.11 is needed")


def test_libraries_that_are_absent(tmp_path: Path) -> None:
    """By a Python that has none of them."""
    bare = tmp_path / "python"
    bare.write_text(f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')
    bare.chmod(0o755)
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    found = list(checkup.versions(look=lambda name: preflight.try_library(name, str(bare), env)))
    assert [one.what for one in found] == [f"{name} is not installed" for name in (*preflight.LIBRARIES, "dbus_next")]
    assert {one.advice for one in found} == {"voiced-setup"}


def test_one_library_of_the_bus_is_enough_and_a_k3_needs_no_soxr() -> None:
    def look(name: str) -> Finding:
        return fine(name) if name not in ("dbus_next", "soxr") else Finding(name, False, "is not installed", "voiced-setup")

    assert [one.what for one in checkup.versions(look=look)] == ["soxr is not installed"]
    assert only(checkup.versions(look=look, board_name="k3")).good


# ── settings, models, microphone ───────────────────────────────────────────────────────────────────────────────────────


def test_every_mistake_of_the_settings_is_a_finding(tmp_path: Path) -> None:
    path = tmp_path / "voiced.yaml"
    path.write_text("vad: {onn: 1}\nwake: {min_speech: 3}\nplacement: {ears: [999]}\n")
    read, found = checkup.settings(path)
    assert read == defaults()
    assert [(one.name, one.good) for one in found] == [("settings", False), ("settings", False), ("placement", False)]
    assert found[0].what == f"{path}:1: vad.onn: no such setting; did you mean on?"
    assert "of an older version" in found[1].what
    assert "placement.ears: must name cores" in found[2].what
    path.write_text("vad: {on: 0.6}\n")
    read, found = checkup.settings(path)
    assert read.vad.on == 0.6 and only(iter(found)).good


def test_a_model_that_is_absent_and_one_that_is_damaged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = models.default_library()
    monkeypatch.setenv("VOICED_CACHE", str(tmp_path))
    found = [one for one in checkup.models(defaults()) if not one.good]
    if not (Path(models.SYSTEM_MODELS).exists()):
        assert {one.advice for one in found} == {"voicectl models fetch silero-vad", "voicectl models fetch moonshine-tiny-en"}
    source = real.find("silero-vad").files["model"]
    (tmp_path / "models" / "silero-vad").mkdir(parents=True)
    data = bytearray(source.read_bytes())
    data[1000] ^= 1
    (tmp_path / "models" / "silero-vad" / source.name).write_bytes(data)
    wrong = next(one for one in checkup.models(defaults()) if "silero" in one.what)
    assert not wrong.good and wrong.what.startswith("vad: ") and wrong.advice == "voicectl models fetch silero-vad"


def test_all_models_whole() -> None:
    found = only(checkup.models(defaults()))
    assert found.good and "starter-en" in found.what


def test_an_unknown_model() -> None:
    wanted = defaults()
    found = next(checkup.models(replace(wanted, models=replace(wanted.models, vad="silerovad"))))
    assert not found.good and "did you mean silero-vad?" in found.advice


def test_the_microphone_of_every_lane_once() -> None:
    lanes = tuple(LaneSettings(name, source) for name, source in (("a", "auto"), ("b", "desk"), ("c", "desk"), ("d", "file:/x.wav")))
    asked = []

    def look(source: str) -> Finding:
        asked.append(source)
        return Finding("microphone", False, f"{source}: there is no device", "plug one in")

    assert [one.good for one in checkup.microphone(replace(defaults(), lanes=lanes), look)] == [False, False]
    assert asked == ["auto", "desk"]


# ── rights, policy ─────────────────────────────────────────────────────────────────────────────────────────────────────


def rights(**more: Any) -> list[Finding]:
    given: dict[str, Any] = {"environ": {}, "system": False, "uid": NOBODY, "groups": (), "nodes": Path("/nowhere")}
    return list(checkup.rights(**(given | more)))


def test_a_sound_card_that_is_closed_to_the_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """S9: names the node and its group, and the command."""
    (tmp_path / "pcmC0D0c").touch()
    monkeypatch.setattr(os, "access", lambda path, mode: False)  # root may open everything
    (found,) = rights(nodes=tmp_path)
    assert found == Finding(
        "rights", False, f"{tmp_path}/pcmC0D0c belongs to the group root, in which this user is not", f"sudo usermod -aG root {NOBODY}"
    )
    assert rights(nodes=tmp_path, groups=(0,))[0].good


def test_a_user_who_is_not_in_the_group(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkup, "GROUP", "daemon")  # a group that every system has
    (found,) = rights(system=True)
    assert (found.good, found.advice) == (False, f"sudo usermod -aG daemon {NOBODY}, then log in again")
    assert rights(system=True, uid=0)[0].good, "root needs no group"
    monkeypatch.setattr(checkup, "GROUP", "no-such-group")
    (found,) = rights(system=True)
    assert (found.what, found.advice) == (
        "there is no group no-such-group, whose members may use voiced", "sudo groupadd --system no-such-group",
    )  # fmt: skip


def test_a_runtime_directory_that_is_none(tmp_path: Path) -> None:
    """S6: after a log-in without a session."""
    (found,) = rights(environ={"XDG_RUNTIME_DIR": str(tmp_path / "gone")}, uid=os.getuid())
    assert not found.good and "is no folder for this user alone" in found.what
    tmp_path.chmod(0o755)
    assert not rights(environ={"XDG_RUNTIME_DIR": str(tmp_path)}, uid=os.getuid())[0].good
    tmp_path.chmod(0o700)
    assert rights(environ={"XDG_RUNTIME_DIR": str(tmp_path)}, uid=os.getuid())[0].good


def test_a_policy_and_a_user_that_are_not_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkup, "USER", "root")
    assert list(checkup.policy(system=False, policies=[tmp_path], units=[tmp_path])) == [], "nobody asked for the system bus"
    found = only(checkup.policy(system=True, policies=[tmp_path], units=[tmp_path]))
    assert not found.good and found.what.startswith("no org.voiced.Voice1.conf in")
    (tmp_path / "voiced.service").touch()
    assert not only(checkup.policy(system=False, policies=[tmp_path], units=[tmp_path])).good
    (tmp_path / "org.voiced.Voice1.conf").touch()
    assert only(checkup.policy(system=True, policies=[tmp_path], units=[tmp_path])).good
    monkeypatch.setattr(checkup, "USER", "voiced-no-such")
    _, found = checkup.policy(system=True, policies=[tmp_path], units=[tmp_path])
    assert (found.good, found.advice) == (False, "sudo systemd-sysusers voiced.conf")


# ── placement, limits, clock ───────────────────────────────────────────────────────────────────────────────────────────


def test_a_thread_on_other_cores_than_it_should_be() -> None:
    rows = [("ears", "lane main", 10, 11, [2], [0, 1, 2, 3]), ("bus", "", 10, 10, [], [0, 1])]
    found = only(checkup.placement(defaults(), rows))
    assert (found.good, found.what) == (False, "thread 11 (ears, lane main) wants cores 2 and runs on 0,1,2,3")
    assert only(checkup.placement(defaults(), [("ears", "lane main", 10, 11, [2], [2])])).good


def test_a_nice_level_that_the_user_may_not_have(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: NOBODY)
    monkeypatch.setattr(resource, "getrlimit", lambda what: (20, 20))
    wanted = replace(defaults(), placement=PlacementSettings(nice_capture=-20))
    found = only(checkup.placement(wanted))
    assert not found.good and "placement.nice_capture wants the nice level" in found.what and "LimitNICE=" in found.advice


def test_limits_that_are_too_low(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    meminfo = tmp_path / "meminfo"
    meminfo.write_text("MemTotal:  1000000 kB\nMemAvailable:  900000 kB\n")
    assert only(checkup.limits(meminfo, tmp_path, 1024)).good
    found = only(checkup.limits(meminfo, tmp_path, 64))
    assert (found.good, found.what) == (False, "64 files may be open at once; 256 are needed")
    meminfo.write_text("MemAvailable:  102400 kB\n")
    found = only(checkup.limits(meminfo, tmp_path, 1024))
    assert (found.good, found.what) == (False, "100 MB of memory are free; voiced takes up to 400")
    meminfo.unlink()
    assert only(checkup.limits(meminfo, tmp_path, 1024)).good, "a kernel that does not say is no fault"
    monkeypatch.setattr(checkup, "DISK_BYTES", 1 << 60)
    found = only(checkup.limits(meminfo, tmp_path / "not" / "yet", 1024))
    assert not found.good and "of disk are free" in found.what


def test_a_date_that_cannot_be_and_a_coarse_clock() -> None:
    found = only(checkup.clock(now_s=0.0))
    assert (found.good, found.advice) == (False, "sudo timedatectl set-ntp true")
    assert found.what.startswith("it is 1970-01-01 here")
    found = only(checkup.clock(resolution_s=0.01))
    assert not found.good and "steps by 10 ms" in found.what
    assert only(checkup.clock(now_s=1.9e9)).good


def test_the_ai_cores_are_asked_only_where_they_are_wanted() -> None:
    assert list(checkup.ai_cores(defaults())) == []
    wanted = replace(defaults(), placement=PlacementSettings(second_pass_provider="spacemit"))
    closed = Finding("TCM", False, "no device", "set cpu")
    assert list(checkup.ai_cores(wanted, memory=lambda: closed)) == [closed]
    found = list(checkup.ai_cores(wanted, memory=lambda: fine("TCM")))
    assert [one.name for one in found] == ["TCM", "execution provider"]
    assert "falls back to the CPU" in found[1].what


# ── the bus and a running daemon ───────────────────────────────────────────────────────────────────────────────────────


STATUS = {"version": __version__, "health": "ok", "mistakes": [], "lanes": [{"name": "main", "health": "ok"}]}


@pytest.mark.parametrize(
    ("change", "what", "advice"),
    [
        ({"version": "0.0.9"}, f"voiced 0.0.9 runs, {__version__} is installed", "systemctl restart voiced"),
        ({"mistakes": ["voiced.yaml:1: x: no such section"]}, "read anew and refused: voiced.yaml:1", "voicectl reload"),
        (
            {"lanes": [{"name": "main", "health": "stalled", "reason": "no block for 1 s"}]},
            "lane main hears nothing (stalled: no block for 1 s)",
            "voicectl mic test",
        ),
    ],
)
def test_what_a_running_daemon_says_of_itself(change: dict[str, Any], what: str, advice: str) -> None:
    assert only(checkup.running(STATUS)).good
    found = only(checkup.running(STATUS | change))
    assert not found.good and what in found.what and advice in found.advice


def test_a_bus_that_is_not_there(tmp_path: Path) -> None:
    status, (found,) = asyncio.run(doctor.ask(f"unix:path={tmp_path}/bus"))
    assert status is None and not found.good
    assert found.name == "bus" and "no bus" in found.what


def test_a_daemon_that_does_not_run(bus: str) -> None:
    status, (found,) = asyncio.run(doctor.ask(bus))
    assert status is None
    assert (found.name, found.good) == ("bus", False)
    assert "voiced does not run on" in found.what
    assert found.advice == checkup.starting(system=False)


def test_a_unit_is_started_only_where_there_is_one(tmp_path: Path) -> None:
    """In a checkout there is none."""
    folders = {"units": [tmp_path / "system"], "user_units": [tmp_path / "user"]}
    assert checkup.starting(system=False, **folders) == "voiced"
    assert checkup.starting(system=True, **folders) == "sudo tools/install, then: systemctl start voiced"
    for folder in tmp_path / "system", tmp_path / "user":
        folder.mkdir()
        (folder / "voiced.service").touch()
    assert checkup.starting(system=False, **folders) == "voiced, or systemctl --user start voiced"
    assert checkup.starting(system=True, **folders) == "systemctl start voiced"


CLOSED = """<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN"
 "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
<busconfig><listen>unix:path={folder}/bus</listen><auth>EXTERNAL</auth>
<policy context="default"><allow user="*"/><allow own="*"/><allow send_destination="*"/><allow receive_sender="*"/>
<deny send_destination="org.voiced.Voice1"/></policy></busconfig>
"""


def test_a_bus_that_lets_nobody_speak_to_voiced() -> None:
    """A real dbus-daemon with a policy that forbids it, and somebody who owns the name."""
    with tempfile.TemporaryDirectory(prefix="voiced-") as folder:
        (Path(folder) / "bus.conf").write_text(CLOSED.format(folder=folder))
        command = ["dbus-daemon", f"--config-file={folder}/bus.conf", "--nofork", "--nopidfile", "--nosyslog", "--print-address"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as daemon:
            assert daemon.stdout is not None
            address = daemon.stdout.readline().strip()

            async def look() -> tuple[object, list[Finding]]:
                owner = await connect(address)
                await owner.request_name(NAME)
                try:
                    return await doctor.ask(address)
                finally:
                    owner.close()

            try:
                status, (found,) = asyncio.run(look())
            finally:
                daemon.terminate()
    assert status is None
    assert (found.name, found.good, found.advice) == ("policy", False, "sudo usermod -aG voice USER, then log in again")


# ── the command ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_command_beside_a_running_daemon(
    start: Start, bus: str, env: dict[str, str], listener: Listener, silence: Path, tmp_path: Path
) -> None:
    config = tmp_path / "voiced.yaml"
    config.write_text(f"lanes:\n  - {{name: desk, source: 'file:{silence}'}}\n")
    voiced: Process = start("voiced", "--config", config, "--bus", bus)
    listener.lane(Health="ok")
    done = run("voicectl", "--bus", bus, "doctor", "--json", "--config", config, env=env)
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert [one["check"] for one in found] == ["versions", "settings", "models", "rights", "bus", "placement", "limits", "clock"], (
        done.stdout
    )
    assert done.returncode == 0 and all(one["good"] and one["mend"] is None for one in found), done.stdout
    assert f"voiced {__version__} runs, 1 lane, health ok" in next(one["what"] for one in found if one["check"] == "bus")
    assert voiced.stop() == 0


def test_the_command_where_everything_is_wrong() -> None:
    """No bus, no microphone, a mistake in the settings: exit code 1, a line and a command for each."""
    with runtime_of_a_user() as runtime:
        (runtime / "voiced.yaml").write_text("vad: {onn: 1}\n")
        done = run("voicectl", "doctor", "--config", runtime / "voiced.yaml", env=environment(runtime, DBUS_SESSION_BUS_ADDRESS=""))
    assert done.returncode == 1
    assert done.stderr == ""
    lines = done.stdout.splitlines()
    wrong = [at for at, line in enumerate(lines) if line.startswith("WRONG")]
    assert {lines[at].split()[1] for at in wrong} >= {"settings", "bus"}
    assert all(re.match(r" +→ \S", lines[at + 1]) for at in wrong)
    assert all(line.startswith(("ok   ", "WRONG", " ")) for line in lines)
