"""The gate: closed in a quiet room, and never closed on a phrase that stage 1 would hear."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sounds import at_level, hops, noise, sound, to_int16
from voiced.audio import Samples
from voiced.stages.gate import Gate
from voiced.stages.wake import Stage1
from voiced.units import RATE

HOLD = 25
"""Hops of 80 ms in the default hold of 2 s."""

THRESHOLD = 0.5


def run(gate: Gate, samples: Samples) -> list[bool]:
    return [gate.step(hop) for hop in hops(samples, gate.hop)]


@pytest.mark.parametrize("constant", [0, 1000, -32768])
def test_digital_silence_is_closed_after_the_hold(constant: int) -> None:
    opened = run(Gate(), np.full(RATE * 20, constant, np.int16))
    assert opened == [True] * HOLD + [False] * (len(opened) - HOLD)


@pytest.mark.parametrize("colour", ["white", "pink"])
@pytest.mark.parametrize("dbfs", [-90, -70, -60, -40, -20])
def test_steady_noise_is_closed(colour: str, dbfs: float) -> None:
    gate = Gate()
    run(gate, to_int16(at_level(noise(RATE * 120, colour), dbfs)))
    assert gate.statistics().open_hops < 0.1 * gate.statistics().hops


def test_a_steady_hum_is_closed() -> None:
    time = np.arange(RATE * 20) / RATE
    harmonics = np.array([1, 2, 3, 5, 7])
    hum = np.sin(2 * np.pi * 50 * np.outer(time, harmonics)) @ (1 / harmonics)
    assert not any(run(Gate(), to_int16(at_level(hum, -35)))[HOLD + 25 :])


@pytest.mark.parametrize("colour", ["white", "pink"])
def test_a_new_noise_opens_at_once_and_is_learnt(colour: str) -> None:
    """A fan: 20 dB more for a minute, which takes 20 s to learn, then off again."""
    gate = Gate()
    steady = noise(RATE * 160, colour) * 10 ** (-70 / 20)
    steady[RATE * 20 : RATE * 80] *= 10
    opened = run(gate, to_int16(steady))
    at = RATE * 20 // gate.hop
    assert opened[at]
    assert np.mean(opened[at + 24 * RATE // gate.hop : RATE * 80 // gate.hop]) < 0.2
    assert np.mean(opened[RATE * 80 // gate.hop :]) < 0.2


@given(st.floats(-79, -20), st.floats(200, 3800))
@settings(max_examples=40, deadline=None)
def test_a_sound_after_silence_opens_at_its_first_hop(dbfs: float, hertz: float) -> None:
    gate = Gate()
    run(gate, np.zeros(RATE * 4, np.int16))
    dither = np.random.default_rng(0).uniform(-0.5, 0.5, gate.hop) / 32768
    tone = np.sqrt(2) * 10 ** (dbfs / 20) * np.sin(2 * np.pi * hertz * np.arange(gate.hop) / RATE)
    assert gate.step(to_int16(tone + dither))


def test_below_the_floor_nothing_opens() -> None:
    gate = Gate(floor_dbfs=-50)
    bursts = noise(RATE * 20, "white") * 10 ** (-55 / 20)
    bursts[np.arange(len(bursts)) // RATE % 2 == 0] = 0
    assert not any(run(gate, to_int16(bursts))[HOLD:])
    assert any(run(Gate(floor_dbfs=-60), to_int16(bursts))[HOLD:])


def test_it_holds_and_counts() -> None:
    gate = Gate(hold_ms=400)  # five hops
    quiet = np.zeros(gate.hop, np.int16)
    loud = to_int16(noise(gate.hop, "white") * 0.1)
    assert [gate.step(quiet) for _ in range(7)] == [True] * 5 + [False] * 2
    assert [gate.step(hop) for hop in (loud, *[quiet] * 7)] == [True] * 6 + [False] * 2
    counted = gate.statistics()
    assert (counted.hops, counted.open_hops, counted.openings) == (15, 11, 1)


def test_reset_is_birth() -> None:
    sound = to_int16(noise(RATE * 10, "pink") * 0.01)
    gate = Gate()
    first = run(gate, sound)
    gate.warm_up()
    gate.reset()
    assert run(gate, sound) == first


def test_another_size_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match=r"Gate wants int16 of shape \(1280,\); got int16 \(512,\)"):
        Gate().step(np.zeros(512, np.int16))


def high_and_closed(stage1: Stage1, phrase: np.ndarray, dbfs: float, colour: str, snr_db: float, seed: int) -> tuple[int, int]:
    """The phrase at a level, after six seconds of its noise: how many hops score high, and how many of those are closed."""
    clip = np.concatenate((np.zeros(RATE * 6), at_level(phrase, dbfs), np.zeros(RATE // 2)))
    if colour:
        clip += noise(len(clip), colour, seed) * 10 ** ((dbfs - snr_db) / 20)
    gate = Gate()
    stage1.reset()
    high = closed = 0
    for hop in hops(to_int16(clip), gate.hop):
        is_open = gate.step(hop)
        crosses = stage1.step(hop)[0] >= THRESHOLD
        high += crosses
        closed += crosses and not is_open
    return high, closed


CONDITIONS = [("", 0.0), ("white", 10.0), ("white", 0.0), ("pink", 10.0), ("pink", 0.0)]


@pytest.mark.parametrize(("colour", "snr_db"), CONDITIONS)
@pytest.mark.parametrize("dbfs", [-20, -40, -60])
def test_it_costs_no_wake(stage1: Stage1, sample: Samples, dbfs: float, colour: str, snr_db: float) -> None:
    high, closed = high_and_closed(stage1, sample[19_120:28_080], dbfs, colour, snr_db, seed=1)
    assert closed == 0
    assert high or snr_db == 0  # in that much noise stage 1 may not know this voice


@pytest.mark.parametrize("each", [70, pytest.param(12, marks=pytest.mark.slow)])
def test_it_costs_no_wake_of_any_speaker(stage1: Stage1, data_dir: Path, each: int) -> None:
    """Real recordings of the phrase: every hop that crosses the threshold without the gate is open with it."""
    clips = sorted((data_dir / "wake" / "picovoice-wake-word-benchmark" / "jarvis").glob("*.opus"))[::each]
    assert clips
    crossed = 0
    for number, clip in enumerate(clips):
        for dbfs in (-20, -60):
            for colour, snr_db in (*CONDITIONS, ("pink", -5.0)):
                high, closed = high_and_closed(stage1, sound(clip), dbfs, colour, snr_db, seed=number)
                assert closed == 0, f"{clip.name} at {dbfs} dBFS, {snr_db} dB over {colour or 'no'} noise"
                crossed += high > 0
    assert crossed > 0.8 * len(clips) * 2 * (len(CONDITIONS) + 1)
