"""A process that plays short bursts on the default output and says when: to measure how long sound takes to become a sample.

What lives here: the burst, as numbers, and playing it. What must not: hearing it (soundcheck.place_of). No NumPy.
"""

from __future__ import annotations

import array
import contextlib
import math
import random
import time
from collections.abc import Sequence

from ..errors import DeviceError
from ..wire import Link
from .soundcard import SoundCard

BURST_MS = 40
_PART = 0.5  # of full scale
_LOW_HZ, _HIGH_HZ = 800.0, 3600.0  # what a small speaker gives and a headset of 8 kHz hears
_CHUNK_MS = 10


def burst(rate: int) -> list[float]:
    """A chirp in a Hann window, -1..1: of all sounds the one whose place is found best."""
    count = rate * BURST_MS // 1000
    seconds = count / rate
    return [
        math.sin(2 * math.pi * (_LOW_HZ * at / rate + (_HIGH_HZ - _LOW_HZ) * (at / rate) ** 2 / (2 * seconds)))
        * (0.5 - 0.5 * math.cos(2 * math.pi * at / count))
        for at in range(count)
    ]


def pauses(count: int, gap_ms: int, seed: int = 1) -> list[int]:
    """Milliseconds before each burst: never the same twice, or a block's length would hide a part of the time."""
    return [gap_ms + random.Random(seed + at).randrange(0, 100, _CHUNK_MS) for at in range(count)]


def _samples(values: Sequence[float]) -> bytes:
    return array.array("h", [round(32767 * _PART * value) for value in values]).tobytes()


def bursts_main(fd: int) -> int:
    """From main: {"count", "gap_ms"}; to main: {"played": [given_ns, latency_ns]} at each, or {"failed": {"error"}}."""
    with contextlib.closing(Link.from_fd(fd)) as link:
        try:
            first = link.receive()
            assert first is not None  # without a timeout there is a message or EOFError
            rate, chunk = 48_000, 48_000 * _CHUNK_MS // 1000
            with SoundCard().output(rate, chunk) as (write, latency_s):
                for pause in pauses(first.body["count"], first.body["gap_ms"]):
                    for _ in range(pause // _CHUNK_MS):
                        write(bytes(2 * chunk))
                    given_ns = time.monotonic_ns()
                    sound = _samples(burst(rate))
                    for at in range(0, len(sound), 2 * chunk):
                        write(sound[at : at + 2 * chunk])
                    link.send_all({"played": [given_ns, round(latency_s * 1e9)]})
                for _ in range(1000 // _CHUNK_MS):  # a server that is left at once does not play what it has
                    write(bytes(2 * chunk))
        except EOFError:
            return 0
        except DeviceError as error:
            link.send_all({"failed": {"error": str(error)}})
            return error.exit_code
    return 0
