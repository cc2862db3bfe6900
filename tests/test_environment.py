"""The shell that tools/run and tools/test share, and the versions they install."""

from __future__ import annotations

import configparser
import os
import re
import subprocess
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

CHECKOUT = Path(__file__).resolve().parents[1]
TOOLS = CHECKOUT / "tools"
SCRIPTS = (TOOLS / "run", TOOLS / "test", CHECKOUT / ".ci" / "run")


def shell(top: Path, script: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Runs `script` after environment.sh, with the checkout at `top`."""
    text = f"set -eu; top='{top}'; . '{TOOLS}/environment.sh'; python=python3; {script}"
    command = ["/bin/sh", "-c", text, "tools/run"]
    return subprocess.run(command, env={**os.environ, **environment}, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """What a fingerprint is made of, and an environment that seems complete."""
    (tmp_path / "tools").mkdir()
    for name in ("setup.cfg", "tools/constraints.txt", "tools/environment.sh"):
        (tmp_path / name).write_bytes((CHECKOUT / name).read_bytes())
    (tmp_path / ".venv" / "bin").mkdir(parents=True)
    python = tmp_path / ".venv" / "bin" / "python"
    python.write_text("#!/bin/sh\n")
    python.chmod(0o755)
    return tmp_path


def test_the_scripts_are_executable_and_well_formed() -> None:
    for script in SCRIPTS:
        assert os.access(script, os.X_OK), script
    for script in (*SCRIPTS[:2], TOOLS / "environment.sh"):
        subprocess.run(["sh", "-n", script], check=True)
    subprocess.run(["bash", "-n", SCRIPTS[2]], check=True)


@pytest.mark.parametrize("script", SCRIPTS[:2], ids=lambda script: script.name)
def test_help_sets_nothing_up(script: Path, tmp_path: Path) -> None:
    copy = tmp_path / "tools" / script.name
    copy.parent.mkdir()
    copy.write_bytes(script.read_bytes())
    copy.chmod(0o755)
    (tmp_path / "tools" / "environment.sh").write_bytes((TOOLS / "environment.sh").read_bytes())
    shown = subprocess.run([copy, "--help"], capture_output=True, text=True, check=True)
    assert shown.stdout.startswith(f"usage: tools/{script.name}")
    assert not (tmp_path / ".venv").exists()


def test_an_environment_serves_what_it_was_made_for_and_nothing_newer(checkout: Path) -> None:
    ready = 'ready "$1" && echo ready || echo stale'

    def state(kind: str) -> str:
        return shell(checkout, f"set -- {kind}; {ready}").stdout.strip()

    assert state("run") == "stale"
    shell(checkout, 'fingerprint run >"$stamp"').check_returncode()
    assert (state("run"), state("test")) == ("ready", "stale")
    shell(checkout, 'fingerprint test >"$stamp"').check_returncode()
    assert (state("run"), state("test")) == ("ready", "ready")
    with (checkout / "setup.cfg").open("a") as setup:
        setup.write("# another requirement\n")
    assert (state("run"), state("test")) == ("stale", "stale")


def test_a_copied_checkout_makes_its_own_environment(checkout: Path, tmp_path: Path) -> None:
    shell(checkout, 'fingerprint run >"$stamp"').check_returncode()
    moved = tmp_path / "moved"
    moved.symlink_to(checkout)
    assert shell(moved, "ready run && echo ready || echo stale").stdout == "stale\n"


def test_what_is_missing_is_named_with_the_command_that_brings_it(checkout: Path, tmp_path: Path) -> None:
    tools = tmp_path / "bin"
    tools.mkdir()
    for name, body in {"id": "echo 1000", "apt-get": "exit 1", "python3": "exit 1", "dbus-daemon": "exit 0"}.items():
        (tools / name).write_text(f"#!/bin/sh\n{body}\n")
        (tools / name).chmod(0o755)
    for name in ("tr", "cat", "sha256sum", "sh"):
        (tools / name).symlink_to(f"/usr/bin/{name}")
    refused = shell(checkout, "need_packages python3-venv libportaudio2 dbus", PATH=str(tools))
    assert refused.returncode == 1
    assert refused.stderr == (
        "tools/run: system packages are missing: python3-venv libportaudio2; run: sudo apt-get install python3-venv libportaudio2\n"
    )
    (tools / "apt-get").unlink()
    refused = shell(checkout, "need_packages libportaudio2", PATH=str(tools))
    assert "system libraries are missing (Debian's names: libportaudio2)" in refused.stderr


def test_too_old_a_python_is_told(checkout: Path, tmp_path: Path) -> None:
    refused = shell(checkout, "find_python", PATH=str(tmp_path))
    assert refused.returncode == 1
    assert "Python 3.11 or newer is needed and none is found" in refused.stderr


def test_every_requirement_is_pinned_within_its_range() -> None:
    setup = configparser.ConfigParser()
    setup.read(CHECKOUT / "setup.cfg")
    wanted = setup["options"]["install_requires"].splitlines() + setup["options.extras_require"]["dev"].splitlines()
    lines = (TOOLS / "constraints.txt").read_text().splitlines()
    pins = dict(line.split("==") for line in lines if line and not line.startswith("#"))
    assert all(re.fullmatch(r"[\w.-]+==[\w.]+", line) for line in lines if line and not line.startswith("#"))
    versions = {canonicalize_name(name): version for name, version in pins.items()}
    for requirement in map(Requirement, filter(None, wanted)):
        assert versions[canonicalize_name(requirement.name)] in requirement.specifier, requirement


@pytest.mark.parametrize(
    ("plan", "said"),
    [
        ("exit 1", "has no wheel for this machine here; its tests skip"),
        (
            """echo '{"metadata": {"name": "nvidia-cublas"}}' >"$PLAN" """,
            "would bring a graphics card's libraries from here; its tests skip",
        ),
        ("""echo '{"metadata": {"name": "torch"}}' >"$PLAN" """, "installing the extra train (once)"),
    ],
)
def test_the_extra_of_training_comes_where_it_can_be_had_and_is_said_where_not(checkout: Path, plan: str, said: str) -> None:
    """A pip that has no such wheel, one whose PyTorch is for a graphics card, and one that serves."""
    python = checkout / ".venv" / "bin" / "python"
    asked = checkout / "asked"
    python.write_text(f'#!/bin/sh\n[ "$1" != -c ] || exit 1\ncase $* in *--dry-run*) {plan};; *) echo "$*" >"{asked}";; esac\n')
    done = shell(checkout, "add_training", PLAN=str(checkout / ".venv" / "plan.json"))
    assert done.returncode == 0, done.stderr
    assert done.stderr.strip().endswith(said)
    assert asked.exists() == ("installing" in said)
    if asked.exists():
        assert "voiced[train]" in asked.read_text()
        assert "--only-binary=:all:" in asked.read_text()
