"""How a turn is judged, and how often what came of it: the records that stand beside the machine (turn.py).

What lives here: what a reload may change of it, and its counts. What must not: what they mean for a turn.
"""

from __future__ import annotations

from dataclasses import dataclass

from .endpoint import Endpointer


@dataclass(frozen=True, slots=True)
class TurnRules:
    """How a turn is judged: all of the machine that a reload may change.

    end_token      an end token counts
    foresight      and is asked for ahead of the silence that it needs
    open_ends      an English text that ends open is waited for
    turn_detector  there is one to be asked
    second_pass    finished turns are rewritten
    speculative    from the first sign of an end on
    guard          what it writes is believed only where it can be (guard.py)
    """

    endpointer: Endpointer
    vad_on: float
    vad_off: float
    vad_hop: int
    min_speech_ms: float
    lead_pad_ms: float
    tail_pad_ms: float
    end_token: bool
    foresight: bool
    open_ends: bool
    turn_detector: bool
    second_pass: bool
    speculative: bool
    guard: bool


@dataclass(frozen=True, slots=True)
class TurnStatistics:
    turns: int
    likely_ends: int
    resumed: int
    """Likely ends after which the speaker went on."""
    rewrites: int
    foreseen: int
    """End tokens that would come if silence went on."""
    speculated: int
    """Finals whose rewrite had begun before their turn closed."""
    wasted: int
    """Rewrites that were dropped."""
    flicker: int
    """Times that a first pass took back what a partial had called stable."""
