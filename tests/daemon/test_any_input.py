"""Whatever input into a whole daemon with its models: calls of its bus, files to hear."""

from __future__ import annotations

import random
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import soundfile
from bus.test_any_call import BASIC, CALLS
from fuzztable import own_mb
from hypothesis import given, settings
from hypothesis import strategies as st
from livedaemon import Listen, Start, assert_whole, descendants
from voiced.bus import interface
from voiced.bus.connection import CallError, Value, connect
from voiced.events import TurnClosed, Wake

Record = Callable[[str, object], None]

CALLS_LIMIT = 2000
FILES = 150
KEPT_MB = 40.0
"""That a process of the daemon may have more after it all: receipts of turns, decisions, what waits for who does not read."""

DICE = random.Random(18)


def _arguments(method: interface.Method) -> st.SearchStrategy[list[tuple[str, Any]]]:
    """What it takes, of any value."""
    options = st.dictionaries(st.sampled_from(["hold", "x"]), st.booleans().map(lambda value: Value("b", value)), max_size=2)
    known = {**BASIC, "a{sv}": options, "v": st.integers(0, 9).map(lambda value: Value("i", value))}
    return st.tuples(*(st.tuples(st.just(arg.signature), known[arg.signature]) for arg in method.takes)).map(list)


MEANT = st.sampled_from([(path, one, method) for path, one in (
    (interface.ROOT, interface.MANAGER), (interface.lane_path("desk"), interface.LANE), (interface.ROOT, interface.PROPERTIES),
) for method in one.methods]).flatmap(
    lambda where: st.tuples(st.just(where[0]), st.just(where[1].name), st.just(where[2].name), _arguments(where[2]))
)  # fmt: skip


@pytest.mark.slow
@pytest.mark.fuzz
def test_whatever_is_called_the_daemon_goes_on(
    start: Start, listen: Listen, bus: str, clock: Path, tmp_path: Path, record_property: Record
) -> None:
    """Calls that are right but for their values, and calls of anything, while a question is asked again and again."""
    config = tmp_path / "voiced.yaml"
    config.write_text(f"lanes: [{{name: desk, source: 'loop:{clock}'}}]\n")
    listener = listen(bus)
    voiced = start("voiced", "--config", config, "--bus", bus)
    turn = listener.event(Wake).turn
    listener.event(TurnClosed, turn)
    pids = listener.pids()
    before = {pid: own_mb(pid) for pid in set(pids.values())}
    client = listener.call(connect(bus))
    cases = 0

    @settings(max_examples=min(settings().max_examples, CALLS_LIMIT))
    @given(MEANT | CALLS)
    def any_call(call: tuple[str, str, str, list[tuple[str, Any]]]) -> None:
        nonlocal cases
        cases += 1
        path, name, member, typed = call
        signature = "".join(code for code, _ in typed)
        try:
            listener.call(client.call(interface.NAME, path, name, member, signature, *(value for _, value in typed), timeout_s=30))
        except CallError as error:
            assert error.name.startswith(("org.voiced.", "org.freedesktop.DBus.Error.")), error
            assert "Traceback" not in str(error) and "\n" not in str(error)

    any_call()
    listener.run(client.close)  # what it held and muted: holds end with it
    listener.mute(False)
    listener.mark()
    turn = listener.event(Wake).turn
    while True:  # one that was opened for the client may have ended with it
        listener.event(TurnClosed, turn)
        if [event for event in listener.events(turn) if type(event).__name__ == "Final"]:
            break
        listener.mark()
        turn = listener.event(Wake).turn
    assert_whole(listener.events(turn))
    assert listener.pids() == pids, voiced.err
    growth = max(own_mb(pid) - before[pid] for pid in before)
    record_property("cases", cases)
    record_property("growth_mb", growth)
    assert growth < KEPT_MB
    assert voiced.stop() == 0
    assert "Traceback" not in voiced.err and "was not published" not in voiced.err, voiced.err


def damaged(whole: bytes) -> bytes:
    """One with bytes changed in its head or anywhere, or cut, or of another length than it says, or nothing but noise."""
    content = bytearray(whole)
    match DICE.randrange(5):
        case 0:
            for _ in range(DICE.randrange(1, 5)):
                content[DICE.randrange(min(64, len(content)))] = DICE.randrange(256)
        case 1:
            for _ in range(DICE.randrange(1, 40)):
                content[DICE.randrange(len(content))] = DICE.randrange(256)
        case 2:
            del content[DICE.randrange(len(content)) :]
        case 3:
            content += DICE.randbytes(DICE.randrange(9000))
        case _:
            content[44:] = DICE.randbytes(len(content) - 44)
    return bytes(content)


@pytest.mark.slow
@pytest.mark.fuzz
def test_whatever_file_is_heard_or_is_one_line(start: Start, clock: Path, tmp_path: Path, record_property: Record) -> None:
    """WAV and FLAC, damaged; a whole one after them is heard as ever."""
    soundfile.write(tmp_path / "whole.flac", *soundfile.read(clock, dtype="int16"))
    whole = {"wav": clock.read_bytes(), "flac": (tmp_path / "whole.flac").read_bytes()}
    files = []
    for number in range(FILES):
        kind = DICE.choice(sorted(whole))
        files.append(tmp_path / f"{number}.{kind}")
        files[-1].write_bytes(damaged(whole[kind]))
    voiced = start("voiced", "--input", *files, clock, "--json")
    looks = [0.0]
    while not voiced.ended:
        looks.append(max(map(_own_mb, descendants(voiced.pid)), default=0.0))
        time.sleep(0.1)
    assert voiced.wait() in (0, 65), voiced.err
    assert "Traceback" not in voiced.err
    told = [match[1] for line in voiced.err.splitlines() if (match := re.match(r"voiced: (\S+?/\d+\.(?:wav|flac)): ", line))]
    assert len(told) == len(voiced.err.splitlines()), voiced.err
    finals = [line["text"] for line in voiced.objects() if line["event"] == "Final" and line["file"] == str(clock)]
    assert finals == ["What time is it?"]
    half = len(looks) // 2
    record_property("cases", FILES)
    record_property("growth_mb", max(looks[half:]) - max(looks[:half]))


def _own_mb(pid: int) -> float:
    try:
        return own_mb(pid)
    except OSError:  # it has ended
        return 0.0
