"""The start: cores, and everything that may keep a daemon from it. Each is one clear line, the documented exit code and nothing left."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from livedaemon import Listen, Start, run, started_with, until
from voiced.boards import board
from voiced.errors import BusError
from voiced.models import Library
from voiced.settingsfile import SYSTEM_FILE

CHECKOUT = Path(__file__).resolve().parents[2]

Write = Callable[[str], Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Writes a settings file; its path."""

    def write(text: str) -> Path:
        path = tmp_path / "voiced.yaml"
        path.write_text(text)
        return path

    return write


def refused(start: Start, runtime: Path, *arguments: str | Path, env: dict[str, str] | None = None) -> tuple[int, list[str]]:
    """The exit code and the lines of a voiced that does not start; nothing of it is left."""
    voiced = start("voiced", *arguments, **({"env": env} if env else {}))
    code = voiced.wait()
    assert "Traceback" not in voiced.err and voiced.out == "", voiced.err
    nothing_is_left(runtime)
    lines = voiced.err.splitlines()
    assert all(line.startswith("voiced: ") for line in lines), lines
    return code, [line.removeprefix("voiced: ") for line in lines]


def nothing_is_left(runtime: Path) -> None:
    """Of a voiced that has ended; what the kernel kills with it may take its time."""

    def left() -> list[int]:
        return [pid for pid in started_with(runtime) if pid != os.getpid() and not is_bus(pid)]

    until(lambda: not left(), "the end of all its processes", left)


def is_bus(pid: int) -> bool:
    """The test's own."""
    try:
        return "dbus-daemon" in Path(f"/proc/{pid}/cmdline").read_text().split("\0")[0]
    except OSError:  # it has ended
        return False


# ── cores ────────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="one core is all there is here")
def test_ears_and_transducer_are_on_the_cores_that_were_wanted(start: Start, listen: Listen, bus: str, write: Write, kitchen: Path) -> None:
    first, second = sorted(os.sched_getaffinity(0))[:2]
    config = write(f"placement: {{ears: [{first}], transducer: [{second}]}}\nlanes: [{{name: desk, source: 'file:{kitchen}'}}]\n")
    listener = listen(bus)
    start("voiced", "--config", config, "--bus", bus)
    listener.lane(Health="ok")
    rows = {role: (tid, wanted, actual) for role, _process, _pid, tid, wanted, actual, *_ in listener.status()["placement"]}
    for role, core in (("ears", first), ("transducer", second)):
        tid, wanted, actual = rows[role]
        assert (list(wanted), list(actual)) == ([core], [core])
        assert os.sched_getaffinity(tid) == {core}
    tid, wanted, actual = rows["second_pass"]
    assert list(wanted) == [] and os.sched_getaffinity(tid) == set(actual) == os.sched_getaffinity(0)


def test_a_core_that_is_not_there(start: Start, runtime: Path, bus: str, write: Write) -> None:
    config = write("placement:\n  ears: [1000]\n")
    code, lines = refused(start, runtime, "--config", config, "--bus", bus)
    assert code == 78
    (line,) = lines
    assert line.startswith(f"{config}:2: placement.ears: ") and "1000" in line


# ── models ───────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def cache(library: Library, tmp_path: Path) -> Path:
    """Fetched models to be damaged, below a cache: links to the real ones' files."""
    own = tmp_path / "cache" / "models"
    for file in library.cache.glob("*/*"):
        link = own / file.relative_to(library.cache)
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(file)
    return own


def rewrite(link: Path, change: Callable[[bytearray], object]) -> None:
    content = bytearray(link.read_bytes())
    change(content)
    link.unlink()
    link.write_bytes(content)


def flip(content: bytearray) -> None:
    content[len(content) // 2] ^= 1


def cut(content: bytearray) -> None:
    del content[len(content) // 2 :]


def zeros(content: bytearray) -> None:
    """Something else of the right size."""
    content[:] = bytes(len(content))


@pytest.mark.parametrize(
    ("model", "file", "change", "complaint"),
    [
        ("moonshine-tiny-en", "encoder_model.ort", flip, "wrong checksum: SHA-256 "),
        ("moonshine-tiny-en", "decoder_model_merged.ort", zeros, "wrong checksum: SHA-256 "),
        ("silero-vad", "silero_vad.onnx", cut, "bytes are expected"),
        ("moonshine-tiny-en", "tokens.txt", None, "is missing"),
    ],
)
def test_a_damaged_model(
    start: Start,
    runtime: Path,
    bus: str,
    env: dict[str, str],
    cache: Path,
    model: str,
    file: str,
    change: Callable[[bytearray], object] | None,
    complaint: str,
) -> None:
    damaged = cache / model / file
    if change:
        rewrite(damaged, change)
    else:
        damaged.unlink()
    code, lines = refused(start, runtime, "--bus", bus, env=env | {"VOICED_CACHE": str(cache.parent)})
    assert code == 66
    (line,) = lines
    assert str(damaged) in line and complaint in line and line.endswith(f"; voicectl models fetch {model}")


def test_two_damaged_models_are_both_named(start: Start, runtime: Path, bus: str, env: dict[str, str], cache: Path) -> None:
    rewrite(cache / "moonshine-tiny-en" / "tokens.txt", flip)  # the second pass's process
    rewrite(cache / "silero-vad" / "silero_vad.onnx", cut)  # the lane's
    code, lines = refused(start, runtime, "--bus", bus, env=env | {"VOICED_CACHE": str(cache.parent)})
    assert code == 66
    assert sorted(re.findall("moonshine-tiny-en$|silero-vad$", "\n".join(lines), re.M)) == ["moonshine-tiny-en", "silero-vad"]


def test_files_are_not_heard_with_a_damaged_model(start: Start, runtime: Path, env: dict[str, str], cache: Path, clock: Path) -> None:
    damaged = cache / "silero-vad" / "silero_vad.onnx"
    rewrite(damaged, flip)
    code, lines = refused(start, runtime, "--input", clock, "--json", env=env | {"VOICED_CACHE": str(cache.parent)})
    assert code == 66
    (line,) = lines
    assert line.startswith(f"{damaged}: wrong checksum")


@pytest.mark.parametrize(("role", "model", "is_for"), [("transducer", "moonshine-tiny-en", "second-pass"), ("vad", "jarvis", "wake-head")])
def test_a_model_for_another_role(start: Start, runtime: Path, bus: str, write: Write, role: str, model: str, is_for: str) -> None:
    code, lines = refused(start, runtime, "--config", write(f"models:\n  {role}: {model}\n"), "--bus", bus)
    assert code == 66
    (line,) = lines
    assert model in line and role in line and is_for in line


MANIFEST = """
version: 1
models:
  stranger:
    role: transducer
    kind: zipformer2
    licence: Apache-2.0
    about: a model of which no checksum is known
    frame_ms: 40
    chunk_ms: 320
    lookahead_ms: 160
    tail_ms: 510
    end_token: false
    files:
      encoder: {name: encoder.onnx}
      decoder: {name: decoder.onnx}
      joiner: {name: joiner.onnx}
      tokens: {name: tokens.txt}
    sources:
      - directory: stranger
"""


@pytest.fixture
def stranger(library: Library, tmp_path: Path) -> Path:
    """A folder of models with one whose tokens are right, and whose networks are whole, and of another kind."""
    folder = tmp_path / "models" / "stranger"
    folder.mkdir(parents=True)
    (folder.parent / "manifest.yaml").write_text(MANIFEST)
    (folder / "tokens.txt").symlink_to(library.find("starter-en").files["tokens"])
    for name in ("encoder.onnx", "decoder.onnx", "joiner.onnx"):
        (folder / name).symlink_to(library.find("jarvis").files["model"])
    return folder.parent


def test_a_model_at_which_the_library_ends_the_process(
    start: Start, runtime: Path, bus: str, write: Write, stranger: Path, clock: Path
) -> None:
    config = write(f"models:\n  path: {stranger}\n  transducer: stranger\n")
    for arguments in (["--bus", bus], ["--input", clock]):
        voiced = start("voiced", "--config", config, *arguments)
        assert voiced.wait() == 66, voiced.err
        assert "Traceback" not in voiced.err
        last = voiced.err.splitlines()[-1]  # what the library itself said stands before it
        assert last.startswith("voiced: ") and f"while loading transducer stranger ({stranger}/stranger); check the model" in last
        nothing_is_left(runtime)


def test_a_manifest_that_is_broken(start: Start, runtime: Path, bus: str, write: Write, stranger: Path) -> None:
    (stranger / "manifest.yaml").write_text(MANIFEST.replace("end_token: false", "end_token: perhaps"))
    config = write(f"models:\n  path: {stranger}\n  transducer: stranger\n")
    code, lines = refused(start, runtime, "--config", config, "--bus", bus)
    assert code == 66
    (line,) = lines
    assert line == f"{stranger}/manifest.yaml:13: stranger.end_token: must be true or false"


# ── settings ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_two_lanes_with_a_mistake_each(start: Start, runtime: Path, bus: str, write: Write) -> None:
    config = write("lanes:\n  - name: one\n    source: file:/no/such/file\n  - name: two\n    source: file:/nor/this\n")
    code, lines = refused(start, runtime, "--config", config, "--bus", bus)
    assert code == 78
    assert ["/no/such/file" in lines[0], "/nor/this" in lines[1]] == [True, True] and len(lines) == 2
    assert [line.split(" ")[0] for line in lines] == [f"{config}:3:", f"{config}:5:"]


def test_check_config(env: dict[str, str], write: Write) -> None:
    whole = CHECKOUT / "config" / "voiced.yaml"
    good = run("voiced", "--check-config", whole, env=env)
    assert (good.returncode, good.stdout, good.stderr) == (0, f"{whole}: no mistakes (board: {board('auto').name})\n", "")

    bad = write("vad:\n  onn: 0.5\nendpoint:\n  silence_ms: soon\n")
    found = run("voiced", "--check-config", bad, env=env)
    assert (found.returncode, found.stdout) == (78, "")
    first, second = found.stderr.splitlines()
    assert first.startswith(f"voiced: {bad}:2: vad.onn: ") and second.startswith(f"voiced: {bad}:4: endpoint.silence_ms: ")

    k3 = CHECKOUT / "config" / "k3.yaml"
    assert run("voiced", "--board", "k3", "--check-config", k3, env=env).returncode == 0
    named = run("voiced", "--board", "k3", "--config", k3, "--check-config", env=env)
    assert (named.returncode, named.stdout) == (0, f"{k3}: no mistakes (board: k3)\n")

    usage = run("voiced", "--loud", env=env)
    assert usage.returncode == 2 and "--loud" in usage.stderr and "Traceback" not in usage.stderr


def test_check_config_without_a_file_reads_what_voiced_would(env: dict[str, str], runtime: Path) -> None:
    if not SYSTEM_FILE.exists():
        none = run("voiced", "--check-config", "--board", "generic", env=env)
        assert (none.returncode, none.stdout) == (0, "no settings file, so the defaults hold (board: generic)\n")
    own = runtime / ".config" / "voiced" / "voiced.yaml"
    own.parent.mkdir(parents=True)
    own.write_text("vad:\n  onn: 0.5\n")
    found = run("voiced", "--check-config", env=env)
    assert (found.returncode, found.stdout) == (78, "")
    assert found.stderr.startswith(f"voiced: {own}:2: vad.onn: ")
    own.write_text("vad:\n  on: 0.5\n")
    Path(f"{own}.d").mkdir()
    Path(f"{own}.d/more.yaml").write_text("endpoint: {silence_ms: 800}\n")
    found = run("voiced", "--check-config", "--board", "generic", env=env)
    assert (found.returncode, found.stdout) == (0, f"{own} and 1 in {own}.d: no mistakes (board: generic)\n")


# ── the bus ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_second_daemon_is_told_whose_the_name_is(start: Start, listen: Listen, bus: str, runtime: Path, write: Write, both: Path) -> None:
    listener = listen(bus)
    config = write(f"lanes: [{{name: desk, source: 'file:{both}'}}]\n")
    first = start("voiced", "--config", config, "--bus", bus)
    listener.lane(Health="ok")
    second = start("voiced", "--config", config, "--bus", bus)
    assert second.wait() == 69
    (line,) = second.err.splitlines()
    assert line.startswith("voiced: org.voiced.Voice1: the name is taken by process ") and f" {first.pid} " in line
    assert first.stop() == 0


def test_a_bus_that_is_not_there(start: Start, runtime: Path) -> None:
    code, lines = refused(start, runtime, "--bus", f"unix:path={runtime}/none")
    assert code == 69
    assert len(lines) == 1 and f"{runtime}/none" in lines[0]


# ── the microphone ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_without_a_microphone_it_is_there_and_says_so(start: Start, listen: Listen, bus: str, write: Write) -> None:
    """An absent device only degrades its lane."""
    listener = listen(bus)
    voiced = start("voiced", "--bus", bus, "--config", write("lanes: [{name: desk, source: no such device}]\n"))
    listener.lane(Health="no_device")
    assert listener.status()["lanes"][0]["reason"], "a client can ask why"
    with pytest.raises(BusError, match=r"lane desk: it has no sound now \(no_device\)"):
        listener.trigger()
    # one line, however often it is tried: this machine may have no device at all, or others
    until(lambda: "no such device" in voiced.err or "there is no device that records" in voiced.err, "the reason", lambda: voiced.err)
    assert "Traceback" not in voiced.err
    assert voiced.stop() == 0


# ── signals ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_hang_up_is_told_and_survived(start: Start, listen: Listen, bus: str, write: Write, both: Path) -> None:
    listener = listen(bus)
    voiced = start("voiced", "--bus", bus, "--config", write(f"lanes: [{{name: desk, source: 'file:{both}'}}]\n"))
    listener.lane(Health="ok")
    os.kill(voiced.pid, signal.SIGHUP)
    voiced.says("settings read anew: nothing has changed that takes effect at once")
    assert listener.status()["health"] == "ok"
    assert voiced.stop() == 0


@pytest.mark.parametrize("words", [[":lane"], [":lane", "2"], [":lane", "77"], [":capture", "x"], [":no-such-role", "0"]])
def test_a_role_is_not_for_users(start: Start, runtime: Path, words: list[str]) -> None:
    code, lines = refused(start, runtime, *words)
    assert code == 2
    assert lines == [f"{words[0]} is a process of voiced's own, which voiced itself starts; see voiced --help"]
