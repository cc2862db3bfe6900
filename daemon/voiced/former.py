"""Keys of older settings files, and what became of them.

What lives here: one table. What must not: how a file is read (yamlread.py). A key that is renamed or taken out gets a line here, so that
whoever upgrades is told the new name instead of the nearest one.
"""

from __future__ import annotations

import re

FORMER = {
    "wake.min_speech": "wake.verify_speech, in windows of 32 ms",
    "vad.pad_ms": "second_pass.lead_pad_ms and second_pass.tail_pad_ms",
    "vad.min_silence_ms": "",
}
"""Former key to what it is called now; "" where nothing took its place. Of a list's entries without the number: `lanes.name`."""


def now(key: str) -> str | None:
    """What to do about a former key, in words; None for a key that never was."""
    name = FORMER.get(re.sub(r"\[\d+\]", "", key))
    if name is None:
        return None
    return f"it is {name} now" if name else "nothing took its place: take the line out"
