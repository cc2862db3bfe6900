"""A disk that is slow or full: no lane waits for it, and what is lost is told."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import soundfile
from numpy import zeros
from voiced.desk import Published
from voiced.errors import InputError, OutputError
from voiced.events import CloseReason, Final, TextSource, TurnClosed
from voiced.folder import Folder
from voiced.receipts import Attempt, Receipt
from voiced.results import WAITING, Results
from voiced.settings import defaults


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    where = tmp_path / "in"
    where.mkdir()
    for name in "abcde":
        soundfile.write(where / f"{name}.wav", zeros(160, "int16"), 16_000)
    return Folder(where, 2)


def say(results: Results, turn: int, text: str = "Yes.", reason: CloseReason = CloseReason.SILENCE) -> None:
    for event in (
        Final(0, turn, text, TextSource.SECOND_PASS, "yes", "", {"transducer_ms": 100.0}, second_pass=text, attempt=1),
        TurnClosed(0, turn, reason, 0, 16_000),
    ):
        results.news(Published("lane1", turn, event, 0, 0))


def receipt(turn: int, first: int = 0) -> Receipt:
    attempts = (Attempt(1, 0, "used", compute_ms=50.0, samples=8_000),)
    return Receipt(turn, "lane1", 0, "", first, first + 16_000, "silence", 1000.0, clocked=True, attempts=attempts)


def test_files_are_dealt_out_and_heard_in_order(folder: Folder, tmp_path: Path) -> None:
    assert [lane.source.rpartition("/")[2] for lane in folder.lanes] == ["a.wav", "b.wav"]
    assert folder.next("lane1").endswith("/c.wav")
    for position in (700, 900):  # the lane was begun again
        folder.opened("lane1", "WAV", position)
        assert folder.playing("lane1") == (tmp_path / "in" / "c.wav", position)
    assert folder.formats == {"WAV": 1}
    assert [folder.next(lane)[-5:] for lane in ("lane1", "lane2", "lane1", "lane2")] == ["e.wav", "d.wav", "", ""]
    with pytest.raises(InputError, match="has nothing to hear: no files"):
        (tmp_path / "none").mkdir()
        Folder(tmp_path / "none", 2)


def test_names_that_no_lane_can_be_given_are_told_before_anything_is_heard(tmp_path: Path) -> None:
    """However late a lane would come to them."""
    for name in (b"a.wav", b"b.wav", b"c\n.wav", b"d\xff.wav"):
        (tmp_path / os.fsdecode(name)).touch()
    odd = f"'{tmp_path}/c\\n.wav', '{tmp_path}/d\\udcff.wav'"
    with pytest.raises(InputError) as caught:
        Folder(tmp_path, 1)
    assert str(caught.value) == f"{odd}: a file's path must be printable text of some length; rename it"


def test_there_are_no_more_lanes_than_files(tmp_path: Path) -> None:
    soundfile.write(tmp_path / "a.wav", zeros(160, "int16"), 16_000)
    assert len(Folder(tmp_path, 8).lanes) == 1


def test_a_disk_that_stands_still_keeps_nobody_waiting_and_what_is_lost_is_told(
    folder: Folder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("voiced.results.FLUSH_SECONDS", 0.1)
    results = Results(tmp_path / "out", defaults(), folder)
    results.follow(receipt)
    slow = tmp_path / "out" / "results" / "lane1.txt"
    slow.unlink()
    os.mkfifo(slow)  # opening it waits for a reader that does not come
    for turn in range(1, WAITING):
        say(results, turn)
    assert results.lost > WAITING
    with pytest.raises(OutputError, match="lines could not be written in time; name a faster disk"):
        results.finish({})
    assert '"lines_lost": ' in (tmp_path / "out" / "metrics.json").read_text()
    os.close(os.open(slow, os.O_RDONLY | os.O_NONBLOCK))  # lets the writer go


def test_a_lane_that_is_begun_again_writes_nothing_twice(folder: Folder, tmp_path: Path) -> None:
    """It hears its file from the beginning."""
    results = Results(tmp_path / "out", defaults(), folder)
    firsts = {1: 1_000, 2: 30_000, 3: 60_000, 4: 101_100, 5: 130_000, 6: 159_000, 7: 190_000, 8: 300_000}
    results.follow(lambda turn: receipt(turn, firsts[turn]))
    say(results, 1, "one")
    say(results, 2, "two")
    say(results, 3, "thr", CloseReason.RESTARTED)
    folder.opened("lane1", "WAV", 100_000)
    for turn, text in enumerate(("one", "two", "three", "four"), 4):
        say(results, turn, text)
    folder.next("lane1")
    folder.opened("lane1", "WAV", 299_000)
    say(results, 8, "five")
    results.finish({})
    assert (tmp_path / "out" / "results" / "lane1.txt").read_text().split() == ["one", "two", "three", "four", "five"]


def test_a_disk_that_fails_is_told(folder: Folder, tmp_path: Path) -> None:
    results = Results(tmp_path / "out", defaults(), folder)
    results.follow(receipt)
    (tmp_path / "out" / "results" / "lane1.txt").unlink()
    (tmp_path / "out" / "results" / "lane1.txt").symlink_to("/dev/full")
    say(results, 1)
    with pytest.raises(OutputError, match="No space left on device; make room"):
        results.finish({})
