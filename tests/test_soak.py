"""tools/soak: its day, its slope, what it calls broken, and short runs of the pipeline and of a whole daemon."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from benches import soak, soak_daemon, soaked
from benches.soaked import Look, Process, Result
from livedaemon import alive, descendants, until
from voiced.desk import Published
from voiced.events import CloseReason, Event, TurnClosed, Wake

CHECKOUT = Path(__file__).resolve().parents[1]


def soaks(*arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(str(CHECKOUT / room) for room in ("daemon", "tools"))}
    command = [sys.executable, "-m", "benches.soak", *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)


def looks(*own_mb: float) -> tuple[Look, ...]:
    return tuple(Look(float(hour), own, own + 60, 6, 1) for hour, own in enumerate(own_mb))


LEVEL = looks(*[200.0] * 11)
LEAKS = (*LEVEL[:-1], Look(10.0, 200.0, 260.0, 9, 2))
WHOLE = Result(10.0, 3, 3, 3, 3, 3, (Process("main", LEVEL, 0.0), Process("second pass", LEVEL, 0.0)), 60.0)


def other(process: Process) -> Result:
    return replace(WHOLE, processes=(WHOLE.processes[0], process))


@pytest.mark.parametrize(("hours", "turns"), [(0.02, 4), (0.1, 10), (0.5, 3)])
def test_a_day_is_as_long_as_asked_and_says_every_turn(hours: float, turns: int) -> None:
    periods = list(soaked.day(hours, turns))
    said = soaked.pieces()[0]
    assert len(periods) == turns
    assert all(any(np.array_equal(period.said, one) for one in said) for period in periods)
    pieces = [piece for period in periods for piece in (*period.quiet, period.said, *period.talk)]
    assert sum(map(len, pieces)) == round(hours * soaked.HOUR / turns) * turns


def test_turns_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match=r"1000 turns do not fit into 0\.1 hours: each takes"):
        soaked.day(0.1, 1000)


def test_slope_is_own_memory_an_hour_once_warm() -> None:
    assert Process.of("main", looks(200.0, 200.5, 201.0, 201.5)).slope_mb == pytest.approx(0.5)
    assert Process.of("main", looks(200.0, 300.0)).slope_mb == 0.0
    assert Process.of("main", looks(100.0, *[200.0] * 5)).slope_mb == pytest.approx(0.0)


@pytest.mark.parametrize(
    ("result", "said"),
    [
        (WHOLE, []),
        (replace(WHOLE, wakes=4), ["4 wakes, expected 3"]),
        (replace(WHOLE, finals=2, closed=2), ["2 finals, expected 3", "2 closed turns, expected 3"]),
        (replace(WHOLE, wrong=("lane_restarts is 1, expected 0",)), ["lane_restarts is 1, expected 0"]),
        (other(Process("lane", LEVEL, 2.5)), ["lane: memory grows by 2.50 MB an hour of sound, at most 1 expected"]),
        (other(Process("lane", LEVEL[:2], 2.5)), []),
        (other(Process("lane", LEAKS, 0.0)), [
            "lane: open files went from 6 to 9, expected to stay", "lane: threads went from 1 to 2, expected to stay"]),
        (other(Process("lane", (Look(0.0, 150.0, 210.0, 4, 1), *LEVEL[1:]), 0.0)), []),
    ],
    ids=["whole", "a wake too many", "a turn lost", "else", "it grows", "too short to tell", "leaks", "while it warms up"],
)  # fmt: skip
def test_what_does_not_hold_is_named(result: Result, said: list[str]) -> None:
    assert result.broken() == said


def test_a_look_is_at_another_process() -> None:
    """What it holds, its open files, its threads; of one that has ended there is none."""
    holds = "import sys, threading; held = bytearray(b'1') * 50_000_000; file = open('/dev/null')\n"
    holds += "threading.Thread(target=sys.stdin.read).start(); print(flush=True)"
    with subprocess.Popen([sys.executable, "-c", holds], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout
        process.stdout.readline()
        seen = Look.at(process.pid, 1.0)
    assert 50 < seen.own_mb < 80
    assert (seen.files, seen.threads) == (4, 2)
    with pytest.raises(OSError, match=str(process.pid)):
        Look.at(process.pid, 2.0)


def told(*events: tuple[int, Event]) -> soak_daemon.Told:
    found = soak_daemon.Told()
    for sequence, event in events:
        found.take(Published("soak", sequence, event, 0, 0))
    return found


def wake(turn: int) -> Wake:
    return Wake(0, turn, "jarvis", 0, 0.9, "heard")


def test_what_a_client_was_told_has_no_holes() -> None:
    closed = TurnClosed(0, 8, CloseReason.SILENCE, 0, 1)
    assert told((1, wake(8)), (2, closed), (3, wake(16))).wrong() == []
    assert told((1, wake(8)), (3, closed)).wrong() == ["1 events were skipped on the bus"]
    assert told((1, wake(8)), (2, wake(8)), (3, wake(32))).wrong() == ["turn ids go on by 0, 24, expected 8"]


def test_c6_a_short_soak_wakes_as_often_as_was_said() -> None:
    """CASES C6, small: `tools/soak --pipeline` is the long one."""
    done = soaks("--pipeline", "--hours", "0.03", "--turns", "6", "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(done.stdout)
    assert (found["said"], found["wakes"], found["finals"], found["closed"]) == (6, 6, 6, 6)
    (process,) = found["processes"]
    assert len({look["files"] for look in process["looks"]}) == 1


@pytest.mark.slow
def test_c6_a_short_soak_of_a_whole_daemon_loses_nothing_and_leaves_nothing() -> None:
    """CASES C6, small: `tools/soak` is the long one."""
    done = soaks("--hours", "0.03", "--turns", "6", "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(done.stdout)
    assert (found["said"], found["wakes"], found["finals"], found["closed"]) == (6, 6, 6, 6)
    assert [process["name"] for process in found["processes"]] == ["main", "lane soak", "second pass"]
    assert all(len(process["looks"]) == 6 for process in found["processes"])
    assert found["broken"] == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("victim", "said"),
    [
        (b"\0:second-pass\0", ["second pass: the process has ended", "second_pass_restarts is 1, expected 0"]),
        (b"\0--config\0", ["voiced ended with -9, expected 0"]),
    ],
    ids=["second pass", "main"],
)
def test_a_soak_whose_process_is_killed_says_so_and_ends(victim: bytes, said: list[str]) -> None:
    killed: list[int] = []

    def kill(_: float, __: int) -> None:
        def is_victim(pid: int) -> bool:
            return alive(pid) and victim in Path(f"/proc/{pid}/cmdline").read_bytes()

        if not killed:
            killed.extend(filter(is_victim, descendants(os.getpid())))
            os.kill(killed[0], signal.SIGKILL)
            until(lambda: not alive(killed[0]), "its end")

    broken = soak_daemon.run(list(soaked.day(0.03, 6)), kill).broken()
    assert set(said) <= set(broken), broken


@pytest.mark.parametrize("options", [["--hours", "0"], ["--turns", "0"], ["--hours", "nan"], ["--hours", "0.1", "--turns", "1000"]])
def test_bad_options_are_one_line(options: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        soak.main(options)
    assert ended.value.code == 2
    assert capsys.readouterr().err.splitlines()[-1].startswith("tools/soak: error: ")
