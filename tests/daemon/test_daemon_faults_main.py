"""The main process is killed in every state: nothing of it is left, and one that is started at once hears. A turn that was open dies with
it, since nothing that is said is written down; what was told before is told.
"""

from __future__ import annotations

import signal
import time
from pathlib import Path

import pytest
from daemon.test_daemon_faults import STATES, lasting, reach
from daemon.test_daemon_lane import CLOCK, Room, room
from faulttable import Fault
from livedaemon import alive, descendants, until
from voiced.bus.client import Presence
from voiced.events import Final, TurnClosed, Wake

__all__ = ["room"]


@pytest.mark.slow
@pytest.mark.parametrize("state", ["asleep", *STATES, "closed"])
def test_a_main_process_that_is_killed_leaves_nothing_and_its_successor_hears(
    room: Room, kitchen: Path, clock: Path, state: str, faults: list[Fault]
) -> None:
    listener = room.listener
    with lasting(room, state):
        turn = room.turn(kitchen)[0].turn if state == "closed" else reach(room, kitchen, state)
        killed, processes = room.process, descendants(room.process.pid)
        assert len(processes) >= 3
        killed.stop(signal.SIGKILL)
        began = time.monotonic()
    listener.wait(lambda item: item == Presence(False), "the end of its name on the bus")
    events = listener.events(turn) if turn else []
    room.start()  # as a service manager would, whatever is left
    seconds = time.monotonic() - began
    until(lambda: not any(map(alive, processes)), "its processes' end", lambda: [pid for pid in processes if alive(pid)])
    assert "Traceback" not in killed.err, killed.err
    finals = [event for event in events if isinstance(event, Final)]
    over = any(isinstance(event, TurnClosed) for event in events)
    assert over == bool(finals) == (state == "closed"), events
    happened = "nothing is left" + ", its turn dies with it" * (bool(turn) and not over)
    faults.append(Fault(state, "main", "SIGKILL", happened, "told before" if finals else "", seconds))
    room.quiet()
    room.assert_well(clock, CLOCK)
    assert listener.event(Wake).turn > turn, "no id comes again"
