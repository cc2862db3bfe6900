"""Does a device give what its rate promises? Frames counted against CLOCK_MONOTONIC.

What lives here: arithmetic on (frames, time) pairs that are handed in. What must not: a clock, a device. A sound server loses
sound without a word: a PipeWire client that did not read for 2 s is short of 1.9 s and sees no overflow flag; so frames are
compared with time.
"""

from __future__ import annotations

from ..errors import DeviceError

_SECOND = 1_000_000_000  # ns

_WINDOW = _SECOND // 4
"""Lateness is judged by its least value in a window this long: a late read is not a loss while the next ones, which return
at once, still bring what was waiting. So a loss is known, and placed, at most half a second after it happened."""

_SETTLING_WINDOWS = 4  # the first second only sets the baseline: a server's first blocks come in a burst, or up to 1.3 s late

_RISE = 1 / 40
"""What the baseline takes of a rise a window, a time constant of 10 s: a device clock that is wrong by 1,000 ppm (the worst of
cheap USB) then hides 10 ms, far from the threshold, and never adds up to a loss."""

_LEAST_LOSS = _SECOND // 10  # a server's quantum (21 to 43 ms) beats with our block, so less than this is no proof

_RATE_BAND = (0.8, 1.25)
_RATE_SECONDS = 3


class RateError(DeviceError):
    """A device that does not give the frames that were agreed: another rate, or another number of channels."""


class FrameClock:
    """Fed after each read, on the device's thread.

    rate   frames a second that were agreed with the device
    block  frames of one read
    """

    def __init__(self, rate: int, block: int) -> None:
        self._rate = rate
        self._threshold = max(_LEAST_LOSS, 2 * block * _SECOND // rate)
        self._origin: int | None = None
        self._due = 0  # frames that should be here by now: those that came and those that were lost
        self._baseline = 0.0
        self._windows = 0
        self._window_start: int | None = None
        self._least = 0.0
        self._second_start = 0
        self._second_frames = 0
        self._wrong_seconds = 0

    def feed(self, frames: int, now_ns: int) -> int:
        """Takes a read of `frames` that returned at `now_ns`; returns the frames that were lost before it, mostly 0.

        Raises RateError when the device has given another rate than the agreed one for three seconds: speech at a wrong
        rate is noise, and nobody would be told.
        """
        self._due += frames
        if self._origin is None:
            self._origin = now_ns - frames * _SECOND // self._rate
            self._second_start = now_ns
            return 0
        self._check_rate(frames, now_ns)
        late = now_ns - self._origin - self._due * _SECOND / self._rate
        if self._window_start is None:
            self._window_start, self._least = now_ns, late
        self._least = min(self._least, late)
        if now_ns - self._window_start < _WINDOW:
            return 0
        self._window_start = None
        self._windows += 1
        rise = self._least - self._baseline
        if rise < 0 or self._windows <= _SETTLING_WINDOWS:
            self._baseline = self._least
        elif rise <= self._threshold:
            self._baseline += rise * _RISE
        else:
            lost = round(rise * self._rate / _SECOND)
            self._due += lost
            return lost
        return 0

    def _check_rate(self, frames: int, now_ns: int) -> None:
        self._second_frames += frames
        elapsed = now_ns - self._second_start
        if elapsed < _SECOND:
            return
        measured = self._second_frames * _SECOND / elapsed
        self._second_start, self._second_frames = now_ns, 0
        low, high = _RATE_BAND
        if low * self._rate <= measured <= high * self._rate:
            self._wrong_seconds = 0
            return
        self._wrong_seconds += 1
        if self._wrong_seconds == _RATE_SECONDS:
            what = f"gives {measured:,.0f} frames a second where {self._rate:,} were agreed"
            raise RateError("capture", what, "its rate or its number of channels is not what it says; choose another device")
