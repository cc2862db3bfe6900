"""Which ways to end a turn are compared: the settings as they are, the profiles, and each sign of an end by itself.

What lives here: settings made from settings. What must not: sound, a figure. Where a sign is judged by itself, the rules that it makes
idle are set beyond the sound that there is, so that no other rule closes a turn.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from voiced.api import PROFILES, Settings, parse_settings

from .endpoint_figures import Point

NEVER = "never cut"
CONFIGURED = "as configured"
SILENCE_ONLY = "silence 700 ms"
TOKEN_ALONE = "end token alone"

_BEYOND = 10_000.0
"""Milliseconds: more than the quiet after a query."""
_LONGEST = 30_000.0

SILENCES_MS = (200, 300, 400, 500, 600, 700, 900, 1200, 1600, 2000)
TOKEN_SILENCES_MS = (0, 32, 64, 100, 160, 240, 320, 480)
FORESEEN_SILENCES_MS = (64, 96, 128, 160, 192, 240, 320, 400, 500)
TOKEN_THRESHOLDS = (-6.0, -3.0, -1.0, -0.5, -0.2, -0.1, -0.05, -0.02, -0.01)
SCORES = (0.1, 0.3, 0.5, 0.7, 0.8, 0.9, 0.95, 0.98)


def changed(settings: Settings, *, end_token: bool | None = None, **endpoint: Any) -> Settings:
    """With other knobs of the section endpoint, the same for all lanes."""
    transducer = settings.transducer if end_token is None else replace(settings.transducer, end_token=end_token)
    return replace(settings, endpoint=replace(settings.endpoint, **endpoint), transducer=transducer)


def profile(settings: Settings, name: str) -> Settings:
    """With what a file gives that names the profile and nothing else of the section."""
    return replace(settings, endpoint=parse_settings(f"endpoint: {{profile: {name}}}", name).endpoint)


def by_silence(settings: Settings, silence_ms: float, **more: Any) -> Settings:
    """Silence alone, the same for every text."""
    same = dict.fromkeys(("silence_complete_ms", "silence_ms", "silence_open_ms"), silence_ms)
    return changed(settings, end_token=False, **{"turn_detector": "off", "open_ends": "off", **same, **more})


def never(settings: Settings) -> Settings:
    """No rule closes a query: the whole of it is heard."""
    return by_silence(settings, _BEYOND, no_text_ms=_BEYOND, no_speech_ms=_LONGEST, too_long_ms=_LONGEST)


def by_token(settings: Settings, **more: Any) -> Settings:
    """The end token and its silence alone."""
    return replace(changed(never(settings), **{"open_ends": settings.endpoint.open_ends, **more}), transducer=settings.transducer)


def by_detector(settings: Settings, **more: Any) -> Settings:
    """The turn detector alone."""
    return changed(never(settings), turn_detector="smart-turn", **more)


def compared(settings: Settings, *, detector: bool) -> Iterator[Point]:
    """What the table has, a row each; `detector`: the turn detector is at hand."""
    yield Point(NEVER, never(settings))
    yield Point(SILENCE_ONLY, by_silence(settings, 700.0))
    yield Point("K3 application", by_silence(settings, 500.0, no_text_ms=1000.0, too_long_ms=10_000.0))
    yield Point(TOKEN_ALONE, by_token(settings))
    yield Point("no foresight", changed(settings, foresight=False))
    if detector:
        yield Point("turn detector alone", by_detector(settings))
        yield Point("turn detector, 700 ms", replace(by_silence(settings, 700.0, turn_detector="smart-turn")))
    for name in PROFILES:
        yield Point(name, profile(settings, name))
    yield Point(CONFIGURED, settings)


def swept(settings: Settings, *, detector: bool) -> Iterator[Point]:
    """The picture's lines, each from quick to patient."""
    for ms in SILENCES_MS:
        yield Point(f"silence {ms} ms", by_silence(settings, float(ms)), "silence alone")
    for ms in TOKEN_SILENCES_MS:
        yield Point(f"token silence {ms} ms", by_token(settings, token_silence_ms=float(ms)), "end token alone")
    for ms in TOKEN_SILENCES_MS:
        if ms <= settings.endpoint.silence_complete_ms:
            one = changed(settings, token_silence_ms=float(ms), foresight=False)
            yield Point(f"no foresight, token silence {ms} ms", one, "no foresight, by the token's silence")
    for ms in FORESEEN_SILENCES_MS:
        if ms <= settings.endpoint.silence_ms:
            yield Point(f"fused, foreseen silence {ms} ms", changed(settings, foreseen_silence_ms=float(ms)), "fused, by the silence")
    for threshold in TOKEN_THRESHOLDS:
        yield Point(f"fused, token from {threshold:g}", changed(settings, token_threshold=threshold), "fused, by the token's threshold")
    if detector:
        for score in SCORES:
            yield Point(f"turn detector from {score:g}", by_detector(settings, turn_detector_threshold=score), "turn detector alone")
