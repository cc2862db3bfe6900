"""What long listening costs: memory."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benches.soaked import Look
from voiced import assembly
from voiced.audio import Samples
from voiced.ears import VAD_HOP
from voiced.models import Library
from voiced.settings import defaults
from voiced.units import RATE

MINUTES = 12

GRAIN_MB = 6.0
"""What comes and goes with a decode. In the second half of these minutes a stream that kept its sound would grow by 23 MB, and one that
kept its filter banks by 11."""


@pytest.mark.slow
def test_c3_one_stream_that_never_ends_keeps_its_memory(library: Library, sample: Samples, truth: dict[str, Any], tmp_path: Path) -> None:
    """Nobody ends it: talk without a pause, in one stream."""
    stage = assembly.transducer(defaults(), library, tmp_path, lambda _: None)
    parts = (*truth["talk"], *truth["turns"])
    talk = np.concatenate([sample[part["speech_start"] : part["speech_end"]] for part in parts])
    minute = np.resize(talk, 60 * RATE // VAD_HOP * VAD_HOP)
    stage.start(0)
    seen = []
    for number in range(MINUTES):
        for at in range(0, len(minute), VAD_HOP):
            stage.step(minute[at : at + VAD_HOP])
        seen.append(Look.at(os.getpid(), number / 60).rss_mb)
    assert max(seen[MINUTES // 2 :]) - max(seen[: MINUTES // 2]) < GRAIN_MB, seen
