"""Where a recording's speech truly ends, and who says so.

What lives here: the rule by which one of several is believed, and how many were of each. What must not: how an end is found (alignment.py,
sounds.py), whether the synthesizer knew it (endpoint_queries.synthetic). Positions are samples at 16 kHz.

The manifest's labels are believed first, then forced alignment of its text, then the ear: the last 10 ms that stand out of the quiet near
where the VAD lets go (sounds.speech_bounds). An alignment is right or far off, so it is held against the ear: where they are AGREE apart
the ear is believed. If the sound goes on, more is said than the text has (a name that is said and then spelled), or breath and noise follow
that the VAD takes for speech; if it ended long before, a word was stretched over the quiet because the text is not what was said. Either
way an endpointer is judged by what it can hear.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from voiced.api import Samples, to_samples

from .alignment import Aligner, NotAlignedError
from .clips import Clip

AGREE = to_samples(300)
"""Twice what they are apart where both are right: down to speech 20 dB above the noise, 160 ms at the most in 384 of 385 sentences whose
synthesizer knew the end (`voicectl endpoint eval --ends` prints the like)."""

SYNTHESIZER, LABELS, ALIGNMENT, EAR = "synthesizer", "labels", "alignment", "ear"
"""Who knows an end, the surest first."""

NO_ALIGNER = "pocketsphinx is not installed"


@dataclass(frozen=True, slots=True)
class TrueEnd:
    """`by` one of the above; `why` it is by ear, "" where it is not."""

    sample: int
    by: str
    why: str = ""


def true_end(clip: Clip, samples: Samples, heard: int, aligner: Aligner | None) -> TrueEnd:
    """heard    the end by ear
    aligner  None where PocketSphinx is not installed
    """
    if clip.speech_end is not None:
        return TrueEnd(min(clip.speech_end, len(samples)), LABELS)
    if clip.text is None:
        return TrueEnd(heard, EAR, "no text")
    if aligner is None:
        return TrueEnd(heard, EAR, NO_ALIGNER)
    try:
        return believed(aligner.end(samples, clip.text), heard)
    except NotAlignedError as error:
        return TrueEnd(heard, EAR, str(error))


def believed(aligned: int, heard: int) -> TrueEnd:
    """Of an end by alignment and one by ear."""
    if heard - aligned > AGREE:
        return TrueEnd(heard, EAR, "speech goes on after the text")
    if aligned - heard > AGREE:
        return TrueEnd(heard, EAR, "last word stretched over quiet")
    return TrueEnd(aligned, ALIGNMENT)


def counts(ends: Iterable[TrueEnd]) -> dict[str, int]:
    """How many by each, the surest first; of the ear, with the reason: "ear: no text"."""
    found = Counter(f"{end.by}: {end.why}" if end.why else end.by for end in ends)
    order = (SYNTHESIZER, LABELS, ALIGNMENT, EAR)
    return dict(sorted(found.items(), key=lambda item: (order.index(item[0].partition(":")[0]), -item[1])))
