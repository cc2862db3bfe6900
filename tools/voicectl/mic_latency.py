"""`voicectl mic latency`: how long sound takes from the loudspeaker to a sample that voiced can use. No daemon is needed.

What lives here: the command, and what it makes of the times. What must not: finding a burst in a sound (voiced.api). Exit codes: 0
measured; 1 too few bursts were heard; 2 options; 74 no device that plays or records.

Short bursts are played and heard again. What is measured is the whole way: the output's own delay, which it tells and which is taken off,
the air (3 ms a metre), the microphone, its driver and server, and the wait for a whole block.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import threading
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from voiced.api import UsageError, VoicedError, __version__

from .mic import listening, shared, wanted

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from voiced.api import Burst, Recording

NO = 1
GAP_MS = 600
WITHIN_S = 2.0
"""A burst that is not heard by then was not heard."""

CLEARLY = 1.8
"""A burst's correlation over the greatest elsewhere: noise gives 1.0 to 1.3."""


def arguments(one: argparse.ArgumentParser) -> None:
    """Adds the options of `mic latency`."""
    shared(one)
    one.add_argument("--count", metavar="N", type=int, default=10, help="bursts (10)")


def latency(options: argparse.Namespace) -> int:
    """Plays and hears, and prints percentiles; 1 where fewer than half of the bursts were heard. Raises VoicedError."""
    from voiced.api import Recording

    if not 3 <= options.count <= 1000:
        raise UsageError("--count", f"must be from 3 to 1000; got {options.count}")
    with Recording(wanted(options)[0]) as recording:
        opened = recording.opened
        print(f"{opened.device} ({opened.host}): {opened.rate} Hz; {options.count} bursts are played, be quiet …", file=sys.stderr)
        bursts, sound, ended = _hear(recording, options.count)
    found = [one for burst in bursts if (one := delay_ms(burst, sound, ended, opened.rate)) is not None]
    good = len(found) >= max(3, options.count // 2)
    document: dict[str, Any] = {"voiced": __version__, "device": asdict(opened), "played": len(bursts), "heard": len(found)}
    if found:
        document |= {
            "output_ms": bursts[0].latency_ns / 1e6,
            "p50_ms": statistics.median(found),
            "least_ms": min(found),
            "most_ms": max(found),
        }
    if options.json:
        print(json.dumps(document, ensure_ascii=False))
    elif good:
        print(f"sound to sample: {document['p50_ms']:.0f} ms in the middle ({min(found):.0f} to {max(found):.0f}), of {len(found)} bursts")
        print(f"a block is 40 ms of it, 20 on average; the output's own {document['output_ms']:.0f} ms, as it tells them, are taken off")
    else:
        print(f"{len(found)} of {len(bursts)} bursts were heard: turn the loudspeaker up, bring the microphone nearer, or make it quieter")
    return 0 if good else NO


def _hear(recording: Recording, count: int) -> tuple[list[Burst], NDArray[Any], list[tuple[int, int]]]:
    """All bursts that were played; the sound, mono; and (frames so far, nanoseconds) after each read."""
    import numpy as np
    from voiced.api import play_bursts

    bursts: list[Burst] = []
    failure: list[VoicedError] = []
    over = threading.Event()

    def play() -> None:
        try:
            bursts.extend(play_bursts(count, GAP_MS))
        except VoicedError as error:
            failure.append(error)
        over.set()

    player = threading.Thread(target=play, daemon=True)
    sounds: list[NDArray[Any]] = []
    ended: list[tuple[int, int]] = []
    until = 0
    with listening(recording) as pieces:
        for piece in pieces:
            if not sounds:
                player.start()  # the device gives sound now: nothing of the first burst is missed
            mono = piece.sound.astype(np.float64)
            sounds += [np.zeros(piece.lost), mono[:, int(mono.var(axis=0).argmax())]]
            ended.append((piece.ended, piece.ended_ns))
            if over.is_set():
                until = until or piece.ended + round(WITHIN_S * recording.opened.rate)
                if piece.ended >= until or failure:
                    break
    player.join()
    if failure:
        raise failure[0]
    return bursts, np.concatenate(sounds), ended


def delay_ms(burst: Burst, sound: NDArray[Any], ended: list[tuple[int, int]], rate: int) -> float | None:
    """From the air to the read that gave the burst's first sample; None where it was not heard clearly."""
    import numpy as np
    from voiced.api import burst_samples, place_of

    left_ns = burst.given_ns + burst.latency_ns
    first = next((frames for frames, at in ended if at >= burst.given_ns), None)
    if first is None:
        return None
    start = max(0, first - rate // 5)
    part = sound[start : start + round(min(WITHIN_S, GAP_MS / 1000) * rate)]
    wave = np.array(burst_samples(rate))
    if len(part) < 2 * len(wave):
        return None
    place, clearly = place_of(wave, part)
    if clearly < CLEARLY:
        return None
    read_ns = next((at for frames, at in ended if frames > start + place), None)
    return None if read_ns is None else (read_ns - left_ns) / 1e6
