"""What a microphone's rate costs in words: the rows R* of the collected cases that need a recognizer."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import jiwer
import numpy as np
import pytest
from sounds import sound
from voiced.audio import Samples
from voiced.models import Library
from voiced.sources.blocks import Block
from voiced.sources.microphone import Converter
from voiced.stages.second_pass import SecondPass
from voiced.units import RATE

CLIPS = 60


def words(text: str) -> str:
    return " ".join("".join(letter for letter in text.lower() if letter.isalpha() or letter in " '").split())


@pytest.fixture(scope="module")
def read(data_dir: Path) -> list[tuple[Samples, str]]:
    """Sixty sentences, read by many speakers, and what they say."""
    rows = [json.loads(line) for line in (data_dir / "manifest.jsonl").read_text(encoding="utf-8").splitlines()]
    fit = [row for row in rows if row["source"] == "librispeech-samples" and row.get("text") and 2 < row["seconds"] < 9]
    assert len(fit) >= CLIPS
    chosen = fit[:: len(fit) // CLIPS][:CLIPS]
    return [(sound(data_dir / row["path"]), words(row["text"])) for row in chosen]


def through(samples: Samples, rate: int) -> Samples:
    """The same sound, as a device of this rate and two channels gives it, the first one dead, and as a lane hears that."""
    wide = _upsampled(samples.tobytes(), rate)
    pair = np.stack([np.zeros(len(wide), np.int16), wide], axis=1)
    converter, size, heard = Converter("auto"), rate // 25, []
    for first in range(0, len(pair), size):
        part = pair[first : first + size]
        ended_ns = (first + len(part)) * 1_000_000_000 // rate
        heard += converter.feed(Block(ended_ns, first, rate, 2, part.tobytes()))
    last = Block(ended_ns + 1_000_000_000, 0, RATE, 1, b"\0\0")
    heard += converter.feed(last, fresh=True)[:-1]  # lets out what the filter holds
    assert converter.channel == 0  # of the last block, which has only one
    return np.concatenate([frame.samples for frame in heard])


@cache
def _upsampled(data: bytes, rate: int) -> Samples:
    """From 16 kHz up: nothing is lost, and the way back is what is tried."""
    import soxr

    up = soxr.resample(np.frombuffer(data, np.int16).astype(np.float64), RATE, rate, quality="VHQ")
    found: Samples = np.clip(np.rint(up), -32768, 32767).astype(np.int16)
    return found


@pytest.mark.slow
def test_words_survive_every_rate(library: Library, read: list[tuple[Samples, str]]) -> None:
    """CASES R6, and 44,100 and 48,000: the second pass's word error rate is at most one per cent above that at the original 16,000."""
    found = library.find("moonshine-tiny-en")
    stage = SecondPass(found.model.kind, found.files, provider="cpu")
    stage.warm_up()
    truth = [text for _, text in read]
    bare = jiwer.wer(truth, [words(stage.decode(samples)) for samples, _ in read])
    assert bare < 0.2
    rates = {
        rate: jiwer.wer(truth, [words(stage.decode(through(samples, rate))) for samples, _ in read]) for rate in (24_000, 44_100, 48_000)
    }
    print(f"word error rate: {bare:.4f} at 16000 Hz", *(f"{wer:.4f} at {rate}" for rate, wer in rates.items()), sep=", ")
    assert all(wer - bare <= 0.01 for wer in rates.values()), (bare, rates)


@pytest.mark.parametrize("rate", [24_000, 44_100, 48_000])
def test_the_sound_survives_every_rate(sample: Samples, rate: int) -> None:
    """CASES R6, without a recognizer: the whole recording comes back, 50 dB and more above what the way has added."""
    back = through(sample, rate)
    assert abs(len(back) - len(sample)) <= 1
    count = min(len(back), len(sample))
    voice = sample[:count].astype(np.float64)
    spectrum = np.fft.rfft(voice - back[:count])
    below = spectrum[: int(7_000 * count / RATE)]  # the filters' own edges are above
    added = np.sqrt(2 * np.sum(np.abs(below) ** 2)) / count
    assert 20 * np.log10(np.sqrt(np.mean(voice**2)) / added) > 50
