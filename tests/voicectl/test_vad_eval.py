"""voicectl vad eval: seconds against labels by hand and by hypothesis, and a run on the sample recording."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from livedaemon import SAMPLE
from voicectl.__main__ import main
from voicectl.evaluation import vad_measure
from voicectl.evaluation.sounds import VAD_HOP
from voicectl.evaluation.vad_measure import Labelled, Rules, Span, overlap, spans, total
from voiced.api import SegmentRules, defaults

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
