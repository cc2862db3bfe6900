"""The house rules that a machine can check: who may import whom, what is heavy, types, lint, layout."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

CHECKOUT = Path(__file__).resolve().parents[1]
PACKAGE = CHECKOUT / "daemon" / "voiced"

ORDER = """
__main__
api
daemon files
results
command
terminal
bus
lifeline
systemd
supervisor
frontdesk
publisher
lanestate
captures rewriter warmup ledger hearing probe reloading turnbook turnids
statistics fairqueue
recording
children
batch
runtime
eventbox processes deadlines
assembly
pipeline
ears spelling
stages
sources
turn
turnrules turnstate guard
endpoint wording states
diagnosis
soundcheck segments
placement preflight
desk folder
receipts
plain
events
loudness lateness liveness
audio
models
fetch
download
integrity
manifest progress
settingsfile
settings
boards profiles phrases
yamlread changes
knobs former
wire logwriter
journal runtime_dir units
errors
"""
"""A room imports only rooms of the lines below its own; `__init__` (the version) stands below them all."""

RANK = {room: rank for rank, line in enumerate(ORDER.split("\n")) for room in line.split()} | {"__init__": 1000}

OWNERS = {
    "onnxruntime": {"stages/session.py"},
    "sherpa_onnx": {"stages/sherpa.py"},
    "sounddevice": {"sources/soundcard.py"},
    "soundfile": {"sources/wavfile.py"},
    "soxr": {"sources/resample.py"},
    "yaml": {"yamlread.py", "manifest.py"},  # nodes with their lines, and plain data of our own
    "dbus_next": set(),  # bus/library.py loads them by name
    "dbus_fast": set(),
}
"""Foreign libraries and the files that may import them."""

HEAVY = ("numpy", "onnxruntime", "sherpa_onnx", "sounddevice", "soundfile", "soxr", "dbus_next", "dbus_fast", "yaml")
TOP = {
    ".ci", ".gitignore", ".ruff.toml", "CONTRIBUTING.md", "LICENSE", "README.md", "config", "daemon", "models", "setup.cfg", "systemd",
    "tests", "tools",
}  # fmt: skip
LONGEST = 430


@cache
def tracked() -> tuple[Path, ...]:
    """The repository's files, from its own list: what lies about in a working tree is nobody's business."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=CHECKOUT, capture_output=True, check=False)
    if listed.returncode:
        pytest.skip("this is no git checkout, so which files belong to it is not known")
    return tuple(path for name in listed.stdout.decode().split("\0") if name and (path := CHECKOUT / name).is_file())


def modules() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def imports(path: Path) -> Iterator[str]:
    """Every module that a file imports anywhere in it, by its whole name; of a package of ours its parts, each by itself."""
    package = ["voiced", *path.relative_to(PACKAGE).parent.parts] if path.is_relative_to(PACKAGE) else []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            name = ".".join([*base, *([node.module] if node.module else [])])
            if name == "voiced":
                yield from (f"voiced.{alias.name}" for alias in node.names)
            else:
                yield name


def room(module: str) -> str:
    """The room of voiced.X.Y: X; of the package itself, or of a name that it has: __init__."""
    name = module.split(".")[1] if "." in module else "__init__"
    return "__init__" if name.startswith("__version") else name


def room_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


# ── who imports whom ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_every_room_has_its_place() -> None:
    assert {room_of(path) for path in modules()} == set(RANK)


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_a_room_imports_only_rooms_below_it(path: Path) -> None:
    here = room_of(path)
    wrong = [name for name in imports(path) if name.split(".")[0] == "voiced" and room(name) != here and RANK[room(name)] <= RANK[here]]
    assert not wrong, f"{path.relative_to(CHECKOUT)}: {here} may not import {wrong}; see ORDER"


def test_within_a_room_no_import_goes_round() -> None:
    graph = {}
    for path in modules():
        name = ".".join(("voiced", *path.relative_to(PACKAGE).with_suffix("").parts))
        graph[name] = {other for other in imports(path) if other.startswith("voiced.")}
    assert not circle(graph), "these import each other"


@pytest.mark.parametrize("package", ["benches", "shipping", "train/voiced_train", "voicectl", "voiced_setup"])
def test_within_a_tool_no_import_goes_round(package: str) -> None:
    top = CHECKOUT / "tools" / package
    graph: dict[tuple[str, ...], set[tuple[str, ...]]] = {}
    for path in top.rglob("*.py"):
        name = path.relative_to(top).with_suffix("").parts
        needs = graph.setdefault(name, set())
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.level:
                base = (*name[: len(name) - node.level], *(node.module.split(".") if node.module else ()))
                needs |= {base, *((*base, alias.name) for alias in node.names)}
    assert len(graph) > 3
    assert not circle(graph), "these import each other"


def circle(graph: dict[Any, set[Any]]) -> dict[Any, set[Any]]:
    """What is left when all that needs nothing more of it has been taken away again and again."""
    while leaves := {name for name, needs in graph.items() if not needs & set(graph)}:
        graph = {name: needs for name, needs in graph.items() if name not in leaves}
    return graph


def test_a_foreign_library_has_one_file() -> None:
    found: dict[str, set[str]] = {name: set() for name in OWNERS}
    for path in modules():
        for name in imports(path):
            library = name.split(".")[0]
            if library in sys.stdlib_module_names or library in ("voiced", "numpy"):
                continue
            assert library in OWNERS, f"{path.relative_to(CHECKOUT)} imports {library}, which no file owns"
            found[library].add(str(path.relative_to(PACKAGE)))
    assert found == OWNERS


def test_only_the_bus_library_loads_modules_by_name() -> None:
    assert [str(path.relative_to(PACKAGE)) for path in modules() if "importlib" in set(imports(path))] == ["bus/library.py"]


def test_the_heart_knows_only_the_standard_library_and_numpy() -> None:
    """And of that no thread, clock, file, log or process."""
    allowed = {"__future__", "collections", "dataclasses", "enum", "numpy", "typing", "voiced"}
    for name in ("turn", "endpoint", "segments", "events", "audio", "units"):
        assert {imported.split(".")[0] for imported in imports(PACKAGE / f"{name}.py")} <= allowed, name


def test_voicectl_knows_only_what_is_public() -> None:
    names = {name for path in (CHECKOUT / "tools" / "voicectl").rglob("*.py") for name in imports(path)}
    assert {name for name in names if name.split(".")[0] == "voiced"} <= {"voiced", "voiced.api", "voiced.__version__"}


def test_the_daemon_knows_nothing_of_the_tools() -> None:
    ours = {path.name for path in (CHECKOUT / "tools").iterdir() if path.is_dir()} | {"voiced_train"}
    assert not {name for path in modules() for name in imports(path)} & ours


# ── what is heavy ──────────────────────────────────────────────────────────────────────────────────────────────────────


def loaded(*statements: str) -> set[str]:
    """The heavy libraries that a fresh interpreter has loaded after these statements."""
    program = "\n".join([*statements, "import sys, json", f"print(json.dumps([name for name in {HEAVY!r} if name in sys.modules]))"])
    environment = {**os.environ, "PYTHONPATH": f"{CHECKOUT}/daemon:{CHECKOUT}/tools"}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    return set(json.loads(done.stdout.splitlines()[-1]))


def test_the_list_of_what_is_loaded_tells_the_truth() -> None:
    assert "numpy" in loaded("import voiced.audio")


def test_the_main_process_has_no_numpy_and_no_model() -> None:
    """All of it: what it imports at once, and what it imports when it starts (the bus library, the settings' YAML)."""
    main = "import voiced.daemon, voiced.files, voiced.supervisor, voiced.bus.service, voiced.bus.client, voiced.bus.private, voiced.api"
    assert loaded(main) == set()
    assert loaded(main, "from voiced.bus.library import load; load('auto')") <= {"dbus_next", "dbus_fast"}
    assert loaded(main, "from voiced.settings import parse; parse('{}', 'f')", "import voiced.manifest") <= {"yaml"}


def test_the_capture_process_has_no_numpy() -> None:
    assert loaded("import voiced.sources.capture") == set()
    assert loaded("import voiced.sources.capture", "import sounddevice") == {"sounddevice"}  # what it imports later brings none either


def test_stages_are_cheap_to_import() -> None:
    assert loaded("import voiced.pipeline, voiced.assembly, voiced.settings") == {"numpy"}


@pytest.mark.parametrize("program", ["voiced", "voicectl"])
def test_help_loads_nothing_heavy(program: str) -> None:
    quiet = "import contextlib, io, sys"
    run = f"""
with contextlib.suppress(SystemExit), contextlib.redirect_stdout(io.StringIO()):
    sys.argv = ['{program}', '--help']
    from {program}.__main__ import main
    main()
"""
    assert loaded(quiet, run) == set()


# ── types, lint, form ──────────────────────────────────────────────────────────────────────────────────────────────────


def tool(*arguments: str) -> None:
    done = subprocess.run([sys.executable, "-m", *arguments], cwd=CHECKOUT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def tracked_python() -> list[str]:
    return [str(path.relative_to(CHECKOUT)) for path in tracked() if path.suffix == ".py"]


def test_types() -> None:
    tool("mypy", *tracked_python())


def test_lint() -> None:
    tool("ruff", "check", "--no-cache", *tracked_python())


def test_format() -> None:
    tool("ruff", "format", "--check", "--no-cache", *tracked_python())


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_a_file_states_its_law_and_is_not_two(path: Path) -> None:
    text = path.read_text()
    told = ast.get_docstring(ast.parse(text))
    assert told, "a docstring at its head says what lives here"
    first = told.split("\n\n")[0]
    assert first[0].isupper() or first.startswith("voiced")
    assert first.rstrip()[-1] in ".?!"
    assert len(text.splitlines()) <= LONGEST, f"a file past about 400 lines is two; at most {LONGEST}"


def test_no_tool_is_two_files() -> None:
    tools = [path for path in tracked() if path.suffix == ".py" and path.is_relative_to(CHECKOUT / "tools")]
    assert not [path.name for path in tools if len(path.read_text().splitlines()) > LONGEST]


def test_test_modules_have_names_of_their_own() -> None:
    names = sorted(path.name for path in tracked() if path.suffix == ".py" and path.is_relative_to(CHECKOUT / "tests"))
    assert [one for one, next_one in pairwise(names) if one == next_one and one != "conftest.py"] == []


# ── layout ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_top_level_has_its_fixed_entries_and_no_other() -> None:
    found = {path.relative_to(CHECKOUT).parts[0] for path in tracked()}
    assert found <= TOP
    assert found >= TOP - {"CONTRIBUTING.md", "systemd"}


def test_every_room_is_on_the_map() -> None:
    """CONTRIBUTING.md says what lives in it."""
    said = set(re.findall(r"\w+", (CHECKOUT / "CONTRIBUTING.md").read_text()))
    assert sorted(path.stem for path in modules() if path.stem != "__init__" and path.stem not in said) == []


def test_the_license_is_there_whole() -> None:
    text = (CHECKOUT / "LICENSE").read_text()
    assert "Apache License" in text
    assert "Version 2.0, January 2004" in text
    assert "END OF TERMS AND CONDITIONS" in text
    assert "license = Apache-2.0" in (CHECKOUT / "setup.cfg").read_text()


def test_packages_are_all_listed() -> None:
    """What setup.cfg leaves out would be missing only where voiced is installed from a wheel."""
    listed = re.findall(r"^    (voiced\S*)$", (CHECKOUT / "setup.cfg").read_text(), re.MULTILINE)
    there = {".".join(("voiced", *path.parent.relative_to(PACKAGE).parts)) for path in modules()}
    assert there <= set(listed)


def test_no_file_has_a_path_of_somebodys_machine() -> None:
    private = re.compile(r"/(?:work|root)/|/home/(?!me/)\w+/|/tmp/(?:spec|bash_jobs)")
    for path in tracked():
        if path.suffix not in (".onnx", ".flac", ".model", ".gz"):
            found = private.search(path.read_text(errors="replace"))
            assert not found, f"{path.relative_to(CHECKOUT)}: {found[0]}"
