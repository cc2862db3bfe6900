"""The second pass by a llama-server, against a stand-in that answers as llama.cpp's documentation says."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import numpy as np
import pytest
from llamaserver import LlamaStandIn, serve
from voiced import assembly
from voiced.errors import ModelError
from voiced.stages.llama_server import TOKENS_A_SECOND, LlamaServer

TURN = np.full(32_000, 500, np.int16)


@pytest.fixture
def there() -> Iterator[LlamaStandIn]:
    with serve() as state:
        yield state


@pytest.fixture
def stage(there: LlamaStandIn) -> LlamaServer:
    return LlamaServer(there.address, seconds=10.0)


def test_a_turn_is_sent_whole_and_its_text_is_what_follows_the_tag(there: LlamaStandIn, stage: LlamaServer) -> None:
    assert stage.decode(TURN) == "Turn on the lights."
    assert there.heard == [32_000]
    assert (there.asked[0]["temperature"], there.asked[0]["max_tokens"]) == (0, 3 * TOKENS_A_SECOND)
    assert stage.log_probability == pytest.approx(-0.2)
    there.text = "  plain text \n"  # of a model without the tag
    assert stage.decode(TURN) == "plain text"
    there.text = "language None<asr_text>"
    assert stage.decode(TURN) == ""
    assert (stage.statistics().decodes, stage.statistics().samples, stage.statistics().empty) == (3, 96_000, 1)


def test_digital_silence_is_not_sent(there: LlamaStandIn, stage: LlamaServer) -> None:
    assert stage.decode(np.zeros(16_000, np.int16)) == ""
    assert there.heard == []


def test_one_that_loads_is_waited_for_and_its_slots_are_counted(there: LlamaStandIn, stage: LlamaServer) -> None:
    there.health = [503, 503, 200]
    stage.warm_up()
    assert (stage.width, there.health, there.heard) == (4, [], [16_000])
    there.slots = 64
    stage.warm_up()
    assert stage.width == 8


def test_one_that_loads_for_ever_is_told(there: LlamaStandIn) -> None:
    there.health = [503] * 100
    with pytest.raises(ModelError, match="is not well: /health answers 503"):
        LlamaServer(there.address, seconds=10.0, patience=0.5).warm_up()


def test_one_that_hears_no_sound_is_refused(there: LlamaStandIn, stage: LlamaServer) -> None:
    there.audio = False
    with pytest.raises(ModelError, match="serves a model that hears no sound; start it: llama-server"):
        stage.warm_up()


def test_nobody_there_is_one_line() -> None:
    with serve() as state:
        address = state.address
    with pytest.raises(ModelError) as caught:
        LlamaServer(address, seconds=10.0).warm_up()
    assert str(caught.value).startswith(f"{address}: cannot be asked: Connection refused; start it: llama-server")


@pytest.mark.parametrize(
    ("status", "raw", "complaint"),
    [
        (500, None, "answers 500: out of memory; see the server's log"),
        (200, b"{}", "answers what is no chat completion"),
        (200, b"<html>", "answers what is no chat completion"),
        (503, b"busy", "answers 503: no reason given"),
        (200, b" " * (2 << 20), "answers more than 1 MiB"),
    ],
)
def test_a_failure_is_one_and_never_a_text(there: LlamaStandIn, stage: LlamaServer, status: int, raw: bytes | None, complaint: str) -> None:
    there.status, there.raw = status, raw
    with pytest.raises(ModelError) as caught:
        stage.decode(TURN)
    assert complaint in str(caught.value)
    answer = assembly.answer(stage, 7, 3, 1, TURN)
    assert answer.text == "" and answer.failure.startswith("the second pass failed: http://127.0.0.1:") and complaint in answer.failure


def test_one_that_does_not_answer_is_given_up(there: LlamaStandIn) -> None:
    there.hold = threading.Event()
    with pytest.raises(ModelError, match=r"does not answer within 0\.3 s"):
        LlamaServer(there.address, seconds=0.3).decode(TURN)
