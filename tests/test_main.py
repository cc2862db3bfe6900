"""The command line's last lines: whatever goes wrong is one line and a documented exit code."""

from __future__ import annotations

import os
import subprocess
import sys
from argparse import Namespace
from pathlib import Path

import pytest
from voiced.daemon import file_lanes, wanted_bus
from voiced.errors import InputError, UsageError
from voiced.settings import BusSettings

CHECKOUT = Path(__file__).resolve().parents[1]
GOOD = CHECKOUT / "config" / "voiced.yaml"


def voiced(*arguments: str | Path, out: str = "", code: str = "", **env: str) -> tuple[int, str]:
    """Exit code and stderr. `code` is run before the command itself, in its process."""
    begin = f"import sys\n{code}\nfrom voiced.__main__ import main\nsys.exit(main(sys.argv[1:]))"
    sink = os.open(out or os.devnull, os.O_WRONLY)
    try:
        done = subprocess.run(
            [sys.executable, "-c", begin, *map(str, arguments)],
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **env},
            check=False,
        )
    finally:
        os.close(sink)
    return done.returncode, done.stderr


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_full_disk_is_one_line(unbuffered: str) -> None:
    code, said = voiced("--check-config", GOOD, out="/dev/full", PYTHONUNBUFFERED=unbuffered)
    assert (code, said) == (
        74,
        "voiced: standard output: cannot be written: No space left on device; make room, or send it elsewhere\n",
    )


def test_a_closed_stdout_is_nobodys() -> None:
    command = f'exec "{sys.executable}" -m voiced --check-config "{GOOD}" >&-'
    done = subprocess.run(["sh", "-c", command], stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("errors", ["2>/dev/full", "2>&-", "2>&1 | true"])
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_what_cannot_be_said_has_its_exit_code_all_the_same(tmp_path: Path, errors: str, unbuffered: str) -> None:
    bad, code = tmp_path / "bad.yaml", tmp_path / "code"
    bad.write_text("endpoint: {silence: 3}\n")
    command = f"""{{ "{sys.executable}" -m voiced --check-config "{bad}"; echo $? > "{code}"; }} {errors}"""
    subprocess.run(["sh", "-c", command], check=True, env={**os.environ, "PYTHONUNBUFFERED": unbuffered})
    assert code.read_text() == "78\n"


def test_no_file_gets_the_number_of_a_standard_stream_that_is_closed() -> None:
    program = "import os, sys; from voiced.terminal import prepare_output; prepare_output(); sys.exit(os.open('/', os.O_RDONLY))"
    for closed in ("<&-", ">&-", "2>&-", "<&- >&- 2>&-"):
        done = subprocess.run(["sh", "-c", f'exec "{sys.executable}" -c "$0" {closed}', program], check=False)
        assert done.returncode > 2, closed


def test_a_settings_folder_that_cannot_be_looked_at() -> None:
    code, said = voiced("--input", "x.wav", XDG_CONFIG_HOME=f"/{300 * 'x'}")
    assert code == 78
    assert said.endswith("voiced.yaml: cannot be looked for: File name too long; name a settings file with --config\n")
    assert said.count("\n") == 1


def test_too_many_files_at_the_pace_of_speech() -> None:
    code, said = voiced("--pace", "realtime", "--input", *(f"{number}.wav" for number in range(9)))
    assert code == 2
    assert said == (
        "voiced: --pace realtime: at most 8 files can be heard at once, at the pace of speech; 9 were given; "
        "give fewer, or hear them one after the other: --pace max\n"
    )


def test_a_fault_of_ours_is_one_line_and_the_traceback_for_who_asks() -> None:
    broken = "import voiced.settingsfile\ndef find(_): raise ZeroDivisionError('by\\nnothing')\nvoiced.settingsfile.find_config = find"
    line = "voiced: a fault of its own: ZeroDivisionError: by nothing; report it with what VOICED_TRACE=1 adds to this\n"
    journal = "import os\nat = os.fstat(2)\nos.environ['JOURNAL_STREAM'] = f'{at.st_dev}:{at.st_ino}'\n"
    assert voiced("--input", "x.wav", code=journal + broken, VOICED_TRACE="")[1].startswith(f"<3>{line}<3>Traceback")
    assert voiced("--input", "x.wav", code=broken, VOICED_TRACE="", JOURNAL_STREAM="1:1")[1] == line  # the journal of whoever began us
    env = {key: value for key, value in os.environ.items() if key != "JOURNAL_STREAM"}
    done = subprocess.run(
        [sys.executable, "-c", f"{broken}\nimport sys\nfrom voiced.__main__ import main\nsys.exit(main(['--input', 'x.wav']))"],
        capture_output=True,
        text=True,
        env={**env, "VOICED_TRACE": ""},
        check=False,
    )
    assert (done.returncode, done.stderr) == (70, line)


@pytest.mark.parametrize(
    "arguments",
    [["--json"], ["--pace", "realtime"], ["--pace", "max", "--demo"], ["--json", "--check-config", str(GOOD)]],
)
def test_options_that_go_with_another_one(arguments: list[str]) -> None:
    code, said = voiced(*arguments)
    assert code == 2
    assert f"voiced: error: {arguments[0]} goes with --input" in said


def test_an_address_that_is_none_is_usage_or_a_mistake_in_the_settings(tmp_path: Path) -> None:
    said = "expected a local bus (unix:…), got the transport 'tcp'"
    assert voiced("--bus", "tcp:host=x", "--demo") == (2, f"voiced: tcp:host=x: {said}\n")
    config = tmp_path / "voiced.yaml"
    config.write_text("bus: {address: 'tcp:host=x'}")
    assert voiced("--config", config) == (78, f"voiced: bus.address: {said}; see the comment in config/voiced.yaml\n")


def test_a_role_without_its_descriptor_is_usage() -> None:
    code, said = voiced(":lane")
    assert code == 2
    assert "Traceback" not in said


def test_lanes_of_files() -> None:
    assert [(lane.name, lane.source) for lane in file_lanes([Path("/a b.wav"), Path("/c")])] == [
        ("file1", "file:/a b.wav"),
        ("file2", "file:/c"),
    ]
    assert [lane.name for lane in file_lanes([Path("/a")], demo=True)] == ["demo"]
    for name in ("/a\n.wav", "/a\udcff.wav", "/" + 2000 * "x"):
        with pytest.raises(InputError, match="must be printable text of some length; rename it, or hear it by --pace max"):
            file_lanes([Path(name)])
    with pytest.raises(UsageError):
        file_lanes([Path("/a")] * 9)


def options(**given: object) -> Namespace:
    return Namespace(**{"bus": None, "session": False, "system": False, **given})


def test_the_command_lines_bus_goes_before_the_settings() -> None:
    address = BusSettings(address="unix:path=/a")
    system = BusSettings(kind="system")
    assert wanted_bus(options(), BusSettings()) is None
    assert wanted_bus(options(), address) == "unix:path=/a"
    assert wanted_bus(options(), system) == "system"
    assert wanted_bus(options(session=True), address) == "session"
    assert wanted_bus(options(session=True), system) == "session"
    assert wanted_bus(options(system=True), address) == "system"
    assert wanted_bus(options(bus="unix:path=/b"), address) == "unix:path=/b"
