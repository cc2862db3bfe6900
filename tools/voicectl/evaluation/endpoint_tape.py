"""What the daemon's models make of a query, once: the facts that its heart decides by, and answers to what it may ask.

What lives here: a tape of VAD probabilities and words with what each cost to compute, answers kept by the span they are about, all of it
on disk. What must not: a decision about ends, a figure. Any number of settings is then judged by the machine alone (endpoint_replay.py).

The facts come in the pipeline's order and at its positions (pipeline.Ears, pipeline.Scribe; endpoint_run.check compares them).
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from voiced.api import (
    HAND_OVER,
    CatchingUp,
    Samples,
    SecondPassStage,
    SpeechProbability,
    Transducer,
    TurnDetector,
    Vad,
    Words,
    decode,
    encode,
)

from .kept import keep
from .sounds import VAD_HOP

FIRST = 1280
"""Where a client triggers the turn: on the ears' grid of 256, off the VAD's, and late enough that what is handed over lies before it."""
BEGIN = FIRST - HAND_OVER
"""From where the recognizers listen."""

_FORM = 6
"""Of the files on disk; another one is computed anew."""


@dataclass(frozen=True, slots=True)
class Answer:
    """Of a model, and the processor time that it took."""

    value: Any
    compute_ms: float


@dataclass(slots=True)
class Tape:
    """One query through VAD and transducer.

    facts     SpeechProbability and Words, as the scribe takes them
    steps_ms  processor time of the transducer's step that ended at a sample, where it ran its encoder
    whole     the last words, of everything that was heard
    flush_ms  processor time of the model's tail of silence, which brings the last words out
    """

    facts: tuple[SpeechProbability | Words, ...]
    samples: int
    steps_ms: Mapping[int, float]
    whole: Words
    flush_ms: float
    first_passes: dict[int, Answer] = field(default_factory=dict)
    foresights: dict[tuple[int, int], Answer] = field(default_factory=dict)
    second_passes: dict[tuple[int, int], Answer] = field(default_factory=dict)
    scores: dict[tuple[int, int], Answer] = field(default_factory=dict)

    @property
    def windows(self) -> Iterator[tuple[SpeechProbability, Words | None]]:
        """The facts by windows of the VAD: each its probability, and what the recognizer knew anew after it."""
        for fact, after in zip(self.facts, (*self.facts[1:], None), strict=True):
            if isinstance(fact, SpeechProbability):
                yield fact, after if isinstance(after, Words) else None

    def compute_ms(self, samples: int) -> float:
        """Processor time of the transducer for so much sound."""
        return sum(self.steps_ms.values()) * samples / self.samples

    @property
    def settled(self) -> int:
        """From here on the text was what it ended with; beyond the tape where its very end still changed it."""
        words = [fact for fact in self.facts if isinstance(fact, Words)]
        if not words:
            return 0 if not self.whole.text else self.samples + 1
        if words[-1].text != self.whole.text:
            return self.samples + 1
        at = words[-1].sample
        for word in reversed(words):
            if word.text != self.whole.text:
                break
            at = word.sample
        return at


@dataclass(frozen=True, slots=True)
class Stages:
    """The daemon's own. One thread owns them.

    digest   says which VAD and recognizer: of all their bytes, and of the recognizer's settings
    answers  the same of what answers later, by the field of a Tape that keeps it
    """

    vad: Vad
    transducer: Transducer
    second_pass: Callable[[], SecondPassStage]
    turn_detector: Callable[[], TurnDetector]
    digest: str
    answers: Mapping[str, str]


def listen(stages: Stages, samples: Samples) -> Tape:
    """One turn: each window through the VAD and then through the transducer, as the pipeline does it in one thread."""
    vad, transducer = stages.vad, stages.transducer
    facts: list[SpeechProbability | Words] = []
    steps_ms = {}
    vad.reset()
    transducer.start(BEGIN)
    fed = BEGIN
    for end in range(VAD_HOP, len(samples) + 1, VAD_HOP):
        probability = vad.step(samples[end - VAD_HOP : end])
        if end > FIRST:
            facts.append(SpeechProbability(end, probability))
        if end <= BEGIN:
            continue
        chunks, began = transducer.statistics().chunks, time.process_time()
        words = transducer.step(samples[fed:end])
        fed = end
        if transducer.statistics().chunks > chunks:
            steps_ms[end] = _ms_since(began)
        if words:
            facts.append(words)
    began = time.process_time()
    whole = transducer.finish()
    return Tape(tuple(facts), fed, steps_ms, whole, _ms_since(began))


def _ms_since(began: float) -> float:
    return round(1000 * (time.process_time() - began), 3)


class Library:
    """Tapes of queries, each computed once for the same sound and the same models, and their answers. One thread owns it.

    folder  where they are kept; None: nowhere
    """

    def __init__(self, stages: Stages, folder: Path | None) -> None:
        self.stages, self._folder = stages, folder

    def tape(self, samples: Samples) -> Tape:
        path = self._path(samples)
        if path and path.is_file():
            try:
                return _read(json.loads(path.read_text(encoding="utf-8")), self.stages.answers)
            except (ValueError, KeyError, TypeError):  # cut short, or of another form
                pass
        tape = listen(self.stages, samples)
        self.keep(samples, tape)
        return tape

    def keep(self, samples: Samples, tape: Tape) -> None:
        """Writes the tape with the answers that it has by now. Raises OutputError."""
        path = self._path(samples)
        if path:
            keep(path, {**_plain(tape), "answers": dict(self.stages.answers)})

    def _path(self, samples: Samples) -> Path | None:
        if self._folder is None:
            return None
        name = hashlib.sha256(f"{_FORM} {self.stages.digest} ".encode() + samples.tobytes()).hexdigest()[:32]
        return self._folder / f"{name}.json"

    # ── answers ────────────────────────────────────────────────────────────────────────────────────────────────────────

    def first_pass(self, tape: Tape, samples: Samples, last: int) -> Words:
        """The first pass of a turn that closes at `last`: decoded anew where its last word was still to come, else as the tape has it."""
        if last >= tape.settled:
            return tape.whole
        if last not in tape.first_passes:
            began = time.process_time()
            self._start(samples, last)
            tape.first_passes[last] = Answer(encode(self.stages.transducer.finish()), _ms_since(began))
        return _words(tape.first_passes[last].value)

    def foresee(self, tape: Tape, samples: Samples, first: int, last: int) -> tuple[Words, float]:
        """What the recognizer would say if nothing but silence followed [first, last), and the processor time of that: it has heard the
        turn but for the window that is asked in."""
        if (first, last) not in tape.foresights:
            stage = self.stages.transducer
            if first == BEGIN:
                self._start(samples, last - VAD_HOP)
            began = time.process_time()
            words = stage.foresee(first, samples[first:last])
            tape.foresights[first, last] = Answer(encode(words), _ms_since(began))
            stage.reset()
        answer = tape.foresights[first, last]
        return _words(answer.value), answer.compute_ms

    def _start(self, samples: Samples, last: int) -> None:
        """The recognizer has heard the turn up to there."""
        stage = self.stages.transducer
        stage.start(BEGIN)
        for at in range(BEGIN - BEGIN % VAD_HOP, last, VAD_HOP):
            stage.step(samples[max(at, BEGIN) : min(at + VAD_HOP, last)])

    def catching_up(self, late: int, foreseen: Words) -> CatchingUp:
        return self.stages.transducer.catching_up(late, foreseen)

    def second_pass(self, tape: Tape, samples: Samples, first: int, last: int) -> Answer:
        """Its text of [first, last)."""
        if (first, last) not in tape.second_passes:
            stage, began = self.stages.second_pass(), time.process_time()
            tape.second_passes[first, last] = Answer(stage.decode(samples[first:last]), _ms_since(began))
        return tape.second_passes[first, last]

    def score(self, tape: Tape, samples: Samples, first: int, last: int) -> Answer:
        """A turn detector's probability after [first, last)."""
        if (first, last) not in tape.scores:
            stage, began = self.stages.turn_detector(), time.process_time()
            tape.scores[first, last] = Answer(stage.step(samples[first:last]), _ms_since(began))
        return tape.scores[first, last]


def digest(files: Iterable[Path], settings: str) -> str:
    """Of all bytes of these files, in their order, and of what else matters."""
    total = hashlib.sha256(settings.encode())
    for path in files:
        total.update(path.read_bytes())
    return total.hexdigest()


# ── on disk ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _plain(tape: Tape) -> dict[str, Any]:
    return {
        "probabilities": [[fact.sample, fact.probability] for fact in tape.facts if isinstance(fact, SpeechProbability)],
        "words": [encode(fact) for fact in tape.facts if isinstance(fact, Words)],
        "samples": tape.samples,
        "steps_ms": list(tape.steps_ms.items()),
        "whole": encode(tape.whole),
        "flush_ms": tape.flush_ms,
        "first_passes": [[last, answer.value, answer.compute_ms] for last, answer in tape.first_passes.items()],
        "foresights": [[*span, answer.value, answer.compute_ms] for span, answer in tape.foresights.items()],
        "second_passes": [[*span, answer.value, answer.compute_ms] for span, answer in tape.second_passes.items()],
        "scores": [[*span, answer.value, answer.compute_ms] for span, answer in tape.scores.items()],
    }


def _read(plain: Mapping[str, Any], answers: Mapping[str, str]) -> Tape:
    """Without the answers of another model than `answers` names."""
    kept = {field: plain[field] if plain["answers"].get(field) == digest else [] for field, digest in answers.items()}
    words = [_words(one) for one in plain["words"]]
    probabilities = [SpeechProbability(int(sample), float(probability)) for sample, probability in plain["probabilities"]]
    facts: list[SpeechProbability | Words] = [*probabilities, *words]
    facts.sort(key=lambda fact: fact.sample)  # a stable sort: at one position the VAD comes first, as it was recorded
    return Tape(
        tuple(facts),
        int(plain["samples"]),
        {int(sample): float(ms) for sample, ms in plain["steps_ms"]},
        _words(plain["whole"]),
        float(plain["flush_ms"]),
        {int(last): Answer(value, float(ms)) for last, value, ms in plain["first_passes"]},
        {(int(first), int(last)): Answer(value, float(ms)) for first, last, value, ms in plain["foresights"]},
        {(int(first), int(last)): Answer(str(value), float(ms)) for first, last, value, ms in kept["second_passes"]},
        {(int(first), int(last)): Answer(float(value), float(ms)) for first, last, value, ms in kept["scores"]},
    )


def _words(plain: dict[str, Any]) -> Words:
    words = decode(plain)
    if not isinstance(words, Words):
        raise ValueError(f"expected Words, got {plain.get('event')}")
    return words
