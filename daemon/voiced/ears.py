"""Ears: sound in, facts out. Gate, wake stage 1 and VAD, and when each of them runs.

What lives here: the grid that they step on, what they are given, and the facts that come of it, which depend on the sound alone.
What must not: a decision about a turn, the transducer (pipeline.py), a thread, a clock.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Protocol

from .audio import AudioFrame, Ring, Samples
from .events import AudioLost, Cancel, NearMiss, Shutdown, SpeechProbability, Stop, Trigger
from .stages.approach import Approach
from .stages.keywords import Said
from .stages.wake import Crossing

VAD_HOP = 512
WAKE_HOP = 1280
UNIT = 256
"""Ears step on a grid of 16 ms, the greatest length that divides both hops: facts fall on it whatever blocks the source gives."""

COMMANDS_LIMIT = 16
"""What clients may ask between two blocks of sound: more than people press, and nothing piles up while there is no sound."""

PHRASE_SAMPLES = 25_600
"""1.6 s in whole VAD windows: what stage 2 looks back on, and more than the VAD needs to settle."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """Stage 1 crossed its threshold. `speech` are the VAD's probabilities of the last 1.6 s, a value a window; `echo`: the phrase ended
    while a client played sound itself, or in the echo of that."""

    sample: int
    phrase: str
    phrase_end: int
    threshold: float
    scores: tuple[float, ...]
    speech: tuple[float, ...]
    echo: bool = False


@dataclass(frozen=True, slots=True)
class Gap:
    """`lost` samples are missing before `sample`."""

    sample: int
    lost: int


Sound = Candidate | Gap | NearMiss | SpeechProbability | Trigger | Stop | Cancel | AudioLost | Shutdown


@dataclass(frozen=True, slots=True)
class Heard:
    """Facts that became true with the sound before `sample`, in order. `arrived_ns` as in AudioFrame."""

    sample: int
    arrived_ns: int
    facts: tuple[Sound, ...]


class GateStage(Protocol):
    def step(self, samples: Samples) -> bool: ...
    def reset(self) -> None: ...


class WakeStage(Protocol):
    phrases: tuple[str, ...]
    history: int

    def step(self, samples: Samples) -> tuple[float, ...]: ...
    def prime(self, history: Samples) -> None: ...
    def reset(self) -> None: ...


class KeywordStage(Protocol):
    history: int

    def step(self, first: int, samples: Samples) -> Sequence[Said]: ...
    def prime(self, first: int, history: Samples) -> None: ...
    def finish(self) -> Sequence[Said]: ...
    def reset(self) -> None: ...


class VadStage(Protocol):
    def step(self, samples: Samples) -> float: ...
    def reset(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Spotting:
    """What stage 1 listens for, and how: all of the ears that a reload may change.

    gate, wake, keywords   None: it is not asked
    crossings, approaches   one a phrase, in the order of `wake.phrases`
    phrase_end   samples from the first score that counts to the phrase's end
    parts        all of them by what they were made of: a later one takes over what is the same, and what that was about to tell
    echo_tail    samples for which what a client has played is still in the room
    """

    gate: GateStage | None
    wake: WakeStage | None
    crossings: tuple[Crossing, ...]
    approaches: tuple[Approach, ...]
    phrase_end: int
    parts: Mapping[Hashable, Any] = field(default_factory=dict)
    keywords: KeywordStage | None = None
    echo_tail: int = 0


class Ears:
    """Gate, wake stage 1 and VAD. One thread calls `hear` and `adopt`; `command`, `playback`, `rest` and `statistics` may come from any."""

    def __init__(self, ring: Ring, vad: VadStage, spotting: Spotting, *, always: bool = False) -> None:
        """`always`: the VAD never sleeps."""
        self._ring, self._vad, self._spotting, self._always = ring, vad, spotting, always
        self._commands: deque[Trigger | Stop | Cancel] = deque(maxlen=COMMANDS_LIMIT)
        self._playing = False
        self.reset()

    def reset(self) -> None:
        self._end: int | None = None
        self._listening = False  # the gate is open and stage 1 holds the last two seconds
        self._attended = -1  # where the VAD was started last: only the ears' thread sets it
        self._rested = -1  # up to where it may sleep: only the scribe's thread sets it
        self._commands.clear()
        self._played = False  # up to the last frame
        self._quiet = 0  # from here on there is no echo
        self._follow_up: Trigger | None = None  # waits for that
        self._vad.reset()
        if self._spotting.gate:
            self._spotting.gate.reset()
        self._begin_anew()

    @property
    def spotting(self) -> Spotting:
        """As it is now."""
        return self._spotting

    def adopt(self, spotting: Spotting) -> None:
        """Listens for this from the next hop on; the VAD, the commands and the positions go on. Between two calls of `hear`."""
        # another stage 1 is primed from the ring: a phrase that is being said is heard whole
        same = spotting.wake is self._spotting.wake and spotting.keywords is self._spotting.keywords
        self._listening = self._listening and same
        self._spotting = spotting

    def statistics(self) -> dict[str, float]:
        """What its stages count, by `<stage>_<name>`."""
        stages = {"gate": self._spotting.gate, "wake": self._spotting.wake, "keywords": self._spotting.keywords, "vad": self._vad}
        return counts(stages)

    def command(self, fact: Trigger | Stop | Cancel) -> None:
        """What a client asks: it becomes a fact at the next sample heard, whatever its own `sample` says. From any thread."""
        self._commands.append(fact)

    def withdraw(self) -> None:
        """What was asked and is not a fact yet never becomes one: its sound has gone, or its client. From any thread."""
        self._commands.clear()
        self._follow_up = None

    def playback(self, *, active: bool) -> None:
        """A client plays sound itself from now on, or no more: until its echo is over no phrase wakes and a follow-up waits. From any
        thread. What counts is the newest word, so that none can be lost where there is no sound."""
        self._playing = active

    @property
    def echoing(self) -> bool:
        """A follow-up would have to wait."""
        return self._playing or self._played or (self._end or 0) < self._quiet

    def rest(self, sample: int) -> None:
        """The VAD may sleep, unless it was started after `sample`. From the scribe's thread."""
        self._rested = sample

    @property
    def attending(self) -> bool:
        """The VAD hears."""
        return self._always or self._attended > self._rested

    def hear(self, frame: AudioFrame) -> Iterator[Heard]:
        """Steps over whole units of the sound so far; yields only where there is a fact."""
        lost = 0 if self._end is None else frame.first - self._end
        start = frame.first if self._end is None or lost else self._end
        if lost > 0:
            self._forget()
            # told before the ring fills the gap with silence: a long one takes the place of what the scribe still needs
            yield Heard(frame.first, frame.arrived_ns, (Gap(frame.first, lost),))
        self._ring.append(frame)
        self._end = frame.end
        if self._playing or self._played:  # its last sound is in this frame at the latest
            self._quiet, self._played = frame.end + self._spotting.echo_tail, self._playing
        for sample in range(start - start % UNIT + UNIT, frame.end + 1, UNIT):
            # at two units of three nothing is due
            if self._commands or self._is_due(sample) or not sample % WAKE_HOP or (self.attending and not sample % VAD_HOP):
                facts = self._step(sample)
                if facts:
                    yield Heard(sample, frame.arrived_ns, tuple(facts))

    def _forget(self) -> None:
        """After a gap: what the stages hold is not what came before what comes now."""
        self._vad.reset()
        self._listening = False
        self._begin_anew()

    def _begin_anew(self) -> None:
        """What was said so far is thrown away: the same phrase may follow at once, and what is left of this one is not heard again."""
        for stage in (self._spotting.wake, self._spotting.keywords, *self._spotting.crossings, *self._spotting.approaches):
            if stage:
                stage.reset()

    def _is_due(self, sample: int) -> bool:
        return self._follow_up is not None and sample >= self._quiet

    def _step(self, sample: int) -> list[Sound]:
        facts: list[Sound] = []
        follow_up = self._follow_up
        if follow_up and sample >= self._quiet:
            self._commands.append(follow_up)
        while self._commands:
            fact = replace(self._commands.popleft(), sample=sample)
            self._follow_up = None  # whatever a client asks after it is newer
            if isinstance(fact, Trigger) and fact.follow_up and sample < self._quiet:
                self._follow_up = fact
                continue
            if isinstance(fact, Trigger):  # also where the VAD hears: it must not go to sleep with the turn before
                self._attend(sample)
            elif isinstance(fact, Cancel):
                self._begin_anew()
            facts.append(fact)
        if self.attending and sample % VAD_HOP == 0 and sample != self._attended:  # else it has just heard this window
            probability = self._vad.step(self._ring.padded(sample - VAD_HOP, sample))
            facts.append(SpeechProbability(sample, probability, sample < self._quiet))
        if sample % WAKE_HOP == 0 and (self._spotting.wake or self._spotting.keywords):
            self._spot(self._spotting, sample, facts)
        return facts

    def _spot(self, spotting: Spotting, sample: int, facts: list[Sound]) -> None:
        first = sample - WAKE_HOP
        hop = self._ring.padded(first, sample)
        if spotting.gate and not spotting.gate.step(hop):
            if self._listening and spotting.keywords:
                self._said(spotting.keywords.finish(), sample, facts)
            self._listening = False
            return
        if not self._listening:
            # an answer depends on the last seconds of sound and nothing older: computed now, it is what it would be without a gate
            if spotting.wake:
                spotting.wake.reset()
                if (before := self._before(first, spotting.wake.history)) is not None:
                    spotting.wake.prime(before)
            if spotting.keywords and (before := self._before(first, spotting.keywords.history)) is not None:
                spotting.keywords.prime(first - len(before), before)
            self._listening = True
        if spotting.wake:
            self._score(spotting, spotting.wake, hop, sample, facts)
        if spotting.keywords:
            self._said(spotting.keywords.step(first, hop), sample, facts)

    def _before(self, sample: int, count: int) -> Samples | None:
        """At most the `count` samples before `sample`, whole hops, as far as the ring has them; None for none."""
        first = max(sample - count, -(-self._ring.first // WAKE_HOP) * WAKE_HOP)
        return self._ring.read(first, sample) if first < sample else None

    def _said(self, heard: Sequence[Said], sample: int, facts: list[Sound]) -> None:
        for one in heard:
            # a text has no score: its search tells yes or nothing
            echo = one.end < self._quiet
            facts.append(Candidate(sample, one.phrase.name, one.end, one.phrase.threshold, (), self._attend(sample), echo))

    def _score(self, spotting: Spotting, wake: WakeStage, hop: Samples, sample: int, facts: list[Sound]) -> None:
        rules = zip(wake.phrases, spotting.crossings, spotting.approaches, wake.step(hop), strict=True)
        for phrase, crossing, approach, score in rules:
            crossed = crossing.step(sample, score)
            missed = approach.step(score, crossed=crossed is not None)
            if crossed:
                phrase_end = crossed.first + spotting.phrase_end
                echo = phrase_end < self._quiet
                facts.append(Candidate(sample, phrase, phrase_end, crossing.threshold, crossed.scores, self._attend(sample), echo))
            elif missed is not None:
                facts.append(NearMiss(sample, phrase, missed, crossing.threshold))

    def _attend(self, sample: int) -> tuple[float, ...]:
        """Starts the VAD, its state grown on the last 1.6 s, so that it does not matter whether it ran before."""
        self._attended = sample
        self._vad.reset()
        last = sample - sample % VAD_HOP
        first = max(last - PHRASE_SAMPLES, -(-self._ring.first // VAD_HOP) * VAD_HOP)
        return tuple(self._vad.step(self._ring.read(at, at + VAD_HOP)) for at in range(first, last, VAD_HOP))


def counts(stages: Mapping[str, Any]) -> dict[str, float]:
    """The numbers of each stage's `statistics()`, by `<stage>_<name>`; nothing of one that has none."""
    return {
        f"{stage}_{name}": value
        for stage, one in stages.items()
        if hasattr(one, "statistics")
        for name, value in asdict(one.statistics()).items()
    }
