"""The knobs of a turn's end: what a profile gives, what is written down, what a lane has for itself, what contradicts."""

# ruff: noqa: E501  a line that a user reads stands here whole

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from voiced import knobs, settings
from voiced.errors import ConfigError
from voiced.profiles import PROFILES, EndpointSettings, contradictions
from voiced.settings import Settings, endpoint_of, parse

BY_PROFILE = [name for name, row in knobs.rows(EndpointSettings).items() if row.knob.profiles]


def endpoint(text: str, lane: str = "main") -> EndpointSettings:
    return endpoint_of(parse(text, "f"), lane)


def mistakes(text: str) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        parse(text, "f")
    return list(caught.value.lines)


@pytest.mark.parametrize("profile", PROFILES)
def test_a_profile_gives_the_knobs_that_list_it(profile: str) -> None:
    read = endpoint(f"endpoint: {{profile: {profile}}}")
    for name, row in knobs.rows(EndpointSettings).items():
        usual = row.knob.profiles[profile] if row.knob.profiles else row.knob.default
        assert getattr(read, name) == (profile if name == "profile" else usual)
        assert knobs.fits(row, getattr(read, name))
    assert not list(contradictions(read))


def test_each_profile_waits_longer_than_the_one_before() -> None:
    for name in BY_PROFILE:
        values = [knobs.rows(EndpointSettings)[name].knob.profiles[profile] for profile in PROFILES if profile != "k3"]
        assert values == sorted(values)
        assert knobs.rows(EndpointSettings)[name].knob.default == values[PROFILES.index("balanced")]


def test_the_k3_profile_is_the_vendors_half_second_second_and_ten() -> None:
    """Whatever the text and the token say."""
    read = endpoint("endpoint: {profile: k3}")
    silences = {getattr(read, name) for name in BY_PROFILE if "silence" in name}
    assert (silences, read.no_text_ms, read.no_speech_ms, read.too_long_ms) == ({500.0}, 1000.0, 1000.0, 10_000.0)


def test_a_knob_that_is_written_down_wins_over_its_profile() -> None:
    """Wherever it stands, and also where it is the default of another profile."""
    for text in ("profile: patient\n  silence_ms: 900", "silence_ms: 900\n  profile: patient"):
        read = endpoint(f"endpoint:\n  {text}")
        assert (read.silence_ms, read.silence_open_ms) == (900, 2000)
    assert endpoint("endpoint: {profile: patient, silence_ms: 1000, silence_complete_ms: 450}").silence_complete_ms == 450


def test_the_commented_file_leaves_its_knobs_to_the_profile() -> None:
    """Who copies it and changes the profile gets the profile."""
    text = settings.render_yaml().replace('profile: "balanced"', 'profile: "patient"')
    assert endpoint(text) == endpoint("endpoint: {profile: patient}")


def test_the_comment_says_what_each_profile_gives() -> None:
    text = " ".join(settings.render_yaml().replace("#", " ").split())
    assert "snappy 600, balanced 800, patient 1200, dictation 2500, k3 500]" in text


def test_a_lane_has_its_own_and_takes_over_the_rest() -> None:
    text = (
        "endpoint: {token_threshold: -2, silence_ms: 800}\n"
        "lanes:\n"
        "  - name: desk\n"
        "    endpoint: {silence_open_ms: 1500}\n"
        "  - name: bed\n"
        "    endpoint: {profile: dictation, token_silence_ms: 900}\n"
        "  - name: door\n"
        "  - name: hall\n"
        "    endpoint:\n"
    )
    desk, bed, door, hall = (endpoint(text, lane) for lane in ("desk", "bed", "door", "hall"))
    assert (desk.silence_ms, desk.silence_open_ms, desk.token_threshold) == (800, 1500, -2)
    # its own profile goes before the section's knobs, which goes before the section's profile
    assert (bed.silence_ms, bed.token_silence_ms, bed.token_threshold) == (2500, 900, -2)
    assert door == hall == endpoint(text, "no such lane") == parse(text, "f").endpoint


@given(
    st.sampled_from(PROFILES),
    st.none() | st.sampled_from(PROFILES),
    st.sets(st.sampled_from(BY_PROFILE)),
    st.sets(st.sampled_from(BY_PROFILE)),
)
def test_where_each_value_is_from(top: str, own: str | None, in_top: set[str], in_lane: set[str]) -> None:
    """Of the lane's knob, the lane's profile, the section's knob and the section's profile the first that is there."""

    def value(name: str, of: str, more: int) -> Any:
        return knobs.rows(EndpointSettings)[name].knob.profiles[of] + more

    section = [f"profile: {top}", *(f"{name}: {value(name, top, 1)}" for name in in_top if "too_long" not in name)]
    lane = [*([f"profile: {own}"] if own else []), *(f"{name}: {value(name, own or top, 2)}" for name in in_lane if "too_long" not in name)]
    try:
        read = endpoint(f"endpoint: {{{', '.join(section)}}}\nlanes: [{{endpoint: {{{', '.join(lane)}}}}}]")
    except ConfigError as error:
        assert "must be at most" in str(error)
        return
    for name in BY_PROFILE:
        if "too_long" not in name:
            wanted = value(name, own or top, 2) if name in in_lane else value(name, own, 0) if own else value(name, top, name in in_top)
            assert getattr(read, name) == wanted


def test_settings_with_lanes_of_their_own_come_back_from_the_plain_form() -> None:
    read = parse("lanes: [{endpoint: {profile: snappy}}]", "f")
    assert settings.from_plain(settings.to_plain(read)) == read
    assert read.lanes[0].endpoint


CONTRADICTORY = {
    "endpoint:\n  token_silence_ms: 700": "f:2: endpoint.token_silence_ms: endpoint.token_silence_ms must be at most endpoint.silence_complete_ms; "
    "got 700, 500; default 100, 500",
    "endpoint:\n  profile: patient\n  silence_ms: 700": "f:3: endpoint.silence_ms: endpoint.silence_complete_ms must be at most "
    "endpoint.silence_ms; got 800, 700; default 500, 800",
    "endpoint: {no_speech_ms: 20000}": "f:1: endpoint.no_speech_ms: endpoint.no_speech_ms must be at most endpoint.too_long_ms; got 20000, 15000; "
    "default 5000, 15000",
    "endpoint: {likely_end_ms: 1000}": "f:1: endpoint.likely_end_ms: endpoint.likely_end_ms must be at most endpoint.silence_ms; got 1000, 800; "
    "default 64, 800",
    "lanes:\n  - name: a\n    endpoint:\n      silence_open_ms: 600": "f:4: lanes[0].endpoint.silence_open_ms: lanes[0].endpoint.silence_ms must be at most "
    "lanes[0].endpoint.silence_open_ms; got 800, 600; default 800, 1200",
    "lanes:\n  - name: a\n    endpoint: {silnce_ms: 600}": "f:3: lanes[0].endpoint.silnce_ms: no such setting; did you mean silence_ms?",
    "endpoint: {profile: fast}": 'f:1: endpoint.profile: must be one of snappy, balanced, patient, dictation, k3; got fast; default "balanced"',
    # the wrong word alone, not what its stand-in contradicts
    "endpoint: {profile: patien, token_silence_ms: 600}": 'f:1: endpoint.profile: must be one of snappy, balanced, patient, dictation, k3; got patien; default "balanced"',
    "endpoint: {silence_ms: x}\nlanes: [{endpoint: {silence_open_ms: 600}}]": "f:1: endpoint.silence_ms: must be a number from 100 to 10000 "
    "(milliseconds); got x; default 800",
}


@pytest.mark.parametrize("text", CONTRADICTORY)
def test_contradictory_thresholds_are_refused_with_their_line(text: str) -> None:
    assert mistakes(text) == [CONTRADICTORY[text]]


def test_the_model_of_a_turn_detector_is_wanted_where_a_lane_asks_for_it() -> None:
    assert "turn detector" not in settings.roles(Settings())
    for text in ("endpoint: {turn_detector: smart-turn}", "lanes: [{name: a}, {name: b, endpoint: {turn_detector: smart-turn}}]"):
        assert settings.roles(parse(text, "f"))["turn detector"] == "smart-turn"
