"""Processes of ours that have models and hear nothing: the second pass, and one that only tries models. How each begins and fails.

What lives here: the child's side of rewriter.py and probe.py, and what it shares with a lane's (runtime.py). What must not: threads, but
those that wait for a server.

A child of ours ends when its link closes: nothing survives the main process.
"""

from __future__ import annotations

import os
import queue
import signal
import threading
from collections.abc import Callable
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from . import assembly, placement, wire
from .audio import Samples
from .errors import InternalError, VoicedError
from .journal import trace
from .models import Library, default_library
from .plain import encode
from .settings import Settings, from_plain
from .stages.llama_server import LlamaServer
from .stages.second_pass import SecondPassStage

PROBE_NICE = 5
"""Trying a model must not take the time of those who hear: behind the recognizer (placement.nice_transducer)."""


def receive_job(link: wire.Link) -> dict[str, Any]:
    """The first message of the main process; EOFError when it is gone. Children leave ^C to it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    message = link.receive()
    assert message is not None  # it waits for ever
    return message.body


def fail(link: wire.Link, error: VoicedError) -> int:
    """Tells the main process why this one cannot be made ready; the exit code."""
    link.send_all({"failed": str(error), "exit": error.exit_code})
    return error.exit_code


def second_pass_main(fd: int) -> int:
    with closing(wire.Link.from_fd(fd)) as link:
        return _rewrite_turns(link)


def _rewrite_turns(link: wire.Link) -> int:
    """The second-pass process: one turn after the other, in the order asked; as many at once as a server has slots."""
    job = receive_job(link)

    def say(what: str) -> None:
        link.send({"loading": what})

    try:
        settings = from_plain(job["settings"])
        row = placement.pin("second_pass", settings.placement.second_pass, nice=settings.placement.nice_second_pass, process="second pass")
        stage = assembly.second_pass(settings, default_library(settings.models.path), Path(job["runtime_dir"]), say)
    except VoicedError as error:
        return fail(link, error)
    except Exception as error:
        trace()
        return fail(link, InternalError("the second pass", f"cannot be built: {type(error).__name__}: {error}"))
    free: queue.SimpleQueue[SecondPassStage] = queue.SimpleQueue()
    free.put(stage)
    width = stage.width if isinstance(stage, LlamaServer) else 1
    if isinstance(stage, LlamaServer):
        for _ in range(width - 1):
            free.put(stage.another())

    def rewrite(body: dict[str, Any], sound: Samples) -> None:
        one = free.get()
        answer = assembly.answer(one, body["sample"], body["turn"], body["attempt"], sound)
        link.send({"rewritten": encode(answer), "lane": body["lane"]})
        one.reset()
        free.put(one)

    link.send({"ready": [asdict(row)], "width": width})
    while True:
        try:
            message = link.receive()
        except EOFError:
            return 0
        assert message is not None
        sound = np.frombuffer(wire.shared(message.fds[0]), np.int16)
        if width == 1:
            rewrite(message.body, sound)
        else:  # never more than `width`: main keeps the others
            threading.Thread(target=rewrite, args=(message.body, sound), name="ask", daemon=True).start()


def probe_main(fd: int) -> int:
    """Builds what settings want for some roles, to see whether it can be had, and lets it go. A crash here is seen by its parent."""
    with closing(wire.Link.from_fd(fd)) as link:
        job = receive_job(link)
        os.nice(PROBE_NICE)

        def say(what: str) -> None:
            link.send({"loading": what})

        try:
            settings = from_plain(job["settings"])
            for role in job["roles"]:
                PROBES[role](settings, default_library(settings.models.path), Path(job["runtime_dir"]), say)
        except VoicedError as error:
            return fail(link, error)
        except Exception as error:
            trace()
            return fail(link, InternalError("a model", f"cannot be used: {type(error).__name__}: {error}"))
    return 0


def _probe_ears(settings: Settings, library: Library, runtime_dir: Path, say: assembly.Say) -> None:
    assembly.spotting(settings, library, runtime_dir, say)
    assembly.rules(settings, library, say)


PROBES: dict[str, Callable[[Settings, Library, Path, assembly.Say], object]] = {"ears": _probe_ears, "second-pass": assembly.second_pass}
