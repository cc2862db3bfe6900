"""Loss is found by comparing frames with time; a late read, a drifting clock and a quantum's beat are no loss."""

from __future__ import annotations

import random

import pytest
from voiced.errors import DeviceError
from voiced.sources.frameclock import FrameClock

SECOND = 10**9
RATE, BLOCK = 16_000, 640  # 40 ms


class Device:
    """Gives frames in quanta of 1024/48000 s, as PipeWire does, to a reader that may come late."""

    def __init__(self, ppm: float = 0, buffer: float = 0.2) -> None:
        self.clock = FrameClock(RATE, BLOCK)
        self.now = 5.0
        self.began = self.now
        self.speed = 1 + ppm / 1e6
        self.taken = 0
        self.buffer = buffer
        self.gone = 0
        self.lost: list[int] = []

    def _there(self) -> int:
        quanta = int((self.now - self.began) * self.speed * 48_000 / 1024 + 1e-9)
        return quanta * 1024 // 3 - self.gone

    def read(self) -> int:
        while self._there() - self.taken < BLOCK:
            self.now += 0.001
        self.taken += BLOCK
        lost = self.clock.feed(BLOCK, round(self.now * SECOND))
        if lost:
            self.lost.append(lost)
        return lost

    def run(self, seconds: float) -> None:
        until = self.now + seconds
        while self.now < until:
            self.read()

    def sleep(self, seconds: float) -> None:
        """Nobody reads; what the buffer cannot hold is gone."""
        self.now += seconds
        waiting = self._there() - self.taken
        self.gone += max(0, waiting - round(self.buffer * RATE))


@pytest.mark.parametrize("ppm", [-1000, -100, 0, 100, 1000])
def test_ten_minutes_without_loss_is_without_loss(ppm: int) -> None:
    device = Device(ppm)
    device.run(600)
    assert device.lost == []


@pytest.mark.parametrize("late", [0.05, 0.1, 0.19])
def test_a_late_reader_that_catches_up_lost_nothing(late: float) -> None:
    device = Device()
    source = random.Random(1)
    device.run(3)
    for _ in range(50):
        device.sleep(late)
        device.run(source.uniform(0.05, 3))
    assert device.lost == []
    assert device.gone == 0


@pytest.mark.parametrize("late", [0.4, 2.0, 30.0])
def test_a_reader_that_slept_is_told_what_was_lost(late: float) -> None:
    device = Device()
    device.run(3)
    device.sleep(late)
    until = device.now + 0.6
    while device.now < until:
        device.read()
    assert len(device.lost) == 1
    assert device.lost[0] == pytest.approx(device.gone, abs=0.045 * RATE)  # one quantum and one block beat
    device.run(20)
    assert len(device.lost) == 1


def test_several_losses_add_up() -> None:
    device = Device()
    device.run(3)
    for _ in range(20):
        device.sleep(0.5)
        device.run(2)
    assert len(device.lost) == 20
    assert sum(device.lost) == pytest.approx(device.gone, abs=20 * 0.005 * RATE)  # within 5 ms a loss


def test_a_burst_at_the_beginning_is_no_loss() -> None:
    clock = FrameClock(RATE, BLOCK)
    at = [1.3] * 5 + [1.3 + 0.04 * k for k in range(1, 200)]
    assert [clock.feed(BLOCK, round(t * SECOND)) for t in at] == [0] * len(at)


@pytest.mark.parametrize("factor", [0.5, 1 / 3, 2, 3, 50])
def test_a_rate_that_lies_is_refused(factor: float) -> None:
    clock = FrameClock(RATE, BLOCK)
    with pytest.raises(DeviceError, match=r"gives [\d,]+ frames a second where 16,000 were agreed"):
        for at in range(1, round(5 * factor * RATE / BLOCK)):
            clock.feed(BLOCK, round(at * BLOCK / RATE / factor * SECOND))


def test_one_long_sleep_is_no_lying_rate() -> None:
    device = Device()
    device.run(3)
    device.sleep(3600)
    device.run(5)
    assert len(device.lost) == 1
