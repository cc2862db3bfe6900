"""What holds of ears and scribe whatever the sound, its blocks, its gaps and its clients are: each sample is heard once, in its place."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from turns import turn_rules
from voiced.audio import AudioFrame, Ring, Samples
from voiced.ears import Ears, Heard, Spotting
from voiced.events import AudioLost, Cancel, Event, Final, Rewrite, Rewritten, Stop, Trigger, TurnClosed, Wake, Words
from voiced.pipeline import HAND_OVER, Rules, Scribe
from voiced.stages.wake import Phrase, Verdict
from voiced.units import RATE

CHUNK = 5120
LOUD = 1000


class Vad:
    """Speech is what is loud."""

    def step(self, samples: Samples) -> float:
        return float(np.abs(samples).max() >= LOUD)

    def reset(self) -> None:
        pass


class Never:
    def verify(self, phrase: Phrase) -> Verdict:
        raise AssertionError(f"nobody said {phrase.name}")


class Recognizer:
    """A word for each chunk that has something loud. `open` and `done`: from where it heard a turn, and what."""

    def __init__(self) -> None:
        self.open: tuple[int, list[Samples]] | None = None
        self.done: list[tuple[int, Samples]] = []

    def start(self, first: int) -> None:
        assert self.open is None, "a turn is open"
        self.open = first, []

    def step(self, samples: Samples) -> Words | None:
        assert self.open and len(samples)
        self.open[1].append(samples)
        first, sound = self.open[0], np.concatenate(self.open[1])
        if len(sound) // CHUNK == (len(sound) - len(samples)) // CHUNK:
            return None
        return self._words(first, sound[: len(sound) // CHUNK * CHUNK])

    def finish(self) -> Words:
        assert self.open
        first, parts = self.open
        self.done.append((first, np.concatenate(parts) if parts else np.zeros(0, np.int16)))
        return self._words(*self.done[-1])

    def foresee(self, first: int, samples: Samples) -> Words:
        return Words(first + len(samples), "")

    def reset(self) -> None:
        self.open = None

    def _words(self, first: int, sound: Samples) -> Words:
        chunks = [sound[at : at + CHUNK] for at in range(0, len(sound), CHUNK)]
        said = [first + at * CHUNK for at, chunk in enumerate(chunks) if np.abs(chunk).max() >= LOUD]
        return Words(first + len(sound), " ".join(["word"] * len(said)), last_word=said[-1] if said else None, heard=first + len(sound))


class World:
    """A lane without models. `truth`: the sound by position, zeros where some was lost."""

    def __init__(self, capacity: int) -> None:
        self.ring, self.recognizer = Ring(capacity), Recognizer()
        self.ears = Ears(self.ring, Vad(), Spotting(None, None, (), (), 0))
        rules = Rules(replace(turn_rules(), foresight=False), Never(), 1500.0, 250.0)
        self.scribe = Scribe(self.ring, self.recognizer, self._rewrite, self.ears.rest, rules)
        self.truth = np.zeros(0, np.int16)
        self.whole = True  # the ring has had all that was asked of it
        self.asked: list[Rewrite] = []
        self.told: list[Event] = []

    def _rewrite(self, order: Rewrite, sound: Samples) -> Rewritten:
        if self.whole:
            assert np.array_equal(sound, self.truth[order.first : order.last])
        self.asked.append(order)
        return Rewritten(order.sample, order.turn, order.attempt, "word")

    def hear(self, count: int, *, loud: bool, lost: int = 0) -> list[Heard]:
        """A block that no other is like: each sample tells its place."""
        first = len(self.truth) + lost
        samples = ((np.arange(first, first + count) % 997) + (LOUD if loud else 1)).astype(np.int16)
        self.truth = np.concatenate((self.truth, np.zeros(lost, np.int16), samples))
        return list(self.ears.hear(AudioFrame(first, samples.copy(), lost)))

    def take(self, waiting: list[Heard]) -> None:
        for heard in waiting:
            self.told += self.scribe.take(heard)

    def close(self) -> None:
        self.told += self.scribe.answer(AudioLost(len(self.truth)))
        assert self.scribe.idle
        wakes = [event.turn for event in self.told if isinstance(event, Wake)]
        assert [event.turn for event in self.told if isinstance(event, TurnClosed)] == wakes == list(range(1, len(wakes) + 1))
        assert [event.sample for event in self.told] == sorted(event.sample for event in self.told)


BLOCKS = st.tuples(
    st.sampled_from(["", "", "", "trigger", "stop", "cancel"]),
    st.one_of(st.integers(1, 700), st.integers(1, RATE), st.sampled_from([256, 512, 640, CHUNK])),
    st.booleans(),
    st.sampled_from([0, 0, 0, 1, 255, 256, 512, 4000, 4001, RATE]),
)
COMMANDS: dict[str, Trigger | Stop | Cancel] = {"trigger": Trigger(0), "stop": Stop(0), "cancel": Cancel(0)}


@settings(max_examples=200)
@given(st.lists(BLOCKS, max_size=40))
def test_each_sample_of_a_turn_is_heard_once_in_its_place(blocks: list[tuple[str, int, bool, int]]) -> None:
    """From a little before its beginning to where it closed; of what was lost, silence as long. The second pass hears the same."""
    world = World(60 * RATE)
    for command, count, loud, lost in [("trigger", 640, False, 0), *blocks]:
        if command:
            world.ears.command(COMMANDS[command])
        world.take(world.hear(count, loud=loud, lost=lost))
        fed = world.recognizer.open
        if fed and fed[1]:
            assert np.array_equal(np.concatenate(fed[1]), world.truth[fed[0] :][: sum(map(len, fed[1]))])
    world.close()
    firsts = {max(0, event.phrase_end - HAND_OVER) for event in world.told if isinstance(event, Wake)}
    ends = {event.last for event in world.told if isinstance(event, TurnClosed)}
    for first, sound in world.recognizer.done:
        assert first in firsts
        assert first + len(sound) in ends
        assert np.array_equal(sound, world.truth[first : first + len(sound)])
    finals = [event for event in world.told if isinstance(event, Final)]
    assert all(final.first_pass for final in finals)
    assert len(finals) <= len(world.asked)


@settings(max_examples=200)
@given(st.lists(BLOCKS, max_size=30), st.lists(st.integers(0, 400), min_size=1, max_size=6), st.sampled_from([RATE, 4 * RATE]))
def test_ears_may_be_ahead_by_more_than_the_ring_holds(blocks: list[tuple[str, int, bool, int]], lags: list[int], capacity: int) -> None:
    """What they have written over is not heard; every turn ends all the same, and nothing ends the lane."""
    world = World(capacity)
    world.whole = False
    waiting: list[Heard] = []
    for number, (command, count, loud, lost) in enumerate([("trigger", 640, False, 0), *blocks]):
        if command:
            world.ears.command(COMMANDS[command])
        waiting += world.hear(count, loud=loud, lost=8 * lost)
        ready = max(0, len(waiting) - lags[number % len(lags)])
        world.take(waiting[:ready])
        waiting = waiting[ready:]
    world.take(waiting)
    world.close()


def test_the_words_of_this_recognizer_are_heard() -> None:
    """So that the laws above are about turns that say something."""
    world = World(60 * RATE)
    world.ears.command(Trigger(0))
    for loud in (False, True, False, False, False):
        world.take(world.hear(RATE // 2, loud=loud))
    (final,) = (event for event in world.told if isinstance(event, Final))
    assert set(final.first_pass.split()) == {"word"}
    assert (final.text, final.attempt) == ("word", 1)
    assert len(world.recognizer.done) == 1
