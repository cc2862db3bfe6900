"""What a settings file that was read anew changes, and which of it at once.

What lives here: two records of settings compared knob by knob. What must not: any setting by name, any file, who takes the change.
A list of sections that is live is taken as a whole; of another list the entries are compared where it has as many as before.
"""

from __future__ import annotations

import dataclasses
from typing import Any, TypeVar

from .knobs import rows

S = TypeVar("S")


@dataclasses.dataclass(frozen=True, slots=True)
class Changes:
    """Keys (`vad.on`, `lanes[0].source`) in the order of the table: those that take effect at once, and those of the next start."""

    live: tuple[str, ...] = ()
    restart: tuple[str, ...] = ()


def adopt(before: S, after: S) -> tuple[S, Changes]:
    """The settings that hold now: live knobs as `after` has them, the others as `before`; and what differs between the two."""
    live: list[str] = []
    restart: list[str] = []
    held = _adopt(before, after, "", live, restart)
    return held, Changes(tuple(live), tuple(restart))


def _adopt(before: Any, after: Any, key: str, live: list[str], restart: list[str]) -> Any:
    held: dict[str, Any] = {}
    for name, row in rows(type(before)).items():
        old, new, path = getattr(before, name), getattr(after, name), f"{key}.{name}" if key else name
        if old == new:
            continue
        if row.section and old is not None and new is not None:
            held[name] = _adopt(old, new, path, live, restart)
        elif row.knob.live or (row.section and _is_live(old or new)):
            live.append(path)
            held[name] = new
        elif row.item and len(old) == len(new) and _names(old) == _names(new):
            entries = enumerate(zip(old, new, strict=True))
            held[name] = tuple(_adopt(one, other, f"{path}[{at}]", live, restart) for at, (one, other) in entries)
        else:
            restart.append(path)
    return dataclasses.replace(before, **held)


def _is_live(section: Any) -> bool:
    """A section that comes or goes whole: what is not live in it has its default."""
    return all(row.knob.live or getattr(section, name) == row.knob.default for name, row in rows(type(section)).items())


def _names(entries: Any) -> list[object]:
    """What the entries of a list are called: one of another name is another entry, whatever stands at its place."""
    return [getattr(entry, "name", None) for entry in entries]
