"""The main process's heart: starts, watches and begins again the capture, lane and second-pass processes.

What lives here: which process there must be, what becomes of a turn whose process died, and the order of starting and
ending. What must not: D-Bus (bus/ stands before the Desk that this is), sound, NumPy, models.

A crash costs its process alone. A lane's death closes its open turn here, with the reason `restarted` and the text that was
known; a second pass's death fails the turn it was at, whose first-pass text becomes final; a capture's death is lost audio.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import os
import time
from collections.abc import Callable, Collection, Mapping
from functools import partial
from pathlib import Path
from typing import Any, cast

from . import wire
from .captures import Captures
from .children import START_SECONDS, Child
from .desk import HealthChanged, LaneChanged, News, PlacementRow, Published, Snapshot
from .errors import DeviceError, InternalError, ModelError, VoicedError
from .events import CloseReason, Event, Rewritten, TurnClosed, Wake, decode, encode
from .hearing import Hearing, Verdict
from .lanestate import LaneState
from .ledger import Ledger, summary
from .rewriter import Rewriter
from .settings import Settings, has_second_pass, roles, to_plain
from .statistics import Statistics
from .units import RATE
from .warmup import WarmUp

log = logging.getLogger("voiced")

LANE_SLOTS = 8
"""Lanes at the most; turn ids of a lane step by it, so that two lanes never give the same."""

HUNG_SECONDS = 10.0
"""A lane beats every half second from a thread that does nothing else: silent for so long it is stopped or stuck."""

DEAF_SECONDS = 2.0
"""So long after a capture process should have said that its device stalls, it is itself what does not work, or the lane is."""

TRIGGER_SECONDS = 2.0

HUSH_SECONDS = 0.5
"""A muted lane that has not answered by then loses its sound all the same."""

CLOSE_SECONDS = 2.0
"""A lane that closes has to flush its transducer; a killed process needs milliseconds."""

SECOND_PASS = "second-pass"

WORST_FIRST = ("restarting", "starting", "stalled", "no_device", "muted", "ok")


class Supervisor:
    """Implements desk.Desk. All of it runs in one event loop; `start` makes the processes, `close` ends them.

    row   where the main process itself runs
    """

    def __init__(self, settings: Settings, runtime_dir: Path, *, version: str, row: PlacementRow) -> None:
        self._settings, self._version, self._row = settings, version, row
        self._models = roles(settings)
        self._phrases = tuple(phrase.phrase for phrase in settings.wake.phrases)
        base = int(time.time() * 1000) * LANE_SLOTS
        patience_s = settings.capture.stall_ms / 1000 + DEAF_SECONDS
        self._lanes = {
            lane.name: LaneState(lane, Ledger(base + slot, LANE_SLOTS), Hearing(patience_s)) for slot, lane in enumerate(settings.lanes)
        }
        self._tokens = itertools.count(1)
        self._listeners: list[Callable[[News], None]] = []
        self._closing = False
        self._all_ended = asyncio.Event()
        self._exit_code = 0
        self._told_health = ("starting", False)
        self._timers: set[asyncio.TimerHandle] = set()
        self.statistics = Statistics()
        plain = to_plain(settings)
        self._job = {"settings": plain, "runtime_dir": str(runtime_dir)}
        self._rewriter = None
        must = [f"lane {name}" for name in self._lanes]
        if has_second_pass(settings):
            self._rewriter = Rewriter(self._job, settings.second_pass, self._answered, self._child_failed, self._later)
            must.append(SECOND_PASS)
        self._warm_up = WarmUp(must)
        self._captures = Captures(settings, self._sound, self._source_failed, self._later)

    # ── life ───────────────────────────────────────────────────────────────────────────────────────────────────────────

    async def start(self) -> None:
        """Starts every process and waits until all are warm; only then does a lane get its sound.

        Raises the one VoicedError, or a ConfigError with all lines, where a process could not be made ready.
        """
        if self._rewriter:
            self._rewriter.start(lambda: self._warm_up.ready(SECOND_PASS))
        for lane in self._lanes.values():
            self._start_lane(lane)
        self._watch()
        await self._warm_up.wait()
        for lane in self._lanes.values():
            self._give_source(lane)
        self._tell()

    async def ended(self) -> int:
        """Returns when every lane has a file for a source and each has come to its end: an exit code, 65 where one was refused."""
        await self._all_ended.wait()
        return self._exit_code

    async def close(self) -> None:
        """Ends every turn with what is known, then every process. Safe to call twice."""
        self._closing = True
        for timer in self._timers:
            timer.cancel()
        lanes = [lane.child for lane in self._lanes.values() if lane.child]
        for child in lanes:
            if not (self._lane_of(child).ready and child.send({"command": "shutdown"})):
                child.kill()
        if self._rewriter:
            self._rewriter.close()
        await self._ended(lanes)
        for child in lanes:
            child.kill()
        self._captures.close()  # after the lanes: a turn that ends because we do has not lost its sound
        await self._ended([*lanes, *self._captures.children(), *(self._rewriter.children() if self._rewriter else ())])
        for lane in self._lanes.values():
            self._close_turns(lane, CloseReason.SHUTDOWN, "shutting down")

    async def _ended(self, children: Collection[Child]) -> None:
        deadline = time.monotonic() + CLOSE_SECONDS
        while any(child.alive for child in children) and time.monotonic() < deadline:
            await asyncio.sleep(0.01)

    def _later(self, seconds: float, call: Callable[[], None]) -> None:
        """Calls back once, unless we are closing by then."""

        def due() -> None:
            self._timers.discard(handle)
            if not self._closing:
                call()

        handle = asyncio.get_running_loop().call_later(seconds, due)
        self._timers.add(handle)

    # ── lanes ──────────────────────────────────────────────────────────────────────────────────────────────────────────

    def _start_lane(self, lane: LaneState) -> None:
        elapsed = time.monotonic() - lane.position_at
        position = lane.position + round(elapsed * RATE) if lane.position else 0  # what is lost of the sound is counted
        job = self._job | {
            "lane": lane.settings.name,
            "first_turn": lane.ledger.next_turn,
            "turn_step": LANE_SLOTS,
            "position": position,
            "position_ns": time.monotonic_ns() if position else 0,
        }
        lane.child = Child("lane", lane.settings.name, job, self._lane_said, self._lane_exited)

    def _lane_of(self, child: Child) -> LaneState:
        return self._lanes[child.name]

    def _lane_said(self, child: Child, message: wire.Message) -> None:
        lane = self._lane_of(child)
        match message.body:
            case {"event": plain, "arrived_ns": arrived_ns}:
                self._publish(lane, cast(Event, decode(plain)), arrived_ns)
            case {"beat": beat}:
                lane.position, lane.position_at = beat["position"], time.monotonic()
                lane.hearing.beat(lane.position_at, lane.position, beat.get("blocks", 0), beat["waiting"], beat["done"])
                self.statistics.beat(lane.settings.name, beat)
            case {"hears": True}:
                lane.source_health, lane.reason = "ok", ""
                self._tell_lane(lane)
            case {"state": state}:
                lane.state = state
                self._tell_lane(lane)
            case {"rewrite": turn, "sample": sample}:
                self._rewrite(lane, turn, sample, message.fds[0])
            case {"ready": rows}:
                child.loading = ""
                lane.ready = True
                lane.rows = tuple(PlacementRow.from_plain(row) for row in rows)
                if self._warm_up.over:
                    self._give_source(lane)
                self._tell_lane(lane)
                self._warm_up.ready(f"lane {child.name}")
            case {"triggered": token, "turn": turn}:
                waiting = lane.triggered.pop(token, None)
                if waiting and not waiting.done():
                    waiting.set_result(turn)
            case {"hushed": True}:
                self._silence(lane)
            case {"ended": True}:
                self._source_ended(lane)
            case {"refused": line, "exit": code}:
                log.error("%s", line)
                self._exit_code, lane.reason = code, line
                self._source_ended(lane)
            case {"failed": line, "exit": code}:
                self._child_failed(child, line, code)
            case {"crashed": line}:
                log.error("lane %s: %s", child.name, line)

    def _lane_exited(self, child: Child) -> None:
        lane = self._lane_of(child)
        lane.child, lane.ready, lane.rows = None, False, ()
        lane.source_health = "starting"
        lane.hearing.stop()
        if self._closing:
            return
        if not self._warm_up.over:
            self._child_failed(child, "", 0)
            return
        log.warning("lane %s %s; it is started again", child.name, child.describe_end())
        self.statistics.count("lane_restarts")
        if self._rewriter:
            self._rewriter.forget(child.name)
        self._close_turns(lane, CloseReason.RESTARTED, "the lane was restarted")
        lane.state = "asleep"
        self._tell_lane(lane)
        self._later(lane.backoff.delay(time.monotonic() - child.started), lambda: self._start_lane(lane))

    def _child_failed(self, child: Child, line: str, code: int) -> None:
        """A process could not be made ready (`line` says why), or ended. At the start that ends everything; later it is begun again."""
        name = f"{child.role} {child.name}".strip()
        error = VoicedError("", line, code=code)
        if not line:
            again = "it is started again" if self._warm_up.over else ""
            advice = "check the model: voicectl models verify" if child.loading else again
            error = ModelError(name, f"the process {child.describe_end()}", advice)
        if self._warm_up.over:
            log.error("%s", error)
        else:
            self._warm_up.failed(name, error)

    def _close_turns(self, lane: LaneState, reason: CloseReason, note: str) -> None:
        """A dead lane's turns get their last events from here: nothing that was heard is lost, nothing stays open."""
        for event in lane.ledger.last_events(reason, note):
            self._publish(lane, event, 0)

    def _watch(self) -> None:
        """Kills a lane that does not beat or does not hear, and a capture process that gives nothing; their exits start them again."""
        now = time.monotonic()
        self._captures.watch(now)
        if self._rewriter:
            self._rewriter.watch(now)
        for lane in self._lanes.values():
            if lane.child is None:
                continue
            if now - lane.child.heard > (HUNG_SECONDS if lane.ready else START_SECONDS):
                log.error("lane %s has not answered for %.0f s", lane.settings.name, now - lane.child.heard)
                lane.child.kill()
                continue
            verdict = lane.hearing.judge() if lane.ready else Verdict.HEARS
            if verdict in (Verdict.NO_EAR, Verdict.NO_SCRIBE):
                log.error("lane %s: %s", lane.settings.name, verdict.value)
                lane.child.kill()
            elif verdict is Verdict.NO_SOUND:
                log.error("lane %s: %s from %s", lane.settings.name, verdict.value, lane.settings.source)
                self._captures.kill(lane.settings.source)
        self._later(1.0, self._watch)

    # ── sound ──────────────────────────────────────────────────────────────────────────────────────────────────────────

    def _give_source(self, lane: LaneState) -> None:
        if lane.child is None or not lane.ready or lane.muted:
            return
        source = lane.settings.source
        if source.startswith("file:"):
            lane.child.send({"source": "file", "path": source.removeprefix("file:")})
            lane.ended = False
        else:
            self._captures.attach(lane.settings)
        self._tell_lane(lane)

    def _source_ended(self, lane: LaneState) -> None:
        """A lane's file is over, or is none."""
        lane.ended, lane.source_health = True, "no_device"
        self._tell_lane(lane)
        if all(other.ended for other in self._lanes.values()):
            self._all_ended.set()

    def _sound(self, name: str, fd: int) -> None:
        """A capture process has a socket for this lane: its other end goes to the lane."""
        lane = self._lanes[name]
        if lane.child and lane.ready and not lane.muted:
            lane.child.send({"source": "capture"}, (fd,))
            lane.hearing.start(time.monotonic())
        os.close(fd)
        self._tell_lane(lane)

    def _source_failed(self, name: str, health: str, reason: str) -> None:
        lane = self._lanes[name]
        if lane.child and lane.ready:
            lane.child.send({"command": "lost"})
        lane.source_health, lane.reason = health, reason
        lane.hearing.stop()
        self._tell_lane(lane)

    # ── second pass ────────────────────────────────────────────────────────────────────────────────────────────────────

    def _rewrite(self, lane: LaneState, turn: int, sample: int, fd: int) -> None:
        if self._rewriter is None:
            os.close(fd)
            self._answered(lane.settings.name, Rewritten(sample, turn, "", "there is no second pass"))
        else:
            self._rewriter.ask(lane.settings.name, turn, sample, fd)

    def _answered(self, name: str, answer: Rewritten) -> None:
        lane = self._lanes[name]
        if lane.child:
            lane.child.send({"rewritten": encode(answer)})

    # ── news ───────────────────────────────────────────────────────────────────────────────────────────────────────────

    def listen(self, callback: Callable[[News], None]) -> None:
        self._listeners.append(callback)

    def _publish(self, lane: LaneState, event: Event, arrived_ns: int) -> None:
        over = lane.ledger.follow(event)
        if isinstance(event, Wake):
            lane.state = "awake"
        elif lane.turn == 0:
            lane.state = "asleep"
        lane.sequence += 1
        now = time.monotonic_ns()
        self.statistics.event(event, (now - arrived_ns) / 1e6 if arrived_ns else None)
        self._send(Published(lane.settings.name, lane.sequence, event, now // 1000, time.time_ns() // 1000))
        if over and isinstance(event, TurnClosed):
            log.info("lane %s %s", lane.settings.name, summary(event, over.final, text=self._settings.log.text))
        self._tell_lane(lane)

    def _tell_lane(self, lane: LaneState) -> None:
        view = lane.view(self._phrases)
        if view != lane.told:
            lane.told = view
            self._send(LaneChanged(view))
            self._tell()

    def _tell(self) -> None:
        now = self._health()
        if now != self._told_health:
            self._told_health = now
            self._send(HealthChanged(self.snapshot()))

    def _health(self) -> tuple[str, bool]:
        """The worst lane's, and whether all are muted."""
        lanes = self._lanes.values()
        return min((lane.health for lane in lanes), key=WORST_FIRST.index), all(lane.muted for lane in lanes)

    def _send(self, news: News) -> None:
        for listener in self._listeners:
            listener(news)

    # ── Desk ───────────────────────────────────────────────────────────────────────────────────────────────────────────

    def snapshot(self) -> Snapshot:
        views = tuple(lane.view(self._phrases) for lane in self._lanes.values())
        rows = [self._row] + [row for lane in self._lanes.values() for row in lane.rows] + list(self._captures.rows())
        numbers = self.statistics.numbers() | {"capture_restarts": self._captures.restarts}
        if self._rewriter:
            rows += self._rewriter.rows
            numbers |= self._rewriter.numbers()
        return Snapshot(
            self._version,
            *self._health(),
            views,
            tuple(rows),
            self._models,
            numbers,
        )

    async def trigger(self, lane: str, options: Mapping[str, Any]) -> int:
        del options  # room to grow
        found = self._lanes[lane]
        if found.health != "ok" or found.child is None:
            raise DeviceError(f"lane {lane}", f"it has no sound now ({found.health})", "see `voicectl status`")
        token = next(self._tokens)
        waiting = found.triggered[token] = asyncio.get_running_loop().create_future()
        found.child.send({"command": "trigger", "token": token})
        try:
            return await asyncio.wait_for(waiting, TRIGGER_SECONDS)
        except TimeoutError:
            if found.child:
                found.child.send({"command": "withdraw"})
            raise InternalError(f"lane {lane}", f"it did not open a turn within {TRIGGER_SECONDS:.0f} s") from None
        finally:
            found.triggered.pop(token, None)

    async def stop(self, lane: str) -> None:
        self._command(lane, "stop")

    async def cancel(self, lane: str) -> None:
        self._command(lane, "cancel")

    def _command(self, lane: str, name: str) -> None:
        child = self._lanes[lane].child
        if child:
            child.send({"command": name})

    async def mute(self, lane: str | None, muted: bool) -> None:
        for found in [self._lanes[lane]] if lane is not None else list(self._lanes.values()):
            if found.muted == muted:
                continue
            found.muted = muted
            if muted:
                found.source_health = "starting"  # what it will be when it is heard again
                found.hearing.stop()
                # the lane first, so that it does not take what is muted for lost; but its sound ends whether it answers or not
                if found.child and found.child.send({"command": "hush"}):
                    self._later(HUSH_SECONDS, partial(self._silence, found))
                else:
                    self._silence(found)
            self._give_source(found)
            self._tell_lane(found)

    def _silence(self, lane: LaneState) -> None:
        if lane.muted:
            self._captures.detach(lane.settings)
