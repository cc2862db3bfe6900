"""The Debian package: what is in it, that nothing foreign is, and how it comes and goes in a Debian of its own."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from chroots import CHECKOUT, Debian, debian, members
from shipping import deb
from voiced import __version__

if shutil.which("dpkg-deb") is None:
    pytest.skip("dpkg-deb is not installed", allow_module_level=True)

EPOCH = "1796083200"


def make(folder: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [str(CHECKOUT / "tools" / "make-deb"), "--out", str(folder), *arguments]
    env = {**os.environ, "SOURCE_DATE_EPOCH": EPOCH, **environment}
    return subprocess.run(command, env=env, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("deb")
    done = make(folder)
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"{folder}/voiced_{__version__}_all.deb\n"
    return Path(done.stdout.strip())


def field(package: Path, name: str) -> str:
    return subprocess.run(["dpkg-deb", "-f", package, name], capture_output=True, text=True, check=True).stdout.strip()


def test_it_is_for_every_architecture_and_says_what_it_needs(package: Path) -> None:
    assert field(package, "Architecture") == "all"
    assert field(package, "Version") == __version__
    assert "python3 (>= 3.11)" in field(package, "Depends")
    assert list(package.parent.iterdir()) == [package], "nothing is left beside it"


def test_it_has_our_code_and_models_and_nothing_foreign(package: Path) -> None:
    found = {member.name.removeprefix("."): member for member in members(package)}
    for name in (
        "/usr/bin/voiced", "/usr/bin/voicectl", "/usr/bin/voiced-setup", "/usr/lib/voiced/daemon/voiced/__main__.py",
        "/usr/share/voiced/models/manifest.yaml", "/usr/share/voiced/models/starter-en/encoder.int8.onnx",
        "/usr/lib/systemd/system/voiced.service", "/usr/share/dbus-1/system.d/org.voiced.Voice1.conf",
        "/usr/share/man/man8/voiced.8.gz", "/usr/share/bash-completion/completions/voicectl", "/usr/share/zsh/vendor-completions/_voicectl",
        "/usr/share/doc/voiced/copyright", "/usr/share/doc/voiced/changelog.gz", "/etc/voiced/voiced.yaml",
    ):  # fmt: skip
        assert name in found, name
    assert not [name for name in found if re.search(r"\.(so|whl|pyc|a)(\.|$)|__pycache__|site-packages", name)]
    models = {path.name for path in (CHECKOUT / "models").rglob("*.onnx")}
    assert {Path(name).name for name in found if name.endswith(".onnx")} == models, "our models and no others"
    assert all((member.uid, member.gid, member.mode & 0o022) == (0, 0, 0) for member in found.values() if not member.issym())
    assert {name for name, member in found.items() if member.isfile() and member.mode & 0o111} == {
        f"/usr/bin/{name}" for name in ("voiced", "voicectl", "voiced-setup")
    }


def test_the_same_checkout_gives_the_same_bytes(package: Path, tmp_path: Path) -> None:
    again = make(tmp_path)
    assert Path(again.stdout.strip()).read_bytes() == package.read_bytes()


def test_no_script_of_it_needs_a_network_and_each_is_well_formed(package: Path, tmp_path: Path) -> None:
    subprocess.run(["dpkg-deb", "-e", package, tmp_path / "control"], check=True)
    for name in ("postinst", "prerm", "postrm"):
        script = tmp_path / "control" / name
        subprocess.run(["sh", "-n", script], check=True)
        assert not re.search(r"pip|curl|wget|http|apt|fetch", script.read_text().replace("--system", "")), name
    assert (tmp_path / "control" / "conffiles").read_text() == "/etc/voiced/voiced.yaml\n"


def test_it_is_made_without_a_network(package: Path, tmp_path: Path) -> None:
    if os.geteuid() != 0 or subprocess.run(["unshare", "-n", "true"], capture_output=True, check=False).returncode:
        pytest.skip("taking the network away needs root")
    command = ["unshare", "-n", str(CHECKOUT / "tools" / "make-deb"), "--out", str(tmp_path), "--version", "9"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, f"{tmp_path}/voiced_9_all.deb\n"), done.stderr


def test_lintian_has_no_errors(package: Path) -> None:
    if shutil.which("lintian") is None:
        pytest.skip("lintian is not installed")
    done = subprocess.run(["lintian", "--allow-root", "--fail-on", "error", str(package)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_what_goes_wrong_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").touch()
    done = make(tmp_path / "file")
    assert (done.returncode, done.stderr.count("\n")) == (74, 1)
    assert done.stderr.startswith("tools/make-deb: ")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert deb.main(["--out", str(tmp_path)]) == 69
    assert capsys.readouterr().err == "tools/make-deb: dpkg-deb: is not installed; apt-get install dpkg\n"


def test_a_full_disk_leaves_no_half_package(tmp_path: Path) -> None:
    if os.geteuid() != 0 or subprocess.run(["unshare", "-m", "true"], capture_output=True, check=False).returncode:
        pytest.skip("mounting needs root")
    make_it = f"'{CHECKOUT}/tools/make-deb' --out '{tmp_path}' || echo \"exit $?\""
    script = f"mount -t tmpfs -o size=6m tmpfs '{tmp_path}'; {make_it}; ls -A '{tmp_path}'"
    done = subprocess.run(["unshare", "-m", "sh", "-c", script], capture_output=True, text=True, check=False)
    assert done.stdout == "exit 74\n", done.stdout + done.stderr
    assert done.stderr.count("\n") == 1 and "the disk is full" in done.stderr


# ── in a Debian of its own ─────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module", params=["bookworm", "trixie"])
def system(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, package: Path) -> Iterator[Debian]:
    with debian(tmp_path_factory.mktemp("debian"), request.param) as found:
        newer = make(package.parent, "--version", f"{__version__}+1")
        assert newer.returncode == 0, newer.stderr
        for path in (package, Path(newer.stdout.strip())):
            shutil.copy2(path, found.root)
        shutil.copy2(CHECKOUT / "daemon" / "voiced" / "data" / "sample.flac", found.root)
        yield found


TRACES = "find / -xdev -name '*voice*' ! -name '*.deb' ! -path '/proc/*' ! -path '/tmp/*' ! -path '/root*' ! -path '/var/log/*'"


@pytest.mark.slow
def test_it_comes_works_is_renewed_and_goes(system: Debian) -> None:
    """Debian 12 with Python 3.11, Debian 13 with 3.13: from dpkg -i to dpkg -P, with the real libraries where they can be had."""
    before = system(TRACES).stdout
    done = system(f"dpkg -i /voiced_{__version__}_all.deb")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "voiced: libraries and models are not there yet: run voiced-setup" in done.stderr
    done = system("id -nG voiced; getent group voice; voicectl --version; echo $?")
    assert "audio" in done.stdout.splitlines()[0]
    assert done.stdout.endswith("75\n")
    assert done.stderr == "voicectl: its environment is not there, or is of a Python that has gone; run: sudo voiced-setup\n"

    done = system("voicectl doctor --json")
    assert done.returncode == 1, done.stderr
    assert "voiced-setup" in done.stdout

    done = system("umask 077; voiced-setup")
    if done.returncode == 75:
        pytest.skip(f"no package index: {done.stderr}")
    assert done.returncode == 0, done.stderr
    assert system("voiced-setup").stderr.count("making") == 0, "what is there is left"
    done = system("voiced --input /sample.flac --json")
    assert done.returncode == 0, done.stderr
    assert "Turn on the lights in the kitchen." in done.stdout
    assert system("ls -d /var/lib/voiced-setup/models/silero-vad").returncode == 0
    done = system("cd / && HOME=/ setpriv --reuid=voiced --regid=voiced --init-groups voiced --input /sample.flac --json")
    assert "Turn on the lights in the kitchen." in done.stdout, f"the unit's own user: {done.stderr}"

    system("echo '# mine' >>/etc/voiced/voiced.yaml")
    done = system(f"dpkg -i /voiced_{__version__}+1_all.deb")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "voiced: run voiced-setup" in done.stderr
    assert system("tail -n 1 /etc/voiced/voiced.yaml; voiced --version").stdout == f"# mine\nvoiced {__version__}\n"

    done = system("dpkg -r voiced")
    assert done.returncode == 0 and "warning" not in done.stderr, done.stderr
    left = set(system(TRACES).stdout.split()) - set(before.split())
    assert {name for name in left if not name.startswith("/var/lib/dpkg/")} == {
        "/etc/voiced", "/etc/voiced/voiced.yaml", "/etc/voiced/voiced.yaml.d", "/var/cache/voiced", "/var/lib/voiced",
    }  # fmt: skip
    done = system("dpkg -P voiced")
    assert done.returncode == 0, done.stderr
    assert system(TRACES).stdout == before
    assert system("getent passwd voiced").returncode != 0
