"""How a recognizer that answered a question about silence comes back to the sound that goes on.

What lives here: which part of a turn's sound is heard again at which step, in samples alone. What must not: a stream, a model. The daemon's
transducer and the replay of `voicectl endpoint eval` keep the same pace by it.
"""

from __future__ import annotations

from dataclasses import dataclass

STEP_CHUNKS = 2
"""That a step may catch up with: its own 32 ms of sound cost a tenth of one. Five seconds are caught up with in a pause of 288 ms."""

REST_MS = 320
"""Of sound to come first, where an end was foreseen: until then the turn is likely to close, and what has begun would only delay that."""


@dataclass(slots=True)
class CatchingUp:
    """late  samples that wait to be heard; rest  samples that are to come first; pace  samples that a step takes at the most"""

    late: int
    rest: int
    pace: int

    def step(self, samples: int) -> int:
        """So many more have come. Returns how many are heard now, of those that wait."""
        self.late += samples
        self.rest -= samples
        heard = 0 if self.rest > 0 else min(self.late, self.pace)
        self.late -= heard
        return heard
