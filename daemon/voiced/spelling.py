"""Whether the phrases of the settings can be spelled in the pieces of the model that is to hear them.

What lives here: the pieces of a model's files, texts in them, and the rule for the settings' file, so that what cannot be heard is named
with its line before anything starts. What must not: the merges themselves (stages/pieces.py), sound.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from .errors import ModelError, reason_of
from .models import Found, Library, Model, default_library
from .phrases import Broken, PhraseSettings, plain, texts, unsayable
from .settings import Settings
from .stages.pieces import Pieces

if TYPE_CHECKING:
    from .stages.keywords import TextPhrase

LEAST_PIECES = 3
"""A text of fewer is in half of all talk: "hey" has two, "max" has three."""


def text_role(model: Model) -> str:
    """In which role it is to be found: a model made to listen for texts may do it, and any streaming transducer."""
    return "wake-text" if model.role == "wake-text" else "transducer"


def find(library: Library, model: str) -> Found:
    """The files of a model that listens for texts. Raises ModelError."""
    return library.find(model, text_role(library.model(model)))


def speller(library: Library, model: str) -> Pieces:
    """How the model that listens for texts spells them. Raises ModelError."""
    return pieces_of(find(library, model).files)


def pieces_of(files: Mapping[str, Path]) -> Pieces:
    """How a model spells, by its bpe.vocab, else by its bpe.model. Raises ModelError where it has neither."""
    if "vocabulary" in files:
        return Pieces.read(files["vocabulary"], files["tokens"])
    if "bpe" not in files:
        raise ModelError(str(files["tokens"].parent), "has no bpe.vocab and no bpe.model, by which a phrase is spelled")
    return Pieces(read_bpe_model(files["bpe"]), Pieces.read_numbers(files["tokens"]))


def spell(phrases: Sequence[PhraseSettings], pieces: Pieces) -> tuple[TextPhrase, ...]:
    """Texts as keywords. Raises ValueError for one that cannot be spelled."""
    from .stages.keywords import TextPhrase  # has NumPy, and the main process reads the settings without

    return tuple(TextPhrase(one.name, pieces.spell(plain(one.text)), one.boost, one.threshold) for one in phrases)


def unspellable(settings: Settings) -> Iterator[Broken]:
    """What is wrong with the texts, beside their model. A model that is not there is told of where it is wanted."""
    if not texts(settings.wake.phrases):
        return
    try:
        pieces = speller(default_library(settings.models.path), settings.models.wake_text)
    except ModelError:
        return
    yield from misspelled(settings.wake.phrases, pieces)


def misspelled(phrases: Sequence[PhraseSettings], pieces: Pieces) -> Iterator[Broken]:
    """Texts that cannot be spelled, are too short, or have the pieces of another."""
    spelled: dict[tuple[str, ...], str] = {}
    for at, entry in enumerate(phrases):
        if not entry.text or unsayable(entry.text):  # told by the settings
            continue
        key = f"wake.phrases[{at}].text"
        try:
            mine = pieces.spell(plain(entry.text))
        except ValueError as error:
            yield (key, "models.wake_text"), f"must be what the model can spell ({error})"
            continue
        if len(mine) < LEAST_PIECES:
            yield (key,), f"must be longer: the model spells it in {len(mine)} of at least {LEAST_PIECES} pieces"
        if (same := spelled.setdefault(mine, key)) != key:
            yield (key, same), "two texts must not be spelled alike"


def read_bpe_model(path: Path) -> dict[str, float]:
    """The scores of a sentencepiece model's pieces. Raises ModelError: it cannot be read, or is not of byte pairs.

    It is a protocol buffer: field 1 of the whole are the pieces, of which 1 is the text and 2 the score, a float; field 2 is the
    trainer's specification, whose 3 says how it was trained, 2 for byte pairs (sentencepiece_model.proto).
    """
    try:
        scores, kind = {}, 1
        for field, value in _fields(path.read_bytes()):
            if field == 1 and isinstance(value, bytes):
                piece = dict(_fields(value))
                text, score = piece[1], piece.get(2, b"\0\0\0\0")
                if isinstance(text, bytes) and isinstance(score, bytes):
                    scores[text.decode()] = float(struct.unpack("<f", score)[0])
            elif field == 2 and isinstance(value, bytes):
                kind = int(dict(_fields(value)).get(3, 1))
    except (OSError, ValueError, KeyError, IndexError, struct.error) as error:
        raise ModelError(
            str(path), f"cannot be read as a sentencepiece model: {reason_of(error)}", "check it with: voicectl models verify"
        ) from None
    if kind != 2:
        raise ModelError(str(path), f"must be of byte pairs (2); its model_type is {kind}", "name another model in models.wake_text")
    return scores


def _fields(data: bytes) -> Iterator[tuple[int, bytes | int]]:
    """Fields of a protocol buffer's message: varints as int, all else as bytes. ValueError or IndexError for what is none."""
    at = 0

    def varint() -> int:
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while at < len(data):
        tag = varint()
        if tag & 7 == 0:
            yield tag >> 3, varint()
            continue
        length = {1: 8, 5: 4}.get(tag & 7) or (varint() if tag & 7 == 2 else -1)
        if not 0 <= length <= len(data) - at:
            raise ValueError(f"no such field at byte {at}")
        yield tag >> 3, data[at : at + length]
        at += length
