"""The suite in a Debian 13 of its own, under its Python 3.13: heart, settings, models, bus, and the stages on their real models."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from chroots import Debian, debian

TESTS = (
    "tests/test_turn.py", "tests/test_turn_laws.py", "tests/test_endpoint.py", "tests/test_segments.py", "tests/test_audio.py",
    "tests/test_settings.py", "tests/test_former.py", "tests/test_models.py", "tests/test_wire.py", "tests/test_terminal.py",
    "tests/test_placement.py", "tests/test_preflight.py", "tests/test_pipeline.py", "tests/bus", "tests/stages/test_vad.py",
    "tests/stages/test_wake.py", "tests/stages/test_transducer.py", "tests/stages/test_second_pass.py", "tests/install/test_manual.py",
    "tests/voicectl/test_voicectl.py",
)  # fmt: skip


@pytest.fixture(scope="module")
def trixie(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Debian]:
    with debian(tmp_path_factory.mktemp("debian"), "trixie") as found:
        found.bring_checkout()
        yield found


@pytest.mark.slow
def test_the_suite_passes_under_python_3_13(trixie: Debian) -> None:
    assert trixie("python3 --version").stdout.startswith("Python 3.13")
    done = trixie(f"cd /src && tools/test -rs {' '.join(TESTS)}", timeout_s=3600)
    if "pip failed" in done.stderr:
        pytest.skip(f"no package index: {done.stderr[-300:]}")
    assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]
    assert not re.search(r"\b(failed|error)\b", done.stdout)
