"""The main process's heart: starts, watches and begins again the capture, lane and second-pass processes.

What lives here: which process there must be, what becomes of a turn whose process died, the order of starting and ending, and who
gets settings that were read anew. What must not: D-Bus (bus/ stands before the desk), sound, NumPy, models.

A crash costs its process alone. A lane's death closes its open turn here, with the reason `restarted` and the text that was
known; a second pass's death fails the turn it was at, whose first-pass text becomes final; a capture's death is lost audio.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, cast

from . import wire
from .captures import Captures
from .children import Child, Timers, wait_ended
from .desk import LevelHeard, PlacementRow, Snapshot
from .errors import ModelError, VoicedError
from .events import CloseReason, Event, Rewritten, Wake
from .fairqueue import Request
from .frontdesk import FrontDesk
from .hearing import Hearing, Verdict
from .lanestate import OWN_SOURCES, Feed, LaneState
from .ledger import Ledger
from .liveness import Standing
from .plain import decode, encode
from .probe import probe
from .publisher import Publisher
from .receipts import Stamps
from .reloading import Reloader, spotted
from .rewriter import Rewriter
from .settings import Settings, has_second_pass, roles, to_plain
from .statistics import Statistics
from .turnids import LANE_SLOTS, TurnIds
from .warmup import WarmUp

log = logging.getLogger("voiced")

WATCH_SECONDS, STOOD_STILL_SECONDS = 0.5, 3.0
"""Between two looks at the processes. After a longer time we ourselves did not run: we were stopped, or the whole machine was."""

DEAF_SECONDS = 2.0
"""So long after a capture process should have said that its device stalls, it is itself what does not work, or the lane is."""

HUSH_SECONDS = 0.5
"""A muted lane that has not answered by then loses its sound all the same."""

CLOSE_SECONDS = 2.0
"""A lane that closes has to flush its transducer; a killed process needs milliseconds."""

ADOPT_SECONDS = 10.0
"""A lane takes new settings in a fraction of one, or when it has judged what it heard before: on a machine that is too slow, later."""

SECOND_PASS = "second-pass"


class Supervisor:
    """All of it runs in one event loop; `start` makes the processes, `close` ends them.

    desk  what the outside may see and ask
    row   where the main process itself runs
    ids   where turn ids begin
    read  reads the settings file anew, for a reload, in another thread; raises ConfigError
    feed  what a lane hears when its file is over
    """

    def __init__(
        self,
        settings: Settings,
        runtime_dir: Path,
        *,
        version: str,
        row: PlacementRow,
        read: Callable[[], Settings],
        ids: TurnIds,
        feed: Feed | None = None,
    ) -> None:
        self._version, self._row, self._ids, self._feed = version, row, ids, feed
        self._revision = 0
        patience_s = settings.capture.stall_ms / 1000 + DEAF_SECONDS
        self._lanes = {
            lane.name: LaneState(lane, Ledger(ids.first + slot, LANE_SLOTS), Hearing(patience_s))
            for slot, lane in enumerate(settings.lanes)
        }
        self._closing, self._watched = False, time.monotonic()
        self._started = asyncio.Event()
        self._all_ended = asyncio.Event()
        self._exit_code = 0
        self._timers = Timers()
        self._later = self._timers.later
        self.statistics = Statistics()
        self._publisher = Publisher(self._lanes, self.statistics, self.snapshot)
        self.desk = FrontDesk(self._lanes, self._publisher, self.snapshot, self.reload, self.mute)
        self._reloader = Reloader(settings, read, self._take, self._publisher.send)
        self._job: dict[str, Any] = {"settings": to_plain(settings), "runtime_dir": str(runtime_dir)}
        self._rewriter = Rewriter(
            self._job, settings.second_pass, self._answered, self._child_failed, self._later, self._publisher.turns.rewriting
        )
        self._warm_up = WarmUp([f"lane {name}" for name in self._lanes] + [SECOND_PASS] * has_second_pass(settings))
        self._captures = Captures(settings, self._sound, self._source_failed, self._later, self._silent)

    # ── life ───────────────────────────────────────────────────────────────────────────────────────────────────────────

    async def start(self) -> None:
        """Starts every process and waits until all are warm; only then does a lane get its sound.

        Raises the one VoicedError, or a ConfigError with all lines, where a process could not be made ready.
        """
        if has_second_pass(self.settings):
            self._rewriter.start(lambda: self._warm_up.ready(SECOND_PASS))
        for lane in self._lanes.values():
            self._start_lane(lane)
        self._watched = time.monotonic()
        self._watch()
        await self._warm_up.wait()
        for lane in self._lanes.values():
            self._give_source(lane)
        self._publisher.tell()
        self._started.set()

    async def ended(self) -> int:
        """Returns when every lane has a file for a source and each has come to its end: an exit code, 65 where one was refused."""
        await self._all_ended.wait()
        return self._exit_code

    async def close(self) -> None:
        """Ends every turn with what is known, then every process. Safe to call twice."""
        self._closing = True
        self._timers.close()
        lanes = [lane.child for lane in self._lanes.values() if lane.child]
        for child in lanes:
            if not (self._lane_of(child).ready and child.send({"command": "shutdown"})):
                child.kill()
        self._rewriter.close()
        await wait_ended(lanes, CLOSE_SECONDS)
        for child in lanes:
            child.kill()
        self._captures.close()  # after the lanes: a turn that ends because we do has not lost its sound
        await wait_ended([*lanes, *self._captures.children(), *self._rewriter.children()], CLOSE_SECONDS)
        for lane in self._lanes.values():
            self._close_turns(lane, CloseReason.SHUTDOWN, "shutting down")

    # ── lanes ──────────────────────────────────────────────────────────────────────────────────────────────────────────

    def _start_lane(self, lane: LaneState) -> None:
        lane.revision, lane.phrases = self._revision, self._phrases(lane)
        lane.child = Child("lane", lane.settings.name, self._job | lane.job(time.monotonic_ns()), self._lane_said, self._lane_exited)

    def _lane_of(self, child: Child) -> LaneState:
        return self._lanes[child.name]

    def _lane_said(self, child: Child, message: wire.Message) -> None:
        lane = self._lane_of(child)
        match message.body:
            case {"event": plain, "stamps": stamps}:
                self._publish(lane, cast(Event, decode(plain)), Stamps(**stamps))
            case {"beat": beat}:
                lane.beat(beat["position"], time.monotonic())
                lane.hearing.beat(lane.position_at, lane.position, beat.get("blocks", 0), beat["waiting"], beat["done"])
                late = self._captures.late[child.name]
                lane.overload.beat(lane.position_at, beat.get("blocks_dropped", 0) + beat["overrun"] + late)
                self._publisher.tell_lane(lane)
                self.statistics.beat(lane.settings.name, beat)
            case {"hears": True}:
                lane.hears(time.monotonic())
                lane.hearing.start(time.monotonic())
                self._publisher.tell_lane(lane)
            case {"level": level, "sample": sample}:
                self._publisher.send(
                    LevelHeard(lane.settings.name, sample, **level, monotonic_us=time.monotonic_ns() // 1000, turn=lane.turn)
                )
            case {"state": state}:
                lane.enters(state)
                self._publisher.tell_lane(lane)
            case {"rewrite": turn, "attempt": attempt, "sample": sample}:
                self._rewriter.ask(Request(child.name, turn, attempt, sample, message.fds[0]))
            case {"drop": turn, "attempt": attempt}:
                self._rewriter.drop(child.name, turn, attempt)
            case {"adopted": revision}:
                child.loading = ""
                if revision == lane.revision:
                    lane.taken()
            case {"unfit": line}:
                log.error("lane %s cannot take the new settings: %s", child.name, line)
                child.kill()  # its successor begins with them
            case {"ready": rows}:
                child.loading = ""
                lane.begun()
                if lane.revision != self._revision:
                    self._hand_over(lane)
                lane.rows = tuple(PlacementRow.from_plain(row) for row in rows)
                if self._warm_up.over:
                    self._give_source(lane)
                self._publisher.tell_lane(lane)
                self._warm_up.ready(f"lane {child.name}")
            case {"triggered": token, "turn": turn}:
                waiting = lane.triggered.pop(token, None)
                if waiting and not waiting.done():
                    waiting.set_result(turn)
            case {"hushed": True}:
                self._silence(lane)
            case {"away": line, "health": health}:
                log.warning("lane %s: %s", child.name, line)
                lane.source_health, lane.reason = health, line
                lane.hearing.stop()
                self._publisher.tell_lane(lane)
            case {"opened": form, "position": position} if self._feed:
                self._feed.opened(child.name, form, position)
            case {"ended": True}:
                self._source_ended(lane)
            case {"refused": line, "exit": code}:
                log.error("%s", line)
                self._exit_code, lane.reason = code, line
                self._source_ended(lane)
            case {"failed": line, "exit": code}:
                self._child_failed(child, line, code)
                lane.reason = line
            case {"chose": line} if line:
                log.info("lane %s: %s", child.name, line)
            case {"crashed": line}:
                log.error("lane %s: %s", child.name, line)

    def _lane_exited(self, child: Child) -> None:
        lane = self._lane_of(child)
        lane.lost(time.monotonic())
        lane.hearing.stop()
        lane.taken()
        if self._closing:
            return
        if not self._warm_up.over:
            self._child_failed(child, "", 0)
            return
        log.warning("lane %s %s; it is started again", child.name, child.describe_end())
        self.statistics.count("lane_restarts")
        self._rewriter.forget(child.name)
        self._close_turns(lane, CloseReason.RESTARTED, "the lane was restarted")
        lane.state = "asleep"
        self._publisher.tell_lane(lane)
        self._later(lane.backoff.delay(time.monotonic() - child.started), lambda: self._start_lane(lane))

    def _child_failed(self, child: Child, line: str, code: int) -> None:
        """A process could not be made ready (`line` says why), or ended. At the start that ends everything; later it is begun again."""
        error = VoicedError("", line, code=code)
        if not line:
            again = "it is started again" if self._warm_up.over else ""
            advice = "check the model: voicectl models verify" if child.loading else again
            error = ModelError(child.label, f"the process {child.describe_end()}", advice)
        if self._warm_up.over:
            log.error("%s", error)
        else:
            self._warm_up.failed(child.label, error)

    def _publish(self, lane: LaneState, event: Event, stamps: Stamps) -> None:
        if isinstance(event, Wake):
            self._ids.given(event.turn)
        log = self.settings.log
        self._publisher.publish(lane, event, stamps, text=log.text, receipts=log.receipts)

    def _close_turns(self, lane: LaneState, reason: CloseReason, note: str) -> None:
        """A dead lane's turns get their last events from here: nothing that was heard is lost, nothing stays open."""
        for event in lane.ledger.last_events(reason, note):
            self._publish(lane, event, Stamps())

    def _watch(self) -> None:
        """Kills a process that is stopped, and one that does not beat, hear or give anything for too long; its exit starts it again."""
        self._later(WATCH_SECONDS, self._watch)  # first: whatever fails below, the next look comes
        children = [*(lane.child for lane in self._lanes.values() if lane.child), *self._captures.children(), *self._rewriter.children()]
        for child in children:
            child.catch_up()
        now = time.monotonic()
        still, self._watched = now - self._watched, now
        standings = [child.look() for child in children]
        if still > STOOD_STILL_SECONDS:
            log.warning("voiced, or the machine, stood still for %.0f s", still)
        if still > STOOD_STILL_SECONDS or Standing.HELD in standings:  # who debugs one of them has all the time there is
            for forgive in (self._rewriter.forgive, *(one.forgive for one in children), *(one.forgive for one in self._lanes.values())):
                forgive(now)
        for child in children:
            child.kill_if_stopped()
        self._captures.watch(now)
        self._rewriter.watch(now)
        for lane in self._lanes.values():
            if stuck := lane.stuck(now):
                assert lane.child
                log.error("lane %s: %s", lane.settings.name, stuck)
                lane.child.kill()
            elif lane.ready and lane.hearing.judge() is Verdict.NO_SOUND and self._captures.kill(lane.settings.source):
                log.error("lane %s: %s from %s", lane.settings.name, Verdict.NO_SOUND.value, lane.settings.source)

    def deaf(self, now: float) -> list[str]:
        """Which lanes should hear and do not, and why; `now` in seconds of CLOCK_MONOTONIC."""
        found = {lane.settings.name: lane.deaf(now) for lane in self._lanes.values()}
        return [f"lane {name}: {why}" for name, why in found.items() if why]

    # ── sound ──────────────────────────────────────────────────────────────────────────────────────────────────────────

    def _give_source(self, lane: LaneState) -> None:
        if lane.child is None or not lane.ready or lane.muted:
            return
        source = lane.settings.source
        if source.startswith(OWN_SOURCES):
            lane.child.send({"source": "own", "what": source})
            lane.ended = False
        else:
            self._captures.attach(lane.settings)
        self._publisher.tell_lane(lane)

    def _source_ended(self, lane: LaneState) -> None:
        """A lane's file is over, or is none."""
        lane.hearing.stop()
        if self._feed and (following := self._feed.next(lane.settings.name)):
            lane.settings = replace(lane.settings, source=following)
            self._give_source(lane)
            return
        lane.ended, lane.source_health = True, "no_device"
        self._publisher.tell_lane(lane)
        if all(other.ended for other in self._lanes.values()):
            self._all_ended.set()

    def _sound(self, name: str, fd: int) -> None:
        """A capture process has a socket for this lane: its other end goes to the lane."""
        lane = self._lanes[name]
        if lane.child and lane.ready and not lane.muted:
            lane.child.send({"source": "capture"}, (fd,))
            lane.hearing.start(time.monotonic())
        os.close(fd)
        self._publisher.tell_lane(lane)

    def _source_failed(self, name: str, health: str, reason: str) -> None:
        lane = self._lanes[name]
        if lane.child and lane.ready:
            lane.child.send({"command": "lost"})
        lane.source_health, lane.reason = health, reason
        lane.hearing.stop()
        self._publisher.tell_lane(lane)

    def _silent(self, name: str, line: str) -> None:
        """A lane's device gives digital silence, or ("") does no more."""
        self._lanes[name].silence = line
        self._publisher.tell_lane(self._lanes[name])

    # ── second pass ────────────────────────────────────────────────────────────────────────────────────────────────────

    def _answered(self, name: str, answer: Rewritten) -> None:
        lane = self._lanes[name]
        if lane.child:
            lane.child.send({"rewritten": encode(answer)})

    # ── settings ───────────────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def settings(self) -> Settings:
        """In force: live knobs as they were read last, the others as at the start."""
        return self._reloader.settings

    def _phrases(self, lane: LaneState) -> tuple[str, ...]:
        return () if lane.settings.listen == "always" else tuple(phrase.name for phrase in self.settings.wake.phrases)

    async def _take(self, before: Settings, after: Settings) -> None:
        """What may fail comes first, in a process of its own; from then on everything takes them, and who cannot is begun again."""
        job = self._job | {"settings": to_plain(after)}
        begins = has_second_pass(after) and not has_second_pass(before)
        await probe(job, ["ears"] * (spotted(before) != spotted(after)) + [SECOND_PASS] * begins)
        self._job, self._revision = job, self._revision + 1
        self._reloader.settings = after
        self._publisher.turns.keep(after.log.receipts)
        self._rewriter.adopt(job, after.second_pass)
        if begins:
            self._rewriter.start()
        taking = [self._hand_over(lane) for lane in self._lanes.values() if lane.ready]
        if taking:
            await asyncio.wait(taking, timeout=ADOPT_SECONDS)
        for lane in self._lanes.values():
            if lane.adopting:
                log.warning("lane %s takes the new settings later: it is behind with what it heard", lane.settings.name)
        if not has_second_pass(after):
            self._rewriter.retire()

    def _hand_over(self, lane: LaneState) -> asyncio.Future[None]:
        """Gives a lane the settings in force; done when it has taken them, or its process has ended."""
        taking = lane.adopt(self._job["settings"], self._revision, self._phrases(lane))
        self._publisher.tell_lane(lane)
        return taking

    # ── for the desk ───────────────────────────────────────────────────────────────────────────────────────────────────

    def snapshot(self) -> Snapshot:
        lanes = self._lanes.values()
        return Snapshot(
            self._version,
            *self._publisher.health(),
            tuple(lane.view() for lane in lanes),
            (self._row, *(row for lane in lanes for row in lane.rows), *self._captures.rows(), *self._rewriter.rows),
            roles(self.settings),
            {**self.statistics.numbers(), **self._captures.numbers(), **self._rewriter.numbers()},
            self._reloader.last,
        )

    async def reload(self) -> tuple[str, ...]:
        await self._started.wait()
        return await self._reloader.ask()

    def mute(self, lane: str | None, muted: bool) -> None:
        for found in [self._lanes[lane]] if lane is not None else list(self._lanes.values()):
            if found.muted == muted:
                continue
            found.muted, found.lost_at = muted, time.monotonic()
            if muted:
                found.source_health = "starting"  # what it will be when it is heard again
                found.hearing.stop()
                # the lane first, so that it does not take what is muted for lost; but its sound ends whether it answers or not
                if found.child and found.child.send({"command": "hush"}):
                    self._later(HUSH_SECONDS, partial(self._silence, found))
                else:
                    self._silence(found)
            self._give_source(found)
            self._publisher.tell_lane(found)

    def _silence(self, lane: LaneState) -> None:
        if lane.muted:
            self._captures.detach(lane.settings)
