"""The datagram of a block: what goes in comes out, and what is no block is named."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from voiced.errors import InternalError
from voiced.sources.blocks import DATAGRAM_LIMIT, FLOAT32, INT16, Block, pack, split, unpack

U32 = 2**32 - 1
U64 = 2**64 - 1


@st.composite
def blocks(draw: st.DrawFn, most_frames: int = 200) -> Block:
    channels, width = draw(st.integers(1, 8)), draw(st.sampled_from([INT16, FLOAT32]))
    frames = draw(st.integers(1, most_frames))
    return Block(
        ended_ns=draw(st.integers(10**12, U64)),
        first=draw(st.integers(0, 2**60)),
        rate=draw(st.sampled_from([8000, 16_000, 44_100, 48_000, 192_000])),
        channels=channels,
        data=bytes(draw(st.integers(0, 255)) for _ in range(8)) * width * frames * channels,
        sequence=draw(st.integers(0, U32)),
        lost=draw(st.integers(0, U32)),
        width=width,
    )


@given(blocks())
def test_a_block_comes_out_as_it_went_in(block: Block) -> None:
    assert unpack(pack(block)) == block


@given(blocks(most_frames=30_000))
def test_the_parts_of_a_block_are_the_block(block: Block) -> None:
    parts = list(split(block))
    assert b"".join(bytes(part.data) for part in parts) == block.data
    assert all(len(pack(part)) <= DATAGRAM_LIMIT for part in parts)
    assert [part.first for part in parts] == [block.first, *(part.end for part in parts[:-1])]
    assert sum(part.lost for part in parts) == block.lost
    assert parts[-1].ended_ns == block.ended_ns
    for before, after in pairwise(parts):
        assert abs(after.ended_ns - before.ended_ns - after.frames * 10**9 / block.rate) <= 1


def test_forty_milliseconds_of_the_widest_device_are_one_datagram() -> None:
    block = Block(10**9, 0, 48_000, 8, bytes(1920 * 8 * 2))
    assert list(split(block)) == [block]


def test_a_counter_beyond_its_field_does_not_end_the_process() -> None:
    block = unpack(pack(Block(1, 0, 16_000, 1, b"ab", sequence=U32 + 1, lost=U32 + 1)))
    assert (block.sequence, block.lost) == (0, U32)


@pytest.mark.fuzz
@given(st.binary(max_size=120), st.integers(0, 60), st.booleans())
def test_whatever_comes_through_the_pipe_is_a_block_or_is_named(junk: bytes, at: int, whole: bool) -> None:
    """Bytes without sense, and blocks in which some were changed."""
    datagram = GOOD[:at] + junk + GOOD[at + len(junk) :] if whole else junk
    try:
        block = unpack(datagram)
    except InternalError as error:
        assert "\n" not in str(error)
    else:
        assert pack(block) == datagram


GOOD = pack(Block(1, 0, 16_000, 2, b"abcdefgh"))


@pytest.mark.parametrize(
    ("datagram", "message"),
    [
        (b"", "0 bytes, at least 36"),
        (GOOD[:35], "35 bytes, at least 36"),
        (b"RIFF" + GOOD[4:], "begins with b'RIFF', b'vcd2' expected"),
        (GOOD[:36], "0 bytes of sound"),
        (GOOD[:-1], "7 bytes of sound, whole frames of 2 channels"),
        (GOOD[:28] + b"\0\0" + GOOD[30:], "0 channels"),
        (GOOD[:30] + b"\3\0" + GOOD[32:], "3 bytes a sample"),
        (GOOD[:24] + b"\0\0\0\0" + GOOD[28:], "0 frames a second"),
    ],
)
def test_what_is_no_block_is_named(datagram: bytes, message: str) -> None:
    with pytest.raises(InternalError, match=message):
        unpack(datagram)
