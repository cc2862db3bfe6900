"""Processes of ours as they begin: what they are given may be another version's."""

from __future__ import annotations

import subprocess
from contextlib import closing
from pathlib import Path

import pytest
from voiced import wire
from voiced.children import command, environment
from voiced.errors import ConfigError
from voiced.settings import defaults, to_plain


@pytest.mark.parametrize("role", ["lane", "second-pass", "probe", "files"])
def test_settings_of_another_version_are_one_line(role: str, tmp_path: Path) -> None:
    """A package was changed under a daemon, whose next process is the new one."""
    settings = to_plain(defaults())
    settings["endpoint"]["of_another_version"] = settings["endpoint"].pop("silence_ms")
    job = {"settings": settings, "runtime_dir": str(tmp_path), "lane": "desk", "position": 0, "position_ns": 0, "roles": ["ears"]}
    ours, theirs = wire.Link.pair()
    with closing(ours), theirs:
        process = subprocess.Popen(
            command(role, theirs.fileno()), pass_fds=[theirs.fileno()], stderr=subprocess.PIPE, text=True, env=environment()
        )
        theirs.close()
        ours.send(job)
        message = ours.receive(120)
        said = process.communicate()[1]
    assert message
    assert message.body["failed"].startswith(
        "settings: EndpointSettings: missing or unknown: of_another_version, silence_ms; voiced was changed"
    )
    assert process.returncode == message.body["exit"] == ConfigError.exit_code
    assert said == ""
