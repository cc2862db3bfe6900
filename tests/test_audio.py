"""Frames, the rechunker and the ring, against lists that forget nothing."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from voiced.audio import AudioFrame, Ring, Samples, frozen


def ramp(first: int, end: int) -> Samples:
    """Sound whose every sample tells its position (up to 2^15), and is never 0 below that."""
    return (np.arange(first, end) + 1).astype(np.int16)


def frames(first: int, steps: list[tuple[int, int]]) -> list[AudioFrame]:
    """Frames of the ramp from (samples lost before it, length)."""
    made: list[AudioFrame] = []
    for lost, length in steps:
        made.append(AudioFrame(first + lost, ramp(first + lost, first + lost + length), lost, len(made) + 1))
        first = made[-1].end
    return made


# ── the frame ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("samples", [np.zeros(0, np.int16), np.zeros((2, 2), np.int16), np.zeros(4, np.float32), np.zeros(4, np.int32)])
def test_a_frame_refuses_what_is_no_sound(samples: Samples) -> None:
    with pytest.raises(ValueError, match=r"AudioFrame wants int16 of shape \(n,\), n > 0; got"):
        AudioFrame(0, samples)


@pytest.mark.parametrize(("first", "lost"), [(-1, 0), (0, -1)])
def test_a_frame_refuses_negative_positions(first: int, lost: int) -> None:
    with pytest.raises(ValueError, match=f"first and lost >= 0; got {first} and {lost}"):
        AudioFrame(first, ramp(0, 4), lost)


def test_a_frame_cannot_be_changed() -> None:
    frame = AudioFrame(3, ramp(3, 7))
    assert frame.end == 7
    with pytest.raises(ValueError, match="read-only"):
        frame.samples[0] = 0
    with pytest.raises(ValueError, match="read-only"):
        frozen(ramp(0, 4))[0] = 0


def test_a_size_below_one_is_refused() -> None:
    with pytest.raises(ValueError, match="Ring wants a capacity of at least 1 sample; got 0"):
        Ring(0)


# ── the ring ───────────────────────────────────────────────────────────────────────────────────────────────────────────

steps = st.lists(st.tuples(st.just(0) | st.integers(0, 50), st.integers(1, 60)), max_size=30)


@given(st.integers(1, 90), st.integers(0, 300), steps, st.data())
def test_the_ring_is_the_end_of_a_list_that_keeps_everything(
    capacity: int, first: int, plan: list[tuple[int, int]], data: st.DataObject
) -> None:
    """Wrapped or not, frames longer than the ring, gaps as zeros, gaps longer than the ring."""
    ring = Ring(capacity)
    everything: list[int] = []
    start = None
    for frame in frames(first, plan):
        if start is None:
            start = frame.first
        else:
            everything += [0] * frame.lost
        ring.append(frame)
        everything += frame.samples.tolist()
        assert ring.end == frame.end == start + len(everything)
        assert ring.first == max(start, ring.end - capacity)
        low = data.draw(st.integers(ring.first, ring.end))
        high = data.draw(st.integers(low, ring.end))
        assert ring.read(low, high).tolist() == everything[low - start : high - start]
        early = data.draw(st.integers(max(0, low - 2 * capacity), low))
        before = max(0, ring.first - early)
        assert ring.padded(early, high).tolist() == [0] * before + everything[early + before - start : high - start]


@pytest.mark.parametrize(("first", "end"), [(9, 12), (10, 31), (31, 32), (20, 19)])
def test_what_the_ring_does_not_hold_is_named(first: int, end: int) -> None:
    ring = Ring(20)
    ring.append(AudioFrame(5, ramp(5, 30)))
    with pytest.raises(IndexError, match=rf"Ring holds \[10, 30\); asked for \[{first}, {end}\)"):
        ring.read(first, end)


def test_padding_stands_only_before_the_ring() -> None:
    ring = Ring(20)
    ring.append(AudioFrame(0, ramp(0, 30)))
    assert ring.padded(8, 12).tolist() == [0, 0, 11, 12]
    with pytest.raises(IndexError, match="asked for"):
        ring.padded(8, 31)


def test_the_ring_does_not_go_back_in_time() -> None:
    ring = Ring(20)
    ring.append(AudioFrame(5, ramp(5, 30)))
    with pytest.raises(ValueError, match="Ring holds sound up to 30; got a frame that begins at 29"):
        ring.append(AudioFrame(29, ramp(29, 40)))
    assert (ring.first, ring.end) == (10, 30)


def test_what_was_read_stays_what_it_was() -> None:
    ring = Ring(4)
    ring.append(AudioFrame(0, ramp(0, 4)))
    sound = ring.read(0, 4)
    ring.append(AudioFrame(4, ramp(4, 8)))
    assert sound.tolist() == [1, 2, 3, 4]
    with pytest.raises(ValueError, match="read-only"):
        sound[0] = 0


def test_reset_empties_the_ring_and_positions_begin_anew() -> None:
    ring = Ring(20)
    ring.append(AudioFrame(500, ramp(500, 530)))
    ring.reset()
    ring.append(AudioFrame(7, ramp(7, 10)))
    assert (ring.first, ring.end) == (7, 10)
    assert ring.read(7, 10).tolist() == [8, 9, 10]
