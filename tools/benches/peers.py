"""voiced beside loops that others ship, on the same sound and in the same process, with the same model where they take one.

sherpa-onnx's own streaming loop (a stream that is fed and decoded for ever, its own endpoint rules), its own keyword loop, and the wait
for silence alone; PocketSphinx's keyphrase loop, whose wheel brings a model of its own. openWakeWord's loop is in the bench `wake`. Costs
are processor seconds an hour of sound; whichever goes first finds a processor that has forgotten its models, so they take turns at it. How
late a turn ends is counted in samples, so it is the same each time.

The streaming loop decodes whatever it hears, greedily; voiced, whose lane here wants no phrase, decodes where somebody speaks, keeps
several hypotheses (transducer.paths) and asks its recognizer what silence would bring. So in talk without a pause its price is those and
the VAD, and in a quiet room the VAD.
"""

from __future__ import annotations

import importlib
import json
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from voiced import assembly, settings
from voiced.audio import AudioFrame, Samples
from voiced.batch import until_idle
from voiced.errors import FetchError
from voiced.events import Endpoint
from voiced.models import Model, default_library
from voiced.spelling import pieces_of
from voiced.units import RATE, to_ms, to_samples

from . import pocketsphinx, recordings
from .rows import Row

HOP = 1280
HOUR_S = 3600
PHRASE = "hey kitchen"

SHERPA_RULES = {"rule1_min_trailing_silence": 2.4, "rule2_min_trailing_silence": 1.2, "rule3_min_utterance_length": 20.0}
"""Its defaults, in seconds: silence without a word, silence after words, length."""

VENDORS_RULES = {"rule1_min_trailing_silence": 1.0, "rule2_min_trailing_silence": 0.5, "rule3_min_utterance_length": 10.0}
"""Those of the K3 application."""

Feed = Callable[[Samples], object]


def run(quick: bool) -> list[Row]:
    seconds, rounds = (4.0, 1) if quick else (30.0, 5)
    with tempfile.TemporaryDirectory(prefix="voiced-") as directory:
        return _streaming(seconds, rounds, Path(directory)) + _keywords(seconds, rounds, Path(directory)) + _endpoints(Path(directory))


def _sounds(seconds: float) -> dict[str, Samples]:
    return {"talk without a pause": np.resize(recordings.talk(), round(seconds * RATE)), "a room at -70 dBFS": recordings.room(seconds)}


def _streaming(seconds: float, rounds: int, directory: Path) -> list[Row]:
    return [
        _row("streaming", name, _ours("listen: always", "models: {second_pass: ''}", directory), sherpa_stream(SHERPA_RULES), sound, rounds)
        for name, sound in _sounds(seconds).items()
    ]


def _keywords(seconds: float, rounds: int, directory: Path) -> list[Row]:
    phrases = f"wake: {{phrases: [{{text: {PHRASE}}}]}}\nmodels: {{second_pass: ''}}"
    rows = []
    for peer, loop in (("sherpa-onnx", sherpa_keyword), (pocketsphinx.RELEASE, pocketsphinx.keyphrase)):
        what = f'keyword "{PHRASE}" beside {peer.partition("==")[0]}'
        try:
            rows += [
                _row(what, name, _ours("listen: phrase", phrases, directory), loop(PHRASE), sound, rounds, peer)
                for name, sound in _sounds(seconds).items()
            ]
        except FetchError as error:
            rows.append(Row("peers", what, float("nan"), "core-s/h", note=f"not measured: {error}"))
    return rows


def _row(what: str, name: str, ours: Feed, theirs: Feed, sound: Samples, rounds: int, peer: str = "sherpa-onnx") -> Row:
    _spent(ours, theirs, sound)  # our gate learns the room, and nobody is cold
    found = [_spent(ours, theirs, sound) for _ in range(rounds)]
    length_s = len(sound) / RATE
    value, bare = (statistics.median(costs) / length_s * HOUR_S for costs in zip(*found, strict=True))
    note = f"median of {rounds} × {length_s:.0f} s; beside {peer}'s loop"
    return Row("peers", f"{what}, {name}", value, "core-s/h", bare=bare, note=note)


def _spent(ours: Feed, theirs: Feed, sound: Samples) -> tuple[float, float]:
    """Processor seconds of ours and theirs."""
    spent = [0, 0]
    for at in range(len(sound) // HOP):
        hop = sound[at * HOP : (at + 1) * HOP].copy()
        work = (partial(ours, hop), partial(theirs, hop))
        for which in (at % 2, 1 - at % 2):
            began = time.process_time_ns()
            work[which]()
            spent[which] += time.process_time_ns() - began
    return spent[0] / 1e9, spent[1] / 1e9


def _ours(lane: str, more: str, directory: Path) -> Feed:
    """The whole pipeline, fed hop by hop."""
    read = settings.parse(f"lanes: [{{name: bench, {lane}}}]\n{more}", "the bench")
    pipeline = assembly.pipeline(read, default_library(read.models.path), directory, lane="bench")
    end = 0

    def feed(hop: Samples) -> None:
        nonlocal end
        frame = AudioFrame(end, hop)
        end = frame.end
        pipeline.feed(frame)

    return feed


def _model() -> Model:
    return default_library().model(settings.defaults().models.transducer)


def _files() -> Mapping[str, Path]:
    return default_library().find(_model().id, "transducer").files


def _parts() -> dict[str, str]:
    return {name: str(_files()[name]) for name in ("tokens", "encoder", "decoder", "joiner")}


def sherpa_stream(rules: Mapping[str, float], ended: Callable[[str], object] = str) -> Feed:
    """sherpa-onnx's own streaming loop; `ended` is called with the text where its rules end an utterance."""
    sherpa: Any = importlib.import_module("sherpa_onnx")
    recognizer = sherpa.OnlineRecognizer.from_transducer(
        **_parts(), num_threads=1, model_type=_model().kind, enable_endpoint_detection=True, **rules
    )
    stream = recognizer.create_stream()

    def feed(hop: Samples) -> None:
        stream.accept_waveform(RATE, hop.astype(np.float32) / 32768)
        while recognizer.is_ready(stream):
            recognizer.decode_stream(stream)
        if recognizer.is_endpoint(stream):
            ended(recognizer.get_result(stream))
            recognizer.reset(stream)

    return feed


def sherpa_keyword(phrase: str) -> Feed:
    """sherpa-onnx's own keyword loop, listening for one phrase."""
    sherpa: Any = importlib.import_module("sherpa_onnx")
    with tempfile.NamedTemporaryFile("w", suffix=".txt", encoding="utf-8") as keywords:
        keywords.write(" ".join(pieces_of(_files()).spell(phrase)) + "\n")
        keywords.flush()
        spotter = sherpa.KeywordSpotter(**_parts(), keywords_file=keywords.name, num_threads=1)
    stream = spotter.create_stream()

    def feed(hop: Samples) -> None:
        stream.accept_waveform(RATE, hop.astype(np.float32) / 32768)
        while spotter.is_ready(stream):
            spotter.decode_stream(stream)
            if spotter.get_result(stream):
                spotter.reset_stream(stream)

    return feed


def _endpoints(directory: Path) -> list[Row]:
    """How long after the end of speech a turn ends, on the sample's two turns."""
    ends = [turn["speech_end"] for turn in json.loads((recordings.DATA / "sample.json").read_text(encoding="utf-8"))["turns"]]
    ours = statistics.mean(_after(ends, _our_ends(directory)))
    rows = []
    for name, rules in (("its defaults (1.2 s)", SHERPA_RULES), ("the K3 application's (0.5 s)", VENDORS_RULES)):
        theirs = _after(ends, _their_ends(rules))
        note = f"mean of {len(theirs)} turns, in time of sound; beside sherpa-onnx's rule for silence alone, {name}"
        rows.append(Row("peers", f"a turn's end after its speech, {name}", ours, "ms", bare=statistics.mean(theirs), note=note))
    return rows


def _after(speech_ends: list[int], ends: list[int]) -> list[float]:
    """Milliseconds from each end of speech to the first end of a turn after it."""
    return [to_ms(min(end for end in ends if end > speech) - speech) for speech in speech_ends]


def _our_ends(directory: Path) -> list[int]:
    pipeline = assembly.pipeline(settings.defaults(), default_library(), directory)
    block, sound = to_samples(40), recordings.sample()
    frames = (AudioFrame(at, sound[at : at + block]) for at in range(0, len(sound), block))
    return [e.sample for frame in until_idle(frames, block, pipeline) for e in pipeline.feed(frame) if isinstance(e, Endpoint)]


def _their_ends(rules: Mapping[str, float]) -> list[int]:
    """Where its rules end an utterance that has words, to a hop of ours (10 ms are fed at once)."""
    found: list[int] = []
    at = 0
    feed = sherpa_stream(rules, lambda text: found.append(at) if text.strip() else None)
    sound = np.concatenate((recordings.sample(), recordings.silence(3.0)))
    step = to_samples(10)
    for at in range(step, len(sound) + 1, step):
        feed(sound[at - step : at])
    return found
