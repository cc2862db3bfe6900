"""A process of ours that cannot be started is one that ends at once, so that what begins dead ones again begins it too."""

from __future__ import annotations

import asyncio
import resource
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from voiced.children import Backoff, Child, command, ended


@pytest.fixture
def no_more_files() -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, before[1]))  # what is open stays open
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


async def _ended(role: str) -> Child:
    over = asyncio.get_running_loop().create_future()
    Child(role, "x", {}, lambda child, message: None, over.set_result)
    child = await asyncio.wait_for(over, 120)
    assert isinstance(child, Child)
    return child


def _with_a_loop_that_has_its_files(role: str, request: pytest.FixtureRequest) -> Child:
    async def run() -> Child:
        request.getfixturevalue("no_more_files")
        return await _ended(role)

    return asyncio.run(run())


def test_no_file_is_left_for_it(request: pytest.FixtureRequest) -> None:
    child = _with_a_loop_that_has_its_files("lane", request)
    assert not child.alive
    assert child.describe_end() == "could not be started: Too many open files"
    assert not child.send({"command": "stop"})
    child.kill()  # nothing is there to be killed, and nothing is wrong with asking


def test_one_that_ends_says_how() -> None:
    child = asyncio.run(_ended("no-such-role"))
    assert child.describe_end() == "ended with status 70"


def test_nothing_is_imported_from_the_folder_that_we_are_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`cd /tmp && voiced` must not run what others put there."""
    (tmp_path / "json.py").write_text("raise SystemExit(99)")
    monkeypatch.chdir(tmp_path)
    assert "-P" in command("lane", 3)
    assert asyncio.run(_ended("no-such-role")).status == 70
    assert sys.executable == command("lane", 3)[0]


def test_the_wait_doubles_and_begins_anew_after_a_good_life() -> None:
    backoff = Backoff(0.2, 1.0, healthy_s=30)
    assert [backoff.delay(1) for _ in range(5)] == [0.2, 0.4, 0.8, 1.0, 1.0]
    assert backoff.delay(31) == 0.2


def test_a_library_of_another_processor_is_told_as_such() -> None:
    """C13: with the line that says which instructions this processor has."""
    line = ended(-signal.SIGILL, "the second pass")
    assert line.startswith("was killed by SIGILL (a library was built for another processor: this one has ")
    assert line.endswith("; see voicectl doctor) while loading the second pass")
    assert ended(-signal.SIGSEGV, "") == "was killed by SIGSEGV"
