"""The sample subscribers, each beside a real daemon that is restarted: what is spoken before and after arrives, once."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from livedaemon import PATIENT, Listener, Start, clock_and_silence, descendants, environment, own_bus, runtime_of_a_user, start, until

__all__ = ["start"]

SAMPLES = Path(__file__).resolve().parents[2] / "tools" / "samples"
SAID = "What time is it?"

needs_gdbus = pytest.mark.skipif(not shutil.which("gdbus"), reason="gdbus is not installed (Debian: libglib2.0-bin)")


@pytest.fixture(scope="module")
def runtime() -> Iterator[Path]:
    with runtime_of_a_user() as directory:
        yield directory


@pytest.fixture(scope="module")
def bus(runtime: Path) -> Iterator[str]:
    with own_bus(runtime) as address:
        yield address


@pytest.fixture(scope="module")
def env(runtime: Path) -> dict[str, str]:
    return environment(runtime)


@pytest.fixture(scope="module")
def clock(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """ "jarvis, what time is it", and silence without end."""
    return clock_and_silence(tmp_path_factory.mktemp("sound") / "clock.wav")


@pytest.fixture(scope="module")
def modules(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """node_modules with dbus-next, by npm."""
    if shutil.which("node") is None or shutil.which("npm") is None:
        pytest.skip("node and npm are not installed")
    folder = tmp_path_factory.mktemp("node")
    command = ["npm", "install", "--no-audit", "--no-fund", "--omit=optional", "dbus-next@0.10"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=300, check=False)
    if done.returncode:
        pytest.skip(f"npm cannot bring dbus-next: {' '.join(done.stderr.split())[-200:]}")
    return folder / "node_modules"


def started(pid: int) -> bytes:
    """What the processes that this one started were called with."""
    found = b""
    for child in descendants(pid):
        with suppress(OSError):  # ended meanwhile
            found += Path(f"/proc/{child}/cmdline").read_bytes()
    return found


class Subscriber:
    """A sample that runs; its lines go to files."""

    def __init__(self, command: list[str], env: dict[str, str], folder: Path) -> None:
        self._out, self._err = folder / "subscriber.out", folder / "subscriber.err"
        with self._out.open("wb") as out, self._err.open("wb") as err:
            self.process = subprocess.Popen(command, env=env, stdin=subprocess.DEVNULL, stdout=out, stderr=err, start_new_session=True)

    @property
    def err(self) -> str:
        return self._err.read_text()

    def lines(self, count: int) -> list[str]:
        """Its output, once it has so many lines."""
        until(lambda: self._out.read_text().count("\n") >= count, f"{count} lines", lambda: (self._out.read_text(), self.err))
        return self._out.read_text().splitlines()

    def end(self) -> None:
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


def survives(
    command: list[str], line: str, *, system: bool, start: Start, env: dict[str, str], bus: str, clock: Path, tmp_path: Path
) -> None:
    """Runs it before there is a daemon, and through two of them."""
    config = tmp_path / "voiced.yaml"
    config.write_text(f"{PATIENT}lanes:\n  - {{name: desk, source: 'file:{clock}'}}\n")
    # one bus, taken for the session's or for the system's, on which signals go to subscribers alone
    where, which = ("--system", "DBUS_SYSTEM_BUS_ADDRESS") if system else ("--session", "DBUS_SESSION_BUS_ADDRESS")
    env = {**env, which: bus}
    subscriber = Subscriber(command, env, tmp_path)
    listener = Listener(bus)
    try:
        for number in (1, 2):
            voiced = start("voiced", where, "--config", config, env=env)
            assert subscriber.lines(number) == [line] * number
            assert voiced.stop() == 0
    finally:
        listener.close()
        subscriber.end()


@pytest.mark.parametrize("system", [False, True], ids=["session", "system"])
def test_python(system: bool, start: Start, env: dict[str, str], bus: str, clock: Path, tmp_path: Path) -> None:
    command = [sys.executable, str(SAMPLES / "subscriber.py"), *(["--system"] if system else [])]
    survives(command, f"desk\t{SAID}", system=system, start=start, env=env, bus=bus, clock=clock, tmp_path=tmp_path)


def says_that_no_bus_is_named(command: list[str], env: dict[str, str]) -> None:
    env = {key: value for key, value in env.items() if key not in ("DBUS_SESSION_BUS_ADDRESS", "XDG_RUNTIME_DIR", "DISPLAY")}
    done = subprocess.run(command, env=env, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("no bus: ")
    assert done.stderr.endswith("; name its ADDRESS (`voicectl status` says it)\n")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("address", [[], ["nonsense"]], ids=["none", "nonsense"])
def test_python_says_in_a_line_that_no_bus_is_named(address: list[str]) -> None:
    says_that_no_bus_is_named([sys.executable, str(SAMPLES / "subscriber.py"), *address], dict(os.environ))


@pytest.mark.parametrize("address", [[], ["nonsense"]], ids=["none", "nonsense"])
def test_javascript_says_in_a_line_that_no_bus_is_named(address: list[str], modules: Path) -> None:
    says_that_no_bus_is_named(["node", str(SAMPLES / "subscriber.js"), *address], {**os.environ, "NODE_PATH": str(modules)})


@pytest.mark.parametrize("system", [False, True], ids=["session", "system"])
def test_javascript(system: bool, modules: Path, start: Start, env: dict[str, str], bus: str, clock: Path, tmp_path: Path) -> None:
    command = ["node", str(SAMPLES / "subscriber.js"), *(["--system"] if system else [])]
    survives(
        command,
        f"desk\t{SAID}",
        system=system,
        start=start,
        env={**env, "NODE_PATH": str(modules)},
        bus=bus,
        clock=clock,
        tmp_path=tmp_path,
    )


@pytest.mark.parametrize("system", [False, True], ids=["session", "system"])
def test_shell(system: bool, start: Start, env: dict[str, str], bus: str, clock: Path, tmp_path: Path) -> None:
    if not system and shutil.which("gdbus") is None:
        pytest.skip("gdbus is not installed")
    tools = tmp_path / "bin"
    tools.mkdir()
    (tools / "voicectl").write_text(f'#!/bin/sh\nexec {sys.executable} -m voicectl "$@"\n')
    (tools / "voicectl").chmod(0o755)
    command = ["sh", str(SAMPLES / "subscriber.sh"), *(["--system"] if system else [])]
    env = {**env, "PATH": f"{tools}:{env['PATH']}"}
    survives(command, SAID, system=system, start=start, env=env, bus=bus, clock=clock, tmp_path=tmp_path)


@needs_gdbus
@pytest.mark.parametrize("address", [[], ["nonsense"], ["unix:path=/nowhere"]], ids=["none", "nonsense", "nobody"])
def test_shell_says_in_a_line_that_no_bus_is_named(address: list[str]) -> None:
    says_that_no_bus_is_named(["sh", str(SAMPLES / "subscriber.sh"), *address], dict(os.environ))


@needs_gdbus
def test_shell_ends_with_the_session_bus(tmp_path: Path) -> None:
    with own_bus(tmp_path) as address:
        env = os.environ | {"DBUS_SESSION_BUS_ADDRESS": address}
        subscriber = Subscriber(["sh", str(SAMPLES / "subscriber.sh")], env, tmp_path)
        until(lambda: b"monitor" in started(subscriber.process.pid), "gdbus monitor", lambda: subscriber.err)
    assert subscriber.process.wait(timeout=60) == 1
    assert subscriber.err.splitlines()[-1] == "the bus is gone"


@pytest.mark.parametrize(
    ("printed", "text"),
    [
        (
            "/org/voiced/Voice1/lanes/main: org.voiced.Voice1.Lane.Final (uint64 3, uint64 1, uint64 16000, 'Stop.', 'first pass', {})",
            "Stop.",
        ),
        ("/x: org.voiced.Voice1.Lane.Final (uint64 3, uint64 1, uint64 16000, \"What's up\", 'second pass', {})", "What's up"),
        ("/x: org.voiced.Voice1.Lane.Final (uint64 3, uint64 1, uint64 16000, 'a, b (c)', 'second pass', {'note': <'x, y'>})", "a, b (c)"),
        ("/x: org.voiced.Voice1.Lane.Partial (uint64 3, uint64 1, uint64 16000, 'Stop.', {})", None),
    ],
)
def test_what_gdbus_prints_is_read(printed: str, text: str | None, tmp_path: Path) -> None:
    """A gdbus that prints one line and ends."""
    (tmp_path / "gdbus").write_text(f"#!/bin/sh\ncat <<'LINE'\n{printed}\nLINE\n")
    (tmp_path / "gdbus").chmod(0o755)
    env = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = subprocess.run(["sh", SAMPLES / "subscriber.sh"], env=env, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (1, "the bus is gone\n")
    assert done.stdout == (f"{text}\n" if text is not None else "")
