"""The knobs of a turn's end, and the profiles that set several of them at once.

What lives here: the section `endpoint`, which value each profile gives to a knob that is not written down, and what a lane's own section
takes over from the file's. What must not: what a knob does (endpoint.py, turn.py), the file (settings.py).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from . import knobs
from .knobs import knob
from .units import HARD_CAP_MS

PROFILES = ("snappy", "balanced", "patient", "dictation", "k3")
"""k3: the defaults of the vendor's Multi-Stream ASR application for that board: half a second of silence after words, a second without any,
ten seconds at the most. Its recognizer has no end token, so here a token is worth no less silence than none."""


def _by_profile(sentence: str, *values: float, low: float, high: float) -> Any:
    """A knob whose default each of PROFILES gives, in that order."""
    by_name = dict(zip(PROFILES, values, strict=True))
    return knob(by_name["balanced"], sentence, low=low, high=high, live=True, profiles=by_name)


@dataclass(frozen=True, slots=True)
class EndpointSettings:
    """When a turn ends"""

    profile: str = knob(
        "balanced", "Defaults of the knobs below that list it; one that is written down keeps its own value.", choices=PROFILES, live=True
    )
    token_threshold: float = knob(
        -1.3, "Log-probability that an end token must have to count.", low=-30, high=0, unit="natural logarithm", live=True
    )
    token_silence_ms: float = _by_profile("Silence that must go with an end token.", 60.0, 100.0, 300.0, 1500.0, 500.0, low=0, high=5000)
    foresight: bool = knob(
        True, "At a likely end the recognizer is asked what it would say if the silence went on, so that nobody waits for it to hear that.",
        live=True,
    )  # fmt: skip
    foreseen_silence_ms: float = _by_profile(
        "Silence that must go with an end token that is foreseen.", 160.0, 320.0, 500.0, 1500.0, 500.0, low=32, high=5000
    )
    silence_complete_ms: float = _by_profile(
        "Silence after speech that ends a turn whose text looks complete: a token came that does not count.",
        *(300.0, 500.0, 800.0, 1500.0, 500.0), low=100, high=10_000,
    )  # fmt: skip
    silence_ms: float = _by_profile(
        "Silence after speech that ends a turn without a token.", 600.0, 800.0, 1200.0, 2500.0, 500.0, low=100, high=10_000
    )
    silence_open_ms: float = _by_profile(
        'The same, where the text ends open: "set a timer for".', 900.0, 1200.0, 2000.0, 4000.0, 500.0, low=100, high=20_000
    )
    open_ends: str = knob("en", "Language whose open ends are known; off: no text is looked at.", choices=("en", "off"), live=True)
    no_text_ms: float = _by_profile(
        "Silence after speech that ends a turn without a word.", 800.0, 800.0, 1000.0, 1000.0, 1000.0, low=100, high=10_000
    )
    no_speech_ms: float = _by_profile(
        "A turn in which nobody speaks ends after so long.", 5000.0, 5000.0, 8000.0, 10_000.0, 1000.0, low=500, high=HARD_CAP_MS
    )
    too_long_ms: float = _by_profile("No turn is longer.", 15_000.0, 15_000.0, 30_000.0, 30_000.0, 10_000.0, low=1000, high=HARD_CAP_MS)
    likely_end_ms: float = knob(64.0, "Silence after speech that is told as a likely end.", low=32, high=5000, live=True)
    turn_detector: str = knob(
        "off", "Model that hears whether the speaker has finished, for recognizers without an end token.", choices=("off", "smart-turn")
    )
    turn_detector_threshold: float = knob(0.5, "Its probability that counts.", low=0.01, high=1, live=True)
    audio_lost_ms: float = knob(250.0, "A turn that loses so much sound at once ends.", low=0, high=5000, live=True)


_ORDER = (
    ("token_silence_ms", "silence_complete_ms"),
    ("foreseen_silence_ms", "silence_ms"),
    ("silence_complete_ms", "silence_ms"),
    ("silence_ms", "silence_open_ms"),
    ("silence_open_ms", "too_long_ms"),
    ("no_text_ms", "too_long_ms"),
    ("no_speech_ms", "too_long_ms"),
    ("likely_end_ms", "silence_ms"),
)
"""A sign that says more wants no longer silence than one that says less, and none is longer than the turn."""


def contradictions(endpoint: EndpointSettings) -> Iterator[tuple[str, str]]:
    """Pairs of knobs of which the first must be at most the second, and is not."""
    return ((shorter, longer) for shorter, longer in _ORDER if getattr(endpoint, shorter) > getattr(endpoint, longer))


def inherit(
    top: EndpointSettings, of_lanes: Sequence[EndpointSettings | None], written: Collection[str]
) -> tuple[EndpointSettings, list[EndpointSettings | None]]:
    """The file's section and each lane's own, as they were read, with what is not `written` (whole keys) in them."""
    top = _complete(top, "endpoint", EndpointSettings(), written)
    return top, [own and _complete(own, f"lanes[{at}].endpoint", top, written) for at, own in enumerate(of_lanes)]


def _complete(section: EndpointSettings, key: str, base: EndpointSettings, written: Collection[str]) -> EndpointSettings:
    """The section at `key`; what is not written is of its own profile, where it names one, else as in `base`."""
    own_profile = f"{key}.profile" in written

    def value(name: str) -> Any:
        by_profile = knobs.rows(EndpointSettings)[name].knob.profiles
        return by_profile[section.profile] if by_profile and own_profile else getattr(base, name)

    return replace(section, **{name: value(name) for name in knobs.rows(EndpointSettings) if f"{key}.{name}" not in written})


def sources(key: str) -> Iterator[str]:
    """Keys that a key's value may be from: itself, the file's own section for a lane's, and the profile of either."""
    for name in (key, key.rpartition("].")[2]):
        yield from (name, f"{name.rpartition('.')[0]}.profile")
