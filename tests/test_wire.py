"""Messages over real socket pairs: borders, descriptors, full buffers, closed ends, and no descriptor left behind."""

from __future__ import annotations

import array
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest
from descriptors import opened
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from voiced.errors import InternalError
from voiced.wire import LIMIT, MAX_FDS, Link, share, shared

Pair = tuple[Link, Link]
LARGE = {"text": "x" * 10_000}


@pytest.fixture
def pair() -> Iterator[Pair]:
    ours, theirs = Link.pair()
    other = Link(theirs)
    yield ours, other
    ours.close()
    other.close()


def open_fds() -> set[str]:
    """Those that the wire makes."""
    return opened("/memfd:", "socket:")


def fill(link: Link) -> int:
    sent = 0
    while link.send(LARGE):
        sent += 1
    return sent


plain = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=10,
)


@given(st.lists(st.dictionaries(st.text(), plain, max_size=4), max_size=6))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], deadline=None)
def test_messages_keep_their_order_and_borders(pair: Pair, bodies: list[dict[str, object]]) -> None:
    ours, other = pair
    assert all(ours.send(body) for body in bodies)
    received = [other.receive(0) for _ in bodies]
    assert [message and message.body for message in received] == bodies
    assert other.receive(0) is None


def test_both_ways(pair: Pair) -> None:
    ours, other = pair
    assert ours.send({"ping": 1})
    assert other.send({"pong": 2})
    there, here = other.receive(), ours.receive()
    assert there is not None
    assert here is not None
    assert (there.body, here.body) == ({"ping": 1}, {"pong": 2})


def test_nothing_there_is_none_and_the_wait_is_as_long_as_said(pair: Pair) -> None:
    assert pair[0].receive(0) is None
    assert pair[0].receive(0.001) is None


def test_a_closed_end_is_told_after_what_it_sent(pair: Pair) -> None:
    ours, other = pair
    ours.send({"last": True})
    ours.close()
    message = other.receive()
    assert message is not None
    assert message.body == {"last": True}
    with pytest.raises(EOFError):
        other.receive()
    with pytest.raises(EOFError):
        other.receive(0)


def test_an_end_that_died_with_messages_unread_is_closed_too(pair: Pair) -> None:
    """The kernel says ECONNRESET then, not an end of file."""
    ours, other = pair
    other.send({"unread": True})
    ours.close()
    with pytest.raises(EOFError):
        other.receive()


def test_sending_to_a_closed_end_is_false(pair: Pair) -> None:
    pair[1].close()
    assert not pair[0].send({"hello": 1})
    assert not pair[0].send_all({"hello": 1})


def test_sending_by_a_link_that_is_closed_is_false(pair: Pair) -> None:
    """A thread may still be sending while another ends the process."""
    pair[0].close()
    assert not pair[0].send({"hello": 1})
    assert not pair[0].send_all({"hello": 1})


def test_a_full_buffer_is_false_and_loses_nothing_that_was_true(pair: Pair) -> None:
    ours, other = pair
    sent = fill(ours)
    assert sent > 1
    for _ in range(sent):
        message = other.receive(0)
        assert message is not None
        assert message.body == LARGE
    assert other.receive(0) is None
    assert ours.send(LARGE)


def test_send_all_waits_for_room(pair: Pair) -> None:
    ours, other = pair
    sent = fill(ours)
    answers: list[bool] = []
    waiting = threading.Thread(target=lambda: answers.append(ours.send_all({"late": True})))
    waiting.start()
    bodies: list[dict[str, object]] = []
    while not bodies or "late" not in bodies[-1]:
        message = other.receive(60)
        assert message is not None
        bodies.append(message.body)
    waiting.join()
    assert answers == [True]
    assert len(bodies) == sent + 1


def test_send_all_gives_up_when_the_other_end_goes(pair: Pair) -> None:
    ours, other = pair
    fill(ours)
    answers: list[bool] = []
    waiting = threading.Thread(target=lambda: answers.append(ours.send_all({"late": True})))
    waiting.start()
    other.close()
    waiting.join(60)
    assert answers == [False]


def test_the_longest_message_arrives_and_a_longer_one_is_refused(pair: Pair) -> None:
    ours, other = pair
    longest = {"t": "x" * (LIMIT - len('{"t":""}'))}
    assert ours.send(longest)
    message = other.receive()
    assert message is not None
    assert message.body == longest
    with pytest.raises(InternalError, match=f"wire: a message of {LIMIT + 1} bytes, at most {LIMIT} expected"):
        ours.send({"t": longest["t"] + "x"})
    assert ours.send({"t": "é" * (LIMIT // 2 - 8)})  # bytes are counted, not characters
    with pytest.raises(InternalError):
        ours.send({"t": "é" * (LIMIT // 2)})


def test_descriptors_go_with_their_message(pair: Pair) -> None:
    ours, other = pair
    reading, writing = os.pipe()
    assert ours.send({"take": 1}, (writing,))
    assert ours.send({"take": 0})
    os.close(writing)  # the sender keeps its own, and may close it at once
    first, second = other.receive(), other.receive()
    assert first is not None
    assert second is not None
    assert (len(first.fds), second.fds) == (1, ())
    assert not os.get_inheritable(first.fds[0])
    os.write(first.fds[0], b"through")
    os.close(first.fds[0])
    assert os.read(reading, 100) == b"through"
    assert os.read(reading, 100) == b""  # nobody else holds the other end
    os.close(reading)


@pytest.mark.parametrize(
    ("data", "fds"),
    [
        pytest.param(b"{}", MAX_FDS + 3, id="more descriptors than are wanted"),
        pytest.param(b"x" * (LIMIT + 2), 2, id="a message longer than the limit"),
    ],
)
def test_what_was_cut_off_is_an_error_and_leaks_no_descriptor(data: bytes, fds: int) -> None:
    before = open_fds()
    theirs, sock = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    link = Link(sock)
    sound = os.memfd_create("sound")
    theirs.sendmsg([data], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [sound] * fds))])
    with pytest.raises(InternalError, match="wire: a message was cut off on its way"):
        link.receive()
    assert link.receive(0) is None  # the link itself goes on
    os.close(sound)
    theirs.close()
    link.close()
    assert open_fds() <= before


def test_a_send_that_does_not_fit_leaks_no_descriptor() -> None:
    before = open_fds()
    ours, theirs = Link.pair()
    fill(ours)
    fd = share(b"sound")
    assert not ours.send(LARGE, (fd,))
    os.close(fd)
    ours.close()
    theirs.close()
    assert open_fds() <= before


def test_a_child_takes_its_end_over_by_number() -> None:
    ours, theirs = Link.pair()
    program = (
        "import sys; from voiced.wire import Link; link = Link.from_fd(int(sys.argv[1])); m = link.receive(); link.send({'got': m.body})"
    )
    with theirs:
        child = subprocess.Popen([sys.executable, "-c", program, str(theirs.fileno())], pass_fds=[theirs.fileno()])
    assert ours.send({"hello": "child"})
    message = ours.receive(120)
    assert message is not None
    assert message.body == {"got": {"hello": "child"}}
    with pytest.raises(EOFError):
        ours.receive(120)
    assert child.wait() == 0
    ours.close()


@given(st.binary(max_size=10_000))
def test_shared_memory_holds_what_was_shared(data: bytes) -> None:
    before = open_fds()
    assert shared(share(data)) == data
    assert shared(share(memoryview(data))) == data
    assert open_fds() <= before


def test_sound_of_the_longest_turn_goes_by_descriptor(pair: Pair) -> None:
    sound = array.array("h", range(-16_000, 16_000)) * 15  # 30 s
    fd = share(memoryview(sound))
    assert pair[0].send({"rewrite": 1}, (fd,))
    os.close(fd)
    message = pair[1].receive()
    assert message is not None
    assert shared(message.fds[0]) == sound.tobytes()


def test_a_message_is_one_line_of_json() -> None:
    """So that strace and a log can be read."""
    ours, theirs = Link.pair()
    ours.send({"text": "zwölf\nÄpfel", "at": 1})
    data = theirs.recv(1000)
    assert b"\n" not in data
    assert json.loads(data) == {"text": "zwölf\nÄpfel", "at": 1}
    ours.close()
    theirs.close()
