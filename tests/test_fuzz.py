"""tools/fuzz --by-coverage: what it drives is there, and what it is not asked for in its words is one line."""

from __future__ import annotations

import configparser
import importlib
import re
import sys
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import fuzz_by_coverage
import pytest
import test_settings
from packaging.requirements import Requirement


@pytest.mark.parametrize("target", fuzz_by_coverage.TARGETS)
def test_its_targets_are_tests_that_can_be_driven(target: str) -> None:
    module, _, name = fuzz_by_coverage.TARGETS[target].rpartition(".")
    assert callable(getattr(importlib.import_module(module), name).hypothesis.fuzz_one_input)


@pytest.mark.parametrize("arguments", [["x"], ["settings", "soon"], ["settings", "1", "more"]])
def test_other_arguments_are_one_line(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        fuzz_by_coverage.main(arguments)
    assert ended.value.code == 2
    said = "tools/fuzz: --by-coverage takes one of lines, settings, blocks, and seconds; got "
    assert capsys.readouterr().err == f"{said}{' '.join(arguments)}\n"


def test_where_its_library_is_missing_one_line_says_how_to_have_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "atheris", None)
    with pytest.raises(SystemExit) as ended:
        fuzz_by_coverage.main([])
    said = str(ended.value.code)
    assert said.startswith("tools/fuzz: ") and "\n" not in said
    (extra,) = re.findall(r"pip install 'voiced\[(\w+)\]'$", said)
    setup = configparser.ConfigParser()
    setup.read(Path(__file__).resolve().parents[1] / "setup.cfg")
    assert Requirement(setup["options.extras_require"][extra]).name == "atheris"


def test_without_a_word_it_drives_the_first_of_its_targets(monkeypatch: pytest.MonkeyPatch) -> None:
    """By a stand-in for atheris, which is not everywhere to be had."""
    driven: list[tuple[list[str], object]] = []
    atheris = SimpleNamespace(
        instrument_imports=lambda include: nullcontext(), Setup=lambda options, test: driven.append((options, test)), Fuzz=lambda: None
    )
    monkeypatch.setitem(sys.modules, "atheris", atheris)
    fuzz_by_coverage.main([])
    ((options, test),) = driven
    assert "-max_total_time=60" in options
    assert test == test_settings.test_no_file_of_likely_lines_gives_another_error.hypothesis.fuzz_one_input
