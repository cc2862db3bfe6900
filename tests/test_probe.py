"""Trying a model in a process of its own: every way that such a process can end."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable

import pytest
from voiced import children, probe
from voiced.errors import ModelError, VoicedError

HEAD = "import os, socket, sys; s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET, fileno=int(sys.argv[1])); s.recv(65536); "
SAY = 's.send(b\'{"loading":"wake-head computer"}\'); '

Becomes = Callable[[str], None]


@pytest.fixture
def becomes(monkeypatch: pytest.MonkeyPatch) -> Becomes:
    """The process that is begun runs this instead of voiced."""

    def run(code: str) -> None:
        monkeypatch.setattr(children, "command", lambda _role, fd: [sys.executable, "-c", HEAD + code, str(fd)])

    return run


def test_nothing_to_try_begins_no_process(becomes: Becomes) -> None:
    becomes("os.abort()")
    asyncio.run(probe.probe({}, []))


def test_what_can_be_built_is_fine(becomes: Becomes) -> None:
    becomes(SAY)
    asyncio.run(probe.probe({}, ["ears"]))


def test_what_it_says_is_the_error(becomes: Becomes) -> None:
    becomes(SAY + 's.send(b\'{"failed":"model computer: its files are not there","exit":66}\'); sys.exit(66)')
    with pytest.raises(VoicedError, match=r"^model computer: its files are not there$") as raised:
        asyncio.run(probe.probe({}, ["ears"]))
    assert raised.value.exit_code == 66


def test_a_library_that_kills_it_names_the_culprit(becomes: Becomes) -> None:
    becomes(SAY + "os.kill(os.getpid(), 11)")
    with pytest.raises(ModelError, match=r"its process was killed by SIGSEGV while loading wake-head computer"):
        asyncio.run(probe.probe({}, ["ears"]))


def test_one_that_hangs_is_ended(becomes: Becomes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe, "START_SECONDS", 1.0)
    becomes("s.recv(65536)")
    with pytest.raises(ModelError, match="is not loaded within 1 s"):
        asyncio.run(probe.probe({}, ["ears"]))
