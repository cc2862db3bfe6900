"""YAML, read strictly: every value keeps its line, nothing is guessed, every mistake is found at once.

What lives here: text → nodes → sections (knobs.py says what may stand in one). What must not: any setting by name, any file.

YAML 1.1 reads `no` as false, `010` as 8, `1:30` as 90 and `1_000` as 1000. Here a scalar is only text until a knob says what it
wants: a truth value takes true, false, yes, no, on and off; a number takes plain decimal digits; a text takes what is written.
Anchors, aliases, tags and second documents are refused: a settings file has no use for them and a bomb is made of them.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeVar

from .former import now
from .knobs import Row, fits, rows, show, wanted

S = TypeVar("S")

_DEPTH = 6
"""Collections within collections; a settings file needs four (document, list, entry, list of cores)."""

_TRUTH = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}
_WHOLE = re.compile(r"[+-]?(0|[1-9][0-9]{0,17})")
_NUMBER = re.compile(r"[+-]?(0|[1-9][0-9]{0,17})?(\.[0-9]{0,30})?(?<=[0-9.])([eE][+-]?[0-9]{1,3})?")


@dataclass(frozen=True, slots=True)
class Mistake:
    """A sentence about a key (empty: the file itself) and the line it stands on, counted from 1."""

    line: int
    key: str
    what: str


@dataclass(frozen=True, slots=True)
class Scalar:
    line: int
    text: str
    plain: bool
    """Written without quotes."""


@dataclass(frozen=True, slots=True)
class Sequence:
    line: int
    items: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Mapping:
    line: int
    entries: tuple[tuple[Node, Node], ...]


@dataclass(frozen=True, slots=True)
class Refused:
    """Stands for what has been complained of already (an alias, a tagged value)."""

    line: int


Node = Scalar | Sequence | Mapping | Refused


class _Stop(Exception):
    """Nothing after this mistake can be understood."""


def compose(text: str) -> tuple[Node | None, list[Mistake]]:
    """The document as nodes, None where it is empty or cannot be read, and what is wrong with it as YAML."""
    import yaml

    mistakes: list[Mistake] = []
    try:
        return _document(yaml.parse(text, yaml.SafeLoader), mistakes), mistakes
    except _Stop:
        return None, mistakes
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        character = f"U+{ord(text[error.position]):04X}"
        return None, [*mistakes, Mistake(line, "", f"must be text without control characters; got {character}")]
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        what = error.problem or error.context or "cannot be read"
        if "'\\t'" in what:
            what = "a tab; YAML is indented with spaces"
        return None, [*mistakes, Mistake(mark.line + 1 if mark else 1, "", f"must be YAML; got {what}")]


def _document(events: Iterator[Any], mistakes: list[Mistake]) -> Node | None:
    import yaml

    def refuse(event: Any, what: str) -> Refused:
        line = event.start_mark.line + 1
        mistakes.append(Mistake(line, "", what))
        return Refused(line)

    def children(depth: int) -> tuple[Node, ...]:
        found = []
        while not isinstance(event := next(events), yaml.CollectionEndEvent):
            found.append(node(event, depth + 1))
        return tuple(found)

    def node(event: Any, depth: int) -> Node:
        line = event.start_mark.line + 1
        if isinstance(event, yaml.AliasEvent):
            return refuse(event, f"must spell its values out; got the alias *{event.anchor}")
        if depth > _DEPTH:
            refuse(event, f"must not be nested deeper than {_DEPTH} levels")
            raise _Stop
        made: Node
        if isinstance(event, yaml.ScalarEvent):
            made = Scalar(line, event.value, event.style is None)
        elif isinstance(event, yaml.SequenceStartEvent):
            made = Sequence(line, children(depth))
        else:
            found = children(depth)
            made = Mapping(line, tuple(zip(found[::2], found[1::2], strict=True)))
        if event.anchor:
            refuse(event, f"must spell its values out; got the anchor &{event.anchor}")
        return refuse(event, f"must not use tags; got {event.tag}") if event.tag else made

    root: Node | None = None
    for event in events:
        if isinstance(event, yaml.DocumentStartEvent):
            if root is not None:
                refuse(event, "must be one document; got a second one")
                raise _Stop
            root = node(next(events), 1)
    return None if isinstance(root, Scalar) and root.plain and not root.text else root


class Stack:
    """Several documents, one above the other. Their lines are counted through, so that a line tells its document.

    nodes      of each document that could be read
    merged     one of them all: of a mapping the later document's values, entry by entry; of all else the later one's whole
    mistakes   what is wrong with them as YAML
    """

    def __init__(self, texts: Iterable[tuple[str, str]]) -> None:
        self._starts: list[tuple[int, str]] = []
        self.nodes: list[Node] = []
        self.mistakes: list[Mistake] = []
        self.merged: Node | None = None
        before = 0
        for name, text in texts:
            self._starts.append((before, name))
            node, mistakes = compose("\n" * before + text)
            self.mistakes += mistakes
            if node:
                self.nodes.append(node)
                self.merged = merge(self.merged, node) if self.merged else node
            before += text.count("\n") + 1

    def place(self, line: int) -> str:
        """`name:line` of a line as it is counted here."""
        before, name = next((before, name) for before, name in reversed(self._starts) if before < line)
        return f"{name}:{line - before}"


def merge(below: Node, above: Node) -> Node:
    """See Stack.merged. A section whose every line is commented out says nothing."""
    if isinstance(above, Scalar) and above.plain and not above.text:
        return below
    if not (isinstance(below, Mapping) and isinstance(above, Mapping)):
        return above
    entries = {name.text: (name, value) for name, value in reversed(below.entries) if isinstance(name, Scalar)}
    for name, value in reversed(above.entries):  # of one that is there twice the first, as Reader has it
        if isinstance(name, Scalar):
            old = entries.get(name.text)
            entries[name.text] = (name, merge(old[1], value) if old else value)
    return Mapping(above.line, tuple(entries.values()))


@dataclass(slots=True)
class Reader:
    """Turns nodes into sections; collects mistakes and remembers where each key was written.

    lines     key (`vad.on`, `lanes[0].name`) to the line it stands on
    """

    mistakes: list[Mistake] = field(default_factory=list)
    lines: dict[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, kind: type[Any], node: Node) -> list[Mistake]:
        """The mistakes of a section alone."""
        reader = cls()
        reader.section(kind, node)
        return reader.mistakes

    def section(self, kind: type[S], node: Node | None, key: str = "") -> S:
        """A section of the values written, defaults for the others and for what is wrong."""
        table = rows(kind)
        values: dict[str, Any] = {}
        if node is None or (key and isinstance(node, Scalar) and node.plain and not node.text):
            return kind()  # an empty file, or a section whose every line is commented out
        if not isinstance(node, Mapping):
            self._complain(node, key, f"must be {'a section of ' if key else ''}`name: value` lines; got {_got(node)}")
            return kind()
        for name, value in self._entries(node, key, tuple(table)):
            row, path = table[name], f"{key}.{name}" if key else name
            if row.section:
                values[name] = self.section(row.type, value, path)
            elif not row.item:
                values[name] = self._value(row, value, path)
            elif isinstance(value, Sequence) and fits(row, value.items):
                values[name] = tuple(self._item(row.item, item, f"{path}[{at}]") for at, item in enumerate(value.items))
            else:
                self._complain(value, path, f"must be {wanted(row)}; got {_got(value)}")
        return kind(**{name: value for name, value in values.items() if value is not None})

    def _item(self, kind: type[S], node: Node, key: str) -> S:
        self.lines[key] = node.line
        return self.section(kind, node, key)

    def line(self, key: str) -> int:
        """Where the key is written, or what it is in; 1 where nothing of it is."""
        while key and key not in self.lines:
            key = key[: max(key.rfind("."), key.rfind("["), 0)]
        return self.lines.get(key, 1)

    def _entries(self, node: Mapping, key: str, known: tuple[str, ...]) -> Iterator[tuple[str, Node]]:
        seen: dict[str, int] = {}
        for name, value in node.entries:
            if not isinstance(name, Scalar):
                self._complain(name, key, f"must have names for keys; got {_got(name)}")
                continue
            path = f"{key}.{name.text}" if key else name.text
            if name.text in seen:
                self._complain(name, path, f"must be given once; it is on line {seen[name.text]} already")
            elif name.text in known:
                self.lines[path] = name.line
                yield name.text, value
            else:
                near = difflib.get_close_matches(name.text, known, 1, 0.5)
                advice = f"did you mean {near[0]}?" if near else f"known here: {', '.join(known)}"
                if (instead := now(path)) is not None:
                    self._complain(name, path, f"is of an older version; {instead}")
                else:
                    self._complain(name, _clip(path), f"no such {'setting' if key else 'section'}; {advice}")
            seen.setdefault(name.text, name.line)

    def _value(self, row: Row, node: Node, key: str) -> Any:
        """The value as the row's type; None for a null that may be one, and after a complaint."""
        if row.optional and isinstance(node, Scalar) and node.plain and node.text.lower() in ("", "~", "null"):
            return None
        value = _convert(row.type, node)
        if value is None or not fits(row, value):
            default = f"default {show(row.knob.default)}"
            self._complain(node, key, f"must be {wanted(row)}; got {_got(node)}; {default}")
            return None
        return value

    def _complain(self, node: Node, key: str, what: str) -> None:
        if not isinstance(node, Refused):
            self.mistakes.append(Mistake(node.line, key, what))


def _convert(kind: Any, node: Node) -> Any:
    """A scalar (or a list of scalars) as the Python type wanted; None where it is not one."""
    if kind not in (bool, int, float, str):
        if not isinstance(node, Sequence):
            return None
        items = tuple(_convert(int, item) for item in node.items)
        return None if None in items else items
    if not isinstance(node, Scalar):
        return None
    if kind is str:
        return node.text if (node.text and node.text != "~") or not node.plain else None
    if not node.plain:
        return None
    if kind is bool:
        return _TRUTH.get(node.text.lower())
    if kind is int:
        return int(node.text) if _WHOLE.fullmatch(node.text) else None
    return float(node.text) if _NUMBER.fullmatch(node.text) else None


def _got(node: Node) -> str:
    if isinstance(node, Sequence):
        texts = [item.text for item in node.items if isinstance(item, Scalar)]
        return _clip(f"[{', '.join(texts)}]") if len(texts) == len(node.items) else f"a list of {len(node.items)}"
    if not isinstance(node, Scalar):
        return "a section"
    if node.plain:
        return _clip(node.text) or "nothing"
    return _clip(show(node.text))


def _clip(text: str) -> str:
    """Printable and short: a mistake stays one line whatever was written."""
    text = "".join(character if character.isprintable() else f"\\x{ord(character):02x}" for character in text)
    return text if len(text) <= 60 else f"{text[:57]}…"
