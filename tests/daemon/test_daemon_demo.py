"""The demonstration and --show: what a person sees, what a client beside them hears, and that nothing is left."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from debugger import held
from livedaemon import PATIENT, Listen, Start, alive, assert_whole, descendants, until
from voiced.bus.client import Presence
from voiced.events import Final, TurnClosed

FINALS = ["Turn on the lights in the kitchen.", "What time is it?"]


def lanes(pid: int) -> list[int]:
    """Process ids of its lanes."""
    found = []
    for child in descendants(pid):
        with contextlib.suppress(OSError):  # ended meanwhile
            if b":lane" in Path(f"/proc/{child}/cmdline").read_bytes().split(b"\0"):
                found.append(child)
    return found


def test_the_demonstration_is_right_and_a_client_sees_it_happen(start: Start, listen: Listen, runtime: Path, tmp_path: Path) -> None:
    (tmp_path / "voiced.yaml").write_text(PATIENT)
    demo = start("voiced", "--demo", "--config", tmp_path / "voiced.yaml")
    demo.says("voicectl watch` shows the same")
    listener = listen(f"unix:path={runtime}/voiced/bus")
    (lane,) = until(lambda: lanes(demo.pid), "its lane")
    with held(lane):  # nothing is heard before the client is there
        watch = start("voicectl", "watch", "--json", "--count", "2")
        until(lambda: listener.status()["statistics"].get("bus_subscribers") == 2, "the client's subscription", lambda: watch.err)
    children = descendants(demo.pid)
    assert demo.wait() == 0, demo.err
    assert watch.wait() == 0, watch.err
    assert re.findall(r"final +(.*?)  \(", demo.out) == FINALS
    assert demo.err == ""

    heard = watch.objects()
    assert [line["text"] for line in heard if line["event"] == "Final"] == FINALS
    assert [line["source"] for line in heard if line["event"] == "Final"] == ["second pass"] * 2
    assert [line["sequence"] for line in heard] == list(range(1, len(heard) + 1)), "it was there before the first event"
    names = [line["event"] for line in heard if line["turn"] == heard[0]["turn"] and line["event"] != "Partial"]
    assert names == ["Wake", "SpeechStarted", "LikelyEnd", "Endpoint", "Final", "TurnClosed"]
    first = next(line["text"] for line in heard if line["event"] == "Partial")
    assert first and len(first) < len(FINALS[0]), "words were seen while they were spoken"

    until(lambda: not any(alive(pid) for pid in children), "every child's end", lambda: children)
    assert not (runtime / "voiced" / "bus").exists()


def test_everything_dies_with_a_killed_voiced(start: Start) -> None:
    demo = start("voiced", "--demo")
    demo.says("wake")
    children = descendants(demo.pid)
    assert len(children) >= 3, "a bus, a lane, a second pass"
    demo.stop(signal.SIGKILL)
    until(lambda: not any(alive(pid) for pid in children), "every child's end", lambda: [pid for pid in children if alive(pid)])


def test_a_private_bus_that_outlives_its_voiced_for_a_moment_is_no_trap(start: Start, listen: Listen, runtime: Path, clock: Path) -> None:
    first = start("voiced", "--demo")
    until((runtime / "voiced" / "bus").exists, "the private bus")
    first.stop(signal.SIGKILL)
    second = start("voiced", "--input", clock, "--pace", "realtime", "--json")  # may still find the dying bus
    listener = listen(f"unix:path={runtime}/voiced/bus")
    assert listener.event(Final).text == FINALS[1]
    assert second.wait() == 0, second.err
    assert second.err == ""


def test_show_is_the_daemon_with_its_events_on_the_terminal(start: Start, listen: Listen, bus: str, sample: Path, tmp_path: Path) -> None:
    config = tmp_path / "voiced.yaml"
    config.write_text(f"{PATIENT}lanes:\n  - name: desk\n    source: file:{sample}\n")
    listener = listen(bus)
    shown = start("voiced", "--show", "--json", "--config", config, "--bus", bus)
    closed = listener.event(TurnClosed)
    assert_whole(listener.events(closed.turn))
    shown.says('"event": "TurnClosed"')
    assert shown.stop() == 0
    lines = shown.objects()
    assert {line["lane"] for line in lines} == {"desk"}
    assert next(line["text"] for line in lines if line["event"] == "Final") == FINALS[0]


@pytest.mark.parametrize(
    ("more", "what"),
    [
        ("", 'say "jarvis", then what you want'),
        ("wake: {phrases: [{phrase: smart-mirror}, {text: hey kitchen}]}\n", 'say "smart mirror" or "hey kitchen", then what you want'),
        ("wake: {phrases: []}\n", "no phrase is set, so a turn begins with voicectl trigger"),
    ],
)
def test_show_says_how_to_begin(start: Start, bus: str, clock: Path, tmp_path: Path, more: str, what: str) -> None:
    config = tmp_path / "voiced.yaml"
    config.write_text(f"lanes: [{{name: desk, source: 'file:{clock}'}}]\n{more}")
    shown = start("voiced", "--show", "--config", config, "--bus", bus)
    shown.says(f"Ready: {what}; ^C ends it.\n")
    assert shown.stop() == 0


def test_a_terminal_that_stands_still_does_not_stop_the_daemon(
    env: dict[str, str], listen: Listen, bus: str, clock: Path, tmp_path: Path
) -> None:
    """^S, or a pager: what cannot be written waits, and the bus goes on."""
    config = tmp_path / "voiced.yaml"
    config.write_text(f"lanes: [{{name: desk, source: 'file:{clock}'}}]\n")
    listener = listen(bus)
    never_read, full = os.pipe()
    os.set_blocking(full, False)
    with contextlib.suppress(BlockingIOError):
        while True:
            os.write(full, bytes(4096))
    os.set_blocking(full, True)
    command = [sys.executable, "-m", "voiced", "--show", "--config", str(config), "--bus", bus]
    voiced = subprocess.Popen(command, env=env, stdin=subprocess.DEVNULL, stdout=full, stderr=subprocess.PIPE, text=True)
    try:
        listener.event(TurnClosed)
        assert voiced.wait(60) == 0
        assert voiced.stderr
        assert "events were not shown: nobody read them in time" in voiced.stderr.read()
    finally:
        voiced.kill()
        voiced.communicate()
        os.close(full)
        os.close(never_read)


def test_a_full_disk_ends_it_with_one_line(env: dict[str, str], clock: Path) -> None:
    with Path("/dev/full").open("w") as full:
        command = [sys.executable, "-m", "voiced", "--json", "--pace", "realtime", "--input", str(clock)]
        done = subprocess.run(command, env=env, stdout=full, stderr=subprocess.PIPE, text=True, check=False, timeout=80)
    assert done.returncode == 74
    assert done.stderr == "voiced: standard output: cannot be written: No space left on device; make room, or send it elsewhere\n"


def test_a_reader_that_goes_early_gets_no_traceback(env: dict[str, str]) -> None:
    """voiced --demo --json | head -1"""
    voiced = subprocess.Popen(
        [sys.executable, "-m", "voiced", "--demo", "--json"], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert voiced.stdout and voiced.stderr
    assert json.loads(voiced.stdout.readline())["event"] == "Wake"
    voiced.stdout.close()
    assert voiced.stderr.read() == ""
    assert voiced.wait(60) == 0


def test_the_bus_and_the_terminal_tell_the_same(start: Start, listen: Listen, bus: str, clock: Path) -> None:
    listener = listen(bus)
    listener.mark()
    voiced = start("voiced", "--input", clock, "--pace", "realtime", "--json", "--bus", bus)
    assert voiced.wait() == 0, voiced.err
    listener.wait(lambda item: item == Presence(False), "its end")
    printed = [(line["event"], line.get("turn", 0)) for line in voiced.objects()]
    heard = [(type(event).__name__, getattr(event, "turn", 0)) for event in listener.events()]
    assert heard == printed
