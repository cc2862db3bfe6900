"""What comes from where, by board: the system's packages, the index of the board's maker, the package index, and voiced itself.

What lives here: one table, and how it is told. What must not: getting any of it (environment.py).

On the K3 (riscv64) the package index has wheels of dbus-fast, and sounddevice and soundfile, which are plain Python; of NumPy,
onnxruntime, sherpa-onnx, soxr, cffi and PyYAML it has none for that processor (looked up 2026-11-29), and those that the maker has
were built with its execution provider. So an environment there sees the system's packages, and pip is asked for no version of ours.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Sources:
    """Names of packages, in the order in which they are installed.

    system   by the distribution's package manager, Debian's names
    maker    by pip from the index of the board's maker
    index    by pip from its usual index: requirements as pip takes them
    """

    system: tuple[str, ...]
    maker: tuple[str, ...]
    index: tuple[str, ...]

    @property
    def sees_system(self) -> bool:
        """The environment uses the system's Python packages, too."""
        return any(name.startswith("python3-") and name != "python3-venv" for name in self.system)


COMMON = ("python3-venv", "libportaudio2", "dbus")

K3_SYSTEM = (*COMMON, "libsndfile1", "libsoxr0", "python3-cffi", "python3-numpy", "python3-yaml")

K3_VENDOR = ("spacemit-onnxruntime", "python3-spacemit-ort", "spacemit-tcm")
"""Of the maker's own archive, which Bianbu has among its sources."""

K3_MAKER = ("sherpa-onnx==1.13.1",)
"""The version that the maker's own voice service is built on."""

K3_FROM_SYSTEM = frozenset(("numpy", "pyyaml", "onnxruntime", "soxr"))
"""Requirements that pip must not look for there: the system's packages are what is used."""


def of_board(board: str, requirements: Sequence[str]) -> Sources:
    """`board`: k3 or generic; `requirements`: voiced's own, as setup.cfg has them."""
    if board != "k3":
        return Sources(COMMON, (), tuple(requirements))
    maker = {_name(one) for one in K3_MAKER}
    ours = tuple(one for one in requirements if _name(one) not in K3_FROM_SYSTEM | maker)
    return Sources((*K3_SYSTEM, *K3_VENDOR), K3_MAKER, ours)


def tell(board: str, sources: Sources, index: str) -> list[str]:
    """The path of an installation, a line a step. `index`: the maker's, "" where it was not named."""
    lines = [f"board: {board}", f"  1. system packages, by apt-get install: {' '.join(sources.system)}"]
    if sources.maker:
        where = index or "named by --maker-index URL (the maker's documents of its speech SDK have it)"
        lines.append(f"  2. from the maker's index, {where}: {' '.join(sources.maker)}")
    else:
        lines.append("  2. from a maker's index: nothing")
    lines.append(f"  3. from the package index, by pip: {' '.join(map(_short, sources.index))}")
    lines.append("  4. from voiced itself: its code, its own models, units, policy, manual pages, completion")
    lines.append("  5. models that are fetched: silero-vad, moonshine-tiny-en")
    return lines


def _name(requirement: str) -> str:
    return re.split(r"[^A-Za-z0-9_.-]", requirement, maxsplit=1)[0].lower().replace("_", "-")


def _short(requirement: str) -> str:
    what, _, when = (part.strip() for part in requirement.partition(";"))
    return what.replace(" ", "") + (f" (where {when})" if when else "")
