"""Audio files: what is valid is converted, what is broken gets one line."""

from __future__ import annotations

import os
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from voiced.errors import InputError
from voiced.sources import wavfile
from voiced.sources.wavfile import WavSource, read_audio
from voiced.units import RATE


def tone(frequency: float, rate: int, seconds: float = 1.0, level: float = 0.5) -> Any:
    return level * np.sin(2 * np.pi * frequency * np.arange(round(rate * seconds)) / rate)


def noise(count: int) -> Any:
    return np.random.default_rng(1).integers(-32768, 32768, count, dtype=np.int16)


def write(path: Path, samples: Any, rate: int = RATE, **kwargs: Any) -> Path:
    soundfile.write(path, samples, rate, **kwargs)
    return path


def level_db(samples: Any) -> float:
    """RMS of the middle, dB below full scale: a resampler's ends are its own."""
    middle = samples[len(samples) // 4 : -len(samples) // 4].astype(np.float64) / 32768
    return float(10 * np.log10(np.mean(middle**2) + 1e-20))


def refused(path: Path) -> str:
    with pytest.raises(InputError) as caught:
        read_audio(path)
    line = str(caught.value)
    assert caught.value.exit_code == 65
    assert "\n" not in line
    return line.removeprefix(f"{path}: ")


# ── what is valid ──────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("form", ["WAV", "FLAC", "WAVEX", "RF64", "AIFF", "W64"])
def test_sixteen_bits_at_16_khz_come_out_bit_for_bit(tmp_path: Path, form: str) -> None:
    sound = noise(40_000)
    samples, note = read_audio(write(tmp_path / "x", sound, format=form, subtype="PCM_16"))
    assert samples.dtype == np.int16
    assert not samples.flags.writeable
    np.testing.assert_array_equal(samples, sound)
    assert (note.rate, note.channels, note.remarks) == (RATE, 1, ())


@pytest.mark.parametrize("rate", [4_000, 8_000, 11_025, 16_000, 22_050, 44_100, 48_000, 96_000, 192_000])
@pytest.mark.parametrize("subtype", ["PCM_U8", "PCM_16", "PCM_24", "PCM_32", "FLOAT", "DOUBLE", "ULAW"])
def test_any_rate_and_width_keep_the_tone(tmp_path: Path, rate: int, subtype: str) -> None:
    samples, note = read_audio(write(tmp_path / "x.wav", tone(1000, rate), rate, subtype=subtype))
    assert abs(len(samples) - RATE) <= 1
    spectrum = np.abs(np.fft.rfft(samples * np.hanning(len(samples)), 8 * RATE))
    assert abs(np.argmax(spectrum) / 8 - 1000) <= 1
    assert abs(level_db(samples) - 20 * np.log10(0.5 / np.sqrt(2))) < 0.5
    assert note.rate == rate


@pytest.mark.parametrize("rate", [44_100, 48_000])
def test_what_16_khz_cannot_hold_is_gone(tmp_path: Path, rate: int) -> None:
    before = tone(10_000, rate)
    samples, _ = read_audio(write(tmp_path / "x.wav", before, rate, subtype="FLOAT"))
    assert level_db(samples) < 20 * np.log10(0.5 / np.sqrt(2)) - 60


def test_channels_are_mixed(tmp_path: Path) -> None:
    left, right = noise(5000) // 2, noise(10_000)[5000:] // 2
    samples, note = read_audio(write(tmp_path / "x.wav", np.stack((left, right), axis=1)))
    assert np.abs(samples - (left.astype(int) + right) / 2).max() <= 0.5
    assert note.channels == 2
    samples, note = read_audio(write(tmp_path / "y.wav", np.repeat(left[:, None], 6, axis=1)))
    np.testing.assert_array_equal(samples, left)


def test_ogg_is_read(tmp_path: Path) -> None:
    samples, note = read_audio(write(tmp_path / "x.ogg", tone(1000, 22_050), 22_050))
    assert abs(len(samples) - RATE) <= 1
    assert note.format == "OGG VORBIS"


@pytest.mark.parametrize("kept", [0.5, 0.9, 0.999])
def test_an_ogg_without_its_end_says_so(tmp_path: Path, kept: float) -> None:
    """Its head promises no length, so what is there is read."""
    path = write(tmp_path / "x.ogg", noise(100_000) // 4)
    assert read_audio(path)[1].remarks == ()
    data = path.read_bytes()
    path.write_bytes(data[: int(len(data) * kept)])
    samples, note = read_audio(path)
    assert 0 < len(samples) < 100_000
    assert note.remarks == ("its last page is missing or cut: sound after what was read is lost",)


def test_floats_beyond_full_scale_are_clipped_and_counted(tmp_path: Path) -> None:
    samples, note = read_audio(write(tmp_path / "x.wav", np.array([0.0, 1.5, -1.5, 0.5]), subtype="FLOAT"))
    assert samples.tolist() == [0, 32767, -32768, 16384]
    assert note.remarks == ("2 samples were beyond full scale and are clipped",)


def test_a_name_does_not_decide_what_a_file_is(tmp_path: Path) -> None:
    path = write(tmp_path / "x.wav", noise(100))
    np.testing.assert_array_equal(read_audio(path.rename(tmp_path / "x.raw"))[0], noise(100))


# ── headers that lie ───────────────────────────────────────────────────────────────────────────────────────────────────


def relabel(path: Path, length: int, more: bytes = b"") -> Path:
    """Writes another length of the sound into a WAV's header (44 bytes)."""
    data = path.read_bytes()
    assert data[36:40] == b"data"
    path.write_bytes(data[:40] + struct.pack("<I", length) + data[44:] + more)
    return path


@pytest.mark.parametrize("length", [0, 0xFFFF_FFFF, 0x7FFF_F000, 0xFFFF_FFDB])
def test_a_streaming_writers_length_is_the_files(tmp_path: Path, length: int) -> None:
    """CASES R15."""
    samples, note = read_audio(relabel(write(tmp_path / "x.wav", noise(30_000)), length))
    np.testing.assert_array_equal(samples, noise(30_000))
    assert note.remarks == (f"its header gives no length (0x{length:08X}); read to the end of the file",)


def test_a_length_beyond_the_file_is_a_truncated_file(tmp_path: Path) -> None:
    line = refused(relabel(write(tmp_path / "x.wav", noise(1000)), 4000))
    assert line == "is truncated: its header promises 4000 bytes of sound, it holds 2000; get the whole file"


def test_a_wrong_length_of_the_whole_is_nobodys_business(tmp_path: Path) -> None:
    """CASES R15."""
    path = write(tmp_path / "x.wav", noise(1000))
    data = path.read_bytes()
    path.write_bytes(data[:4] + struct.pack("<I", 0xFFFF_FFFF) + data[8:])
    np.testing.assert_array_equal(read_audio(path)[0], noise(1000))


def test_chunks_after_the_sound_are_not_sound(tmp_path: Path) -> None:
    path = relabel(write(tmp_path / "x.wav", noise(1000)), 2000, b"LIST\x04\x00\x00\x00INFO")
    np.testing.assert_array_equal(read_audio(path)[0], noise(1000))


@pytest.mark.parametrize("form", ["WAV", "FLAC"])
@pytest.mark.parametrize("kept", [0.3, 0.6, 0.95])
def test_a_file_cut_short_is_refused(tmp_path: Path, form: str, kept: float) -> None:
    path = write(tmp_path / "x", noise(64_000), format=form)
    data = path.read_bytes()
    path.write_bytes(data[: int(len(data) * kept)])
    assert refused(path).startswith("is truncated: its header promises ")


# ── what is broken ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_what_is_no_file(tmp_path: Path) -> None:
    assert refused(tmp_path / "none.wav") == "cannot be read: No such file or directory; name an audio file"
    assert refused(tmp_path) == "must be a file; got a folder or a device; name an audio file"
    os.mkfifo(tmp_path / "pipe")
    assert refused(tmp_path / "pipe") == "must be a file; got a folder or a device; name an audio file"


def test_what_is_empty(tmp_path: Path) -> None:
    (tmp_path / "x.wav").touch()
    assert refused(tmp_path / "x.wav") == "is an empty file; name an audio file"
    assert refused(write(tmp_path / "y.wav", np.empty(0, np.int16))) == "has no sound: its length is 0"


@pytest.mark.parametrize("data", [b"hello, world\n" * 50, b"RIFF", b"RIFF\x24\x00\x00\x00WAVE", b"fLaC", b"OggS" + bytes(90), bytes(5000)])
@pytest.mark.parametrize("name", ["x.wav", "x.raw", "x"])
def test_what_is_not_audio(tmp_path: Path, data: bytes, name: str) -> None:
    (tmp_path / name).write_bytes(data)
    assert refused(tmp_path / name).startswith("is not audio that can be read (")


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_value_that_is_no_number_is_found(tmp_path: Path, value: float) -> None:
    sound = tone(100, RATE, 3)
    sound[40_000] = value
    line = refused(write(tmp_path / "x.wav", sound, subtype="FLOAT"))
    assert line == "holds a value that is no number, at 2.500 s; write it anew from its source"


@pytest.mark.parametrize("rate", [100, 3999, 192_001, 384_000])
def test_a_rate_out_of_range(tmp_path: Path, rate: int) -> None:
    assert refused(write(tmp_path / "x.wav", noise(100), rate)) == f"must have 4000 to 192000 samples a second; got {rate}"


def test_a_recording_too_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wavfile, "LONGEST_HOURS", 1 / 3600)
    assert refused(write(tmp_path / "x.wav", noise(RATE + 1))).endswith("; cut it")
    assert len(read_audio(write(tmp_path / "y.wav", noise(RATE)))[0]) == RATE


@pytest.mark.fuzz
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(st.data())
def test_no_damage_gives_another_error(tmp_path: Path, data: st.DataObject) -> None:
    """Bytes of a good file replaced, most of them in its head, its end cut: sound or one line, never anything else."""
    whole = bytearray(write(tmp_path / "x", noise(300), format=data.draw(st.sampled_from(["WAV", "FLAC", "OGG"]))).read_bytes())
    for at in data.draw(st.lists(st.integers(0, 60) | st.integers(0, len(whole) - 1), max_size=4)):
        whole[at] = data.draw(st.integers(0, 255))
    (tmp_path / "y").write_bytes(whole[: data.draw(st.integers(1, len(whole)))])
    try:
        assert len(read_audio(tmp_path / "y")[0])
    except InputError as error:
        assert "\n" not in str(error)


# ── frames ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(count=st.integers(20, 40_000), block=st.integers(1, 50_000) | st.integers(1, 300), rate=st.sampled_from([16_000, 44_100, 8_000]))
def test_the_block_size_does_not_matter(tmp_path: Path, count: int, block: int, rate: int) -> None:
    path = write(tmp_path / "x.wav", noise(count), rate)
    frames = list(WavSource(path, block, first=7))
    assert [frame.first for frame in frames] == [7 + block * number for number in range(len(frames))]
    assert all(len(frame.samples) == block for frame in frames[:-1])
    np.testing.assert_array_equal(np.concatenate([frame.samples for frame in frames]), read_audio(path)[0])


def test_a_source_says_at_once_what_is_wrong(tmp_path: Path) -> None:
    with pytest.raises(InputError):
        WavSource(tmp_path / "none.wav", 640)
    with pytest.raises(ValueError, match="at least 1 sample; got 0"):
        WavSource(tmp_path / "none.wav", 0)
