"""The rate that a lane counts by, milliseconds into samples and back, counts in words. No NumPy: the main process counts samples too."""

RATE = 16_000
"""Samples a second inside a lane, whatever the device gives."""

HARD_CAP_MS = 30_000
"""No turn is longer, whatever the settings say: the second pass's memory follows it (334 MB at 30 s), the starter
transducer's position code wraps there, and a radio never stops."""


def to_samples(milliseconds: float) -> int:
    """Milliseconds to samples, rounded to the nearest: call it once, in a constructor."""
    return round(milliseconds * RATE / 1000)


def to_ms(samples: int) -> float:
    """Samples to milliseconds, for people and for the log."""
    return samples * 1000 / RATE


def counted(count: int, what: str) -> str:
    """For people: "1 lane", "2 lanes"."""
    return f"{count} {what}{'s' * (count != 1)}"
