"""A lane's end: the channel, the resampling, the positions over gaps and restarts, and the ring between two threads."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from soundserver import wait_for
from voiced.audio import AudioFrame
from voiced.errors import DeviceError, InternalError
from voiced.sources.blocks import FLOAT32, INT16, Block, pack
from voiced.sources.microphone import CAPACITY, Converter, Microphone
from voiced.units import RATE

SECOND = 10**9
PATIENCE = 60  # seconds after which a test fails instead of hanging
RATES = [8_000, 16_000, 22_050, 44_100, 48_000, 96_000]

Sound = NDArray[np.int16]


def tone(hertz: float, rate: int, seconds: float, amplitude: float = 8000) -> Sound:
    at: NDArray[np.float64] = np.arange(round(seconds * rate)) / rate
    return np.rint(amplitude * np.sin(2 * np.pi * hertz * at)).astype(np.int16)


def cut(sound: Sound, rate: int, sizes: Sequence[int], first: int = 0, began_ns: int = 5 * SECOND) -> Iterator[Block]:
    """Blocks of a sound, shape (n,) or (n, channels), in the given sizes over and over."""
    channels = 1 if sound.ndim == 1 else sound.shape[1]
    at = number = 0
    while at < len(sound):
        end = min(at + sizes[number % len(sizes)], len(sound))
        yield Block(began_ns + end * SECOND // rate, first + at, rate, channels, sound[at:end].tobytes(), number)
        at, number = end, number + 1


def convert(blocks: Iterator[Block], converter: Converter) -> list[AudioFrame]:
    return [frame for block in blocks for frame in converter.feed(block)]


def joined(frames: list[AudioFrame]) -> NDArray[np.float64]:
    return np.concatenate([frame.samples for frame in frames]).astype(np.float64)


def noise(frames: int, seed: int = 1, amplitude: float = 3000) -> Sound:
    return np.rint(np.random.default_rng(seed).normal(0, amplitude, frames)).clip(-32768, 32767).astype(np.int16)


# ── resampling ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("rate", RATES)
def test_a_tone_stays_itself_and_in_its_place(rate: int) -> None:
    """Sample k out is what sounded at k / 16000 s: the resampler's delay makes a frame late, never misplaced."""
    frames = convert(cut(tone(1000, rate, 2), rate, [rate // 25]), Converter())
    assert frames[0].first == 0
    assert all(before.end == after.first for before, after in pairwise(frames))
    got = joined(frames)
    assert len(got) > 1.85 * RATE
    wanted = 8000 * np.sin(2 * np.pi * 1000 * np.arange(len(got)) / RATE)
    inside = slice(RATE // 10, -RATE // 10)
    assert np.abs(got - wanted)[inside].max() < 2  # -72 dB below the tone: two roundings to int16


@pytest.mark.parametrize("rate", [44_100, 48_000, 96_000])
def test_what_is_above_eight_kilohertz_does_not_fold_down(rate: int) -> None:
    got = joined(convert(cut(tone(10_000, rate, 1, 20_000), rate, [rate // 25]), Converter()))
    assert np.abs(got[RATE // 10 : -RATE // 10]).max() <= 2  # 80 dB down


@settings(max_examples=25, deadline=None)
@given(rate=st.sampled_from(RATES), sizes=st.lists(st.integers(1, 5000), min_size=1, max_size=8))
def test_the_block_size_does_not_matter(rate: int, sizes: list[int]) -> None:
    sound = noise(rate // 2)
    one = joined(convert(cut(sound, rate, [len(sound)]), Converter()))
    many = joined(convert(cut(sound, rate, sizes), Converter()))
    count = min(len(one), len(many))
    assert count > 0.25 * RATE
    assert np.sqrt(np.mean((one[:count] - many[:count]) ** 2)) < 1e-4 * np.std(one)  # below -80 dB


@pytest.mark.parametrize("rate", [RATE, 48_000])
def test_floats_are_heard_as_whole_numbers_are(rate: int) -> None:
    """JACK's samples: full scale is 1, and what is beyond it is held."""
    sound = channels(np.zeros(2 * rate, np.int16), tone(1000, rate, 2, 30_000))
    one, other = Converter(), Converter()
    loud = sound.astype(np.float32) / 32768
    blocks = [replace(block, data=loud[block.first : block.end].tobytes(), width=FLOAT32) for block in cut(sound, rate, [rate // 25])]
    heard = joined(convert(iter(blocks), one))
    assert np.abs(heard - joined(convert(cut(sound, rate, [rate // 25]), other))).max() <= 1
    assert one.channel == other.channel == 1
    beyond = [replace(block, data=(2 * loud[block.first : block.end]).tobytes()) for block in blocks]
    assert {joined(convert(iter(beyond), Converter())).max(), joined(convert(iter(beyond), Converter())).min()} == {32767, -32768}


def test_full_scale_is_held_not_wrapped() -> None:
    square = np.where(np.arange(48_000) // 240 % 2, 32767, -32768).astype(np.int16)
    got = joined(convert(cut(square, 48_000, [1920]), Converter()))
    wanted = np.where(np.arange(len(got)) // 80 % 2, 1, -1)
    middle = (np.arange(len(got)) % 80 > 8) & (np.arange(len(got)) % 80 < 72)
    assert (np.sign(got) == wanted)[middle].all()


def test_sixteen_kilohertz_mono_is_handed_on_as_it_is() -> None:
    sound = noise(5000)
    frames = convert(cut(sound, RATE, [640]), Converter())
    assert np.array_equal(joined(frames), sound)
    assert [frame.first for frame in frames] == list(range(0, 5000, 640))
    assert frames[0].arrived_ns == 5 * SECOND + 40_000_000
    assert not frames[0].samples.flags.writeable


# ── positions ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@settings(max_examples=60, deadline=None)
@given(
    rate=st.sampled_from(RATES),
    pieces=st.lists(st.tuples(st.integers(10, 4000), st.integers(0, 100_000), st.booleans()), min_size=1, max_size=20),
    first=st.integers(0, 2**50),
)
def test_positions_are_where_the_sound_was(rate: int, pieces: list[tuple[int, int, bool]], first: int) -> None:
    """Blocks with gaps between, counted by the device, or (a new device: indices from 0 again) known by the clock alone."""
    converter = Converter(first=first)
    frames: list[AudioFrame] = []
    index, device_frames = 0, 0  # in this device; since the beginning
    for number, (size, gap, renew) in enumerate(pieces):
        gap = gap if number else 0
        device_frames += gap
        index = 0 if renew else index + gap
        ended_ns = SECOND + (device_frames + size) * SECOND // rate
        frames += converter.feed(Block(ended_ns, index, rate, 1, noise(size, number).tobytes()), fresh=renew)
        index += size
        device_frames += size
    frames += converter.feed(Block(ended_ns + SECOND, 0, RATE, 1, b"ab"), fresh=True)  # lets out what is held
    assert frames[0].first == first
    end = first
    for frame in frames:
        assert frame.first == end + frame.lost
        end = frame.end
    assert converter.lost == sum(frame.lost for frame in frames)
    renewals = sum(renew for _, _, renew in pieces) + 1
    gaps = sum(gap > 0 for _, gap, _ in pieces)
    assert abs(frames[-1].first - first - (device_frames / rate + 1 - 1 / RATE) * RATE) <= 1 + renewals + gaps


def test_sound_after_a_gap_is_in_its_place() -> None:
    """A click two seconds in, behind a gap of a second, at 48 kHz: found at 32,000."""
    sound = np.zeros(48_000 * 3, np.int16)
    sound[96_000] = 20_000
    blocks = [block for block in cut(sound, 48_000, [1920]) if not 24_000 <= block.first < 72_000]
    frames = convert(iter(blocks), Converter())
    click = next(frame for frame in frames if np.abs(frame.samples.astype(int)).max() > 3000)
    assert click.first + int(np.abs(click.samples.astype(int)).argmax()) == 32_000
    lost = [frame.lost for frame in frames if frame.lost]
    assert lost == [(blocks[13].first - blocks[12].end) // 3]


def test_what_the_resampler_held_before_a_gap_is_not_lost() -> None:
    sound = noise(48_000)
    blocks = list(cut(sound, 48_000, [1920]))
    frames = convert(iter([*blocks[:10], *blocks[20:]]), Converter())
    before = [frame for frame in frames if frame.end <= 6400]
    assert before[-1].end == 6400  # ten blocks of 640
    assert frames[len(before)].first == 12_800


def test_a_lane_that_starts_again_goes_on_where_time_is() -> None:
    converter = Converter(first=1_000_000, first_ns=3 * SECOND)
    frames = convert(cut(noise(640), RATE, [640], first=77, began_ns=5 * SECOND), converter)
    assert (frames[0].first, frames[0].lost) == (1_032_000, 32_000)


def test_time_that_seems_to_go_back_never_takes_a_position_back() -> None:
    converter = Converter()
    first = converter.feed(Block(10 * SECOND, 0, RATE, 1, bytes(1280)))[0]
    second = converter.feed(Block(10 * SECOND + 1, 0, RATE, 1, bytes(1280)), fresh=True)[0]
    assert (second.first, second.lost) == (first.end, 0)


def test_a_device_that_comes_back_with_another_format_goes_on() -> None:
    converter = Converter()
    frames = convert(cut(tone(500, 48_000, 1), 48_000, [1920]), converter)
    frames += convert(cut(np.stack([tone(500, RATE, 1)] * 2, axis=1), RATE, [640], began_ns=8 * SECOND), converter)
    assert frames[-1].end == 4 * RATE  # one second, two without a device, one second
    assert converter.lost == 2 * RATE
    assert converter.rate == RATE


# ── channels ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def channels(*each: Sound) -> Sound:
    return np.stack(each, axis=1)


SILENT = np.zeros(4 * RATE, np.int16)
CONSTANT = np.full(4 * RATE, 9000, np.int16)  # a voltage, not a sound
HISS = noise(4 * RATE, 2, 1)  # an input that is not connected
SPEECHLIKE = noise(4 * RATE, 3, 1500)
QUIETER = noise(4 * RATE, 4, 400)


@pytest.mark.parametrize(
    ("sound", "live"),
    [
        (channels(SPEECHLIKE, SILENT), 0),
        (channels(SILENT, SPEECHLIKE), 1),
        (channels(HISS, QUIETER), 1),
        (channels(SILENT, CONSTANT, HISS, SILENT, QUIETER, SPEECHLIKE), 5),
    ],
)
def test_auto_hears_the_live_channel_from_the_first_block_on(sound: Sound, live: int) -> None:
    converter = Converter("auto")
    frames = convert(cut(sound, RATE, [640]), converter)
    assert converter.channel == live
    assert np.array_equal(joined(frames), sound[:, live])


def test_auto_leaves_a_channel_that_was_silent_at_first_and_then_settles() -> None:
    late = np.concatenate([SILENT, SPEECHLIKE, HISS])
    loud_in_the_end = np.concatenate([HISS, HISS, noise(4 * RATE, 5, 9000)])
    converter = Converter()
    frames = convert(cut(channels(loud_in_the_end, late), RATE, [640]), converter)
    assert converter.channel == 1  # the choice was made when there was something to hear; later noise does not change it
    assert np.array_equal(joined(frames)[4 * RATE :], late[4 * RATE :])
    assert converter.choice == "channel 1 of 2 is heard; dBFS: -90 -27"


@pytest.mark.parametrize("order", [(0, 1, 2, 3, 4, 5), (3, 5, 1, 0, 4, 2), (5, 4, 3, 2, 1, 0)])
def test_auto_decides_anew_when_the_device_is_opened(order: tuple[int, ...]) -> None:
    """CASES R8, R10: an array's six channels come in another order at each start."""
    there = [SPEECHLIKE, SILENT, HISS, CONSTANT, HISS, SILENT]
    converter = Converter("auto")
    convert(cut(channels(*there), RATE, [640]), converter)
    assert (converter.channel, converter.choice[:14]) == (0, "channel 0 of 6")
    frames = convert(cut(channels(*(there[one] for one in order)), RATE, [640], began_ns=60 * SECOND), converter)
    live = order.index(0)
    assert (converter.channel, converter.choice[:14]) == (live, f"channel {live} of 6")
    assert np.array_equal(joined(frames), SPEECHLIKE)
    numbered = Converter(0)
    assert np.array_equal(joined(convert(cut(channels(*there), RATE, [640]), numbered)), SPEECHLIKE)
    assert numbered.choice == ""


def test_auto_leaves_a_channel_that_dies() -> None:
    converter = Converter("auto")
    both = np.concatenate([channels(SPEECHLIKE, QUIETER), channels(SILENT, SILENT), channels(CONSTANT, QUIETER)])
    frames = convert(cut(both, RATE, [640]), converter)
    assert converter.channel == 1
    heard = joined(frames)
    assert np.array_equal(heard[: 8 * RATE], both[: 8 * RATE, 0])  # a pause of both is no death
    assert np.array_equal(heard[-RATE // 2 :], both[-RATE // 2 :, 1])


@pytest.mark.filterwarnings("error")
def test_a_float_that_is_no_number_costs_its_own_sample() -> None:
    """Some JACK programs give them."""
    sound = (tone(440, 48_000, 0.2) / np.float32(32768)).astype(np.float32)
    broken = sound.copy()
    broken[[4000, 4001, 4002, 4003]] = [np.nan, np.inf, -np.inf, 3e38]
    heard, whole = (
        joined(convert(iter([Block(5 * SECOND, 0, 48_000, 1, one.tobytes(), width=FLOAT32)]), Converter())) for one in (broken, sound)
    )
    near = slice(4000 // 3 - 400, 4000 // 3 + 400)
    assert np.abs(np.delete(heard - whole, np.r_[near])).max() <= 1
    assert np.abs(heard).max() <= 32768


def test_a_channel_by_number_and_the_mean_of_all() -> None:
    sound = channels(SPEECHLIKE, QUIETER, SILENT)
    assert np.array_equal(joined(convert(cut(sound, RATE, [640]), Converter(1))), QUIETER)
    assert np.array_equal(joined(convert(cut(sound, RATE, [640]), Converter("1"))), QUIETER)
    mean = joined(convert(cut(sound, RATE, [640]), Converter("mix")))
    assert np.abs(mean - sound.mean(axis=1)).max() <= 0.51


@pytest.mark.parametrize(("number", "there"), [(2, "channels 0 to 1"), (-1, "channels 0 to 1")])
def test_a_channel_that_is_not_there_is_named(number: int, there: str) -> None:
    with pytest.raises(DeviceError, match=f"there is no channel {number}: the device gives {there}; name one of these, or auto"):
        convert(cut(channels(SPEECHLIKE, SILENT), RATE, [640]), Converter(number))


# ── two threads and a socket ───────────────────────────────────────────────────────────────────────────────────────────


def pair() -> tuple[socket.socket, socket.socket]:
    """Capture's end and the lane's."""
    theirs, ours = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    theirs.settimeout(PATIENCE)
    return theirs, ours


def block(number: int) -> Block:
    """40 ms of 16 kHz whose samples are the number."""
    data = np.full(640, number, np.int16).tobytes()
    return Block(5 * SECOND + (number + 1) * 40_000_000, number * 640, RATE, 1, data, number)


def send(sock: socket.socket, *blocks: Block) -> None:
    for one in blocks:
        sock.send(pack(one))


def test_frames_come_in_order_until_capture_ends() -> None:
    capture, ours = pair()
    microphone = Microphone(ours)
    send(capture, *(block(number) for number in range(20)))
    capture.close()
    frames = list(microphone.frames())
    assert [(frame.first, int(frame.samples[0])) for frame in frames] == [(number * 640, number) for number in range(20)]
    assert microphone.read(0) is None  # said once
    microphone.close()


def test_read_gives_up_after_its_timeout() -> None:
    _capture, ours = pair()
    microphone = Microphone(ours)
    assert microphone.read(0) is None
    assert microphone.read(0.001) is None
    microphone.close()


def test_ears_that_are_too_slow_lose_the_oldest_and_are_told() -> None:
    """CASES D9, C7."""
    capture, ours = pair()
    microphone = Microphone(ours, capacity=10)
    send(capture, *(block(number) for number in range(100)))
    capture.close()
    wait_for(lambda: microphone.statistics().blocks == 100, "the reader to empty the socket")
    frames = list(microphone.frames())
    assert [int(frame.samples[0]) for frame in frames] == list(range(90, 100))
    statistics = microphone.statistics()
    assert (statistics.dropped, statistics.deepest) == (90, 10)
    microphone.close()


def test_a_gap_that_ears_made_themselves_advances_the_position() -> None:
    capture, ours = pair()
    microphone = Microphone(ours, capacity=3)
    send(capture, block(0))
    assert microphone.read(PATIENCE) is not None
    send(capture, *(block(number) for number in range(1, 9)))
    wait_for(lambda: microphone.statistics().blocks == 9, "the reader to empty the socket")
    frame = microphone.read(0)
    assert frame is not None
    assert (frame.first, frame.lost) == (6 * 640, 5 * 640)
    assert microphone.statistics().lost == 5 * 640
    microphone.close()


def test_a_new_socket_goes_on_after_what_the_old_one_sent() -> None:
    capture, ours = pair()
    microphone = Microphone(ours)
    send(capture, *(block(number) for number in range(3)))
    wait_for(lambda: microphone.statistics().blocks == 3, "the reader to empty the socket")
    successor, theirs = pair()
    microphone.replace(theirs)  # while the old one is still open
    send(successor, replace(block(0), ended_ns=block(2).ended_ns + SECOND))
    frames = [microphone.read(PATIENCE) for _ in range(4)]
    assert [frame and (frame.first, frame.lost) for frame in frames] == [
        (0, 0),
        (640, 0),
        (1280, 0),
        (1920 + RATE - 640, RATE - 640),  # by the clock: it ended a second after the one before
    ]
    assert capture.recv(1) == b""  # the old end was closed
    successor.close()
    with pytest.raises(EOFError):
        microphone.read(PATIENCE)
    microphone.close()


def test_a_microphone_may_begin_without_a_socket() -> None:
    microphone = Microphone(first=500)
    assert microphone.read(0) is None
    capture, ours = pair()
    microphone.replace(ours)
    send(capture, block(9))
    frame = microphone.read(PATIENCE)
    assert frame is not None
    assert (frame.first, frame.lost) == (500, 0)
    microphone.close()


def test_what_waits_when_it_is_closed_is_never_heard() -> None:
    """A lane that is muted closes it, and hears another socket when it is no more: nothing from before."""
    capture, ours = pair()
    microphone = Microphone(ours)
    send(capture, *(block(number) for number in range(1, 6)))
    wait_for(lambda: microphone.statistics().blocks == 5, "the reader to empty the socket")
    microphone.close()
    successor, theirs = pair()
    microphone.replace(theirs)
    send(successor, block(0))
    frame = microphone.read(PATIENCE)
    assert frame is not None and not frame.samples.any()
    microphone.close()


def test_close_wakes_a_reader_that_waits() -> None:
    _capture, ours = pair()
    microphone = Microphone(ours)
    ended = threading.Event()

    def ears() -> None:
        assert list(microphone.frames()) == []
        ended.set()

    thread = threading.Thread(target=ears)
    thread.start()
    microphone.close()
    assert ended.wait(PATIENCE)
    thread.join()


def test_what_is_no_block_is_an_error_of_ours() -> None:
    capture, ours = pair()
    microphone = Microphone(ours)
    capture.send(b"hello")
    with pytest.raises(InternalError, match="5 bytes, at least 36 expected"):
        microphone.read(PATIENCE)
    microphone.close()


def test_the_ring_holds_ten_seconds() -> None:
    assert CAPACITY * 0.04 > 10
    with pytest.raises(ValueError, match="at least 1 block; got 0"):
        Microphone(capacity=0)


def test_the_level_is_told() -> None:
    """CASES H4: a headset that gives one bit of noise is -90 dBFS, not silence; before a second has come, nothing is known."""
    capture, ours = pair()
    microphone = Microphone(ours)
    assert microphone.statistics().level_dbfs == -120
    for amplitude, level in ((1, -90.3), (1036, -30), (0, -120)):
        sound = np.where(np.arange(RATE) % 2, amplitude, -amplitude).astype(np.int16)
        for at, one in enumerate(cut(sound, RATE, [640])):
            capture.send(pack(replace(one, first=at * 640)))
            assert microphone.read(PATIENCE) is not None
        assert microphone.statistics().level_dbfs == pytest.approx(level, abs=0.1)
    microphone.close()


ANY_BLOCK = st.builds(
    Block,
    ended_ns=st.integers(0, 2**64 - 1),
    first=st.integers(0, 2**64 - 1) | st.integers(0, 50_000),
    rate=st.integers(1, 2**32 - 1) | st.sampled_from(RATES),
    channels=st.integers(1, 9),
    data=st.binary(min_size=1, max_size=400),
    sequence=st.integers(0, 2**32 - 1),
    lost=st.integers(0, 2**32 - 1),
    width=st.sampled_from([INT16, FLOAT32]),
).map(pack)
"""Whole frames or not, of any bits: floats are no numbers, too."""

DATAGRAMS = st.one_of(ANY_BLOCK, ANY_BLOCK, st.integers(0, 5).map(block).map(pack), st.binary(min_size=1, max_size=80))


@pytest.mark.fuzz
@settings(max_examples=settings().max_examples)
@given(datagrams=st.lists(DATAGRAMS, max_size=8), channel=st.sampled_from(["auto", "mix", "0", 3]))
def test_whatever_comes_through_the_pipe_is_sound_or_is_named(datagrams: list[bytes], channel: str | int) -> None:
    """Positions never go back, no frame is longer than its block can make it, and what is no block ends a lane by our own errors alone."""
    capture, ours = pair()
    for datagram in datagrams:
        capture.send(datagram)
    capture.close()
    microphone = Microphone(ours, channel=channel)
    at = 0
    try:
        while True:
            frame = microphone.read(PATIENCE)
            assert frame
            assert frame.first == at + frame.lost
            assert frame.lost >= 0 and len(frame.samples) < 20 * RATE
            at = frame.end
    except EOFError:
        pass
    except (InternalError, DeviceError) as error:
        assert "\n" not in str(error)
    finally:
        microphone.close()
