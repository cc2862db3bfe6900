"""A daemon whose bus dies: hearing goes on, and so does the telling."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import soundfile
from livedaemon import PATIENT, Listen, Start, descendants, own_bus, until
from voiced.bus.client import Presence
from voiced.bus.connection import Incoming, connect
from voiced.bus.interface import ROOT, STATUS_PATH
from voiced.desk import Published
from voiced.events import Final, Partial, TurnClosed, Wake


def test_hearing_goes_on_when_the_bus_is_killed(
    start: Start, listen: Listen, runtime: Path, kitchen: Path, clock: Path, tmp_path: Path
) -> None:
    """B4. The settings ask for words in the log, which has every turn whether there was a bus or not. Between the two turns there are eight
    seconds, in which the bus comes back on a busy machine, too."""
    first, second = (soundfile.read(path, dtype="int16")[0] for path in (kitchen, clock))
    sound = tmp_path / "both.wav"
    soundfile.write(sound, np.concatenate((first, np.zeros(8 * 16_000, np.int16), second)), 16_000)
    config = tmp_path / "voiced.yaml"
    config.write_text(f"{PATIENT}log: {{text: true}}\nlanes: [{{name: desk, source: 'file:{sound}'}}]\n")
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


def test_a_system_bus_named_by_its_address_is_still_one(
    start: Start, listen: Listen, env: dict[str, str], bus: str, runtime: Path, clock: Path, tmp_path: Path
) -> None:
    """Whoever has not subscribed hears no lane, whatever path the settings name the bus by."""
    (runtime / "elsewhere").symlink_to(runtime / "own")
    config = tmp_path / "voiced.yaml"
    config.write_text(f"bus: {{address: 'unix:path={runtime}/elsewhere/bus'}}\nlanes: [{{name: desk, source: 'file:{clock}'}}]\n")
    heard: list[str] = []
    listener = listen(bus)
    stranger = listener.call(connect(bus))

    def hear(message: Incoming) -> bool:
        if message.path.startswith(ROOT):
            heard.append(message.path)
        return False

    stranger.on_message = hear
    listener.call(stranger.add_match(f"type='signal',path_namespace='{ROOT}'"))
    voiced = start("voiced", "--config", config, env=env | {"DBUS_SYSTEM_BUS_ADDRESS": bus})
    listener.event(Final)
    assert voiced.wait() == 0, voiced.err
    listener.wait(lambda item: item == Presence(True), "its beginning and its end", lambda item: item == Presence(False))
    assert set(heard) == {STATUS_PATH}
    listener.run(stranger.close)


def test_a_bus_service_that_ends_by_itself_ends_the_daemon(env: dict[str, str], bus: str, both: Path, tmp_path: Path) -> None:
    config = tmp_path / "voiced.yaml"
    config.write_text(f"lanes: [{{name: desk, source: 'file:{both}'}}]\n")
    broken = (
        "import sys\nfrom voiced.bus.service import Service\n"
        "async def run(self):\n    self._connection.close()\n    raise ZeroDivisionError('a fault')\nService.run = run\n"
        "from voiced.__main__ import main\nsys.exit(main(sys.argv[1:]))"
    )
    command = [sys.executable, "-c", broken, "--config", str(config), "--bus", bus]
    done = subprocess.run(command, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=80)
    assert done.returncode == 70
    assert "voiced: a fault of its own: ZeroDivisionError: a fault; report it" in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr


def test_a_bus_that_goes_away_for_whole_turns_loses_none_of_them(
    start: Start, listen: Listen, runtime: Path, sample: Path, tmp_path: Path
) -> None:
    """CASES B4: somebody else's bus is killed, and begun again after a turn and more. Lanes never stop hearing; what was said meanwhile can
    be asked for."""
    samples, rate = soundfile.read(sample, dtype="int16", start=152_000, stop=181_840)
    again = tmp_path / "again.wav"
    soundfile.write(again, np.tile(np.concatenate((samples, np.zeros(4 * rate - len(samples), np.int16))), 50), rate)
    config = tmp_path / "voiced.yaml"
    config.write_text(f"{PATIENT}lanes: [{{name: desk, source: 'file:{again}'}}]\n")
    with own_bus(runtime) as address:
        voiced = start("voiced", "--bus", address, "--config", config)
        listener = listen(address)
        listener.lane(Health="ok")
        first = listener.event(Wake)
        listener.event(TurnClosed, first.turn)
        pids = listener.pids()
        listener.mark()
    voiced.says("the bus is gone")
    until(lambda: voiced.err.count(" turn ") >= 3, "two turns that nobody hears of", lambda: voiced.err)
    with own_bus(runtime):
        listener.wait(lambda item: item == Presence(False), "its end and its return", lambda item: item == Presence(True))
        listener.mark()
        assert listener.pids() == pids
        last = listener.event(TurnClosed)
        receipts = listener.turns()
        assert voiced.stop() == 0, voiced.err
    assert (receipts[0]["turn"], receipts[-1]["turn"]) == (first.turn, last.turn)
    assert len(receipts) >= 4
    assert all(after["first"] - before["first"] == pytest.approx(4 * rate, abs=2_000) for before, after in pairwise(receipts))
    assert {receipt["text"] for receipt in receipts} == {"What time is it?"}
