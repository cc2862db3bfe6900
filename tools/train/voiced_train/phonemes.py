"""English text → phonemes, by espeak-ng.

What lives here: the one use of the espeak-ng library (GPL-3: a tool for making recordings, never a part of the daemon) and
the spelling of its phonemes that Kokoro was trained with. What must not: sound.
"""

from __future__ import annotations

import ctypes
import re
from pathlib import Path

from voiced.errors import ModelError

_UTF8 = 1
_IPA = 0x02
_SYNCHRONOUS = 0x02
_DONT_EXIT = 0x8000  # espeak-ng ends the process where its data is missing, unless told not to

_PAUSES = re.compile(r"([,.!?;:—…]+)\s*")

_MARKS = re.compile(r"\([a-z]{2,3}(?:-[a-z]+)*\)|[͜͡^_\-]")
"""What espeak-ng puts between phonemes: changes of language, ties, separators."""

# Kokoro spells diphthongs and affricates with one letter each (hexgrad/misaki, EN_PHONES.md); longest first.
_SHARED = (("dʒ", "ʤ"), ("tʃ", "ʧ"), ("eɪ", "A"), ("aɪ", "I"), ("aʊ", "W"), ("ɔɪ", "Y"), ("n̩", "ən"), ("l̩", "ᵊl"), ("ʲ", ""),
           ("əl", "ᵊl"), ("ɚ", "əɹ"), ("ɐ", "ə"), ("ç", "k"), ("x", "k"), ("ɬ", "l"), ("r", "ɹ"), ("ʔ", "t"), ("̃", ""))  # fmt: skip
_AMERICAN = (("oʊ", "O"), ("ɜːɹ", "ɜɹ"), ("ɜː", "ɜɹ"), ("ɪə", "iə"), ("ɾ", "T"), ("ː", ""), ("o", "ɔ"), ("e", "A"), ("ɒ", "ɔ"))
_BRITISH = (("əʊ", "Q"), ("oʊ", "Q"), ("eə", "ɛː"), ("iə", "ɪə"), ("ɾ", "t"), ("e", "ɛ"), ("o", "ɔ"))


class Phonemizer:
    """Text → IPA with stress marks and the text's own punctuation. One thread; one a process (the library has one state)."""

    def __init__(self, library: Path | str, data: Path | None) -> None:
        """`data` is the folder that holds espeak-ng-data; None for the library's own. Raises ModelError."""
        try:
            self._espeak = ctypes.CDLL(str(library))
        except OSError as error:
            raise ModelError(str(library), f"espeak-ng does not load ({error})", "apt install libespeak-ng1") from None
        path = str(data).encode() if data else None
        if self._espeak.espeak_Initialize(_SYNCHRONOUS, 0, path, _DONT_EXIT) <= 0:  # else its sample rate
            raise ModelError(str(data or library), "espeak-ng finds no data there", "apt install espeak-ng-data")
        self._espeak.espeak_TextToPhonemes.restype = ctypes.c_char_p
        self._accent = ""

    def __call__(self, text: str, accent: str = "en-us") -> str:
        """`accent` is an espeak-ng voice: en-us or en-gb-x-rp."""
        if accent != self._accent:
            if self._espeak.espeak_SetVoiceByName(accent.encode()):
                raise ModelError("espeak-ng", f"has no voice {accent!r}", "install espeak-ng-data whole")
            self._accent = accent
        pieces = _PAUSES.split(text)  # text, marks, text, marks, … text: espeak-ng itself drops the marks
        spoken = [self._clause(piece) if i % 2 == 0 else piece + " " for i, piece in enumerate(pieces)]
        return "".join(spoken).strip()

    def _clause(self, text: str) -> str:
        rest = ctypes.c_char_p(text.encode())
        words = []
        while rest.value:  # the library takes a clause a call, and sets the pointer to NULL after the last
            words.append(self._espeak.espeak_TextToPhonemes(ctypes.byref(rest), _UTF8, _IPA).decode())
        return _MARKS.sub("", " ".join(filter(None, words))).strip()


def kokoro_spelling(ipa: str, accent: str = "en-us") -> str:
    """espeak-ng's IPA in the letters that Kokoro knows."""
    for before, after in _SHARED + (_BRITISH if accent == "en-gb-x-rp" else _AMERICAN):
        ipa = ipa.replace(before, after)
    return ipa
