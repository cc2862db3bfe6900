"""The wiring, once: which stage hears what, and who obeys which order.

Two halves, so that a lane can run them in two threads and a test in none. *Ears* (ears.py) turn sound into facts and depend on the
sound alone. The *scribe* (wake stage 2, transducer, the turn machine) takes those facts in the order of their samples. Nothing the
scribe decides changes a fact that the ears give, only how long the VAD goes on; so one thread or two, large blocks or small, the
events are the same. What must not live here: a thread, a clock that decides, a bus.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from .audio import AudioFrame, Ring, Samples, frozen
from .ears import COMMANDS_LIMIT, PHRASE_SAMPLES, VAD_HOP, Candidate, Ears, Gap, Heard, Spotting, counts
from .events import (
    AudioLost,
    Cancel,
    CloseTurn,
    Confirmed,
    DropRewrite,
    Endpoint,
    Event,
    Final,
    FirstPass,
    Foresee,
    Foreseen,
    NearMiss,
    OpenTurn,
    Order,
    Rewrite,
    Rewritten,
    ScoreTurn,
    Shutdown,
    SpeechProbability,
    Trigger,
    TurnScore,
    WakeRefused,
    Words,
)
from .stages.wake import Phrase, Verifier
from .states import State
from .turn import TurnMachine
from .turnrules import TurnRules
from .units import RATE, to_samples

HAND_OVER = to_samples(50)
"""A turn's words are listened for from so long before it begins. With the lead-in of silence, 75 ms of the query cut off cost a word that
begins with a plosive and 50 do not, and 150 ms of the phrase before it are not heard as words: so either way there is room for an end
of the phrase that is told 100 ms off (`voicectl selftest handover`)."""

LEAD_WINDOWS = 10
"""Of the VAD, 320 ms: where no phrase opens turns, one begins so long before the window in which speech is noticed. A soft first sound is
before it, and the recognizer hears some silence first, as after a phrase."""

RING_SECONDS = 60
"""The longest turn (30 s), the pre-roll before it, and the seconds that the scribe may lag behind the ears (runtime.HEARD_LIMIT)."""


class TransducerStage(Protocol):
    def start(self, first: int) -> None: ...
    def step(self, samples: Samples) -> Words | None: ...
    def finish(self) -> Words: ...
    def foresee(self, first: int, samples: Samples) -> Words: ...
    def reset(self) -> None: ...


class TurnDetectorStage(Protocol):
    def step(self, samples: Samples) -> float: ...


@dataclass(frozen=True, slots=True)
class Rules:
    """How the scribe decides: all of it that a reload may change."""

    turn: TurnRules
    verifier: Verifier
    refractory_ms: float
    audio_lost_ms: float
    turn_detector: TurnDetectorStage | None = None
    """Asked where `turn.turn_detector`."""


class Scribe:
    """Wake stage 2, transducer and turn machine. One thread calls it.

    rewrite   gives a turn's sound to the second pass: its answer, or None where it comes later by `answer`
    rest      called with a sample when the VAD may sleep (Ears.rest)
    drop      called with what nobody waits for any more
    triggered  (token, turn) of each Trigger that was taken, for whoever asked; the caller empties it
    """

    def __init__(
        self,
        ring: Ring,
        transducer: TransducerStage,
        rewrite: Callable[[Rewrite, Samples], Rewritten | None],
        rest: Callable[[int], None],
        rules: Rules,
        *,
        drop: Callable[[DropRewrite], None] = lambda _: None,
        first_turn: int = 1,
        turn_step: int = 1,
        always: bool = False,
    ) -> None:
        """`always`: speech opens a turn, where a phrase does else; the ears' VAD must hear all the time."""
        self._always = always
        self.machine = TurnMachine(rules.turn, first_turn=first_turn, turn_step=turn_step)
        self._ring, self._transducer, self._rewrite, self._rest, self._drop = ring, transducer, rewrite, rest, drop
        self._adopted: Rules | None = None  # they wait for the open turn's end
        self._use(rules)
        self.reset()

    @property
    def rules(self) -> Rules:
        """The newest, whether a turn goes on by older ones or not."""
        return self._adopted or self._rules

    def adopt(self, rules: Rules) -> None:
        """Decides by these from now on; an open turn goes on by those it began with, and whatever comes after it is judged by these."""
        self._adopted = rules
        self._renew()

    def _renew(self) -> None:
        if self._adopted and self.machine.state is State.ASLEEP:
            self.machine.adopt(self._adopted.turn)
            self._use(self._adopted)
            self._adopted = None

    def _use(self, rules: Rules) -> None:
        self._rules = rules
        self._refractory, self._audio_lost = to_samples(rules.refractory_ms), to_samples(rules.audio_lost_ms)

    def statistics(self) -> dict[str, float]:
        """What its stages count, by `<stage>_<name>`. From any thread."""
        rules = self._rules
        stages = {
            "turns": self.machine,
            "guard": self.machine.guard,
            "transducer": self._transducer,
            "verifier": rules.verifier,
            "turn_detector": rules.turn_detector,
        }
        return counts(stages)

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
        self._recent: deque[SpeechProbability] = deque(maxlen=LEAD_WINDOWS)  # heard while asleep, where speech opens a turn
        self._closed = 0  # where the turn before ended, or the last echo of what a client played
        self._sample = 0  # heard up to here
        self._deaf_until = 0  # one phrase wakes once, also where its turn was closed at once
        self._fed: int | None = None  # the transducer has heard the sound before it; None while it sleeps
        self._clock: deque[tuple[int, int]] = deque(maxlen=RING_SECONDS * RATE // VAD_HOP)  # (sample, arrived_ns) of this turn
        self._measured: dict[int, dict[str, float]] = {}  # by turn whose final is pending
        self._transducer_ns = 0
        self._verify_ns = 0  # what the open turn's wake took

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
            self._renew()
            match fact:
                case NearMiss():
                    if self.machine.state is State.ASLEEP:  # inside a turn nobody misses a wake
                        out.append(fact)
                case Candidate():
                    if self.machine.state is State.ASLEEP and fact.sample >= self._deaf_until:
                        self._verify(fact, out)
                case Gap():  # alone in its Heard; a short one is heard as silence, with what comes after it
                    self._feed(fact.sample - fact.lost, out)
                    if fact.lost > self._audio_lost:
                        self._obey(self.machine.take(AudioLost(fact.sample - fact.lost)), out)
                case Cancel(turn=turn) if turn in (0, self.machine.open_turn):
                    self._deaf_until = min(self._deaf_until, fact.sample)  # who throws a turn away may begin again at once
                    self._obey(self.machine.take(fact), out)
                case Trigger():
                    if self.machine.state is State.ASLEEP:
                        self._verify_ns = 0
                    self._obey(self.machine.take(fact), out)
                    self.triggered.append((fact.token, self.machine.open_turn))
                case SpeechProbability() if self._always and self.machine.state is State.ASLEEP:
                    self._listen(fact, out)
                case _:
                    self._obey(self.machine.take(fact), out)
        if not any(isinstance(fact, Gap) for fact in heard.facts):
            self._feed(heard.sample, out)
        self._renew()
        self._may_rest()
        return out

    def answer(self, fact: Rewritten | Shutdown | AudioLost | Cancel) -> list[Event]:
        """What comes from outside the sound: the second pass, the lane's end, a dead or muted source."""
        out: list[Event] = []
        self._obey(self.machine.take(fact), out)
        self._renew()
        self._may_rest()
        return out

    def _may_rest(self) -> None:
        """Asleep, whatever the VAD was started for is over; an open turn always has a VAD that hears, so its rules are always asked."""
        if self.machine.state is State.ASLEEP:
            self._rest(self._sample)

    def _feed(self, sample: int, out: list[Event]) -> None:
        """Lets the transducer hear up to `sample`, in VAD windows: the same steps whatever the blocks were."""
        while self._fed is not None and self._fed < sample:
            end = min(self._fed - self._fed % VAD_HOP + VAD_HOP, sample)
            sound, self._fed = self._held(self._fed, end), end
            if not len(sound):
                continue
            began = time.perf_counter_ns()
            words = self._transducer.step(sound)
            self._transducer_ns += time.perf_counter_ns() - began
            if words:
                self._obey(self.machine.take(words), out)

    def _verify(self, candidate: Candidate, out: list[Event]) -> None:
        now = candidate.sample
        first = {"stage1": max(candidate.scores), "stage1_threshold": candidate.threshold} if candidate.scores else {}
        if candidate.echo:
            out.append(WakeRefused(now, candidate.phrase, 0.0, "heard while a client played sound", first))
            return
        # a text is told a chunk and more after its end, and the phrase must be in the sound whole
        late = 0 if candidate.scores else max(0, now - candidate.phrase_end)
        sound = self._held(now - PHRASE_SAMPLES - late, now)
        if not len(sound):
            out.append(WakeRefused(now, candidate.phrase, 0.0, "its sound was lost before it was judged", first))
            return
        began = time.perf_counter_ns()
        verdict = self._rules.verifier.verify(Phrase(candidate.phrase, candidate.scores, candidate.speech, sound))
        scores = {**first, **verdict.scores}
        if not verdict.accepted:
            out.append(WakeRefused(now, candidate.phrase, verdict.score, verdict.why, scores))
            return
        phrase_end = candidate.phrase_end if verdict.since is None else now - verdict.since
        self._verify_ns = time.perf_counter_ns() - began
        self._deaf_until = now + self._refractory
        # the VAD has heard what lies between the phrase's end and now
        grid = now - now % VAD_HOP
        windows = [SpeechProbability(grid - VAD_HOP * back, probability) for back, probability in enumerate(reversed(candidate.speech))]
        self._windows = [window for window in reversed(windows) if window.sample > phrase_end]
        self._obey(self.machine.take(Confirmed(now, candidate.phrase, phrase_end, verdict.score, verdict.why, scores)), out)

    def _listen(self, window: SpeechProbability, out: list[Event]) -> None:
        """Speech opens a turn, which begins some time before it, but not in the turn before: what was cut there goes on here."""
        if window.echo:  # by the device itself
            self._recent.clear()
            self._closed = window.sample
            return
        self._recent.append(window)
        if window.probability < self._rules.turn.vad_on:
            return
        first = max(window.sample - LEAD_WINDOWS * VAD_HOP, self._closed, self._ring.first)
        self._windows = [one for one in self._recent if one.sample > first]
        self._recent.clear()
        self._verify_ns = 0
        self._obey(self.machine.take(Confirmed(window.sample, "", first, window.probability, "somebody speaks")), out)

    def _obey(self, items: list[Event | Order], out: list[Event]) -> None:
        todo = deque(items)
        while todo:
            item = todo.popleft()
            match item:
                case OpenTurn(first=first):
                    first = max(first - HAND_OVER, self._ring.first)
                    self._transducer.start(first)
                    self._transducer_ns = 0
                    self._fed = first
                    for window in self._windows:
                        todo.extend(self.machine.take(window))
                    self._windows.clear()
                case CloseTurn(sample=sample, turn=turn, flush=flush):
                    self._closed = sample
                    if flush:
                        todo.extend(self.machine.take(self._flush(sample, turn)))
                    self._transducer.reset()
                    self._fed = None
                case Rewrite(sample=sample, turn=turn, attempt=attempt, first=first, last=last):
                    first = max(first - HAND_OVER, self._ring.first)
                    sound = self._held(first, last)
                    answer = self._rewrite(replace(item, first=first), sound) if len(sound) else _gone(sample, turn, attempt)
                    if answer:
                        todo.extend(self.machine.take(answer))
                case DropRewrite():
                    self._drop(item)
                case ScoreTurn(sample=sample, turn=turn, first=first, last=last):
                    assert self._rules.turn_detector  # the machine asks for none where the rules have none
                    if len(sound := self._held(first, last)):
                        todo.extend(self.machine.take(TurnScore(sample, turn, last, self._rules.turn_detector.step(sound))))
                case Foresee(sample=sample, turn=turn, first=first, last=last):
                    held = max(first - HAND_OVER, self._ring.first)
                    began = time.perf_counter_ns()
                    words = self._transducer.foresee(held, self._held(held, last))
                    self._transducer_ns += time.perf_counter_ns() - began
                    todo.extend(self.machine.take(Foreseen(sample, turn, max(first, held), last, words)))
                case Endpoint():
                    self._measured[item.turn] = self._since(item.speech_end)
                    out.append(item)
                case Final():
                    out.append(replace(item, measured=self._measured.pop(item.turn, {}) | item.measured))
                case _:
                    out.append(item)

    def _held(self, first: int, last: int) -> Samples:
        """What the ring still has of [first, last): nothing where the ears have written over all of it, as after a gap of a minute."""
        try:
            return self._ring.read(max(first, self._ring.first), min(last, self._ring.end))
        except IndexError:
            return frozen(np.zeros(0, np.int16))

    def _flush(self, sample: int, turn: int) -> FirstPass:
        """The transducer's last words: the rest of the sound, then its tail."""
        if self._fed is None:
            return FirstPass(sample, turn, "")
        if len(sound := self._held(self._fed, sample)):
            self._transducer.step(sound)
        words = self._transducer.finish()
        return FirstPass(sample, turn, words.text, words.last_word, words.word_first, words.confidence)

    def _since(self, speech_end: int) -> dict[str, float]:
        """Measured times at an endpoint: since the end of speech arrived, and what stage 2 and the transducer computed for the turn."""
        measured = {"transducer_ms": round(self._transducer_ns / 1e6, 3)}
        if self._verify_ns:
            measured["verify_ms"] = round(self._verify_ns / 1e6, 3)
        arrived = next((ns for sample, ns in self._clock if sample >= speech_end), 0)
        if arrived:
            measured["endpoint_ms"] = round((time.monotonic_ns() - arrived) / 1e6, 3)
        return measured


def _gone(sample: int, turn: int, attempt: int) -> Rewritten:
    return Rewritten(sample, turn, attempt, "", "its sound was lost before it was heard again")


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

    def adopt(self, spotting: Spotting, rules: Rules) -> None:
        """Between two frames."""
        self.ears.adopt(spotting)
        self.scribe.adopt(rules)
