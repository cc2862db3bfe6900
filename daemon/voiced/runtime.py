"""Inside a lane process: its two threads, their cores, the queue between them, and the line to the main process.

What lives here: threads and clocks around a pipeline that knows neither. *Ears* read the source and never wait for anybody;
the *scribe* (transducer) takes what they heard in order; the main thread answers the main process and beats. What must not:
a decision about a turn. A deadline or a dead source comes into the pipeline as a fact.

A child of ours ends when its link closes: nothing survives the main process.
"""

from __future__ import annotations

import os
import queue
import socket
import threading
import time
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from . import assembly, placement, wire
from .audio import Samples
from .deadlines import Deadlines
from .desk import PlacementRow
from .ears import Ears, Gap, Heard, Spotting, counts
from .errors import DeviceError, InputError, InternalError, VoicedError
from .eventbox import EventBox
from .events import (
    AudioLost,
    Cancel,
    DropRewrite,
    Endpoint,
    Event,
    Rewrite,
    Rewritten,
    Shutdown,
    Stop,
    Trigger,
    TurnClosed,
)
from .journal import trace
from .lateness import Lateness
from .loudness import Loudness
from .models import default_library
from .pipeline import Rules, Scribe
from .plain import decode
from .processes import fail, receive_job
from .receipts import Stamps
from .settings import Settings, from_plain
from .sources.microphone import Microphone
from .sources.paced import PacedFile
from .sources.pcm import PcmSocket

BEAT_SECONDS = 0.5
"""The main process counts a lane as hung after some of these without a sign of life."""

HEARD_LIMIT = 512
"""Facts that may wait for the scribe. One comes every 32 ms in a turn, so this is 16 s; the ring holds a turn (30 s) and more."""

LOOK_UP_SECONDS = 0.25
"""How long the ears wait for sound before they look for what else there is to do: a reload is taken in silence, too."""


@dataclass(frozen=True, slots=True)
class Adoption:
    """Settings that were read anew, and what became of them: built beside the threads that hear, for them to take."""

    settings: Settings
    revision: int
    spotting: Spotting
    rules: Rules


class Lane:
    """One lane: `run` returns the process's exit code."""

    def __init__(self, link: wire.Link, job: dict[str, Any]) -> None:
        self._link = link
        self._outbox = EventBox(link)
        self._settings: Settings = from_plain(job["settings"])
        self._lane = next(lane for lane in self._settings.lanes if lane.name == job["lane"])
        self._job = job
        self._library = default_library(self._settings.models.path)
        self._runtime_dir = Path(job["runtime_dir"])
        self._ring = assembly.new_ring()
        self._heard: queue.Queue[Heard | Adoption | Rewritten | Shutdown | AudioLost | Cancel] = queue.Queue(HEARD_LIMIT)
        self._overrun = 0  # facts that were dropped because the scribe was too slow
        self._done = 0  # facts that the scribe has taken
        self._ears_late, self._scribe_late = Lateness(), Lateness()  # since the sound came: stepped over, and done with
        self._scribe_waits = Lateness()  # since the sound came, until the scribe began with it
        self._lost = 0  # samples, as the scribe has heard of it
        self._behind = False  # it has not been told yet
        self._position = job["position"]
        self._wanted: queue.SimpleQueue[Microphone | str | Adoption | None] = queue.SimpleQueue()  # what to hear, and how
        self._microphone: Microphone | None = None
        self._failure: VoicedError | None = None
        self._rows: list[PlacementRow] = []
        self._ears: Ears
        self._scribe: Scribe
        self._deadlines = Deadlines()
        self._deadline_s = self._settings.second_pass.deadline_ms / 1000
        self._state = "asleep"  # the one that main was told
        self._loudness, self._levels = Loudness(), False  # told where somebody wants to know
        self._choice = ""  # of a channel, as main was told

    def run(self) -> int:
        # one after the other: a library that ends the process must be the one that was named last
        if not (self._start("ears", self._hear, self._build_ears) and self._start("transducer", self._write, self._build_scribe)):
            assert self._failure
            return fail(self._link, self._failure)
        self._link.send({"ready": [asdict(row) for row in self._rows]})
        while True:
            try:
                message = self._link.receive(BEAT_SECONDS)
            except EOFError:
                return 0
            if message is None:
                self._beat()
            elif not self._obey(message):
                return 0

    def _start(self, role: str, work: Callable[[], None], build: Callable[[], None]) -> bool:
        """Starts a thread that pins itself, builds its stages and then works; waits until they are built."""
        built = threading.Event()

        def body() -> None:
            try:
                cores = getattr(self._settings.placement, role)
                nice = getattr(self._settings.placement, f"nice_{role}")
                self._rows.append(placement.pin(role, cores, nice=nice, process=f"lane {self._lane.name}"))
                build()
            except VoicedError as error:
                self._failure = error
            except Exception as error:
                trace()
                self._failure = InternalError(f"lane {self._lane.name}", f"its {role} cannot be built: {type(error).__name__}: {error}")
            finally:
                built.set()
            if self._failure:
                return
            try:
                work()
            except BaseException as error:
                # a lane that is half dead is worse than one that is restarted
                trace()
                self._link.send({"crashed": f"{role}: {type(error).__name__}: {error}"})
                os._exit(InternalError.exit_code)

        threading.Thread(target=body, name=role, daemon=True).start()
        built.wait()
        return self._failure is None

    # ── ears ───────────────────────────────────────────────────────────────────────────────────────────────────────────

    def _build_ears(self) -> None:
        self._ears = assembly.ears(self._settings, self._library, self._ring, self._runtime_dir, self._say, lane=self._lane.name)

    def _hear(self) -> None:
        source: Microphone | PacedFile | PcmSocket | None = None
        told = False  # main was told that this source gives sound
        while True:
            if source is None or not self._wanted.empty():
                wanted = self._wanted.get()
                if isinstance(wanted, Adoption):
                    # the rules go the way of the facts: what was heard by the old phrases is judged by the old rules
                    self._ears.adopt(wanted.spotting)
                    self._heard.put(wanted)
                    continue
                if source and not isinstance(source, Microphone):
                    source.close()
                source, told = self._open(wanted), False
                continue
            try:
                frame = source.read(LOOK_UP_SECONDS)
            except EOFError:
                # a file is over, or a capture process has gone: the microphone goes on when it gets the next one's socket
                self._heard.put(AudioLost(self._position))
                if isinstance(source, PacedFile):
                    self._link.send({"ended": True})
                    source = None
                continue
            except InputError as error:
                self._refuse(error)
                source = None
                continue
            except DeviceError as error:
                if not isinstance(source, PcmSocket):
                    raise
                told = False
                self._heard.put(AudioLost(self._position))
                self._link.send({"away": str(error), "health": source.health})
                continue
            if frame is None:
                continue
            for heard in self._ears.hear(frame):
                self._hand_over(heard)
            self._position = frame.end
            self._ears_late.add((time.monotonic_ns() - frame.arrived_ns) / 1e6)
            if self._levels and (level := self._loudness.step(frame.samples)):
                self._link.send({"level": asdict(level), "sample": frame.end})  # one that does not fit is no loss
            told = told or self._link.send({"hears": True})

    def _open(self, wanted: Microphone | str | None) -> Microphone | PacedFile | PcmSocket | None:
        if not isinstance(wanted, str):
            return wanted
        kind, _, path = wanted.partition(":")
        if kind in ("tcp", "unix"):
            return PcmSocket(wanted, self._position, self._settings.capture)
        try:
            opened = PacedFile(Path(path), self._position, self._settings.capture.block_ms, self._idle, again=kind == "loop")
        except InputError as error:
            self._refuse(error)
            return None
        self._link.send({"opened": opened.form, "position": self._position})
        return opened

    def _refuse(self, error: InputError) -> None:
        self._link.send({"refused": str(error), "exit": error.exit_code})

    def _hand_over(self, heard: Heard) -> None:
        try:
            if self._behind:
                self._heard.put_nowait(AudioLost(heard.sample))
                self._behind = False
            self._heard.put_nowait(heard)
        except queue.Full:
            # the scribe is a minute behind: what is open cannot be saved, and the ears must not wait
            self._behind = True
            self._overrun += 1

    # ── scribe ─────────────────────────────────────────────────────────────────────────────────────────────────────────

    def _build_scribe(self) -> None:
        self._scribe = assembly.scribe(
            self._settings,
            self._library,
            self._ring,
            self._runtime_dir,
            self._say,
            self._rewrite,
            self._ears.rest,
            drop=self._drop,
            lane=self._lane.name,
            first_turn=self._job["first_turn"],
            turn_step=self._job["turn_step"],
        )

    def _write(self) -> None:
        while True:
            try:
                item = self._heard.get(timeout=self._deadlines.patience(time.monotonic()))
            except queue.Empty:
                self._expire()
                continue
            arrived_ns = taken_ns = time.monotonic_ns()
            events: list[Event] = []
            if isinstance(item, Heard):
                arrived_ns = item.arrived_ns
                self._lost += sum(fact.lost for fact in item.facts if isinstance(fact, Gap))
                events = self._scribe.take(item)
            elif isinstance(item, Adoption):
                self._scribe.adopt(item.rules)
                self._settings, self._deadline_s = item.settings, item.settings.second_pass.deadline_ms / 1000
                self._link.send({"adopted": item.revision})
            else:
                events = self._scribe.answer(item)
            self._publish(events, arrived_ns, taken_ns)
            if isinstance(item, Heard):
                self._scribe_waits.add((taken_ns - arrived_ns) / 1e6)
                self._scribe_late.add((time.monotonic_ns() - arrived_ns) / 1e6)
            while self._scribe.triggered:
                token, turn = self._scribe.triggered.popleft()
                self._link.send({"triggered": token, "turn": turn})
            self._done += 1
            self._heard.task_done()
            self._expire()
            if isinstance(item, Shutdown):
                self._outbox.flush()
                os._exit(0)

    def _publish(self, events: list[Event], arrived_ns: int, taken_ns: int) -> None:
        stamps = Stamps(arrived_ns, taken_ns, time.monotonic_ns(), lost_samples=self._lost)
        for event in events:
            if isinstance(event, Endpoint):
                self._deadlines.end(event.turn, time.monotonic() + self._deadline_s)
            elif isinstance(event, TurnClosed):
                self._deadlines.close(event.turn)
            self._outbox.put(event, stamps)
        state = self._scribe.machine.state.value
        if state != self._state and self._link.send({"state": state}):
            self._state = state

    def _rewrite(self, order: Rewrite, sound: Samples) -> Rewritten | None:
        sent = False
        self._deadlines.ask(order)
        with suppress(OSError):  # no memory for it, or no descriptor: no reason to lose the turn
            fd = wire.share(sound.tobytes())
            try:
                sent = self._link.send({"rewrite": order.turn, "attempt": order.attempt, "sample": order.sample}, (fd,))
            finally:
                os.close(fd)
        if not sent:
            self._deadlines.answer(order.turn, order.attempt)
            return Rewritten(order.sample, order.turn, order.attempt, "", "the second pass cannot be reached")
        return None

    def _drop(self, order: DropRewrite) -> None:
        self._link.send({"drop": order.turn, "attempt": order.attempt})

    def _expire(self) -> None:
        while order := self._deadlines.late(time.monotonic()):
            late = Rewritten(order.sample, order.turn, order.attempt, "", "the second pass was late")
            now_ns = time.monotonic_ns()
            self._publish(self._scribe.answer(late), now_ns, now_ns)

    # ── the line to the main process ───────────────────────────────────────────────────────────────────────────────────

    def _say(self, what: str) -> None:
        self._link.send({"loading": what})

    def _adopt(self, settings: Settings, revision: int) -> None:
        """Builds what the settings want, in a thread of its own: the ears go on meanwhile, and so does the line to the main process."""
        try:
            lane, before = self._lane.name, self._ears.spotting
            spotting = assembly.spotting(settings, self._library, self._runtime_dir, self._say, before, lane=lane)
            rules = assembly.rules(settings, self._library, self._say, self._scribe.rules, lane=lane)
        except VoicedError as error:
            self._link.send({"unfit": str(error)})
        except Exception as error:
            trace()
            self._link.send({"unfit": f"{type(error).__name__}: {error}"})
        else:
            self._wanted.put(Adoption(settings, revision, spotting, rules))

    def _beat(self) -> None:
        self._outbox.flush()
        beat: dict[str, float] = {
            "position": self._position,
            "waiting": self._heard.qsize(),
            "done": self._done,
            "overrun": self._overrun,
            "events_lost": self._outbox.lost,
            **self._ears.statistics(),
            **self._scribe.statistics(),
            **counts({"ears_late": self._ears_late, "scribe_waits": self._scribe_waits, "scribe_late": self._scribe_late}),
        }
        if self._microphone:
            statistics = self._microphone.statistics()
            beat |= {"blocks": statistics.blocks, "blocks_dropped": statistics.dropped, "samples_lost": statistics.lost}
            beat["level_dbfs"] = round(statistics.level_dbfs, 1)
            if statistics.channel != "mix":
                beat["channel"] = int(statistics.channel)
            if statistics.choice != self._choice and self._link.send({"chose": statistics.choice}):
                self._choice = statistics.choice
        self._link.send({"beat": beat})

    def _obey(self, message: wire.Message) -> bool:
        """False when the lane shall end at once."""
        match message.body:
            case {"source": "own", "what": source}:
                self._wanted.put(source)
            case {"source": "capture"}:
                self._hear_capture(socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET, fileno=message.fds[0]))
            case {"settings": plain, "revision": revision}:
                threading.Thread(target=self._adopt, args=(from_plain(plain), revision), name="adopt", daemon=True).start()
            case {"command": "shutdown"}:
                self._heard.put(Shutdown(self._position))
            case {"command": "hush"}:
                self._ears.withdraw()
                self._heard.put(Cancel(self._position))
                if self._microphone:
                    self._microphone.close()
                self._wanted.put(None)
                self._link.send({"hushed": True})
            case {"command": "lost"}:
                self._ears.withdraw()
                self._heard.put(AudioLost(self._position))
            case {"command": "trigger", "token": token}:
                self._ears.command(Trigger(0, token))
            case {"command": "stop"}:
                self._ears.command(Stop(0))
            case {"command": "cancel", "turn": turn}:
                self._ears.command(Cancel(0, turn))
            case {"command": "follow up", "token": token}:
                if self._ears.echoing:  # it opens later, and its wake tells its id
                    self._link.send({"triggered": token, "turn": 0})
                    token = 0
                self._ears.command(Trigger(0, token, follow_up=True))
            case {"playback": active}:
                self._ears.playback(active=active)
            case {"levels": wanted}:
                self._levels = wanted
            case {"command": "withdraw"}:
                self._ears.withdraw()
            case {"rewritten": plain}:
                answer = decode(plain)
                assert isinstance(answer, Rewritten)
                self._deadlines.answer(answer.turn, answer.attempt)
                self._heard.put(answer)
        return True

    def _hear_capture(self, sock: socket.socket) -> None:
        if self._microphone:
            self._microphone.replace(sock)
        else:
            job = self._job
            self._microphone = Microphone(sock, channel=self._lane.channel, first=job["position"], first_ns=job["position_ns"])
        self._wanted.put(self._microphone)

    def _idle(self) -> bool:
        """Nothing is open or pending: a file that has come to its end may stop."""
        return self._scribe.idle and not self._heard.unfinished_tasks


def lane_main(fd: int) -> int:
    with closing(wire.Link.from_fd(fd)) as link:
        try:
            return Lane(link, receive_job(link)).run()
        except VoicedError as error:
            return fail(link, error)
