"""Events and records of ours as bodies of messages, and back.

What lives here: what goes between a record and the arguments that interface.py names. What must not: names, connections and state.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from typing import Any

from .. import events
from ..desk import LevelHeard, Published
from ..plain import decode, encode
from .connection import Value
from .interface import LANE

_SIGNATURES = {bool: "b", int: "t", float: "d", str: "s", dict: "a{sd}", list: "at"}
_COMMON = ("sequence", "turn", "sample")


@functools.cache
def _own(signal: str) -> tuple[str, ...]:
    """The arguments of a lane's signal between the common ones and the details."""
    found = next(item for item in LANE.signals if item.name == signal)
    return tuple(arg.name for arg in found.args[len(_COMMON) : -1])


SIGNATURES = {signal.name: signal.signature for signal in LANE.signals if signal.args[0].name == "sequence"}
"""Of the signals that publish events."""


def to_signal(published: Published) -> tuple[str, list[Any]]:
    """Member and body of the signal that publishes an event. What has no argument of its own goes into the details."""
    plain = encode(published.event)
    member = plain.pop("event")
    own = _own(member)
    body = [published.sequence, plain.pop("turn", 0), plain.pop("sample"), *(plain.pop(name) for name in own)]
    details = {name: Value(_SIGNATURES[type(value)], value) for name, value in plain.items() if value is not None}
    details["monotonic_us"] = Value("t", published.monotonic_us)
    details["realtime_us"] = Value("t", published.realtime_us)
    return member, [*body, details]


def from_signal(lane: str, member: str, body: list[Any]) -> Published:
    """The event that a signal published (variants unpacked); ValueError where a newer daemon says what we do not know."""
    if member not in SIGNATURES or len(body) <= len(_COMMON) + len(_own(member)):
        raise ValueError(f"no such event: {member} with {len(body)} arguments")
    sequence, *values = body
    details: Mapping[str, Any] = body[-1]
    plain = {**details, **dict(zip((*_COMMON[1:], *_own(member)), values, strict=False))}
    kind = getattr(events, member)
    known = {field.name for field in dataclasses.fields(kind)}
    event = decode({"event": member, **{name: value for name, value in plain.items() if name in known}})
    return Published(lane, sequence, event, details.get("monotonic_us", 0), details.get("realtime_us", 0))  # type: ignore[arg-type]


def to_level(heard: LevelHeard) -> tuple[str, list[Any]]:
    """Signature and body of a Level."""
    details = {"turn": Value("t", heard.turn), "monotonic_us": Value("t", heard.monotonic_us)}
    return "tdda{sv}", [heard.sample, heard.rms_dbfs, heard.peak_dbfs, details]


def from_level(lane: str, body: list[Any]) -> LevelHeard:
    sample, rms_dbfs, peak_dbfs, details = body
    return LevelHeard(lane, sample, rms_dbfs, peak_dbfs, details.get("monotonic_us", 0), details.get("turn", 0))


def to_decision(published: Published) -> dict[str, Value]:
    """What Explain gives of a wake, a refusal or a near miss: its fields, where and when, and how far stage 1 was from its threshold."""
    plain = encode(published.event)
    known = {"lane": published.lane, "sequence": published.sequence, **plain}
    known |= {"monotonic_us": published.monotonic_us, "realtime_us": published.realtime_us}
    if isinstance(published.event, events.NearMiss):
        known["scores"] = {"stage1": published.event.score, "stage1_threshold": published.event.threshold}
    if {"stage1", "stage1_threshold"} <= known["scores"].keys():  # a client's wake has none
        known["margin"] = known["scores"]["stage1"] - known["scores"]["stage1_threshold"]
    return {name: Value(_SIGNATURES[type(value)], value) for name, value in known.items()}


def to_row(plain: Mapping[str, Any]) -> dict[str, Value]:
    """A plain record (receipts.to_plain) as an a{sv}."""
    return {name: _variant(value) for name, value in plain.items()}


def _variant(value: Any) -> Value:
    """A list is one of records, a dict one of numbers by name, or of lists of numbers."""
    if isinstance(value, list):
        return Value("aa{sv}", [to_row(item) for item in value])
    if isinstance(value, dict) and any(isinstance(item, list) for item in value.values()):
        return Value("a{sad}", {name: [float(item) for item in items] for name, items in value.items()})
    if isinstance(value, dict):
        return Value("a{sd}", {name: float(item) for name, item in value.items()})
    return Value(_SIGNATURES[type(value)], value)
