"""Endpoint knobs for somebody's own turns: the quickest that cut off no more than was allowed.

What lives here: the search, and the difference as YAML. What must not: sound, a table. Every candidate is the turn machine on the same
tapes, so nothing is recognised twice.

The search goes knob by knob, each to the value that waits least within the budget while the others stay, until a round changes nothing
(coordinate descent); it begins at the settings as they are and at each profile, and the best of these is taken.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from voiced.api import PROFILES, EndpointSettings, Settings, contradictions

from .endpoint_points import changed, profile

KNOBS: Mapping[str, tuple[float, ...]] = {
    "token_threshold": (-6.0, -3.0, -2.0, -1.0, -0.5, -0.2, -0.1, -0.05, -0.02),
    "token_silence_ms": (0.0, 32.0, 64.0, 100.0, 160.0, 240.0, 320.0, 480.0),
    "foreseen_silence_ms": (96.0, 128.0, 160.0, 192.0, 240.0, 320.0, 400.0, 500.0),
    "silence_complete_ms": (200.0, 300.0, 400.0, 500.0, 600.0, 800.0, 1000.0),
    "silence_ms": (300.0, 400.0, 500.0, 600.0, 700.0, 800.0, 900.0, 1200.0, 1600.0),
    "silence_open_ms": (600.0, 800.0, 1000.0, 1200.0, 1600.0, 2000.0, 3000.0),
}
"""What is tried. Steps of the VAD are 32 ms, so finer ones would be the same."""

DETECTOR_KNOBS: Mapping[str, tuple[float, ...]] = {"turn_detector_threshold": (0.3, 0.5, 0.7, 0.8, 0.9, 0.95)}

_ROUNDS = 3


@dataclass(frozen=True, slots=True)
class Judged:
    """What a candidate does: share cut off, and how long one waits (see `better`)."""

    cut: float
    wait_ms: float


Judge = Callable[[Settings], Judged]


def better(one: Judged, other: Judged, budget: float) -> bool:
    """Within the budget the shorter wait, and at the same wait fewer cut-offs; outside it fewer cut-offs."""

    def rank(judged: Judged) -> tuple[float, float, float]:
        return (0.0, judged.wait_ms, judged.cut) if judged.cut <= budget else (1.0, judged.cut, judged.wait_ms)

    return rank(one) < rank(other)


def tune(settings: Settings, judge: Judge, budget: float) -> tuple[Settings, Judged, int]:
    """The best settings that were found, what they do, and how many candidates were judged. `budget`: the share that may be cut off."""
    known: dict[EndpointSettings, Judged] = {}

    def judged(candidate: Settings) -> Judged:
        if candidate.endpoint not in known:
            known[candidate.endpoint] = judge(candidate)
        return known[candidate.endpoint]

    starts = [settings, *(_at_profile(settings, name) for name in PROFILES)]
    best = min_by(starts, judged, budget)
    for _ in range(_ROUNDS):
        before = best
        for candidates in _by_knob(best):
            best = min_by([best, *candidates(best)], judged, budget)
        if best == before:
            break
    return best, judged(best), len(known)


def min_by(candidates: list[Settings], judged: Judge, budget: float) -> Settings:
    """The first of the best."""
    best = candidates[0]
    for candidate in candidates[1:]:
        if better(judged(candidate), judged(best), budget):
            best = candidate
    return best


def _at_profile(settings: Settings, name: str) -> Settings:
    """The profile's values of the knobs that are searched; all others stay as they are."""
    of_profile = profile(settings, name).endpoint
    values: dict[str, Any] = {knob: getattr(of_profile, knob) for knob in KNOBS}
    return changed(settings, **values)


def _by_knob(settings: Settings) -> Iterator[Callable[[Settings], list[Settings]]]:
    knobs = {**KNOBS, **(DETECTOR_KNOBS if settings.endpoint.turn_detector != "off" else {})}
    for knob, values in knobs.items():

        def candidates(best: Settings, knob: str = knob, values: tuple[float, ...] = values) -> list[Settings]:
            made = (moved(best, knob, value) for value in values)
            return [one for one in made if not any(contradictions(one.endpoint))]

        yield candidates


_SILENCES = ("token_silence_ms", "silence_complete_ms", "silence_ms", "silence_open_ms")
"""Each at most the next."""


def moved(settings: Settings, knob: str, value: float) -> Settings:
    """With that knob at that value, and the silences that stand in its way pushed along: alone it could not pass them."""
    values: dict[str, Any] = {knob: value}
    if knob in _SILENCES:
        at = _SILENCES.index(knob)
        values |= {name: min(getattr(settings.endpoint, name), value) for name in _SILENCES[:at]}
        values |= {name: max(getattr(settings.endpoint, name), value) for name in _SILENCES[at + 1 :]}
    return changed(settings, **values)


# ── as YAML ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def differences(before: EndpointSettings, after: EndpointSettings) -> dict[str, tuple[Any, Any]]:
    """The searched knobs that changed: value before, value after."""
    names = (*KNOBS, *DETECTOR_KNOBS)
    return {name: (getattr(before, name), getattr(after, name)) for name in names if getattr(before, name) != getattr(after, name)}


def yaml_diff(before: EndpointSettings, after: EndpointSettings) -> str:
    """As `diff -u` shows it, without its head; "" where nothing changed."""
    lines = [" endpoint:"] if before != after else []
    for name, (old, new) in differences(before, after).items():
        lines += [f"-  {name}: {old:g}", f"+  {name}: {new:g}"]
    return "\n".join(lines)


def yaml_text(after: EndpointSettings, remark: str) -> str:
    """A settings file of all that was searched: to be used as it is, or put into another one."""
    names = [*KNOBS, *(DETECTOR_KNOBS if after.turn_detector != "off" else ())]
    return "\n".join([f"# {remark}", "endpoint:", *(f"  {name}: {getattr(after, name):g}" for name in names)]) + "\n"
