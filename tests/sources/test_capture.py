"""The capture loop on devices that follow a script: what they can do wrong, and what lanes and main see of it.

The real thing, with a sound server, is in test_capture_pipewire.py.
"""

from __future__ import annotations

import errno
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import pytest
from voiced.errors import DeviceError, InternalError
from voiced.sources.blocks import DATAGRAM_LIMIT, Block, unpack
from voiced.sources.capture import Capture
from voiced.sources.soundcard import Job, Opened, Stream, as_oserror
from voiced.wire import Link

SECOND = 10**9
PATIENCE = 60  # seconds after which a test fails instead of hanging


class Script:
    """A device that gives what `reads` yields, on a clock of its own: each read takes as long as its sound."""

    def __init__(self, reads: Callable[[Script], Iterator[bytes]], rate: int = 16_000, channels: int = 1) -> None:
        self.rate, self.channels = rate, channels
        self.now_ns = 1_000 * SECOND
        self.slept_ns = 0
        self.asked: list[int] = []
        self._reads = reads(self)

    def read(self, frames: int) -> tuple[bytes, bool]:
        self.asked.append(frames)
        data = next(self._reads)
        self.now_ns += len(data) // (2 * self.channels) * SECOND // self.rate
        return data, False

    def clock(self) -> int:
        return self.now_ns

    def asleep(self) -> int:
        return self.slept_ns

    def open(self, job: Job) -> tuple[Stream, Opened]:
        return self, Opened("script", "test", self.rate, self.channels, "it is the only one")


class Running:
    """A Capture on its own thread, main's end of its link, and its exit code."""

    def __init__(
        self, opener: Callable[[Job], tuple[Stream, Opened]], clock: Callable[[], int], asleep: Callable[[], int] = lambda: 0, **job: Any
    ) -> None:
        self.link, theirs = Link.pair()
        self.code: int | None = None
        self.error: Exception | None = None
        capture = Capture(Link(theirs), opener, clock, asleep)

        def run() -> None:
            try:
                self.code = capture.run()
            except InternalError as error:
                self.error = error

        self.thread = threading.Thread(target=run)
        self.thread.start()
        self.link.send({"device": "script", **job})

    def attach(self, name: str) -> socket.socket:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.settimeout(PATIENCE)
        assert self.link.send({"attach": name}, (theirs.fileno(),))
        theirs.close()
        return ours

    def heard(self) -> dict[str, Any]:
        message = self.link.receive(PATIENCE)
        assert message is not None, "capture says nothing"
        return message.body

    def end(self) -> int | None:
        self.link.close()
        self.thread.join(PATIENCE)
        assert not self.thread.is_alive()
        return self.code

    def failed(self, *, ends: bool = True) -> dict[str, Any]:
        """The report of a failure, which mostly ends the process."""
        while "failed" not in (body := self.heard()):
            pass
        if ends:
            self.thread.join(PATIENCE)
        failure: dict[str, Any] = body["failed"]
        return failure


def run(script: Script, **job: Any) -> Running:
    return Running(script.open, script.clock, script.asleep, **job)


def next_block(sock: socket.socket) -> Block:
    return unpack(sock.recv(DATAGRAM_LIMIT))


def counting(script: Script, gate: threading.Semaphore, frames: int = 640) -> Iterator[bytes]:
    """Blocks whose samples are all the block's number; each waits for the test to let it go."""
    number = 0
    while True:
        gate.acquire()
        yield number.to_bytes(2, sys.byteorder) * frames * script.channels
        number += 1


def test_blocks_reach_every_lane_with_their_place_and_time() -> None:
    gate = threading.Semaphore(0)
    script = Script(lambda script: counting(script, gate, 1920), rate=48_000, channels=2)
    running = run(script)
    opened = running.heard()["opened"]
    assert {**opened, "placement": None} == {
        "device": "script",
        "host": "test",
        "rate": 48_000,
        "channels": 2,
        "why": "it is the only one",
        "id": "",
        "source": "",
        "width": 2,
        "placement": None,
    }
    assert opened["placement"]["role"] == "capture"
    assert opened["placement"]["pid"] == os.getpid()
    assert opened["placement"]["actual"]
    lanes = [running.attach("one"), running.attach("two")]
    wait_attached(running)
    gate.release(3)
    for lane in lanes:
        got = [next_block(lane) for _ in range(3)]
        assert [block.sequence for block in got] == [0, 1, 2]
        assert [block.first for block in got] == [0, 1920, 3840]
        assert [block.ended_ns - 1_000 * SECOND for block in got] == [40_000_000, 80_000_000, 120_000_000]
        assert [(block.rate, block.channels, block.lost) for block in got] == [(48_000, 2, 0)] * 3
        assert [bytes(block.data[:2]) for block in got] == [number.to_bytes(2, sys.byteorder) for number in range(3)]
    assert script.asked[:3] == [1920] * 3
    gate.release()
    assert running.end() == 0


def wait_attached(running: Running) -> None:
    """Main's messages are obeyed in order: when this lane, attached and replaced, has ended, those before it are there."""
    first = running.attach("last")
    running.attach("last").close()
    while first.recv(1):
        pass  # blocks that came meanwhile
    first.close()


def test_a_lane_that_comes_again_replaces_its_socket_and_a_detached_one_ends() -> None:
    gate = threading.Semaphore(0)
    running = run(Script(lambda script: counting(script, gate)))
    running.heard()
    old = running.attach("lane")
    wait_attached(running)
    gate.release(2)
    assert [next_block(old).first for _ in range(2)] == [0, 640]
    new = running.attach("lane")
    assert old.recv(1) == b""
    gate.release()
    block = next_block(new)
    assert (block.first, block.sequence, block.lost) == (1280, 0, 0)
    running.link.send({"detach": "lane"})
    assert new.recv(1) == b""
    gate.release()
    assert running.end() == 0


@pytest.mark.slow  # on a busy machine its sleeper sometimes waits for a block that did not fit
def test_a_lane_that_does_not_read_loses_alone_and_is_told_how_much() -> None:
    gate = threading.Semaphore(0)
    script = Script(lambda script: counting(script, gate, 1920), rate=48_000, channels=8)
    running = run(script)
    running.heard()
    reader, sleeper = running.attach("reader"), running.attach("sleeper")
    wait_attached(running)
    count = 200  # 6 MB: many times what any socket holds
    for number in range(count):
        gate.release()
        block = next_block(reader)
        assert (block.sequence, block.lost, block.first) == (number, 0, number * 1920)
    assert len(script.asked) >= count
    kept = [next_block(sleeper)]
    while kept[-1].sequence < count - 1:
        if not has_more(sleeper):  # what was kept has been read: the next block fits again
            gate.release()
            next_block(reader)
        kept.append(next_block(sleeper))
    missing = [after.first - before.end for before, after in pairwise(kept)]
    assert [block.lost for block in kept[1:]] == missing
    assert sum(missing) > 0
    said: dict[str, Any] = {}
    while said.get("lanes", {}).get("sleeper") != sum(missing):
        gate.release()
        next_block(reader)
        next_block(sleeper)  # it reads again: nothing more is lost while the count is on its way
        message = running.link.receive(0)
        said = message.body if message else said
    assert said == {"lost": 0, "lanes": {"sleeper": sum(missing)}}
    gate.release()
    assert running.end() == 0


def has_more(sock: socket.socket) -> bool:
    try:
        return bool(sock.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT))
    except BlockingIOError:
        return False


def test_a_lane_that_dies_does_not_disturb_the_other() -> None:
    gate = threading.Semaphore(0)
    running = run(Script(lambda script: counting(script, gate)))
    running.heard()
    stays, dies = running.attach("stays"), running.attach("dies")
    wait_attached(running)
    gate.release()
    next_block(stays)
    dies.close()
    gate.release(3)
    assert [next_block(stays).sequence for _ in range(3)] == [1, 2, 3]
    gate.release()
    assert running.end() == 0


def test_a_loss_in_the_device_stands_in_the_next_block_and_in_the_report() -> None:
    gate = threading.Semaphore(0)

    def sleepy(script: Script) -> Iterator[bytes]:
        for number, data in enumerate(counting(script, gate)):
            if number == 75:
                script.now_ns += 2 * SECOND  # nothing came in that time and no flag says so
            yield data

    running = run(Script(sleepy))
    running.heard()
    lane = running.attach("lane")
    wait_attached(running)
    blocks = []
    for _ in range(150):
        gate.release()
        blocks.append(next_block(lane))
    lost = [(number, block.lost) for number, block in enumerate(blocks) if block.lost]
    assert len(lost) == 1
    assert 75 <= lost[0][0] <= 75 + 13  # known within half a second
    assert lost[0][1] == 32_000
    assert blocks[-1].end == 150 * 640 + 32_000
    assert running.heard() == {"lost": 32_000, "lanes": {}}
    gate.release()
    assert running.end() == 0


def raising(error: BaseException, after: int = 5) -> Callable[[Script], Iterator[bytes]]:
    def reads(script: Script) -> Iterator[bytes]:
        for _ in range(after):
            yield bytes(1280)
        raise error

    return reads


def ending(last: bytes) -> Callable[[Script], Iterator[bytes]]:
    def reads(script: Script) -> Iterator[bytes]:
        for _ in range(5):
            yield bytes(1280)
        while True:
            yield last

    return reads


@pytest.mark.parametrize(
    ("reads", "line", "number"),
    [
        (raising(OSError(errno.ENODEV, "No such device")), "script: No such device", errno.ENODEV),
        (raising(OSError(errno.EIO, "Unanticipated host error")), "script: Unanticipated host error", errno.EIO),
        (ending(b""), "script: it has ended: no frame came, 640 expected; it is opened again", 0),
        (ending(b"abc"), "script: 3 bytes came, whole frames of 1 channels expected", 0),
    ],
)
def test_a_device_that_fails_ends_the_process_with_one_line(reads: Callable[[Script], Iterator[bytes]], line: str, number: int) -> None:
    """CASES D2, D7: never running but deaf, and no busy loop where reads give nothing; main begins another process."""
    script = Script(reads)
    running = run(script)
    health = "clock_mismatch" if "whole frames" in line else "no_device"
    assert running.failed() == {"error": line, "errno": number, "health": health}
    assert running.code == DeviceError.exit_code == 74
    assert len(script.asked) == 6  # no busy loop on a device that has ended


def test_five_losses_are_counted_and_placed_one_by_one() -> None:
    """CASES R14: each in its place, the sum in the report, and the sound goes on."""
    gate = threading.Semaphore(0)
    at = [75, 150, 225, 300, 375]

    def reads(script: Script) -> Iterator[bytes]:
        for number, data in enumerate(counting(script, gate)):
            if number in at:
                script.now_ns += SECOND
            yield data

    running = run(Script(reads))
    running.heard()
    lane = running.attach("lane")
    wait_attached(running)
    blocks = []
    for _ in range(450):
        gate.release()
        blocks.append(next_block(lane))
    lost = {number: block.lost for number, block in enumerate(blocks) if block.lost}
    assert list(lost.values()) == [16_000] * 5
    assert all(made <= seen <= made + 13 for made, seen in zip(at, lost, strict=True))
    assert blocks[-1].end == 450 * 640 + 5 * 16_000
    said: dict[str, Any] = {}
    while said.get("lost") != 5 * 16_000:
        said = running.heard()
    gate.release()
    assert running.end() == 0


def test_short_reads_are_sound() -> None:
    gate = threading.Semaphore(0)

    def short(script: Script) -> Iterator[bytes]:
        for frames in (640, 1, 7, 300):
            gate.acquire()
            yield bytes(2 * frames)
        raise OSError(errno.ENODEV, "unplugged")

    running = run(Script(short))
    running.heard()
    lane = running.attach("lane")
    wait_attached(running)
    gate.release(4)
    blocks = [next_block(lane) for _ in range(4)]
    assert [(block.first, block.frames) for block in blocks] == [(0, 640), (640, 1), (641, 7), (648, 300)]
    assert running.failed()["errno"] == errno.ENODEV


@pytest.mark.parametrize(("times", "rate"), [(0.5, "8,000"), (2.0, "32,000"), (3.0, "48,000"), (2.76, "44,1")])
def test_a_rate_that_lies_is_a_failure(times: float, rate: str) -> None:
    """CASES R1, R11: sound of another rate under this one's name, or two channels read as one (twice the frames)."""

    def lies(script: Script) -> Iterator[bytes]:
        while True:
            script.now_ns += round(40_000_000 / times) - 40_000_000
            yield bytes(1280)

    running = run(Script(lies))
    failure = running.failed()
    assert f"gives {rate}" in failure["error"] and "frames a second where 16,000 were agreed" in failure["error"]
    assert failure["health"] == "clock_mismatch"
    assert running.code == 74


def test_a_device_that_cannot_be_opened_is_a_failure_with_its_number() -> None:
    def refuse(job: Job) -> tuple[Stream, Opened]:
        raise DeviceError(job.device, "it cannot be opened", "another program holds it") from OSError(errno.EBUSY, "busy")

    running = Running(refuse, lambda: 0)
    line = "script: it cannot be opened; another program holds it"
    assert running.failed() == {"error": line, "errno": errno.EBUSY, "health": "no_device"}
    assert running.code == 74


def test_what_is_not_there_is_looked_for_until_it_is() -> None:
    """CASES H1, H6, H9: the same process, which says once why it waits, opens it when it has come."""
    script = Script(ending(b""))
    tries = iter(["there is no device", "there is no device", "another program holds it"])

    def appear(job: Job) -> tuple[Stream, Opened]:
        what = next(tries, None)
        if what:
            raise DeviceError("script", what)
        return script.open(job)

    running = Running(appear, script.clock, looks=10, reopen_ms=1, reopen_max_ms=1)
    heard = [running.heard() for _ in range(6)]
    assert [next(iter(one)) for one in heard] == ["failed", "looking", "looking", "failed", "looking", "opened"]
    assert [one["failed"]["error"] for one in heard if "failed" in one] == [
        "script: there is no device",
        "script: another program holds it",
    ]
    assert "it has ended" in running.failed()["error"]


def test_after_so_many_looks_another_process_shall_try() -> None:
    def refuse(job: Job) -> tuple[Stream, Opened]:
        raise DeviceError(job.device, "there is none")

    running = Running(refuse, lambda: 0, looks=3, reopen_ms=1, reopen_max_ms=1)
    heard = [running.heard() for _ in range(4)]
    assert [next(iter(one)) for one in heard] == ["failed", "looking", "looking", "failed"]
    running.thread.join(PATIENCE)
    assert running.code == 74


def test_a_process_that_waits_for_its_device_is_not_taken_for_one_that_hangs() -> None:
    def refuse(job: Job) -> tuple[Stream, Opened]:
        raise DeviceError(job.device, "there is none")

    running = Running(refuse, lambda: 0, looks=2, reopen_ms=1500, reopen_max_ms=1500, stall_ms=100)
    assert running.failed(ends=False)["error"] == "script: there is none"
    heard = [running.heard(), running.heard()]
    assert heard[0] == {"looking": 1}
    assert heard[1]["failed"]["health"] == "no_device"  # not stalled, after ten stall times and a half


def test_a_link_that_closes_ends_a_process_that_waits() -> None:
    def refuse(job: Job) -> tuple[Stream, Opened]:
        raise DeviceError(job.device, "there is none")

    running = Running(refuse, lambda: 0, looks=1000, reopen_ms=60_000, reopen_max_ms=60_000)
    assert "failed" in running.heard()
    assert running.end() == 0


@pytest.mark.parametrize("hours", [1, 9])
def test_a_machine_that_has_slept_opens_its_device_again(hours: int) -> None:
    """CASES D13: CLOCK_BOOTTIME has gone on; what was read over the gap is not handed to anybody."""
    gate = threading.Semaphore(0)

    def sleepy(script: Script) -> Iterator[bytes]:
        for number, data in enumerate(counting(script, gate)):
            if number == 5:
                script.slept_ns += hours * 3600 * SECOND
            yield data

    running = run(Script(sleepy))
    running.heard()
    lane = running.attach("lane")
    wait_attached(running)
    gate.release(6)
    assert running.failed()["error"] == f"script: the machine has slept for {hours * 3600:,} s; it is opened again"
    assert running.code == 74
    assert [next_block(lane).first for _ in range(5)] == [640 * number for number in range(5)]
    lane.setblocking(False)
    with pytest.raises(BlockingIOError):
        lane.recv(1)


def test_zeros_are_told_and_left_alone() -> None:
    """CASES H10: ten minutes of digital silence after real sound, then sound again: told twice, and not a block is lost."""
    gate = threading.Semaphore(0)
    loud, zeros = 50, 10 * 60 * 25

    def reads(script: Script) -> Iterator[bytes]:
        for number in range(2 * loud + zeros):
            gate.acquire()
            yield bytes(1280) if loud <= number < loud + zeros else b"\x01" * 1280

    running = run(Script(reads))
    assert "opened" in running.heard()
    lane = running.attach("lane")
    wait_attached(running)
    for number in range(loud + zeros + loud - 1):
        gate.release()
        block = next_block(lane)
        assert (block.first, block.lost) == (number * 640, 0)
        if number == loud + 10 * 25 - 1:
            assert running.heard() == {"silent": True, "muted": False}
    assert running.heard() == {"silent": False, "muted": False}
    assert running.link.receive(0) is None
    gate.release(2)
    running.end()


def test_a_bit_that_flips_is_no_digital_silence() -> None:
    """CASES H4: one bit of noise is a level, not a state."""
    gate = threading.Semaphore(0)

    def reads(script: Script) -> Iterator[bytes]:
        while True:
            gate.acquire()
            yield bytes(1278) + b"\x01\x00"

    running = run(Script(reads))
    assert "opened" in running.heard()
    lane = running.attach("lane")
    wait_attached(running)
    for _ in range(20 * 25):
        gate.release()
        next_block(lane)
    assert running.link.receive(0) is None
    gate.release()
    running.end()


def test_a_fault_of_ours_is_called_one(capfd: pytest.CaptureFixture[str]) -> None:
    running = run(Script(raising(ZeroDivisionError("oops"))))
    assert "ZeroDivisionError: oops" in running.failed()["error"]
    assert running.code == InternalError.exit_code
    assert "Traceback" in capfd.readouterr().err


def stuck_after(blocks: int, free: threading.Event) -> Callable[[Script], Iterator[bytes]]:
    def reads(script: Script) -> Iterator[bytes]:
        for _ in range(blocks):
            yield bytes(1280)
        free.wait()
        raise OSError(errno.EIO, "let go")

    return reads


@pytest.mark.parametrize(("blocks", "line"), [(3, "no sound for"), (0, "not open after")])
def test_a_read_that_never_returns_is_seen(blocks: int, line: str) -> None:
    """CASES D1, H8, S10 (a sound library that hangs where it is loaded has the same deadline)."""
    free = threading.Event()
    running = run(Script(stuck_after(blocks, free)), stall_ms=100)
    try:
        failure = running.failed()
        assert failure["error"].startswith(f"script: {line}")
        assert (failure["errno"], failure["health"]) == (errno.ETIMEDOUT, "stalled")
        assert running.code == 74
    finally:
        free.set()


def test_a_device_that_is_open_and_gives_nothing_is_late_before_it_is_given_up() -> None:
    """CASES H12: open succeeds, 0 frames."""
    free = threading.Event()
    running = run(Script(stuck_after(0, free)), stall_ms=40)
    try:
        assert "opened" in running.heard()
        assert 0.08 <= running.heard()["late"] < 0.4  # twice the time at least; it may have opened late
        assert running.failed()["health"] == "stalled"
    finally:
        free.set()


def test_lanes_come_and_the_process_ends_while_a_read_is_stuck() -> None:
    free = threading.Event()
    running = run(Script(stuck_after(3, free)), stall_ms=60_000)
    try:
        running.heard()
        wait_attached(running)
        assert running.end() == 0
    finally:
        free.set()


def test_an_unknown_message_is_named() -> None:
    free = threading.Event()
    running = run(Script(stuck_after(3, free)), stall_ms=60_000)
    try:
        running.heard()
        assert running.link.send({"attach": "lane"})
        running.thread.join(PATIENCE)
        assert "{'attach': 'lane'} with 0 descriptors, attach (with one) or detach expected" in str(running.error)
    finally:
        free.set()


def test_no_job_before_the_link_closes_is_no_error() -> None:
    ours, theirs = Link.pair()
    ours.close()
    assert Capture(Link(theirs), Script(ending(b"")).open).run() == 0


@pytest.mark.parametrize(
    ("args", "number", "text"),
    [
        (("Error opening stream: Invalid sample rate", -9997), errno.EINVAL, "Error opening stream: Invalid sample rate"),
        (("Device unavailable", -9985), errno.EBUSY, "Device unavailable"),
        (("Unanticipated host error", -9999, (0, -19, "No such device")), errno.ENODEV, "Unanticipated host error: No such device"),
        (("Unanticipated host error", -9999, (0, 0, "")), errno.EIO, "Unanticipated host error"),
        (("something", -1), errno.EIO, "something"),
    ],
)
def test_the_sound_librarys_errors_get_numbers(args: tuple[Any, ...], number: int, text: str) -> None:
    error = as_oserror(args)
    assert (error.errno, error.strerror) == (number, text)


def child(code: str, *arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, **options)


def test_capture_is_light_until_and_after_it_opens() -> None:
    """Neither NumPy nor the sound library comes with the module; NumPy not even with the library."""
    code = (
        "import sys; import voiced.sources.capture as c; assert not {'numpy', 'sounddevice'} & set(sys.modules)\n"
        "from voiced.sources.soundcard import SoundCard\n"
        "try: SoundCard().devices()\n"
        "except Exception as error: print(error)\n"
        "assert 'numpy' not in sys.modules"
    )
    result = child(code)
    assert result.returncode == 0, result.stderr


def test_without_portaudio_the_package_is_named() -> None:
    """The binding raises OSError on import when the C library is not there."""
    code = (
        "import ctypes.util, sys; sys.platform = 'linux'\n"
        "import cffi; real = cffi.FFI.dlopen\n"
        "ctypes.util.find_library = lambda name: None\n"
        "from voiced.sources.soundcard import SoundCard\n"
        "from voiced.errors import DeviceError\n"
        "try: SoundCard().devices()\n"
        "except DeviceError as error: print(error)"
    )
    result = child(code)
    assert result.stdout == ("capture: the sound library is missing (PortAudio library not found); install the package libportaudio2\n"), (
        result.stderr
    )
