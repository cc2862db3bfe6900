"""What becomes of a daemon whose microphone, or whose sound server, goes and comes: on a real server, without hardware. `tools/faults`
prints it, too.

The names are those of the catalogue of what goes wrong for people.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest
from debugger import held
from faulttable import Fault
from livedaemon import PATIENCE, Listen, Listener, Process, Start, environment, until
from soundserver import SoundServer, own_server, write_tone
from voiced.events import CloseReason, Final, TurnClosed, Wake

CLOCK = "What time is it?"

Begin = Callable[..., AbstractContextManager[tuple[Process, Listener]]]


@pytest.fixture
def begin(start: Start, listen: Listen, bus: str, tmp_path: Path) -> Begin:
    """begin(server, source, lanes=("desk",)): a daemon that hears it, and a listener; it ends well, and without a traceback. `last`: what
    the last lane has instead."""

    @contextmanager
    def begun(server: SoundServer, source: str, lanes: tuple[str, ...] = ("desk",), last: str = "") -> Iterator[tuple[Process, Listener]]:
        config = tmp_path / "voiced.yaml"
        sources = [*(source for _ in lanes[1:]), last or source]
        entries = "".join(f"  - name: {lane}\n    source: {one}\n" for lane, one in zip(lanes, sources, strict=True))
        config.write_text(f"lanes:\n{entries}second_pass:\n  deadline_ms: 20000\n")
        mine = environment(tmp_path)
        listener = listen(bus)
        env = server.env | {name: mine[name] for name in ("PYTHONPATH", "VOICED_CACHE")}
        process = start("voiced", "--config", config, "--bus", bus, env=env)
        listener.lane(Health="ok")
        yield process, listener
        assert process.stop() == 0, process.err
        assert "Traceback" not in process.err, process.err

    return begun


def assert_wakes(server: SoundServer, listener: Listener, path: Path, sink: str) -> None:
    """The next turn is heard whole."""
    listener.mark()
    player = server.play(path, sink)
    turn = listener.event(Wake).turn
    listener.event(TurnClosed, turn)
    assert listener.event(Final, turn).text == CLOCK
    assert player.wait(PATIENCE) == 0


def others(before: dict[str, int], after: dict[str, int]) -> None:
    """Capture alone is another process."""
    assert {role for role in before if before[role] != after.get(role)} == {"capture"}


def test_a_microphone_that_is_unplugged_is_found_again_by_its_name(
    pipewire: SoundServer, begin: Begin, clock: Path, faults: list[Fault]
) -> None:
    """CASES H1, D1, D2: no_device while it is away, though another microphone is there; the same one when it is back; said once."""
    pipewire.listen_to("mic16")
    with begin(pipewire, "mic48-mic") as (process, listener):
        pids = listener.pids()
        turn = listener.trigger()
        listener.mark()
        pipewire.unplug("mic48")
        try:
            closed = listener.event(TurnClosed, turn)
            assert closed.reason is CloseReason.AUDIO_LOST
            listener.lane(Health="no_device")
            process.says("there is no device 'mic48-mic'; there are: ")
        finally:
            listener.mark()
            pipewire.microphone("mic48", "channels=2")
        began = time.monotonic()
        listener.lane(Health="ok")
        faults.append(Fault("awake", "microphone", "unplugged for a while", closed.reason.value, seconds=time.monotonic() - began))
        assert_wakes(pipewire, listener, clock, "mic48")
        others(pids, listener.pids())
        assert listener.status()["statistics"]["capture_restarts"] >= 1
        assert process.err.count("there is no device 'mic48-mic'") == 1


def test_a_sound_server_that_is_started_again_is_found(begin: Begin, clock: Path, faults: list[Fault]) -> None:
    """CASES H2: it is away for a while, and everything else lives."""
    with own_server() as server:
        server.start_with_mic16()
        with begin(server, "auto") as (process, listener):
            pids = listener.pids()
            listener.mark()
            server.stop()
            listener.lane(Health="no_device")
            process.says("there is no device that records")
            listener.mark()
            server.start_with_mic16()
            began = time.monotonic()
            listener.lane(Health="ok")
            faults.append(Fault("asleep", "sound server", "away for a while", "no device", seconds=time.monotonic() - began))
            assert_wakes(server, listener, clock, "mic16")
            others(pids, listener.pids())


@pytest.mark.slow  # the sound library hangs in a server that is stopped, and each process is given ten seconds to open
def test_a_sound_server_that_hangs_is_a_stall(begin: Begin, clock: Path, faults: list[Fault]) -> None:
    """CASES D1, H8, H12: no error, no sound; reads hang and are killed; heard again when the server goes on."""
    with own_server() as server:
        server.start_with_mic16()
        with begin(server, "auto") as (process, listener):
            pids = listener.pids()
            listener.mark()
            server.signal("pipewire", signal.SIGSTOP)
            try:
                listener.lane(Health="stalled")
            finally:
                listener.mark()
                server.signal("pipewire", signal.SIGCONT)
            began = time.monotonic()
            listener.lane(Health="ok")
            faults.append(Fault("asleep", "sound server", "SIGSTOP, then SIGCONT", "stalled", seconds=time.monotonic() - began))
            assert_wakes(server, listener, clock, "mic16")
            others(pids, listener.pids())
            assert process.err.count("no sound for") == 1


def test_digital_silence_is_a_health_and_no_reason_to_begin_again(
    pipewire: SoundServer, begin: Begin, clock: Path, faults: list[Fault]
) -> None:
    """CASES H10: nobody plays into the sink; it is told with a reason, a client may still open a turn, and the next word ends it."""
    pipewire.listen_to("mic16")
    with begin(pipewire, "auto") as (_, listener):
        pids = listener.pids()
        listener.lane(Health="digital_silence")
        (lane,) = listener.status()["lanes"]
        assert "nothing but zeros comes" in lane["reason"]
        turn = listener.trigger()
        listener.cancel()
        listener.event(TurnClosed, turn)
        listener.mark()
        assert_wakes(pipewire, listener, clock, "mic16")
        listener.lane(Health="ok")
        assert listener.pids() == pids
        faults.append(Fault("any", "microphone", "nothing but zeros", "digital silence", "second pass", seconds=0.0))


def test_a_muted_lane_gets_no_sample_though_another_hears_the_same_device(pipewire: SoundServer, begin: Begin) -> None:
    """Mute is not a flag that a stage looks at: the pipe of that lane is closed, and the one end that is left is gone."""
    pipewire.listen_to("mic16")
    with begin(pipewire, "auto", ("desk", "door")) as (_, listener):
        pids = listener.pids()

        def blocks(lane: str) -> float:
            return float(listener.status()["statistics"].get(f"{lane}.blocks", 0))

        def sockets() -> set[str]:
            found = set()
            for fd in Path(f"/proc/{pids['capture']}/fd").iterdir():
                try:
                    found.add(str(fd.readlink()))
                except OSError:  # it was closed meanwhile
                    continue
            return {one for one in found if one.startswith("socket:")}

        until(lambda: blocks("desk") > 25 and blocks("door") > 25, "both to hear")
        before = sockets()
        listener.mute(True, "desk")
        until(lambda: len(sockets()) == len(before) - 1, "the end of the muted lane's socket")
        first = blocks("door")
        until(lambda: blocks("door") > first + 50, "some beats after that")  # the last of what was on its way is told
        then, first = blocks("desk"), blocks("door")
        until(lambda: blocks("door") > first + 75, "the other to hear three seconds more")
        assert blocks("desk") == then
        listener.mute(False, "desk")
        until(lambda: blocks("desk") > then + 25, "the first to hear again")


def test_a_lane_that_was_too_slow_is_overloaded_for_a_while(pipewire: SoundServer, begin: Begin, faults: list[Fault]) -> None:
    """CASES D9, R14: it is held until its socket is full, and goes on: counted, said, and over after some seconds."""
    pipewire.listen_to("mic48")
    try:
        with begin(pipewire, "auto") as (process, listener):
            pids = listener.pids()
            listener.mark()
            with held(pids["ears"]):
                process.says("lane desk was too slow for ")
            listener.lane(Health="overloaded")
            assert listener.status()["statistics"]["capture_frames_late"] > 0
            (lane,) = listener.status()["lanes"]
            assert "too slow for what it hears" in lane["reason"]
            listener.wait(lambda item: getattr(item, "values", {}).get("Health") in ("ok", "digital_silence"), "the end of it")
            assert listener.pids() == pids
            faults.append(Fault("asleep", "ears", "held until sound is lost", "overloaded, then ok", seconds=0.0))
    finally:
        pipewire.listen_to("mic16")


def test_a_channel_that_the_device_has_not_is_told_and_costs_no_other_lane(pipewire: SoundServer, begin: Begin, tmp_path: Path) -> None:
    """The lane that names it is not begun again and again, with all its models; the one beside it hears."""
    pipewire.listen_to("mic16")
    mine = "auto\n    channel: 0", "auto\n    channel: 3"
    with begin(pipewire, mine[0], ("desk", "door"), last=mine[1]) as (process, listener):
        line = "auto: there is no channel 3: the device gives channel 0 alone; name one of these, or auto, or mix"
        process.says(f"lane door: {line}")
        pids = listener.pids()
        until(lambda: listener.status()["statistics"].get("desk.blocks", 0) > 50, "some seconds of sound")
        (door,) = (lane for lane in listener.status()["lanes"] if lane["name"] == "door")
        assert (door["health"], door["reason"]) == ("no_device", line)
        assert listener.pids() == pids


def test_the_channel_that_was_chosen_is_in_the_log(pipewire: SoundServer, begin: Begin, tmp_path: Path) -> None:
    """CASES R8, R10."""
    pipewire.listen_to("mic48")
    try:
        with begin(pipewire, "auto") as (process, listener):
            assert pipewire.play(write_tone(tmp_path / "tone.wav", 5.0, [0, 440], 48_000), "mic48").wait(PATIENCE) == 0
            process.says("lane desk: channel 1 of 2 is heard; dBFS: ")
            assert listener.status()["statistics"]["desk.channel"] == 1
    finally:
        pipewire.listen_to("mic16")
