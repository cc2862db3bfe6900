"""The first pass: its times against a known end of speech, its end token, its last word, any block size."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from voiced.audio import Samples
from voiced.events import Words
from voiced.models import Library
from voiced.stages.transducer import END_TOKEN, Transducer, confidence, read

MakeTransducer = Callable[..., Transducer]

# the first query of the sample, "Turn on the lights in the kitchen.", and the silence after it (sample.json)
FIRST, SPEECH_END, LAST = 28_080, 56_080, 92_000


def decode(stage: Transducer, first: int, samples: Samples, sizes: Iterator[int]) -> list[Words]:
    stage.start(first)
    out = []
    while len(samples):
        size = next(sizes)
        words = stage.step(samples[:size])
        samples = samples[size:]
        if words:
            out.append(words)
    return [*out, stage.finish()]


def always(size: int) -> Iterator[int]:
    while True:
        yield size


@pytest.fixture(scope="module")
def turn(transducer: Transducer, sample: Samples) -> list[Words]:
    """All that is said about the first query, fed by VAD windows."""
    return decode(transducer, FIRST, sample[FIRST:LAST], always(512))


def test_it_hears_the_words(turn: list[Words]) -> None:
    assert "turn on the lights in the" in turn[-1].text
    assert END_TOKEN not in "".join(words.text for words in turn)


def test_partials_grow_as_the_sound_comes(turn: list[Words]) -> None:
    partials = turn[:-1]
    assert len(partials) >= 4
    assert all(before.sample < after.sample for before, after in itertools.pairwise(partials))
    assert all(before != after for before, after in itertools.pairwise(partials))
    texts = [words.text for words in partials]
    assert all(after.startswith(before) for before, after in itertools.pairwise(texts))  # greedy never takes back


def test_the_end_token_stands_where_the_speech_ended(turn: list[Words]) -> None:
    last = turn[-1]
    assert last.end_token is not None
    assert -200 * 16 <= last.end_token - SPEECH_END <= 600 * 16
    assert last.log_probability < 0


def test_the_end_token_is_known_after_its_frame_and_within_the_stages_latency(turn: list[Words], transducer: Transducer) -> None:
    told = next(words for words in turn if words.end_token is not None)
    assert told.end_token is not None
    # three feature frames that the encoder's first layers reach beyond; a block; the last feature frame's own width
    assert 0 < told.sample - told.end_token <= transducer.latency + 480 + 512 + 400
    assert transducer.latency == (320 + 160) * 16


def test_a_frame_of_80_ms_is_two_of_sherpas(new_transducer: MakeTransducer, turn: list[Words], sample: Samples) -> None:
    stage = new_transducer(frame_ms=80)
    words = decode(stage, FIRST, sample[FIRST:LAST], always(512))[-1]
    assert words.end_token is not None
    assert turn[-1].end_token is not None
    assert words.end_token - FIRST == 2 * (turn[-1].end_token - FIRST)


def test_positions_move_with_the_start(transducer: Transducer, turn: list[Words], sample: Samples) -> None:
    moved = decode(transducer, FIRST + 1_000_000, sample[FIRST:LAST], always(512))
    assert [(words.text, words.sample - 1_000_000) for words in moved] == [(words.text, words.sample) for words in turn]
    assert moved[-1].end_token == (turn[-1].end_token or 0) + 1_000_000


@given(st.lists(st.integers(1, 20_000), min_size=1, max_size=40))
@settings(max_examples=8, deadline=None)
def test_the_same_words_for_any_blocks(transducer: Transducer, turn: list[Words], sample: Samples, sizes: list[int]) -> None:
    words = decode(transducer, FIRST, sample[FIRST:LAST], iter([*sizes, *[LAST] * 2]))[-1]
    assert words == turn[-1]


def test_a_turn_knows_nothing_of_the_one_before(transducer: Transducer, turn: list[Words], sample: Samples) -> None:
    transducer.start(0)
    transducer.step(sample[96_080:123_040])
    transducer.reset()
    assert decode(transducer, FIRST, sample[FIRST:LAST], always(512)) == turn


@pytest.mark.parametrize("end", [SPEECH_END, SPEECH_END - 1600, SPEECH_END - 800])
def test_sound_that_ends_with_its_speech_keeps_its_last_word(transducer: Transducer, sample: Samples, end: int) -> None:
    """The manifest's tail gives what two seconds of silence give."""
    short = decode(transducer, FIRST, sample[FIRST:end], always(512))[-1]
    longer = decode(transducer, FIRST, np.concatenate((sample[FIRST:end], np.zeros(32_000, np.int16))), always(512))[-1]
    assert short.text == longer.text
    assert short.sample == end


def test_without_a_tail_the_last_word_is_lost(new_transducer: MakeTransducer, sample: Samples, transducer: Transducer) -> None:
    """So that the test above proves something."""
    end = SPEECH_END - 1600
    bare = decode(new_transducer(tail_ms=0), FIRST, sample[FIRST:end], always(512))[-1]
    whole = decode(transducer, FIRST, sample[FIRST:end], always(512))[-1]
    assert len(bare.text) < len(whole.text)


def test_a_word_takes_the_end_token_back(new_transducer: MakeTransducer, sample: Samples) -> None:
    """A query, its silence, and somebody going on: the text goes on in the same partial."""
    stage = new_transducer()
    told = decode(stage, FIRST, np.concatenate((sample[FIRST:LAST], sample[167_760:200_000])), always(512))
    at = next(row for row, words in enumerate(told) if words.end_token is not None)
    taken = [words for words in told[at:] if words.end_token is None]
    assert taken
    assert taken[0].text.startswith(told[at].text)
    assert len(taken[0].text) > len(told[at].text)
    assert stage.statistics().taken_back >= 1


def test_a_vocabulary_without_the_token_gives_none(new_transducer: MakeTransducer, sample: Samples) -> None:
    words = decode(new_transducer(end_token=False), FIRST, sample[FIRST:LAST], always(512))
    assert all(said.end_token is None for said in words)


def test_with_more_paths_it_hears_the_same_sentence_with_its_end(new_transducer: MakeTransducer, sample: Samples) -> None:
    last = decode(new_transducer(paths=4), FIRST, sample[FIRST:LAST], always(512))[-1]
    assert "turn on the lights in the " in last.text
    assert last.end_token is not None
    assert -200 * 16 <= last.end_token - SPEECH_END <= 600 * 16
    assert len(last.word_first) == len(last.text.split())


def test_a_language_model_spells_what_is_heard(new_transducer: MakeTransducer, sample: Samples) -> None:
    last = decode(new_transducer(paths=6, language=0.3), FIRST, sample[FIRST:LAST], always(512))[-1]
    assert last.text == "turn on the lights in the kitchen"
    assert last.end_token is not None
    assert -200 * 16 <= last.end_token - SPEECH_END <= 600 * 16


def test_where_there_is_none_or_one_path_its_weight_does_nothing(new_transducer: MakeTransducer, library: Library, sample: Samples) -> None:
    found = library.find("starter-en")
    without = {part: path for part, path in found.files.items() if part != "language"}
    model = found.model
    plain = Transducer(
        model.kind, without, frame_ms=model.frame_ms, chunk_ms=model.chunk_ms, lookahead_ms=model.lookahead_ms, tail_ms=model.tail_ms,
        end_token=True, provider="cpu", paths=4, language=0.5,
    )  # fmt: skip
    turn = sample[FIRST:LAST]
    assert decode(plain, FIRST, turn, always(512)) == decode(new_transducer(paths=4), FIRST, turn, always(512))
    assert decode(new_transducer(language=0.5), FIRST, turn, always(512)) == decode(new_transducer(), FIRST, turn, always(512))


def test_silence_says_nothing(transducer: Transducer) -> None:
    words = decode(transducer, 0, np.zeros(48_000, np.int16), always(512))
    assert [said.text for said in words] == [""] * len(words)


def test_long_dictation_goes_on_past_the_position_codes_wrap(transducer: Transducer, sample: Samples) -> None:
    """CASES C3: Two minutes in one turn: what is heard late is heard as well as what is heard first."""
    text = decode(transducer, 0, np.tile(sample[FIRST:LAST], 30), always(5120))[-1].text
    assert 29 <= text.count(" in the ") <= 31


# ── what would be said if silence followed ─────────────────────────────────────────────────────────────────────────────


def test_it_foresees_what_it_says_once_it_has_heard_the_silence(transducer: Transducer, turn: list[Words], sample: Samples) -> None:
    """Asked 100 ms after the end of speech: the words, and the token with its frame, which lies ahead."""
    words = transducer.foresee(FIRST, sample[FIRST : SPEECH_END + 1600])
    assert words.text == turn[-1].text
    assert words.end_token is not None
    assert turn[-1].end_token is not None
    assert abs(words.end_token - turn[-1].end_token) <= 120 * 16
    assert words.log_probability < 0


def test_it_can_be_asked_before_its_first_turn(new_transducer: MakeTransducer, sample: Samples) -> None:
    assert new_transducer().foresee(FIRST, sample[FIRST : FIRST + 8000]).sample == FIRST + 8000


def test_it_foresees_no_end_in_the_middle(transducer: Transducer, sample: Samples) -> None:
    """ "turn on the": nothing is complete, however long the silence."""
    assert transducer.foresee(FIRST, sample[FIRST : FIRST + 16_000]).end_token is None


def asked(transducer: Transducer, sample: Samples, at: int, ahead: int = 512, last: int = LAST) -> tuple[Words, list[tuple[int, Words]]]:
    """A turn in which it is asked at `at`, a window after what it has heard. Its answer, and what it says after it, by where."""
    transducer.start(FIRST)
    for first in range(FIRST, at - ahead, 512):
        transducer.step(sample[first : min(first + 512, at - ahead)])
    answer = transducer.foresee(FIRST, sample[FIRST:at])
    said = []
    for first in range(at - ahead, last, 512):
        words = transducer.step(sample[first : min(first + 512, last)])
        said += [(first, words)] if words else []
    return answer, [*said, (last, transducer.finish())]


@pytest.mark.parametrize("at", [FIRST + 512 * 20 + 7, FIRST + 512 * 40, SPEECH_END + 1024])
def test_a_turn_that_was_asked_about_says_what_one_alone_would(transducer: Transducer, sample: Samples, at: int) -> None:
    alone = transducer.foresee(FIRST, sample[FIRST:at])
    assert asked(transducer, sample, at)[0] == alone


@pytest.mark.parametrize("windows", [20, 40, 60])
def test_where_the_speaker_goes_on_it_ends_as_if_nobody_had_asked(
    transducer: Transducer, turn: list[Words], sample: Samples, windows: int
) -> None:
    at = FIRST + 512 * windows
    _, said = asked(transducer, sample, at)
    assert said[-1][1] == turn[-1]
    late = [(first, words) for first, words in said if words in turn]
    assert late, "it says what the turn says, when it has caught up"


def test_it_catches_up_within_a_pause(transducer: Transducer, turn: list[Words], sample: Samples) -> None:
    """No end was foreseen: of 1.3 s it has heard all again three windows later, and the words come when they would have come."""
    at = FIRST + 512 * 40
    _, said = asked(transducer, sample, at)
    caught_up = at + 3 * 512
    known = [words for words in turn if words.sample > caught_up]
    assert known
    assert [words for _, words in said if words.sample > caught_up] == known


def test_where_an_end_was_foreseen_it_rests_before_it_hears_the_turn_again(
    new_transducer: MakeTransducer, turn: list[Words], sample: Samples
) -> None:
    """Mostly the turn closes in that time, and nothing was computed for nothing."""
    stage = new_transducer()
    at = SPEECH_END + 1024
    answer, _ = asked(stage, sample, at, last=at + 256 * 16)
    assert answer.end_token is not None
    assert stage.statistics().foreseen == at + 256 * 16 - FIRST  # by the flush
    stage.start(FIRST)
    stage.foresee(FIRST, sample[FIRST:at])
    before = stage.statistics().foreseen
    stage.step(sample[at : at + 256 * 16])
    assert stage.statistics().foreseen == before
    stage.reset()


def test_a_question_about_other_sound_has_a_stream_to_itself(transducer: Transducer, turn: list[Words], sample: Samples) -> None:
    """As of the last five seconds of a dictation: the open turn does not notice."""
    transducer.start(FIRST)
    said = []
    for at in range(FIRST, LAST, 512):
        if at == FIRST + 512 * 40:
            transducer.foresee(FIRST + 1600, sample[FIRST + 1600 : at])
        words = transducer.step(sample[at : min(at + 512, LAST)])
        said += [words] if words else []
    assert [*said, transducer.finish()] == turn


def test_it_may_be_asked_again_before_it_has_caught_up(transducer: Transducer, sample: Samples) -> None:
    transducer.start(FIRST)
    transducer.step(sample[FIRST : FIRST + 512 * 40])
    transducer.foresee(FIRST, sample[FIRST : FIRST + 512 * 41])
    transducer.step(sample[FIRST + 512 * 40 : FIRST + 512 * 41])
    again = transducer.foresee(FIRST, sample[FIRST : FIRST + 512 * 42])
    transducer.reset()
    assert again == transducer.foresee(FIRST, sample[FIRST : FIRST + 512 * 42])


def test_without_a_token_there_is_nothing_to_foresee(new_transducer: MakeTransducer, sample: Samples) -> None:
    stage = new_transducer(end_token=False)
    assert stage.foresee(FIRST, sample[FIRST:LAST]) == Words(LAST, "")
    assert stage.statistics().chunks == 0


def test_no_turn_no_words(transducer: Transducer, sample: Samples) -> None:
    transducer.reset()
    with pytest.raises(RuntimeError, match="no turn is open"):
        transducer.step(sample[:512])
    with pytest.raises(RuntimeError, match="no turn is open"):
        transducer.finish()
    transducer.start(0)
    with pytest.raises(ValueError, match=r"Transducer wants int16 of shape \(n,\), n > 0; got int16 \(0,\)"):
        transducer.step(sample[:0])
    transducer.finish()
    with pytest.raises(RuntimeError, match="no turn is open"):
        transducer.step(sample[:512])


def test_warm_up_leaves_no_turn_open(transducer: Transducer, sample: Samples) -> None:
    transducer.warm_up()
    with pytest.raises(RuntimeError, match="no turn is open"):
        transducer.step(sample[:512])


def test_counts(new_transducer: MakeTransducer, sample: Samples) -> None:
    stage = new_transducer()
    decode(stage, FIRST, sample[FIRST:LAST], always(512))
    counted = stage.statistics()
    assert (counted.turns, counted.samples, counted.foreseen) == (1, LAST - FIRST, 0)
    assert counted.chunks in {(LAST - FIRST + stage.latency) // 5120 + extra for extra in (-1, 0, 1)}


TOKENS = st.lists(st.sampled_from(["▁turn", "▁on", "s", END_TOKEN, "▁"]), max_size=12)


@given(TOKENS)
def test_read_keeps_the_words_and_finds_the_first_token_after_the_last(tokens: list[str]) -> None:
    said = read(tokens, END_TOKEN)
    assert said.text == " ".join("".join(token for token in tokens if token != END_TOKEN).replace("▁", " ").split())
    if said.end_token is None:
        assert not tokens or tokens[-1] != END_TOKEN
    else:
        assert set(tokens[said.end_token :]) == {END_TOKEN}
        assert said.end_token == 0 or tokens[said.end_token - 1] != END_TOKEN
    assert read(tokens, None).end_token is None


@given(TOKENS)
def test_read_gives_each_word_the_piece_that_it_begins_with(tokens: list[str]) -> None:
    said = read(tokens, END_TOKEN)
    words = said.text.split()
    assert len(said.words) == len(words)
    assert list(said.words) == sorted(said.words)
    assert all(word.startswith(tokens[at].replace("▁", "")) for word, at in zip(words, said.words, strict=True))
    assert said.pieces == tuple(at for at, token in enumerate(tokens) if token != END_TOKEN)


def test_words_carry_where_they_stand(turn: list[Words]) -> None:
    for words in turn:
        assert len(words.word_first) == len(words.text.split())
        assert list(words.word_first) == sorted(words.word_first)
        assert words.last_word is None or words.word_first[-1] <= words.last_word <= words.heard <= words.sample
    last = turn[-1]
    assert all(FIRST <= at < SPEECH_END + 400 * 16 for at in last.word_first)
    assert last.heard == last.sample == LAST


def test_what_is_heard_lags_by_chunk_and_look_ahead(turn: list[Words], transducer: Transducer) -> None:
    for words in turn[:-1]:
        assert (words.heard - FIRST) % 5120 == 0
        assert 0 <= words.sample - words.heard <= transducer.latency + 512 + 400


def test_confidence_is_the_geometric_mean_of_the_pieces(turn: list[Words]) -> None:
    assert confidence([]) is None
    assert confidence([math.log(0.5), math.log(0.125)]) == pytest.approx(0.25)
    assert turn[-1].confidence is not None
    assert 0 < turn[-1].confidence <= 1
