"""Runs Python under what a unit's sandbox forbids, without systemd: `python -m sandbox UNIT ARGUMENT…`.

Tried for real: no writable code (MemoryDenyWriteExecute), the system calls (SystemCallFilter), the sockets (RestrictAddressFamilies),
no new privileges, and a network without any device (PrivateNetwork). Namespaces of files, devices and users are checked by
`systemd-analyze security` alone.
"""

from __future__ import annotations

import ctypes
import os
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

PR_SET_NO_NEW_PRIVS, PR_SET_MDWE, PR_MDWE_REFUSE_EXEC_GAIN = 38, 65, 1
CLONE_NEWNET = 0x40000000
ALLOW, EPERM = 0x7FFF0000, 0x00050001
EQUAL = 4


class Comparison(ctypes.Structure):
    """libseccomp's struct scmp_arg_cmp: argument, operator, two operands."""

    _fields_ = (("arg", ctypes.c_uint), ("op", ctypes.c_int), ("a", ctypes.c_uint64), ("b", ctypes.c_uint64))


def settings(unit: Path, key: str) -> list[str]:
    """The words of all lines of that key."""
    lines = (line.partition("=") for line in unit.read_text().splitlines())
    return [word for name, _, value in lines if name == key for word in value.split()]


def calls(*sets: str) -> set[str]:
    """The system calls of systemd's sets, which may hold sets."""
    found = set()
    for name in sets:
        if not name.startswith("@"):
            found.add(name)
            continue
        listed = subprocess.run(["systemd-analyze", "syscall-filter", name], capture_output=True, text=True, check=True).stdout.split("\n")
        found |= calls(*(line.strip() for line in listed[1:] if line.strip() and not line.strip().startswith("#")))
    return found


def allowed(unit: Path) -> set[str]:
    wanted = settings(unit, "SystemCallFilter")
    denied = [name.removeprefix("~") for name in wanted if name.startswith("~")]
    return calls(*(name for name in wanted if not name.startswith("~"))) - calls(*denied)


def filter_calls(names: set[str]) -> None:
    """From now on this process and all that come of it get EPERM for any other call, and for a socket that is not local."""
    library = ctypes.CDLL("libseccomp.so.2", use_errno=True)
    library.seccomp_init.restype = ctypes.c_void_p
    context = ctypes.c_void_p(library.seccomp_init(ctypes.c_uint32(EPERM)))
    local = Comparison(0, EQUAL, socket.AF_UNIX, 0)
    for name in names:
        number = library.seccomp_syscall_resolve_name(name.encode())
        if number >= 0:  # else: not of this processor
            conditions = (1, ctypes.byref(local)) if name in ("socket", "socketpair") else (0, None)
            check(library.seccomp_rule_add_array(context, ctypes.c_uint32(ALLOW), number, *conditions), name)
    check(library.seccomp_load(context), "seccomp_load")


def check(result: int, what: str) -> None:
    if result:
        raise OSError(ctypes.get_errno(), f"{what}: {result}")


def main(unit: Path, command: Sequence[str]) -> None:
    assert settings(unit, "MemoryDenyWriteExecute") == ["yes"] and settings(unit, "RestrictAddressFamilies") == ["AF_UNIX"]
    names = allowed(unit)
    library = ctypes.CDLL(None, use_errno=True)
    check(library.unshare(CLONE_NEWNET), "unshare")
    check(library.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "PR_SET_NO_NEW_PRIVS")
    check(library.prctl(PR_SET_MDWE, PR_MDWE_REFUSE_EXEC_GAIN, 0, 0, 0), "PR_SET_MDWE")
    filter_calls(names)
    os.execv(sys.executable, [sys.executable, *command])


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
