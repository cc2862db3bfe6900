"""Facts, events and orders as plain dicts and back: the form that crosses processes and that --json prints.

What lives here: `encode` and `decode`. What must not: what a record means (events.py), bytes on a socket (wire.py).
"""

from __future__ import annotations

import dataclasses
import typing
from enum import Enum
from typing import Any

from .events import Event, Fact, Order, Words

_KINDS: dict[str, type] = {kind.__name__: kind for union in (Fact, Event, Order) for kind in typing.get_args(union)}


def encode(record: Fact | Event | Order) -> dict[str, Any]:
    """A dict of plain values, `event` first: `{"event": "Partial", "sample": 1, …}`; a record inside it is one, too."""
    plain: dict[str, Any] = {"event": type(record).__name__}
    for item in dataclasses.fields(record):
        value = getattr(record, item.name)
        if isinstance(value, Words):
            value = encode(value)
        plain[item.name] = value.value if isinstance(value, Enum) else list(value) if isinstance(value, tuple) else value
    return plain


def decode(plain: dict[str, Any]) -> Fact | Event | Order:
    """The record that `encode` made this of; ValueError says what is unknown or missing."""
    kind = _KINDS.get(str(plain.get("event")))
    if kind is None:
        raise ValueError(f"no such event: {plain.get('event')!r}")
    values = {name: value for name, value in plain.items() if name != "event"}
    try:
        for name, wanted in _field_types(kind).items():
            if name in values and isinstance(wanted, type) and issubclass(wanted, Enum):
                values[name] = wanted(values[name])
            elif name in values and typing.get_origin(wanted) is tuple:
                values[name] = tuple(values[name])
            elif name in values and wanted is Words:
                values[name] = decode(values[name])
        record: Fact | Event | Order = kind(**values)
    except (TypeError, AttributeError) as error:
        raise ValueError(f"{kind.__name__}: {error}") from None
    return record


_TYPES: dict[type, dict[str, Any]] = {}


def _field_types(kind: type) -> dict[str, Any]:
    if kind not in _TYPES:
        _TYPES[kind] = typing.get_type_hints(kind)
    return _TYPES[kind]
