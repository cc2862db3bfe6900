"""Settings that change while the daemon hears: by SIGHUP, by the bus, by voicectl. What it takes, what it keeps, what it says."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import soundfile
from debugger import held
from livedaemon import Listen, Listener, Process, ServiceManager, Start, alive, assert_whole, run, until
from voiced.desk import Published
from voiced.events import Final, Partial, TextSource, TurnClosed, Wake

CLOCK = "What time is it?"

BEHIND = 5
"""Turns that a lane may be behind: what waits for its scribe is bounded to 16 s of talk (runtime.HEARD_LIMIT)."""

EVERY = 4 * 16_000
"""Samples between two questions."""

LANE = "lanes: [{{name: desk, source: 'file:{sound}'}}]\n"


@pytest.fixture(scope="module")
def asked_again_and_again(tmp_path_factory: pytest.TempPathFactory, sample: Path) -> Path:
    """ "jarvis, what time is it" every four seconds, for ten minutes."""
    samples, rate = soundfile.read(sample, dtype="int16", start=152_000, stop=181_840)
    once = np.concatenate((samples, np.zeros(4 * rate - len(samples), np.int16)))
    path = tmp_path_factory.mktemp("spoken") / "again.wav"
    soundfile.write(path, np.tile(once, 150), rate)
    return path


class Daemon:
    """One that hears the same question again and again, and its settings file."""

    def __init__(self, process: Process, listener: Listener, manager: ServiceManager, config: Path, sound: Path) -> None:
        self.process, self.listener, self.manager, self.config, self._lane = process, listener, manager, config, LANE.format(sound=sound)

    def write(self, text: str = "") -> None:
        """As an editor saves: whoever reads meanwhile has the old file or the new one, whole."""
        new = self.config.with_suffix(".new")
        new.write_text(self._lane + text)
        new.replace(self.config)

    def hang_up(self, text: str) -> list[str]:
        """Writes the settings and has them read by SIGHUP; what the service manager is told then."""
        self.write(text)
        os.kill(self.process.pid, signal.SIGHUP)
        reloading, monotonic = self.manager.next()
        assert reloading == "RELOADING=1"
        assert monotonic.startswith("MONOTONIC_USEC=")
        return self.manager.next()

    def turn(self) -> Final:
        """The next whole turn's."""
        self.listener.mark()
        turn = self.listener.event(Wake).turn
        self.listener.event(TurnClosed, turn)
        assert_whole(self.listener.events(turn))
        return self.listener.event(Final, turn)

    def turn_after(self) -> Wake:
        """The wake of the first turn that begins after all that was heard, when it is over."""
        seen = [event.turn for event in self.listener.events() if isinstance(event, Wake)]
        found = self.listener.wait(
            lambda item: isinstance(item, Published) and isinstance(item.event, Wake) and item.event.turn > seen[-1], ""
        )
        assert isinstance(found, Published) and isinstance(found.event, Wake)
        self.listener.event(TurnClosed, found.event.turn)
        return found.event

    def turns_until(self, source: TextSource, note: str = "") -> Final:
        """The first turn whose text comes from there. What was heard before a reload is told of after it: on a slow machine, several."""
        finals: list[Final] = []
        while len(finals) < BEHIND:
            finals.append(self.turn())
            if (finals[-1].source, finals[-1].note) == (source, note):
                return finals[-1]
        pytest.fail(f"no turn's text is from the {source.value} ({note}): {finals}")


Begin = Callable[[str], Daemon]


@pytest.fixture
def begin(
    start: Start, listen: Listen, bus: str, env: dict[str, str], runtime: Path, tmp_path: Path, asked_again_and_again: Path
) -> Iterator[Begin]:
    manager = ServiceManager(runtime / "notify")
    config = tmp_path / "voiced.yaml"
    daemons = []

    def begin(text: str) -> Daemon:
        config.write_text(LANE.format(sound=asked_again_and_again) + text)
        listener = listen(bus)
        process = start("voiced", "--config", config, "--bus", bus, env=env | manager.env())
        listener.lane(Health="ok")
        assert manager.next()[0] == "READY=1"
        daemons.append(Daemon(process, listener, manager, config, asked_again_and_again))
        return daemons[-1]

    yield begin
    manager.close()
    for daemon in daemons:
        assert daemon.process.ended or daemon.process.stop() == 0
        assert "Traceback" not in daemon.process.err, daemon.process.err


@pytest.mark.slow  # six turns at the pace of speech
def test_phrases_change_and_a_bad_file_keeps_the_old_ones(begin: Begin, env: dict[str, str], bus: str) -> None:
    """S15, and what is said of it on every door."""
    daemon = begin("wake: {phrases: [{phrase: alexa}]}\nsecond_pass: {enabled: false}\n")
    listener, pids = daemon.listener, daemon.listener.pids()
    jarvis = "wake: {phrases: [{phrase: jarvis}]}\nsecond_pass: {enabled: false}\n"

    # a good one: the new phrase wakes, and no process was begun again
    assert daemon.hang_up(jarvis) == ["READY=1", "STATUS=listening"]
    listener.lane(Phrases=["jarvis"])
    assert daemon.turn().source is TextSource.FIRST_PASS
    assert listener.pids() == pids
    assert {event.phrase for event in listener.events() if isinstance(event, Wake)} == {"jarvis"}

    # a file with two mistakes: both, with their lines, to whoever asked, to the service manager, to the log, to who looks
    daemon.write("wake:\n  phrases: [{phrase: jarvis, treshold: 1}]\nendpint: {}\n")
    found = run("voicectl", "--bus", bus, "reload", env=env)
    assert (found.returncode, found.stdout) == (78, "")
    first, second = found.stderr.splitlines()
    assert first.startswith(f"voicectl: {daemon.config}:3: wake.phrases[0].treshold: ") and "did you mean threshold?" in first
    assert second.startswith(f"voicectl: {daemon.config}:4: endpint: ")
    assert daemon.manager.next()[0] == "RELOADING=1"
    ready, status = daemon.manager.next()
    assert ready == "READY=1" and status.startswith(f"STATUS=listening; the settings stay as they were: {daemon.config}:3: ")
    assert [f"voicectl: {line}" for line in listener.status()["mistakes"]] == [first, second]
    assert f"{daemon.config}:4: endpint: " in daemon.process.err

    # a phrase that no model hears: found out in a process of its own
    ready, status = daemon.hang_up("wake: {phrases: [{phrase: jarvis}, {phrase: nobody}]}\n")
    assert ready == "READY=1" and "nobody" in status
    (mistake,) = listener.status()["mistakes"]
    assert "nobody" in mistake
    assert daemon.turn().text, "the old phrase goes on waking"
    assert listener.pids() == pids

    # a good one again: nothing is wrong any more; what cannot change now is named
    ready, status = daemon.hang_up(jarvis + "models: {vad: another-vad}\n")
    assert (ready, status) == ("READY=1", "STATUS=listening; takes effect at the next start: models.vad")
    now = listener.status()
    assert (now["mistakes"], now["nextstart"], now["models"]["vad"]) == ([], ["models.vad"], "silero-vad")
    found = run("voicectl", "--bus", bus, "reload", env=env)
    assert (found.returncode, found.stdout, found.stderr) == (0, "takes effect at the next start: models.vad\n", "")


@pytest.mark.slow  # some four turns at the pace of speech
def test_a_text_becomes_the_phrase_and_another_takes_its_place(begin: Begin) -> None:
    """CASES S15, phrases given as text: the new one wakes and the old one, which is said as often, does not."""

    def listening_for(text: str) -> str:
        return f"wake: {{phrases: [{{text: {text}}}]}}\nendpoint: {{no_speech_ms: 500}}\nsecond_pass: {{enabled: false}}\n"

    daemon = begin(listening_for("turn the fan off"))
    listener, pids = daemon.listener, daemon.listener.pids()

    def woken_by(text: str) -> None:
        """The next two wakes."""
        for _ in range(2):
            listener.mark()
            wake = listener.event(Wake)
            assert wake.phrase == text
            listener.event(TurnClosed, wake.turn)

    assert daemon.hang_up(listening_for("what time is it")) == ["READY=1", "STATUS=listening"]
    woken_by("what time is it")
    assert daemon.hang_up(listening_for("time is it")) == ["READY=1", "STATUS=listening"]
    listener.lane(Phrases=["time is it"])
    woken_by("time is it")

    # one that cannot be spelled, with its line; the old one stays
    ready, status = daemon.hang_up(listening_for("écoute"))
    assert ready == "READY=1" and status.startswith(f"STATUS=listening; the settings stay as they were: {daemon.config}:2: ")
    woken_by("time is it")
    assert listener.pids() == pids


@pytest.mark.slow  # five turns at the pace of speech
def test_the_second_pass_comes_and_goes_and_the_log_learns_to_speak(begin: Begin) -> None:
    daemon = begin("second_pass: {deadline_ms: 60000}\n")
    listener = daemon.listener
    final = daemon.turn()
    assert (final.text, final.source) == (CLOCK, TextSource.SECOND_PASS)
    second_pass = listener.pids()["second_pass"]

    # its deadline: a process that does not move would be waited for a minute
    assert daemon.hang_up("second_pass: {deadline_ms: 300}\nlog: {text: true}\n")[0] == "READY=1"
    with held(second_pass):
        final = daemon.turns_until(TextSource.FIRST_PASS, "the second pass was late")
    daemon.process.says(repr(final.text))  # and it is in the log from now on
    os.kill(second_pass, signal.SIGSTOP)
    stopped = second_pass  # which is replaced
    second_pass = until(lambda: listener.pids().get("second_pass", stopped) - stopped, "a new second pass") + stopped

    # off in the middle of a turn, which goes on: then its process is gone
    listener.mark()
    turn = listener.event(Wake).turn
    listener.event(Partial, turn)
    assert daemon.hang_up("second_pass: {enabled: false}\nlog: {level: warning}\n")[0] == "READY=1"
    listener.event(TurnClosed, turn)
    assert_whole(listener.events(turn))
    until(lambda: not alive(second_pass), "the second pass's end")
    said = daemon.process.err
    daemon.turns_until(TextSource.FIRST_PASS, "no second pass")
    assert " turn " not in daemon.process.err[len(said) :], "a turn's line is no warning"

    # and on
    assert daemon.hang_up("second_pass: {deadline_ms: 60000}\n")[0] == "READY=1"
    assert daemon.turns_until(TextSource.SECOND_PASS).text == CLOCK
    assert listener.pids()["second_pass"] != second_pass

    # what was said is forgotten as soon as it shall be
    assert listener.turns() != []
    assert daemon.hang_up("second_pass: {deadline_ms: 60000}\nlog: {receipts: 0}\n")[0] == "READY=1"
    assert listener.turns() == []


@pytest.mark.parametrize("count", [20, pytest.param(1000, marks=pytest.mark.slow)])
def test_reloads_without_end_lose_no_turn(begin: Begin, count: int) -> None:
    """Each is asked for by the bus and done before the next, while the same question is asked every four seconds."""
    daemon = begin("")
    listener, pids = daemon.listener, daemon.listener.pids()
    listener.mark()
    listener.event(Wake)
    for number in range(count):
        daemon.write(f"endpoint: {{no_speech_ms: {2000 + number}}}\nvad: {{on: {0.5 + number % 2 / 100}}}\n")
        assert listener.reload() == []
    last = daemon.turn_after()
    wakes = [event for event in listener.events() if isinstance(event, Wake)]
    for before, after in pairwise(wakes):
        assert after.phrase_end - before.phrase_end == pytest.approx(EVERY, abs=2_000), "each question woke, none twice"
    for wake in wakes[: wakes.index(last) + 1]:
        assert_whole(listener.events(wake.turn))
    assert listener.pids() == pids
    assert listener.status()["mistakes"] == []
    assert daemon.process.err.count("settings read anew: ") == count


@pytest.mark.slow  # a turn at the pace of speech, and some two hundred reloads
def test_hang_ups_faster_than_they_are_obeyed_cost_few_reloads(begin: Begin) -> None:
    daemon = begin("")
    listener = daemon.listener
    listener.mark()
    turn = listener.event(Wake).turn
    for number in range(200):
        daemon.write(f"endpoint: {{no_speech_ms: {2000 + number}}}\n")
        os.kill(daemon.process.pid, signal.SIGHUP)
    listener.event(TurnClosed, turn)
    assert_whole(listener.events(turn))
    assert daemon.turn().text == CLOCK
    assert listener.status()["mistakes"] == []
    daemon.process.says("settings read anew: endpoint.no_speech_ms")
