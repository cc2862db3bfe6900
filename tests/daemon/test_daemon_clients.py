"""Clients that have something of a real daemon: a turn that they hold, sound that they play, the level."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import soundfile
from livedaemon import Listen, Listener, Start, until
from voiced.bus.client import Client
from voiced.desk import LevelHeard, Published
from voiced.events import CloseReason, Final, TurnClosed, Wake, WakeRefused


@pytest.fixture
def listener(request: pytest.FixtureRequest, start: Start, listen: Listen, bus: str, tmp_path: Path, sample: Path) -> Iterator[Listener]:
    """Of a daemon that is asked "jarvis, what time is it" every five seconds, or as many as it is parametrized with."""
    samples, rate = soundfile.read(sample, dtype="int16", start=152_000, stop=181_840)
    once = np.concatenate((samples, np.zeros(getattr(request, "param", 5) * rate - len(samples), np.int16)))
    again, config = tmp_path / "again.wav", tmp_path / "voiced.yaml"
    soundfile.write(again, np.tile(once, 60), rate)
    config.write_text(f"lanes: [{{name: desk, source: 'file:{again}'}}]\nendpoint: {{no_speech_ms: 15000}}\n")
    listener = listen(bus)
    voiced = start("voiced", "--bus", bus, "--config", config)
    listener.lane(Health="ok")
    yield listener
    assert voiced.stop() == 0
    assert "Traceback" not in voiced.err, voiced.err


def test_who_plays_is_not_woken_by_itself_and_is_heard_after_it(listener: Listener, bus: str) -> None:
    """CASES W5, E15 through the whole daemon; the lane's process is killed meanwhile, and its successor knows of it."""
    listener.event(Wake)

    async def player() -> Client:
        return await Client(bus).__aenter__()

    client = listener.call(player())
    listener.call(client.playback(True))
    listener.lane(Playing=True)
    listener.mark()
    refused = listener.wait(lambda item: isinstance(item, Published) and isinstance(item.event, WakeRefused), "a refusal")
    assert isinstance(refused, Published) and isinstance(refused.event, WakeRefused)
    assert refused.event.verdict == "heard while a client played sound"
    listener.cancel()
    listener.mark()
    assert listener.call(client.follow_up()) == 0
    os.kill(listener.pids()["ears"], signal.SIGKILL)
    listener.healths("restarting", "ok")
    listener.wait(lambda item: isinstance(item, Published) and isinstance(item.event, WakeRefused), "a refusal of its successor")
    assert not [event for event in listener.events() if isinstance(event, Wake)]
    assert listener.call(client.follow_up()) == 0
    listener.call(client.playback(False))
    wake = listener.event(Wake)
    assert (wake.phrase, wake.verdict) == ("", "a follow-up, asked for by a client")
    listener.lane(StateReason=wake.verdict)
    listener.event(TurnClosed, wake.turn)
    listener.call(client.__aexit__(None, None, None))


@pytest.mark.parametrize("listener", [20], indirect=True)
def test_a_killed_client_takes_its_turn_along(listener: Listener, start: Start, bus: str) -> None:
    """CASES B7: SIGKILL; the daemon is asleep again and the next phrase wakes."""
    listener.event(Final)  # the question was asked; now there is quiet for longer than voicectl needs to start
    listener.event(TurnClosed)
    listener.mark()
    waiting = start("voicectl", "--bus", bus, "trigger", "--wait")
    turn = listener.event(Wake).turn
    waiting.stop(signal.SIGKILL)
    assert listener.event(TurnClosed, turn).reason is CloseReason.CANCELLED
    listener.lane(State="asleep", StateReason="cancelled")
    listener.mark()
    assert listener.event(Wake).phrase == "jarvis"


def test_the_level_follows_the_sound(listener: Listener) -> None:
    listener.event(Final)
    levels = [item for item in listener.heard() if isinstance(item, LevelHeard)]
    assert max(level.peak_dbfs for level in levels) > -40 > min(level.rms_dbfs for level in levels)
    steps = {later.sample - earlier.sample for earlier, later in pairwise(levels)}
    assert min(steps) >= 3_200
    until(lambda: len(listener.heard()) > len(levels) + 3, "it goes on in silence")
