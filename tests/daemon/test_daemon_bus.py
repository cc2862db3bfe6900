"""A daemon whose bus dies: hearing goes on, and so does the telling."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from livedaemon import Listen, Start, descendants
from voiced.bus.client import Presence
from voiced.desk import Published
from voiced.events import Final, Partial


def test_hearing_goes_on_when_the_bus_is_killed(start: Start, listen: Listen, runtime: Path, both: Path, tmp_path: Path) -> None:
    """B4. The settings ask for words in the log, which has every turn whether there was a bus or not."""
    config = tmp_path / "voiced.yaml"
    config.write_text(f"log: {{text: true}}\nlanes: [{{name: desk, source: 'file:{both}'}}]\n")
    voiced = start("voiced", "--config", config)
    listener = listen(f"unix:path={runtime}/voiced/bus")
    listener.lane(Health="ok")
    listener.event(Partial)
    hearing = set(listener.pids().values())
    (bus,) = (pid for pid in descendants(voiced.pid) - hearing if "dbus-daemon" in Path(f"/proc/{pid}/cmdline").read_text())
    listener.mark()
    os.kill(bus, signal.SIGKILL)
    listener.wait(lambda item: item == Presence(False), "the bus's end")
    listener.wait(lambda item: item == Presence(True), "its return")
    assert set(listener.pids().values()) == hearing, "nothing else was restarted"
    listener.wait(
        lambda item: isinstance(item, Published) and isinstance(item.event, Final) and item.event.text == "What time is it?",
        "the second turn's final",
    )
    assert voiced.wait() == 0, voiced.err
    turns = [line for line in voiced.err.splitlines() if " turn " in line]
    assert ["Turn on the lights in the kitchen." in turns[0], "What time is it?" in turns[1]] == [True, True]
