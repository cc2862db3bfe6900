"""New models tried in a process of their own before anything that runs gets them.

What lives here: one such process, and what its end means. What must not: what it builds (processes.py does, in that process). A library
ends the process on some bad models; here that costs the reload, and the lanes never know.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from . import wire
from .children import START_SECONDS, Child
from .errors import ModelError, VoicedError


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
        while not over.is_set():
            patience = child.heard + START_SECONDS - time.monotonic()
            if patience <= 0:
                raise ModelError(child.loading or "a model", f"is not loaded within {START_SECONDS:.0f} s")
            with suppress(TimeoutError):
                await asyncio.wait_for(over.wait(), patience)
    finally:
        child.kill()
    if failures:
        raise failures[0]
    if child.status:
        raise ModelError("a model", f"cannot be used: its process {child.describe_end()}", "check it: voicectl models verify")
