"""A reload in the pipeline: what runs takes every live knob, at a moment at which nothing is lost.

The daemon's side of it (files, processes, the bus) is in tests/daemon/test_daemon_reload.py.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import replace
from enum import Enum
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import voiced
from sounds import sound
from voiced import assembly
from voiced.audio import AudioFrame, Ring, Samples
from voiced.batch import until_idle
from voiced.changes import Changes, adopt
from voiced.events import CloseReason, Event, Final, TurnClosed, Wake
from voiced.knobs import Row, rows
from voiced.models import Library
from voiced.phrases import PhraseSettings
from voiced.pipeline import Pipeline
from voiced.settings import Settings

DATA = Path(voiced.__file__).parent / "data"
FIRST, SECOND = json.loads((DATA / "sample.json").read_text())["turns"]
BLOCK = 640
SETTINGS = Settings()

ELSEWHERE = {
    "log.level": "tests/daemon/test_daemon_reload.py",
    "log.text": "tests/daemon/test_daemon_reload.py",
    "log.receipts": "tests/test_turnbook.py",
    "second_pass.deadline_ms": "tests/daemon/test_daemon_reload.py",
    "endpoint.profile": "the reader turns it into the other knobs' values",
    "wake.phrases": "below",
}
"""Live knobs that no stage and no rule of the pipeline has, and where they are tested."""


@pytest.fixture(scope="module")
def sample() -> Samples:
    return sound(DATA / "sample.flac")


@pytest.fixture(scope="module")
def runtime_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("runtime")


@pytest.fixture(scope="module")
def pipeline(library: Library, runtime_dir: Path) -> Pipeline:
    return assembly.pipeline(SETTINGS, library, runtime_dir)


@pytest.fixture(autouse=True)
def as_it_was(request: pytest.FixtureRequest, library: Library) -> Iterator[None]:
    """The pipeline that the tests share has the usual settings again after each."""
    yield
    if "pipeline" in request.fixturenames:
        reload(request.getfixturevalue("pipeline"), SETTINGS, library)


def reload(pipeline: Pipeline, settings: Settings, library: Library) -> None:
    """As a lane does it."""
    spotting = assembly.spotting(settings, library, Path(tempfile.gettempdir()), lambda _: None, pipeline.ears.spotting)
    pipeline.adopt(spotting, assembly.rules(settings, library, lambda _: None, pipeline.scribe.rules))


# ── every knob ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def live(section: type, key: str = "") -> Iterator[tuple[str, Row]]:
    """Every live knob of the table but those of a list's entries, which is live as a whole or is not."""
    for name, row in rows(section).items():
        path = f"{key}.{name}" if key else name
        if row.section:
            yield from live(row.type, path)
        elif row.knob.live:
            yield path, row


LIVE = dict(live(Settings))


def other(row: Row) -> Any:
    """A value that the knob may have and that is not its default."""
    knob = row.knob
    if knob.choices:
        return next(choice for choice in knob.choices if choice != knob.default)
    if row.type is bool:
        return not knob.default
    assert knob.low is not None
    assert knob.high is not None
    middle = (knob.low + knob.high) / 2 if knob.default != (knob.low + knob.high) / 2 else knob.high
    return row.type(middle)


def changed(settings: Any, key: str, value: Any) -> Any:
    name, _, rest = key.partition(".")
    return replace(settings, **{name: changed(getattr(settings, name), rest, value) if rest else value})


def look(thing: Any, at: str = "", seen: set[int] | None = None) -> dict[str, Any]:
    """Every number, truth value and text that a thing of ours holds, by where it is; sound, counts and libraries left out."""
    seen = set() if seen is None else seen
    if isinstance(thing, bool | int | float | str | Enum | np.generic):
        return {at: thing}
    if id(thing) in seen or isinstance(thing, Ring):
        return {}
    seen.add(id(thing))
    if isinstance(thing, Mapping):
        inside: Any = [(str(key), value) for key, value in thing.items()]
    elif isinstance(thing, list | tuple):
        inside = [(str(number), value) for number, value in enumerate(thing)]
    elif type(thing).__module__.startswith("voiced."):
        names = [name for kind in type(thing).__mro__ for name in getattr(kind, "__slots__", ())] or list(vars(thing))
        inside = [(name, getattr(thing, name)) for name in names if name != "parts"]
    else:
        return {}
    return {place: value for name, part in inside for place, value in look(part, f"{at}.{name}", seen).items()}


@pytest.mark.parametrize("key", sorted(set(LIVE) - set(ELSEWHERE)))
def test_a_live_knob_is_in_what_a_reload_hands_over(pipeline: Pipeline, library: Library, key: str) -> None:
    """S13: so that a knob cannot be called live and be read by nobody. The phrase has no evidence of its own, which the default one has."""
    before = changed(SETTINGS, "wake.phrases", (PhraseSettings("alexa"),))
    after = changed(before, key, other(LIVE[key]))
    held, changes = adopt(before, after)
    assert (held, changes) == (after, Changes((key,), ()))
    seen = []
    for settings in (before, after):
        spotting = assembly.spotting(settings, library, Path(tempfile.gettempdir()), lambda _: None, pipeline.ears.spotting)
        rules = assembly.rules(settings, library, lambda _: None, pipeline.scribe.rules)
        seen.append(look((spotting, rules)))
    assert seen[0] != seen[1]


def test_what_runs_is_then_as_if_it_had_started_so(library: Library, runtime_dir: Path) -> None:
    """All live knobs at once: a pipeline that took them is in nothing different from one that was made of them."""
    after = SETTINGS
    for key, row in LIVE.items():
        # a gate or a second stage that is not there would hide the knobs that it has
        if key not in ELSEWHERE and not key.endswith(".enabled") and not row.knob.choices:
            after = changed(after, key, other(row))
    running = assembly.pipeline(SETTINGS, library, runtime_dir)
    fresh = assembly.pipeline(after, library, runtime_dir)
    assert look(running) != look(fresh)
    reload(running, after, library)
    assert look(running) == look(fresh)


def test_the_exceptions_are_live_knobs() -> None:
    assert set(ELSEWHERE) <= set(LIVE)


# ── nothing is lost ────────────────────────────────────────────────────────────────────────────────────────────────────


def hear(pipeline: Pipeline, samples: Samples, reloads: Mapping[int, Settings], library: Library) -> list[Event]:
    """As `voiced --input` does it, with a reload before the block that holds each of these positions. Without what a clock measured."""
    pipeline.reset()
    due = sorted(reloads)
    frames = (AudioFrame(first, samples[first : first + BLOCK].copy()) for first in range(0, len(samples), BLOCK))
    told: list[Event] = []
    for frame in until_idle(frames, BLOCK, pipeline):
        while due and due[0] < frame.end:
            reload(pipeline, reloads[due.pop(0)], library)
        told += pipeline.feed(frame)
    return [replace(event, measured={}) if isinstance(event, Final) else event for event in told]


@pytest.fixture(scope="module")
def told(pipeline: Pipeline, library: Library, sample: Samples) -> list[Event]:
    return hear(pipeline, sample, {}, library)


@pytest.mark.slow  # three hundred of them
def test_a_reload_before_every_block_changes_no_event(pipeline: Pipeline, library: Library, sample: Samples, told: list[Event]) -> None:
    """Some three hundred, a thousand a minute: in silence, in the phrase, in the turn."""
    assert hear(pipeline, sample, dict.fromkeys(range(0, len(sample), BLOCK), SETTINGS), library) == told


def impatient(settings: Settings) -> Settings:
    return replace(settings, endpoint=replace(settings.endpoint, too_long_ms=1000.0, no_speech_ms=500.0))


def test_an_open_turn_ends_by_the_rules_it_began_with(pipeline: Pipeline, library: Library, sample: Samples, told: list[Event]) -> None:
    middle = (FIRST["speech_start"] + FIRST["speech_end"]) // 2
    after = hear(pipeline, sample, {middle: impatient(SETTINGS)}, library)
    of_first = [event for event in told if getattr(event, "turn", 0) == 1]
    assert [event for event in after if getattr(event, "turn", 0) == 1] == of_first
    (closed,) = (event for event in after if isinstance(event, TurnClosed) and event.turn == 2)
    assert closed.reason is CloseReason.TOO_LONG


def test_between_turns_the_rules_hold_at_once(pipeline: Pipeline, library: Library, sample: Samples) -> None:
    after = hear(pipeline, sample, {SECOND["phrase_start"] - 1600: impatient(SETTINGS)}, library)
    reasons = [event.reason for event in after if isinstance(event, TurnClosed)]
    assert reasons[0] in (CloseReason.END_TOKEN, CloseReason.SILENCE)
    assert reasons[1] is CloseReason.TOO_LONG


# ── phrases ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def listening_for(*phrases: str) -> Settings:
    entries = tuple(replace(SETTINGS.wake.phrases[0], phrase=phrase) for phrase in phrases)
    return replace(SETTINGS, wake=replace(SETTINGS.wake, phrases=entries))


def wakes(events: list[Event]) -> list[str]:
    return [event.phrase for event in events if isinstance(event, Wake)]


def test_a_new_phrase_wakes_at_once_and_an_old_one_no_more(pipeline: Pipeline, library: Library, sample: Samples) -> None:
    """S15. "Jarvis" is said twice: before the first it is not listened for, between the two it is, and the other way round."""
    between = (FIRST["speech_end"] + SECOND["phrase_start"]) // 2
    assert wakes(hear(pipeline, sample, {0: listening_for("alexa"), between: SETTINGS}, library)) == ["jarvis"]
    assert wakes(hear(pipeline, sample, {0: SETTINGS, between: listening_for("alexa")}, library)) == ["jarvis"]
    assert wakes(hear(pipeline, sample, {0: listening_for(), between: listening_for("alexa", "jarvis")}, library)) == ["jarvis"]
    assert wakes(hear(pipeline, sample, {0: listening_for()}, library)) == []


def test_a_phrase_that_is_being_said_is_heard_by_the_new_ears(
    pipeline: Pipeline, library: Library, sample: Samples, told: list[Event]
) -> None:
    """They are given the last two seconds: it wakes at the same sample as if it had been listened for all along."""
    middle = SECOND["phrase_start"] + 1600
    (late,) = (event for event in hear(pipeline, sample, {0: listening_for("alexa"), middle: SETTINGS}, library) if isinstance(event, Wake))
    usual = [event for event in told if isinstance(event, Wake)][1]
    assert late == replace(usual, turn=1, score=late.score, scores=late.scores)
    assert late.scores | {"": late.score} == pytest.approx(usual.scores | {"": usual.score})  # sums round by where they lie in memory


def test_a_phrase_that_has_woken_does_not_wake_again_by_a_reload(pipeline: Pipeline, library: Library, sample: Samples) -> None:
    """W3: its score is still high when the new ears begin."""
    lower = replace(SETTINGS.wake.phrases[0], threshold=0.7)
    for after in (replace(SETTINGS, wake=replace(SETTINGS.wake, phrases=(lower,))), listening_for("alexa", "jarvis")):
        at = {0: SETTINGS, FIRST["phrase_end"] + 1600: after}
        assert wakes(hear(pipeline, sample[: FIRST["speech_end"] + 8000], at, library)) == ["jarvis"]
