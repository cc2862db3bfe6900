"""Wake: scores of the real head, the rule that makes a crossing of them, and a verifier that refuses."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sounds import hops, noise, sound, to_int16
from voiced.audio import Samples
from voiced.errors import ModelError
from voiced.models import Library
from voiced.phrases import WakeSettings
from voiced.stages.gate import Gate
from voiced.stages.vad import Vad
from voiced.stages.wake import Crossed, Crossing, Phrase, SpeechVerifier, Stage1, Verdict
from voiced.units import RATE, to_samples

PHRASES = ((19_120, 28_080), (154_800, 163_760))
"""Where “jarvis” is said in the sample (sample.json)."""

HOP = 1280

REFRACTORY = 24_000
"""Samples after a wake in which the daemon decides no other."""

PHRASE_SAMPLES = 24_064
"""What a verifier is given: 1.5 s, in whole windows of the VAD."""


def scores_of(stage1: Stage1, samples: Samples) -> list[float]:
    stage1.reset()
    return [stage1.step(hop)[0] for hop in hops(samples, HOP)]


def crossing() -> Crossing:
    return Crossing(threshold=0.9, hops=2, wait_hops=2)


def crossings(track: list[float], rule: Crossing) -> list[Crossed]:
    told = (rule.step((at + 1) * HOP, score) for at, score in enumerate(track))
    return [crossed for crossed in told if crossed]


# ── stage 1 ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_phrase_is_heard_where_it_is_said_and_nowhere_else(stage1: Stage1, sample: Samples) -> None:
    found = crossings(scores_of(stage1, sample), crossing())
    assert len(found) == len(PHRASES)
    for crossed, (start, end) in zip(found, PHRASES, strict=True):
        assert start < crossed.first < end + RATE // 5
        assert abs(crossed.first + to_samples(WakeSettings().phrase_end_ms) - end) < to_samples(400)


@pytest.mark.parametrize("lead", [0, 800, 16_000])
def test_a_phrase_right_after_the_start_is_heard(stage1: Stage1, sample: Samples, lead: int) -> None:
    (start, end) = PHRASES[0]
    clip = np.concatenate((np.zeros(lead, np.int16), sample[start:end], np.zeros(RATE // 2, np.int16)))
    assert max(scores_of(stage1, clip)) > 0.9


def test_silence_scores_nothing_from_the_first_hop(stage1: Stage1) -> None:
    assert max(scores_of(stage1, np.zeros(RATE * 4, np.int16))) < 1e-3


def test_with_a_gate_the_scores_are_those_without(stage1: Stage1, sample: Samples) -> None:
    """As the pipeline uses both: closed, nothing is stepped; opened, the last two seconds are primed."""
    pause = np.zeros(RATE * 3, np.int16)
    clip = np.concatenate((pause, sample[:28_800], pause, sample[32_000:60_000], pause, sample[150_000:]))
    blocks = hops(clip, HOP)
    without = scores_of(stage1, clip)
    gate = Gate(hold_ms=400)
    stage1.reset()
    listening, compared = False, 0
    for at, hop in enumerate(blocks):
        was, listening = listening, gate.step(hop)
        if listening:
            if not was:
                stage1.prime(clip[max(0, at * HOP - stage1.history) : at * HOP])
            assert stage1.step(hop)[0] == pytest.approx(without[at], abs=1e-4)
            compared += 1
    assert gate.statistics().openings >= 3
    assert 0 < compared < len(blocks)


def test_one_score_a_phrase_in_their_order(library: Library, embedding: Path, stage1: Stage1, sample: Samples) -> None:
    head = library.find("jarvis").files["model"]
    both = Stage1({"jarvis": head, "again": head}, embedding)
    both.warm_up()
    assert both.phrases == ("jarvis", "again")
    stage1.reset()
    for hop in hops(sample, HOP)[:30]:
        first, second = both.step(hop)
        assert first == second == stage1.step(hop)[0]
    assert both.statistics().hops == 30


def test_a_model_that_is_no_head_is_refused(library: Library, embedding: Path) -> None:
    with pytest.raises(ModelError, match=r"expected inputs any name \(1, 16, 96\)"):
        Stage1({"jarvis": library.find("silero-vad").files["model"]}, embedding)


# ── the crossing ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_spike_of_one_hop_does_not_fire() -> None:
    rule = crossing()
    assert not crossings([0, 0, 1, 0, 0, 0.95, 0.2, 0], rule)


def test_a_crossing_tells_its_first_hop_and_its_scores() -> None:
    rule = Crossing(threshold=0.5, hops=2, wait_hops=4)
    (crossed,) = crossings([0.1, 0.6, 0.7, 0.4, 0.8, 0.9, 0.1], rule)
    assert crossed == Crossed(2 * HOP, 5 * HOP, (0.6, 0.7, 0.4, 0.8))


def test_one_long_score_fires_once_and_again_only_after_a_low_one() -> None:
    rule = crossing()
    assert len(crossings([1.0] * 100, rule)) == 1
    assert not crossings([1.0] * 4, rule)
    assert [crossed.first for crossed in crossings([0.0, 1.0, 1.0, 1.0, 0.0, 1.0, 1.0], rule)] == [2 * HOP, 6 * HOP]
    crossings([1.0] * 2, rule)
    rule.reset()
    assert len(crossings([1.0] * 2, rule)) == 1


@given(st.lists(st.floats(0, 1), max_size=80), st.integers(1, 4), st.integers(0, 3), st.floats(0.1, 0.9))
def test_every_crossing_is_a_run_and_they_keep_apart(track: list[float], needed: int, more: int, threshold: float) -> None:
    rule = Crossing(threshold=threshold, hops=needed, wait_hops=needed + more)
    found = crossings(track, rule)
    for crossed in found:
        first = crossed.first // HOP - 1
        assert list(crossed.scores) == track[first : first + needed + more]
        assert all(score >= threshold for score in crossed.scores[:needed])
        assert crossed.sample == crossed.first + (needed + more - 1) * HOP
    for before, after in itertools.pairwise(found):
        assert min(track[before.sample // HOP : after.first // HOP]) < threshold  # low once between them
    if not found:
        high = "".join("x" if score >= threshold else " " for score in track)
        assert all(len(part) < needed + more for part in high.split())


def test_numbers_that_cannot_be() -> None:
    with pytest.raises(ValueError, match="1 <= hops <= wait_hops; got 3 and 2"):
        Crossing(threshold=0.5, hops=3, wait_hops=2)


# ── stage 2 ────────────────────────────────────────────────────────────────────────────────────────────────────────────

VERIFIER = SpeechVerifier(threshold=0.9, sustain=2, min_speech=4)


def judge(vad: Vad, audio: Samples, scores: tuple[float, ...]) -> Verdict:
    return VERIFIER.verify(Phrase("jarvis", scores, vad.track(audio), audio))


@pytest.mark.parametrize("colour", ["white", "pink"])
def test_noise_is_refused_whatever_its_score(vad: Vad, colour: str) -> None:
    verdict = judge(vad, to_int16(noise(PHRASE_SAMPLES, colour) * 0.1), (0.99,) * 5)
    assert not verdict.accepted
    assert verdict.score == 0.99
    assert verdict.why == "5 hops at or above 0.9 (2 wanted), 0 windows of speech (4 wanted)"


@pytest.mark.parametrize("hertz", [100, 440, 1000, 3000])
def test_a_tone_is_refused_whatever_its_score(vad: Vad, hertz: float) -> None:
    tone = np.sin(2 * np.pi * hertz * np.arange(PHRASE_SAMPLES) / RATE) * 0.3
    assert not judge(vad, to_int16(tone), (0.99,) * 5).accepted


def test_speech_with_a_spike_is_refused(vad: Vad, sample: Samples) -> None:
    audio = sample[32_080:56_080]
    assert not judge(vad, audio, (0.99, 0.2, 0.95, 0.1)).accepted
    assert judge(vad, audio, (0.99, 0.95, 0.1)).accepted  # it was the score alone


def test_no_score_and_no_sound_are_no_phrase(vad: Vad) -> None:
    verdict = judge(vad, np.zeros(0, np.int16), ())
    why = "0 hops at or above 0.9 (2 wanted), 0 windows of speech (4 wanted)"
    assert verdict == Verdict(False, 0.0, why, verdict.scores)
    assert verdict.scores["verify"] == verdict.scores["sustained"] == verdict.scores["speech"] == 0


def wakes(stage1: Stage1, vad: Vad, clip: Samples) -> list[Verdict]:
    verdicts, quiet_until = [], 0
    for crossed in crossings(scores_of(stage1, clip), crossing()):
        if crossed.sample >= quiet_until:
            verdicts.append(judge(vad, clip[max(0, crossed.sample - PHRASE_SAMPLES) : crossed.sample], crossed.scores))
            quiet_until = crossed.sample + REFRACTORY * verdicts[-1].accepted
    return verdicts


def test_the_samples_phrases_are_accepted(stage1: Stage1, vad: Vad, sample: Samples) -> None:
    assert [verdict.accepted for verdict in wakes(stage1, vad, sample)] == [True, True]


def test_real_speakers_wake_once(stage1: Stage1, vad: Vad, data_dir: Path) -> None:
    clips = sorted((data_dir / "wake" / "picovoice-wake-word-benchmark" / "jarvis").glob("*.opus"))[::5]
    assert len(clips) > 30
    woken = []
    for clip in clips:
        padded = np.concatenate((np.zeros(RATE * 2, np.int16), sound(clip), np.zeros(RATE, np.int16)))
        woken.append(sum(verdict.accepted for verdict in wakes(stage1, vad, padded)))
    assert np.mean([count >= 1 for count in woken]) > 0.97
    assert max(woken) == 1
