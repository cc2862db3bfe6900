"""ONNX models run by onnxruntime: the only file that imports it.

What lives here: opening a model with its threads and memory said explicitly, checking that it is the kind its role wants,
and turning onnxruntime's errors into ours. What must not: what any model means.

Defaults that would hurt an always-on daemon are off: worker threads that spin between two calls (two threads cost 83 % of
a core at 31 calls a second, 2.6 % without), a thread a core (a board may have cores that we are not allowed to use), and an
arena a session (each keeps its peak for ever).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..errors import InternalError, ModelError

Tensor = NDArray[Any]


class Port(NamedTuple):
    """An input that a role feeds: its name ("" for any) and shape; None is a dimension of any size."""

    name: str
    shape: tuple[int | None, ...]


class Session:
    """One model, ready to run. Owned by one thread; `names` are the model's own input names, in order; `metadata` is the file's own."""

    def __init__(self, raw: Any, path: Path) -> None:
        self._raw = raw
        self.path = path
        self.names: tuple[str, ...] = tuple(port.name for port in raw.get_inputs())
        self.metadata: dict[str, str] = dict(raw.get_modelmeta().custom_metadata_map)

    def run(self, feeds: Mapping[str, Tensor]) -> list[Tensor]:
        """All outputs, in the model's order. What fails after the check in `open_session` is our mistake: InternalError."""
        try:
            outputs: list[Tensor] = self._raw.run(None, feeds)
        except Exception as error:  # onnxruntime has no common class for its own
            given = ", ".join(f"{name} {value.dtype}{list(value.shape)}" for name, value in feeds.items())
            raise InternalError(str(self.path), f"a run with {given} failed: {_one_line(error)}") from error
        return outputs


def open_session(path: Path, *, inputs: Sequence[Port], threads: int = 1) -> Session:
    """Opens a model file, with `threads` in all for one run.

    Raises ModelError where the file is missing, is no model, or does not take `inputs`.
    """
    raw = _opened(path, threads)
    _check_inputs(path, raw.get_inputs(), inputs)
    return Session(raw, path)


def inspect(path: Path) -> tuple[dict[str, str], tuple[int | None, ...]]:
    """What a model file that another library runs says of itself, and the shape of its first output; None is a dimension of any size.

    Raises ModelError where the file is missing or is no model.
    """
    raw = _opened(path, 1)
    shape = tuple(size if isinstance(size, int) else None for size in raw.get_outputs()[0].shape)
    return dict(raw.get_modelmeta().custom_metadata_map), shape


def _opened(path: Path, threads: int) -> Any:
    if not path.is_file():
        raise ModelError(str(path), "there is no such model file", "fetch it with: voicectl models fetch")
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.execution_mode = onnxruntime.ExecutionMode.ORT_SEQUENTIAL
    options.log_severity_level = 3  # errors only; its warnings are about graphs that we did not make
    options.enable_cpu_mem_arena = False
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.add_session_config_entry("session.inter_op.allow_spinning", "0")
    try:
        return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    except Exception as error:
        advice = "check it with: voicectl models verify"
        raise ModelError(str(path), f"onnxruntime cannot load it: {_one_line(error)}", advice) from error


def _check_inputs(path: Path, found: Sequence[Any], wanted: Sequence[Port]) -> None:
    def fits(port: Port, real: Any) -> bool:
        sizes = zip(port.shape, real.shape, strict=False)
        same = all(want is None or not isinstance(have, int) or want == have for want, have in sizes)
        return (not port.name or port.name == real.name) and len(port.shape) == len(real.shape) and same

    if len(found) != len(wanted) or not all(map(fits, wanted, found)):
        want = ", ".join(f"{port.name or 'any name'} {_shape(port.shape)}" for port in wanted)
        have = ", ".join(f"{port.name} {_shape(port.shape)}" for port in found)
        raise ModelError(str(path), f"a model of another kind: expected inputs {want}; it has {have}", "check its role")


def _shape(shape: Sequence[Any]) -> str:
    return "(" + ", ".join(str(size) if isinstance(size, int) else "any" for size in shape) + ")"


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:300]


def zeros(*shape: int) -> NDArray[np.float32]:
    """float32 zeros, the state at birth of most models."""
    return np.zeros(shape, np.float32)
