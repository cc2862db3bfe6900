"""Settings files of older versions: each key that went is named, with what became of it."""

from __future__ import annotations

import pytest
from voiced.errors import ConfigError
from voiced.former import FORMER
from voiced.knobs import rows
from voiced.settings import Settings, parse


@pytest.mark.parametrize("key", FORMER)
def test_a_former_key_is_told_with_its_new_name(key: str) -> None:
    section, name = key.split(".")
    with pytest.raises(ConfigError) as caught:
        parse(f"{section}:\n  {name}: 1\n", "old.yaml")
    new = FORMER[key]
    instead = f"it is {new} now" if new else "nothing took its place: take the line out"
    assert caught.value.lines == (f"old.yaml:2: {key}: is of an older version; {instead}",)


def test_no_key_of_today_is_called_former_and_every_new_name_is_one() -> None:
    today = {f"{section}.{name}" for section, row in rows(Settings).items() if row.section for name in rows(row.type)}
    assert not today & set(FORMER)
    for new in FORMER.values():
        assert {word.strip(",") for word in new.split() if "." in word} <= today, new
