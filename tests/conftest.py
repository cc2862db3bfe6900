"""What all tests share: the models, and the recordings where they are at hand."""

from __future__ import annotations

import os
import signal
from collections.abc import Generator
from pathlib import Path

import fuzztable
import pytest
from hypothesis import settings
from voiced.models import DEFAULT_IDS, Library, default_library

settings.register_profile("voiced", deadline=None)  # how long an example takes is the machine's business, and no test asserts a time
settings.register_profile("fuzz", deadline=None, max_examples=5000, print_blob=True)  # tools/fuzz
settings.load_profile("voiced")

# a shell that runs us in the background has SIGINT ignored, which every process we start would inherit, and ^C is tested
signal.signal(signal.SIGINT, signal.default_int_handler)

PROFILE = "--hypothesis-profile"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """What tools/fuzz measures of each test."""
    if item.get_closest_marker("fuzz") is None:
        return (yield)
    with fuzztable.measured(item):
        return (yield)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if fuzztable.rows and config.getoption(PROFILE) == "fuzz":
        terminalreporter.write_sep("=", "what it was given")
        terminalreporter.write_line("\n".join(fuzztable.lines()))


CHECKOUT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="session")
def library() -> Library:
    """The library that a daemon in this checkout would use. tools/test has fetched the default models; here nothing is fetched."""
    found = default_library()
    for model_id in DEFAULT_IDS:
        found.find(model_id)
    return found


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """The folder of recordings (manifest.jsonl and what it lists), which is not part of the repository."""
    folder = Path(os.environ.get("VOICED_DATA") or CHECKOUT.parent / "shared" / "data")
    if not (folder / "manifest.jsonl").is_file():
        pytest.skip(f"no recordings: {folder}/manifest.jsonl is not there; set VOICED_DATA to the folder that has them")
    return folder
