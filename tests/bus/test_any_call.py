"""Any call whatever: random members, paths, signatures and values get one answer each, and the service goes on."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from voiced.bus import interface
from voiced.bus.connection import CallError, Value, connect
from voiced.bus.private import start_private_bus

if TYPE_CHECKING:
    from bus.conftest import MemoryDesk, Serving

_NUMBERS = {"y": (0, 255), "n": (-(2**15), 2**15 - 1), "q": (0, 2**16 - 1), "i": (-(2**31), 2**31 - 1), "u": (0, 2**32 - 1)}
_NUMBERS |= {"x": (-(2**63), 2**63 - 1), "t": (0, 2**64 - 1)}
_TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=40)

BASIC: dict[str, st.SearchStrategy[Any]] = {
    **{code: st.integers(low, high) for code, (low, high) in _NUMBERS.items()},
    "b": st.booleans(),
    "d": st.floats(),
    "s": _TEXT,
    "o": st.sampled_from(["/", interface.ROOT, interface.lane_path("kitchen"), "/a_1/b"]),
    "g": st.sampled_from(["", "s", "a{sv}", "(ii)"]),
}


def _array(one: tuple[str, Any]) -> tuple[str, Any]:
    return f"a{one[0]}", [one[1]] * 2 if one[0] != "y" else bytes([one[1]] * 2)


TYPED = st.recursive(
    st.sampled_from(sorted(BASIC)).flatmap(lambda code: st.tuples(st.just(code), BASIC[code])),
    lambda inner: st.one_of(
        inner.map(_array),
        st.lists(inner, min_size=1, max_size=3).map(lambda many: (f"({''.join(code for code, _ in many)})", [value for _, value in many])),
        inner.map(lambda one: ("v", Value(*one))),
        st.dictionaries(_TEXT, inner.map(lambda one: Value(*one)), max_size=3).map(lambda held: ("a{sv}", held)),
    ),
    max_leaves=6,
)
"""(signature, value) of one complete type."""

ALL = (*interface.OURS, interface.PROPERTIES, interface.INTROSPECTABLE, interface.PEER, interface.OBJECT_MANAGER)
_MEMBERS = sorted({method.name for one in ALL for method in one.methods})
CALLS = st.tuples(
    st.sampled_from([interface.ROOT, interface.STATUS_PATH, interface.lane_path("kitchen"), "/", "/org", interface.lane_path("none")]),
    st.sampled_from(["", "a.b", *(one.name for one in ALL)]),
    st.sampled_from([*_MEMBERS, "Nothing", "x"]),
    st.lists(TYPED, max_size=4),
)


@pytest.mark.fuzz
def test_every_call_has_one_answer_and_the_service_goes_on(
    tmp_path_factory: pytest.TempPathFactory,
    desk: MemoryDesk,
    serving: type[Serving],
    caplog: pytest.LogCaptureFixture,
    record_property: Callable[[str, object], None],
) -> None:
    private = start_private_bus(tmp_path_factory.mktemp("b") / "b")
    loop = asyncio.new_event_loop()
    names: list[str] = []
    cases = 0

    async def begin() -> tuple[Any, Any]:
        served = serving(desk, private.address, "dbus-fast")
        await served.__aenter__()
        return served, await connect(private.address, "dbus-fast")

    served, client = loop.run_until_complete(begin())

    async def ask(call: tuple[str, str, str, list[tuple[str, Any]]]) -> None:
        path, name, member, typed = call
        try:
            await client.call(
                interface.NAME, path, name, member, "".join(code for code, _ in typed), *(value for _, value in typed), timeout_s=120
            )
        except CallError as error:
            names.append(error.name)
            assert error.name.startswith(("org.voiced.", "org.freedesktop.DBus.Error.")), error
            assert "Traceback" not in str(error)
            assert "\n" not in str(error)

    @settings(max_examples=settings().max_examples)
    @given(CALLS)
    def any_call(call: tuple[str, str, str, list[tuple[str, Any]]]) -> None:
        nonlocal cases
        cases += 1
        loop.run_until_complete(ask(call))

    try:
        with caplog.at_level(logging.ERROR):
            any_call()
        version = loop.run_until_complete(client.call(interface.NAME, interface.ROOT, "org.freedesktop.DBus.Peer", "Ping"))
        assert version == []
        assert [record for record in caplog.records if record.exc_info] == []
        assert names
        record_property("cases", cases)
    finally:
        client.close()
        loop.run_until_complete(served.__aexit__())
        loop.close()
        private.close()
