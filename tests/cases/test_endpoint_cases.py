"""CASES E4: people who speak slowly; E1 and E8 by ear. The knobs are the shipped ones, read from a settings file."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import voiced
from sounds import Floats, at_level, sound, to_int16
from turns import HOP, Lane
from voiced import assembly
from voiced.assembly import turn_rules
from voiced.audio import AudioFrame, Samples
from voiced.batch import until_idle
from voiced.events import CloseReason, Endpoint, Event, Final, Foreseen, Trigger, TurnClosed, Words
from voiced.guard import letters
from voiced.models import Library
from voiced.pipeline import Pipeline
from voiced.settings import Settings, parse
from voiced.turn import TurnMachine
from voiced.units import RATE, to_samples

DIGITS = ("four", "four one", "four one five", "four one five nine")


def lane_of(text: str) -> Lane:
    return Lane(TurnMachine(turn_rules(parse(text, "test.yaml"))))


def dictated(lane: Lane, gap_s: float) -> list[Endpoint]:
    """Digits with gaps between them, each of which sounds whole to the recognizer."""
    gap = round(gap_s * 16_000 / HOP)
    lane.wake()
    for text in DIGITS:
        lane.windows(1.0, 10)
        lane.words(text)
        lane.windows(0.0, 3)
        if lane.heart.open_turn:
            order = lane.foresights[-1]
            lane.take(Foreseen(lane.now, order.turn, order.first, order.last, Words(order.last, text, order.last + 2000, -1.0)))
        lane.windows(0.0, gap - 3)
    lane.windows(0.0, 150)
    return [event for event in lane.events if isinstance(event, Endpoint)]


@pytest.mark.parametrize(("profile", "gap_s"), [("patient", 1.0), ("dictation", 1.5)])
def test_e4_digits_with_gaps_are_one_turn_where_the_profile_waits(profile: str, gap_s: float) -> None:
    (endpoint,) = dictated(lane_of(f"endpoint: {{profile: {profile}}}"), gap_s)
    assert (endpoint.text, endpoint.reason) == (DIGITS[-1], CloseReason.SILENCE)


def test_e4_the_default_is_for_commands() -> None:
    """So the profile matters."""
    assert dictated(lane_of(""), 1.5)[0].text in DIGITS[:-1]


def test_e4_the_profile_changes_live() -> None:
    """Between two turns, as a reload does it."""
    lane = lane_of("")
    lane.wake()
    lane.windows(1.0, 20)
    lane.words("stop")
    lane.windows(0.0, 60)
    assert not lane.heart.open_turn
    lane.heart.adopt(turn_rules(parse("endpoint: {profile: dictation}", "test.yaml")))
    assert dictated(lane, 1.5)[-1].text == DIGITS[-1]


# ── by ear ─────────────────────────────────────────────────────────────────────────────────────────────────────────────

SAMPLE = Path(voiced.__file__).parent / "data" / "sample.flac"
COMMAND, ROOM = slice(30_480, 54_480), slice(58_480, 90_000)
"""“Turn on the lights in the kitchen.” of the sample, and its own quiet after it (sample.json)."""
BLOCK = 640


@pytest.fixture(scope="module")
def pipeline(library: Library, tmp_path_factory: pytest.TempPathFactory) -> Pipeline:
    return assembly.pipeline(Settings(), library, tmp_path_factory.mktemp("runtime"))


def turn(pipeline: Pipeline, samples: Samples) -> tuple[list[Event], TurnClosed]:
    """Opened by a client where the sound begins: what was told, and its end."""
    pipeline.reset()
    pipeline.ears.command(Trigger(0))
    frames = (AudioFrame(first, samples[first : first + BLOCK].copy()) for first in range(0, len(samples), BLOCK))
    told = [event for frame in until_idle(frames, BLOCK, pipeline) for event in pipeline.feed(frame)]
    (closed,) = (event for event in told if isinstance(event, TurnClosed))
    return told, closed


def entries(data_dir: Path, source: str) -> list[dict[str, str]]:
    lines = (data_dir / "manifest.jsonl").read_text(encoding="utf-8").splitlines()
    return [entry for entry in map(json.loads, lines) if entry["source"] == source]


@pytest.mark.slow
@pytest.mark.parametrize("before", [0, 1], ids=["from its end on", "all along"])
def test_e1_voices_of_a_television_end_a_turn_at_its_cap_at_the_latest(pipeline: Pipeline, data_dir: Path, before: int) -> None:
    """Three that speak at once for 20 s, 10 dB below the query."""
    length, query = 20 * RATE, sound(SAMPLE)[COMMAND]
    readers = [one for one in entries(data_dir, "librispeech-samples") if float(one["seconds"]) > 12][:3]
    voices: Floats = np.sum([np.resize(at_level(sound(data_dir / one["path"]), 0), length) for one in readers], axis=0)
    level = 20 * np.log10(np.sqrt(np.mean(np.square(query / 32768)))) - 10
    mixed = np.zeros(length)
    mixed[: len(query)] = query / 32768
    from_here = 0 if before else len(query)
    mixed[from_here:] += at_level(voices, float(level))[from_here:]
    told, closed = turn(pipeline, to_int16(mixed))
    assert closed.reason in (CloseReason.END_TOKEN, CloseReason.SILENCE, CloseReason.TOO_LONG)
    assert len(query) < closed.last - closed.first <= to_samples(Settings().endpoint.too_long_ms) + HOP
    (endpoint,) = (event for event in told if isinstance(event, Endpoint))
    assert endpoint.rule and endpoint.margins[f"{endpoint.rule}_ms"] >= 0
    (final,) = (event for event in told if isinstance(event, Final))
    assert letters(final.text).startswith("turnonthelights")


@pytest.mark.slow
def test_e8_orders_of_one_short_word_are_heard(pipeline: Pipeline, data_dir: Path) -> None:
    """Of 250 to 560 ms, cut out of their recordings: each is speech, ends by its silence, and nearly all are right."""
    room = sound(SAMPLE)[ROOM]
    words = [one for one in entries(data_dir, "an4-sample") + entries(data_dir, "mini-an4") if one.get("text") in ("stop", "go", "no")]
    right = []
    for one in words:
        recording = sound(data_dir / one["path"])
        (loud,) = np.nonzero(np.abs(recording.astype(int)) > 0.08 * np.abs(recording.astype(int)).max())
        word = recording[max(0, loud[0] - 160) : loud[-1] + 320]
        told, closed = turn(pipeline, np.concatenate((room[:4800], word, room)))
        assert closed.reason in (CloseReason.END_TOKEN, CloseReason.SILENCE), one
        assert closed.last - 4800 - len(word) <= to_samples(1000), one
        right += [letters(event.text) == one["text"] for event in told if isinstance(event, Final)]
    assert len(right) == len(words) >= 10
    assert sum(right) >= 0.8 * len(words)
