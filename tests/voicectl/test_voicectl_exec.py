"""`voicectl listen --exec`: what is spoken is an argument, never a command."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from voicectl.client import _run
from voiced.desk import Published
from voiced.events import Final, TextSource


def spoken(text: str, command: str) -> None:
    final = Final(16_000, 7, text, TextSource.SECOND_PASS, text)
    asyncio.run(_run(command, Published("desk", 1, final, 0, 0), final))


TEXTS = st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters="\0"), max_size=60) | st.sampled_from(
    [
        "$(touch ran)",
        "`touch ran`",
        "; touch ran",
        "' ; touch ran ; '",
        '"; touch ran; "',
        "| touch ran",
        "&& touch ran",
        "-n",
        "--",
        "\n touch ran",
    ]
)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(TEXTS)
def test_the_text_arrives_as_it_is_and_is_not_run(tmp_path: Path, text: str) -> None:
    kept, ran = tmp_path / "kept", tmp_path / "ran"
    spoken(text, f'cd {tmp_path} && printf %s "$1" >kept && [ "$#" = 1 ] && [ "$VOICED_TEXT" = "$1" ] || rm -f kept')
    assert kept.read_bytes() == text.encode()
    assert not ran.exists()


def test_a_command_that_fails_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    spoken("hello", "exit 3")
    assert capsys.readouterr().err == "voicectl: exit 3: exit code 3\n"
