"""What is tried in children: each end that one can come to, provoked in a real one."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest
from livedaemon import PATIENCE
from soundserver import PROGRAMS, SoundServer
from voiced import preflight
from voiced.models import Library
from voiced.preflight import Finding, try_library, try_microphone, try_provider

RISCV = "processor\t: 0\nhart\t\t: 0\nisa\t\t: rv64imafdc_zicsr\nmmu\t\t: sv39\n"


def with_module(folder: Path, name: str, body: str) -> dict[str, str]:
    """An environment in which that library is this one."""
    (folder / f"{name}.py").write_text(body)
    return {**os.environ, "PYTHONPATH": str(folder)}


def test_a_library_that_is_there_has_its_version() -> None:
    found = try_library("numpy")
    assert found.good
    assert found.what[0].isdecimal()


@pytest.mark.parametrize(
    ("name", "body", "what", "advice"),
    [
        ("numpy", "raise ModuleNotFoundError(\"No module named 'numpy'\")", "is not installed", "voiced-setup"),
        (
            "onnxruntime",
            "import os, signal; os.kill(os.getpid(), signal.SIGILL)",
            "illegal instruction: it was built for another processor; this one has isa : rv64imafdc_zicsr",
            "take the one of the board's maker, or build it here",
        ),
        (
            "sherpa_onnx",
            "import os, signal, sys; print('bad page', file=sys.stderr, flush=True); os.kill(os.getpid(), signal.SIGSEGV)",
            "its process was killed by SIGSEGV: bad page",
            "install it again: voiced-setup --anew",
        ),
        (
            "soxr",
            "raise ImportError('libgomp.so.1: cannot open shared object file')",
            "cannot be imported: ImportError: libgomp.so.1: cannot open shared object file",
            "install it again: voiced-setup --anew",
        ),
        (
            "sounddevice",
            "raise OSError('PortAudio library not found')",
            "the system library PortAudio is not there",
            "apt-get install libportaudio2",
        ),
        (
            "soundfile",
            "raise OSError('sndfile library not found')",
            "the system library sndfile is not there",
            "apt-get install libsndfile1",
        ),
    ],
)
def test_each_way_in_which_a_library_fails_has_its_message(name: str, body: str, what: str, advice: str, tmp_path: Path) -> None:
    """C13: a wheel of another processor ends a child, and the line says which instructions this one has."""
    (tmp_path / "cpuinfo").write_text(RISCV)
    found = try_library(name, environ=with_module(tmp_path, name, body), cpuinfo=tmp_path / "cpuinfo")
    assert found == Finding(name, False, what, advice)


def test_a_library_that_hangs_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preflight, "DEADLINE_S", 0.5)
    ended = preflight.run([sys.executable, "-c", "import time; time.sleep(60)"], deadline_s=0.5)
    assert ended.status is None
    assert preflight._wrong(ended, "numpy", tmp_path)[0] == "is not loaded within 0 s"


def test_the_isa_line_of_each_architecture(tmp_path: Path) -> None:
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text(RISCV)
    assert preflight.isa(cpuinfo) == "isa : rv64imafdc_zicsr"
    cpuinfo.write_text("processor\t: 0\nFeatures\t: fp asimd\n")
    assert preflight.isa(cpuinfo) == "Features : fp asimd"
    cpuinfo.write_text("nothing of the kind\n")
    assert preflight.isa(cpuinfo) == preflight.isa(tmp_path / "absent") == ""


# ── the execution provider ─────────────────────────────────────────────────────────────────────────────────────────────


def test_a_sherpa_onnx_without_the_provider_is_told(library: Library, tmp_path: Path) -> None:
    """The real one of this environment: it writes that it falls back, and goes on."""
    model = library.find("starter-en")
    found = try_provider(model.model.kind, model.files, tmp_path)
    assert found == Finding(
        "execution provider",
        False,
        "this sherpa-onnx was built without SpaceMIT's provider and falls back to the CPU",
        "install the vendor's, or set placement.second_pass_provider: cpu",
    )


@pytest.mark.parametrize(
    ("body", "good", "what", "advice"),
    [
        ("import os, signal\nos.kill(os.getpid(), signal.SIGILL)", False, "illegal instruction", "board's maker"),
        (
            "import sys\nprint('wait tcm buffer failed, core 8', file=sys.stderr)\nsys.exit(255)",
            False,
            "wait tcm buffer failed",
            "spacemit-tcm-smi -c",
        ),
        (
            "import sys\nprint('bad graph', file=sys.stderr)\nsys.exit(255)",
            False,
            "ended with status 255: bad graph",
            "second_pass_provider: cpu",
        ),
        ("import os, signal\nos.kill(os.getpid(), signal.SIGBUS)", False, "was killed by SIGBUS", "second_pass_provider: cpu"),
    ],
)
def test_each_end_of_the_provider_has_its_message(body: str, good: bool, what: str, advice: str, library: Library, tmp_path: Path) -> None:
    model = library.find("starter-en")
    found = try_provider(model.model.kind, model.files, tmp_path, environ=with_module(tmp_path, "sherpa_onnx", body))
    assert found.good is good
    assert what in found.what
    assert advice in found.advice


def test_a_provider_that_does_not_answer_is_given_up(library: Library, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = preflight.run
    monkeypatch.setattr(preflight, "run", lambda command, environ: real(command, environ, 1.0))
    model = library.find("starter-en")
    found = try_provider(
        model.model.kind, model.files, tmp_path, environ=with_module(tmp_path, "sherpa_onnx", "import time; time.sleep(60)")
    )
    assert "is not loaded within" in found.what
    assert "spacemit-tcm-smi -i" in found.advice


def test_a_model_that_runs_is_good(library: Library, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the CPU's provider, since no other is here: the same child, the same model."""
    monkeypatch.setattr(preflight, "_PROVIDER", preflight._PROVIDER.replace('"spacemit"', '"cpu"'))
    model = library.find("starter-en")
    assert try_provider(model.model.kind, model.files, tmp_path).good


def test_each_state_of_the_coupled_memory_has_its_message(tmp_path: Path) -> None:
    device = tmp_path / "tcm"
    assert "has no tightly coupled memory" in preflight.tcm([device]).what
    device.touch(0o600)
    tools = tmp_path / "bin"
    tools.mkdir()
    assert preflight.tcm([device], str(tools)).advice == "apt-get install spacemit-tcm"
    (tools / "spacemit-tcm-smi").write_text("#!/bin/sh\n")
    (tools / "spacemit-tcm-smi").chmod(0o755)
    assert preflight.tcm([device], str(tools)) == Finding("TCM", True, f"{device} is open to this user")


def test_a_coupled_memory_that_is_closed_to_the_user_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    device = tmp_path / "tcm"
    device.touch()
    monkeypatch.setattr(os, "access", lambda path, mode: False)  # root may open everything
    assert preflight.tcm([device]).what == f"{device} may not be opened by this user"


# ── the microphone ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_microphone_that_is_absent_is_told_with_what_to_do(tmp_path: Path) -> None:
    """S6, S8: nothing records here, and there is no session in which a sound server could be."""
    env = {name: value for name, value in os.environ.items() if not name.startswith(("XDG_", "PULSE_", "PIPEWIRE_"))} | {
        "HOME": str(tmp_path)
    }
    found = try_microphone("auto", environ=env, deadline_s=PATIENCE)
    if found.good:
        pytest.skip("this machine has a microphone")
    assert "there is no device that records" in found.what
    assert found.advice


def test_a_sound_library_that_hangs_is_given_up(tmp_path: Path) -> None:
    """S10"""
    found = try_microphone("auto", environ=with_module(tmp_path, "sounddevice", "import time; time.sleep(60)"), deadline_s=1.0)
    assert not found.good
    assert found.what == "the sound library does not answer within 1 s"


def test_a_sound_library_that_is_absent_is_told(tmp_path: Path) -> None:
    env = with_module(tmp_path, "sounddevice", "raise OSError('PortAudio library not found')")
    found = try_microphone("auto", environ=env, deadline_s=PATIENCE)
    assert not found.good
    assert "PortAudio" in found.what
    env = with_module(tmp_path, "sounddevice", "raise ModuleNotFoundError(\"No module named 'sounddevice'\")")
    assert try_microphone("auto", environ=env, deadline_s=PATIENCE) == Finding("microphone", False, "is not installed", "voiced-setup")


def test_a_server_s_microphone_is_found_and_a_muted_one_is_told(tmp_path: Path) -> None:
    if any(shutil.which(program) is None for program in PROGRAMS):
        pytest.skip("PipeWire is not installed")
    server = SoundServer(tmp_path)
    try:
        server.start()
        server.null_sink("desk", 48_000, 2)
        server.listen_to("desk")
        found = try_microphone("auto", environ=server.env, deadline_s=PATIENCE)
        assert found.good, found
        assert "PipeWire" in found.what
        assert "there is no device 'attic'" in try_microphone("attic", environ=server.env, deadline_s=PATIENCE).what
        server.mute("desk-mic", True)
        muted = try_microphone("desk-mic", environ=server.env, deadline_s=PATIENCE)
        assert not muted.good
        assert muted.advice == "unmute it: pactl set-source-mute desk-mic 0"
    finally:
        server.stop()
