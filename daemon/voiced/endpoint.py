"""When does a query end, and what is the first sign of it.

What lives here: rules, tried in order, over counts that are handed in. What must not: a clock, sound, a model. All counts
are samples at 16 kHz; settings come in milliseconds and are turned into samples once, in the constructor.

Three things speak for an end: silence, the recognizer's end token (or a turn detector, for a recognizer that has none), and a text that
does not end open. A token that stands against an open text ("set a timer for") proves neither: then the usual silence decides.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from .events import CloseReason, EndSign
from .units import HARD_CAP_MS, to_ms, to_samples

TOKEN_GRACE_MS = 320
"""Speech that goes on longer than this after an end token takes it back. Less would be wrong: a VAD lets go 100 to 200 ms
after the sound, and a token from a model with look-ahead may come a frame before the last."""

WORTH_MS = 200
"""Speech without a text yet that is worth a second pass before the turn has closed. A cough is shorter; a short word waits for its text."""

SCORE_MARKS_MS = (200, 500, 1200)
"""Silence since speech at which a turn detector is asked: it may be wrong early, and an unsure answer is worth another look later."""


@dataclass(frozen=True, slots=True)
class Counts:
    """What the endpointer decides by.

    since_start        samples since the turn began
    since_speech       samples of silence since the last speech; 0 while there is speech; None when there was none yet
    speaking           a burst is going on, which may become speech or turn out too short to be any
    speech             samples from the first speech to the end of the last
    words              of the first pass so far
    ends_open          its text wants to go on (wording.ends_open)
    since_token        samples since the end token's frame; None without one, or when a word followed it
    speech_after_token samples from the token's frame to the end of the last speech
    token_log_probability  natural logarithm, at most 0
    foreseen           logarithm of the probability of an end token that would come if silence went on; None: none would
    since_foreseen     samples since that token's frame; negative: it lies ahead
    turn_score         a turn detector's probability that the turn is over, if no speech came after what it heard; else None
    """

    since_start: int
    since_speech: int | None = None
    speaking: bool = False
    speech: int = 0
    words: int = 0
    ends_open: bool = False
    since_token: int | None = None
    speech_after_token: int = 0
    token_log_probability: float = 0.0
    foreseen: float | None = None
    since_foreseen: int = 0
    turn_score: float | None = None


@dataclass(frozen=True, slots=True)
class Decision:
    """Why a turn ends now (`reason` None: it goes on), and by how much.

    rule     the row that decided, "" where none did
    margins  of each row that these counts could meet, `<row>_ms`: milliseconds beyond its limit, negative: still missing; besides, how far
             above its threshold a token's `token_log_probability`, that of a foreseen one, `foreseen`, and a detector's `turn_score` is
    """

    reason: CloseReason | None
    rule: str
    margins: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class _Limits:
    """Thresholds as they are, spans in samples."""

    token_threshold: float
    turn_detector_threshold: float
    token_silence: int
    foreseen_silence: int
    silence_complete: int
    silence: int
    silence_open: int
    no_text: int
    no_speech: int
    too_long: int
    likely_end: int
    token_grace: int = to_samples(TOKEN_GRACE_MS)
    hard_cap: int = to_samples(HARD_CAP_MS)
    worth: int = to_samples(WORTH_MS)


# ── what the counts say ────────────────────────────────────────────────────────────────────────────────────────────────


def _token_stands(c: Counts, limits: _Limits) -> bool:
    """The model called this text complete, with whatever probability, and no speech has taken it back."""
    return c.words > 0 and c.since_token is not None and c.speech_after_token <= limits.token_grace


def _token_counts(c: Counts, limits: _Limits) -> bool:
    return _token_stands(c, limits) and c.token_log_probability >= limits.token_threshold and not c.ends_open


def _detected(c: Counts, limits: _Limits) -> bool:
    heard = c.words > 0 and c.since_speech is not None and c.turn_score is not None
    return heard and c.turn_score is not None and c.turn_score >= limits.turn_detector_threshold


def _silence(c: Counts) -> int:
    """Where the VAD heard nothing (a whisper), all is silence; a burst that may become speech is none."""
    if c.speaking:
        return 0
    return c.since_start if c.since_speech is None else c.since_speech


# ── the rules: samples beyond a row's limit, None where the counts are none of its business ────────────────────────────


def _end_token(c: Counts, limits: _Limits) -> int | None:
    if not _token_counts(c, limits) or c.since_token is None:
        return None
    return min(c.since_token, _silence(c)) - limits.token_silence


def _foreseen(c: Counts, limits: _Limits) -> bool:
    """The model would call this text complete once it had heard the silence that it has not heard yet. Where it would wait longer for its
    token, it is less sure: no turn ends before that frame."""
    return c.foreseen is not None and c.foreseen >= limits.token_threshold and not c.ends_open and not c.speaking


def _foreseen_token(c: Counts, limits: _Limits) -> int | None:
    return min(c.since_foreseen, _silence(c) - limits.foreseen_silence) if _foreseen(c, limits) else None


def _turn_detector(c: Counts, limits: _Limits) -> int | None:
    return 0 if _detected(c, limits) and not c.ends_open and not c.speaking else None


def _silent(row: str, c: Counts, limits: _Limits) -> int | None:
    if c.since_speech is None or not c.words:
        return None
    token = _token_stands(c, limits) or c.foreseen is not None
    with_sign, without = ("silence", "silence_open") if c.ends_open else ("silence_complete", "silence")
    wanted = with_sign if token or (c.ends_open and _detected(c, limits)) else without
    limit: int = getattr(limits, wanted)
    return c.since_speech - limit if row == wanted else None


def _no_text(c: Counts, limits: _Limits) -> int | None:
    return None if c.since_speech is None or c.words else c.since_speech - limits.no_text


def _no_speech(c: Counts, limits: _Limits) -> int | None:
    return None if c.since_speech is not None or c.speaking else c.since_start - limits.no_speech


def _where(wanted: bool, beyond: int | None) -> int | None:
    return beyond if wanted else None


@dataclass(frozen=True, slots=True)
class Rule:
    """A row. `beyond` gives samples: 0 and more ends the turn."""

    name: str
    reason: CloseReason
    beyond: Callable[[Counts, _Limits], int | None]


RULES = (
    Rule("end_token", CloseReason.END_TOKEN, _end_token),
    Rule("foreseen_token", CloseReason.END_TOKEN, _foreseen_token),
    Rule("turn_detector", CloseReason.TURN_DETECTOR, _turn_detector),
    Rule("silence_complete", CloseReason.SILENCE, lambda c, limits: _silent("silence_complete", c, limits)),
    Rule("silence", CloseReason.SILENCE, lambda c, limits: _silent("silence", c, limits)),
    Rule("silence_open", CloseReason.SILENCE, lambda c, limits: _silent("silence_open", c, limits)),
    Rule("no_text", CloseReason.NO_TEXT, _no_text),
    # words without a VAD that agrees: a whisper, or words that noise made; the rules of silence cannot fire for them
    Rule("no_speech_but_words", CloseReason.SILENCE, lambda c, limits: _where(c.words > 0, _no_speech(c, limits))),
    Rule("no_speech", CloseReason.NO_SPEECH, lambda c, limits: _where(c.words == 0, _no_speech(c, limits))),
    Rule("too_long", CloseReason.TOO_LONG, lambda c, limits: c.since_start - limits.too_long),
    Rule("hard_cap", CloseReason.TOO_LONG, lambda c, limits: c.since_start - limits.hard_cap),
)
"""The first row that is met says why; the last is met by every turn that goes on for long enough, whatever the settings are."""


class Endpointer:
    """Stateless: the same counts give the same answer."""

    def __init__(
        self,
        *,
        token_threshold: float,
        token_silence_ms: float,
        foreseen_silence_ms: float,
        silence_complete_ms: float,
        silence_ms: float,
        silence_open_ms: float,
        no_text_ms: float,
        no_speech_ms: float,
        too_long_ms: float,
        likely_end_ms: float,
        turn_detector_threshold: float,
    ) -> None:
        self._limits = _Limits(
            token_threshold=token_threshold,
            turn_detector_threshold=turn_detector_threshold,
            token_silence=to_samples(token_silence_ms),
            foreseen_silence=to_samples(foreseen_silence_ms),
            silence_complete=to_samples(silence_complete_ms),
            silence=to_samples(silence_ms),
            silence_open=to_samples(silence_open_ms),
            no_text=to_samples(no_text_ms),
            no_speech=to_samples(no_speech_ms),
            too_long=to_samples(too_long_ms),
            likely_end=to_samples(likely_end_ms),
        )

    def decide(self, counts: Counts) -> Decision:
        beyond = {rule.name: rule.beyond(counts, self._limits) for rule in RULES}
        met = next((rule for rule in RULES if (by := beyond[rule.name]) is not None and by >= 0), None)
        margins = {f"{name}_ms": to_ms(by) for name, by in beyond.items() if by is not None}
        if counts.since_token is not None:
            margins["token_log_probability"] = counts.token_log_probability - self._limits.token_threshold
        if counts.foreseen is not None:
            margins["foreseen"] = counts.foreseen - self._limits.token_threshold
        if counts.turn_score is not None:
            margins["turn_score"] = counts.turn_score - self._limits.turn_detector_threshold
        return Decision(met.reason, met.name, margins) if met else Decision(None, "", margins)

    def first_sign(self, counts: Counts) -> EndSign | None:
        """What says that the turn may be over, long before `decide` does; None where nothing does or too little was said."""
        if _token_counts(counts, self._limits) and _silence(counts) > 0 and not counts.speaking:
            return EndSign.END_TOKEN
        if counts.since_speech is None or counts.since_speech < self._limits.likely_end:
            return None
        return EndSign.SILENCE if counts.words or counts.speech >= self._limits.worth else None
