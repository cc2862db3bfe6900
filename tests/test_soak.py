"""tools/soak: its day, its slope, what it calls broken, and a short run with the real models."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from benches import soak
from benches.soak import Look, Result

CHECKOUT = Path(__file__).resolve().parents[1]


def soaked(*arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(str(CHECKOUT / room) for room in ("daemon", "tools"))}
    command = [sys.executable, "-m", "benches.soak", *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)


def looks(*rss_mb: float) -> tuple[Look, ...]:
    return tuple(Look(float(hour), rss, 6, 1) for hour, rss in enumerate(rss_mb))


WHOLE = Result(10.0, 3, 3, 3, 3, 0.0, looks(*[200.0] * 11), 60.0)


@pytest.mark.parametrize(("hours", "turns"), [(0.02, 4), (0.1, 10), (0.5, 3)])
def test_a_day_is_as_long_as_asked_and_says_every_turn(hours: float, turns: int) -> None:
    pieces = list(soak.day(hours, turns))
    said = soak.pieces()[0]
    assert sum(map(len, pieces)) == round(hours * soak.HOUR / turns) * turns
    assert sum(any(np.array_equal(piece, one) for one in said) for piece in pieces) == turns


def test_turns_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match=r"1000 turns do not fit into 0\.1 hours: each takes"):
        next(soak.day(0.1, 1000))


def test_slope_is_memory_an_hour() -> None:
    assert soak.slope(looks(200.0, 200.5, 201.0, 201.5)) == pytest.approx(0.5)
    assert soak.slope(looks(200.0, 300.0)) == 0.0


@pytest.mark.parametrize(
    ("result", "said"),
    [
        (WHOLE, []),
        (replace(WHOLE, wakes=4), ["4 wakes, expected 3"]),
        (replace(WHOLE, finals=2, closed=2), ["2 finals, expected 3", "2 closed turns, expected 3"]),
        (replace(WHOLE, slope_mb=2.5), ["memory grows by 2.50 MB an hour of sound, at most 1 expected"]),
        (replace(WHOLE, slope_mb=2.5, hours=1.0), []),
        (replace(WHOLE, looks=(*WHOLE.looks[:-1], Look(10.0, 200.0, 9, 2))), [
            "open files went from 6 to 9, expected to stay", "threads went from 1 to 2, expected to stay"]),
        (replace(WHOLE, looks=(Look(0.0, 150.0, 4, 1), *WHOLE.looks[1:])), []),
    ],
    ids=["whole", "a wake too many", "a turn lost", "it grows", "too short to tell", "leaks", "while it warms up"],
)  # fmt: skip
def test_what_does_not_hold_is_named(result: Result, said: list[str]) -> None:
    assert result.broken() == said


def test_c6_a_short_soak_wakes_as_often_as_was_said() -> None:
    """CASES C6, small: `tools/soak` is the long one."""
    done = soaked("--hours", "0.03", "--turns", "6", "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    told = json.loads(done.stdout)
    assert (told["said"], told["wakes"], told["finals"], told["closed"]) == (6, 6, 6, 6)
    assert len({look["files"] for look in told["looks"]}) == 1


def test_bad_options_are_one_line() -> None:
    for options in (["--hours", "0"], ["--turns", "0"], ["--hours", "0.1", "--turns", "1000"]):
        done = soaked(*options)
        assert done.returncode == 2
        assert done.stderr.splitlines()[-1].startswith("tools/soak: error: ")
