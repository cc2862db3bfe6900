"""The start is atomic: all are ready, or every mistake is named at once."""

from __future__ import annotations

import asyncio

import pytest
from voiced.errors import ConfigError, ModelError, PlacementError, VoicedError
from voiced.warmup import WarmUp

MISSING, DAMAGED = ModelError("a", "is missing", "fetch it"), ModelError("b", "is damaged", "fetch it")


def outcome(ready: list[str], failed: dict[str, VoicedError]) -> VoicedError | None:
    """Of three that must be ready."""

    async def start() -> VoicedError | None:
        warm_up = WarmUp(["one", "two", "three"])
        waiting = asyncio.ensure_future(warm_up.wait())
        for name in ready:
            await asyncio.sleep(0)
            assert not waiting.done(), "one is still missing"
            warm_up.ready(name)
        for name, error in failed.items():
            await asyncio.sleep(0)
            assert not waiting.done(), "one is still missing"
            warm_up.failed(name, error)
            warm_up.failed(name, VoicedError("", "its process ended"))
        try:
            await asyncio.wait_for(waiting, 60)
        except VoicedError as error:
            assert not warm_up.over
            return error
        assert warm_up.over
        return None

    return asyncio.run(start())


def test_all_are_ready() -> None:
    assert outcome(["two", "one", "three"], {}) is None


def test_one_error_is_told_as_it_is() -> None:
    assert outcome(["one", "three"], {"two": MISSING}) is MISSING
    assert outcome(["one"], {"two": MISSING, "three": ModelError("a", "is missing", "fetch it")}) is MISSING


def test_several_are_told_at_once() -> None:
    error = outcome(["one"], {"three": MISSING, "two": DAMAGED})
    assert isinstance(error, ConfigError)
    assert (error.lines, error.exit_code) == ((str(MISSING), str(DAMAGED)), 66)


@pytest.mark.parametrize("first", [True, False])
def test_errors_of_two_kinds_are_a_configuration_that_cannot_be(first: bool) -> None:
    failed: dict[str, VoicedError] = {"two": MISSING, "three": PlacementError("placement.ears", "must name a core that is there")}
    error = outcome(["one"], failed if first else dict(reversed(failed.items())))
    assert isinstance(error, ConfigError) and error.exit_code == 78 and len(error.lines) == 2
