"""The wiring, once: which stage hears what, and who obeys which order.

Two halves, so that a lane can run them in two threads and a test in none. *Ears* (gate, wake stage 1, VAD) turn sound into
facts and depend on the sound alone. The *scribe* (wake stage 2, transducer, the turn machine) takes those facts in the order
of their samples. Nothing the scribe decides changes a fact that the ears give, only how long the VAD goes on; so one thread
or two, large blocks or small, the events are the same. What must not live here: a thread, a clock that decides, a bus.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from .audio import AudioFrame, Ring, Samples
from .events import (
    AudioLost,
    Cancel,
    CloseTurn,
    Confirmed,
    Endpoint,
    Event,
    Final,
    FirstPass,
    OpenTurn,
    Order,
    Rewrite,
    Rewritten,
    Shutdown,
    SpeechProbability,
    Stop,
    Trigger,
    WakeRefused,
    Words,
)
from .stages.wake import Crossing, Phrase, Verifier
from .turn import State, TurnMachine
from .units import RATE, to_samples

VAD_HOP = 512
WAKE_HOP = 1280
UNIT = 256
"""Ears step on a grid of 16 ms, the greatest length that divides both hops: facts fall on it whatever blocks the source gives."""

RING_SECONDS = 60
"""The longest turn (30 s), the pre-roll before it, and the seconds that the scribe may lag behind the ears (runtime.HEARD_LIMIT)."""

COMMANDS_LIMIT = 16
"""What clients may ask between two blocks of sound: more than people press, and nothing piles up while there is no sound."""

PHRASE_SAMPLES = 24_064
"""1.5 s in whole VAD windows: what stage 2 looks back on, and more than the VAD needs to settle."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """Stage 1 crossed its threshold. `speech` are the VAD's probabilities of the last 1.5 s, a value a window."""

    sample: int
    phrase: str
    phrase_end: int
    scores: tuple[float, ...]
    speech: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Gap:
    """`lost` samples are missing before `sample`."""

    sample: int
    lost: int


Sound = Candidate | Gap | SpeechProbability | Trigger | Stop | Cancel | AudioLost | Shutdown


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


class VadStage(Protocol):
    def step(self, samples: Samples) -> float: ...
    def reset(self) -> None: ...


class TransducerStage(Protocol):
    def start(self, first: int) -> None: ...
    def step(self, samples: Samples) -> Words | None: ...
    def finish(self) -> Words: ...
    def reset(self) -> None: ...


class Ears:
    """Gate, wake stage 1 and VAD. One thread calls `hear`; `command` and `rest` may come from any thread."""

    def __init__(
        self,
        ring: Ring,
        gate: GateStage | None,
        wake: WakeStage | None,
        vad: VadStage,
        crossings: Sequence[Crossing],
        *,
        phrase_end_ms: float,
    ) -> None:
        self._ring, self._gate, self._wake, self._vad = ring, gate, wake, vad
        self._phrase_end = to_samples(phrase_end_ms)
        self._crossings = tuple(crossings)
        self._commands: deque[Trigger | Stop | Cancel] = deque(maxlen=COMMANDS_LIMIT)
        self.reset()

    def reset(self) -> None:
        self._end: int | None = None
        self._listening = False  # the gate is open and stage 1 holds the last two seconds
        self._attended = -1  # where the VAD was started last: only the ears' thread sets it
        self._rested = -1  # up to where it may sleep: only the scribe's thread sets it
        self._commands.clear()
        self._vad.reset()
        for stage in (self._gate, self._wake, *self._crossings):
            if stage:
                stage.reset()

    def command(self, fact: Trigger | Stop | Cancel) -> None:
        """What a client asks: it becomes a fact at the next sample heard, whatever its own `sample` says. From any thread."""
        self._commands.append(fact)

    def withdraw(self) -> None:
        """What was asked and is not a fact yet never becomes one: its sound has gone, or its client. From any thread."""
        self._commands.clear()

    def rest(self, sample: int) -> None:
        """The VAD may sleep, unless it was started after `sample`. From the scribe's thread."""
        self._rested = sample

    @property
    def attending(self) -> bool:
        """The VAD hears."""
        return self._attended > self._rested

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
        for sample in range(start - start % UNIT + UNIT, frame.end + 1, UNIT):
            # at two units of three nothing is due
            if self._commands or not sample % WAKE_HOP or (self.attending and not sample % VAD_HOP):
                facts = self._step(sample)
                if facts:
                    yield Heard(sample, frame.arrived_ns, tuple(facts))

    def _forget(self) -> None:
        """After a gap: what the stages hold is not what came before what comes now."""
        self._vad.reset()
        self._listening = False
        for crossing in self._crossings:
            crossing.reset()

    def _step(self, sample: int) -> list[Sound]:
        facts: list[Sound] = []
        while self._commands:
            fact = replace(self._commands.popleft(), sample=sample)
            if isinstance(fact, Trigger):  # also where the VAD hears: it must not go to sleep with the turn before
                self._attend(sample)
            facts.append(fact)
        if self.attending and sample % VAD_HOP == 0:
            facts.append(SpeechProbability(sample, self._vad.step(self._ring.padded(sample - VAD_HOP, sample))))
        if self._wake and sample % WAKE_HOP == 0:
            self._score(self._wake, sample, facts)
        return facts

    def _score(self, wake: WakeStage, sample: int, facts: list[Sound]) -> None:
        hop = self._ring.padded(sample - WAKE_HOP, sample)
        if self._gate and not self._gate.step(hop):
            self._listening = False
            return
        if not self._listening:
            # a score depends on two seconds of sound and nothing older: computed now, it is what it would be without a gate
            wake.reset()
            first = max(sample - WAKE_HOP - wake.history, -(-self._ring.first // WAKE_HOP) * WAKE_HOP)
            if first < sample - WAKE_HOP:
                wake.prime(self._ring.read(first, sample - WAKE_HOP))
            self._listening = True
        for phrase, crossing, score in zip(wake.phrases, self._crossings, wake.step(hop), strict=True):
            crossed = crossing.step(sample, score)
            if crossed:
                phrase_end = crossed.first + self._phrase_end
                facts.append(Candidate(sample, phrase, phrase_end, crossed.scores, self._attend(sample)))

    def _attend(self, sample: int) -> tuple[float, ...]:
        """Starts the VAD, its state grown on the last 1.5 s, so that it does not matter whether it ran before."""
        self._attended = sample
        self._vad.reset()
        last = sample - sample % VAD_HOP
        first = max(last - PHRASE_SAMPLES, -(-self._ring.first // VAD_HOP) * VAD_HOP)
        return tuple(self._vad.step(self._ring.read(at, at + VAD_HOP)) for at in range(first, last, VAD_HOP))


class Scribe:
    """Wake stage 2, transducer and turn machine. One thread calls it.

    rewrite   gives a turn's sound to the second pass: its answer, or None where it comes later by `answer`
    rest      called with a sample when the VAD may sleep (Ears.rest)
    triggered  (token, turn) of each Trigger that was taken, for whoever asked; the caller empties it
    """

    def __init__(
        self,
        ring: Ring,
        machine: TurnMachine,
        transducer: TransducerStage,
        verifier: Verifier,
        rewrite: Callable[[Rewrite, Samples], Rewritten | None],
        rest: Callable[[int], None],
        *,
        refractory_ms: float,
        audio_lost_ms: float,
    ) -> None:
        self.machine = machine
        self._ring, self._transducer, self._verifier, self._rewrite, self._rest = ring, transducer, verifier, rewrite, rest
        self._refractory = to_samples(refractory_ms)
        self._audio_lost = to_samples(audio_lost_ms)
        self.reset()

    def reset(self) -> None:
        self.machine.reset()
        self.next_source()

    def next_source(self) -> None:
        """Positions begin anew; turn ids go on. No turn is open."""
        self.machine.next_source()
        self._ring.reset()
        self._transducer.reset()
        self._windows: list[SpeechProbability] = []  # heard before their turn was opened
        self.triggered: deque[tuple[int, int]] = deque(maxlen=COMMANDS_LIMIT)
        self._sample = 0  # heard up to here
        self._deaf_until = 0  # one phrase wakes once, also where its turn was closed at once
        self._fed: int | None = None  # the transducer has heard the sound before it; None while it sleeps
        self._clock: deque[tuple[int, int]] = deque(maxlen=RING_SECONDS * RATE // VAD_HOP)  # (sample, arrived_ns) of this turn
        self._measured: dict[int, dict[str, float]] = {}  # by turn whose final is pending
        self._transducer_ns = 0

    @property
    def idle(self) -> bool:
        """No turn is open and no final is pending."""
        return not (self.machine.open_turn or self.machine.pending_turns)

    def take(self, heard: Heard) -> list[Event]:
        """The events that these facts lead to, in order."""
        if heard.arrived_ns:
            self._clock.append((heard.sample, heard.arrived_ns))
        out: list[Event] = []
        self._sample = heard.sample
        for fact in heard.facts:
            match fact:
                case Candidate():
                    if self.machine.state is State.ASLEEP and fact.sample >= self._deaf_until:
                        self._verify(fact, out)
                case Gap():  # alone in its Heard; a short one is heard as silence, with what comes after it
                    self._feed(fact.sample - fact.lost, out)
                    if fact.lost > self._audio_lost:
                        self._obey(self.machine.take(AudioLost(fact.sample - fact.lost)), out)
                case Trigger():
                    self._obey(self.machine.take(fact), out)
                    self.triggered.append((fact.token, self.machine.open_turn))
                case _:
                    self._obey(self.machine.take(fact), out)
        if not any(isinstance(fact, Gap) for fact in heard.facts):
            self._feed(heard.sample, out)
        self._may_rest()
        return out

    def answer(self, fact: Rewritten | Shutdown | AudioLost | Cancel) -> list[Event]:
        """What comes from outside the sound: the second pass, the lane's end, a dead or muted source."""
        out: list[Event] = []
        self._obey(self.machine.take(fact), out)
        self._may_rest()
        return out

    def _may_rest(self) -> None:
        """Asleep, whatever the VAD was started for is over; an open turn always has a VAD that hears, so its rules are always asked."""
        if self.machine.state is State.ASLEEP:
            self._rest(self._sample)

    def _feed(self, sample: int, out: list[Event]) -> None:
        """Lets the transducer hear up to `sample`, in VAD windows: the same steps whatever the blocks were."""
        while self._fed is not None and self._fed < sample:
            self._fed = max(self._fed, self._ring.first)  # after a suspend of half a minute the ears may have written over it
            end = min(self._fed - self._fed % VAD_HOP + VAD_HOP, sample)
            sound = self._ring.read(self._fed, end)
            self._fed = end
            began = time.perf_counter_ns()
            words = self._transducer.step(sound)
            self._transducer_ns += time.perf_counter_ns() - began
            if words:
                self._obey(self.machine.take(words), out)

    def _verify(self, candidate: Candidate, out: list[Event]) -> None:
        now = candidate.sample
        sound = self._ring.read(max(self._ring.first, now - PHRASE_SAMPLES), now)
        verdict = self._verifier.verify(Phrase(candidate.phrase, candidate.scores, candidate.speech, sound))
        if not verdict.accepted:
            out.append(WakeRefused(now, candidate.phrase, verdict.score, verdict.why))
            return
        self._deaf_until = now + self._refractory
        # the VAD has heard what lies between the phrase's end and now
        grid = now - now % VAD_HOP
        windows = [SpeechProbability(grid - VAD_HOP * back, probability) for back, probability in enumerate(reversed(candidate.speech))]
        self._windows = [window for window in reversed(windows) if window.sample > candidate.phrase_end]
        self._obey(self.machine.take(Confirmed(now, candidate.phrase, candidate.phrase_end, verdict.score, verdict.why)), out)

    def _obey(self, items: list[Event | Order], out: list[Event]) -> None:
        todo = deque(items)
        while todo:
            item = todo.popleft()
            match item:
                case OpenTurn(first=first):
                    self._transducer.start(first)
                    self._transducer_ns = 0
                    self._fed = max(first, self._ring.first)
                    for window in self._windows:
                        todo.extend(self.machine.take(window))
                    self._windows.clear()
                case CloseTurn(sample=sample, turn=turn, flush=flush):
                    if flush:
                        todo.extend(self.machine.take(FirstPass(sample, turn, self._flush(sample))))
                    self._transducer.reset()
                    self._fed = None
                case Rewrite(first=first, last=last):
                    held = self._ring.first
                    sound = self._ring.read(max(first, held), max(held, min(last, self._ring.end)))
                    answer = self._rewrite(item, sound)
                    if answer:
                        todo.extend(self.machine.take(answer))
                case Endpoint():
                    self._measured[item.turn] = self._since(item.speech_end)
                    out.append(item)
                case Final():
                    out.append(replace(item, measured=self._measured.pop(item.turn, {}) | item.measured))
                case _:
                    out.append(item)

    def _flush(self, sample: int) -> str:
        """The transducer's last words: the rest of the sound, then its tail."""
        if self._fed is None:
            return ""
        if self._fed < sample:
            self._transducer.step(self._ring.read(max(self._fed, self._ring.first), sample))
        return self._transducer.finish().text

    def _since(self, speech_end: int) -> dict[str, float]:
        """Measured times at an endpoint: since the end of speech arrived, and what the transducer computed in the turn."""
        measured = {"transducer_ms": round(self._transducer_ns / 1e6, 3)}
        arrived = next((ns for sample, ns in self._clock if sample >= speech_end), 0)
        if arrived:
            measured["endpoint_ms"] = round((time.monotonic_ns() - arrived) / 1e6, 3)
        return measured


class Pipeline:
    """Ears and scribe in one thread: sound in, events out. What `--input` and most tests run."""

    def __init__(self, ears: Ears, scribe: Scribe) -> None:
        self.ears, self.scribe = ears, scribe

    def reset(self) -> None:
        self.ears.reset()
        self.scribe.reset()

    @property
    def idle(self) -> bool:
        """No turn is open and no final is pending."""
        return self.scribe.idle

    def next_source(self) -> None:
        """What comes next is another recording: positions begin anew, turn ids go on."""
        self.ears.reset()
        self.scribe.next_source()

    def feed(self, frame: AudioFrame) -> list[Event]:
        return [event for heard in self.ears.hear(frame) for event in self.scribe.take(heard)]
