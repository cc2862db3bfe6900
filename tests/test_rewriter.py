"""The queue of the second pass around a process that is scripted here: who is answered, what was computed for nothing."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from voiced import rewriter, wire
from voiced.events import Rewritten
from voiced.fairqueue import FairQueue, Request
from voiced.liveness import Standing
from voiced.plain import encode
from voiced.rewriter import BUSY_SECONDS, HUNG_SECONDS, Rewriter
from voiced.settings import SecondPassSettings


class Process:
    """What a Child is to the rewriter; `given` is what it was asked."""

    def __init__(self, role: str, name: str, job: Any, said: Callable[[Any, wire.Message], None], exited: Callable[[Any], None]) -> None:
        self.given: list[dict[str, Any]] = []
        self.started = self.heard = 0.0
        self.loading = ""
        self.standing = Standing.ASLEEP
        self._said, self._exited = said, exited

    def send(self, body: dict[str, Any], fds: tuple[int, ...] = ()) -> bool:
        self.given.append(body)
        return True

    def kill(self) -> None:
        self._exited(self)

    def say(self, body: dict[str, Any]) -> None:
        self._said(self, wire.Message(body, ()))


def hung() -> float:
    """Of a request that was given now: when a process that sleeps counts as hung, in seconds of CLOCK_MONOTONIC."""
    return time.monotonic() + SecondPassSettings().deadline_ms / 1000 + HUNG_SECONDS + 1


class World:
    """A rewriter, the process that it started last, and the answers that lanes got."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, queue: int = 4) -> None:
        self.processes: list[Process] = []
        monkeypatch.setattr(rewriter, "Child", self._child)
        self.answers: list[tuple[str, Rewritten]] = []
        self.later: list[Callable[[], None]] = []
        self.sounds: list[tuple[int, int]] = []  # descriptor and inode: whoever opens anything is given a closed one's number
        settings = SecondPassSettings(queue=queue)
        self.rewriter = Rewriter(
            {}, settings, lambda lane, answer: self.answers.append((lane, answer)), lambda *_: None, lambda _, call: self.later.append(call)
        )
        self.rewriter.start()
        self.process.say({"ready": [], "width": 1})

    def _child(self, *arguments: Any) -> Process:
        self.processes.append(Process(*arguments))
        return self.processes[-1]

    @property
    def process(self) -> Process:
        return self.processes[-1]

    def ask(self, lane: str, turn: int, attempt: int = 1) -> None:
        fd = os.memfd_create("turn")
        self.sounds.append((fd, os.fstat(fd).st_ino))
        self.rewriter.ask(Request(lane, turn, attempt, 100 * turn, fd))

    def answer(self, text: str = "yes", compute_ms: float = 50.0) -> None:
        """The process answers what it has."""
        asked = self.process.given[-1]
        answer = Rewritten(asked["sample"], asked["turn"], asked["attempt"], text, compute_ms=compute_ms)
        self.process.say({"rewritten": encode(answer), "lane": asked["lane"]})

    def given(self) -> list[tuple[str, int, int]]:
        return [(body["lane"], body["turn"], body["attempt"]) for body in self.process.given]

    def told(self) -> list[tuple[str, int, int, str, str]]:
        return [(lane, one.turn, one.attempt, one.text, one.failure) for lane, one in self.answers]

    def count(self, name: str) -> float:
        return self.rewriter.numbers()[f"second_pass_{name}"]

    def open_fds(self) -> int:
        return sum(_is_open(*sound) for sound in self.sounds)


def _is_open(fd: int, inode: int) -> bool:
    try:
        return os.fstat(fd).st_ino == inode
    except OSError:
        return False


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    made = World(monkeypatch)
    yield made
    made.rewriter.close()
    assert made.open_fds() == 0, "a turn's sound is held for ever"


def test_one_runs_and_one_waits_a_lane_and_lanes_take_turns(world: World) -> None:
    for lane, turn in (("a", 1), ("a", 2), ("b", 9)):
        world.ask(lane, turn)
    assert world.given() == [("a", 1, 1)]
    for _ in range(3):
        world.answer()
    assert world.given() == [("a", 1, 1), ("b", 9, 1), ("a", 2, 1)]
    assert [one[:2] for one in world.told()] == [("a", 1), ("b", 9), ("a", 2)]
    assert (world.count("started"), world.count("done"), world.count("wasted")) == (3, 3, 0)


def test_a_newer_turn_takes_the_waiting_ones_place_and_the_older_is_told(world: World) -> None:
    world.ask("a", 1)
    world.ask("a", 2)
    world.ask("a", 3)
    assert world.told() == [("a", 2, 1, "", "a newer turn took its place in the queue")]
    assert (world.count("superseded"), world.count("waiting"), world.open_fds()) == (1, 1, 2)


def test_what_waits_and_is_taken_back_is_never_computed(world: World) -> None:
    world.ask("b", 1)
    world.ask("a", 1, attempt=1)
    world.rewriter.drop("a", 1, 1)
    world.ask("a", 1, attempt=2)
    world.answer()
    world.answer("all of it")
    assert world.given() == [("b", 1, 1), ("a", 1, 2)]
    assert world.told()[-1] == ("a", 1, 2, "all of it", "")
    assert (world.count("dropped"), world.count("wasted"), world.count("wasted_s")) == (1, 0, 0)


def test_what_runs_and_is_taken_back_is_heard_by_nobody_and_counted(world: World) -> None:
    world.ask("a", 1, attempt=1)
    world.rewriter.drop("a", 1, 1)
    world.ask("a", 1, attempt=2)
    world.answer("half", compute_ms=80.0)
    world.answer("whole", compute_ms=90.0)
    assert world.told() == [("a", 1, 2, "whole", "")]
    assert (world.count("started"), world.count("done"), world.count("wasted"), world.count("wasted_s")) == (2, 2, 1, 0.08)


def test_what_was_answered_and_is_taken_back_was_computed_for_nothing(world: World) -> None:
    world.ask("a", 1)
    world.answer(compute_ms=120.0)
    world.rewriter.drop("a", 1, 1)
    world.rewriter.drop("a", 1, 1)  # again, and of another: nothing
    world.rewriter.drop("b", 7, 1)
    assert (world.count("wasted"), world.count("wasted_s")) == (1, 0.12)


def test_a_full_queue_refuses_another_lane_but_not_a_newer_attempt(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch, queue=2)
    for lane in "abcd":
        world.ask(lane, 1)
    assert world.told() == [("d", 1, 1, "", "the second pass has too much to do")]
    world.ask("b", 1, attempt=2)
    assert world.told()[-1] == ("b", 1, 1, "", "a newer turn took its place in the queue")
    assert (world.count("refused"), world.count("superseded"), world.count("waiting")) == (1, 1, 2)
    world.rewriter.close()
    assert world.open_fds() == 0


def test_a_death_costs_the_running_request_alone(world: World) -> None:
    world.ask("a", 1)
    world.ask("b", 2)
    world.process.kill()
    assert world.told() == [("a", 1, 1, "", "the second pass died")]
    world.later[-1]()  # its successor
    world.process.say({"ready": [], "width": 1})
    world.answer("heard")
    assert world.told()[-1] == ("b", 2, 1, "heard", "")
    assert world.count("restarts") == 1


def test_a_process_that_hangs_is_ended_and_the_next_is_asked(world: World) -> None:
    world.ask("a", 1)
    world.ask("b", 2)
    world.rewriter.watch(hung())
    assert world.told() == [("a", 1, 1, "", "the second pass died")]
    world.later[-1]()
    world.process.say({"ready": [], "width": 1})
    assert world.given() == [("b", 2, 1)]


def test_a_process_that_is_at_work_or_waits_for_a_core_is_waited_for_and_not_for_ever(world: World) -> None:
    """A long turn on a slow board, or beside others that want every core: a new process would begin by loading the model."""
    world.ask("a", 1)
    world.process.standing = Standing.AWAKE
    world.rewriter.watch(hung())
    world.rewriter.watch(hung() + BUSY_SECONDS - HUNG_SECONDS - 2)
    assert not world.told()
    world.answer("yes")
    assert world.told() == [("a", 1, 1, "yes", "")]
    world.ask("a", 2)
    world.rewriter.watch(hung() + BUSY_SECONDS - HUNG_SECONDS)
    assert world.told()[1:] == [("a", 2, 1, "", "the second pass died")]


def test_a_lane_that_is_gone_gets_no_answer(world: World) -> None:
    world.ask("a", 1)
    world.ask("a", 2)
    world.ask("b", 3)
    world.rewriter.forget("a")
    world.answer()
    world.answer()
    assert [one[:2] for one in world.told()] == [("b", 3)]
    assert world.count("wasted") == 1


def test_a_server_is_asked_as_many_at_once_as_it_has_slots_and_answers_as_it_likes(world: World) -> None:
    world.process.say({"ready": [], "width": 2})
    for lane, turn in (("a", 1), ("b", 2), ("c", 3)):
        world.ask(lane, turn)
    assert world.given() == [("a", 1, 1), ("b", 2, 1)]
    world.process.say({"rewritten": encode(Rewritten(200, 2, 1, "second")), "lane": "b"})
    assert world.told() == [("b", 2, 1, "second", "")]
    assert world.given()[-1] == ("c", 3, 1)
    world.rewriter.drop("a", 1, 1)
    world.process.say({"rewritten": encode(Rewritten(100, 1, 1, "first", compute_ms=30.0)), "lane": "a"})
    assert [one[:2] for one in world.told()] == [("b", 2)]  # nobody waited for it
    world.ask("a", 4)
    world.process.kill()
    assert sorted(one[0] for one in world.told() if one[4] == "the second pass died") == ["a", "c"]


@given(st.lists(st.sampled_from("abcdefgh"), min_size=20, max_size=200), st.integers(2, 8))
def test_no_lane_waits_twice_as_long_as_another(asks: list[str], lanes: int) -> None:
    """Of lanes that always have something to ask, whoever asks more: of so many answers as there are lanes each has one."""
    names = "abcdefgh"[:lanes]
    queue = FairQueue()
    served: list[str] = []
    for number, lane in enumerate(asks):
        for name in names:  # each always waits
            if not queue.has(name):
                queue.put(Request(name, number, 1, 0, -1))
        if lane in names:
            queue.put(Request(lane, number, 2, 0, -1))  # and one of them asks anew
        taken = queue.take()
        assert taken
        served.append(taken.lane)
    for at in range(len(served) - lanes + 1):
        assert len(set(served[at : at + lanes])) == lanes


class AnyRequests(RuleBasedStateMachine):
    """Lanes ask and take back, and the process answers, dies and hangs, in any order: whoever still waits is answered once."""

    def __init__(self) -> None:
        super().__init__()
        self.patch = pytest.MonkeyPatch()
        self.world = World(self.patch, queue=2)
        self.turns = dict.fromkeys("abc", 0)
        self.last: dict[str, tuple[str, int, int]] = {}  # of each lane, what it asked last
        self.asked: list[tuple[str, int, int]] = []
        self.unwanted: set[tuple[str, int, int]] = set()
        self.stale: set[tuple[str, int, int]] = set()  # unwanted since they ran
        self.answered: list[tuple[str, int, int]] = []  # by a process
        self.wasted = 0
        self.given = 0  # of processes that are gone

    def running(self) -> list[tuple[str, int, int]]:
        return [key for key in self.world.given() if key not in self.answered]

    @initialize(width=st.integers(1, 3))
    def ready(self, width: int) -> None:
        self.width = width
        self.world.process.say({"ready": [], "width": width})

    @rule(lane=st.sampled_from("abc"), again=st.booleans(), taken_back=st.booleans())
    def ask(self, lane: str, again: bool, taken_back: bool) -> None:
        """For a new turn, or once more for the last one, whose attempt before is taken back as a rule."""
        attempt = 1
        if again and lane in self.last:
            if taken_back:
                self.drop(lane)
            attempt = self.last[lane][2] + 1
        else:
            self.turns[lane] += 1
        self.last[lane] = lane, self.turns[lane], attempt
        self.asked.append(self.last[lane])
        self.world.ask(*self.last[lane])

    @rule(lane=st.sampled_from("abc"))
    def drop(self, lane: str) -> None:
        """What it asked last; once more it is nobody's."""
        if lane in self.last:
            key = self.last[lane]
            self.stale |= {key} & set(self.running())
            self.wasted += key not in self.unwanted and key in self.answered
            self.unwanted.add(key)
            self.world.rewriter.drop(*key)

    @rule(lane=st.sampled_from("abc"))
    def forget(self, lane: str) -> None:
        self.last.pop(lane, None)  # its successor begins with a new turn
        self.unwanted |= {key for key in self.asked if key[0] == lane}
        self.stale |= {key for key in self.running() if key[0] == lane}
        self.world.rewriter.forget(lane)

    @precondition(lambda self: self.running())
    @rule(which=st.integers(0, 9))
    def answer(self, which: int) -> None:
        running = self.running()
        key = lane, turn, attempt = running[which % len(running)]
        self.answered.append(key)
        self.wasted += key in self.stale
        for _ in range(2):  # said twice it counts once
            answer = Rewritten(100 * turn, turn, attempt, f"{lane} {turn} {attempt}", compute_ms=1000.0)
            self.world.process.say({"rewritten": encode(answer), "lane": lane})
        assert [one[:3] for one in self.world.told()].count(key) == (key not in self.stale)

    @rule(hangs=st.booleans())
    def end(self, hangs: bool) -> None:
        had, process = bool(self.running()), self.world.process
        if hangs:
            self.world.rewriter.watch(hung())
        else:
            process.kill()
        if had or not hangs:
            self.given += len(process.given)
            self.world.later[-1]()
            assert self.world.process is not process
            self.ready(self.width)

    @invariant()
    def no_answer_is_made_up(self) -> None:
        told = [one[:3] for one in self.world.told()]
        assert len(told) == len(set(told))
        assert all(
            text == "" if failure else text == f"{lane} {turn} {attempt}" for lane, turn, attempt, text, failure in self.world.told()
        )
        assert set(told) <= set(self.asked)

    @precondition(lambda self: hasattr(self, "width"))
    @invariant()
    def bounds_hold_and_counts_add_up(self) -> None:
        count, running = self.world.count, self.running()
        assert len(running) <= self.width
        assert count("waiting") <= 2
        busy = [key[0] for key in running]
        assert len(busy) == len(set(busy)), "one runs and one waits a lane"
        assert not count("waiting") or len(running) == self.width or {key[0] for key in self.waiting()} <= set(busy)
        assert len(self.waiting()) == count("waiting")
        assert self.world.open_fds() == len(running) + count("waiting")
        assert count("started") == self.given + len(self.world.process.given)
        assert count("done") == len(self.answered)
        assert count("wasted") == count("wasted_s") == self.wasted

    def waiting(self) -> set[tuple[str, int, int]]:
        """Asked, wanted, and neither given to a process nor answered without one."""
        given = {key for process in self.world.processes for key in _keys(process)}
        return set(self.asked) - self.unwanted - given - {one[:3] for one in self.world.told()}

    def teardown(self) -> None:
        while self.running():
            self.answer(0)
        assert self.world.count("waiting") == 0
        told = {one[:3] for one in self.world.told()}
        assert set(self.asked) - self.unwanted <= told
        assert {one[:3] for one in self.world.told() if not one[4]} <= set(self.answered)
        self.world.rewriter.close()
        assert self.world.open_fds() == 0
        self.patch.undo()


def _keys(process: Process) -> list[tuple[str, int, int]]:
    return [(body["lane"], body["turn"], body["attempt"]) for body in process.given]


AnyRequests.TestCase.settings = settings(max_examples=100, stateful_step_count=40, deadline=None)
TestAnyRequests = AnyRequests.TestCase


def test_a_process_that_could_not_run_does_not_hang(world: World) -> None:
    """The machine stood still for as long."""
    world.ask("a", 1)
    world.rewriter.forgive(hung())
    world.rewriter.watch(hung())
    world.answer("yes")
    assert world.told() == [("a", 1, 1, "yes", "")]
    world.rewriter.watch(2 * hung())  # it has nothing to do
    assert len(world.processes) == 1
