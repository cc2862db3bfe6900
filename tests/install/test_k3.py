"""The SpacemiT K3 as far as it goes without a board: where each part comes from, its settings, the vendor's models."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from shipping import install, layout
from voiced import settingsfile
from voiced.boards import K3
from voiced.manifest import Directory, read_manifest
from voiced.models import Library
from voiced_setup import sources

CHECKOUT = Path(__file__).resolve().parents[2]

WITH_WHEELS = {"dbus-fast", "dbus-next", "sounddevice", "soundfile"}
"""Of our requirements those that the package index has for riscv64, or that are plain Python."""

WITHOUT_WHEELS = {"numpy", "onnxruntime", "sherpa-onnx", "soxr", "cffi", "pyyaml"}
"""Those that it has none of (looked up on 2026-11-29)."""


def names(requirements: tuple[str, ...]) -> set[str]:
    return {re.split(r"[ <>=;]", one, maxsplit=1)[0].lower() for one in requirements}


def test_every_requirement_comes_from_somewhere_and_none_from_where_it_is_not() -> None:
    found = sources.of_board("k3", layout.requirements())
    assert names(found.index) == WITH_WHEELS
    assert names(found.maker) == {"sherpa-onnx"}
    assert not names(found.index) & WITHOUT_WHEELS
    assert {"python3-numpy", "python3-yaml", "python3-cffi", "libsoxr0", "python3-spacemit-ort", "spacemit-tcm"} <= set(found.system)
    assert names(layout.requirements()) <= WITH_WHEELS | WITHOUT_WHEELS, "a new requirement wants a source on the K3, too"
    assert found.sees_system


def test_the_sherpa_onnx_is_the_one_that_the_oldest_tests_run_on() -> None:
    oldest = (CHECKOUT / "tools" / "constraints-oldest.txt").read_text()
    (version,) = re.findall(r"^sherpa_onnx==(\S+)$", oldest, re.MULTILINE)
    assert (f"sherpa-onnx=={version}",) == sources.K3_MAKER


def test_a_generic_board_takes_all_from_the_package_index() -> None:
    found = sources.of_board("generic", layout.requirements())
    assert found.index == layout.requirements()
    assert not found.maker and not found.sees_system


def test_the_path_is_printed_and_nothing_is_done(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert install.main(["--board", "k3", "--dry-run", "--root", str(tmp_path)]) == 0
    said = capsys.readouterr()
    lines = said.out.splitlines()
    assert (lines[0], said.err) == ("board: k3", "")
    assert [line.strip()[0] for line in lines[1:6]] == ["1", "2", "3", "4", "5"]
    assert "python3-numpy" in lines[1] and "spacemit-tcm" in lines[1]
    assert "sherpa-onnx==1.13.1" in lines[2] and "--maker-index URL" in lines[2]
    assert "sounddevice" in lines[3] and "numpy" not in lines[3]
    assert "create: /etc/systemd/system/voiced.service.d/k3.conf" in lines
    assert list(tmp_path.iterdir()) == []
    assert install.main(["--board", "k3", "--dry-run", "--root", str(tmp_path), "--maker-index", "https://maker.example/simple"]) == 0
    assert "from the maker's index, https://maker.example/simple: sherpa-onnx" in capsys.readouterr().out


def test_its_settings_place_what_listens_on_regular_cores_and_the_second_pass_behind_the_provider() -> None:
    read = settingsfile.read(CHECKOUT / "config" / "k3.yaml", on="k3")
    placement = read.placement
    for role in ("bus", "capture", "ears", "transducer", "second_pass"):
        assert set(getattr(placement, role)) <= set(K3.cores), role
    assert placement.second_pass_provider == "spacemit"
    assert set(placement.second_pass_ai_cores) <= set(K3.ai_cores)
    assert len(placement.second_pass_ai_cores) == read.second_pass.threads <= K3.ai_threads
    assert [lane.channel for lane in read.lanes] == ["0", "1", "2", "3"], "four lanes, a channel each"


def test_its_chinese_settings_hold_as_they_stand_in_the_comment(tmp_path: Path) -> None:
    text = (CHECKOUT / "config" / "k3.yaml").read_text()
    block = re.search(r"(?:^# [ \w].*:.*\n)+(?=\nplacement)", text, re.MULTILINE)
    assert block is not None
    written = block[0][block[0].index("# models:") :].replace("\n# ", "\n").removeprefix("# ")
    (tmp_path / "k3.yaml").write_text(written)
    read = settingsfile.read(tmp_path / "k3.yaml")
    assert read.models.transducer == "zipformer-bilingual-zh-en"
    assert read.models.second_pass == "sense-voice"
    assert read.endpoint.open_ends == "off"


def test_the_vendors_bilingual_model_is_found_where_the_vendor_puts_it(tmp_path: Path) -> None:
    """The shipped manifest with the vendor's folder moved below ours: found there, not fetched."""
    manifest = CHECKOUT / "models" / "manifest.yaml"
    vendor = Path("/var/lib/sm-sdk/models/asr/sherpa-onnx-streaming-zipformer-bilingual-zh-en-2023-02-20")
    model = read_manifest(manifest)["zipformer-bilingual-zh-en"]
    assert [source.path for source in model.sources if isinstance(source, Directory)] == [str(vendor)]
    assert isinstance(model.sources[0], Directory), "looked at before anything is fetched"
    moved = tmp_path / "board" / vendor.relative_to("/")
    moved.mkdir(parents=True)
    for file in model.files:
        (moved / file.name).write_bytes(b"weights")
    (tmp_path / "manifest.yaml").write_text(manifest.read_text().replace(str(vendor), str(moved)))
    found = Library([tmp_path], tmp_path / "cache").find("zipformer-bilingual-zh-en", "transducer")
    assert found.directory == moved
    assert not (tmp_path / "cache").exists()
