"""The second stage: where a phrase lies best, and what the real model says of phrases and of what is none."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations, pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from sounds import noise, to_int16
from voiced.audio import Samples
from voiced.errors import ModelError
from voiced.models import Library
from voiced.stages.acoustic import BLANK, AcousticModel
from voiced.stages.phrase import PhraseVerifier, Wanted, log_odds, placed
from voiced.stages.pieces import Pieces
from voiced.stages.wake import Phrase, SpeechVerifier, Verdict
from voiced.units import to_samples

ENDS = (28_080, 163_760)
"""Where “jarvis” ends in the sample (sample.json)."""

HEARD = 25_600
"""What a verifier is given: 1.6 s."""

NO_WORDS = SpeechVerifier(threshold=0.9, sustain=2, min_speech=4)


@pytest.fixture(scope="session")
def files(library: Library) -> Mapping[str, Path]:
    return library.find("starter-en", "transducer").files


@pytest.fixture(scope="session")
def model(files: Mapping[str, Path]) -> AcousticModel:
    return AcousticModel(files)


@pytest.fixture(scope="session")
def verifier(model: AcousticModel, files: Mapping[str, Path]) -> PhraseVerifier:
    pieces = Pieces.read(files["vocabulary"], files["tokens"])
    words = ("jarvis", "computer", "snowboy")
    made = PhraseVerifier(model, {word: Wanted(pieces.encode(word), -4.7) for word in words}, NO_WORDS, tail_ms=190)
    made.warm_up()
    return made


def judge(verifier: PhraseVerifier, audio: Samples, name: str = "jarvis", scores: tuple[float, ...] = (0.95,) * 6) -> Verdict:
    return verifier.verify(Phrase(name, scores, (), audio))


# ── the lattice ────────────────────────────────────────────────────────────────────────────────────────────────────────

Floats = NDArray[np.float64]


def by_counting(blank: Floats, said: Floats, free: Floats) -> tuple[float, float, int]:
    """Every way to put the pieces into the frames, one by one: the likeliest, its weakest piece, its end."""
    frames, pieces = said.shape
    ways = []
    for places in combinations(range(frames), pieces):
        fits = [said[frame, piece] - free[frame] for piece, frame in enumerate(places)]
        waits = [
            blank[frame, piece + 1] - free[frame]
            for piece, (first, last) in enumerate(pairwise(places))
            for frame in range(first + 1, last)
        ]
        ways.append((float(sum(fits) + sum(waits)) / pieces, float(min(0, *fits)), places[-1]))
    return max(ways)


@given(frames=st.integers(1, 8), pieces=st.integers(1, 4), seed=st.integers(0, 999))
def test_is_the_best_of_all_placements(frames: int, pieces: int, seed: int) -> None:
    if pieces > frames:
        return
    random = np.random.default_rng(seed)
    blank, said, free = (-random.exponential(2.0, shape) for shape in ((frames, pieces + 1), (frames, pieces), (frames,)))
    found = placed(blank.astype(np.float32), said.astype(np.float32), free.astype(np.float32))
    ratio, weakest, last = by_counting(blank, said, free)
    assert found.ratio == pytest.approx(ratio, abs=1e-4)
    assert found.weakest == pytest.approx(weakest, abs=1e-4)
    assert found.last == last


def test_what_is_said_before_and_after_costs_nothing() -> None:
    free = np.full(9, -0.5, np.float32)
    said = np.full((9, 2), -9.0, np.float32)
    said[3, 0] = said[5, 1] = -0.5
    blank = np.full((9, 3), -0.5, np.float32)
    alone = placed(blank[3:6], said[3:6], free[3:6])
    assert placed(blank, said, free).ratio == pytest.approx(alone.ratio, abs=1e-3)
    assert (alone.ratio, alone.weakest) == pytest.approx((0, 0), abs=1e-3)
    assert placed(blank, said, free).last == 5


def test_a_near_word_fits_but_for_its_weakest_piece() -> None:
    """CASES W6: noise costs each of four pieces 2 nats, another sound costs one of them 8: a mean cannot tell these."""
    free, blank = np.zeros(4, np.float32), np.full((4, 5), -9.0, np.float32)
    noise, other = np.full((4, 4), -2.0, np.float32), np.zeros((4, 4), np.float32)
    other[:, 2] = -8
    noisy, near = placed(blank, noise, free), placed(blank, other, free)
    assert noisy.ratio == near.ratio == -2
    assert (noisy.weakest, near.weakest) == (-2, -8)


def test_more_pieces_than_frames_are_as_good_as_impossible() -> None:
    blank, said, free = np.zeros((2, 4), np.float32), np.zeros((2, 3), np.float32), np.zeros(2, np.float32)
    assert placed(blank, said, free).ratio < -1e9


# ── the model ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_probabilities_are_probabilities_of_every_symbol(model: AcousticModel, sample: Samples) -> None:
    encoded = model.encode(sample[:HEARD])
    assert model.frame == to_samples(40)
    assert len(encoded) == HEARD // model.frame
    likely = model.log_probabilities(encoded, model.predict([[BLANK] * model.context_size] * 2))
    assert likely.shape == (len(encoded), 2, model.symbols)
    assert np.allclose(np.exp(likely).sum(-1), 1, atol=1e-4)
    assert np.array_equal(likely[:, 0], likely[:, 1])


def test_the_free_path_is_what_the_recognizer_writes(model: AcousticModel, files: Mapping[str, Path], sample: Samples) -> None:
    """“Turn on the lights in the kitchen.”"""
    pieces = {number: piece for piece, number in Pieces.read(files["vocabulary"], files["tokens"]).numbers.items()}
    likely, said = model.freely(model.encode(sample[28_480:60_480]))
    text = "".join(pieces[number] for number in said).replace("▁", " ")
    assert "the" in text.split()
    assert len(said) >= 6
    assert np.all(likely <= 0)


def test_what_is_heard_depends_on_the_past_and_the_look_ahead_alone(model: AcousticModel, sample: Samples) -> None:
    whole, part = model.encode(sample[:64_000]), model.encode(sample[:48_000])
    sure = 48_000 // model.frame - 20  # the last chunk of the shorter one heard silence ahead
    assert np.allclose(whole[:sure], part[:sure], atol=1e-4)


def test_another_kind_of_model_is_refused_by_name(files: Mapping[str, Path], library: Library) -> None:
    with pytest.raises(ModelError, match=r"joiner.onnx: a model of another kind: expected inputs x \(1, any, 80\), attn"):
        AcousticModel({**files, "encoder": files["joiner"]})
    vad = library.find("silero-vad").files["model"]
    with pytest.raises(ModelError, match=r"silero_vad.onnx: a model of another kind: expected inputs y"):
        AcousticModel({**files, "decoder": vad})


# ── the verdict ────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("after_ms", [0, 40, 80, 160])
def test_the_samples_phrases_are_accepted_and_their_end_is_found(
    verifier: PhraseVerifier, sample: Samples, end: int, after_ms: float
) -> None:
    now = end + to_samples(after_ms)
    verdict = judge(verifier, sample[now - HEARD : now])
    assert verdict.accepted
    assert verdict.since is not None
    assert abs(now - verdict.since - end) <= to_samples(160)
    assert verdict.score == verdict.scores["evidence"] >= verdict.scores["evidence_threshold"]
    assert verdict.score == pytest.approx(
        sum(verdict.scores[name] * weight for name, weight in (("likelihood", 1), ("weakest", 0.25), ("log_odds", 0.5)))
    )


def test_the_same_sound_has_the_same_verdict(verifier: PhraseVerifier, sample: Samples) -> None:
    audio = sample[ENDS[0] - 24_000 : ENDS[0] + 1600]
    assert judge(verifier, audio) == judge(verifier, audio)


def test_other_words_are_refused(verifier: PhraseVerifier, sample: Samples) -> None:
    """CASES W6: whatever stage 1 thinks of them."""
    refused = [judge(verifier, sample[at : at + HEARD]) for at in range(32_000, 120_000, 12_800)]
    assert not any(verdict.accepted for verdict in refused)
    assert all("(-4.7 wanted): " in verdict.why and "by the first stage" in verdict.why for verdict in refused)
    for other in ("computer", "snowboy"):
        assert not judge(verifier, sample[ENDS[0] - 24_000 : ENDS[0] + 1600], other).accepted


@pytest.mark.parametrize("colour", ["white", "pink"])
def test_noise_and_silence_are_refused(verifier: PhraseVerifier, colour: str) -> None:
    """CASES W1, W16."""
    assert not judge(verifier, to_int16(noise(HEARD, colour) * 0.1)).accepted
    assert not judge(verifier, np.zeros(HEARD, np.int16)).accepted


@given(samples=st.integers(1600, 25_600))
@settings(max_examples=5)
def test_any_length_of_sound_has_a_verdict(verifier: PhraseVerifier, sample: Samples, samples: int) -> None:
    """A phrase right after the start of a recording has less than 1.6 s before it."""
    verdict = judge(verifier, sample[:samples])
    assert np.isfinite(verdict.score)
    assert verdict.since is not None
    assert 0 <= verdict.since < samples


def test_what_stage_1_is_sure_of_counts_between_limits() -> None:
    assert log_odds(()) == 0
    assert log_odds((0.5, 0.5)) == 0
    assert log_odds((1.0, 1.0)) == pytest.approx(4)
    assert log_odds((0.0,)) == pytest.approx(-4)
    assert log_odds((0.0, 1.0)) == pytest.approx(0)
    assert log_odds((0.9,)) == pytest.approx(np.log(9))


def test_a_score_that_falls_at_once_is_evidence_against_the_phrase(verifier: PhraseVerifier, sample: Samples) -> None:
    """CASES W7."""
    audio = sample[ENDS[0] - 24_000 : ENDS[0] + 1600]
    spike, sure, text = (judge(verifier, audio, scores=scores) for scores in ((0.91, 0.184, 0, 0, 0, 0), (0.99,) * 6, ()))
    assert spike.score + 1 < text.score < sure.score - 1
    assert sure.accepted


def test_a_phrase_whose_words_nobody_knows_is_judged_by_its_score(verifier: PhraseVerifier, sample: Samples) -> None:
    audio = sample[:HEARD]
    phrase = Phrase("of-somebody-else", (0.99, 0.99), (0.9,) * 9, audio)
    assert verifier.verify(phrase) == NO_WORDS.verify(phrase)
    assert verifier.verify(phrase).since is None


def test_counts_what_it_was_asked(model: AcousticModel, sample: Samples) -> None:
    made = PhraseVerifier(model, {"it": Wanted(((3,),), 5.0)}, NO_WORDS, tail_ms=0)
    judge(made, sample[:HEARD], "it")
    assert (made.statistics().asked, made.statistics().accepted) == (1, 0)
