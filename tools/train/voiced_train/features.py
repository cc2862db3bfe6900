"""What the encoder hears: filter banks exactly as sherpa-onnx computes them, and the matrix that makes Whisper's log-mel of them.

What lives here: kaldi's filter banks, Whisper's log-mel (written from its definition), the least-squares fit between the two.
What must not: PyTorch, augmentation.

    python -m voiced_train.features MANIFEST --out adapter.npy

One matrix (81, 80) serves because both are logarithms of mel-like energies of the same 25 ms windows; Whisper's levelling to an
utterance's loudest frame is left out, since a stream does not know it.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from voiced.errors import InputError, VoicedError

from .sound import RATE, Sound, at_16k

Frames = NDArray[np.float32]
"""float32 (T, 80), one frame each 10 ms."""

MELS = 80
HOP = RATE // 100
FLOOR = -15.9
"""The logarithm of kaldi's smallest filter-bank energy, 2⁻²³: what digital silence gives."""

_FFT = 400
_SLANEY_LINEAR_HZ, _SLANEY_STEP_HZ, _SLANEY_LOG_STEP = 1000.0, 200 / 3, np.log(6.4) / 27


def read_sound(path: str | Path) -> Sound:
    """Any file libsndfile reads → mono float32 at 16 kHz. Raises InputError."""
    import soundfile

    try:
        sound, rate = soundfile.read(path, dtype="float32", always_2d=True)
    except (OSError, RuntimeError) as error:  # soundfile's own error is a RuntimeError
        raise InputError(str(path), f"cannot be read as sound ({error})") from None
    if not len(sound):
        raise InputError(str(path), "holds no sound")
    mono = np.ascontiguousarray(sound[:, 0])
    if not np.isfinite(mono).all():
        raise InputError(str(path), "holds samples that are no numbers")
    return mono if rate == RATE else at_16k(mono, rate)


def filter_banks(sound: Sound) -> Frames:
    """sherpa-onnx's features for a streaming transducer: logarithms of 80 mel energies from 20 Hz to 7,600 Hz, no dither."""
    import kaldi_native_fbank as kaldi

    options = kaldi.FbankOptions()
    options.frame_opts.samp_freq = RATE
    options.frame_opts.dither = 0
    options.frame_opts.snip_edges = False
    options.mel_opts.num_bins = MELS
    options.mel_opts.low_freq = 20
    options.mel_opts.high_freq = -400
    banks = kaldi.OnlineFbank(options)
    banks.accept_waveform(RATE, sound.tolist())
    banks.input_finished()
    if not banks.num_frames_ready:
        return np.zeros((0, MELS), np.float32)
    frames: Frames = np.stack([banks.get_frame(row) for row in range(banks.num_frames_ready)])
    return frames


def slaney_filters() -> NDArray[np.float32]:
    """(80, 201): the triangles of Slaney's mel scale, each of area one, as Whisper uses them (0 to 8 kHz)."""

    def to_hertz(mel: NDArray[np.float64]) -> NDArray[np.float64]:
        linear_mels = _SLANEY_LINEAR_HZ / _SLANEY_STEP_HZ
        return np.where(mel < linear_mels, mel * _SLANEY_STEP_HZ, _SLANEY_LINEAR_HZ * np.exp(_SLANEY_LOG_STEP * (mel - linear_mels)))

    highest = _SLANEY_LINEAR_HZ / _SLANEY_STEP_HZ + np.log(RATE / 2 / _SLANEY_LINEAR_HZ) / _SLANEY_LOG_STEP
    corners = to_hertz(np.linspace(0, highest, MELS + 2))
    left, centre, right = corners[:-2, None], corners[1:-1, None], corners[2:, None]
    hertz = np.linspace(0, RATE / 2, _FFT // 2 + 1)
    triangles = np.minimum((hertz - left) / (centre - left), (right - hertz) / (right - centre)).clip(min=0)
    return (triangles * 2 / (right - left)).astype(np.float32)


def whisper_log_mel(sound: Sound) -> Frames:
    """Whisper's input for a sound that is levelled to its own loudest frame: (⌊n / 160⌋, 80)."""
    padded = np.pad(sound, _FFT // 2, mode="reflect")
    windows = np.lib.stride_tricks.sliding_window_view(padded, _FFT)[::HOP][: len(sound) // HOP]
    hann = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(_FFT) / _FFT)
    power = np.abs(np.fft.rfft(windows * hann)) ** 2
    logs = np.log10(np.maximum(power @ slaney_filters().T, 1e-10))
    return ((np.maximum(logs, logs.max() - 8) + 4) / 4).astype(np.float32)


def fit(sounds: Iterable[Sound]) -> tuple[NDArray[np.float32], float]:
    """The adapter, float32 (81, 80), and the share of the variance that it explains. Memory follows the length."""
    heard, wanted = [], []
    for sound in sounds:
        banks, mel = filter_banks(sound), whisper_log_mel(sound)
        frames = min(len(banks), len(mel))
        heard.append(np.hstack([banks[:frames], np.ones((frames, 1), np.float32)]).astype(np.float64))
        wanted.append(mel[:frames].astype(np.float64))
    x, y = np.concatenate(heard), np.concatenate(wanted)
    matrix = np.linalg.lstsq(x, y, rcond=None)[0]
    return matrix.astype(np.float32), float(1 - (y - x @ matrix).var() / y.var())


def main(arguments: Sequence[str] | None = None) -> int:
    from .data import Utterance, read

    parser = argparse.ArgumentParser(prog="python -m voiced_train.features", description="Fit filter banks to Whisper's log-mel.")
    parser.add_argument("manifest", type=Path, metavar="MANIFEST")
    parser.add_argument("--out", type=Path, required=True, metavar="FILE")
    parser.add_argument("--count", type=int, default=120, metavar="N", help="recordings to fit on (default: %(default)s)")
    options = parser.parse_args(arguments)
    try:
        utterances = [item for item in read(options.manifest) if isinstance(item, Utterance) and item.seconds < 12]
        if not utterances:
            raise InputError(str(options.manifest), "names no speech to fit on")
        random.Random(0).shuffle(utterances)
        matrix, explained = fit(read_sound(item.path) for item in utterances[: options.count])
        np.save(options.out, matrix)
        print(f"{options.out}: explains {explained:.1%} of the variance")
        return 0
    except VoicedError as error:
        print(f"features: {error}", file=sys.stderr)
        return error.exit_code


if __name__ == "__main__":
    sys.exit(main())
