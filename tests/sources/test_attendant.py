"""A recording that is not of the source that was opened is ended, and nothing else is."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from soundserver import wait_for
from voiced.sources import attendant, servers
from voiced.sources.attendant import Attendant
from voiced.sources.servers import Server, Source
from voiced.sources.soundcard import Opened
from voiced.sources.surroundings import Surroundings

DESK = Source("desk", "Desk", 48_000, 1, monitor=False, muted=False)
ATTIC = Source("attic", "Attic", 48_000, 1, monitor=False, muted=False)
PLAYED = Source("speakers.monitor", "Monitor", 48_000, 2, monitor=True, muted=False)
OPENED = Opened("Desk", "PipeWire", 48_000, 1, "why", "desk", "desk")


class Room:
    """A server whose state a test sets, and what the attendant says."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.server: Server | None = Server("PulseAudio", "desk", (DESK, ATTIC, PLAYED))
        self.source: str | None = "desk"
        self.lost: list[str] = []
        self.asked = 0
        monkeypatch.setattr(attendant, "ask", self._ask)
        monkeypatch.setattr(attendant, "ours", lambda: self.source)
        monkeypatch.setattr(attendant, "events", self._events)
        self.happens = False
        self.kinds = frozenset({"source-output"})

    def _ask(self) -> Server | None:
        self.asked += 1
        return self.server

    def _events(self) -> Iterator[frozenset[str]]:
        if self.happens:  # once a second, to every attendant that a test has left behind, too
            yield self.kinds

    def verdict(self, *, follows: bool) -> list[str]:
        """What is said of it once it was looked at."""
        Attendant(self.lost.append).watch(OPENED, follows=follows)
        wait_for(lambda: self.asked >= 1, "a look")
        return self.lost


@pytest.fixture
def room(monkeypatch: pytest.MonkeyPatch) -> Room:
    return Room(monkeypatch)


MOVED = "the sound server has moved the recording to 'attic', another source than the one that was opened"


@pytest.mark.parametrize("follows", [True, False])
def test_what_was_moved_is_told(room: Room, follows: bool) -> None:
    room.source = "attic"
    room.verdict(follows=follows)
    wait_for(lambda: room.lost == [MOVED], "the word")


def test_a_new_default_is_followed_by_who_asked_for_the_default(room: Room) -> None:
    room.server = Server("PipeWire", "attic", (DESK, ATTIC, PLAYED))
    room.verdict(follows=True)
    wait_for(lambda: room.lost == ["the sound server's default source is now 'attic'"], "the word")


@pytest.mark.parametrize(
    ("server", "source", "follows"),
    [
        (Server("PipeWire", "desk", (DESK, ATTIC)), "desk", True),
        (Server("PipeWire", "attic", (DESK, ATTIC)), "desk", False),  # a named one stays
        (Server("PipeWire", "speakers.monitor", (DESK, PLAYED)), "desk", True),  # a monitor is no default
        (Server("PipeWire", "", (DESK,)), "desk", True),
        (None, "attic", True),  # it does not answer: nothing is known
        (Server("PipeWire", "desk", (DESK,)), None, True),  # no stream yet: the reads will tell
    ],
)
def test_what_is_as_it_should_be_goes_on(room: Room, server: Server | None, source: str | None, follows: bool) -> None:
    room.server, room.source = server, source
    assert room.verdict(follows=follows) == []


def test_what_happens_later_is_seen_once(room: Room) -> None:
    it = Attendant(room.lost.append)
    it.watch(OPENED, follows=False)
    wait_for(lambda: room.asked >= 1, "the first look")
    assert room.lost == []
    room.source, room.happens = "attic", True
    wait_for(lambda: room.lost == [MOVED], "the word")
    assert it.wait(60)  # the event wakes who waits
    assert it.wait(60)
    assert room.lost == [MOVED]


@pytest.mark.parametrize(
    ("address", "jack", "told"), [("", False, True), ("tcp:far.example", False, False), ("", True, False), ("tcp:far.example", True, False)]
)
def test_who_is_told_of_nothing_looks_for_itself(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, address: str, jack: bool, told: bool
) -> None:
    """CASES H2: without a server the file system tells of one, but not of one elsewhere, nor of what becomes of JACK's devices."""
    monkeypatch.setattr(attendant, "sockets", lambda: [])
    monkeypatch.setattr(servers, "SHARED", tmp_path)
    monkeypatch.delenv("PULSE_SERVER", raising=False)
    if address:
        monkeypatch.setenv("PULSE_SERVER", address)
    if jack:
        (tmp_path / "jack_default_1000_0").touch()
    assert Attendant(print).told is told


def test_a_jack_server_that_comes_is_seen(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """CASES H2."""
    monkeypatch.setattr(servers, "SHARED", tmp_path)
    surroundings = Surroundings()
    assert not surroundings.changed()
    (tmp_path / "jack_default_1000_0").touch()
    assert surroundings.changed() and not surroundings.changed()


def test_what_was_moved_before_the_server_was_asked_to_tell_is_seen(room: Room) -> None:
    """The first word of the server may be of something else: it is looked at what was missed till then."""
    it = Attendant(room.lost.append)
    it.watch(OPENED, follows=False)
    wait_for(lambda: room.asked >= 1, "the first look")
    assert room.lost == []
    room.source, room.kinds, room.happens = "attic", frozenset(), True
    wait_for(lambda: room.lost == [MOVED], "the word")


def test_a_muted_source_is_known(room: Room) -> None:
    muted = Source("desk", "Desk", 48_000, 1, monitor=False, muted=True)
    room.server = Server("PipeWire", "desk", (muted,))
    it = Attendant(room.lost.append)
    it.watch(OPENED, follows=True)
    wait_for(lambda: it.muted, "the look")
    assert room.lost == []
