"""A second pass by a llama-server: a speech model such as Qwen3-ASR that llama.cpp serves on this board, asked over HTTP.

What lives here: one decode of a turn's sound by a server that somebody else runs. What must not: the server's life, models of ours.

    llama-server -hf ggml-org/Qwen3-ASR-0.6B-GGUF --port 8090 -np 4          the vendor's port and slots; the projector comes with it

Asked are GET /health (503 while it loads), GET /props (how many slots, whether it hears sound) and POST /v1/chat/completions with the sound
as a WAV in an `input_audio` part; Qwen3-ASR answers `language English<asr_text>…`, of which the text is what follows the tag. That is
llama.cpp's documented interface; it was tested against a small stand-in, since a real server was not at hand. The sound goes where the
setting says: name no machine that is not yours. Under systemd the unit wants the drop-in that lets it use the network
(systemd/drop-ins/network.conf).
"""

from __future__ import annotations

import base64
import http.client
import io
import json
import time
import wave
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import numpy as np

from ..audio import Samples
from ..errors import ModelError
from ..units import RATE
from . import check_hop

ADVICE = "start it: llama-server -hf ggml-org/Qwen3-ASR-0.6B-GGUF --port 8090 -np 4"
TAG = "<asr_text>"

WIDEST = 8
"""Requests that are asked at once, whatever the server's slots: there are no more lanes."""

ANSWER_LIMIT = 1 << 20
"""Bytes of an answer: a turn of 30 s is some kilobytes, its tokens' probabilities some tens."""

TOKENS_A_SECOND = 16
"""Tokens an answer may have for a second of sound, and as many again: speech has some five, and a model that repeats itself must end."""

LOADING_PAUSE_S = 0.25


@dataclass(frozen=True, slots=True)
class LlamaServerStatistics:
    decodes: int
    samples: int
    empty: int
    """Decodes that gave no text."""


class LlamaServer:
    """One thread owns it; `another` is for the next, as many as `width`.

    address   http://HOST:PORT
    seconds   after which a request is given up: an answer that comes later than the deadline is for nobody
    patience  seconds that a server may go on loading
    """

    hop = 0

    def __init__(self, address: str, *, seconds: float, patience: float = 50.0) -> None:
        self._address, self._seconds, self._patience = address, seconds, patience
        parts = urlsplit(address)
        self._host, self._port = parts.hostname or "", parts.port or 8090
        self._decodes = self._samples = self._empty = 0
        self.width = 1
        self.log_probability: float | None = None
        """Mean over the tokens of the last answer, natural logarithm; None where the server tells none."""

    def another(self) -> LlamaServer:
        return LlamaServer(self._address, seconds=self._seconds)

    def reset(self) -> None:
        """Nothing is kept between two turns."""

    def warm_up(self) -> None:
        """Waits until it has loaded its model, and asks what it is; one second of faint noise goes through it. Raises ModelError."""
        until = time.monotonic() + self._patience
        while (status := self._ask("GET", "/health")[0]) == 503 and time.monotonic() < until:
            time.sleep(LOADING_PAUSE_S)
        if status != 200:
            raise ModelError(self._address, f"is not well: /health answers {status}", "see the server's log")
        status, props = self._ask("GET", "/props")
        if status != 200 or not isinstance(props, dict):
            raise ModelError(self._address, f"is no llama-server: /props answers {status}", ADVICE)
        if props.get("modalities", {}).get("audio") is False:
            raise ModelError(self._address, "serves a model that hears no sound", ADVICE)
        self.width = max(1, min(int(props.get("total_slots") or 1), WIDEST))
        self._decode(np.random.default_rng(0).integers(-300, 300, RATE, np.int16, endpoint=True))

    def step(self, samples: Samples) -> str:
        """int16 (n,): a whole turn. Returns its text, '' where there is none. Raises ModelError where it is not answered."""
        check_hop(self, samples)
        text = self._decode(samples) if samples.any() else ""  # digital silence holds no words, and invites inventions
        self._decodes += 1
        self._samples += len(samples)
        self._empty += not text
        return text

    decode = step

    def statistics(self) -> LlamaServerStatistics:
        return LlamaServerStatistics(self._decodes, self._samples, self._empty)

    def _decode(self, samples: Samples) -> str:
        self.log_probability = None
        sound = {"type": "input_audio", "input_audio": {"data": base64.b64encode(wav(samples)).decode(), "format": "wav"}}
        body = {
            "messages": [{"role": "user", "content": [sound]}],
            "temperature": 0,
            "max_tokens": TOKENS_A_SECOND * (1 + len(samples) // RATE),
            "logprobs": True,
            "cache_prompt": False,
        }
        status, answer = self._ask("POST", "/v1/chat/completions", body)
        if status != 200:
            raise ModelError(self._address, f"answers {status}: {_complaint(answer)}", "see the server's log")
        match answer:
            case {"choices": [{"message": {"content": str(content)}, **more}, *_]}:
                self.log_probability = _log_probability(more.get("logprobs"))
                return content.rpartition(TAG)[2].strip()
        raise ModelError(self._address, "answers what is no chat completion", "is it a llama-server?")

    def _ask(self, verb: str, path: str, body: object = None) -> tuple[int, Any]:
        """Status, and the JSON of the answer (None: it is none)."""
        connection = http.client.HTTPConnection(self._host, self._port, timeout=self._seconds)
        try:
            data = None if body is None else json.dumps(body)
            connection.request(verb, path, data, {"Content-Type": "application/json"} if data else {})
            answer = connection.getresponse()
            said = answer.read(ANSWER_LIMIT + 1)
        except TimeoutError:
            raise ModelError(self._address, f"does not answer within {self._seconds:g} s", "see the server's log") from None
        except (OSError, http.client.HTTPException) as error:
            raise ModelError(
                self._address, f"cannot be asked: {getattr(error, 'strerror', None) or type(error).__name__}", ADVICE
            ) from None
        finally:
            connection.close()
        if len(said) > ANSWER_LIMIT:
            raise ModelError(self._address, f"answers more than {ANSWER_LIMIT >> 20} MiB", "is it a llama-server?")
        try:
            return answer.status, json.loads(said)
        except ValueError:
            return answer.status, None


def wav(samples: Samples) -> bytes:
    """A WAV file of it: 16 bits, mono, 16 kHz."""
    out = io.BytesIO()
    with wave.open(out, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(RATE)
        file.writeframes(samples.astype("<i2").tobytes())
    return out.getvalue()


def _complaint(answer: object) -> str:
    match answer:
        case {"error": {"message": str(message)}}:
            return " ".join(message.split())[:200]
    return "no reason given"


def _log_probability(told: object) -> float | None:
    match told:
        case {"content": list(tokens)}:
            values = [token["logprob"] for token in tokens if isinstance(token, dict) and isinstance(token.get("logprob"), int | float)]
            return sum(values) / len(values) if values else None
    return None
