"""The log as systemd's journal takes it, and as anybody else does."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from voiced.errors import ConfigError

LOG = """
import os
{journal}
from voiced.logwriter import log, start_log
start_log("debug", terminal=False)
log.debug("a"); log.info("b"); log.warning("c"); log.error("d")
try:
    1 / 0
except ZeroDivisionError:
    log.exception("e")
"""
OURS = "at = os.fstat(2)\nos.environ['JOURNAL_STREAM'] = f'{at.st_dev}:{at.st_ino}'"


def said(journal: str, **env: str) -> list[str]:
    base = {name: value for name, value in os.environ.items() if name != "JOURNAL_STREAM"}
    done = subprocess.run(
        [sys.executable, "-c", LOG.format(journal=journal)],
        capture_output=True,
        text=True,
        check=True,
        env=base | {"VOICED_TRACE": ""} | env,
    )
    return done.stderr.splitlines()


def test_each_line_has_its_priority_in_the_journal() -> None:
    lines = said(OURS)
    assert lines[:5] == ["<7>a", "<6>b", "<4>c", "<3>d", "<3>e"]
    assert lines[5] == "<3>Traceback (most recent call last):" and all(line.startswith("<3>") for line in lines[5:])


@pytest.mark.parametrize("env", [{}, {"JOURNAL_STREAM": "1:1"}], ids=["none", "of another"])
def test_elsewhere_it_has_a_time(env: dict[str, str]) -> None:
    """A shell within a service may have put a file where the journal was."""
    lines = said("", **env)
    assert [line[9:] for line in lines[:5]] == ["a", "b", "c", "d", "e"]
    assert not lines[0].startswith("<")


END = """
import os
{journal}
from voiced.command import run_command
from voiced.errors import ConfigError
def work():
    {work}
raise SystemExit(run_command("voiced", work))
"""


def test_why_it_ends_is_an_error_of_the_journal() -> None:
    """What a service cannot begin with is found by `journalctl -p err`."""
    for work, code in (("raise ConfigError('f', 'm', lines=('f:1: one', 'f:2: two'))", ConfigError.exit_code), ("1 / 0", 70)):
        for journal in (OURS, ""):
            script = END.format(journal=journal, work=work)
            env = {name: value for name, value in os.environ.items() if name not in ("JOURNAL_STREAM", "VOICED_TRACE")}
            done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, env=env)
            lines = done.stderr.splitlines()
            assert done.returncode == code and lines[0].endswith(("f:1: one", "adds to this"))
            assert [line.startswith("<3>") for line in lines] == [bool(journal)] * len(lines)
