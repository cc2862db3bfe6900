"""The runtime directory: made, gone at the end, cleared away after a process that could not."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from voiced import runtime_dir
from voiced.errors import OutputError
from voiced.runtime_dir import clear_away, runtime_directory


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.delenv("RUNTIME_DIRECTORY", raising=False)
    return tmp_path


def aged(path: Path) -> Path:
    os.utime(path, (1, 1))
    return path


def test_it_is_ours_alone_and_gone_at_the_end(folder: Path) -> None:
    with runtime_directory() as made:
        assert made.parent == folder
        assert made.stat().st_mode & 0o777 == 0o700
        (made / "provider.json").touch()
    assert list(folder.iterdir()) == []


def test_systemds_is_used_and_left(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RUNTIME_DIRECTORY", f"{folder}:/other")
    with runtime_directory() as given:
        assert given == folder
    assert folder.exists()


def test_what_a_killed_process_left_is_cleared_away(folder: Path) -> None:
    code = "import signal; from voiced.runtime_dir import runtime_directory as r\nwith r() as d: print(d, flush=True); signal.pause()"
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, env={**os.environ, "TMPDIR": str(folder)}
    ) as owner:
        assert owner.stdout is not None
        left = Path(owner.stdout.readline().strip())
        aged(left)
        clear_away(folder)
        assert left.exists(), "its owner lives"
        owner.send_signal(signal.SIGKILL)
        owner.wait()
    with runtime_directory() as made:
        assert list(folder.iterdir()) == [made]


def test_nothing_else_is_touched(folder: Path) -> None:
    young, file, target = folder / "voiced-run-young", folder / "voiced-run-file", folder / "target"
    young.mkdir()
    file.touch()
    aged(file)
    target.mkdir()
    (target / "kept").touch()
    aged(target)
    (folder / "voiced-run-link").symlink_to(target)
    os.utime(folder / "voiced-run-link", (1, 1), follow_symlinks=False)
    aged_bus = folder / f"voiced-{os.geteuid()}"
    aged_bus.mkdir()
    aged(aged_bus)
    before = sorted(folder.rglob("*"))
    clear_away(folder)
    assert sorted(folder.rglob("*")) == before


def test_only_so_many_at_once_and_never_a_locked_one(folder: Path) -> None:
    for number in range(runtime_dir._AT_ONCE + 3):
        aged_one = folder / f"voiced-run-{number:02}"
        aged_one.mkdir()
        aged(aged_one)
    locked = os.open(folder / "voiced-run-00", os.O_RDONLY)
    try:
        fcntl.flock(locked, fcntl.LOCK_EX)
        clear_away(folder)
        assert len(list(folder.iterdir())) == 4
        clear_away(folder)
        assert [path.name for path in folder.iterdir()] == ["voiced-run-00"]
    finally:
        os.close(locked)


def test_where_none_can_be_made_that_is_one_line(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(folder / "none"))
    with (
        pytest.raises(OutputError, match=rf"^{folder}/none/voiced-run-.*: cannot be written: No such file or directory; make room"),
        runtime_directory(),
    ):
        pass

    def full() -> str:
        raise FileNotFoundError(2, "No usable temporary directory found in ['/tmp']")

    monkeypatch.setattr(tempfile, "gettempdir", full)
    with pytest.raises(OutputError, match=r"^TMPDIR: cannot be written: No usable temporary directory found in"), runtime_directory():
        pass
