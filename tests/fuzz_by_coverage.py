"""Looks for input by what it reaches, where tools/fuzz tries by chance: tools/fuzz --by-coverage [TARGET [SECONDS]].

What lives here: which tests can be driven so (those of pure code, without fixtures), and atheris: an extra of its own, since it has wheels
for few machines. A failure is printed with its traceback; the exit code is then not 0.
"""

from __future__ import annotations

import importlib
import sys
from typing import Any

TARGETS = {
    "lines": "test_settings.test_no_file_of_likely_lines_gives_another_error",
    "settings": "test_settings.test_no_text_whatever_gives_another_error",
    "blocks": "sources.test_blocks.test_whatever_comes_through_the_pipe_is_a_block_or_is_named",
}
"""The first is the one that is meant without a word, because it comes furthest: its input is made of what the reader knows."""


def main(arguments: list[str]) -> None:
    match arguments or [next(iter(TARGETS))]:
        case [target] if target in TARGETS:
            seconds = "60"
        case [target, seconds] if target in TARGETS and seconds.isdigit():
            pass
        case _:
            told = f"tools/fuzz: --by-coverage takes one of {', '.join(TARGETS)}, and seconds; got {' '.join(arguments)}"
            print(told, file=sys.stderr)
            sys.exit(2)
    try:
        atheris: Any = importlib.import_module("atheris")
    except ImportError:
        sys.exit("tools/fuzz: --by-coverage wants atheris, where it has a wheel for this machine: .venv/bin/pip install 'voiced[fuzz]'")
    module, _, name = TARGETS[target].rpartition(".")
    with atheris.instrument_imports(include=["voiced", "yaml"]):
        test: Any = getattr(importlib.import_module(module), name)
    atheris.Setup(["fuzz", f"-max_total_time={seconds}", "-print_final_stats=1", "-rss_limit_mb=1000"], test.hypothesis.fuzz_one_input)
    atheris.Fuzz()


if __name__ == "__main__":
    main(sys.argv[1:])
