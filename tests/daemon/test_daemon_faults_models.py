"""Models that may not be read, are cut short, or stand in each other's place: at the start, at a reload, and under a daemon that runs.

Each is one line with the file and what to do; at the start the exit code is 66, at a reload what was there goes on, and a process that is
begun again waits for its model. Everything here has a user's rights: who may read whatever its mode (root) would read these, too.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from daemon.test_daemon_reload import Begin, asked_again_and_again, begin
from daemon.test_daemon_start import cache, cut, rewrite
from faulttable import Fault
from livedaemon import Process, Start, until
from voiced.events import TextSource
from voiced.models import default_library

__all__ = ["asked_again_and_again", "begin", "cache"]

MOONSHINE, SILERO = "moonshine-tiny-en", "silero-vad"
ENCODER, DECODER, VAD = "encoder_model.ort", "decoder_model_merged.ort", "silero_vad.onnx"
QUIET = "second_pass: {enabled: false}\n"


@pytest.fixture(scope="module")
def rights() -> tuple[str, ...]:
    """What runs a command without root's right to read everything."""
    if os.geteuid():
        return ()
    before = ("setpriv", "--bounding-set", "-dac_override,-dac_read_search")
    if shutil.which(before[0]) is None or subprocess.run([*before, "true"], check=False).returncode:
        pytest.skip("root cannot give up its right to read everything here (setpriv, of util-linux)")
    return before


@pytest.fixture
def start(env: dict[str, str], tmp_path: Path, rights: tuple[str, ...]) -> Iterator[Start]:
    started: list[Process] = []

    def begin(module: str, *arguments: str | Path, env: dict[str, str] = env) -> Process:
        started.append(Process(tmp_path, module, *arguments, env=env, before=rights))
        return started[-1]

    yield begin
    for process in reversed(started):
        process.end()


@pytest.fixture
def env(env: dict[str, str], cache: Path) -> dict[str, str]:
    return env | {"VOICED_CACHE": str(cache.parent)}


def hide(path: Path) -> None:
    """A file: its own, with its content and no right to read it. A folder: no right to enter it."""
    if path.is_file():
        rewrite(path, lambda content: None)
    path.chmod(0)


def swap(one: Path, other: Path) -> None:
    kept = one.rename(one.with_suffix(".kept"))
    other.rename(one)
    kept.rename(other)


def give_back(cache: Path) -> None:
    """As it was."""
    for folder in cache.iterdir():
        folder.chmod(0o700)
    shutil.rmtree(cache)
    shutil.copytree(default_library().cache / SILERO, cache / SILERO)
    shutil.copytree(default_library().cache / MOONSHINE, cache / MOONSHINE)


DAMAGES: dict[str, tuple[Callable[[Path], object], str, str]] = {
    "mode 000": (lambda cache: hide(cache / MOONSHINE / ENCODER), f"{MOONSHINE}/{ENCODER}", "cannot be read: Permission denied"),
    "folder of mode 000": (lambda cache: hide(cache / MOONSHINE), f"{MOONSHINE}/{ENCODER}", "cannot be read: Permission denied"),
    "cut short": (lambda cache: rewrite(cache / MOONSHINE / ENCODER, cut), f"{MOONSHINE}/{ENCODER}", "13,281,600 bytes are expected"),
    "its two files swapped": (
        lambda cache: swap(cache / MOONSHINE / ENCODER, cache / MOONSHINE / DECODER),
        f"{MOONSHINE}/{ENCODER}",
        "13,281,600 bytes are expected, 30,412,256 are there",
    ),
    "another model's file": (
        lambda cache: swap(cache / MOONSHINE / ENCODER, cache / SILERO / VAD),
        f"{MOONSHINE}/{ENCODER}",
        "13,281,600 bytes are expected, 2,327,524 are there",
    ),
}
"""What is done to a folder of models, the file that is told, and what of it."""


@pytest.mark.parametrize("damage", DAMAGES)
def test_at_the_start_it_is_one_line_and_66(start: Start, cache: Path, bus: str, damage: str, faults: list[Fault]) -> None:
    do, file, complaint = DAMAGES[damage]
    do(cache)
    voiced = start("voiced", "--bus", bus)
    code = voiced.wait()
    (cache / MOONSHINE).chmod(0o700)
    assert code == 66, voiced.err
    assert "Traceback" not in voiced.err
    told = [line for line in voiced.err.splitlines() if f"{cache}/{file}" in line]
    assert len(told) == 1 and told[0].startswith("voiced: ") and complaint in told[0], voiced.err
    assert told[0].endswith(f"; voicectl models fetch {MOONSHINE}")
    faults.append(Fault("starting", "model", damage, "exit 66"))


def test_a_folder_of_ones_own_that_may_not_be_entered(start: Start, bus: str, tmp_path: Path, faults: list[Fault]) -> None:
    own = tmp_path / "own"
    own.mkdir(mode=0)
    (tmp_path / "voiced.yaml").write_text(f"models: {{path: '{own}'}}\n")
    voiced = start("voiced", "--config", tmp_path / "voiced.yaml", "--bus", bus)
    assert voiced.wait() == 66, voiced.err
    assert voiced.err == f"voiced: {own}/manifest.yaml: cannot be read: Permission denied; let this user read it, or set models.path\n"
    faults.append(Fault("starting", "models.path", "folder of mode 000", "exit 66"))


@pytest.mark.slow  # three turns at the pace of speech
@pytest.mark.parametrize("damage", DAMAGES)
def test_at_a_reload_what_was_there_goes_on(begin: Begin, cache: Path, damage: str, faults: list[Fault]) -> None:
    do, file, complaint = DAMAGES[damage]
    daemon = begin(QUIET)
    listener, pids = daemon.listener, daemon.listener.pids()
    do(cache)
    ready, status = daemon.hang_up("")
    assert ready == "READY=1" and status.startswith("STATUS=listening; the settings stay as they were: ")
    (mistake,) = listener.status()["mistakes"]
    assert f"{cache}/{file}" in mistake and complaint in mistake and mistake.endswith(f"; voicectl models fetch {MOONSHINE}")
    assert daemon.turn().note == "no second pass"
    assert listener.pids() == pids
    give_back(cache)
    assert daemon.hang_up("") == ["READY=1", "STATUS=listening"]
    daemon.turns_until(TextSource.SECOND_PASS)
    faults.append(Fault("any", "model, at a reload", damage, "the old settings go on", seconds=0.0))


@pytest.mark.slow
def test_under_a_daemon_that_runs_its_process_waits_for_it(begin: Begin, cache: Path, faults: list[Fault]) -> None:
    """Cut short where they lie: what is loaded goes on; a process that is begun again says what is wrong, and works once it is mended."""
    give_back(cache)
    daemon = begin("")
    listener = daemon.listener
    for file in (cache / SILERO / VAD, cache / MOONSHINE / ENCODER):
        os.truncate(file, 100_000)
    daemon.turns_until(TextSource.SECOND_PASS)
    listener.mark()
    os.kill(listener.pids()["ears"], signal.SIGKILL)
    listener.lane(Health="restarting")
    wrong = f"{cache}/{SILERO}/{VAD}: 2,327,524 bytes are expected, 100,000 are there; voicectl models fetch {SILERO}"
    daemon.process.says(wrong)
    until(lambda: wrong in str(listener.status()["lanes"]), "its reason", listener.status)
    give_back(cache)
    began = time.monotonic()
    listener.healths("restarting", "ok")
    seconds = time.monotonic() - began
    assert daemon.turn().text
    faults.append(Fault("any", "model", "cut short, then its lane killed", "the lane waits for it", seconds=seconds))
