"""voicectl vad eval: seconds against labels by hand and by hypothesis, and a run on the sample recording."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import cast

import numpy as np
import pytest
import soundfile
from hypothesis import given
from hypothesis import strategies as st
from livedaemon import SAMPLE
from voicectl.__main__ import main
from voicectl.evaluation import vad_lateness, vad_measure
from voicectl.evaluation.endpoint_queries import Query
from voicectl.evaluation.sounds import VAD_HOP
from voicectl.evaluation.vad_measure import Labelled, Rules, Span, overlap, spans, total
from voiced.api import Samples, SegmentRules, Vad, defaults

LABELS = "sample,0,1.905,0,1.905,3.405,1,3.405,5.905,0,5.905,7.59,1,7.59,9,0"
"""The sample's first query and its talk (sample.json), two seconds after the phrase."""


@st.composite
def sorted_spans(draw: st.DrawFn) -> tuple[Span, ...]:
    edges = sorted(draw(st.sets(st.integers(0, 60), max_size=12)))
    return tuple(zip(edges[::2], edges[1::2], strict=False))


@given(sorted_spans(), sorted_spans())
def test_an_overlap_is_what_both_cover(one: tuple[Span, ...], other: tuple[Span, ...]) -> None:
    def mask(found: tuple[Span, ...]) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        there = np.zeros(60, bool)
        for start, end in found:
            there[start:end] = True
        return there

    assert overlap(one, other) == overlap(other, one) == int((mask(one) & mask(other)).sum())
    assert total(one) == int(mask(one).sum())


def test_labels_become_samples() -> None:
    assert spans("a,0.000,0.403,0,0.403,1.204,1,1.204,1.440,0,1.440,2.470,1") == ((6448, 19_264), (23_040, 39_520))


@pytest.mark.parametrize(
    ("labels", "why"),
    [
        ("a", "not start, end, flag"),
        ("a,0,1", "not start, end"),
        ("a,0,1,0", "no speech"),
        ("a,0,2,1,1,3,1", "backwards"),
        ("a,2,1,1", "back"),
    ],
)
def test_labels_that_are_none_are_refused(labels: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        spans(labels)


def test_the_cost_by_hand() -> None:
    """Ten windows: speech is labelled in 2 to 7, the VAD hears it in 3 to 8. One of six is missed, one of four is a false alarm."""
    heard = tuple(1.0 if 3 <= at <= 8 else 0.0 for at in range(10))
    found = vad_measure.figures(
        [Labelled("a", 10 * VAD_HOP, heard, ((2 * VAD_HOP, 8 * VAD_HOP),))], Rules("r", "", SegmentRules(0.5, 0.35, 0, 0, 0))
    )
    assert (found.missed.value, found.false_alarm.value) == (1 / 6, 1 / 4)
    assert found.cost == pytest.approx(0.75 / 6 + 0.25 / 4)
    assert found.missed_s == found.false_alarm_s == VAD_HOP / 16_000


def test_ours_is_what_the_heart_reads() -> None:
    ours, silero = vad_measure.all_rules(defaults())
    assert (ours.rules.min_silence, ours.rules.pad) == (0, 0)
    assert ours.rules.min_speech == defaults().vad.min_speech_ms * 16
    assert (silero.rules.min_speech, silero.rules.min_silence, silero.rules.pad) == (4000, 1600, 480)


def test_a_labelled_recording(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = [
        {"path": str(SAMPLE), "role": "endpoint", "source": "ours", "seconds": 9, "vad_labels": LABELS},
        {"path": "gone.wav", "role": "endpoint", "source": "ours", "seconds": 9, "vad_labels": LABELS},
        {"path": "plain.wav", "role": "asr", "source": "ours", "seconds": 9, "text": "no labels"},
    ]
    (tmp_path / "manifest.jsonl").write_text("\n".join(map(json.dumps, lines)))
    assert main(["vad", "eval", "--data", str(tmp_path), "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["files"] == 1
    assert [one["name"] for one in answer["left_out"]] == ["gone.wav"]
    ours, silero = answer["figures"]
    assert ours["rules"] == "ours"
    assert silero["rules"] == "Silero's defaults"
    assert 0 <= ours["missed"]["value"] < 0.2
    assert ours["speech_s"] == pytest.approx(3.185, abs=0.001)
    assert main(["vad", "eval", "--data", str(tmp_path)]) == 0
    told = capsys.readouterr().out
    assert "missed speech" in told
    assert "gone.wav" in told


def test_no_labels_is_an_error_in_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "manifest.jsonl").write_text('{"path": "a.wav", "role": "asr"}\n')
    assert main(["vad", "eval", "--data", str(tmp_path)]) == 65
    assert "has no file with vad_labels" in capsys.readouterr().err
    assert main(["vad", "eval", "--data", str(tmp_path / "gone")]) == 65
    assert "manifest.jsonl: cannot be read" in capsys.readouterr().err


# ── how late it lets go ────────────────────────────────────────────────────────────────────────────────────────────────


class Written:
    """A VAD that lets go where a test says."""

    def __init__(self, *windows: int) -> None:
        self._windows = iter(windows)

    def track(self, samples: Samples) -> tuple[float, ...]:
        heard = next(self._windows)
        return tuple(float(at < heard) for at in range(len(samples) // VAD_HOP))


def test_lateness_by_hand() -> None:
    """Ends at 10 windows: the VAD lets go one late, three late and one early; what the ear alone knows is not counted."""
    query = Query("a", "commands", "x", np.zeros(40 * VAD_HOP, np.int16), 0, 10 * VAD_HOP, "alignment")
    queries = [query, replace(query, ends_by="labels"), query, replace(query, ends_by="ear")]
    rules = [Rules("r", "", SegmentRules(0.5, 0.35, 0, 0, 0))]
    (row,), by_ear = vad_lateness.lateness(queries, cast(Vad, Written(11, 13, 9)), rules)
    assert (row.rules, row.set, row.ends, by_ear) == ("r", "commands", {"alignment": 2, "labels": 1}, 1)
    assert row.after.median_ms == 32
    assert (row.early.part, row.early.whole) == (1, 3)
    assert vad_lateness.table([row])[1][:4] == ["r", "commands", "alignment 2, labels 1", "32 / 83 ms"]


def test_a_vad_that_hears_nothing_is_late_nowhere() -> None:
    query = Query("a", "commands", "x", np.zeros(40 * VAD_HOP, np.int16), 0, 10 * VAD_HOP, "alignment")
    assert vad_lateness.lateness([query], cast(Vad, Written(0)), [Rules("r", "", SegmentRules(0.5, 0.35, 0, 0, 0))]) == ([], 0)


def test_the_lateness_of_a_spoken_text(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pocketsphinx", reason="the extra align is not installed: pip install pocketsphinx")
    monkeypatch.setattr("voicectl.vad.cache_directory", lambda: tmp_path)
    samples, rate = soundfile.read(SAMPLE, dtype="int16", start=164_000, stop=190_000)
    soundfile.write(tmp_path / "clock.flac", samples, rate)
    lines = [
        {"path": str(SAMPLE), "role": "endpoint", "source": "ours", "seconds": 9, "vad_labels": LABELS},
        {"path": "clock.flac", "role": "command", "source": "ours", "seconds": len(samples) / rate, "text": "What time is it?"},
    ]
    (tmp_path / "manifest.jsonl").write_text("\n".join(map(json.dumps, lines)))
    assert main(["vad", "eval", "--data", str(tmp_path), "--lateness", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    row = answer["lateness"][0]
    assert (row["rules"], row["set"], row["ends"]) == ("ours", "commands", {"alignment": 1})
    assert -32 <= row["after"]["median_ms"] <= 200
    assert answer["by_ear"] == 0
    assert list((tmp_path / "endpoint" / "ends").glob("*.json"))
    assert main(["vad", "eval", "--data", str(tmp_path), "--lateness"]) == 0
    told = capsys.readouterr().out
    assert "lets go" in told
    assert "Not counted, their end being known by ear alone: 0 recordings." in told


def test_a_synthesizer_is_for_lateness_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["vad", "eval", "--data", str(tmp_path), "--synthetic", "x.jsonl"]) == 2
    assert "--synthetic: is measured for --lateness alone; add --lateness, or leave --synthetic out\n" in capsys.readouterr().err


def test_lateness_wants_pocketsphinx(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    assert main(["vad", "eval", "--data", str(tmp_path), "--limit", "0"]) == 2
    assert "--limit: must be a number of recordings from 1, got 0" in capsys.readouterr().err
    monkeypatch.setattr("importlib.util.find_spec", lambda *_: None)
    assert main(["vad", "eval", "--data", str(tmp_path), "--lateness"]) == 2
    assert "--lateness: aligns with pocketsphinx, which is not installed" in capsys.readouterr().err
