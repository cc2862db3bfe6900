"""The pure parts on riscv64, by qemu-user: no board, no vector unit of one, but its instructions and Debian 13's Python and NumPy.

Only what starts no process runs there: an emulator in a folder is not known to the kernel.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from chroots import CHECKOUT

QEMU = "qemu-riscv64-static"

PACKAGES = ("python3", "python3-yaml", "python3-numpy", "python3-pytest", "python3-hypothesis")

TESTS = (
    "tests/test_segments.py", "tests/test_turn.py", "tests/test_wording.py", "tests/test_former.py",
    "tests/test_guard.py", "tests/test_changes.py", "tests/test_fairqueue.py", "tests/test_statistics.py",
    "tests/test_audio.py", "tests/test_events.py", "tests/test_endpoint.py", "tests/test_profiles.py", "tests/test_settings.py",
    "tests/test_receipts.py", "tests/test_ledger.py", "tests/test_hearing.py",
)  # fmt: skip

CHILDREN = "not module_prints and not imports_nothing_heavy"
"""Two of them start a process."""

RUN = """
import os, sys
import pytest
from hypothesis import settings
os.chdir("/src")
settings.register_profile("few", max_examples=4, deadline=None, database=None)  # an emulator is some thirty times slower
sys.exit(pytest.main(["-q", "-p", "no:cacheprovider", "-m", "not slow", "--hypothesis-profile=few", *sys.argv[1:]]))
"""

ENTER = """
mount -t proc proc "$0/proc"
mount --rbind /dev "$0/dev"
mount -t tmpfs tmpfs "$0/tmp"
lib=/usr/lib/riscv64-linux-gnu
root=$0
exec chroot "$root" /usr/bin/qemu-riscv64-static -E LD_LIBRARY_PATH=$lib/blas:$lib/lapack -E PYTHONPATH=/src/daemon:/src/tools:/src/tests \\
    -E PYTHONDONTWRITEBYTECODE=1 -E HOME=/ -E LC_ALL=C.UTF-8 /usr/bin/python3 "$@"
"""


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Debian 13 for riscv64, unpacked and not configured: nothing of it could run before it is here."""
    qemu = shutil.which(QEMU)
    if os.geteuid() != 0 or qemu is None or shutil.which("debootstrap") is None:
        pytest.skip(f"needs root, debootstrap and {QEMU}")
    root = tmp_path_factory.mktemp("riscv") / "root"
    command = ["debootstrap", "--foreign", "--arch=riscv64", "--variant=minbase", f"--include={','.join(PACKAGES)}", "trixie", str(root)]
    mirror = os.environ.get("VOICED_DEBIAN_MIRROR")
    done = subprocess.run([*command, *([mirror] if mirror else [])], capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)
    if done.returncode:
        pytest.skip(f"debootstrap cannot bring riscv64: {' '.join((done.stdout + done.stderr).split())[-300:]}")
    for package in sorted((root / "var" / "cache" / "apt" / "archives").glob("*.deb")):
        subprocess.run(["dpkg-deb", "-x", package, root], check=True)
    for name in ("proc", "dev", "tmp", "src"):
        (root / name).mkdir(exist_ok=True)
    shutil.copy2(qemu, root / "usr" / "bin" / QEMU)
    listed = subprocess.run(["git", "ls-files"], cwd=CHECKOUT, capture_output=True, text=True, check=True).stdout.splitlines()
    for name in listed:
        if (
            name.startswith(("daemon/", "tests/", "config/", "setup.cfg", "README.md", "models/manifest.yaml"))
            and (CHECKOUT / name).is_file()
        ):
            (root / "src" / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(CHECKOUT / name, root / "src" / name)
    yield root
    shutil.rmtree(root, ignore_errors=True)


def enter(root: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = ["unshare", "-m", "sh", "-ec", ENTER, str(root), *arguments]
    return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=3000, check=False)


@pytest.mark.slow
def test_the_pure_parts_run_on_riscv64(root: Path) -> None:
    machine = enter(root, "-c", "import platform, numpy; print(platform.machine())")
    assert machine.stdout == "riscv64\n", machine.stderr
    done = enter(root, "-c", RUN, "-k", CHILDREN, *TESTS)
    assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]
