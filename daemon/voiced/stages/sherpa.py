"""Speech recognizers run by sherpa-onnx: the only file that imports it.

What lives here: which files and which constructor a kind of model needs, the provider file (threads that do not spin), its
errors turned into ours, and its times turned into samples. What must not: what a text means (transducer.py, second_pass.py).

sherpa-onnx ends the whole process on some bad inputs (tokens of another model, absent metadata, an unreadable provider
file), so a model is tried with `probe` in a child process before it is adopted. Its own endpoint rules are never used: they
count every output frame as 40 ms, whatever the model. Sound goes in as a memoryview: a NumPy array costs five times as much.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..audio import Samples
from ..errors import ModelError, OutputError
from ..units import RATE, to_samples
from .session import inspect

SHERPA_FRAME_S = 0.04
"""What sherpa-onnx takes one output frame for: subsampling by 4 of 10 ms, for every model."""

MOONSHINE_LONGEST = 384 * 384
"""sherpa-onnx before 2 gives a wrong mask for more than 384 frames of 384 samples, logs it, and returns no text
(github.com/k2-fsa/sherpa-onnx/issues/3975)."""


@dataclass(frozen=True, slots=True)
class _Engine:
    constructor: str
    wants: tuple[str, ...]
    options: Mapping[str, Any] = field(default_factory=dict)


_PARTS = ("encoder", "decoder", "joiner", "tokens")
LANGUAGE = "language"
"""The part that a streaming transducer may have besides: a recurrent language model over its tokens, as sherpa-onnx's search asks it."""


def _streaming(model_type: str) -> _Engine:
    fixed = {"decoding_method": "greedy_search", "enable_endpoint_detection": False, "model_type": model_type}
    return _Engine("from_transducer", _PARTS, fixed)


STREAMING: Mapping[str, _Engine] = {
    # with its type given a model is loaded once, without it twice; NeMo models have no type of their own
    **{kind: _streaming(kind) for kind in ("conformer", "ebranchformer", "lstm", "zipformer", "zipformer2")},
    "nemo-transducer": _streaming(""),
}
"""Kinds of streaming transducer."""

SPOTTING: Mapping[str, _Engine] = {
    # keywords come with each stream, so that they may change while the model stays: its own are none. Of 25 recordings of "jarvis" the
    # usual 4 paths keep 10, 8 keep 19 and 16 keep 22 (starter-en): other readings crowd the phrase out before it is whole
    kind: _Engine("", _PARTS, {"keywords_file": os.devnull, "max_active_paths": 16})
    for kind in ("conformer", "ebranchformer", "lstm", "zipformer", "zipformer2")
}
"""Kinds of streaming transducer that can listen for keywords: given any other, sherpa-onnx ends the process."""


OFFLINE: Mapping[str, _Engine] = {
    "moonshine-v2": _Engine("from_moonshine_v2", ("encoder", "decoder", "tokens")),
    "sense-voice": _Engine("from_sense_voice", ("model", "tokens"), {"use_itn": True}),
    "whisper": _Engine("from_whisper", ("encoder", "decoder", "tokens")),
    "transducer": _Engine("from_transducer", _PARTS, {"model_type": "transducer"}),
    "nemo-transducer": _Engine("from_transducer", _PARTS, {"model_type": "nemo_transducer"}),
}
"""Kinds of model for a second pass."""

_FAMILIES = {"OnlineRecognizer": STREAMING, "KeywordSpotter": SPOTTING, "OfflineRecognizer": OFFLINE}


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """What a streaming recognizer believes so far; the tuples have one entry a token."""

    tokens: tuple[str, ...]
    seconds: tuple[float, ...]
    """As sherpa-onnx counts, from the stream's start; `position` makes samples of them."""
    log_probabilities: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Keyword:
    """What a spotter listens for.

    name       what it is called when it is heard; no white space
    tokens     as the model's tokens.txt has them
    boost      added to the log-probability of each token, and once more for all when it is whole
    threshold  the mean probability that its tokens must have
    """

    name: str
    tokens: tuple[str, ...]
    boost: float
    threshold: float


@dataclass(frozen=True, slots=True)
class Spotted:
    """A keyword was heard. `frame` is the output frame of its last token, counted from where the search was begun anew last: after
    a keyword, or 1.5 s without a token. Nothing tells where that was, but it was at the beginning of a chunk."""

    name: str
    frame: int


@dataclass(frozen=True, slots=True)
class Transcript:
    """What an offline model makes of a sound.

    log_probabilities  natural logarithms, one a token, where sherpa-onnx tells them for this kind of model (none for Moonshine)
    """

    text: str
    log_probabilities: tuple[float, ...] = ()


def position(first: int, seconds: float, frame_ms: float) -> int:
    """Where an output frame begins, in samples: the one place where sherpa-onnx's times become ours.

    first     position of the stream's first sample
    seconds   a time as sherpa-onnx gives it, counting every frame as 40 ms
    frame_ms  what one output frame of this model really is
    """
    return first + round(seconds / SHERPA_FRAME_S) * to_samples(frame_ms)


def provider(runtime_dir: Path, name: str = "cpu", options: Mapping[str, str] | None = None) -> str:
    """The provider string for sherpa-onnx, after writing the file it names to `runtime_dir`.

    Spinning is always off: two spinning threads busied 2.7 cores where a chunk took 19 ms. The arena is off: it keeps the
    peak of the longest turn for ever. `options` are further lines of the file, for example an execution provider's own.
    Raises OutputError where the file cannot be written.
    """
    lines = {"EnableCpuMemArena": "0", "SessionConfig.session.intra_op.allow_spinning": "0", **(options or {})}
    text = "".join(f"{key}={value}\n" for key, value in lines.items())
    path = runtime_dir / f"onnxruntime-{name}-{hashlib.sha256(text.encode()).hexdigest()[:12]}.conf"
    if not path.exists():
        part = path.with_name(f"{path.name}.{os.getpid()}")
        try:
            runtime_dir.mkdir(parents=True, exist_ok=True)  # a cleaner of /tmp may have taken it from a daemon that runs for weeks
            part.write_text(text)
            part.replace(path)  # a reader never sees half a file: sherpa-onnx would end its process
        except OSError as error:
            raise OutputError(str(runtime_dir), f"cannot be written: {error.strerror}", "make room") from None
    return f"{name}:{path}"


class StreamingEngine:
    """A streaming transducer; one thread uses it and its streams. Raises ModelError where it cannot be loaded.

    paths     hypotheses that its search keeps; 1: greedy
    language  weight of the language model among its files (LANGUAGE) beside what is heard; where it has none, or with one path, nothing
    """

    def __init__(
        self, kind: str, files: Mapping[str, Path], *, provider: str, threads: int = 1, paths: int = 1, language: float = 0.0
    ) -> None:
        search: dict[str, Any] = {"decoding_method": "modified_beam_search", "max_active_paths": paths} if paths > 1 else {}
        if paths > 1 and language > 0 and LANGUAGE in files:
            search |= {"lm": str(assign(kind, (LANGUAGE,), files)[LANGUAGE]), "lm_scale": language}
        self._recognizer = _build("OnlineRecognizer", kind, files, provider=provider, threads=threads, **search)

    def stream(self) -> Stream:
        return Stream(self._recognizer)


class Stream:
    """One utterance on its way through a StreamingEngine."""

    def __init__(self, recognizer: Any) -> None:
        self._recognizer = recognizer
        self._stream = recognizer.create_stream()

    def accept(self, samples: Samples) -> int:
        """Hands over int16 (n,) and decodes what is ready; returns the number of chunks decoded."""
        self._stream.accept_waveform(RATE, _as_floats(samples))
        return self._decode()

    def finish(self) -> int:
        """Says that nothing comes any more, and decodes the rest."""
        self._stream.input_finished()
        return self._decode()

    def _decode(self) -> int:
        chunks = 0
        while self._recognizer.is_ready(self._stream):
            self._recognizer.decode_stream(self._stream)
            chunks += 1
        return chunks

    def hypothesis(self) -> Hypothesis:
        result = self._recognizer.get_result_all(self._stream)
        return Hypothesis(tuple(result.tokens), tuple(result.timestamps), tuple(result.ys_probs))


class Spotter:
    """A streaming transducer that listens for keywords; one thread uses it and its streams. Raises ModelError where it cannot be loaded."""

    def __init__(self, kind: str, files: Mapping[str, Path], *, provider: str, threads: int = 1) -> None:
        self._spotter = _build("KeywordSpotter", kind, files, provider=provider, threads=threads)

    def stream(self, keywords: Sequence[Keyword]) -> KeywordStream:
        """At least one keyword. Raises ValueError for tokens that the model does not have."""
        # its own form: a line a keyword, `/` for the line's end in a text
        lines = (f"{' '.join(one.tokens)} :{one.boost:g} #{one.threshold:g} @{one.name}" for one in keywords)
        return KeywordStream(self._spotter, "/".join(lines))


class KeywordStream:
    """Sound on its way through a Spotter."""

    def __init__(self, spotter: Any, keywords: str) -> None:
        self._spotter = spotter
        self._stream = spotter.create_stream(keywords)
        if self._stream is None:  # versions before 2; later ones raise ValueError
            raise ValueError(f"Failed to encode keywords: {keywords!r}")

    def accept(self, samples: Samples) -> list[Spotted | None]:
        """Hands over int16 (n,) and decodes what is ready; for each chunk decoded what was heard in it."""
        self._stream.accept_waveform(RATE, _as_floats(samples))
        heard: list[Spotted | None] = []
        while self._spotter.is_ready(self._stream):
            self._spotter.decode_stream(self._stream)
            result = self._spotter.keyword_spotter.get_result(self._stream)
            heard.append(Spotted(result.keyword, round(result.timestamps[-1] / SHERPA_FRAME_S)) if result.keyword else None)
            if result.keyword:  # without that it may take the next for the same again
                self._spotter.reset_stream(self._stream)
        return heard


class OfflineEngine:
    """A model that hears the whole utterance at once; one thread uses it. Raises ModelError where it cannot be loaded."""

    def __init__(self, kind: str, files: Mapping[str, Path], *, provider: str, threads: int = 1) -> None:
        self._recognizer = _build("OfflineRecognizer", kind, files, provider=provider, threads=threads)
        self.longest = MOONSHINE_LONGEST if kind == "moonshine-v2" and _version() < (2,) else None
        """Samples that one decode takes at the most, where the installed version has such a limit."""

    def decode(self, samples: Samples) -> Transcript:
        """int16 (n,) → its text, without space at the ends. Memory follows the length: the caller cuts.

        Raises ValueError for more than `longest`: the answer would be silence instead of words.
        """
        if self.longest is not None and len(samples) > self.longest:
            raise ValueError(f"OfflineEngine takes at most {self.longest} samples in this version; got {len(samples)}")
        stream = self._recognizer.create_stream()
        stream.accept_waveform(RATE, _as_floats(samples))
        self._recognizer.decode_stream(stream)
        result = stream.result
        return Transcript(str(result.text).strip(), tuple(getattr(result, "ys_log_probs", ())))


def probe(kind: str, files: Mapping[str, Path], *, provider: str, threads: int = 1) -> None:
    """Builds a model and decodes half a second of silence. Run it in a child process: what is wrong with a model comes out
    as a ModelError here, or as the end of the process."""
    silence = np.zeros(RATE // 2, np.int16)
    if kind in STREAMING:
        stream = StreamingEngine(kind, files, provider=provider, threads=threads, paths=2, language=0.1).stream()
        stream.accept(silence)
        stream.finish()
        stream.hypothesis()
    else:
        OfflineEngine(kind, files, provider=provider, threads=threads).decode(silence)


def _as_floats(samples: Samples) -> memoryview:
    floats: NDArray[np.float32] = samples.astype(np.float32)
    floats *= np.float32(1 / 32768)
    return floats.data


def _version() -> tuple[int, ...]:
    import sherpa_onnx

    return tuple(int(part) for part in re.findall(r"\d+", sherpa_onnx.__version__)[:3])


def _build(family: str, kind: str, files: Mapping[str, Path], *, provider: str, threads: int, **more: Any) -> Any:
    engines = _FAMILIES[family]
    engine = engines.get(kind)
    if engine is None:
        raise ModelError(kind, f"not a kind of model for this role; expected one of {', '.join(sorted(engines))}")
    paths = assign(kind, engine.wants, files)
    where = str(paths["tokens"].parent)
    tokens = check_tokens(paths["tokens"])
    if engines is not OFFLINE:
        _check_symbols(tokens, paths, more.get("lm"))
    import sherpa_onnx

    made = getattr(sherpa_onnx, family, None)
    constructor = getattr(made, engine.constructor, None) if engine.constructor else made
    if constructor is None:
        raise ModelError(where, f"the installed sherpa-onnx {sherpa_onnx.__version__} has no {kind}", "install a newer sherpa-onnx")
    arguments = {name: str(path) for name, path in paths.items()}
    try:
        return constructor(**arguments, **{**engine.options, **more}, num_threads=threads, provider=provider)
    except Exception as error:  # RuntimeError, AssertionError, ValueError: it has no class of its own
        line = " ".join(str(error).split())[:300]
        advice = "check it with: voicectl models verify"
        raise ModelError(where, f"sherpa-onnx cannot load this {kind} model: {line}", advice) from error


def assign(kind: str, wants: tuple[str, ...], files: Mapping[str, Path]) -> dict[str, Path]:
    """Which file is which: by its key, else by a word of its name (`base.en-encoder.int8.onnx` is an encoder).

    Raises ModelError where a part has no file, or has several.
    """
    words = {name: set(re.split(r"[^a-z]+", name.lower())) for name in files}
    paths = {}
    for part in wants:
        names = [part] if part in files else [name for name in files if part in words[name]]
        if len(names) != 1:
            found = ", ".join(sorted(files)) or "none"
            raise ModelError(kind, f"expected exactly one {part} among the model's files; found {found}")
        paths[part] = files[names[0]]
    for part, path in paths.items():
        if not path.is_file():
            raise ModelError(str(path), f"there is no such file ({part})", "fetch it with: voicectl models fetch")
    return paths


def _check_symbols(tokens: int, paths: Mapping[str, Path], language: str | None) -> None:
    """Tokens and language model must know every symbol that the decoder says it has: sherpa-onnx looks beyond their ends without a
    word, once that symbol is heard. A decoder that tells no number is believed."""
    told, _ = inspect(paths["decoder"])
    symbols = int(told["vocab_size"]) if told.get("vocab_size", "").isdecimal() else 0
    if tokens < symbols:  # more may be there: some have symbols that only a decoding graph uses
        raise ModelError(str(paths["tokens"]), f"expected the {symbols} tokens of {paths['decoder'].name} (vocab_size); it has {tokens}")
    if language and symbols:
        _, shape = inspect(Path(language))
        if shape and shape[-1] not in (None, symbols):
            raise ModelError(language, f"is of another recognizer: {paths['decoder'].name} has {symbols} symbols, it has {shape[-1]}")


def check_tokens(path: Path) -> int:
    """A line a token, ending in its number, each number once from 0 on: sherpa-onnx ends the process on some that are not. Returns how
    many there are."""
    try:
        lines = path.read_text(encoding="utf-8").rstrip("\n").split("\n")
    except UnicodeDecodeError as error:
        raise ModelError(str(path), f"expected lines of a token and its number in UTF-8; {error}") from error
    numbers = set()
    for row, line in enumerate(lines, 1):
        number = line.rpartition(" ")[2] if " " in line else line.rpartition("\t")[2]
        if not number.isdecimal():
            raise ModelError(f"{path}:{row}", f"expected a token and its number; got {line[:60]!r}")
        numbers.add(int(number))
    if numbers != set(range(len(lines))):
        raise ModelError(str(path), f"expected the numbers 0 to {len(lines) - 1}, each once", "check it with: voicectl models verify")
    return len(lines)
