"""The queue's policy, against a plain list that does the same slowly."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from voiced.bus.outbox import Outbox

Put = tuple[str, str | None]
steps = st.lists(st.one_of(st.just("take"), st.sampled_from([None, "a", "b", "c"]).map(lambda key: ("put", key))), max_size=60)


@given(steps, st.integers(1, 6))
def test_equals_the_slow_model(script: list[str | Put], limit: int) -> None:
    outbox = Outbox(limit)
    model: list[tuple[bytes, str | None]] = []
    replaced = dropped = 0
    for number, step in enumerate(script):
        data = b"%d" % number
        if isinstance(step, str):
            assert outbox.take() == (model.pop(0)[0] if model else None)
            continue
        key = step[1]
        same = [item for item in model if key is not None and item[1] == key]
        keyed = [item for item in model if item[1] is not None]
        if same or (len(model) == limit and keyed):
            model.remove((same or keyed)[0])
            replaced += 1
        if len(model) == limit:
            dropped += key is None
            replaced += key is not None
            assert not outbox.put(data, key)
        else:
            model.append((data, key))
            assert outbox.put(data, key)
        assert len(outbox) == len(model) <= limit
    said = outbox.statistics()
    assert (said.waiting, said.replaced, said.dropped) == (len(model), replaced, dropped)
    assert [outbox.take() for _ in model] == [data for data, _ in model]


def test_a_newer_partial_never_overtakes() -> None:
    outbox = Outbox()
    for data, key in [(b"partial 1", "p"), (b"final 1", None), (b"wake 2", None), (b"partial 2", "p")]:
        outbox.put(data, key)
    assert [outbox.take() for _ in range(4)] == [b"final 1", b"wake 2", b"partial 2", None]


def test_reset_returns_to_birth() -> None:
    outbox = Outbox(1)
    outbox.put(b"x")
    outbox.put(b"y")
    outbox.reset()
    assert outbox.statistics() == Outbox(1).statistics()
    assert outbox.take() is None


def test_refuses_no_room() -> None:
    with pytest.raises(ValueError, match="at least 1"):
        Outbox(0)
