"""When does a query end.

What lives here: rules, tried in order, over counts that are handed in. What must not: a clock, sound, a model. All counts
are samples at 16 kHz; settings come in milliseconds and are turned into samples once, in the constructor.
"""

from __future__ import annotations

from dataclasses import dataclass

from .events import CloseReason
from .units import HARD_CAP_MS, to_samples

TOKEN_GRACE_MS = 320
"""Speech that goes on longer than this after an end token takes it back. Less would be wrong: a VAD lets go 100 to 200 ms
after the sound, and a token from a model with look-ahead may come a frame before the last."""


@dataclass(frozen=True, slots=True)
class Counts:
    """What the endpointer decides by.

    since_start        samples since the turn began
    since_speech       samples of silence since the last speech; 0 while there is speech; None when there was none yet
    speaking           a burst is going on, which may become speech or turn out too short to be any
    has_text           the first pass has at least one word
    since_token        samples since the end token's frame; None without one, or when a word followed it
    speech_after_token samples from the token's frame to the end of the last speech
    token_log_probability  natural logarithm, at most 0
    """

    since_start: int
    since_speech: int | None = None
    speaking: bool = False
    has_text: bool = False
    since_token: int | None = None
    speech_after_token: int = 0
    token_log_probability: float = 0.0


class Endpointer:
    """Stateless: the same counts give the same answer."""

    def __init__(
        self,
        *,
        token_threshold: float,
        token_silence_ms: float,
        silence_ms: float,
        no_text_ms: float,
        no_speech_ms: float,
        too_long_ms: float,
    ) -> None:
        self._token_threshold = token_threshold
        self._token_silence = to_samples(token_silence_ms)
        self._token_grace = to_samples(TOKEN_GRACE_MS)
        self._silence = to_samples(silence_ms)
        self._no_text = to_samples(no_text_ms)
        self._no_speech = to_samples(no_speech_ms)
        self._too_long = to_samples(min(too_long_ms, HARD_CAP_MS))

    def decide(self, counts: Counts) -> CloseReason | None:
        """Why the turn ends now, or None: it goes on."""
        silence = counts.since_speech
        if (
            counts.since_token is not None
            and counts.has_text
            and counts.token_log_probability >= self._token_threshold
            and counts.speech_after_token <= self._token_grace
            and min(counts.since_token, counts.since_start if silence is None else silence) >= self._token_silence
        ):
            return CloseReason.END_TOKEN
        if silence is not None:
            if counts.has_text and silence >= self._silence:
                return CloseReason.SILENCE
            if not counts.has_text and silence >= self._no_text:
                return CloseReason.NO_TEXT
        elif counts.since_start >= self._no_speech and not counts.speaking:
            # words without a VAD that agrees: a whisper, or words that noise made; the silence rule cannot fire for them
            return CloseReason.SILENCE if counts.has_text else CloseReason.NO_SPEECH
        if counts.since_start >= self._too_long:
            return CloseReason.TOO_LONG
        return None
