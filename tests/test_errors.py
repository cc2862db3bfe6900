"""What is said of an exception, and that a message names a place once."""

from __future__ import annotations

from pathlib import Path

import pytest
from voicectl.__main__ import main
from voiced.errors import reason_of


def test_of_an_oserror_neither_number_nor_path_is_said(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as caught:
        (tmp_path / "none").read_text()
    assert reason_of(caught.value) == "No such file or directory"


def test_what_has_no_such_text_is_one_line_all_the_same() -> None:
    assert reason_of(OSError("Invalid data stream")) == "Invalid data stream"
    assert reason_of(ValueError("two\n lines")) == "two lines"
    assert reason_of(EOFError()) == "EOFError"


@pytest.mark.parametrize(
    "command",
    ["asr eval --data", "asr guard --data", "vad eval --data", "wake eval --data", "endpoint eval --data", "endpoint eval --synthetic",
     "asr eval --data . --held-out", "trace --events", "wake check jarvis --config"],
)  # fmt: skip
def test_a_file_that_is_not_there_is_named_once(command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*command.split(), str(tmp_path / "none")]) in (65, 78)
    told = capsys.readouterr().err
    assert ": cannot be read: No such file or directory" in told
    assert (told.count("\n"), told.count(str(tmp_path))) == (1, 1)
