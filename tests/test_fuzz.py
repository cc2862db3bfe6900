"""tools/fuzz --by-coverage: what it drives is there, and what it is not asked for in its words is one line."""

from __future__ import annotations

import importlib

import fuzz_by_coverage
import pytest


@pytest.mark.parametrize("target", fuzz_by_coverage.TARGETS)
def test_its_targets_are_tests_that_can_be_driven(target: str) -> None:
    module, _, name = fuzz_by_coverage.TARGETS[target].rpartition(".")
    assert callable(getattr(importlib.import_module(module), name).hypothesis.fuzz_one_input)


@pytest.mark.parametrize("arguments", [["x"], ["settings", "soon"], ["settings", "1", "more"]])
def test_other_arguments_are_one_line(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        fuzz_by_coverage.main(arguments)
    assert ended.value.code == 2
    said = "tools/fuzz: --by-coverage takes one of settings, lines, blocks, and seconds; got "
    assert capsys.readouterr().err == f"{said}{' '.join(arguments)}\n"
