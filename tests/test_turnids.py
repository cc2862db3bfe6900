"""Turn ids across starts, with any clock."""

from __future__ import annotations

import fcntl
import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from voiced.turnids import AHEAD, HIGHEST, LANE_SLOTS, TurnIds, state_folder


@given(st.lists(st.tuples(st.floats(0, 2e9), st.integers(0, 3 * AHEAD // LANE_SLOTS)), min_size=2, max_size=8))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
def test_no_id_is_given_twice_whatever_the_clock_says(tmp_path_factory: pytest.TempPathFactory, starts: list[tuple[float, int]]) -> None:
    """A board without a clock of its own: each start may be in 1970."""
    folder = tmp_path_factory.mktemp("state")
    last = -1
    for clock_s, turns in starts:
        ids = TurnIds(folder, lambda now=clock_s: now)  # type: ignore[misc]
        assert ids.first > last
        assert ids.first % LANE_SLOTS == 0, "a lane's slot is told by the remainder"
        last = ids.first + LANE_SLOTS - 1
        for step in (turns // 2, turns):  # the note follows what is given, not each one
            last = max(last, ids.first + step * LANE_SLOTS)
            for turn in range(ids.first, last + 1, AHEAD // 4):
                ids.given(turn)
            ids.given(last)


@given(st.floats(0, 2e9), st.lists(st.tuples(st.integers(0, 2), st.integers(1, AHEAD // LANE_SLOTS - 1)), max_size=12))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
def test_daemons_that_share_a_note_never_give_the_same(
    tmp_path_factory: pytest.TempPathFactory, clock_s: float, given_by: list[tuple[int, int]]
) -> None:
    """Three of one user, begun in the same millisecond of a clock that nothing keeps, and another after them."""
    folder = tmp_path_factory.mktemp("state")
    three = [TurnIds(folder, lambda: clock_s) for _ in range(3)]
    assert len({ids.first for ids in three}) == 3
    furthest = [ids.first for ids in three]
    for which, turns in given_by:  # fewer each than are noted ahead
        furthest[which] = max(furthest[which], three[which].first + turns * LANE_SLOTS)
        three[which].given(furthest[which])
    assert all(last < later.first for last, later in zip(furthest, three[1:], strict=False))
    assert TurnIds(folder, lambda: clock_s).first > max(furthest)


def test_processes_that_begin_at_once_share_the_note(tmp_path: Path) -> None:
    begin = "import sys; from pathlib import Path; from voiced import turnids; turnids.LOCK_S = 60; "  # eight times a slow disk
    begin += "print(turnids.TurnIds(Path(sys.argv[1]), lambda: 5.0).first)"
    running = [subprocess.Popen([sys.executable, "-c", begin, tmp_path], stdout=subprocess.PIPE, text=True) for _ in range(8)]
    firsts = [int(process.communicate()[0]) for process in running]
    assert sorted(firsts) == list(range(5_000 * LANE_SLOTS, 5_000 * LANE_SLOTS + 8 * AHEAD, AHEAD))


def test_a_daemon_that_was_stopped_with_the_note_in_its_hands_keeps_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("voiced.turnids.LOCK_S", 0.05)
    folder = os.open(tmp_path, os.O_RDONLY)
    fcntl.flock(folder, fcntl.LOCK_EX)
    assert TurnIds(tmp_path, lambda: 5.0).first == 5_000 * LANE_SLOTS
    os.close(folder)


def test_they_begin_with_the_clock(tmp_path: Path) -> None:
    assert TurnIds(tmp_path / "new" / "folder", lambda: 1_700_000_000.0).first == 1_700_000_000_000 * LANE_SLOTS
    assert int((tmp_path / "new" / "folder" / "turn-id").read_text()) == 1_700_000_000_000 * LANE_SLOTS + AHEAD
    assert TurnIds(None, lambda: 5.0).first == 5_000 * LANE_SLOTS


@pytest.mark.parametrize("content", [b"", b"soon", b"-5", b"1.5", b"\xff\xfe", str(HIGHEST + 1).encode()])
def test_a_note_that_is_none_is_said(tmp_path: Path, content: bytes, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "turn-id").write_bytes(content)
    with caplog.at_level(logging.WARNING, "voiced"):
        assert TurnIds(tmp_path, lambda: 5.0).first == 5_000 * LANE_SLOTS
    (line,) = caplog.messages
    assert str(tmp_path / "turn-id") in line and "turn ids begin with the clock" in line


def test_a_folder_that_cannot_be_written_is_said_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "file").write_text("")
    with caplog.at_level(logging.WARNING, "voiced"):
        ids = TurnIds(tmp_path / "file", lambda: 5.0)
        ids.given(10 * AHEAD)
    # what is below a file can neither be read nor written
    assert [("cannot be read" in line, "cannot be written" in line) for line in caplog.messages] == [(True, False), (False, True)]


def test_where_it_lies() -> None:
    assert state_folder({"STATE_DIRECTORY": "/var/lib/voiced:/elsewhere"}) == Path("/var/lib/voiced")
    assert state_folder({"XDG_STATE_HOME": "/x"}) == Path("/x/voiced")
    assert state_folder({"XDG_STATE_HOME": "not/absolute"}) == Path.home() / ".local" / "state" / "voiced"
