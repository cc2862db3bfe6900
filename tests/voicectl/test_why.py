"""`voicectl why`: a table that names every number and its limit, and advice where a knob would have helped."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from livedaemon import Listener, Start, run
from voicectl.why import SECOND_STAGE, advice, measured, row
from voiced.events import CloseReason, TurnClosed, Wake

PHRASES = ("alexa", "jarvis")


def near(stage1: float, threshold: float = 0.9, phrase: str = "jarvis") -> dict[str, Any]:
    scores = {"stage1": stage1, "stage1_threshold": threshold}
    return {"event": "NearMiss", "lane": "desk", "phrase": phrase, "scores": scores, "margin": stage1 - threshold, "realtime_us": 0}


def test_a_near_miss_says_by_how_much_and_what_to_turn() -> None:
    assert advice(near(0.86), PHRASES) == "missed by 0.04; if that was the phrase: lower wake.phrases[1].threshold to 0.86"
    assert advice(near(0.859), PHRASES).endswith("wake.phrases[1].threshold to 0.85"), "below the score, never above it"
    assert advice(near(0.86, phrase="alexa"), PHRASES).endswith("wake.phrases[0].threshold to 0.86")


def test_a_spike_wants_fewer_hops() -> None:
    assert "lower wake.phrases[1].hops" in advice(near(0.97), PHRASES)


def test_where_no_knob_would_help_none_is_named() -> None:
    assert advice(near(0.5), PHRASES) == ""
    assert advice(near(0.86, phrase="a phrase that is no more"), PHRASES) == ""
    assert advice({"event": "Wake", "phrase": "jarvis", "scores": {}}, PHRASES) == ""


@pytest.mark.parametrize("name", sorted(SECOND_STAGE))
def test_a_refusal_names_the_limits_that_were_not_reached(name: str) -> None:
    scores = {"stage1": 0.95, "stage1_threshold": 0.9, name: -3.0, f"{name}_threshold": 2.0}
    told = advice({"event": "WakeRefused", "phrase": "jarvis", "scores": scores}, PHRASES)
    assert f"{'wake.phrases[1].verify_evidence' if name == 'evidence' else SECOND_STAGE[name]} (it was -3)" in told
    scores[name] = 2.5
    assert advice({"event": "WakeRefused", "phrase": "jarvis", "scores": scores}, PHRASES) == ""


def test_a_row_has_each_number_beside_its_limit() -> None:
    one = near(0.861)
    assert measured(one) == ["stage1 0.861 of 0.9"]
    assert row(one, several=False).endswith("near miss  jarvis            stage1 0.861 of 0.9")
    assert "desk" in row(one, several=True)
    assert measured({"scores": {"likelihood": -1.23456}}) == ["likelihood -1.23"]


def test_it_tells_of_a_running_daemon(start: Start, bus: str, env: dict[str, str], listener: Listener, clock: Path, tmp_path: Path) -> None:
    config = tmp_path / "voiced.yaml"
    config.write_text(f"lanes: [{{name: desk, source: 'file:{clock}'}}]\nendpoint: {{no_speech_ms: 800}}\n")
    start("voiced", "--config", config, "--bus", bus)
    turn = listener.event(Wake)
    listener.event(TurnClosed, turn.turn)
    listener.mark()
    asked = listener.trigger()
    assert listener.event(TurnClosed, asked).reason is CloseReason.NO_SPEECH

    def why(*arguments: str) -> tuple[int, str, str]:
        found = run("voicectl", "--bus", bus, "why", *arguments, env=env)
        return found.returncode, found.stdout, found.stderr

    code, out, err = why()
    heard, client = out.splitlines()
    assert (code, err) == (0, "")
    assert "wake       jarvis            stage1 " in heard and " of 0.5" in heard
    assert "wake       a client asked" in client
    assert "time is it" not in out
    code, out, _ = why("--json", "--lane", "desk", "-n", "1")
    (last,) = map(json.loads, out.splitlines())
    assert (code, last["event"], last["turn"], last["phrase"], last["scores"]) == (0, "Wake", asked, "", {})
    code, out, err = why("--lane", "attic")
    assert (code, out) == (2, "") and "attic" in err and err.count("\n") == 1
