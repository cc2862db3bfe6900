"""The whole pipeline on real models and the recording that ships with voiced, whose positions are known (sample.json)."""

from __future__ import annotations

import dataclasses
import itertools
import json
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pytest
import voiced
from sounds import sound
from voiced import assembly
from voiced.audio import AudioFrame, Ring, Samples
from voiced.batch import until_idle
from voiced.ears import Ears
from voiced.events import (
    Cancel,
    CloseReason,
    Endpoint,
    Event,
    Final,
    LikelyEnd,
    NearMiss,
    Partial,
    Resumed,
    Rewrite,
    Rewritten,
    Shutdown,
    SpeechStarted,
    Stop,
    TextSource,
    Trigger,
    TurnClosed,
    Wake,
    WakeRefused,
    Words,
)
from voiced.models import Library
from voiced.pipeline import Pipeline, Rules, Scribe, TransducerStage
from voiced.settings import Settings
from voiced.stages.sherpa import provider
from voiced.stages.transducer import Transducer
from voiced.stages.wake import Phrase, Verdict, Verifier
from voiced.units import to_samples

DATA = Path(voiced.__file__).parent / "data"
TRUTH: dict[str, Any] = json.loads((DATA / "sample.json").read_text())
FIRST, SECOND = TRUTH["turns"]
(TALK,) = TRUTH["talk"]
SETTINGS = Settings()
BLOCK = 640
T = TypeVar("T")


@pytest.fixture(scope="module")
def sample() -> Samples:
    return sound(DATA / "sample.flac")


@pytest.fixture(scope="module")
def quiet(sample: Samples) -> Samples:
    """The longest silence of the recording, 2 s of its own room."""
    return sample[FIRST["speech_end"] + 4000 : TALK["speech_start"] - 2000]


@pytest.fixture(scope="module")
def runtime_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("runtime")


@pytest.fixture(scope="module")
def pipeline(library: Library, runtime_dir: Path) -> Pipeline:
    return assembly.pipeline(SETTINGS, library, runtime_dir)


class Feeder:
    """Sound piece after piece, at positions that go on; `skip` loses some."""

    def __init__(self, pipeline: Pipeline, block: int = BLOCK) -> None:
        pipeline.reset()
        self.pipeline, self.block = pipeline, block
        self.at = self.lost = 0
        self.events: list[Event] = []

    def feed(self, *pieces: Samples, timed: bool = False) -> list[Event]:
        told = []
        for piece in pieces:
            for first in range(0, len(piece), self.block):
                samples = piece[first : first + self.block].copy()
                frame = AudioFrame(self.at, samples, self.lost, time.monotonic_ns() if timed else 0)
                told += self.pipeline.feed(frame)
                self.at, self.lost = frame.end, 0
        self.events += told
        return told

    def skip(self, count: int) -> None:
        self.at += count
        self.lost = count


def run(pipeline: Pipeline, samples: Samples, block: int = BLOCK) -> list[Event]:
    """As `voiced --input` does it: the sound, then silence until nothing is open."""
    frames = (AudioFrame(first, samples[first : first + block].copy()) for first in range(0, len(samples), block))
    return [event for frame in until_idle(frames, block, pipeline) for event in pipeline.feed(frame)]


def plain(events: list[Event]) -> list[Event]:
    """Without what a clock measured, and scores to four places: many hops computed in one run round otherwise than one by one."""
    return [_plain(event) for event in events]


def _plain(event: Event) -> Event:
    if isinstance(event, Final):
        return dataclasses.replace(event, measured={})
    if isinstance(event, (Wake, WakeRefused)):
        return dataclasses.replace(event, score=round(event.score, 4), scores={name: round(one, 4) for name, one in event.scores.items()})
    return event


def of(kind: type[T], events: list[Event]) -> list[T]:
    return [event for event in events if isinstance(event, kind)]


def words(text: str) -> list[str]:
    return re.findall(r"[a-z']+", text.lower())


@pytest.fixture(scope="module")
def told(pipeline: Pipeline, sample: Samples) -> list[Event]:
    """All events of the sample."""
    pipeline.reset()
    return run(pipeline, sample)


# ── the sample ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_both_commands_are_understood(told: list[Event]) -> None:
    assert [final.text for final in of(Final, told)] == [FIRST["text"], SECOND["text"]]
    assert [final.source for final in of(Final, told)] == [TextSource.SECOND_PASS] * 2


def test_each_phrase_wakes_once_and_the_talk_between_does_not(told: list[Event]) -> None:
    wakes = of(Wake, told)
    assert [(wake.turn, wake.phrase) for wake in wakes] == [(1, FIRST["phrase"]), (2, SECOND["phrase"])]
    assert not [event for event in told if TALK["speech_start"] <= event.sample < SECOND["phrase_start"]]
    for wake, truth in zip(wakes, TRUTH["turns"], strict=True):
        assert abs(wake.phrase_end - truth["phrase_end"]) <= to_samples(200)
        # the target, 150 ms, is the median's; this voice's score rises late
        assert wake.sample - truth["phrase_end"] <= to_samples(180)


def test_events_come_in_the_order_of_a_turn(told: list[Event]) -> None:
    for turn in (1, 2):
        kinds = [type(event) for event in told if getattr(event, "turn", 0) == turn]
        partials = kinds.count(Partial)
        assert partials >= 3
        assert [kind for kind in kinds if kind not in (LikelyEnd, Resumed)] == [
            Wake, SpeechStarted, *[Partial] * partials, Endpoint, Final, TurnClosed,
        ]  # fmt: skip
        signs = [kind for kind in kinds if kind in (LikelyEnd, Resumed)]
        assert signs == [LikelyEnd, Resumed] * (len(signs) // 2) + [LikelyEnd]
    assert [event.sample for event in told] == sorted(event.sample for event in told)


@pytest.mark.parametrize("turn", [1, 2])
def test_the_first_pass_grows_word_by_word_while_they_are_spoken(told: list[Event], turn: int) -> None:
    truth = TRUTH["turns"][turn - 1]
    partials = [event for event in of(Partial, told) if event.turn == turn]
    (endpoint,) = (event for event in of(Endpoint, told) if event.turn == turn)
    texts = [*(partial.text for partial in partials), endpoint.text]
    for before, after in itertools.pairwise(text.split() for text in texts):
        assert after[: len(before) - 1] == before[:-1]  # the last word may not be whole yet, or be spelt anew
    assert truth["speech_start"] < partials[0].sample < truth["speech_end"]
    spoken, heard = words(truth["text"]), words(texts[-1])
    assert heard[:3] == spoken[:3]
    (final,) = (event for event in of(Final, told) if event.turn == turn)
    assert final.first_pass == endpoint.text


def test_a_turn_ends_soon_after_its_speech(told: list[Event]) -> None:
    for endpoint, truth in zip(of(Endpoint, told), TRUTH["turns"], strict=True):
        assert endpoint.reason in (CloseReason.END_TOKEN, CloseReason.SILENCE)
        assert abs(endpoint.speech_end - truth["speech_end"]) <= to_samples(150)
        assert 0 < endpoint.sample - truth["speech_end"] <= to_samples(1000)
    assert CloseReason.END_TOKEN in [endpoint.reason for endpoint in of(Endpoint, told)]
    for closed, wake, endpoint in zip(of(TurnClosed, told), of(Wake, told), of(Endpoint, told), strict=True):
        assert (closed.first, closed.last, closed.reason) == (wake.phrase_end, endpoint.sample, endpoint.reason)


@pytest.mark.parametrize("block", [160, 1111, 16_000])
def test_the_events_do_not_depend_on_the_blocks(pipeline: Pipeline, sample: Samples, told: list[Event], block: int) -> None:
    pipeline.reset()
    assert plain(run(pipeline, sample, block)) == plain(told)


def test_two_runs_are_equal_and_the_next_recording_begins_anew(pipeline: Pipeline, sample: Samples, told: list[Event]) -> None:
    """Turn ids go on, all else is as in the first run."""
    pipeline.reset()
    assert plain(run(pipeline, sample)) == plain(told)
    assert pipeline.idle
    pipeline.next_source()
    again = run(pipeline, sample)
    assert [wake.turn for wake in of(Wake, again)] == [3, 4]
    shifted = [dataclasses.replace(event, turn=event.turn - 2) for event in plain(again) if not isinstance(event, WakeRefused | NearMiss)]
    assert shifted == plain(told)


def test_the_gate_changes_no_event(library: Library, runtime_dir: Path, sample: Samples, told: list[Event]) -> None:
    settings = dataclasses.replace(SETTINGS, gate=dataclasses.replace(SETTINGS.gate, enabled=False))
    assert plain(run(assembly.pipeline(settings, library, runtime_dir), sample)) == plain(told)


# ── other sound ────────────────────────────────────────────────────────────────────────────────────────────────────────


def phrase_of(sample: Samples, turn: dict[str, Any]) -> Samples:
    """The phrase and half a second before it."""
    return sample[turn["phrase_start"] - 8000 : turn["phrase_end"]]


def command_of(sample: Samples, turn: dict[str, Any]) -> Samples:
    return sample[turn["speech_start"] : turn["speech_end"]]


@pytest.mark.parametrize("gap_ms", [0, 50, 100, 300, 800])
@pytest.mark.parametrize("turn", [FIRST, SECOND], ids=["lights", "time"])
def test_no_word_after_the_phrase_is_lost(pipeline: Pipeline, sample: Samples, quiet: Samples, turn: dict[str, Any], gap_ms: int) -> None:
    """P1, and P8: no word of the phrase is in the text. E2: also without a gap the turn ends by its silence, not by a cap."""
    pipeline.reset()
    pieces = (phrase_of(sample, turn), quiet[: to_samples(gap_ms)], command_of(sample, turn), quiet)
    told = run(pipeline, np.concatenate(pieces))
    (final,) = of(Final, told)
    assert words(final.text) == words(turn["text"])
    (endpoint,) = of(Endpoint, told)
    assert endpoint.reason in (CloseReason.END_TOKEN, CloseReason.SILENCE)
    assert endpoint.rule != "no_speech_but_words"
    assert endpoint.sample - endpoint.speech_end <= to_samples(SETTINGS.endpoint.silence_ms + 100)


def test_partials_of_six_turns_in_a_row_hold_nothing_of_the_turn_before(pipeline: Pipeline, sample: Samples, quiet: Samples) -> None:
    """B8: opened by a client as soon as the one before has closed; another sentence each time, and none of its words comes back."""
    feeder = Feeder(pipeline)
    feeder.feed(quiet[:3200])
    for number in range(6):
        own, other = (FIRST, SECOND) if number % 2 else (SECOND, FIRST)
        pipeline.ears.command(Trigger(0))
        told = feeder.feed(quiet[:1600], command_of(sample, own))
        while not pipeline.idle:
            told += feeder.feed(quiet[:BLOCK])
        partials, (final,) = of(Partial, told), of(Final, told)
        assert {partial.turn for partial in partials} == {final.turn} == {number + 1}
        assert len(partials[0].text.split()) <= 3
        assert partials[0].stable == 0
        assert all(before.heard <= after.heard <= after.sample for before, after in itertools.pairwise(partials))
        assert not set(words(other["text"])) & {word for partial in partials for word in words(partial.text)}
        assert words(final.text) == words(own["text"])


def test_a_wake_into_silence_ends_without_a_final(pipeline: Pipeline, sample: Samples, quiet: Samples) -> None:
    """D8, with the phrase's own tail before the silence."""
    feeder = Feeder(pipeline)
    told = feeder.feed(phrase_of(sample, FIRST), np.tile(quiet, 15))
    wake, closed = told
    assert isinstance(wake, Wake)
    assert isinstance(closed, TurnClosed)
    assert closed.reason is CloseReason.NO_SPEECH
    assert 0 <= closed.last - closed.first - to_samples(5000) < 512


def test_a_client_opens_a_turn(pipeline: Pipeline, sample: Samples, quiet: Samples) -> None:
    feeder = Feeder(pipeline)
    feeder.feed(quiet[:16_000])
    pipeline.ears.command(Trigger(0))
    told = feeder.feed(quiet[:3200], command_of(sample, FIRST), quiet)
    assert [(wake.phrase, wake.phrase_end, wake.sample) for wake in of(Wake, told)] == [("", 16_128, 16_128)]  # the next unit of 16 ms
    (final,) = of(Final, told)
    assert words(final.text) == words(FIRST["text"])


def test_a_client_says_that_the_speaker_has_finished(pipeline: Pipeline, sample: Samples, quiet: Samples) -> None:
    """E13: the last word is in the final, though it was spoken this moment."""
    feeder = Feeder(pipeline)
    pipeline.ears.command(Trigger(0))
    feeder.feed(quiet[:3200], command_of(sample, SECOND))
    at = feeder.at
    pipeline.ears.command(Stop(0))
    told = feeder.feed(quiet[:256])
    (endpoint,) = of(Endpoint, told)
    assert endpoint.reason is CloseReason.STOPPED
    assert 0 < endpoint.sample - at <= 256
    (final,) = of(Final, told)
    assert words(final.text) == words(SECOND["text"])
    assert pipeline.idle


def test_a_cancelled_turn_has_no_final_and_the_next_phrase_wakes(pipeline: Pipeline, sample: Samples, quiet: Samples) -> None:
    """D10."""
    feeder = Feeder(pipeline)
    feeder.feed(phrase_of(sample, FIRST), quiet[:3200], command_of(sample, FIRST)[:16_000])
    pipeline.ears.command(Cancel(0))
    told = feeder.feed(quiet)
    assert [event.reason for event in of(TurnClosed, told)] == [CloseReason.CANCELLED]
    assert len(told) == 1
    told = feeder.feed(phrase_of(sample, SECOND), quiet[:3200], command_of(sample, SECOND), quiet)
    assert [final.text for final in of(Final, told)] == [SECOND["text"]]


def test_a_turn_that_follows_at_once_has_its_rules_too(pipeline: Pipeline, quiet: Samples) -> None:
    """Trigger, Cancel, Trigger in a still room: the VAD of the turn before must not go to sleep under the next, which nothing would end."""
    feeder = Feeder(pipeline)
    feeder.feed(quiet[:16_000])
    for fact in (Trigger(0, 1), Cancel(0), Trigger(0, 2)):
        pipeline.ears.command(fact)
    told = feeder.feed(np.tile(quiet, 15))
    assert [event.reason for event in of(TurnClosed, told)] == [CloseReason.CANCELLED, CloseReason.NO_SPEECH]
    (first, second) = of(Wake, told)
    assert list(pipeline.scribe.triggered) == [(1, first.turn), (2, second.turn)]
    assert pipeline.idle
    assert not pipeline.ears.attending


def test_asked_again_within_a_turn_the_turn_is_the_answer(pipeline: Pipeline, quiet: Samples) -> None:
    feeder = Feeder(pipeline)
    for token in (1, 2):
        pipeline.ears.command(Trigger(0, token))
        feeder.feed(quiet[:8000])
    assert [turn for _, turn in pipeline.scribe.triggered] == [1, 1]


def test_what_was_asked_before_its_sound_went_is_not_done_when_sound_returns(pipeline: Pipeline, quiet: Samples) -> None:
    feeder = Feeder(pipeline)
    feeder.feed(quiet[:16_000])
    for _ in range(100_000):
        pipeline.ears.command(Trigger(0))
    pipeline.ears.withdraw()
    assert not feeder.feed(quiet)


def test_a_phrase_in_the_refractory_time_leaves_no_vad_awake(pipeline: Pipeline, sample: Samples, quiet: Samples) -> None:
    feeder = Feeder(pipeline)
    feeder.feed(phrase_of(sample, FIRST))
    pipeline.ears.command(Stop(0))
    feeder.feed(quiet[:1600], phrase_of(sample, SECOND), quiet)
    assert not pipeline.ears.attending


# ── sound that is lost ─────────────────────────────────────────────────────────────────────────────────────────────────

LIMIT = to_samples(SETTINGS.endpoint.audio_lost_ms)


def half_heard(pipeline: Pipeline, sample: Samples, quiet: Samples) -> Feeder:
    feeder = Feeder(pipeline)
    feeder.feed(phrase_of(sample, FIRST), quiet[:3200], command_of(sample, FIRST)[:16_000])
    assert of(Partial, feeder.events)
    return feeder


@pytest.mark.parametrize("lost", [1, 1600, LIMIT])
def test_a_little_lost_sound_does_not_end_a_turn(pipeline: Pipeline, sample: Samples, quiet: Samples, lost: int) -> None:
    feeder = half_heard(pipeline, sample, quiet)
    feeder.skip(lost)
    told = feeder.feed(command_of(sample, FIRST)[16_000:], quiet)
    (endpoint,) = of(Endpoint, told)
    assert endpoint.reason in (CloseReason.END_TOKEN, CloseReason.SILENCE)
    assert words(endpoint.text)[:2] == words(FIRST["text"])[:2]


@pytest.mark.parametrize("lost", [LIMIT + 1, 16_000, 60 * 16_000], ids=["a sample too many", "a second", "more than the ring holds"])
def test_more_ends_it_and_what_was_heard_is_its_text(pipeline: Pipeline, sample: Samples, quiet: Samples, lost: int) -> None:
    feeder = half_heard(pipeline, sample, quiet)
    partial, at = of(Partial, feeder.events)[-1].text, feeder.at
    feeder.skip(lost)
    told = feeder.feed(quiet[:BLOCK])
    (endpoint,) = of(Endpoint, told)
    assert endpoint.reason is CloseReason.AUDIO_LOST
    assert endpoint.sample == at  # where the sound ended, not where it went on
    assert endpoint.text.startswith(partial)
    (final,) = of(Final, told)
    assert final.first_pass == endpoint.text
    told = feeder.feed(quiet, phrase_of(sample, SECOND), quiet[:3200], command_of(sample, SECOND), quiet)
    assert [final.text for final in of(Final, told)] == [SECOND["text"]]  # the lane hears on


@pytest.mark.parametrize("seconds", [61, 600])
@pytest.mark.parametrize("behind", [1, 8, 60])
def test_ears_that_are_ahead_may_write_over_what_the_scribe_has_yet_to_hear(
    pipeline: Pipeline, sample: Samples, quiet: Samples, behind: int, seconds: int
) -> None:
    """In two threads the ring holds a gap of a minute before the scribe knows of it, and what it was about to hear is gone."""
    feeder = half_heard(pipeline, sample, quiet)
    at, ears = feeder.at, pipeline.ears
    rest = np.concatenate((command_of(sample, FIRST)[16_000:], np.tile(quiet, 2)))[: behind * BLOCK - 100]  # off the grid
    frames = [AudioFrame(at + first, rest[first : first + BLOCK].copy()) for first in range(0, len(rest), BLOCK)]
    after = at + len(rest) + seconds * 16_000
    frames.append(AudioFrame(after, quiet[:BLOCK].copy(), seconds * 16_000))
    waiting = [heard for frame in frames for heard in ears.hear(frame)]
    told = [event for heard in waiting for event in pipeline.scribe.take(heard)]
    assert [event.reason for event in of(TurnClosed, told)] == [of(Endpoint, told)[0].reason]
    assert pipeline.idle and not ears.attending
    feeder.at = after + BLOCK
    told = feeder.feed(quiet, phrase_of(sample, SECOND), quiet[:3200], command_of(sample, SECOND), quiet)
    assert [final.text for final in of(Final, told)] == [SECOND["text"]]


def test_sound_lost_while_asleep_is_no_event(pipeline: Pipeline, sample: Samples, quiet: Samples) -> None:
    feeder = Feeder(pipeline)
    feeder.feed(quiet)
    feeder.skip(16_000)
    assert feeder.feed(quiet) == []
    told = feeder.feed(phrase_of(sample, SECOND), quiet[:3200], command_of(sample, SECOND), quiet)
    assert [final.text for final in of(Final, told)] == [SECOND["text"]]


# ── the scribe's own doors: another verifier, a second pass that answers later, the first pass looked at ────────────────


class Refuses:
    """A second stage that never agrees."""

    def verify(self, phrase: Phrase) -> Verdict:
        return Verdict(False, 0.25, f"{phrase.name}: 0.25, at least 0.5 wanted")


class Agrees:
    def verify(self, phrase: Phrase) -> Verdict:
        return Verdict(True, 1.0, phrase.name)


class Listening:
    """The transducer, and all that it ever said."""

    def __init__(self, transducer: Transducer) -> None:
        self._transducer = transducer
        self.said: list[Words] = []

    def start(self, first: int) -> None:
        self._transducer.start(first)

    def step(self, samples: Samples) -> Words | None:
        said = self._transducer.step(samples)
        if said:
            self.said.append(said)
        return said

    def finish(self) -> Words:
        self.said.append(self._transducer.finish())
        return self.said[-1]

    def foresee(self, first: int, samples: Samples) -> Words:
        self.said.append(self._transducer.foresee(first, samples))
        return self.said[-1]

    def reset(self) -> None:
        self._transducer.reset()


Asked = list[tuple[Rewrite, Samples]]
Build = Callable[[Verifier], tuple[Pipeline, Listening, Asked]]


@pytest.fixture(scope="module")
def build(library: Library, runtime_dir: Path) -> Iterator[Build]:
    """A pipeline with this verifier, whose second pass only writes down what it is asked."""
    found = library.find(SETTINGS.models.transducer)
    model = found.model
    transducer = Transducer(
        model.kind, found.files, frame_ms=model.frame_ms, lookahead_ms=model.lookahead_ms, chunk_ms=model.chunk_ms,
        tail_ms=model.tail_ms, end_token=model.end_token, provider=provider(runtime_dir), lead_in_ms=SETTINGS.transducer.lead_in_ms,
    )  # fmt: skip
    ring = assembly.new_ring()
    ears = assembly.ears(SETTINGS, library, ring, runtime_dir, lambda _: None)

    def make(verifier: Verifier) -> tuple[Pipeline, Listening, Asked]:
        asked: Asked = []
        listening = Listening(transducer)
        made = Pipeline(ears, scribe(ring, ears, listening, verifier, asked))
        made.reset()
        return made, listening, asked

    yield make


def scribe(ring: Ring, ears: Ears, transducer: TransducerStage, verifier: Verifier, asked: Asked) -> Scribe:
    def later(order: Rewrite, samples: Samples) -> None:
        asked.append((order, samples))

    rules = Rules(assembly.turn_rules(SETTINGS), verifier, SETTINGS.wake.refractory_ms, SETTINGS.endpoint.audio_lost_ms)
    return Scribe(ring, transducer, later, ears.rest, rules)


def test_a_phrase_that_the_second_stage_refuses_opens_nothing(build: Build, sample: Samples) -> None:
    refusing, listening, asked = build(Refuses())
    told = Feeder(refusing).feed(sample)
    assert {type(event) for event in told} == {WakeRefused}
    refused = of(WakeRefused, told)
    assert len(refused) == 2
    scores = refused[0].scores
    assert refused[0] == WakeRefused(refused[0].sample, "jarvis", 0.25, "jarvis: 0.25, at least 0.5 wanted", scores)
    assert scores["stage1"] >= scores["stage1_threshold"] == SETTINGS.wake.phrases[0].threshold
    assert (listening.said, asked, refusing.idle) == ([], [], True)


def test_the_end_token_stands_where_speech_ends(build: Build, sample: Samples) -> None:
    """So that the times of sherpa-onnx, which counts every frame as 40 ms, are turned into ours."""
    agreeing, listening, _ = build(Agrees())
    Feeder(agreeing).feed(sample)
    tokens = [said.end_token for said in listening.said if said.end_token is not None]
    for turn in TRUTH["turns"]:
        near = [token - turn["speech_end"] for token in tokens if turn["phrase_end"] < token < turn["speech_end"] + 24_000]
        assert near
        assert all(-to_samples(200) <= after <= to_samples(700) for after in near)


def test_foresight_ends_turns_sooner_and_costs_no_word(build: Build, sample: Samples) -> None:
    """The recognizer need not hear the silence that it would wait a chunk and its look-ahead for."""
    agreeing, _, _ = build(Agrees())
    ahead = of(Endpoint, Feeder(agreeing).feed(sample))
    agreeing, _, _ = build(Agrees())
    agreeing.scribe.adopt(dataclasses.replace(agreeing.scribe.rules, turn=dataclasses.replace(agreeing.scribe.rules.turn, foresight=False)))
    heard = of(Endpoint, Feeder(agreeing).feed(sample))
    assert [endpoint.rule for endpoint in ahead] == ["foreseen_token"] * 2
    assert "foreseen_token" not in [endpoint.rule for endpoint in heard]
    assert [endpoint.text for endpoint in ahead] == [endpoint.text for endpoint in heard]
    for sooner, later, turn in zip(ahead, heard, TRUTH["turns"], strict=True):
        assert turn["speech_end"] < sooner.sample < later.sample


def test_the_second_pass_gets_the_speech_and_may_answer_later(build: Build, sample: Samples) -> None:
    """The next turn does not wait for it, and its final has what was measured of its own turn."""
    agreeing, _, asked = build(Agrees())
    feeder = Feeder(agreeing)
    told = feeder.feed(sample, timed=True)
    assert of(Final, told) == []
    assert not agreeing.idle
    last = {order.turn: (order, samples) for order, samples in asked}  # the others were dropped when the speaker went on
    assert list(last) == [1, 2]
    for (order, samples), turn in zip(last.values(), TRUTH["turns"], strict=True):
        assert np.array_equal(samples, sample[order.first : order.last])
        assert turn["phrase_end"] - 3200 <= order.first <= turn["speech_start"]
        assert order.last >= turn["speech_end"]
    final, closed = agreeing.scribe.answer(Rewritten(feeder.at, 2, last[2][0].attempt, "What time is it?", "", 12.5))
    assert isinstance(final, Final)
    assert (final.turn, final.text, final.measured["second_pass_ms"]) == (2, "What time is it?", 12.5)
    assert set(final.measured) == {"verify_ms", "transducer_ms", "endpoint_ms", "second_pass_ms"}
    assert all(value > 0 for value in final.measured.values())
    assert isinstance(closed, TurnClosed)
    told = agreeing.scribe.answer(Shutdown(feeder.at))
    assert [(final.turn, final.source, final.note) for final in of(Final, told)] == [(1, TextSource.FIRST_PASS, "shutting down")]
    assert agreeing.idle


def test_shutdown_in_the_middle_of_a_turn_gives_what_was_heard(build: Build, sample: Samples) -> None:
    agreeing, _, asked = build(Agrees())
    feeder = Feeder(agreeing)
    feeder.feed(sample[: FIRST["speech_end"]])
    told = agreeing.scribe.answer(Shutdown(feeder.at))
    assert [type(event) for event in told] == [Endpoint, Final, TurnClosed]
    (final,) = of(Final, told)
    assert words(final.text)[:2] == words(FIRST["text"])[:2]
    assert asked == []
