"""Every row of the catalogue has a test, and the table says which."""

from __future__ import annotations

from pathlib import Path

from cases import rows


def test_every_row_is_held() -> None:
    held = rows.found()
    assert [row for row in rows.ROWS if row not in held and row not in rows.NOT_BUILT] == []
    assert [row for row in rows.NOT_BUILT if row in held] == []


def test_the_table_in_the_repository_is_made_from_the_tests() -> None:
    assert Path(rows.__file__).with_name("README.md").read_text(encoding="utf-8") == rows.table() + "\n"
