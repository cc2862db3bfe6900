"""`voicectl turns`, `trace` and `stats`: of a real daemon's turn, and of events that were saved."""

from __future__ import annotations

import importlib.util
import json
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest
from livedaemon import PATIENT, SAMPLE, Listener, Start, run
from voicectl import timeline
from voicectl.stats import HEAD, line
from voicectl.timeline import STRIP, Kind, rows, span_ms, strip, svg, text, ticks
from voicectl.trace import saved
from voicectl.turns import row
from voiced.api import InputError, UsageError
from voiced.events import CloseReason, Endpoint, EndSign, Event, Final, LikelyEnd, Partial, SpeechStarted, TextSource, TurnClosed, Wake
from voiced.plain import encode as plain_event

EVENTS: tuple[Event, ...] = (
    Wake(20_000, 3, "jarvis", 16_000, 0.97, "sustained", {"stage1": 0.97, "stage1_threshold": 0.9}),
    SpeechStarted(24_000, 3, 22_400),
    Partial(40_000, 3, "turn <on>", 0, 38_000, 36_000),
    Partial(48_000, 3, "turn <on> the lights", 9, 46_000, 44_000),
    LikelyEnd(49_600, 3, EndSign.END_TOKEN, 1),
    Endpoint(51_200, 3, CloseReason.END_TOKEN, 48_000, "turn <on> the lights", "end_token", {"end_token_ms": 20.0}, 46_400),
    Final(51_200, 3, "Turn <on> the lights.", TextSource.SECOND_PASS, "turn <on> the lights", "", {"second_pass_ms": 50.0}, attempt=1),
    TurnClosed(51_200, 3, CloseReason.END_TOKEN, 16_000, 51_200),
)


@pytest.fixture
def events(tmp_path: Path) -> Path:
    path = tmp_path / "events.jsonl"
    path.write_text("".join(json.dumps({"file": "a.wav", **plain_event(event)}) + "\n" for event in EVENTS))
    return path


def test_saved_events_become_a_timeline(events: Path) -> None:
    said = "\n".join(text(saved(events, 3)))
    for part in ("jarvis; end token", "Turn <on> the lights.  (second pass)", "rule end_token", "margins: end_token_ms 20", "reckoned"):
        assert part in said
    order = [said.index(what) for what in ("phrase end", "partial", "likely end", "last speech", "endpoint", "final ")]
    assert order == sorted(order)
    assert said.endswith("final: finalization            200 ms")
    assert saved(events, None) == saved(events, 3)


def test_a_file_that_gives_no_turn_is_refused_in_one_line(events: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="expected one of 3"):
        saved(events, 4)
    for said, complaint in (
        ("not json\n", "1: expected one JSON object a line"),
        ("[1]\n", "1: expected one JSON object"),
        ('{"event": "Sunrise"}\n', "no such event: 'Sunrise'"),
        ("\n", "has no turn that is over"),
    ):
        path = tmp_path / "wrong.jsonl"
        path.write_text(said)
        with pytest.raises(InputError, match=complaint):
            saved(path, None)
    with pytest.raises(InputError, match="cannot be read"):
        saved(tmp_path / "absent.jsonl", None)


def test_a_picture_has_every_row_and_only_what_xml_may_hold(events: Path) -> None:
    receipt = saved(events, 3)
    names = [row.name for row in rows(receipt)]
    assert names == [
        "speech", "phrase end", "stage 1", "stage 2", "hand-over", "partial", "partial", "second pass 1", "likely end", "last speech",
        "end token", "endpoint", "final",
    ]  # fmt: skip
    drawn = ET.fromstring(svg(receipt | {"text": "a \0 & <b>"}))
    said = [each.text for each in drawn.iter("{http://www.w3.org/2000/svg}text")]
    assert set(names) <= set(said) and "turn 3: a   & <b>  (end token)" in said and "<on>" in said
    boxes = [each.attrib for each in drawn.iter("{http://www.w3.org/2000/svg}rect")][1:]
    assert len(boxes) == sum(len(row.spans) for row in rows(receipt))
    assert all(timeline.LEFT <= float(box["x"]) <= timeline.LEFT + timeline.WIDTH for box in boxes)


def test_what_was_computed_for_nothing_is_drawn_as_such(events: Path) -> None:
    receipt = saved(events, 3)
    attempts: list[dict[str, Any]] = [
        {"attempt": 1, "outcome": "for nothing", "wasted": True, "compute_ms": 40, "queued_ms": 1, "started_ms": 5, "done_ms": 45},
        {"attempt": 2, "outcome": "taken back", "wasted": False, "compute_ms": 0.0, "queued_ms": 50.0},
    ]  # fmt: skip
    first, second = (row for row in rows(receipt | {"attempts": attempts}) if row.name.startswith("second pass"))
    assert [(span.begin_ms, span.end_ms, span.kind) for span in first.spans] == [(1, 5, Kind.WAIT), (5, 45, Kind.WASTED)]
    assert second.spans == ()


def test_a_strip_shows_where_and_when() -> None:
    assert strip(0, None, 0, 100).startswith("●·") and len(strip(0, None, 0, 100)) == STRIP
    assert strip(50, 75, 0, 100) == "·" * 20 + "●" + "─" * 9 + "▸" + "·" * 9
    assert strip(-5, 200, 0, 100) == "●" + "─" * 38 + "▸"
    assert span_ms([]) == (0, 1)
    assert ticks(-150, 1000) == [-200 + 200 * number for number in range(1, 7)]


def test_a_png_is_drawn(events: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="the picture wants matplotlib")
    timeline.png(tmp_path / "turn.png", saved(events, 3))
    assert (tmp_path / "turn.png").read_bytes().startswith(b"\x89PNG")


def test_without_matplotlib_a_png_is_refused_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(UsageError, match=r"--png: is drawn with matplotlib, which is not installed; .*, or take --svg"):
        timeline.can_draw()


def test_rows_of_turns_and_of_percentiles() -> None:
    one = {"realtime_us": 0, "turn": 8, "lane": "desk", "phrase": "", "reason": "no speech", "latencies": {}}
    assert row(one, several=True).split()[1:] == ["desk", "8", "a", "client", "no", "speech", "(no", "text)"]
    said = one | {"phrase": "jarvis", "text": "Hello.", "latencies": {"final.finalization_ms": 310.4}}
    assert row(said, several=False).split()[1:] == ["8", "jarvis", "no", "speech", "310", "ms", "Hello."]
    assert "desk" not in row(one, several=False)
    found = line({"latency": "final.finalization_ms", "length": "to 2 s", "count": 3.0, "p50": 310.4, "p90": 400, "p95": 400, "p99": 400})
    assert found.split() == ["final:", "finalization", "to", "2", "s", "3", "310", "400", "400", "400"]
    assert len(found) == len(HEAD)


def test_they_tell_of_a_running_daemon(
    start: Start, bus: str, env: dict[str, str], listener: Listener, clock: Path, tmp_path: Path
) -> None:
    """Issue 13, item 3: each turn has one record by sample and by clock."""
    config = tmp_path / "voiced.yaml"
    config.write_text(f"{PATIENT}lanes: [{{name: desk, source: 'file:{clock}'}}]\nendpoint: {{no_speech_ms: 800}}\n")
    start("voiced", "--config", config, "--bus", bus)
    turn = listener.event(TurnClosed).turn

    def ctl(*arguments: str | Path) -> tuple[int, str, str]:
        found = run("voicectl", "--bus", bus, *arguments, env=env)
        return found.returncode, found.stdout, found.stderr

    code, out, err = ctl("turns", "--json")
    (listed,) = map(json.loads, out.splitlines())
    assert (code, err, listed["turn"], listed["phrase"], listed["text"]) == (0, "", turn, "jarvis", "What time is it?")
    picture = tmp_path / "turn.svg"
    code, out, err = ctl("trace", str(turn), "--json", "--svg", picture)
    receipt = json.loads(out)
    assert (code, err) == (0, "") and ET.parse(picture)
    assert receipt["clocked"] and receipt["text"] == listed["text"] and receipt["rule"]
    marks = {mark["what"]: mark for mark in receipt["marks"]}
    assert {"phrase end", "stage 1", "stage 2", "hand-over", "speech", "partial", "likely end", "endpoint", "final"} <= marks.keys()
    steps = [marks[what]["clock_ms"] for what in ("stage 1", "stage 2", "hand-over", "partial", "endpoint", "final")]
    assert steps == sorted(steps)
    used = receipt["attempts"][-1]
    assert used["outcome"] == "used" and used["queued_ms"] <= used["started_ms"] <= used["done_ms"] and used["compute_ms"] > 0
    assert {f"final.{name}_ms" for name in ("algorithmic", "computational", "finalization")} <= receipt["latencies"].keys()
    assert {f"partial.{name}_ms" for name in ("algorithmic", "computational", "time_to_first_token")} <= receipt["latencies"].keys()

    code, out, err = ctl("stats", "--json")
    stats = [json.loads(one) for one in out.splitlines()]
    assert {one["latency"] for one in stats} == receipt["latencies"].keys()
    assert {one["length"] for one in stats} == {"to 2 s", "all"}
    code, out, err = ctl("trace", "1")
    assert (code, out, err.count("\n")) == (2, "", 1) and "no receipt of turn 1" in err
    code, out, err = ctl("stats", "--lane", "attic")
    assert (code, out) == (2, "") and "attic" in err


@pytest.mark.slow
def test_a_picture_without_a_daemon(env: dict[str, str], tmp_path: Path) -> None:
    heard = run("voiced", "--input", SAMPLE, "--json", env=env)
    assert heard.returncode == 0, heard.stderr
    path = tmp_path / "heard.jsonl"
    path.write_text(heard.stdout)
    found = run("voicectl", "trace", "--events", path, env=env)
    assert (found.returncode, found.stderr) == (0, "") and "reckoned" in found.stdout and "final: finalization" in found.stdout
