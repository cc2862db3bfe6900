"""Figures become findings: at each limit another grade, and never a grade without advice."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from voiced.diagnosis import Finding, Grade, channel_to_hear, findings, worst
from voiced.soundcheck import Channel, Measures

GOOD = Channel(level=-35, peak=-10, noise=-65, speech=-30, clipped=0, dc=0.001, hum_hz=0, hum=-120)
DEAD = replace(GOOD, level=-120, peak=-120, noise=-120, speech=None)
FINE = Measures(48_000, 10, (GOOD,), 0, (), 20, 50, 0)


def of(name: str, found: list[Finding]) -> Finding:
    (one,) = (each for each in found if each.name == name)
    return one


def test_a_good_microphone_has_nothing_but_good_findings() -> None:
    found = findings(FINE)
    assert worst(found) is Grade.OK
    assert [one.name for one in found] == ["rate", "level", "clipping", "dc", "hum", "noise", "speech", "snr", "clock", "losses"]
    assert not any(one.code or one.advice for one in found)


@pytest.mark.parametrize(
    ("channel", "name", "grade", "code"),
    [
        ({"clipped": 0.0002}, "clipping", Grade.WARN, "clipping"),
        ({"clipped": 0.02}, "clipping", Grade.FAIL, "clipping"),
        ({"dc": -0.05}, "dc", Grade.WARN, "dc"),
        ({"hum_hz": 50, "hum": -70}, "hum", Grade.OK, ""),
        ({"hum_hz": 50, "hum": -50}, "hum", Grade.WARN, "hum"),
        ({"noise": -40}, "noise", Grade.WARN, "noise"),
        ({"noise": -25}, "noise", Grade.FAIL, "noise"),
        ({"speech": None}, "speech", Grade.WARN, "no_speech"),
        ({"speech": -50}, "speech", Grade.WARN, "faint"),
        ({"speech": -61}, "speech", Grade.FAIL, "faint"),
        ({"noise": -41}, "snr", Grade.WARN, "snr"),
        ({"noise": -34}, "snr", Grade.FAIL, "snr"),
        ({"level": -120}, "level", Grade.FAIL, "digital_silence"),
        ({"level": -90}, "level", Grade.FAIL, "too_quiet"),
    ],
)
def test_what_is_wrong_with_a_channel(channel: dict[str, Any], name: str, grade: Grade, code: str) -> None:
    """CASES H4: too_quiet."""
    one = of(name, findings(replace(FINE, channels=(replace(GOOD, **channel),))))
    assert (one.grade, one.code) == (grade, code)


@pytest.mark.parametrize(
    ("measures", "name", "grade", "code"),
    [
        ({"rate": 8_000}, "rate", Grade.WARN, "low_rate"),
        ({"rate": 16_000}, "rate", Grade.OK, ""),
        ({"drift_ppm": 5000.0, "drift_error_ppm": math.inf}, "clock", Grade.OK, ""),
        ({"drift_ppm": 900.0, "drift_error_ppm": 100.0}, "clock", Grade.OK, ""),
        ({"drift_ppm": -1500.0, "drift_error_ppm": 100.0}, "clock", Grade.WARN, "clock"),
        ({"drift_ppm": 30_000.0, "drift_error_ppm": 100.0}, "clock", Grade.FAIL, "clock"),
        ({"lost": 0.001}, "losses", Grade.WARN, "losses"),
        ({"lost": 0.1}, "losses", Grade.FAIL, "losses"),
    ],
)
def test_what_is_wrong_with_a_device(measures: dict[str, Any], name: str, grade: Grade, code: str) -> None:
    """CASES H5: 8 kHz is told."""
    one = of(name, findings(replace(FINE, **measures)))
    assert (one.grade, one.code) == (grade, code)


@pytest.mark.parametrize(
    ("channel", "grade", "code", "words"),
    [
        ("auto", Grade.OK, "", "1 is the best; dead: 0"),
        ("1", Grade.OK, "", "1 is the best"),
        ("0", Grade.FAIL, "wrong_channel", "names? channel 0, and the sound is on 1"),
        ("mix", Grade.WARN, "mix_cancels", "dead"),
    ],
)
def test_a_dead_channel(channel: str, grade: Grade, code: str, words: str) -> None:
    one = of("channels", findings(replace(FINE, channels=(DEAD, GOOD), best=1), channel))
    assert (one.grade, one.code) == (grade, code)
    assert words.replace("names?", "the settings name") in one.found


def test_swapped_and_opposite_channels() -> None:
    soft = replace(GOOD, level=-60)
    swapped = of("channels", findings(replace(FINE, channels=(soft, GOOD), best=1), "0"))
    assert (swapped.grade, swapped.code, swapped.advice) == (Grade.WARN, "wrong_channel", "channel: 1, or channel: auto")
    opposite = replace(FINE, channels=(GOOD, GOOD), opposite=(1,))
    assert of("channels", findings(opposite)).grade is Grade.OK
    assert "cancels the voice" in of("channels", findings(opposite, "mix")).found


@pytest.mark.parametrize(
    ("live", "count", "there"), [(GOOD, 1, "channel 0 alone"), (GOOD, 2, "channels 0 to 1"), (DEAD, 2, "channels 0 to 1")]
)
def test_a_channel_that_the_device_has_not(live: Channel, count: int, there: str) -> None:
    found = findings(replace(FINE, channels=(live,) * count), "2")
    one = of("channels", found)
    assert (one.grade, one.code, one.advice) == (Grade.FAIL, "no_channel", "channel: 0, or channel: auto")
    assert one.found == f"the settings name channel 2, and the device gives {there}"
    assert channel_to_hear(found, "2") == "auto"


def test_the_settings_keep_a_channel_that_nothing_is_said_against() -> None:
    two = replace(FINE, channels=(DEAD, GOOD), best=1)
    assert [channel_to_hear(findings(two, one), one) for one in ("auto", "0", "1", "mix")] == ["auto", "auto", "1", "auto"]


@given(
    st.builds(
        Channel,
        level=st.floats(-120, 0),
        peak=st.floats(-120, 0),
        noise=st.floats(-120, 0),
        speech=st.none() | st.floats(-120, 0),
        clipped=st.floats(0, 1),
        dc=st.floats(-1, 1),
        hum_hz=st.sampled_from([0, 50, 60]),
        hum=st.floats(-120, 0),
    ),
    st.sampled_from([8_000, 48_000]),
    st.floats(-1e5, 1e5),
    st.floats(0, 1e5) | st.just(math.inf),
    st.floats(0, 1),
    st.sampled_from(["auto", "mix", "0", "1", "7"]),
)
def test_what_is_wrong_has_a_code_and_advice_and_nothing_else_has(
    channel: Channel, rate: int, ppm: float, error: float, lost: float, wanted: str
) -> None:
    for one in findings(Measures(rate, 10, (channel, GOOD), 0, (1,), ppm, error, lost), wanted):
        assert bool(one.code) == bool(one.advice) == (one.grade is not Grade.OK)
        assert "nan" not in one.found and "\n" not in one.found
