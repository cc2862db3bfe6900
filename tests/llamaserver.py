"""A stand-in for llama.cpp's llama-server on this machine: the three paths that voiced asks, answering as told. It computes nothing."""

from __future__ import annotations

import base64
import io
import json
import threading
import wave
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class LlamaStandIn:
    """`health` is used up from its front, one status a request. `hold`: answers wait until it is set. `pace`: seconds that an answer takes
    for each of its sound. `heard`: samples of each request."""

    text: str = "language English<asr_text>Turn on the lights."
    health: list[int] = field(default_factory=list)
    slots: int = 4
    audio: bool = True
    status: int = 200
    raw: bytes | None = None
    hold: threading.Event | None = None
    pace: float = 0.0
    heard: list[int] = field(default_factory=list)
    asked: list[dict[str, Any]] = field(default_factory=list)
    busy: int = 0
    busiest: int = 0
    address: str = ""
    over: threading.Event = field(default_factory=threading.Event)
    lock: threading.Lock = field(default_factory=threading.Lock)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_state: LlamaStandIn

    def do_GET(self) -> None:
        state = self.server_state
        if self.path == "/health":
            status = state.health.pop(0) if state.health else 200
            said = (
                {"status": "ok"} if status == 200 else {"error": {"code": status, "message": "Loading model", "type": "unavailable_error"}}
            )
            self._answer(status, json.dumps(said).encode())
        elif self.path == "/props":
            props = {"total_slots": state.slots, "modalities": {"vision": False, "audio": state.audio}}
            self._answer(200, json.dumps(props).encode())
        else:
            self._answer(404, b'{"error": {"code": 404, "message": "File Not Found"}}')

    def do_POST(self) -> None:
        state = self.server_state
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        (part,) = body["messages"][0]["content"]
        with wave.open(io.BytesIO(base64.b64decode(part["input_audio"]["data"]))) as sound:
            form = (sound.getframerate(), sound.getnchannels(), sound.getsampwidth())
            assert (self.path, part["type"], form) == ("/v1/chat/completions", "input_audio", (16_000, 1, 2))
            with state.lock:
                state.heard.append(sound.getnframes())
                state.asked.append(body)
                state.busy += 1
                state.busiest = max(state.busiest, state.busy)
        if state.hold:
            state.hold.wait(30)
        state.over.wait(state.pace * sound.getnframes() / 16_000)
        with state.lock:
            state.busy -= 1
        tokens = {"content": [{"token": "a", "logprob": -0.1}, {"token": "b", "logprob": -0.3}]}
        good = {"choices": [{"index": 0, "message": {"role": "assistant", "content": state.text}, "logprobs": tokens}]}
        bad = {"error": {"code": state.status, "message": "out of  memory"}}
        self._answer(state.status, json.dumps(good if state.status == 200 else bad).encode() if state.raw is None else state.raw)

    def _answer(self, status: int, body: bytes) -> None:
        try:
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True  # who asked has given up

    def log_message(self, format: str, *args: object) -> None:
        """Nothing: the requests are kept."""


class _Server(ThreadingHTTPServer):
    def handle_error(self, request: object, client_address: object) -> None:
        """Nothing: who asked has given up."""


@contextmanager
def serve() -> Iterator[LlamaStandIn]:
    """Runs on a free port until the block ends."""
    state = LlamaStandIn()
    server = _Server(("127.0.0.1", 0), type("Handler", (_Handler,), {"server_state": state}))
    state.address = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield state
    finally:
        state.over.set()
        if state.hold:
            state.hold.set()
        server.shutdown()
        server.server_close()
        thread.join()
