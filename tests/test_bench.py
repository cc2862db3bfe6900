"""tools/bench: each bench, in its quick form, finds figures and tells them; the table tells them truly."""

from __future__ import annotations

import json
import math
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benches import late, recordings
from benches.__main__ import BENCHES, CHECKOUT
from benches.hearing import record
from benches.lanes import KEEPS_UP_MS
from benches.replay import Player
from benches.rows import Row, markdown, number
from hypothesis import given
from hypothesis import strategies as st
from voiced.desk import Published
from voiced.events import Partial
from voiced.models import Library
from voiced.settings import Settings


def bench(*arguments: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join(str(CHECKOUT / folder) for folder in ("daemon", "tools", "tests"))
    environment = os.environ | {"PYTHONPATH": path}
    return subprocess.run([sys.executable, "-m", "benches", *arguments], env=environment, capture_output=True, text=True, check=False)


# ── the table ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_an_aim_is_held_against_the_ratio_where_there_is_one() -> None:
    assert Row("b", "w", 12.0, "ms", bare=10.0, aim=1.2).met is True
    assert Row("b", "w", 12.0, "ms", bare=10.0, aim=1.1).met is False
    assert Row("b", "w", 12.0, "ms", aim=11.0).met is False
    assert Row("b", "w", 12.0, "ms").met is None


def test_a_figure_that_was_not_taken_meets_nothing_and_is_no_number() -> None:
    row = Row("b", "w", math.nan, "ms", aim=1.0, note="why")
    assert row.met is None
    assert json.loads(json.dumps(row.plain(), allow_nan=False))["value"] is None
    assert number(row.value) == "—"


@pytest.mark.parametrize(
    ("value", "told"), [(0.0, "0.00"), (0.01234, "0.0123"), (1.2345, "1.23"), (12.345, "12.3"), (123.45, "123"), (12345.6, "12346")]
)
def test_numbers_keep_three_digits(value: float, told: str) -> None:
    assert number(value) == told


def test_the_table_is_markdown_with_the_machine_above() -> None:
    text = markdown({"cores": "2"}, [Row("dbus", "p50", 2.0, "ms", bare=1.0, aim=1.5, note="n")])
    head, empty, names, rule, row = text.splitlines()
    assert (head, empty) == ("cores 2", "")
    assert set(rule) == {"|", "-"}
    assert names.count("|") == rule.count("|") == row.count("|")
    assert [cell.strip() for cell in row.strip("|").split("|")] == ["dbus", "p50", "2.00", "1.00", "ms", "2.00", "1.5", "no", "n"]


# ── the sound and the calls ────────────────────────────────────────────────────────────────────────────────────────────


def test_a_room_is_as_loud_as_it_says() -> None:
    level = 20 * np.log10(np.sqrt(np.mean(np.square(recordings.room(10.0) / 32768))))
    assert level == pytest.approx(-70.0, abs=0.5)  # rounding to int16 adds noise of its own


def test_calls_made_again_give_what_they_gave(library: Library, tmp_path: Path) -> None:
    """The bare calls are the pipeline's: the same model, the same input, the same words."""
    steps = record(Settings(), recordings.sample(), tmp_path)
    calls = [call for step in steps for call in step.calls]
    assert {type(call.owner).__name__ for call in calls} >= {"InferenceSession", "OnlineRecognizer", "OfflineRecognizer"}
    player = Player()
    texts: list[str] = []
    for call in calls:
        if call.verb == "result":
            texts.append(player.stream(call.owner).result.text.strip())
        player.play([call])
    assert [re.sub(r"\W+", " ", text).strip().lower() for text in texts] == ["turn on the lights in the kitchen", "what time is it"]


# ── the command ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_bench_that_there_is_not_is_named() -> None:
    done = bench("speed")
    assert done.returncode == 2
    assert "no bench speed" in done.stderr
    assert "hearing" in done.stderr


def figures(*arguments: str) -> dict[str, dict[str, Any]]:
    done = bench(*arguments, "--quick", "--json")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d UTC", told["machine"]["date"])
    return {row["what"]: row for row in told["rows"]}


@pytest.mark.slow
def test_idle(library: Library) -> None:
    """CASES C1."""
    rows = figures("idle")
    assert {"digital silence", "a room at -70 dBFS", "capture"} <= set(rows)
    assert rows["digital silence"]["value"] > 0
    assert rows["capture"]["value"] is None or rows["capture"]["value"] > 0


@pytest.mark.slow
def test_wake(library: Library) -> None:
    rows = figures("wake")
    if set(rows) == {"all"}:
        pytest.skip(rows["all"]["note"])
    assert len(rows) == 4
    for row in rows.values():
        assert row["bare"] > 0
        assert row["ratio"] == pytest.approx(row["value"] / row["bare"])
    assert "wakes" in next(row["note"] for what, row in rows.items() if what.startswith("the phrase"))


@pytest.mark.slow
def test_hearing(library: Library) -> None:
    rows = figures("hearing")
    assert set(rows) == {"the pipeline, one process", "the daemon, all processes"}
    for row in rows.values():
        assert row["bare"] > 0
        assert row["ratio"] == pytest.approx(row["value"] / row["bare"])


@pytest.mark.slow
def test_partial(library: Library) -> None:
    rows = figures("partial")
    assert 0 < rows["block to partial, p50"]["value"] <= rows["block to partial, p99"]["value"]
    assert all(row["bare"] > 0 for row in rows.values())


@pytest.mark.slow
def test_dbus() -> None:
    rows = figures("dbus")
    measured = [row for row in rows.values() if row["value"] is not None]
    assert measured
    assert all(row["ratio"] > 0 and row["aim"] == 1.5 for row in measured)


@pytest.mark.slow
def test_memory(library: Library) -> None:
    rows = figures("memory")
    parts = [rows[f"PSS, {role}"]["value"] for role in ("main", "lane", "second-pass")]
    assert rows["PSS, all processes"]["value"] == pytest.approx(sum(parts))
    assert all(part > 10 for part in parts)


@pytest.mark.slow
def test_lanes(library: Library) -> None:
    rows = figures("lanes")
    gained = [row for what, row in rows.items() if what.endswith("lateness gained")]
    assert gained and all(row["aim"] == KEEPS_UP_MS for row in gained)
    knee = rows["in real time (the knee)"]["value"]
    assert knee == max((int(what.split()[0]) for what, row in rows.items() if what.endswith("lateness gained") and row["met"]), default=0)
    each, a_core = rows["a lane that hears talk"]["value"], rows["lanes a core"]["value"]
    assert each > 0 and a_core == pytest.approx(1 / each)
    assert all(rows[f"RSS, {name}"]["value"] > 10 for name in ("main", "lane lane1", "second pass"))


@pytest.mark.slow
def test_isolation(library: Library) -> None:
    rows = figures("isolation")
    assert {what.split(":")[0] for what in rows} == {"a lane dies", "a source sends half a frame", "a disk stands still"}
    assert all((row["aim"] == 1.1 and row["value"] is None) or row["bare"] > 0 for row in rows.values())


@pytest.mark.slow
def test_peers(library: Library) -> None:
    rows = figures("peers")
    taken = [row for row in rows.values() if row["value"] is not None]  # PocketSphinx may not be had here
    assert len(taken) in (6, 8)
    assert all(row["value"] > 0 and row["bare"] > 0 for row in taken)
    late_ms = [row for what, row in rows.items() if what.startswith("a turn's end")]
    assert late_ms[0]["bare"] > late_ms[1]["bare"] > 500  # each waits for its silence


# ── lateness ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def published(lane: str, audio_s: float, at_s: float) -> Published:
    return Published(lane, 1, Partial(round(audio_s * 16_000), 1, "a"), round(at_s * 1e6), 0)


@given(st.floats(-50, 500), st.lists(st.floats(0, 1000), min_size=2, max_size=3, unique=True))
def test_a_lane_that_falls_behind_is_later_the_longer_it_hears(gained_ms: float, born_s: list[float]) -> None:
    """Whenever the lanes began."""
    heard = [
        published(f"lane{number}", audio_s, born + audio_s * (1 + gained_ms / 1000))
        for number, born in enumerate(born_s)
        for audio_s in (1.0, 2.0, 3.5, 9.0)
    ]
    lanes = late.partials(heard)
    assert late.slope(lanes) == pytest.approx(gained_ms, abs=0.01)
    assert min(late.of(lanes)) == 0


def test_nobody_heard_is_no_slope() -> None:
    assert math.isnan(late.slope({}))
    assert math.isnan(late.slope(late.partials([published("a", 1.0, 1.0)])))


def test_every_bench_is_tested() -> None:
    assert set(BENCHES) == {name.removeprefix("test_") for name in globals() if name.removeprefix("test_") in BENCHES}
