"""The calls that voiced makes of its models, written down and made again.

They are the calls of onnxruntime and sherpa-onnx, and the mel spectrogram: the front of the wake model, which others ship as one
more graph for onnxruntime.

What lives here: the recorders, which stand where the two libraries' own classes stood while a pipeline is built, and the
player. What must not: time. A call is written down with copies of what it was given, so that it can be made again without
anything of voiced around it; sherpa-onnx's streams are made anew for each playing.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from voiced.stages import features
from voiced.stages.features import Floats, Mel


@dataclass(frozen=True, slots=True)
class Call:
    """`owner.verb(*arguments)`, where owner is the library's own object, or the number of a stream.

    makes    the number of the stream that the call gives
    stream   the call's first argument is the stream of this number
    """

    owner: Any
    verb: str
    arguments: tuple[Any, ...] = ()
    makes: int | None = None
    stream: int | None = None


class Player:
    """Makes calls again. A stream lives from the call that makes it to the end of the player's life, or the next of its number."""

    def __init__(self) -> None:
        self._streams: dict[int, Any] = {}

    def stream(self, number: int) -> Any:
        """The library's own stream of this number; KeyError where it was not made."""
        return self._streams[number]

    def play(self, calls: Sequence[Call]) -> None:
        streams = self._streams
        for call in calls:
            owner = streams[call.owner] if isinstance(call.owner, int) else call.owner
            if call.stream is not None:
                getattr(owner, call.verb)(streams[call.stream])
            elif call.makes is not None:
                streams[call.makes] = owner.create_stream()
            elif call.verb == "result":
                str(owner.result.text)
            else:
                getattr(owner, call.verb)(*call.arguments)


class _Session:
    """In place of an onnxruntime.InferenceSession."""

    def __init__(self, raw: Any, calls: list[Call]) -> None:
        self._raw, self._calls = raw, calls
        self.get_inputs, self.get_outputs, self.get_modelmeta = raw.get_inputs, raw.get_outputs, raw.get_modelmeta

    def run(self, names: Any, feeds: dict[str, Any]) -> Any:
        self._calls.append(Call(self._raw, "run", (names, {name: value.copy() for name, value in feeds.items()})))
        return self._raw.run(names, feeds)


class _Stream:
    """In place of a stream of sherpa_onnx."""

    def __init__(self, raw: Any, number: int, calls: list[Call]) -> None:
        self.raw, self.number, self._calls = raw, number, calls

    def accept_waveform(self, rate: int, floats: memoryview) -> None:
        self._calls.append(Call(self.number, "accept_waveform", (rate, np.array(floats).data)))
        self.raw.accept_waveform(rate, floats)

    def input_finished(self) -> None:
        self._calls.append(Call(self.number, "input_finished"))
        self.raw.input_finished()

    @property
    def result(self) -> Any:
        self._calls.append(Call(self.number, "result"))
        return self.raw.result


class _Recognizer:
    """In place of a sherpa_onnx.OnlineRecognizer or OfflineRecognizer."""

    def __init__(self, raw: Any, calls: list[Call], numbers: Iterator[int]) -> None:
        self._raw, self._calls, self._numbers = raw, calls, numbers

    def create_stream(self) -> _Stream:
        number = next(self._numbers)
        self._calls.append(Call(self._raw, "create_stream", makes=number))
        return _Stream(self._raw.create_stream(), number, self._calls)

    def __getattr__(self, verb: str) -> Any:
        """is_ready, decode_stream, get_result_all: each takes a stream."""

        def call(stream: _Stream) -> Any:
            self._calls.append(Call(self._raw, verb, stream=stream.number))
            return getattr(self._raw, verb)(stream.raw)

        return call


class _Family:
    """In place of the class OnlineRecognizer or OfflineRecognizer: its constructors give a recorder."""

    def __init__(self, real: Any, calls: list[Call], numbers: Iterator[int]) -> None:
        self._real, self._calls, self._numbers = real, calls, numbers

    def __getattr__(self, constructor: str) -> Any:
        real = getattr(self._real, constructor)
        return lambda **arguments: _Recognizer(real(**arguments), self._calls, self._numbers)


def _mel(calls: list[Call]) -> type[Mel]:
    """In place of voiced's own Mel."""
    bare = Mel()

    class Recorder(Mel):
        def of(self, frames: Floats) -> Floats:
            calls.append(Call(bare, "of", (frames.copy(),)))
            return super().of(frames)

    return Recorder


@contextmanager
def recorded() -> Iterator[list[Call]]:
    """Models opened in this block write down what is asked of them, for ever; the list grows with each call."""
    onnxruntime: Any = importlib.import_module("onnxruntime")
    sherpa: Any = importlib.import_module("sherpa_onnx")
    calls: list[Call] = []
    numbers = iter(range(1 << 62))
    families = [(onnxruntime, "InferenceSession"), (sherpa, "OnlineRecognizer"), (sherpa, "OfflineRecognizer")]
    real = [getattr(module, name) for module, name in families]
    session = real[0]
    features.Mel = _mel(calls)  # type: ignore[misc]
    onnxruntime.InferenceSession = lambda *arguments, **named: _Session(session(*arguments, **named), calls)
    for (module, name), found in zip(families[1:], real[1:], strict=True):
        setattr(module, name, _Family(found, calls, numbers))
    try:
        yield calls
    finally:
        features.Mel = Mel  # type: ignore[misc]
        for (module, name), found in zip(families, real, strict=True):
            setattr(module, name, found)
