"""What a model is, and the reader of manifest.yaml.

Here live frozen records and one strict reader. Nothing is searched, loaded or fetched here (models.py, fetch.py). A mistake in a
manifest is a ModelError whose place is `path:line`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

from .errors import ModelError, reason_of

ROLES = ("wake-embedding", "wake-head", "wake-text", "vad", "transducer", "second-pass", "turn-detector", "speaker")

CONVERSIONS = ("moonshine-tokens",)
"""What fetch.py can make of a file while it takes it out of a wheel."""

_STREAMED = ("frame_ms", "chunk_ms", "lookahead_ms", "tail_ms")
_TIMES = {"transducer": _STREAMED, "wake-text": _STREAMED, "second-pass": ("tail_ms",)}
_FILE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]*")
_MODEL_ID = re.compile(r"[a-z0-9][a-z0-9.-]*")
_SHA256 = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class ModelFile:
    """One file of a model. `part` is what it is to its engine (encoder, tokens, …), `name` what it is called on disk.

    `size` (bytes) and `sha256` (hex) are what it must be; 0 and "" where only its archive's checksum is known.
    """

    part: str
    name: str
    size: int = 0
    sha256: str = ""


@dataclass(frozen=True, slots=True)
class Member:
    """A part's place in a wheel or archive. Where it is converted on its way out, `sha256` is what it must be before."""

    path: str
    sha256: str = ""
    convert: str = ""


@dataclass(frozen=True, slots=True)
class Directory:
    """The files lie in a folder: absolute, or below any folder of models that is searched."""

    path: str


@dataclass(frozen=True, slots=True)
class Wheel:
    """The files lie in a Python wheel. `platform` and `python` are pip's tags where the wheel's are not this machine's."""

    requirement: str
    members: Mapping[str, Member]
    size: int = 0
    platform: str = ""
    python: str = ""


@dataclass(frozen=True, slots=True)
class Archive:
    """The files lie in a tar archive at `url`, or the one file is what lies there."""

    url: str
    members: Mapping[str, Member]
    size: int = 0
    sha256: str = ""


Source = Directory | Wheel | Archive


@dataclass(frozen=True, slots=True)
class Model:
    """One model as its manifest has it. Times are milliseconds: transducers have all, second passes tail_ms, others none (0)."""

    id: str
    role: str
    kind: str
    licence: str
    about: str
    files: tuple[ModelFile, ...]
    sources: tuple[Source, ...]
    frame_ms: int = 0
    chunk_ms: int = 0
    lookahead_ms: int = 0
    tail_ms: int = 0
    end_token: bool = False
    origin: str = field(default="", compare=False)
    """`path:line` of its entry."""

    @property
    def fetchable(self) -> tuple[Wheel | Archive, ...]:
        return tuple(source for source in self.sources if not isinstance(source, Directory))

    @property
    def size(self) -> int:
        """Bytes of its files, 0 where one of them is not known."""
        return sum(file.size for file in self.files) if all(file.size for file in self.files) else 0


def read_manifest(path: Path) -> dict[str, Model]:
    """The models of one manifest, by id, in its order. Raises ModelError: the file cannot be read, or `path:line` is wrong."""
    import yaml

    try:
        text = path.read_text(encoding="utf-8")
        # The C parser is ten times faster; PyYAML is also built without it.
        root = yaml.compose(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except (OSError, UnicodeError) as error:
        raise ModelError(str(path), f"the model manifest cannot be read: {reason_of(error)}") from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        what = getattr(error, "problem", None) or " ".join(str(error).split())
        raise ModelError(f"{path}:{mark.line + 1 if mark else 1}", f"not YAML: {what}") from None
    if root is None:
        raise ModelError(f"{path}:1", "the model manifest is empty")
    top = _Table(path, "the manifest", root)
    if top.number("version") != 1:
        top.wrong("version", "must be 1")
    bases = dict(top.table("bases").texts()) if "bases" in top else {}
    models = {}
    listing = top.table("models")
    for model_id in listing:
        if not _MODEL_ID.fullmatch(model_id):
            listing.wrong(model_id, "an id is lower-case letters, digits, dots and dashes")
        models[model_id] = _model(model_id, listing.table(model_id), bases)
    top.done()
    return models


def _model(model_id: str, table: _Table, bases: Mapping[str, str]) -> Model:
    role = table.choice("role", ROLES)
    files = tuple(_file(part, table.table("files")) for part in table.table("files"))
    if not files:
        table.wrong("files", "a model has at least one file")
    sources = tuple(_source(entry, files, bases) for entry in table.tables("sources"))
    if not sources:
        table.wrong("sources", "a model comes from somewhere: directory, wheel or archive")
    times = {name: table.number(name) for name in _TIMES.get(role, ())}
    end_token = table.flag("end_token") if role == "transducer" else False
    model = Model(model_id, role, table.text("kind"), table.text("licence"), table.text("about"), files, sources,
                  **times, end_token=end_token, origin=table.where())  # fmt: skip
    table.done()
    return model


def _file(part: str, files: _Table) -> ModelFile:
    table = files.table(part)
    name = table.text("name")
    if not _FILE_NAME.fullmatch(name):
        table.wrong("name", f"must be a plain file name, not {name!r}")
    file = ModelFile(part, name, table.number("bytes", 0), table.checksum("sha256"))
    table.done()
    return file


def _source(table: _Table, files: tuple[ModelFile, ...], bases: Mapping[str, str]) -> Source:
    source: Source
    if "directory" in table:
        source = Directory(table.text("directory"))
    elif "wheel" in table:
        requirement = table.text("wheel")
        if not re.fullmatch(r"[A-Za-z0-9._-]+==[A-Za-z0-9.+!]+", requirement):
            table.wrong("wheel", f"must be package==version, not {requirement!r}")
        tags = table.text("platform", ""), table.text("python", "")
        source = Wheel(requirement, _members(table, files, ""), table.number("bytes", 0), *tags)
    elif "archive" in table:
        path, base = table.text("archive"), table.text("base")
        if base not in bases:
            table.wrong("base", f"must be one of {', '.join(bases) or 'bases (none is named)'}, not {base!r}")
        stem = re.sub(r"\.(tar\.\w+|tgz)$", "", path.rsplit("/", 1)[-1])
        source = Archive(bases[base] + path, _members(table, files, stem + "/"), table.number("bytes", 0), table.checksum("sha256"))
    else:
        table.wrong("", "a source is a directory, a wheel or an archive")
    table.done()
    return source


def _members(table: _Table, files: tuple[ModelFile, ...], below: str) -> dict[str, Member]:
    """A part's place: as written, else its own name `below` the archive's top folder. A wheel has no such default."""
    members = {file.part: Member(below + file.name) for file in files} if below else {}
    if "members" in table:
        written = table.table("members")
        for part in written:
            if part not in {file.part for file in files}:
                written.wrong(part, "no such part under files")
            members[part] = _member(part, written)
    for file in files:
        if file.part not in members:
            table.wrong("members", f"must say where {file.part} lies")
    return members


def _member(part: str, written: _Table) -> Member:
    if not written.is_table(part):
        return Member(written.text(part))
    table = written.table(part)
    convert = table.choice("convert", CONVERSIONS)
    member = Member(table.text("member"), table.checksum("sha256"), convert)
    table.done()
    return member


class _Table:
    """One YAML mapping (composed, not constructed: so every value keeps its line), read strictly: every key once, every key
    known, every value of its type."""

    def __init__(self, path: Path, name: str, node: Any) -> None:
        self._path, self._name, self._node = path, name, node
        self._nodes: dict[str, Any] = {}
        self._read: set[str] = set()
        if node.id != "mapping":
            self._fail(node, f"{name} must be a mapping")
        for key, value in node.value:
            if key.id != "scalar":
                self._fail(key, f"{name} must have names for keys")
            if key.value in self._nodes:
                self._fail(key, f"{name}: {key.value} is there twice")
            self._nodes[str(key.value)] = value

    def __contains__(self, key: str) -> bool:
        return key in self._nodes

    def __iter__(self) -> Iterator[str]:
        return iter(self._nodes)

    def where(self) -> str:
        return f"{self._path}:{self._node.start_mark.line + 1}"

    def _fail(self, node: Any, what: str) -> NoReturn:
        raise ModelError(f"{self._path}:{node.start_mark.line + 1}", what)

    def wrong(self, key: str, what: str) -> NoReturn:
        self._fail(self._nodes.get(key, self._node), f"{self._name}.{key}: {what}" if key else f"{self._name}: {what}")

    def done(self) -> None:
        """Every key has been read; one that has not is unknown."""
        for key in self._nodes:
            if key not in self._read:
                self.wrong(key, f"unknown key; known here: {', '.join(sorted(self._read))}")

    def _scalar(self, key: str, wanted: str, default: Any, tag: str) -> Any:
        self._read.add(key)
        node = self._nodes.get(key)
        if node is None:
            if default is None:
                self.wrong("", f"{key} is missing")
            return default
        if node.id != "scalar" or node.tag != f"tag:yaml.org,2002:{tag}":
            self.wrong(key, f"must be {wanted}")
        return node.value

    def text(self, key: str, default: str | None = None) -> str:
        value = str(self._scalar(key, "text", default, "str"))
        if not value and default is None:
            self.wrong(key, "must not be empty")
        return value

    def number(self, key: str, default: int | None = None) -> int:
        value = str(self._scalar(key, "a whole number", default, "int"))
        if not value.isascii() or not value.isdigit():
            self.wrong(key, f"must be a whole number of 0 or more, not {value}")
        return int(value)

    def flag(self, key: str) -> bool:
        value: str = self._scalar(key, "true or false", None, "bool")
        return value.lower() in ("true", "yes", "on")

    def choice(self, key: str, known: tuple[str, ...]) -> str:
        value = self.text(key)
        if value not in known:
            self.wrong(key, f"must be one of {', '.join(known)}, not {value!r}")
        return value

    def checksum(self, key: str) -> str:
        if key not in self._nodes:
            self._read.add(key)
            return ""
        # A checksum of digits alone is a number to YAML; its text is what counts.
        self._read.add(key)
        value = str(self._nodes[key].value)
        if not _SHA256.fullmatch(value):
            self.wrong(key, "must be a SHA-256: 64 hexadecimal digits in lower case")
        return value

    def is_table(self, key: str) -> bool:
        return bool(self._nodes[key].id == "mapping")

    def table(self, key: str) -> _Table:
        self._read.add(key)
        if key not in self._nodes:
            self.wrong("", f"{key} is missing")
        return _Table(self._path, key, self._nodes[key])

    def tables(self, key: str) -> list[_Table]:
        self._read.add(key)
        node = self._nodes.get(key)
        if node is None or node.id != "sequence":
            self.wrong(key, "must be a list")
        return [_Table(self._path, key, item) for item in node.value]

    def texts(self) -> list[tuple[str, str]]:
        return [(key, self.text(key)) for key in self._nodes]
