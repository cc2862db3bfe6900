"""The second pass: right words, none for silence, and turns of any length."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from voiced.audio import Samples
from voiced.models import Library
from voiced.stages.second_pass import SecondPass, quietest
from voiced.stages.sherpa import MOONSHINE_LONGEST, Transcript

QUERY = slice(28_080, 60_000)
"""“Turn on the lights in the kitchen.” of the sample (sample.json)."""


def words(text: str) -> list[str]:
    return "".join(letter for letter in text.lower() if letter.isalpha() or letter == " ").split()


def test_it_hears_the_query(second_pass: SecondPass, sample: Samples) -> None:
    assert words(second_pass.decode(sample[QUERY])) == ["turn", "on", "the", "lights", "in", "the", "kitchen"]
    assert words(second_pass.decode(sample[163_760:185_000])) == ["what", "time", "is", "it"]


@pytest.mark.parametrize("count", [1, 800, 16_000, 160_000])
def test_silence_is_no_text(second_pass: SecondPass, count: int) -> None:
    assert second_pass.decode(np.zeros(count, np.int16)) == ""


def test_padding_is_heard_as_silence(library: Library, second_pass: SecondPass, sample: Samples) -> None:
    found = library.find("moonshine-tiny-en")
    padded = SecondPass(found.model.kind, found.files, provider="cpu", lead_ms=200, tail_ms=300)
    sound = np.concatenate((np.zeros(3200, np.int16), sample[QUERY], np.zeros(4800, np.int16)))
    assert padded.decode(sample[QUERY]) == second_pass.decode(sound)


def test_a_turn_longer_than_an_old_engine_takes_is_heard_to_its_end(second_pass: SecondPass, sample: Samples) -> None:
    """Before version 2 sherpa-onnx answers 9.3 s of Moonshine's sound with nothing at all."""
    heard = words(second_pass.decode(sample))
    assert len(sample) > MOONSHINE_LONGEST
    assert "kitchen" in heard[:12]
    assert heard[-4:] == ["what", "time", "is", "it"]


def test_two_turns_do_not_touch(second_pass: SecondPass, sample: Samples) -> None:
    alone = second_pass.decode(sample[QUERY])
    second_pass.decode(sample[96_080:123_040])
    second_pass.reset()
    assert second_pass.decode(sample[QUERY]) == alone


def test_counts_and_refusal(library: Library, sample: Samples) -> None:
    found = library.find("moonshine-tiny-en")
    stage = SecondPass(found.model.kind, found.files, provider="cpu")
    stage.warm_up()
    stage.decode(sample[QUERY])
    stage.decode(np.zeros(1600, np.int16))
    counted = stage.statistics()
    assert (counted.decodes, counted.samples, counted.empty) == (2, QUERY.stop - QUERY.start + 1600, 1)
    with pytest.raises(ValueError, match=r"SecondPass wants int16 of shape \(n,\), n > 0; got int16 \(0,\)"):
        stage.decode(sample[:0])


def test_an_engine_that_tells_no_probabilities_gives_none(second_pass: SecondPass, sample: Samples) -> None:
    second_pass.decode(sample[QUERY])
    assert second_pass.log_probability is None


def test_a_text_is_as_sure_as_the_mean_of_its_tokens(monkeypatch: pytest.MonkeyPatch, second_pass: SecondPass, sample: Samples) -> None:
    """No model at hand tells them; the sum over the pieces of a turn is ours."""
    parts = iter([Transcript("turn on", (-0.5, -1.5)), Transcript(""), Transcript("the lights", (-4.0,))])
    monkeypatch.setattr(second_pass, "_pieces", lambda samples: [samples] * 3)
    monkeypatch.setattr(second_pass, "_decode", lambda samples: next(parts))
    assert second_pass.decode(sample[QUERY]) == "turn on the lights"
    assert second_pass.log_probability == -2.0


@given(st.integers(0, 40_000), st.integers(0, 2**32 - 1))
def test_a_cut_lies_in_the_pause(at: int, seed: int) -> None:
    sound = np.random.default_rng(seed).integers(500, 1000, 48_000, np.int16)
    sound[4000 + at : 4000 + at + 2000] = 3
    cut = quietest(sound, 2000, 48_000)
    assert 4000 + at <= cut <= 4000 + at + 2000
