"""The unit that comes with voiced: systemd takes it, and it says what the daemon needs."""

from __future__ import annotations

import configparser
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from voiced.errors import ConfigError, InternalError, ModelError, UsageError

UNIT = Path(__file__).resolve().parents[1] / "systemd" / "voiced.service"


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")
def test_systemd_takes_it(tmp_path: Path) -> None:
    env = {**os.environ, "XDG_RUNTIME_DIR": str(tmp_path)}
    found = subprocess.run(["systemd-analyze", "verify", "--user", str(UNIT)], env=env, capture_output=True, text=True, check=False)
    assert (found.returncode, found.stderr) == (0, "")


def test_what_starting_again_would_not_mend_is_not_started_again() -> None:
    unit = configparser.ConfigParser()
    unit.optionxform = str  # type: ignore[assignment, method-assign]
    unit.read(UNIT)
    service = unit["Service"]
    assert service["Type"] == "notify"
    assert service["KillMode"] == "mixed", "the main process ends its own"
    final = {int(code) for code in service["RestartPreventExitStatus"].split()}
    assert final == {UsageError.exit_code, ModelError.exit_code, ConfigError.exit_code}
    assert InternalError.exit_code not in final
