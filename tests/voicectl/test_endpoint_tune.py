"""voicectl endpoint tune: the search on a made-up world by hand, its YAML, and a run on the sample's two turns."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import soundfile
from hypothesis import given, settings
from hypothesis import strategies as st
from livedaemon import SAMPLE
from voicectl.__main__ import main
from voicectl.evaluation import endpoint_tune
from voicectl.evaluation.endpoint_points import changed, profile
from voicectl.evaluation.endpoint_tune import KNOBS, Judged, better, moved, tune
from voiced.api import Settings, contradictions, defaults, parse_settings


def impatient(settings: Settings) -> Judged:
    """A world in which every silence costs its length, and 2 % are cut off for each 100 ms that the last two rules lack to a second."""
    knobs = settings.endpoint
    lacking = max(0.0, 1000 - knobs.silence_ms) + max(0.0, 1000 - knobs.silence_open_ms)
    return Judged(lacking / 5000, knobs.token_silence_ms + knobs.silence_complete_ms + knobs.silence_ms + knobs.silence_open_ms)


def test_the_search_waits_least_within_the_budget() -> None:
    best, judged, candidates = tune(defaults(), impatient, 0.05)
    knobs = best.endpoint
    assert judged == impatient(best)
    assert judged.cut <= 0.05
    assert (knobs.token_silence_ms, knobs.silence_complete_ms) == (0, 200)  # they cost nothing here
    assert knobs.silence_ms + knobs.silence_open_ms <= 1800
    assert judged.wait_ms < impatient(defaults()).wait_ms
    assert 1 < candidates < 200
    assert best.second_pass == defaults().second_pass


@settings(max_examples=20)
@given(st.floats(0, 0.4))
def test_no_candidate_contradicts_itself(budget: float) -> None:
    def judge(candidate: Settings) -> Judged:
        assert not list(contradictions(candidate.endpoint))
        return impatient(candidate)

    best, judged, _ = tune(defaults(), judge, budget)
    assert not better(impatient(defaults()), judged, budget)
    assert parse_settings(endpoint_tune.yaml_text(best.endpoint, "found"), "tuned") == best


def test_a_silence_pushes_the_others_along() -> None:
    quick = moved(defaults(), "silence_ms", 300).endpoint
    assert (quick.silence_complete_ms, quick.silence_ms, quick.silence_open_ms) == (300, 300, defaults().endpoint.silence_open_ms)
    slow = moved(defaults(), "silence_complete_ms", 1000).endpoint
    assert (slow.token_silence_ms, slow.silence_complete_ms, slow.silence_ms) == (defaults().endpoint.token_silence_ms, 1000, 1000)


def test_without_a_way_into_the_budget_the_fewest_are_cut_off() -> None:
    best, judged, _ = tune(defaults(), lambda s: Judged(0.5 - s.endpoint.silence_ms / 10_000, s.endpoint.silence_ms), 0.05)
    assert best.endpoint.silence_ms == profile(defaults(), "dictation").endpoint.silence_ms > max(KNOBS["silence_ms"])
    assert judged.cut > 0.05


def test_a_turn_detectors_threshold_is_searched_where_there_is_one() -> None:
    def judge(candidate: Settings) -> Judged:
        return Judged(0.0, -candidate.endpoint.turn_detector_threshold)

    on = changed(defaults(), turn_detector="smart-turn")
    assert tune(on, judge, 0.05)[0].endpoint.turn_detector_threshold == 0.95
    assert tune(defaults(), judge, 0.05)[0].endpoint.turn_detector_threshold == defaults().endpoint.turn_detector_threshold


def test_the_difference_is_yaml() -> None:
    before = defaults().endpoint
    after = changed(defaults(), silence_ms=1000.0, token_threshold=-0.5).endpoint
    assert endpoint_tune.yaml_diff(before, after).splitlines() == [
        " endpoint:",
        f"-  token_threshold: {before.token_threshold:g}",
        "+  token_threshold: -0.5",
        f"-  silence_ms: {before.silence_ms:g}",
        "+  silence_ms: 1000",
    ]
    assert endpoint_tune.yaml_diff(before, before) == ""
    text = endpoint_tune.yaml_text(after, "found")
    assert text.startswith("# found\nendpoint:\n  token_threshold: -0.5\n")
    assert parse_settings(text, "tuned").endpoint == after


def test_the_whole_command_on_recordings(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """CASES W14: knobs for somebody's own turns."""
    samples, rate = soundfile.read(SAMPLE, dtype="int16", start=166_000, stop=186_000)
    soundfile.write(tmp_path / "clock.wav", samples, rate)
    config = tmp_path / "patient.yaml"
    config.write_text("endpoint: {token_silence_ms: 1500, silence_complete_ms: 1500, silence_ms: 2000, silence_open_ms: 2500}\n")
    command = [
        "endpoint",
        "tune",
        str(tmp_path / "clock.wav"),
        "--cache",
        str(tmp_path / "cache"),
        "--paused",
        "0",
        "--config",
        str(config),
    ]
    assert main([*command, "--out", str(tmp_path / "tuned.yaml")]) == 0
    told = capsys.readouterr().out
    assert told.startswith(" endpoint:\n-  token_silence_ms: 1500\n+  token_silence_ms: ")
    assert "settings judged on 1 turns of 1 recordings; 5.0% may be cut off." in told
    tuned = parse_settings((tmp_path / "tuned.yaml").read_text(), "tuned").endpoint
    assert tuned != defaults().endpoint
    assert main([*command, "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["kept"] is True
    assert "token_silence_ms" in answer["endpoint"]
    assert {name: getattr(tuned, name) for name in answer["endpoint"]} == {name: to["to"] for name, to in answer["endpoint"].items()}
    assert answer["after"]["endpoint"]["median_ms"] < answer["before"]["endpoint"]["median_ms"]
