"""Targets a frame, by hand; alignment against every path; shapes of utterances and where their ends are. No PyTorch."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from voiced_train.data import Utterance
from voiced_train.paths import LATE_END, LATE_PIECE, PATIENT_END, PROMPT_END, Ending, end_frame, place, steps, timed
from voiced_train.sound import RATE, Sound, speech_bounds_in_noise
from voiced_train.utterances import Cut, hushed, plain, quietest, shaped
from voiced_train.viterbi import needed, viterbi

END = 9


def collapsed(path: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(symbol for symbol, _ in itertools.groupby(path) if symbol)


@given(st.integers(1, 6), st.lists(st.integers(1, 2), max_size=3), st.integers(0, 1000))
@settings(max_examples=60)
def test_alignment_is_the_best_of_all_paths(frames: int, labels: list[int], seed: int) -> None:
    logs = np.log(np.random.default_rng(seed).dirichlet(np.ones(3), frames))
    if frames < needed(labels):
        with pytest.raises(ValueError, match="too few"):
            viterbi(logs, labels)
        return
    paths = [path for path in itertools.product(range(3), repeat=frames) if collapsed(path) == tuple(labels)]
    best = max(paths, key=lambda path: sum(logs[row, symbol] for row, symbol in enumerate(path)))
    first, score = viterbi(logs, labels)
    assert score == pytest.approx(sum(logs[row, symbol] for row, symbol in enumerate(best)) / frames)
    starts = [row for row, symbol in enumerate(best) if symbol and (row == 0 or best[row - 1] != symbol)]
    assert first == starts


def test_symbols_stand_at_their_frames_or_at_the_next_free_ones() -> None:
    assert place([(3, 1), (4, 1), (5, 6)], 8).tolist() == [0, 3, 4, 0, 0, 0, 5, 0]
    with pytest.raises(ValueError, match="3 symbols do not fit into 4 frames"):
        place([(3, 3), (4, 3), (5, 3)], 4)


def test_late_is_still_right_and_a_context_knows_what_was_said() -> None:
    asked = steps(np.array([0, 7, 0, 0, 0, END, 0]), END, 2)
    rows = list(zip(asked.frames.tolist(), map(tuple, asked.contexts.tolist()), asked.targets.tolist(), strict=True))
    assert rows == [
        (0, (0, 0), 0),
        (1, (0, 0), 7),
        (2, (0, 0), 7),  # late: the predictor has not seen 7 yet
        (3, (0, 0), 7),
        (2, (0, 7), 0),
        (3, (0, 7), 0),
        (4, (0, 7), 0),
        (5, (0, 7), END),
        (6, (0, 7), END),
        (6, (7, END), 0),
    ]


@given(st.lists(st.sampled_from([0, 0, 0, 1, 2, END]), min_size=1, max_size=60), st.integers(1, 6))
def test_every_frame_is_asked_once_on_the_path_and_lateness_is_bounded(targets: list[int], size: int) -> None:
    asked = steps(np.array(targets), END, size)
    late = len(asked.frames) - len(targets)
    assert 0 <= late <= sum(LATE_END if symbol == END else LATE_PIECE for symbol in targets if symbol)
    assert sorted(set(asked.frames.tolist())) == list(range(len(targets)))
    assert (asked.weights >= 1).all()
    said = [symbol for symbol in targets if symbol]
    history = [0] * size + said
    for frame, context, target in zip(asked.frames.tolist(), asked.contexts.tolist(), asked.targets.tolist(), strict=True):
        before = sum(symbol > 0 for symbol in targets[:frame])
        late = int(target > 0 and targets[frame] == 0)  # its own symbol stands before, and is not in the context yet
        assert context == history[before - late : before - late + size]


def test_blank_weighs_more_in_a_pause_and_not_after_the_end() -> None:
    asked = steps(np.array([7] + [0] * 12 + [8] + [0] * 3 + [END] + [0] * 20), END, 2)
    on_path = {}
    for frame, context, target, weight in zip(asked.frames, asked.contexts.tolist(), asked.targets, asked.weights, strict=True):
        if target == 0:
            on_path[int(frame)] = (float(weight), context[1])
    assert on_path[3] == (1.0, 7)
    assert on_path[12] == (4.0, 7)
    assert on_path[35] == (1.0, END)


def test_speech_goes_on_after_a_false_end() -> None:
    asked = steps(np.array([7, 0, 0, 0, 0, 0, 8, 0]), END, 2, false_end=3)
    said = {(int(frame), int(target)): context for frame, context, target in zip(*_columns(asked), strict=True)}
    assert said[2, 0] == [0, 7]
    assert said[3, 0] == [7, END]
    assert said[6, 8] == [7, END]
    assert said[7, 0] == [END, 8]


def _columns(asked: object) -> tuple[list[int], list[list[int]], list[int]]:
    return asked.frames.tolist(), asked.contexts.tolist(), asked.targets.tolist()  # type: ignore[attr-defined]


def test_end_tokens_stand_after_complete_sentences_alone() -> None:
    sentences = [Ending(2, 10.0, complete=True, patient=False), Ending(1, 40.0, complete=False, patient=False)]
    assert timed([4, 5, 6], [3, 8, 38], sentences, END, 59) == [(4, 3), (5, 8), (END, 10 + PROMPT_END), (6, 38)]
    # the next sentence began before anybody could have said that the first was over
    assert timed([4, 5, 6], [3, 8, 12], sentences, END, 59) == [(4, 3), (5, 8), (6, 12)]
    # and none stands beyond the utterance
    assert timed([4, 5], [3, 8], sentences[:1], END, 11) == [(4, 3), (5, 8), (END, 11)]


@pytest.mark.parametrize(("energy", "wanted"), [(20.2, 21), (5.0, 11), (50.0, 20)])
def test_the_end_is_where_energy_ends_near_the_last_piece(energy: float, wanted: int) -> None:
    assert end_frame(10, energy, patient=False) - PROMPT_END == min(wanted, 20)
    assert end_frame(10, energy, patient=True) - end_frame(10, energy, patient=False) == PATIENT_END - PROMPT_END


def recording(words: str = "turn on the lights", seconds: float = 2.0) -> tuple[Utterance, Sound]:
    rng = np.random.default_rng(0)
    sound = (0.001 * rng.standard_normal(round(seconds * RATE))).astype(np.float32)
    half = RATE // 2
    sound[half:-half] += (0.2 * rng.standard_normal(len(sound) - 2 * half)).astype(np.float32)
    middle = len(sound) // 2
    sound[middle - 400 : middle + 400] *= 0.001
    return Utterance("a.flac", words, "somebody", seconds, "made", "CC0"), sound


def test_a_plain_take_knows_where_its_speech_ends() -> None:
    utterance, sound = recording()
    take = plain(utterance, sound, np.random.default_rng(1))
    [sentence] = take.sentences
    assert abs(sentence.end - (take.lead + len(sound) - RATE // 2)) <= RATE // 50
    assert sentence.complete
    assert len(take.sound) >= take.lead + len(sound) + round(0.8 * RATE)


def test_every_shape_comes_and_keeps_its_promise() -> None:
    utterance, sound = recording()
    middle = len(sound) // 2
    cut = Cut(2, middle - 800, middle + 800)
    rng = np.random.default_rng(3)
    takes = [shaped(utterance, sound, [cut], (utterance, sound), rng) for _ in range(200)]
    assert {take.shape for take in takes} == {"plain", "pause", "cut-off", "joined"}
    for take in takes:
        if take.shape == "cut-off":
            [sentence] = take.sentences
            assert (sentence.text, sentence.complete) == ("turn on", False)
            assert abs(sentence.end - take.lead - middle) < RATE // 20
        elif take.shape == "pause":
            assert len(take.sentences) == 1
            assert take.sentences[0].end >= take.lead + len(sound) - RATE // 2 + round(0.3 * RATE) - RATE // 50
            [(start, end), _] = take.quiet
            assert abs(start - take.lead - middle) < RATE // 20
            assert 0.3 <= (end - start) / RATE <= 1.4
        elif take.shape == "joined":
            first, second = take.sentences
            assert first.complete
            assert second.complete
            assert second.end - first.end >= len(sound) + round(0.3 * RATE) - RATE // 25
            assert len(take.quiet) == 2
        assert take.quiet[-1][1] == len(take.sound)


def test_quiet_is_hushed_after_a_little_of_it() -> None:
    """And nothing else is."""
    sound = np.ones(RATE, np.float32)
    changed = hushed(sound, [(1000, 4000), (10_000, 16_000)], np.random.default_rng(0))
    for start, end in ((1000, 4000), (10_000, 16_000)):
        (zeros,) = np.nonzero(changed[start:end] == 0)
        assert len(zeros) == 0 or (zeros[0] >= 0.06 * RATE and zeros[-1] == end - start - 1 and len(zeros) == end - start - zeros[0])
    assert changed[:1000].all()
    assert changed[4000:10_000].all()
    assert (changed == 0).any()


def test_a_pause_of_a_reader_is_no_end() -> None:
    """Books are cut where their reader paused: after less than 0.8 s nobody could tell that the sentence was over."""
    utterance, sound = recording()
    read = Utterance("a.flac", utterance.text, "ls1", 2.0, "librispeech-samples", "CC BY 4.0")
    rng = np.random.default_rng(5)
    joined = [take for take in (shaped(read, sound, [], (read, sound), rng) for _ in range(200)) if take.shape == "joined"]
    assert {take.sentences[0].complete for take in joined} == {False, True}
    for take in joined:
        gap = take.sentences[1].end - take.sentences[0].end - len(sound)
        assert take.sentences[0].complete == (gap >= round(0.8 * RATE) - RATE // 50)
        assert all(sentence.patient for sentence in take.sentences)


def test_the_quietest_moment() -> None:
    _, sound = recording()
    assert abs(quietest(sound, RATE // 2, len(sound) - RATE // 2) - len(sound) // 2) < 400
    assert quietest(sound, -50, 10) <= RATE // 50


@given(st.floats(-60, -20), st.integers(4000, 16000))
@settings(max_examples=20)
def test_bounds_in_noise(floor: float, length: int) -> None:
    rng = np.random.default_rng(0)
    sound = (10 ** (floor / 20) * rng.standard_normal(length + 8000)).astype(np.float32)
    sound[4000 : 4000 + length] += (0.5 * np.sin(np.arange(length))).astype(np.float32)
    start, end = speech_bounds_in_noise(sound)
    assert abs(start - 4000) <= RATE // 50
    assert abs(end - 4000 - length) <= RATE // 50
    with pytest.raises(ValueError, match="silence"):
        speech_bounds_in_noise(np.zeros(5000, np.float32))
