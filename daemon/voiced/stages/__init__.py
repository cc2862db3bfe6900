"""Stages: the models and what stands before them, each fed a block at a time.

A stage has four verbs. `hop` is the number of samples that `step` wants (0: any number); `step` takes them and answers;
`reset` returns the stage to its birth; `warm_up` runs it once on silence, so that the first real step is not a slow one,
and leaves it as at birth. A block of another size or type is refused by name. One thread owns a stage. Paths and numbers
come in through the constructor: a stage knows no settings, no manifest and no other stage's thread.

What must not live here: decisions about turns (turn.py), the wiring (pipeline.py). Importing this package is cheap; the
runtimes are imported by the two files that own them, session.py (onnxruntime) and sherpa.py (sherpa_onnx), when the first
model is opened.

Nothing leaves the machine: onnxruntime's builds for Linux from 1.32 on send telemetry to their maker unless the environment
forbids it before the library is initialized (its Privacy.md), so it is forbidden here, where no stage is imported before.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from ..audio import Samples

os.environ["ORT_DISABLE_TELEMETRY"] = "1"


class Stage(Protocol):
    """The four verbs. What `step` answers is each stage's own."""

    @property
    def hop(self) -> int: ...

    def step(self, samples: Samples, /) -> Any: ...

    def reset(self) -> None: ...

    def warm_up(self) -> None: ...


def check_hop(stage: Stage, samples: Samples) -> None:
    """Raises ValueError where a block is not int16 of shape (hop,); (n,) with n > 0 where the stage's hop is 0."""
    right = len(samples) == stage.hop if stage.hop else len(samples) > 0
    # by its character: to compare a dtype with its name costs as much as the rest of a step's bookkeeping
    if not right or samples.dtype.char != "h" or samples.ndim != 1:
        shape = f"({stage.hop},)" if stage.hop else "(n,), n > 0"
        raise ValueError(f"{type(stage).__name__} wants int16 of shape {shape}; got {samples.dtype} {samples.shape}")
