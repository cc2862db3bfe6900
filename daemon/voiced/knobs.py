"""One row a knob: how a setting is declared, checked, made plain and explained.

What lives here: `knob`, the declaration that stands on a field of a frozen dataclass (a *section*), and what follows from it
alone. What must not: any setting by name (settings.py), any file or YAML (yamlread.py).

A knob's type is its field's: bool, int, float, str, tuple[int, ...], or tuple[Section, ...] for a list of small sections; of a number that
may be left to others `float | None`, null in the file.
"""

from __future__ import annotations

import dataclasses
import math
import re
import textwrap
import typing
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

S = TypeVar("S")

TEXT_LIMIT = 1024
"""Characters in a text value: a path, a bus address or a name is shorter, and a log line must hold it."""


@dataclass(frozen=True, slots=True)
class Knob:
    """What is known of a setting besides its name and type.

    low, high   bounds of the number, of each number of a list, or of the length of a list of sections; inclusive
    pattern     what a text must match, whole; `form` says it in words
    live        a reload applies it; the others take effect at the next start
    profiles    default by the value of the section's knob `profile`; empty: the same whatever it is
    """

    default: Any
    sentence: str
    low: float | None = None
    high: float | None = None
    unit: str = ""
    choices: tuple[str, ...] = ()
    pattern: str = ""
    form: str = ""
    live: bool = False
    profiles: Mapping[str, Any] = dataclasses.field(default_factory=dict)


def knob(
    default: Any,
    sentence: str,
    *,
    low: float | None = None,
    high: float | None = None,
    unit: str = "",
    choices: tuple[str, ...] = (),
    pattern: str = "",
    form: str = "",
    live: bool = False,
    profiles: Mapping[str, Any] | None = None,
) -> Any:
    """A dataclass field with its knob. The unit is told by the end of the name (`_ms`, `_db`, `_dbfs`) or by `unit`."""
    row = Knob(default, sentence, low, high, unit, choices, pattern, form, live, profiles or {})
    return dataclasses.field(default=default, metadata={"knob": row})


@dataclass(frozen=True, slots=True)
class Row:
    """A knob in its place, or a whole section in it.

    type     the field's type, resolved; the section's class where `section`
    item     class of the entries of a list of sections, else None
    section  the field is a section of its own and has no value to check
    optional  the section may be left out, or the value be null: None then
    """

    name: str
    type: Any
    knob: Knob
    item: type | None
    section: bool = False
    optional: bool = False

    @property
    def unit(self) -> str:
        suffix = self.name.rpartition("_")[2]
        return self.knob.unit or {"ms": "milliseconds", "db": "dB", "dbfs": "dBFS"}.get(suffix, "")


_ROWS: dict[type, Mapping[str, Row]] = {}


def rows(section: type) -> Mapping[str, Row]:
    """The knobs of a section class by name, in the order written."""
    if section in _ROWS:
        return _ROWS[section]
    hints = typing.get_type_hints(section)
    found = {}
    for field in dataclasses.fields(section):
        if "knob" not in field.metadata:
            kind = hints[field.name]
            found[field.name] = Row(field.name, kind, Knob(field.default, kind.__doc__ or ""), None, section=True)
            continue
        first, *others = typing.get_args(hints[field.name]) or (None,)
        item = first if dataclasses.is_dataclass(first) else None
        if type(None) in others:
            found[field.name] = Row(field.name, first, field.metadata["knob"], None, section=item is not None, optional=True)
            continue
        found[field.name] = Row(field.name, hints[field.name], field.metadata["knob"], typing.cast("type | None", item))
    _ROWS[section] = found
    return found


def show(value: object) -> str:
    """A value as it is written in YAML (every JSON text is YAML, and a reader of either knows it)."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple | list):
        return "[" + ", ".join(show(item) for item in value) + "]"
    if isinstance(value, str):
        escaped = value.replace("\\", "\\\\").replace('"', '\\"')
        return f'"{escaped}"'
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return repr(value)


def wanted(row: Row) -> str:
    """What a value must be, in words: `a number from 0 to 1`."""
    knob = row.knob
    low, high = (None if bound is None else f"{bound:g}" for bound in (knob.low, knob.high))
    span = f" from {low} to {high}" if low and high else f" of at least {low}" if low else f" of at most {high}" if high else ""
    unit = f" ({row.unit})" if row.unit else ""
    if row.item:
        return f"a list of {low} to {high} entries, each with " + ", ".join(rows(row.item))
    if knob.choices:
        return "one of " + ", ".join(choice or '""' for choice in knob.choices)
    if row.type is bool:
        return "true or false"
    if row.type is int:
        return f"a whole number{span}{unit}"
    if row.type is float:
        return f"a number{span}{unit}{', or null' if row.optional else ''}"
    if row.type is str:
        return knob.form or "text"
    return f"a list of whole numbers{span}, each once"


def fits(row: Row, value: object) -> bool:
    """Whether a Python value of any origin is of the row's type and within its bounds. Lists of sections: their length only."""
    knob = row.knob

    def within(number: float) -> bool:
        return (knob.low is None or number >= knob.low) and (knob.high is None or number <= knob.high)

    if value is None:
        return row.optional
    if row.item:
        return isinstance(value, tuple | list) and within(len(value))
    if row.type is bool:
        return isinstance(value, bool)
    if row.type is int:
        return isinstance(value, int) and not isinstance(value, bool) and within(value)
    if row.type is float:
        return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) and within(value)
    if row.type is str:
        if not isinstance(value, str) or len(value) > TEXT_LIMIT or not value.isprintable():
            return False
        return value in knob.choices if knob.choices else not knob.pattern or re.fullmatch(knob.pattern, value) is not None
    if not isinstance(value, tuple | list):
        return False
    whole = all(isinstance(item, int) and not isinstance(item, bool) and within(item) for item in value)
    return whole and len(set(value)) == len(value)


def to_plain(section: Any) -> dict[str, Any]:
    """A section (or a record of sections) as dicts, lists and scalars that JSON keeps exactly."""

    def plain(value: Any) -> Any:
        if dataclasses.is_dataclass(value):
            return to_plain(value)
        return [plain(item) for item in value] if isinstance(value, tuple) else value

    return {field.name: plain(getattr(section, field.name)) for field in dataclasses.fields(section)}


def from_plain(kind: type[S], plain: Mapping[str, Any]) -> S:
    """The section that `to_plain` made this of; ValueError names the first key that is missing, unknown or does not fit."""
    table = rows(kind)
    if not isinstance(plain, Mapping):
        raise ValueError(f"{kind.__name__}: must be a mapping; got {plain!r}")
    if odd := set(map(str, plain)) ^ set(table):
        raise ValueError(f"{kind.__name__}: missing or unknown: {', '.join(sorted(odd))}")
    values: dict[str, Any] = {}
    for name, row in table.items():
        value = plain[name]
        if row.section:
            values[name] = None if row.optional and value is None else from_plain(row.type, value)
            continue
        if not fits(row, value):
            raise ValueError(f"{kind.__name__}.{name}: must be {wanted(row)}; got {value!r}")
        if row.item:
            values[name] = tuple(from_plain(row.item, item) for item in value)
        elif row.type is float and value is not None:
            values[name] = float(value)
        else:
            values[name] = tuple(value) if isinstance(value, list) else value
    return kind(**values)


def explain(row: Row) -> str:
    """One sentence and what the value may be: the comment above a knob and its entry in the manual."""
    if row.section:
        return row.knob.sentence
    usual = "; " + ", ".join(f"{profile} {show(value)}" for profile, value in row.knob.profiles.items()) if row.knob.profiles else ""
    return f"{row.knob.sentence} [{wanted(row)}{usual}]"


def render(section: Any, indent: str = "") -> Iterator[str]:
    """Lines of YAML for a section, each knob under its comment, each section of it after an empty line.

    A knob that has what its profile gives is commented out: written down, it would stay so whatever the profile is.
    """
    for name, row in rows(type(section)).items():
        value = getattr(section, name)
        if not indent:
            yield ""
        yield from _comment(explain(row), indent)
        if row.section:
            yield f"{indent}{name}:"
            yield from render(value, indent + "  ")
        elif not row.item or not value:
            profiles = row.knob.profiles
            yield f"{indent}{'# ' if profiles and value == profiles[section.profile] else ''}{name}: {show(value)}"
        else:
            yield f"{indent}{name}:"
            for number, item in enumerate(value):
                yield from _entry(item, indent + "  ", commented=not number)


def _entry(item: Any, indent: str, *, commented: bool) -> Iterator[str]:
    lead = f"{indent}- "
    for name, row in rows(type(item)).items():
        value = getattr(item, name)
        if commented:
            yield from _comment(explain(row), indent if "-" in lead else lead)
        if row.section:  # never the first of an entry
            yield f"{lead}{name}:" if value else f"{lead}# {name}:"
            yield from (f"{lead}  {inner}: {show(getattr(value, inner))}" for inner in (rows(row.type) if value else ()))
        else:
            yield f"{lead}{name}: {show(value)}"
        lead = f"{indent}  "


def _comment(text: str, indent: str) -> Iterator[str]:
    return iter(textwrap.wrap(text, 110, initial_indent=f"{indent}# ", subsequent_indent=f"{indent}# ", break_on_hyphens=False))
