"""Wake phrases in the settings: a head's or a text's, one of the two, each once, and each such as the model can spell it."""

from __future__ import annotations

import pytest
from voiced.errors import ConfigError, ModelError
from voiced.models import Library
from voiced.phrases import HEAD_EVIDENCE, PhraseSettings, unsayable
from voiced.settings import from_plain, parse, roles, to_plain
from voiced.spelling import misspelled, read_bpe_model, speller, unspellable
from voiced.stages.pieces import Pieces


def phrases(*entries: str) -> str:
    return "wake:\n  phrases:\n" + "".join(f"    - {{{entry}}}\n" for entry in entries)


def mistakes(*entries: str) -> tuple[str, ...]:
    with pytest.raises(ConfigError) as caught:
        parse(phrases(*entries), "f", more=(unspellable,))
    return caught.value.lines


@pytest.fixture(scope="module")
def pieces(library: Library) -> Pieces:
    return speller(library, "starter-en")


def test_a_head_and_a_text_get_the_usual_values_of_their_kind() -> None:
    head, text = parse(phrases("phrase: jarvis", 'text: "Hey  Kitchen", boost: 4'), "f", more=(unspellable,)).wake.phrases
    assert (head.name, head.threshold, head.boost, head.hops) == ("jarvis", 0.5, 0, 2)
    assert (text.name, text.threshold, text.boost, text.hops) == ("hey kitchen", PhraseSettings(text="x").threshold, 4, 0)


@pytest.mark.parametrize(("entry", "evidence"), [
    ("phrase: jarvis", HEAD_EVIDENCE["jarvis"]), ("phrase: jarvis, verify_evidence: null", HEAD_EVIDENCE["jarvis"]),
    ("phrase: jarvis, verify_evidence: 0", 0), ("phrase: alexa", None), ("phrase: alexa, verify_evidence: ~", None),
    ("phrase: alexa, verify_evidence: Null", None), ("text: jarvis", None), ("text: hey kitchen, verify_evidence: 0", 0),
])  # fmt: skip
def test_an_evidence_of_0_is_one_and_null_is_the_usual(entry: str, evidence: float | None) -> None:
    assert parse(phrases(entry), "f").wake.phrases[0].verify_evidence == evidence


def test_evidence_that_is_none_is_told() -> None:
    what = "wake.phrases[0].verify_evidence: must be a number from -30 to 5 (natural logarithm), or null; got soon; default null"
    assert mistakes("phrase: jarvis, verify_evidence: soon") == (f"f:3: {what}",)
    (line,) = mistakes("phrase: jarvis, threshold: null")
    assert "must be a number from 0 to 1; got null" in line  # of no other knob null is a value


def test_they_cross_to_another_process_as_they_are() -> None:
    settings = parse(phrases("phrase: jarvis, hops: 3", "phrase: alexa", 'text: "hey kitchen", threshold: 0.3'), "f")
    assert from_plain(to_plain(settings)) == settings


def test_texts_alone_want_no_head_and_no_embedding() -> None:
    wanted = roles(parse(phrases("text: hey kitchen"), "f"))
    assert wanted["wake text"] == "starter-en"
    assert not [role for role in wanted if role in ("wake embedding", "wake phrase")]


@pytest.mark.parametrize(
    ("entries", "line"),
    [
        (['threshold: 0.5'], 'f:3: wake.phrases[0].phrase: each entry must have one of phrase and text; got "", ""; default "", ""'),
        (["phrase: jarvis, text: hey you"],
         'f:3: wake.phrases[0].text: each entry must have one of phrase and text; got "hey you", "jarvis"; default "", ""'),
        (["text: hey kitchen, hops: 3"],
         'f:3: wake.phrases[0].hops: hops are a head\'s: a text must have none; got 3, "hey kitchen"; default 0, ""'),
        (["phrase: jarvis, boost: 3"],
         'f:3: wake.phrases[0].boost: boost is a text\'s: a head must have none; got 3, "jarvis"; default 0, ""'),
        (["text: agent 47"], "f:3: wake.phrases[0].text: must be words as they are said, spelled out; '4' is none of theirs;"
                             ' got "agent 47"; default ""'),
        (["text: turn/off"], "f:3: wake.phrases[0].text: must be words as they are said, spelled out; '/' is none of theirs;"
                             ' got "turn/off"; default ""'),
        (["phrase: jarvis", "text: Jarvis"],
         'f:4: wake.phrases[1].text: each phrase must be in the list once, as a head or as a text; got "Jarvis", "jarvis"; default "", ""'),
        (["phrase: smart-mirror", "text: smart mirror"],
         'f:4: wake.phrases[1].text: each phrase must be in the list once, as a head or as a text;'
         ' got "smart mirror", "smart-mirror"; default "", ""'),
        (["text: hey"], 'f:3: wake.phrases[0].text: must be longer: the model spells it in 2 of at least 3 pieces; got "hey"; default ""'),
        (["text: hey Zoë"], "f:3: wake.phrases[0].text: must be what the model can spell ('hey zoë' cannot be spelled: the model has no "
                            "piece for 'ë'); got \"hey Zoë\", \"starter-en\"; default \"\", \"starter-en\""),
    ],
)  # fmt: skip
def test_what_cannot_be_is_one_line_with_its_place(library: Library, entries: list[str], line: str) -> None:
    """Issue: a phrase that cannot be tokenised, two phrases alike. CASES S11's form."""
    assert mistakes(*entries) == (line,)


def test_all_that_is_wrong_is_told_at_once() -> None:
    lines = mistakes("text: hey", "phrase: jarvis, boost: 1", "text: ''", "text: okay you")
    assert [line.split(": ")[0] for line in lines] == ["f:3", "f:4", "f:5"]


def test_two_texts_spelled_alike_are_told(pieces: Pieces) -> None:
    class Deaf(Pieces):
        def spell(self, text: str) -> tuple[str, ...]:
            return super().spell(text.replace("'", ""))

    deaf = Deaf(pieces._scores, pieces.numbers)
    entries = (PhraseSettings(text="what's on"), PhraseSettings(text="whats on"))
    assert [keys for keys, _ in misspelled(entries, deaf)] == [("wake.phrases[1].text", "wake.phrases[0].text")]


@pytest.mark.parametrize("text", ["hey kitchen", "o'brien", "jean-luc", "你好小爱", "नमस्ते"])
def test_words_of_any_script_can_be_said(text: str) -> None:
    assert not unsayable(text)


def test_a_sentencepiece_model_has_the_scores_of_its_vocabulary(library: Library, pieces: Pieces) -> None:
    """What of public models has no bpe.vocab is spelled by bpe.model."""
    files = library.find("starter-en").files
    again = Pieces(read_bpe_model(files["bpe"]), pieces.numbers)
    for text in ("jarvis", "hey kitchen", "what's the weather in new york", "quizzical"):
        assert again.spell(text) == pieces.spell(text)


def test_another_file_is_no_sentencepiece_model(library: Library) -> None:
    files = library.find("starter-en").files
    for part in ("tokens", "decoder"):
        with pytest.raises(ModelError, match=str(files[part])):
            read_bpe_model(files[part])
