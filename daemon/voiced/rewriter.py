"""The second-pass process as the main process sees it: one queue for all lanes, bounded, in the order asked.

What lives here: who waits, who is being decoded, and that each request is answered exactly once, whatever happens to the
process. What must not: the text, the deadline (the lane has it), the model.

One request at a time is with the process, so that its death costs that one alone; the others wait here for its successor.
"""

from __future__ import annotations

import logging
import os
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from . import wire
from .children import START_SECONDS, Backoff, Child
from .desk import PlacementRow
from .events import Rewritten, decode
from .settings import SecondPassSettings

log = logging.getLogger("voiced")

HUNG_SECONDS = 5.0
"""So long after a request's deadline the process counts as hung. It was late before, and a slow one is worth waiting for: it has
the model in memory, and a new one would begin by loading it."""


@dataclass(frozen=True, slots=True)
class _Request:
    lane: str
    turn: int
    attempt: int
    sample: int
    fd: int
    """The turn's sound (wire.share); ours until it is answered."""


class Rewriter:
    """Runs in main's loop.

    settings   how many requests may wait (one more is answered at once with a failure), and when the lanes give one up
    answered   called with a lane's name and its answer
    failed     called with (child, line, exit code) when the process says it cannot be made ready, with ("", 0) when it ended
    """

    def __init__(
        self,
        job: dict[str, Any],
        settings: SecondPassSettings,
        answered: Callable[[str, Rewritten], None],
        failed: Callable[[Child, str, int], None],
        later: Callable[[float, Callable[[], None]], None],
    ) -> None:
        self._answered, self._failed, self._later = answered, failed, later
        self._wanted = False
        self.adopt(job, settings)
        self._waiting: deque[_Request] = deque()
        self._running: _Request | None = None
        self._child: Child | None = None
        self._backoff = Backoff(0.2, 5.0)
        self._closing = False
        self._on_ready: Callable[[], None] = lambda: None
        self.ready = False
        self.rows: list[PlacementRow] = []
        self._counts = {"second_pass_restarts": 0, "second_pass_refused": 0, "second_pass_done": 0}

    def adopt(self, job: dict[str, Any], settings: SecondPassSettings) -> None:
        """Takes settings, for the next request and the next process."""
        self._job, self._queue, self._hung_s = job, settings.queue, settings.deadline_ms / 1000 + HUNG_SECONDS

    def start(self, on_ready: Callable[[], None] = lambda: None) -> None:
        """There is a second pass from now on; without this, whoever asks is answered that there is none."""
        self._on_ready, self._wanted = on_ready, True
        self._spawn()

    def retire(self) -> None:
        """There is none from now on: what was asked before is answered, then the process ends."""
        self._wanted = False
        self._next()

    def _spawn(self) -> None:
        if self._child or not (self._wanted or self._waiting):
            return
        self._child = Child("second-pass", "", self._job, self._said, self._exited)

    def close(self) -> None:
        """Ends the process; whatever waits is not answered any more."""
        self._closing = True
        if self._child:
            self._child.kill()
        self.forget(None)

    def watch(self, now: float) -> None:
        """Ends a process that neither is ready nor says that it goes on loading."""
        if self._child and not self.ready and now - self._child.heard > START_SECONDS:
            log.error("the second pass does not start")
            self._child.kill()

    def children(self) -> list[Child]:
        return [self._child] if self._child else []

    def ask(self, lane: str, turn: int, attempt: int, sample: int, fd: int) -> None:
        """Takes over `fd`."""
        request = _Request(lane, turn, attempt, sample, fd)
        if not self._wanted:
            self._answer(request, "there is no second pass")
            return
        if len(self._waiting) >= self._queue:
            self._counts["second_pass_refused"] += 1
            self._answer(request, "the second pass has too much to do")
            return
        self._waiting.append(request)
        self._next()

    def forget(self, lane: str | None) -> None:
        """Drops what a lane waits for (None: all lanes): it is gone."""
        for request in [request for request in self._waiting if lane in (None, request.lane)]:
            self._waiting.remove(request)
            os.close(request.fd)

    def numbers(self) -> dict[str, float]:
        return {**self._counts, "second_pass_waiting": len(self._waiting)}

    def _next(self) -> None:
        if self._child and not (self._wanted or self._running or self._waiting):
            self._child.kill()
        if self._running or not self._waiting or not self.ready or self._child is None:
            return
        request = self._running = self._waiting.popleft()
        body = {"lane": request.lane, "turn": request.turn, "attempt": request.attempt, "sample": request.sample}
        if not self._child.send(body, (request.fd,)):
            self._child.kill()  # it has one request at a time: a full socket means that it does not read
        self._later(self._hung_s, lambda: self._end_hung(request))

    def _end_hung(self, request: _Request) -> None:
        """Its exit answers the request, and a new process takes the next."""
        if self._running is request and self._child:
            log.error("the second pass has not answered for %.1f s; it is killed", self._hung_s)
            self._child.kill()

    def _answer(self, request: _Request, failure: str) -> None:
        os.close(request.fd)
        self._answered(request.lane, Rewritten(request.sample, request.turn, request.attempt, "", failure))

    def _said(self, child: Child, message: wire.Message) -> None:
        match message.body:
            case {"ready": rows}:
                child.loading = ""
                self.ready = True
                self.rows = [PlacementRow.from_plain(row) for row in rows]
                self._on_ready()
            case {"rewritten": plain, "lane": lane}:
                if self._running:
                    os.close(self._running.fd)
                    self._running = None
                    self._counts["second_pass_done"] += 1
                answer = decode(plain)
                assert isinstance(answer, Rewritten)
                self._answered(lane, answer)
            case {"failed": line, "exit": code}:
                self._failed(child, line, code)
        self._next()

    def _exited(self, child: Child) -> None:
        self._child, self.ready, self.rows = None, False, []
        if self._running:
            running, self._running = self._running, None
            self._answer(running, "the second pass died")
        if self._closing or not (self._wanted or self._waiting):
            return
        self._failed(child, "", 0)
        self._counts["second_pass_restarts"] += 1
        self._later(self._backoff.delay(time.monotonic() - child.started), self._spawn)
