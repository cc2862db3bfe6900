"""voicectl against a real daemon: what each command prints, and its exit code."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from livedaemon import Listener, Process, Start, environment, own_bus, run, runtime_of_a_user, until
from voiced.events import CloseReason, Endpoint, Final, Partial, TurnClosed, Wake
from voiced.models import DEFAULT_IDS

CLOCK = "What time is it?"

LANE = """
second_pass: {{deadline_ms: 20000}}
lanes:
  - name: desk
    source: file:{sound}
endpoint:
  no_speech_ms: 800
"""


@pytest.fixture
def quiet(start: Start, bus: str, listener: Listener, silence: Path, tmp_path: Path) -> Process:
    """A daemon to which nobody speaks."""
    return daemon(start, bus, listener, silence, tmp_path)


@pytest.fixture
def asked(start: Start, bus: str, listener: Listener, clock: Path, tmp_path: Path) -> Process:
    """A daemon that is asked for the time as soon as it hears. It can be asked again: mute, unmute."""
    return daemon(start, bus, listener, clock, tmp_path)


def daemon(start: Start, bus: str, listener: Listener, sound: Path, tmp_path: Path) -> Process:
    config = tmp_path / "voiced.yaml"
    config.write_text(LANE.format(sound=sound))
    process = start("voiced", "--config", config, "--bus", bus)
    listener.lane(Health="ok")
    return process


class Ctl:
    """voicectl --bus ADDRESS …: exit code, output, complaints."""

    def __init__(self, env: dict[str, str], bus: str) -> None:
        self._env, self.bus = env, bus

    def __call__(self, *arguments: str | Path) -> tuple[int, str, str]:
        found = run("voicectl", "--bus", self.bus, *arguments, env=self._env)
        assert "Traceback" not in found.stderr, found.stderr
        return found.returncode, found.stdout, found.stderr


@pytest.fixture
def ctl(env: dict[str, str], bus: str) -> Iterator[Ctl]:
    yield Ctl(env, bus)


def test_status_trigger_and_mute(quiet: Process, listener: Listener, ctl: Ctl) -> None:
    code, out, err = ctl("status")
    assert (code, err) == (0, "")
    assert out.startswith("voiced ") and ": ok\n" in out
    assert out.splitlines()[1] == f"  bus: {ctl.bus}"
    assert ": 0\n" not in out, "what did not happen is not told"
    assert "lane desk: ok, asleep; hears file:" in out and "for jarvis" in out
    assert f"(main, pid {quiet.pid}," in out
    code, out, _ = ctl("status", "--json")
    assert code == 0 and json.loads(out)["lanes"][0]["name"] == "desk"

    # a turn in which nobody speaks: no text, and the exit code says so
    listener.mark()
    code, out, _ = ctl("trigger")
    assert code == 0
    turn = int(out)
    assert listener.event(Wake, turn).phrase == ""
    assert listener.event(TurnClosed, turn).reason is CloseReason.NO_SPEECH
    code, out, err = ctl("trigger", "--wait", "--json")
    assert (code, err) == (1, "")
    assert json.loads(out) == {"turn": json.loads(out)["turn"], "reason": "no speech", "text": None}
    assert json.loads(out)["turn"] > turn

    listener.mark()
    assert ctl("mute", "--lane", "desk") == (0, "", "")
    listener.lane(Muted=True)
    code, out, _ = ctl("status")
    assert code == 1 and ": muted\n" in out and ", muted" not in out.splitlines()[0]
    code, out, err = ctl("trigger")
    assert (code, out) == (74, "")
    assert err.count("\n") == 1 and err.startswith("voicectl: ") and "it has no sound now (muted)" in err
    assert ctl("unmute") == (0, "", "")
    listener.lane(Muted=False)
    assert ctl("status")[0] == 0
    for command in ("stop", "cancel"):
        assert ctl(command) == (0, "", ""), "nothing is open, and nothing is wrong with that"
    code, _, err = ctl("stop", "--lane", "attic")
    assert code != 0 and err.count("\n") == 1 and "attic" in err


def test_the_bus_may_be_named_before_the_command_and_after_it(quiet: Process, env: dict[str, str], bus: str) -> None:
    """After it counts, where a hand has put it twice."""
    for arguments in (("--bus", bus, "status"), ("status", "--bus", bus), ("--bus", "unix:path=/nowhere", "status", "--bus", bus)):
        found = run("voicectl", *arguments, env=env)
        assert (found.returncode, found.stderr) == (0, ""), found.stdout
        assert f"  bus: {bus}" in found.stdout
    assert quiet.stop() == 0


def test_trigger_and_wait_prints_the_text(start: Start, bus: str, listener: Listener, chatter: Path, tmp_path: Path, ctl: Ctl) -> None:
    voiced = daemon(start, bus, listener, chatter, tmp_path)
    waiting = start("voicectl", "--bus", bus, "trigger", "--wait")
    turn = listener.event(Wake).turn
    listener.event(Partial, turn)
    assert ctl("stop") == (0, "", "")
    assert waiting.wait() == 0, waiting.err
    final = listener.event(Final, turn)
    assert final.text and waiting.out == f"{final.text}\n"
    assert voiced.stop() == 0


def test_watch_shows_a_turn_and_outlives_the_daemon(
    start: Start, bus: str, listener: Listener, clock: Path, tmp_path: Path, ctl: Ctl
) -> None:
    person = start("voicectl", "--bus", bus, "watch")
    person.says("voiced is not there; waiting for it")
    script = start("voicectl", "--bus", bus, "watch", "--json", "--count", "2")
    script.says("voiced is not there")
    first = daemon(start, bus, listener, clock, tmp_path)
    person.says("listening to voiced")
    person.says(CLOCK)
    listener.event(TurnClosed)
    assert first.stop() == 0
    until(lambda: person.err.count("voiced is not there") == 2, "the news that it went", lambda: person.err)
    listener.mark()
    daemon(start, bus, listener, clock, tmp_path)
    assert script.wait() == 0, script.err
    finals = [line for line in script.objects() if line["event"] == "Final"]
    assert [line["text"] for line in finals] == [CLOCK, CLOCK] and finals[0]["turn"] < finals[1]["turn"]
    until(lambda: person.out.count(CLOCK) == 2, "the second final", lambda: person.out)
    assert person.err.splitlines() == [
        "voicectl: voiced is not there; waiting for it",
        "voicectl: listening to voiced",
        "voicectl: voiced is not there; waiting for it",
        "voicectl: listening to voiced",
    ]
    assert person.stop(signal.SIGINT) == 130
    assert "Traceback" not in person.err


def test_listen_gives_each_final_to_a_command(asked: Process, start: Start, bus: str, listener: Listener, tmp_path: Path, ctl: Ctl) -> None:
    """CASES B2: text to a script, without a screen."""
    kept = tmp_path / "kept"
    run_it = start(
        "voicectl", "--bus", bus, "listen", "--count", "1", "--exec", f'printf "%s|%s|%s" "$1" "$VOICED_LANE" "$VOICED_TURN" >{kept}'
    )
    plain = start("voicectl", "--bus", bus, "listen", "--count", "1")
    stamped = start("voicectl", "--bus", bus, "listen", "--count", "1", "--json")
    while not (run_it.ended and plain.ended and stamped.ended):
        # those that began after the first turn hear the next: the recording is begun again
        listener.event(TurnClosed)
        listener.mark()
        ctl("mute")
        ctl("unmute")
    assert (run_it.wait(), plain.wait(), stamped.wait()) == (0, 0, 0)
    text, lane, turn = kept.read_text().split("|")
    assert (text, lane) == (CLOCK, "desk") and int(turn) > 0
    assert plain.out == f"{CLOCK}\n"
    assert [(line["event"], line["text"], line["lane"]) for line in stamped.objects()] == [("Final", CLOCK, "desk")]


def test_listen_leaves_out_what_a_shutdown_broke_off(
    start: Start, bus: str, listener: Listener, chatter: Path, clock: Path, tmp_path: Path
) -> None:
    listening = start("voicectl", "--bus", bus, "listen", "--count", "1")
    voiced = daemon(start, bus, listener, chatter, tmp_path)
    turn = listener.trigger()
    listener.event(Partial, turn)
    assert voiced.stop() == 0
    assert listener.event(Endpoint, turn).reason is CloseReason.SHUTDOWN
    assert listener.event(Final, turn).text, "it was published all the same"
    listener.mark()
    daemon(start, bus, listener, clock, tmp_path)
    assert listening.wait() == 0, listening.err
    assert listening.out == f"{CLOCK}\n"


def test_watch_waits_for_a_bus_that_is_not_there_yet(start: Start, tmp_path: Path) -> None:
    with runtime_of_a_user() as runtime:
        waiting = start("voicectl", "--bus", f"unix:path={runtime}/own/bus", "watch")
        waiting.says("no bus: No such file or directory")
        assert "; waiting for it" in waiting.err
        with own_bus(runtime):
            waiting.says("voicectl: voiced is not there; waiting for it")
            assert waiting.stop(signal.SIGINT) == 130
        assert "Traceback" not in waiting.err


def test_a_lane_that_is_not_there(quiet: Process, ctl: Ctl) -> None:
    for command in ("watch", "listen"):
        code, out, err = ctl(command, "--lane", "kitchen")
        assert (code, out) == (2, "")
        assert err.splitlines()[-1] == "voicectl: --lane: expected one of desk; got kitchen"
    assert ctl("--bus", "nowhere", "watch") == (
        2,
        "",
        "voicectl: nowhere: expected an address such as unix:path=/run/user/1000/bus, got 'nowhere'\n",
    )


def test_what_cannot_be_written_is_one_line(env: dict[str, str]) -> None:
    with Path("/dev/full").open("w") as full:
        command = [sys.executable, "-m", "voicectl", "models", "list"]
        done = subprocess.run(command, env=env, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 74
    assert done.stderr == "voicectl: standard output: cannot be written: No space left on device; make room, or send it elsewhere\n"
    narrow = run("voicectl", "models", "list", env=env | {"PYTHONIOENCODING": "ascii"})
    assert (narrow.returncode, narrow.stderr) == (0, "")


def test_stop_and_cancel_a_turn_that_is_heard(start: Start, bus: str, listener: Listener, clock: Path, tmp_path: Path, ctl: Ctl) -> None:
    config = tmp_path / "voiced.yaml"
    config.write_text(LANE.format(sound=clock).replace("800", "15000"))  # longer than a command needs to begin
    start("voiced", "--config", config, "--bus", bus)
    turn = listener.event(Wake).turn
    listener.event(Partial, turn)
    assert ctl("stop") == (0, "", ""), "it may have ended by itself, too"
    listener.event(TurnClosed, turn)
    assert listener.event(Final, turn).text
    for command, reason in (("stop", CloseReason.STOPPED), ("cancel", CloseReason.CANCELLED)):
        turn = listener.trigger()
        assert ctl(command) == (0, "", "")
        assert listener.event(TurnClosed, turn).reason is reason


@pytest.mark.parametrize("command", ["status", "trigger", "stop", "cancel", "mute", "unmute"])
def test_no_daemon(ctl: Ctl, bus: str, command: str) -> None:
    code, out, err = ctl(command)
    assert (code, out) == (69, "")
    assert err == f"voicectl: org.voiced.Voice1: voiced does not run on {bus}; start it: voiced\n"


def test_no_bus(tmp_path: Path) -> None:
    found = run("voicectl", "status", env=environment(tmp_path))
    assert (found.returncode, found.stdout) == (69, "")
    assert found.stderr.startswith("voicectl: D-Bus: voiced does not run: ") and found.stderr.count("\n") == 1


def test_usage(env: dict[str, str]) -> None:
    for arguments in ([], ["whistle"], ["watch", "--count", "0"], ["watch", "--count", "few"]):
        found = run("voicectl", *arguments, env=env)
        assert found.returncode == 2 and "usage: voicectl" in found.stderr and "Traceback" not in found.stderr


def test_models(env: dict[str, str]) -> None:
    listed = run("voicectl", "models", "list", "--json", env=env)
    assert (listed.returncode, listed.stderr) == (0, "")
    facts = {fact["id"]: fact for fact in map(json.loads, listed.stdout.splitlines())}
    assert {name for name, fact in facts.items() if fact["default"]} == set(DEFAULT_IDS)
    assert all(facts[name]["path"] for name in DEFAULT_IDS)
    table = run("voicectl", "models", "list", env=env).stdout
    assert all(name in table for name in facts)
    whole = run("voicectl", "models", "verify", *DEFAULT_IDS, env=env)
    assert (whole.returncode, whole.stdout.splitlines()) == (0, [f"{name}: whole" for name in DEFAULT_IDS])
    # what is there and whole is not fetched again: there is no network in this
    fetched = run("voicectl", "models", "fetch", "jarvis", "silero-vad", env=env)
    assert fetched.returncode == 0 and fetched.stdout.splitlines() == [
        f"{name}: {facts[name]['path']}" for name in ("jarvis", "silero-vad")
    ]
    unknown = run("voicectl", "models", "verify", "jarvi", env=env)
    assert unknown.returncode == 66 and "did you mean jarvis?" in unknown.stderr and unknown.stderr.count("\n") == 1


def test_models_that_are_damaged_are_all_named(env: dict[str, str], tmp_path: Path) -> None:
    found = run("voicectl", "models", "verify", env=env | {"VOICED_CACHE": str(tmp_path)})
    assert found.returncode == 66
    lines = found.stderr.splitlines()
    assert len(lines) == 2 and all(line.startswith("voicectl: model ") and "voicectl models fetch " in line for line in lines)
