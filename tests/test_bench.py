"""tools/bench: each bench, in its quick form, finds figures and tells them; the table tells them truly."""

from __future__ import annotations

import asyncio
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
from benches import busy, fair, isolation, lanes, late, recordings
from benches.__main__ import BENCHES, CHECKOUT
from benches.hearing import record
from benches.lanes import KEEPS_UP_MS, Measured
from benches.replay import Player
from benches.rows import Row, markdown, number
from hypothesis import given
from hypothesis import strategies as st
from voiced.desk import Published
from voiced.events import Partial, Wake
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
    assert Row("b", "w", 0.5, "ms", bare=0.0, aim=1.1).met is None, "nothing is so many times nothing"


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
    assert all(rows[f"RSS, {name}"]["value"] > 10 for name in ("main", "the greatest lane", "second pass"))
    assert rows["1 lane: frame latency"]["value"] > 0


@pytest.mark.slow
def test_fair(library: Library) -> None:
    rows = figures("fair")
    assert set(rows) == {"mean wait, the lane that waited longest", "served twice while another waited"}
    assert rows["served twice while another waited"]["value"] == 0


@pytest.mark.slow
def test_isolation(library: Library) -> None:
    rows = figures("isolation")
    assert {what.split(":")[0] for what in rows} == {"a lane dies", "a source sends half a frame", "a disk stands still"}
    assert all((row["aim"] == 1.1 and row["value"] is None) or row["bare"] > 0 for row in rows.values())


@pytest.mark.slow
def test_busy(library: Library) -> None:
    """CASES C11."""
    rows = figures("busy")
    assert set(rows) == {"wake after its phrase, p50", "wake after its phrase, p95"}
    assert all(row["aim"] == 2.0 and row["value"] > 0 and row["bare"] > 0 for row in rows.values())


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


# ── lanes: the knee, the condition, the sizing ─────────────────────────────────────────────────────────────────────────


def measured(lanes: int, *, gained_ms: float = 0.0, heard: int | None = None, cores: float = 0.1, **more: Any) -> Measured:
    """So many lanes for 30 s that fall behind by so much each second, of which `heard` had partials, at so many cores a lane."""
    points = [(float(second), gained_ms * second) for second in range(10)]
    names = [f"lane lane{number + 1}" for number in range(lanes)]
    costs = {"main": 3.0, "second pass": 3.0} | dict.fromkeys(names, 30.0 * cores)
    sizes = {"main": 30.0, "second pass": 120.0} | dict.fromkeys(names, 100.0)
    given: dict[str, Any] = {
        "late": dict.fromkeys(names[:heard], points),
        "numbers": {},
        "cpu_s": costs,
        "pss_mb": sizes,
        "rss_mb": {name: (size, size + 1) for name, size in sizes.items()},
    }
    return Measured(lanes, 30.0, **given | more)


@given(st.integers(1, 32), st.data())
def test_the_knee_is_found_whatever_it_is(most: int, data: st.DataObject) -> None:
    """By one look at the ends, and a bisection between them; nothing is measured twice."""
    true = data.draw(st.integers(0, most))
    looks: list[int] = []

    async def take(lanes: int) -> Measured:
        looks.append(lanes)
        return measured(lanes, gained_ms=0.0 if lanes <= true else KEEPS_UP_MS + 1)

    found, tried = asyncio.run(lanes.knee(take, most))
    assert found == true
    assert sorted(looks) == sorted(tried) and max(looks, default=0) <= most
    assert len(looks) <= 2 + math.ceil(math.log2(most))


def test_a_lane_that_nobody_heard_of_does_not_keep_up_nor_one_that_died() -> None:
    assert measured(2).keeps_up and not measured(2, heard=1).keeps_up and not measured(2, heard=0).keeps_up
    died = measured(2, ended=1)
    assert not died.keeps_up and "; 1 processes did not live to the end" in lanes.rows(died)[0].note


def test_the_condition_is_reckoned_from_what_a_lane_costs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two cores, a tenth of one a lane: room for twenty, of which eight were tried."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    row = lanes.condition(8, 8, measured(1, cores=0.1))
    assert row.bare == pytest.approx(20.0)
    assert (row.value, row.met) == (8, True)
    assert "W 2 cores, B 1, chunk 320 ms, t 32.0 ms; no more than 8 were tried" in row.note
    assert lanes.condition(21, 32, measured(1, cores=0.1)).met is False


def test_a_board_has_room_for_what_is_left_of_half_its_memory() -> None:
    rows = {row.what: row for row in lanes.sizing(measured(2, cores=0.2))}
    assert rows["a lane that hears talk"].value == pytest.approx(0.2 + 0.2 / 2)
    assert rows["lanes a core"].value == pytest.approx(1 / 0.3)
    found = [rows[f"lanes in {board} MB"] for board in (512, 2048, 8192)]
    assert [row.value for row in found] == [1, 8, 8]
    assert [row.note.rpartition("a lane")[2] for row in found] == [
        "; memory is what limits", "", " give 39; no more than 8 are allowed",
    ]  # fmt: skip
    assert [what for what in rows if what.startswith("RSS")] == ["RSS, main", "RSS, second pass", "RSS, the greatest lane"]


def test_frame_latency_is_the_mean_of_all_windows_and_beside_the_vendors_aim() -> None:
    """A lane that heard thrice as much counts thrice; what was waited for is told apart."""
    numbers: dict[str, float] = {}
    for lane, count, late_ms, waited_ms in (("lane1", 300, 10.0, 4.0), ("lane2", 100, 50.0, 24.0)):
        for name, mean in (("scribe_late", late_ms), ("scribe_waits", waited_ms)):
            numbers |= {f"{lane}.{name}_count": count, f"{lane}.{name}_mean_ms": mean}
    rows = {row.what: row for row in lanes.rows(measured(2, numbers=numbers))}
    row = rows["2 lanes: frame latency"]
    assert (row.value, row.aim, row.met) == (20.0, 50.0, True) and "9.00 of it before its turn came" in row.note
    nothing = {row.what: row for row in lanes.rows(measured(2))}["2 lanes: frame latency"]
    assert math.isnan(nothing.value) and nothing.met is None


# ── fairness ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_lane_that_waits_twice_as_long_is_told() -> None:
    waits = {"lane1": (100.0, 100.0, 100.0), "lane2": (150.0, 140.0, 160.0), "lane3": (900.0,)}
    asked = [fair.Asked(lane, at, at + 1, at + wait) for lane, of in waits.items() for at, wait in enumerate(of)]
    wait, _ = fair.rows(asked)
    assert (wait.value, wait.bare, wait.met) == (150.0, 100.0, True) and "7 requests of 2 lanes" in wait.note  # one request says nothing
    assert fair.rows([*asked, *(fair.Asked("lane4", 0, 1, 201) for _ in range(3))])[0].met is False
    assert math.isnan(fair.rows(asked[:3])[0].value)


def test_who_is_served_twice_while_another_waits_is_counted() -> None:
    """A round is one of each; the same lane's own requests are no other's."""
    waiting = fair.Asked("a", 0, 100, 110)
    once = [fair.Asked("b", 1, 10, 20), fair.Asked("c", 2, 20, None), fair.Asked("a", 0, 5, 9), fair.Asked("b", 90, 101, 120)]
    assert fair.overtaken([waiting, *once]) == 0
    again = [fair.Asked("b", 30, 40, 50), fair.Asked("b", 50, 60, 70)]
    assert fair.overtaken([waiting, *once, *again]) == 2
    assert fair.rows([waiting, *once, *again])[1].met is False


# ── isolation ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_trouble_is_told_apart_from_calm_and_from_what_lies_between() -> None:
    heard = [
        (phase, published(lane, at, at + late_ms / 1000))
        for lane in ("one", "two")
        for at, phase, late_ms in (
            (1.0, "", 10.0),
            (2.0, "", 20.0),
            (3.0, "between", 0.0),
            (4.0, "a lane dies", 15.0),
            (5.0, "other", 99.0),
        )
    ]
    p50, p95 = isolation.rows("a lane dies", heard)
    assert [p50.value, p50.bare, p95.value, p95.bare] == pytest.approx([15.0, 10.0, 15.0, 20.0])
    assert (p50.met, p95.met) == (False, True)
    assert "4 in calm; ratio 0.75 to 1.50" in p50.note
    (nothing,) = isolation.rows("a disk stands still", heard)
    assert math.isnan(nothing.value) and nothing.note == "no partial was heard"


# ── busy ───────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_wakes_time_is_from_its_phrases_end_and_what_came_between_does_not_count() -> None:
    """The lane's sound began at 5 s by the clock, and the fastest wake is told as its sound is there."""
    heard = [
        (phase, Published("bench", 1, Wake(round(at * 16_000), 1, "jarvis", round((at - 0.2) * 16_000), 0.5, ""), told_us, 0))
        for phase, at, late_ms in (
            (busy.BETWEEN, 1.0, 0.0),
            (busy.CALM, 3.0, 10.0),
            (busy.CALM, 5.0, 40.0),
            (busy.BETWEEN, 7.0, 500.0),
            (busy.BUSY, 9.0, 100.0),
            (busy.BUSY, 11.0, 300.0),
        )
        for told_us in [round((5 + at) * 1e6 + late_ms * 1000)]
    ]
    p50, p95 = busy.rows(heard)
    assert [p50.value, p50.bare, p95.value, p95.bare] == pytest.approx([300.0, 210.0, 500.0, 240.0])
    assert (p50.met, p95.met) == (True, False)
    assert p50.note == "2 wakes, beside 2 in calm"
    (nothing,) = busy.rows(heard[:3])
    assert math.isnan(nothing.value) and nothing.note == "nothing woke"


def test_a_disk_that_stands_still_keeps_its_writer_waiting_and_then_takes_all(tmp_path: Path) -> None:
    """Turn about, as often as one likes."""
    path = tmp_path / "lane1.txt"
    path.touch()

    async def write(file: Any) -> None:
        await asyncio.to_thread(file.write, b"a line\n")

    async def look() -> None:
        disk = isolation.Disk([path])
        with path.open("ab", buffering=0) as file:
            for _ in range(2):
                await write(file)
                still = asyncio.create_task(disk.stand_still())
                await asyncio.sleep(0)
                writing = asyncio.create_task(write(file))
                assert await asyncio.wait([writing], timeout=0.2) == (set(), {writing})
                still.cancel()
                await asyncio.wait_for(writing, 40)
        disk.close()

    asyncio.run(look())


def test_every_bench_is_tested() -> None:
    assert set(BENCHES) == {name.removeprefix("test_") for name in globals() if name.removeprefix("test_") in BENCHES}
