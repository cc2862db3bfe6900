"""What all tests share: the models, and the recordings where they are at hand."""

from __future__ import annotations

import os
import signal
from collections.abc import Generator
from pathlib import Path

import fuzztable
import onethread  # noqa: F401  before anything that imports NumPy
import pytest
from hypothesis import HealthCheck, settings
from voiced.models import DEFAULT_IDS, Library, default_library

# How long an example takes, and how long it takes to make one, is the machine's business: no test asserts a time. Examples are others each
# time, in CI too (where hypothesis by itself would take the same ones for ever, and keep none): one that fails is kept, and fails again.
settings.register_profile(
    "voiced", settings.get_profile("default"), deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)
settings.register_profile("fuzz", settings.get_profile("voiced"), max_examples=5000)  # tools/fuzz
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
