"""The tables: files equal to what is made of them, lane names and events there and back."""

from __future__ import annotations

import re
import subprocess
import sys
import typing
import xml.etree.ElementTree as ET
from enum import Enum
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from voiced import events
from voiced.bus import bodies, interface
from voiced.bus.connection import Value
from voiced.desk import Published

numbers = st.integers(0, 2**63)
texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=30)
floats = st.floats(allow_nan=False)


def any_of(wanted: Any) -> st.SearchStrategy[Any]:
    if wanted in (int, str, float):
        return {int: numbers, str: texts, float: floats}[wanted]
    if isinstance(wanted, type) and issubclass(wanted, Enum):
        return st.sampled_from(wanted)
    if wanted == tuple[int, ...]:
        return st.lists(numbers, max_size=3).map(tuple)
    if wanted in (float | None, int | None):
        return st.none() | (floats if wanted == float | None else numbers)
    assert wanted == dict[str, float]
    return st.dictionaries(texts, floats, max_size=3)


KINDS: tuple[Any, ...] = typing.get_args(events.Event)
EVENTS = [st.builds(kind, **{name: any_of(wanted) for name, wanted in typing.get_type_hints(kind).items()}) for kind in KINDS]


def plain(value: Any) -> Any:
    if isinstance(value, Value):
        return plain(value.value)
    return {key: plain(item) for key, item in value.items()} if isinstance(value, dict) else value


@given(st.one_of(EVENTS), numbers, numbers, numbers)
def test_every_event_comes_back_from_its_signal(event: Any, sequence: int, monotonic_us: int, realtime_us: int) -> None:
    published = Published("kitchen", sequence, event, monotonic_us, realtime_us)
    member, body = bodies.to_signal(published)
    signal = next(item for item in interface.LANE.signals if item.name == member)
    assert len(body) == len(signal.args)
    assert body[:3] == [sequence, getattr(event, "turn", 0), event.sample]
    assert bodies.from_signal("kitchen", member, [plain(item) for item in body]) == published


def test_every_event_of_the_heart_has_a_signal() -> None:
    assert {kind.__name__ for kind in KINDS} == set(bodies.SIGNATURES)


scores = st.floats(0, 1)
DECISIONS = st.one_of(st.builds(events.NearMiss, numbers, texts, scores, scores), *EVENTS[:2])


@given(DECISIONS, numbers)
def test_a_decision_says_where_when_and_by_how_much(event: Any, realtime_us: int) -> None:
    said = {name: plain(value) for name, value in bodies.to_decision(Published("kitchen", 7, event, 5, realtime_us)).items()}
    assert said["event"] == type(event).__name__ in ("Wake", "WakeRefused", "NearMiss")
    assert (said["lane"], said["sequence"], said["sample"], said["realtime_us"]) == ("kitchen", 7, event.sample, realtime_us)
    if isinstance(event, events.NearMiss):
        assert said["margin"] == event.score - event.threshold
        assert said["scores"] == {"stage1": event.score, "stage1_threshold": event.threshold}


@pytest.mark.parametrize(
    ("member", "body"), [("Applause", [1, 2, 3, {}]), ("Partial", [1, 2]), ("TurnClosed", [1, 2, 3, "boredom", 4, 5, {}])]
)
def test_what_is_not_understood_is_said(member: str, body: list[Any]) -> None:
    with pytest.raises(ValueError):
        bodies.from_signal("kitchen", member, body)


def test_details_may_grow() -> None:
    known = bodies.from_signal("kitchen", "Partial", [7, 1, 16000, "hello", {"monotonic_us": 5, "stable_prefix": 3}])
    assert known == Published("kitchen", 7, events.Partial(16000, 1, "hello"), 5, 0)


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=12), st.text(st.characters(exclude_categories=["Cs"]), max_size=12))
def test_a_lane_has_one_valid_path_of_its_own(one: str, other: str) -> None:
    path = interface.lane_path(one)
    assert re.fullmatch(r"/org/voiced/Voice1/lanes/[A-Za-z0-9_]+", path)
    assert interface.lane_of(path) == one
    assert (path == interface.lane_path(other)) == (one == other)


@pytest.mark.parametrize("path", ["/", "", "/lanes", "/lanes/a_", "/lanes/_ff", "/lanes/_61", "/lanes/a/b"])
def test_other_paths_are_no_lanes(path: str) -> None:
    assert interface.lane_of(path if path == "/" else interface.ROOT + path) is None


def test_files_are_what_the_tables_say() -> None:
    made = interface.introspection_xml()
    there = {path.name: path.read_text() for path in interface.DATA.iterdir()}
    assert there == made, "run python -m voiced.bus.interface"


def test_text_is_never_a_property() -> None:
    names = {prop.name.lower() for item in interface.OURS for prop in item.properties}
    assert not names & {"text", "partial", "final", "firstpass", "transcript"}
    assert {prop.name for prop in interface.STATUS.properties} == {"Version", "Health", "Muted"}


@pytest.mark.parametrize("name", sorted(interface.introspection_xml()))
def test_files_are_valid(name: str) -> None:
    """Against the grammar of the specification's DTD, as far as we use it."""
    allowed = {
        "node": {"node", "interface"},
        "interface": {"method", "signal", "property"},
        "method": {"arg"},
        "signal": {"arg"},
        "property": {"annotation"},
    }
    root = ET.fromstring((interface.DATA / name).read_text())
    for element in root.iter():
        assert {child.tag for child in element} <= allowed.get(element.tag, set())
        if element.tag in ("arg", "property"):
            assert element.get("type")
        if element.tag == "property":
            assert element.get("access") == "read"


def test_nothing_heavy_is_imported_for_the_names() -> None:
    heavy = ("numpy", "dbus_next", "dbus_fast")
    code = f"import sys, voiced.bus.service, voiced.bus.client; print([name for name in sys.modules if name.split('.')[0] in {heavy}])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
