"""What a changed settings file changes at once, and what waits for the next start."""

from __future__ import annotations

from dataclasses import replace

from voiced.changes import Changes, adopt
from voiced.settings import LaneSettings, Settings

SETTINGS = Settings()


def test_the_same_settings_change_nothing() -> None:
    assert adopt(SETTINGS, Settings()) == (SETTINGS, Changes())


def test_live_knobs_are_taken_and_the_others_named() -> None:
    after = replace(
        SETTINGS,
        vad=replace(SETTINGS.vad, on=0.6),
        models=replace(SETTINGS.models, vad="another-vad"),
        second_pass=replace(SETTINGS.second_pass, threads=2, tail_pad_ms=300),
    )
    held, changes = adopt(SETTINGS, after)
    assert changes == Changes(("vad.on", "second_pass.tail_pad_ms"), ("models.vad", "second_pass.threads"))
    wanted = replace(SETTINGS, vad=after.vad, second_pass=replace(SETTINGS.second_pass, tail_pad_ms=300))
    assert held == wanted


def test_what_waits_for_the_next_start_is_named_until_then() -> None:
    after = replace(SETTINGS, models=replace(SETTINGS.models, vad="another-vad"))
    held, _ = adopt(SETTINGS, after)
    assert adopt(held, after) == (SETTINGS, Changes((), ("models.vad",)))


def test_the_list_of_phrases_is_live_as_a_whole() -> None:
    entry = SETTINGS.wake.phrases[0]
    phrases = (replace(entry, threshold=0.5), replace(entry, phrase="computer"))
    after = replace(SETTINGS, wake=replace(SETTINGS.wake, phrases=phrases))
    assert adopt(SETTINGS, after) == (after, Changes(("wake.phrases",), ()))


def test_a_lane_that_comes_goes_or_hears_elsewhere_waits() -> None:
    before = replace(SETTINGS, lanes=(LaneSettings("desk"), LaneSettings("door")))
    for lanes, keys in (
        ((LaneSettings("desk"),), ("lanes",)),
        ((LaneSettings("door"), LaneSettings("desk")), ("lanes",)),
        ((LaneSettings("desk"), LaneSettings("door", "2")), ("lanes[1].source",)),
    ):
        assert adopt(before, replace(before, lanes=lanes)) == (before, Changes((), keys))


def test_the_endpoint_of_one_lane_is_live() -> None:
    before = replace(SETTINGS, lanes=(LaneSettings("desk"), LaneSettings("door")))
    own = replace(SETTINGS.endpoint, silence_ms=900.0)
    after = replace(before, lanes=(LaneSettings("desk"), LaneSettings("door", endpoint=own)))
    assert adopt(before, after) == (after, Changes(("lanes[1].endpoint",), ()))
    assert adopt(after, before) == (before, Changes(("lanes[1].endpoint",), ()))
    longer = replace(after, lanes=(LaneSettings("desk"), LaneSettings("door", endpoint=replace(own, silence_ms=950.0))))
    assert adopt(after, longer) == (longer, Changes(("lanes[1].endpoint.silence_ms",), ()))
