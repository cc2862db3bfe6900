"""The second-pass process as the main process sees it: one queue for all lanes, bounded, and what was computed for nothing.

What lives here: who is being decoded, and that each request that somebody still waits for is answered exactly once, whatever happens to
the process. What must not: who is next (fairqueue.py), the text, the deadline (the lane has it), the model.

One request at a time is with the process (of a server as many as it has slots, one a lane), so that its death costs that alone; the others
wait here for its successor. A lane begins requests before it knows that its turn is over, and takes them back when the speaker goes on: one
that waits goes at once, one that runs is computed to its end and nobody hears of it.
"""

from __future__ import annotations

import logging
import os
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

from . import wire
from .children import START_SECONDS, Backoff, Child
from .desk import PlacementRow
from .events import Rewritten
from .fairqueue import FairQueue, Request
from .liveness import Standing
from .plain import decode
from .receipts import Rewriting, Step
from .settings import SecondPassSettings

log = logging.getLogger("voiced")

HUNG_SECONDS, BUSY_SECONDS = 5.0, 60.0
"""So long after a request's deadline a process that sleeps counts as hung, and one that is at work or waits for a core. It was late before,
and a slow one is worth waiting for: it has the model in memory, and a new one would begin by loading it."""


COUNTS = ("started", "done", "dropped", "wasted", "superseded", "refused", "restarts")
"""Requests: given to the process, and answered by it; taken back while they waited, and when they ran or were answered (computed for
nothing); whose place a newer one took; that found the queue full. And the process's successors."""


Key = tuple[str, int, int]
"""Of a request: lane, turn, attempt."""


class Rewriter:
    """Runs in main's loop.

    settings   how many lanes may wait (one more is answered at once with a failure), and when the lanes give one up
    answered   called with a lane's name and its answer
    failed     called with (child, line, exit code) when the process says it cannot be made ready, with ("", 0) when it ended
    note       called with each step of a request, for the turn's receipt
    """

    def __init__(
        self,
        job: dict[str, Any],
        settings: SecondPassSettings,
        answered: Callable[[str, Rewritten], None],
        failed: Callable[[Child, str, int], None],
        later: Callable[[float, Callable[[], None]], None],
        note: Callable[[Rewriting], None] = lambda _: None,
    ) -> None:
        self._answered, self._failed, self._later, self._note = answered, failed, later, note
        self._wanted = False
        self.adopt(job, settings)
        self._waiting = FairQueue()
        self._running: dict[Key, Request] = {}
        self._due: dict[Key, float] = {}  # of the running: when they hang, in seconds of CLOCK_MONOTONIC
        self._width = 1  # that may run at once
        self._stale: set[Key] = set()  # running, and nobody waits for them
        self._given: dict[str, Rewritten] = {}  # by lane: its last answer, which it may still take back
        self._child: Child | None = None
        self._backoff = Backoff(0.2, 5.0)
        self._closing = False
        self._on_ready: Callable[[], None] = lambda: None
        self.ready = False
        self.rows: list[PlacementRow] = []
        self._counts: Counter[str] = Counter(dict.fromkeys(COUNTS, 0))
        self._wasted_ms = 0.0

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
        """Ends a process that neither is ready nor says that it goes on loading, and one that hangs: its exit answers what it was at, and
        a new process takes the next. `now` in seconds of CLOCK_MONOTONIC."""
        if self._child and not self.ready and now - self._child.heard > START_SECONDS:
            log.error("the second pass does not start")
            self._child.kill()
        elif self._child and self._due:
            late_s, how = now - min(self._due.values()), self._child.standing
            if late_s > (BUSY_SECONDS - HUNG_SECONDS if how is Standing.AWAKE else 0):
                log.error("the second pass has not answered for %.1f s; %s; it is killed", self._hung_s + late_s, how.value)
                self._child.kill()

    def forgive(self, now: float) -> None:
        """It could not answer until now."""
        self._due = dict.fromkeys(self._due, now + self._hung_s)

    def children(self) -> list[Child]:
        return [self._child] if self._child else []

    def ask(self, request: Request) -> None:
        """Takes over its `fd`."""
        if not self._wanted:
            self._answer(request, "there is no second pass")
            return
        if len(self._waiting) >= self._queue and not self._waiting.has(request.lane):
            self._counts["refused"] += 1
            self._answer(request, "the second pass has too much to do")
            return
        before = self._waiting.put(request)
        self._step(request, Step.QUEUED)
        if before:
            self._counts["superseded"] += 1
            self._answer(before, "a newer turn took its place in the queue")
        self._next()

    def drop(self, lane: str, turn: int, attempt: int) -> None:
        """Nobody waits for that one any more: where it waits it goes, where it runs or was answered its time is counted as wasted."""
        self._note(Rewriting(turn, attempt, Step.DROPPED, time.monotonic_ns()))
        waiting = self._waiting.drop(lane, turn, attempt)
        if waiting:
            self._counts["dropped"] += 1
            os.close(waiting.fd)
        elif (lane, turn, attempt) in self._running:
            self._stale.add((lane, turn, attempt))
        elif (given := self._given.get(lane)) and (given.turn, given.attempt) == (turn, attempt):
            self._waste(self._given.pop(lane))

    def forget(self, lane: str | None) -> None:
        """Drops what a lane waits for (None: all lanes): it is gone."""
        for request in self._waiting.forget(lane):
            os.close(request.fd)
        self._stale |= {key for key in self._running if lane in (None, key[0])}

    def numbers(self) -> dict[str, float]:
        counts = {f"second_pass_{name}": float(count) for name, count in self._counts.items()}
        return {**counts, "second_pass_wasted_s": round(self._wasted_ms / 1000, 3), "second_pass_waiting": len(self._waiting)}

    def _step(self, request: Request, step: Step, compute_ms: float = 0.0, failure: str = "") -> None:
        samples = os.fstat(request.fd).st_size // 2 if step is Step.QUEUED else 0
        self._note(Rewriting(request.turn, request.attempt, step, time.monotonic_ns(), compute_ms, failure, samples))

    def _waste(self, answer: Rewritten) -> None:
        self._counts["wasted"] += 1
        self._wasted_ms += answer.compute_ms

    def _next(self) -> None:
        if self._child and not (self._wanted or self._running or self._waiting):
            self._child.kill()
        while self._child and self.ready and len(self._running) < self._width:
            request = self._waiting.take({lane for lane, _, _ in self._running})
            if request is None:
                break
            self._running[_key(request)] = request
            self._counts["started"] += 1
            self._step(request, Step.STARTED)
            body = {"lane": request.lane, "turn": request.turn, "attempt": request.attempt, "sample": request.sample}
            if not self._child.send(body, (request.fd,)):
                self._child.kill()  # it has few requests at a time: a full socket means that it does not read
                return
            self._due[_key(request)] = time.monotonic() + self._hung_s

    def _answer(self, request: Request, failure: str) -> None:
        os.close(request.fd)
        self._step(request, Step.DONE, failure=failure)
        self._answered(request.lane, Rewritten(request.sample, request.turn, request.attempt, "", failure))

    def _said(self, child: Child, message: wire.Message) -> None:
        match message.body:
            case {"ready": rows, "width": width}:
                child.loading = ""
                self._width = width
                self.ready = True
                self.rows = [PlacementRow.from_plain(row) for row in rows]
                self._on_ready()
            case {"rewritten": plain, "lane": lane}:
                answer = decode(plain)
                assert isinstance(answer, Rewritten)
                self._done(lane, answer)
            case {"failed": line, "exit": code}:
                self._failed(child, line, code)
        self._next()

    def _done(self, lane: str, answer: Rewritten) -> None:
        """The process answers for a request that it has."""
        running = self._running.pop((lane, answer.turn, answer.attempt), None)
        if running is None:
            return
        del self._due[_key(running)]
        os.close(running.fd)
        self._counts["done"] += 1
        self._step(running, Step.DONE, answer.compute_ms, answer.failure)
        if _key(running) in self._stale:
            self._stale.discard(_key(running))
            self._waste(answer)
            return
        self._given[running.lane] = answer
        self._answered(running.lane, answer)

    def _exited(self, child: Child) -> None:
        self._child, self.ready, self.rows = None, False, []
        died, self._running, self._due = list(self._running.values()), {}, {}
        self._stale.clear()
        for request in died:
            self._answer(request, "the second pass died")
        if self._closing or not (self._wanted or self._waiting):
            return
        self._failed(child, "", 0)
        self._counts["restarts"] += 1
        self._later(self._backoff.delay(time.monotonic() - child.started), self._spawn)


def _key(request: Request) -> Key:
    return request.lane, request.turn, request.attempt
