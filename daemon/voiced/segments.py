"""From speech probabilities to segments of speech.

What lives here: the four rules, in this order: hysteresis (on, off < on), bridge pauses shorter than the minimum silence,
drop bursts shorter than the minimum speech, pad and merge. Once for a whole track (`segments`) and once window by window
(`Segmenter`); the two give the same segments. What must not: a model, a clock, a decision about turns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

Segment = tuple[int, int]
"""First position and position after the last, in samples."""


@dataclass(frozen=True, slots=True)
class SegmentRules:
    """`on` and `off` are probabilities; the rest are samples. ValueError where they contradict each other."""

    on: float
    off: float
    min_silence: int
    min_speech: int
    pad: int

    def __post_init__(self) -> None:
        # an `off` near zero is never reached by a model's output, so speech would never end
        if not 0.01 <= self.off < self.on <= 1:
            raise ValueError(f"segments want 0.01 <= off < on <= 1; got off {self.off} and on {self.on}")
        if min(self.min_silence, self.min_speech, self.pad) < 0:
            raise ValueError("segments want min_silence, min_speech and pad of at least 0 samples")


class Hysteresis:
    """Speech begins at `on` and lasts until the probability falls below `off`."""

    def __init__(self, on: float, off: float) -> None:
        self.on, self.off = on, off
        self.reset()

    def reset(self) -> None:
        self.speaking = False

    def step(self, probability: float) -> bool:
        self.speaking = probability >= (self.off if self.speaking else self.on)
        return self.speaking


def segments(probabilities: Sequence[float], rules: SegmentRules, hop: int) -> list[Segment]:
    """The segments of a whole track; window i covers the samples [i·hop, (i+1)·hop)."""
    gate = Hysteresis(rules.on, rules.off)
    runs: list[Segment] = []
    for index, probability in enumerate(probabilities):
        before = gate.speaking
        if gate.step(probability):
            start = runs.pop()[0] if before else index * hop
            runs.append((start, (index + 1) * hop))
    bridged: list[Segment] = []
    for run in runs:
        if bridged and run[0] - bridged[-1][1] < rules.min_silence:
            bridged[-1] = (bridged[-1][0], run[1])
        else:
            bridged.append(run)
    merged: list[Segment] = []
    total = len(probabilities) * hop
    for start, end in (run for run in bridged if run[1] - run[0] >= rules.min_speech):
        padded = (max(0, start - rules.pad), min(total, end + rules.pad))
        if merged and padded[0] <= merged[-1][1]:
            merged[-1] = (merged[-1][0], padded[1])
        else:
            merged.append(padded)
    return merged


class Segmenter:
    """The same, window by window: each segment is given as soon as nothing later can change it."""

    def __init__(self, rules: SegmentRules, hop: int) -> None:
        self.rules, self.hop = rules, hop
        self._gate = Hysteresis(rules.on, rules.off)
        self.reset()

    def reset(self) -> None:
        self._gate.reset()
        self._position = 0
        self._run: int | None = None  # where the run began that is still going on
        self._bridged: Segment | None = None  # ended runs that a later one may still be bridged to
        self._held: Segment | None = None  # a padded segment that a later one may still touch

    def step(self, probability: float) -> list[Segment]:
        done: list[Segment] = []
        if self._gate.step(probability):
            if self._run is None:
                self._run = self._position
        elif self._run is not None:
            self._end_run(self._position)
        self._position += self.hop
        if self._run is None and self._bridged and self._position - self._bridged[1] >= self.rules.min_silence:
            self._settle(done)
        # whatever comes later begins here at the earliest
        earliest = self._bridged[0] if self._bridged else self._position if self._run is None else self._run
        if self._held and earliest - self.rules.pad > self._held[1]:
            done.append(self._held)
            self._held = None
        return done

    def finish(self) -> list[Segment]:
        """The track ends here: what was still open is closed, and the segmenter is as new."""
        done: list[Segment] = []
        if self._run is not None:
            self._end_run(self._position)
        if self._bridged:
            self._settle(done)
        if self._held:
            done.append((self._held[0], min(self._held[1], self._position)))
        self.reset()
        return done

    def _end_run(self, end: int) -> None:
        assert self._run is not None
        self._bridged = (self._bridged[0] if self._bridged else self._run, end)
        self._run = None

    def _settle(self, done: list[Segment]) -> None:
        assert self._bridged is not None
        start, end = self._bridged
        self._bridged = None
        if end - start < self.rules.min_speech:
            return
        padded = (max(0, start - self.rules.pad), end + self.rules.pad)
        if self._held and padded[0] <= self._held[1]:
            self._held = (self._held[0], padded[1])
            return
        if self._held:
            done.append(self._held)
        self._held = padded
