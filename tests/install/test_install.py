"""tools/install into a folder that stands for /: what is put where, what is kept, what bad ground does, what is left."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from shipping import changes, install, layout, machine
from shipping.changes import Record
from voiced import __version__

CHECKOUT = Path(__file__).resolve().parents[2]
CONFIG = "etc/voiced/voiced.yaml"
RECORD = "usr/local/lib/voiced/installed.json"

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """tools/install with these arguments: exit code, output, complaints."""

    def go(*arguments: str | Path) -> tuple[int, str, str]:
        code = install.main([str(argument) for argument in arguments])
        said = capsys.readouterr()
        assert "Traceback" not in said.err
        return code, said.out, said.err

    return go


def tree(root: Path) -> dict[str, bytes]:
    """Every file below a folder and what is in it."""
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


# ── what is put where ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_everything_is_put_in_place_and_a_second_time_nothing(run: Run, tmp_path: Path) -> None:
    assert run("--root", tmp_path)[0] == 0
    there = tree(tmp_path)
    for name in (
        "usr/local/bin/voiced", "usr/local/bin/voicectl", "usr/local/bin/voiced-setup", "usr/local/lib/voiced/daemon/voiced/__main__.py",
        "usr/local/lib/voiced/tools/voicectl/__main__.py", "usr/local/lib/voiced/models/manifest.yaml",
        "usr/local/lib/voiced/models/starter-en/encoder.int8.onnx", "usr/local/lib/systemd/system/voiced.service",
        "usr/local/lib/systemd/user/voiced.service", "usr/local/lib/sysusers.d/voiced.conf", "usr/local/lib/tmpfiles.d/voiced.conf",
        "etc/dbus-1/system.d/org.voiced.Voice1.conf", "usr/local/share/dbus-1/system-services/org.voiced.Voice1.service",
        "usr/local/share/dbus-1/interfaces/org.voiced.Voice1.Lane.xml", "usr/local/share/man/man8/voiced.8.gz",
        "usr/local/share/man/man1/voicectl.1.gz", "usr/local/share/man/man5/voiced.yaml.5.gz",
        "usr/local/share/bash-completion/completions/voicectl", "usr/local/share/zsh/site-functions/_voicectl",
        "usr/local/share/doc/voiced/examples/voiced.yaml", "usr/local/share/doc/voiced/examples/drop-ins/network.conf", CONFIG, RECORD,
    ):  # fmt: skip
        assert name in there, name
    assert not [name for name in there if "__pycache__" in name or "weights" in name or changes.FRESH in name]
    assert b"/usr/local/bin/voiced --system" in there["usr/local/lib/systemd/system/voiced.service"]
    code, _, err = run("--root", tmp_path)
    assert (code, err) == (0, f"tools/install: 0 files put in place below /usr/local, {len(there) - 1} left as they were\n")
    assert tree(tmp_path) == there


def test_a_dry_run_says_all_and_does_nothing(run: Run, tmp_path: Path) -> None:
    code, out, err = run("--root", tmp_path, "--dry-run")
    assert (code, err, tree(tmp_path)) == (0, "", {})
    assert f"create: /{CONFIG}\n" in out
    assert re.search(r"create: \d{3} files below /usr/local/lib/voiced\n", out)
    run("--root", tmp_path)
    code, out, _ = run("--root", tmp_path, "--dry-run")
    assert "create" not in out and "replace" not in out
    code, out, _ = run("--root", tmp_path, "--dry-run", "--uninstall")
    assert code == 0 and out.startswith("remove: ")
    assert (tmp_path / CONFIG).exists()


def test_another_prefix_has_its_units_where_systemd_looks(run: Run, tmp_path: Path) -> None:
    code, _, err = run("--root", tmp_path, "--prefix", "/opt/a voice")
    assert code == 0
    elsewhere, _ = err.splitlines()
    assert elsewhere.startswith("tools/install: units, policy and settings go below /etc: ") and elsewhere.endswith("below /opt/a voice")
    unit = (tmp_path / "etc/systemd/system/voiced.service").read_text()
    assert "ExecStart=/opt/a voice/bin/voiced --system" in unit
    assert "/usr/bin/voice" not in unit
    assert "top='/opt/a voice/lib/voiced'" in (tmp_path / "opt/a voice/bin/voiced").read_text()


def test_for_one_user_nothing_of_the_machine_is_touched() -> None:
    places = layout.Places(Path("/home/me/.local"), whole_machine=False)
    paths = [item.path for item in layout.items(places)]
    assert all(path.is_relative_to("/home/me/.local") for path in paths)
    assert Path("/home/me/.local/share/systemd/user/voiced.service") in paths


@pytest.mark.parametrize("prefix", [Path.home() / ".local", Path("/home/me/.local")], ids=["own", "another's"])
def test_in_a_home_root_too_installs_for_one_user(run: Run, tmp_path: Path, prefix: Path) -> None:
    """`sudo tools/install --prefix ~/.local`: the shell has made it another's home before anybody is root."""
    code, _, err = run("--root", tmp_path, "--prefix", prefix)
    assert (code, err.count("\n")) == (0, 1)
    assert all(f"/{name}".startswith(f"{prefix}/") for name in tree(tmp_path))


def test_a_users_unit_where_systemd_does_not_look_is_told(run: Run, tmp_path: Path) -> None:
    _, _, err = run("--root", tmp_path, "--prefix", Path.home() / "voice")
    unit = Path.home() / "voice/share/systemd/user/voiced.service"
    assert err.splitlines()[-1] == f"tools/install: systemd does not look there for its unit, so once: systemctl --user link {unit}"


def test_a_prefix_that_would_do_harm_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    for prefix, says in ((CHECKOUT / "here", "within the checkout"), (Path("/usr"), "for packages")):
        with pytest.raises(SystemExit) as ended:
            install.main(["--prefix", str(prefix)])
        assert ended.value.code == 2
        assert says in capsys.readouterr().err


def test_the_commands_say_what_is_missing_and_run_what_is_there(run: Run, tmp_path: Path) -> None:
    """The three commands as they are installed, in their own places."""
    prefix = tmp_path / "a prefix"
    for item in layout.items(layout.Places(prefix, whole_machine=False)):
        item.path.parent.mkdir(parents=True, exist_ok=True)
        item.path.write_bytes(item.data)
        item.path.chmod(item.mode)
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}

    def call(name: str, *arguments: str) -> tuple[int, str, str]:
        done = subprocess.run([prefix / "bin" / name, *arguments], env=env, cwd="/", capture_output=True, text=True, check=False)
        return done.returncode, done.stdout, done.stderr

    for name in ("voiced", "voicectl"):
        code, out, err = call(name, "--version")
        assert (code, out) == (75, "")
        assert err == f"{name}: its environment is not there, or is of a Python that has gone; run: {prefix}/bin/voiced-setup\n"
    assert call("voiced-setup", "--version") == (0, f"voiced-setup {__version__}\n", "")
    code, out, _ = call("voiced-setup", "--dry-run", "--board", "generic")
    assert code == 0 and f"fetched models: {prefix}/lib/voiced/site/models\n" in out
    # an environment: this one, which has all libraries; the code and the models are those installed
    site = prefix / "lib/voiced/site/env/bin"
    site.mkdir(parents=True)
    (site / "python").symlink_to(sys.executable)
    top = prefix / "lib/voiced"
    env["PYTHONPATH"] = f"{top}/daemon:{top}/tools"
    assert call("voiced", "--version") == (0, f"voiced {__version__}\n", "")
    code, out, _ = call("voicectl", "models", "list")
    assert code == 0 and f"{top}/models/starter-en" in out


# ── what is kept ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_settings_that_were_changed_are_never_written_over(run: Run, tmp_path: Path) -> None:
    run("--root", tmp_path)
    (tmp_path / CONFIG).write_text("endpoint:\n  silence_ms: 800\n")
    code, _, err = run("--root", tmp_path)
    assert code == 0 and f"kept: /{CONFIG}, which was changed" in err
    code, _, err = run("--root", tmp_path, "--board", "k3")
    assert code == 0 and f"kept: /{CONFIG}" in err
    assert (tmp_path / CONFIG).read_text() == "endpoint:\n  silence_ms: 800\n"


def test_settings_that_nobody_changed_follow_the_version(run: Run, tmp_path: Path) -> None:
    run("--root", tmp_path)
    run("--root", tmp_path, "--board", "k3")
    assert "board: k3" in (tmp_path / CONFIG).read_text()
    assert (tmp_path / "etc/systemd/system/voiced.service.d/k3.conf").exists()
    run("--root", tmp_path, "--board", "generic")
    assert "board: k3" not in (tmp_path / CONFIG).read_text()
    assert not (tmp_path / "etc/systemd/system/voiced.service.d").exists(), "what this installation has not goes, with its folder"


def test_settings_that_were_deleted_stay_so(run: Run, tmp_path: Path) -> None:
    run("--root", tmp_path)
    (tmp_path / CONFIG).unlink()
    run("--root", tmp_path)
    assert not (tmp_path / CONFIG).exists()


def test_settings_that_were_there_before_are_kept_and_left(run: Run, tmp_path: Path) -> None:
    (tmp_path / CONFIG).parent.mkdir(parents=True)
    (tmp_path / CONFIG).write_text("log: {level: debug}\n")
    run("--root", tmp_path)
    code, _, err = run("--root", tmp_path, "--uninstall")
    assert (code, err) == (0, f"tools/install: left: /{CONFIG}, which was changed; nothing else of voiced is left\n")
    assert tree(tmp_path) == {CONFIG: b"log: {level: debug}\n"}


def test_an_older_versions_settings_stop_it_before_anything_is_changed(run: Run, tmp_path: Path) -> None:
    """Unknown and renamed keys, each with its line."""
    run("--root", tmp_path)
    before = tree(tmp_path)
    (tmp_path / CONFIG).write_text("wake:\n  min_speech: 8\nvad:\n  onn: 0.5\n")
    (tmp_path / "usr/local/bin/voiced").write_text("an older version\n")
    code, _, err = run("--root", tmp_path)
    lines = err.splitlines()
    assert code == 78 and len(lines) == 3
    assert f"{CONFIG}:2: wake.min_speech: is of an older version; it is wake.verify_speech, in windows of 32 ms now" in lines[0]
    assert f"{CONFIG}:4: vad.onn: no such setting; did you mean on?" in lines[1]
    assert "nothing was changed" in lines[2]
    assert (tmp_path / "usr/local/bin/voiced").read_text() == "an older version\n"
    assert set(tree(tmp_path)) == set(before)


# ── what is left ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_uninstalled_nothing_is_left(run: Run, tmp_path: Path) -> None:
    (tmp_path / "usr/local/bin").mkdir(parents=True)
    run("--root", tmp_path)
    (tmp_path / "usr/local/lib/voiced/daemon/voiced/__pycache__").mkdir()
    (tmp_path / "usr/local/lib/voiced/daemon/voiced/__pycache__/x.pyc").touch()
    code, _, err = run("--root", tmp_path, "--uninstall")
    assert (code, err) == (0, "tools/install: nothing of voiced is left\n")
    assert sorted(tmp_path.rglob("*")) == [tmp_path / "usr", tmp_path / "usr/local", tmp_path / "usr/local/bin"]
    code, _, err = run("--root", tmp_path, "--uninstall")
    assert code == 2 and "nothing is installed there" in err


def test_other_peoples_files_are_left(run: Run, tmp_path: Path) -> None:
    run("--root", tmp_path)
    (tmp_path / "etc/voiced/mine.txt").write_text("mine")
    (tmp_path / "usr/local/bin/other").write_text("other")
    run("--root", tmp_path, "--uninstall")
    assert tree(tmp_path) == {"etc/voiced/mine.txt": b"mine", "usr/local/bin/other": b"other"}


def test_an_upgrade_takes_away_what_the_new_version_has_not(run: Run, tmp_path: Path) -> None:
    run("--root", tmp_path)
    old = tmp_path / "usr/local/lib/voiced/tools/voicectl/old.py"
    old.write_text("old")
    record = Record.read(tmp_path / RECORD)
    (tmp_path / RECORD).write_bytes(
        Record({**record.files, f"/{old.relative_to(tmp_path)}": changes.digest(b"old")}, record.folders).text()
    )
    run("--root", tmp_path)
    assert not old.exists()
    assert f"/{old.relative_to(tmp_path)}" not in Record.read(tmp_path / RECORD).files


# ── bad ground ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_what_was_broken_off_is_finished_by_the_next(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A power cut after a third of the renames: everything that is there is in the record, and the next run makes it whole."""
    real, left = Path.replace, [80]

    def cut(path: Path, target: Path) -> Path:
        left[0] -= 1
        if not left[0]:
            raise KeyboardInterrupt
        return real(path, target)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", cut)
        assert run("--root", tmp_path)[0] == 130
    half = {name for name in tree(tmp_path) if changes.FRESH not in name}
    assert 70 < len(half) < 90
    assert {f"/{name}" for name in half} <= {*Record.read(tmp_path / RECORD).files, f"/{RECORD}"}
    assert run("--root", tmp_path)[0] == 0
    whole = tree(tmp_path)
    assert not [name for name in whole if changes.FRESH in name]
    assert len(whole) > 200
    run("--root", tmp_path, "--uninstall")
    assert tree(tmp_path) == {}


def apart(*commands: str) -> subprocess.CompletedProcess[str]:
    """Runs shell commands with mounts of their own, then tools/install; skips where mounts are not allowed."""
    if os.geteuid() != 0 or shutil.which("unshare") is None or subprocess.run(["unshare", "-m", "true"], check=False).returncode:
        pytest.skip("mounting needs root")
    return subprocess.run(["unshare", "-m", "sh", "-ec", "\n".join(commands)], capture_output=True, text=True, check=False)


def installer(*arguments: str | Path, python: str = sys.executable) -> str:
    words = " ".join(f"'{argument}'" for argument in arguments)
    return f"PYTHONPATH='{CHECKOUT}/daemon:{CHECKOUT}/tools' '{python}' -B -P -m shipping.install {words}"


def test_a_full_disk_leaves_nothing(tmp_path: Path) -> None:
    done = apart(
        f"mount -t tmpfs -o size=4m tmpfs '{tmp_path}'",
        f'{installer("--root", tmp_path)} || echo "exit $?"',
        f"find '{tmp_path}' -mindepth 1",
    )
    assert done.stdout == "exit 74\n", done.stdout + done.stderr
    assert done.stderr.count("\n") == 1
    assert re.fullmatch(rf"tools/install: {tmp_path}/\S+: the disk is full; make room, then try again\n", done.stderr)


def test_a_full_disk_leaves_the_older_version_as_it_was(tmp_path: Path) -> None:
    done = apart(
        f"mount -t tmpfs -o size=40m tmpfs '{tmp_path}'",
        f"{installer('--root', tmp_path)} 2>/dev/null",
        f"find '{tmp_path}' -name '*.onnx' -exec sh -c 'echo older >>\"$1\"' sh {{}} \\;",
        f"cd '{tmp_path}'; find . -type f -exec sha256sum {{}} + | sort >/dev/shm/voiced-$$",
        f"dd if=/dev/zero of='{tmp_path}/filler' bs=64k 2>/dev/null || true",
        f'{installer("--root", tmp_path)} || echo "exit $?"',
        f"rm '{tmp_path}/filler'; find . -type f -exec sha256sum {{}} + | sort | diff /dev/shm/voiced-$$ - && echo same",
        "rm /dev/shm/voiced-$$",
    )
    assert done.stdout == "exit 74\nsame\n", done.stdout + done.stderr
    assert "the disk is full" in done.stderr and done.stderr.count("\n") == 1


def test_an_etc_that_may_not_be_written_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    done = apart(
        f"mount -t tmpfs -o ro tmpfs '{tmp_path}/etc'",
        f'{installer("--root", tmp_path)} || echo "exit $?"',
        f"find '{tmp_path}' -mindepth 1 -type f",
    )
    assert done.stdout == "exit 74\n", done.stdout + done.stderr
    assert re.fullmatch(
        rf"tools/install: {tmp_path}/etc/\S+: is on a file system that is mounted read-only; mount it for writing, then try again\n",
        done.stderr,
    )


def test_a_user_who_may_not_write_is_told() -> None:
    if os.geteuid() != 0 or shutil.which("setpriv") is None:
        pytest.skip("becoming another user needs root")
    python = "/usr/bin/python3"  # this environment's own may be in a home that others may not enter
    if subprocess.run([python, "-c", "import sys; sys.exit(sys.version_info < (3, 11))"], check=False).returncode:
        pytest.skip(f"{python} is too old")
    with tempfile.TemporaryDirectory(prefix="voiced-") as folder:
        Path(folder).chmod(0o755)
        command = ["setpriv", "--reuid=65534", "--clear-groups", "sh", "-c", installer("--root", folder, python=python)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    if "No module named" in done.stderr:
        pytest.skip("this checkout may not be read by others")
    assert done.returncode == 74, done.stderr
    assert re.fullmatch(r"tools/install: \S+: cannot be written by this user: Permission denied; run it as root: sudo\n", done.stderr)


def test_a_record_that_is_none_is_told(run: Run, tmp_path: Path) -> None:
    (tmp_path / RECORD).parent.mkdir(parents=True)
    (tmp_path / RECORD).write_text("[]")
    code, _, err = run("--root", tmp_path)
    assert code == 74 and "is no record of an installation" in err and err.count("\n") == 1


def test_a_folder_in_the_way_is_told(run: Run, tmp_path: Path) -> None:
    (tmp_path / "usr/local/bin/voiced").mkdir(parents=True)
    code, _, err = run("--root", tmp_path)
    assert code == 74 and "usr/local/bin/voiced: is in the way and cannot be read: Is a directory" in err
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_missing_users_and_groups_are_told_with_the_command_that_makes_them(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """On a machine without the tools that make them."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(machine, "USER", "voiced-no-such")
    monkeypatch.setattr(machine, "GROUP", "voice-no-such")
    lines = list(machine.settle(tmp_path / "sysusers", tmp_path / "tmpfiles"))
    assert "groupadd is not there, so it was not done: groupadd --system voice-no-such" in lines
    assert "the group voice-no-such is missing: groupadd --system voice-no-such" in lines
    assert any(line.startswith("the user voiced-no-such is missing: useradd --system") for line in lines)
