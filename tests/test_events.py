"""Every record there is goes out as plain values and comes back the same."""

from __future__ import annotations

import dataclasses
import json
import typing
from enum import Enum
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from voiced import events
from voiced.events import CloseReason, EndSign, Event, Fact, Final, Order, TextSource, Words
from voiced.plain import decode, encode

KINDS: list[type] = [kind for union in (Fact, Event, Order) for kind in typing.get_args(union)]

# the values as they are published: they may grow, never change
REASONS = {
    "end token", "turn detector", "silence", "no speech", "no text", "too long", "stopped", "cancelled", "audio lost", "restarted",
    "shutdown",
}  # fmt: skip
SOURCES = {"first pass", "second pass"}
SIGNS = {"end token", "silence"}

finite = st.floats(allow_nan=False, allow_infinity=False)
BY_TYPE: dict[Any, st.SearchStrategy[Any]] = {
    int: st.integers(-(2**63), 2**63 - 1),
    float: finite,
    bool: st.booleans(),
    str: st.text(),
    int | None: st.none() | st.integers(0, 2**63 - 1),
    float | None: st.none() | finite,
    tuple[int, ...]: st.lists(st.integers(0, 2**63 - 1), max_size=5).map(tuple),
    dict[str, float]: st.dictionaries(st.text(), finite, max_size=5),
    CloseReason: st.sampled_from(CloseReason),
    TextSource: st.sampled_from(TextSource),
    EndSign: st.sampled_from(EndSign),
}


def records(kind: type) -> st.SearchStrategy[Any]:
    """A type that BY_TYPE does not have fails here: whoever adds it says how it is built."""
    return st.builds(kind, **{name: BY_TYPE[wanted] for name, wanted in typing.get_type_hints(kind).items()})


BY_TYPE[Words] = records(Words)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
@given(st.data())
def test_round_trip(kind: type, data: st.DataObject) -> None:
    record = data.draw(records(kind))
    plain = encode(record)
    assert next(iter(plain)) == "event"
    assert plain["event"] == kind.__name__
    for stored in (plain, json.loads(json.dumps(plain)), json.loads(json.dumps(plain, ensure_ascii=False))):
        back = decode(stored)
        assert type(back) is kind
        assert back == record


def test_every_record_of_the_file_is_in_one_union() -> None:
    defined = {kind for kind in vars(events).values() if isinstance(kind, type) and dataclasses.is_dataclass(kind)}
    assert defined == set(KINDS)
    assert len(KINDS) == len(defined)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_records_are_frozen_slotted_and_begin_with_their_sample(kind: type) -> None:
    assert next(iter(dataclasses.fields(kind))).name == "sample"
    assert kind.__dataclass_params__.frozen  # type: ignore[attr-defined]
    assert "__slots__" in vars(kind)


def test_published_values_never_change() -> None:
    assert {reason.value for reason in CloseReason} >= REASONS
    assert {source.value for source in TextSource} == SOURCES
    assert {sign.value for sign in EndSign} == SIGNS


def test_enums_go_out_as_their_values() -> None:
    plain = encode(Final(9, 1, "hello", TextSource.FIRST_PASS, "hello"))
    assert plain == {
        "event": "Final", "sample": 9, "turn": 1, "text": "hello", "source": "first pass",
        "first_pass": "hello", "note": "", "measured": {}, "second_pass": "", "word_first": [], "confidence": None, "attempt": 0,
        "flicker": 0, "refused": "",
    }  # fmt: skip
    assert not any(isinstance(value, Enum) for value in plain.values())


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_a_missing_field_is_named(kind: type) -> None:
    for item in dataclasses.fields(kind):
        if item.default is dataclasses.MISSING and item.default_factory is dataclasses.MISSING:
            others = [other.name for other in dataclasses.fields(kind) if other is not item]
            plain = dict.fromkeys((name for name in others if name not in ("reason", "source", "why", "word_first", "words")), 0)
            with pytest.raises(ValueError, match=kind.__name__) as told:
                decode({"event": kind.__name__, **plain})
            assert repr(item.name) in str(told.value)


@pytest.mark.parametrize(
    ("plain", "told"),
    [
        ({}, "no such event: None"),
        ({"event": "Telegram", "sample": 1}, "no such event: 'Telegram'"),
        ({"event": ["Partial"], "sample": 1}, r"no such event: \['Partial'\]"),
        ({"event": "Trigger", "sample": 1, "colour": "red"}, "Trigger: .*'colour'"),
        ({"event": "Words", "sample": 1, "text": "a", "word_first": 3}, "Words: 'int' object is not iterable"),
        ({"event": "Foreseen", "sample": 1, "turn": 1, "first": 0, "last": 1, "words": "a"}, "Foreseen: 'str' object has no attribute"),
        ({"event": "TurnClosed", "sample": 1, "turn": 1, "reason": "tired", "first": 0, "last": 1}, "'tired' is not a valid CloseReason"),
    ],
)
def test_what_is_no_record_is_refused(plain: dict[str, Any], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        decode(plain)
