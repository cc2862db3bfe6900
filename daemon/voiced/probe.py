"""New models tried in a process of their own before anything that runs gets them.

What lives here: one such process, and what its end means. What must not: what it builds (processes.py does, in that process). A library
ends the process on some bad models; here that costs the reload, and the lanes never know.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from . import wire
from .children import Child
from .errors import ModelError, VoicedError

PROBE_SECONDS = 15.0
"""The largest model takes a few on the slowest board, and a client of the bus waits for 20 (bus/dispatch.py)."""


async def probe(job: dict[str, Any], roles: Sequence[str]) -> None:
    """Builds what these settings want for the roles (processes.PROBES) and lets it go. VoicedError: they cannot be had."""
    if not roles:
        return
    failures: list[VoicedError] = []
    over = asyncio.Event()

    def hear(_: Child, message: wire.Message) -> None:
        match message.body:
            case {"failed": line, "exit": code}:
                failures.append(VoicedError("", line, code=code))

    child = Child("probe", "", job | {"roles": list(roles)}, hear, lambda _: over.set())
    try:
        async with asyncio.timeout(PROBE_SECONDS):
            await over.wait()
    except TimeoutError:
        raise ModelError(child.loading or "a model", f"is not loaded within {PROBE_SECONDS:.0f} s") from None
    finally:
        child.kill()
    if failures:
        raise failures[0]
    if child.status:
        raise ModelError("a model", f"cannot be used: its process {child.describe_end()}", "check it: voicectl models verify")
