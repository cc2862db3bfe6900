"""Which second stage the settings make, what a reload keeps of it, and what is refused by name."""

from __future__ import annotations

import hashlib
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from voiced import assembly
from voiced.errors import ModelError
from voiced.models import Library
from voiced.phrases import HEAD_EVIDENCE, PhraseSettings
from voiced.settings import Settings, roles
from voiced.stages.phrase import PhraseVerifier
from voiced.stages.wake import Phrase, SpeechVerifier, Verifier
from voiced_train import onnx_file
from voiced_train.head import SIZE, Head

SETTINGS = Settings()


def made(settings: Settings, library: Library, before: Verifier | None = None) -> Verifier:
    return assembly.wake_verifier(settings, library, lambda _: None, before)


def with_head(library: Library, folder: Path, said: dict[str, str]) -> Library:
    """The library and a head `mine`, into which its maker wrote this."""
    head = Head(np.zeros((SIZE, 2), np.float32), np.zeros(2, np.float32), np.zeros(2, np.float32), np.zeros(1, np.float32))
    onnx_file.write(folder / "mine.onnx", head, said)
    data = (folder / "mine.onnx").read_bytes()
    (folder / "manifest.yaml").write_text(
        "version: 1\nbases: {}\nmodels:\n  mine:\n    role: wake-head\n    kind: head\n    licence: the user's\n    about: mine\n"
        f"    files:\n      model: {{name: mine.onnx, bytes: {len(data)}, sha256: {hashlib.sha256(data).hexdigest()}}}\n"
        "    sources:\n      - directory: .\n",
        encoding="utf-8",
    )
    return Library([folder, *library.search], library.cache)


def listening_for(phrase: str) -> Settings:
    return replace(SETTINGS, wake=replace(SETTINGS.wake, phrases=(PhraseSettings(phrase),)))


def test_by_likelihood_as_it_ships_and_by_score_where_wanted(library: Library) -> None:
    assert isinstance(made(SETTINGS, library), PhraseVerifier)
    assert roles(SETTINGS)["wake verifier"] == "starter-en"
    by_score = replace(SETTINGS, wake=replace(SETTINGS.wake, verifier="score"))
    assert isinstance(made(by_score, library), SpeechVerifier)
    assert "wake verifier" not in roles(by_score)
    nothing = replace(SETTINGS, wake=replace(SETTINGS.wake, phrases=()))
    assert isinstance(made(nothing, library), SpeechVerifier)
    assert "wake verifier" not in roles(nothing)


def test_it_is_asked_when_the_phrase_has_been_heard(library: Library) -> None:
    wake = SETTINGS.wake
    assert assembly.wait_hops(replace(wake, verify_wait_ms=400), 2) == 6
    assert assembly.wait_hops(replace(wake, verify_wait_ms=0), 5) == 5
    assert assembly.wait_hops(replace(wake, verify_wait_ms=0, verify_hops=3), 2) == 3


def test_another_threshold_keeps_the_model(library: Library) -> None:
    before = made(SETTINGS, library)
    stricter = replace(SETTINGS.wake, phrases=(PhraseSettings("jarvis", verify_evidence=5.0),))
    after = made(replace(SETTINGS, wake=stricter), library, before)
    assert isinstance(before, PhraseVerifier)
    assert isinstance(after, PhraseVerifier)
    assert after.model is before.model
    audio = np.zeros(25_600, np.int16)
    assert after.verify(Phrase("jarvis", (1.0,), (), audio)).scores["evidence_threshold"] == 5.0


def test_a_phrase_may_want_evidence_of_its_own(library: Library) -> None:
    own = PhraseSettings("view-glass", verify_evidence=-1.25)
    zero = PhraseSettings("snowboy", verify_evidence=0)  # a value as others are
    phrases = (PhraseSettings("jarvis"), PhraseSettings("alexa"), own, zero, PhraseSettings(text="hey kitchen"))
    verifier = made(replace(SETTINGS, wake=replace(SETTINGS.wake, phrases=phrases)), library)
    audio = np.zeros(25_600, np.int16)
    wanted = {one.name: verifier.verify(Phrase(one.name, (1.0,), (), audio)).scores["evidence_threshold"] for one in phrases}
    usual = SETTINGS.wake.verify_evidence
    assert wanted == {"jarvis": HEAD_EVIDENCE["jarvis"], "alexa": usual, "view-glass": -1.25, "snowboy": 0, "hey kitchen": usual}


def test_what_is_kept_is_not_read_again(library: Library, tmp_path: Path) -> None:
    """A reload that asks for another threshold or another phrase hashes no model that is in use; one that was written anew it does."""
    loaded: list[str] = []

    def say(what: str) -> None:
        loaded.append(what.split(maxsplit=1)[0])

    mine = with_head(library, tmp_path, {"phrase": "hey kitchen"})
    spotting = assembly.spotting(listening_for("mine"), mine, tmp_path, say)
    rules = assembly.rules(listening_for("mine"), mine, say)
    assert sorted(loaded) == ["transducer", "wake-embedding", "wake-head"]
    loaded.clear()
    stricter = replace(SETTINGS, wake=replace(SETTINGS.wake, phrases=(PhraseSettings("mine", threshold=0.95),), verify_evidence=-1.0))
    after = assembly.spotting(stricter, mine, tmp_path, say, spotting)
    rules = assembly.rules(stricter, mine, say, rules)
    assert (loaded, after.wake) == ([], spotting.wake)
    os.utime(tmp_path / "mine.onnx", ns=(0, 0))  # as a head that was trained again
    assert assembly.spotting(stricter, mine, tmp_path, say, after).wake is not after.wake
    assert sorted(loaded) == ["wake-embedding", "wake-head"]
    loaded.clear()
    assembly.rules(SETTINGS, mine, say, rules)
    assert loaded == []


def test_a_head_that_says_nothing_of_its_words_is_judged_by_its_score(library: Library, tmp_path: Path) -> None:
    verifier = made(listening_for("mine"), with_head(library, tmp_path, {}))
    verdict = verifier.verify(Phrase("mine", (0.99,) * 6, (0.9,) * 50, np.zeros(25_600, np.int16)))
    assert verdict.accepted
    assert "hops at or above" in verdict.why
    assert verdict.since is None


def test_a_phrase_that_cannot_be_spelled_is_named_with_its_head(library: Library, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"mine.onnx: 'écoute' cannot be spelled: .* 'é'; name another model in models.wake_verifier"):
        made(listening_for("mine"), with_head(library, tmp_path, {"phrase": "écoute"}))


def test_a_hyphen_is_no_letter_of_a_phrase(library: Library, tmp_path: Path) -> None:
    """The first stage takes "hey-kitchen" for two words (phrases.plain), and so must the second, or the daemon would not start."""
    text = PhraseSettings(text="Hey-Kitchen")
    verifier = made(replace(SETTINGS, wake=replace(SETTINGS.wake, phrases=(text,))), library)
    assert "evidence" in verifier.verify(Phrase("hey kitchen", (), (), np.zeros(25_600, np.int16))).scores
    of_head = made(listening_for("mine"), with_head(library, tmp_path, {"phrase": "hey-kitchen"}))
    assert "evidence" in of_head.verify(Phrase("mine", (1.0,), (), np.zeros(25_600, np.int16))).scores


@pytest.mark.parametrize("model", ["silero-vad", "nosuch"])
def test_a_model_that_is_no_verifier_is_refused(library: Library, model: str) -> None:
    with pytest.raises(ModelError, match=model):
        made(replace(SETTINGS, models=replace(SETTINGS.models, wake_verifier=model)), library)
