"""The sample recording, a pipeline for all tests of a module, and sound fed to it piece after piece."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import voiced
from sounds import sound
from voiced.audio import Samples

DATA = Path(voiced.__file__).parent / "data"


@pytest.fixture(scope="session")
def truth() -> dict[str, Any]:
    """Where everything is in the sample (sample.json)."""
    found: dict[str, Any] = json.loads((DATA / "sample.json").read_text(encoding="utf-8"))
    return found


@pytest.fixture(scope="session")
def sample() -> Samples:
    return sound(DATA / "sample.flac")


@pytest.fixture(scope="session")
def phrases(sample: Samples, truth: dict[str, Any]) -> list[Samples]:
    """The phrase as the sample has it, each with half a second of its own room before it."""
    return [sample[turn["phrase_start"] - 8000 : turn["phrase_end"]] for turn in truth["turns"]]
