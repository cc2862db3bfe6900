"""Where the last of known words ends in a recording: forced alignment, by PocketSphinx and the English model that its wheel brings.

What lives here: the aligner and its answers on disk; of voicectl it alone imports pocketsphinx (the extra `align`). What must not: which
end is believed (true_ends.py). Positions are samples at 16 kHz from the recording's beginning.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.util
import json
from functools import cached_property
from pathlib import Path
from typing import Any

from voiced.api import RATE, ModelError, Samples

from ..extras import install
from .kept import keep
from .scores import normalised
from .sounds import in_noise

_FORM = 1
"""Of the files on disk; another one is computed anew."""
_FRAME = RATE // 100
"""10 ms: PocketSphinx tells words by its frames."""
_BEAM = 1e-60
"""One for phones and words, wider than its own: with the narrower one that it has for words, a right text may come to no end
(cmusphinx/pocketsphinx, pull request 464). An alignment has one path to follow, so the width costs nothing."""
_ROOM_DB = 40.0
"""Noise so far below the speech is added before: the model knows rooms, and in silence that was made it ends a word 30 ms late."""
_NOT_WORDS = ("<", "[")
"""How its silences and noises begin: <sil>, [NOISE], [SPEECH]."""
_UNKNOWN = "unknown-word"
"""Stands for what the dictionary lacks; no normalised word has a hyphen."""
_ANY_SPEECH = "+SPN+"
"""The model's phone for speech that it has no words for, of any length."""


class NotAlignedError(ValueError):
    """Why a recording has no aligned end: in words, of few different ones, for they are counted."""


def installed() -> bool:
    return importlib.util.find_spec("pocketsphinx") is not None


class Aligner:
    """One thread owns it.

    folder  where answers are kept, each for its text and sound; None: nowhere
    """

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder

    def end(self, samples: Samples, text: str) -> int:
        """Where the last word ends. int16 (n,). Raises NotAlignedError, ModelError where it does not load, OutputError."""
        words = normalised(text).split()
        path = self._path(samples, words)
        if path and path.is_file():
            try:
                return _told(json.loads(path.read_text(encoding="utf-8")))
            except NotAlignedError:
                raise
            except (ValueError, KeyError, TypeError):  # cut short
                pass
        answer = self._aligned(samples, words)
        if path:
            keep(path, answer)
        return _told(answer)

    def _path(self, samples: Samples, words: list[str]) -> Path | None:
        if self._folder is None:
            return None
        version = importlib.metadata.version("pocketsphinx")
        about = f"{_FORM} {version} {' '.join(words)} "
        return self._folder / f"{hashlib.sha256(about.encode() + samples.tobytes()).hexdigest()[:32]}.json"

    @cached_property
    def _decoder(self) -> Any:
        """Raises ModelError. bestpath is off, which may end with something of one frame that is not there (pull request 354)."""
        try:
            import pocketsphinx

            decoder = pocketsphinx.Decoder(lm=None, bestpath=False, beam=_BEAM, pbeam=_BEAM, wbeam=_BEAM, loglevel="FATAL")
            decoder.add_word(_UNKNOWN, _ANY_SPEECH)
        except (ImportError, OSError, RuntimeError, ValueError) as error:  # a wheel of another machine, its model cut short
            raise ModelError("pocketsphinx", f"does not load: {error}", install("pocketsphinx")) from error
        return decoder

    def _aligned(self, samples: Samples, words: list[str]) -> dict[str, Any]:
        """{"end": samples} or {"why": words}."""
        decoder = self._decoder
        if not words:
            return {"why": "no words"}
        if decoder.lookup_word(words[-1]) is None:  # any speech would take what comes after it, too
            return {"why": "last word not in the dictionary"}
        known = [_UNKNOWN if decoder.lookup_word(word) is None else word for word in words]
        sound = in_noise(samples, _ROOM_DB, (0,)).tobytes()
        decoder.set_align_text(" ".join(known))
        try:
            decoder.start_utt()
            decoder.process_raw(sound, no_search=False, full_utt=True)
            decoder.end_utt()
        except RuntimeError:
            return {"why": "text does not fit the sound"}
        found = [part for part in decoder.seg() or () if not part.word.startswith(_NOT_WORDS)]
        if len(found) != len(words):  # the search broke off
            return {"why": "text does not fit the sound"}
        return {"end": min((found[-1].end_frame + 1) * _FRAME, len(samples))}


def _told(answer: dict[str, Any]) -> int:
    if "end" not in answer:
        raise NotAlignedError(answer["why"])
    return int(answer["end"])
