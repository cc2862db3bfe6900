"""A small HTTP server on this machine that misbehaves as told: for the tests of what fetches."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class Files:
    """What is served, and how. A list is used up from its front, one entry a request; after its end all is well."""

    content: dict[str, bytes] = field(default_factory=dict)
    close_after: list[int] = field(default_factory=list)
    """Bytes of the body after which the connection is closed."""
    status: list[int] = field(default_factory=list)
    """Answers in place of the file."""
    ranges: bool = True
    length: bool = True
    """False: the body is sent in chunks, and nobody is told how long it is."""
    etag: str = '"1"'
    requests: list[dict[str, str]] = field(default_factory=list)
    """The headers of each request, and its `path`."""
    sent: int = 0
    base: str = ""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    files: Files

    def do_GET(self) -> None:
        files = self.files
        files.requests.append({**self.headers, "path": self.path})
        body = files.content.get(self.path.lstrip("/"))
        if body is None or files.status:
            self.send_error(files.status.pop(0) if files.status else 404)
            return
        asked = self.headers.get("Range") if files.ranges else None
        if asked and self.headers.get("If-Range", files.etag) != files.etag:
            asked = None
        start = int(asked.removeprefix("bytes=").removesuffix("-")) if asked else 0
        if asked and start >= len(body):
            self.send_response(416)
            self.send_header("Content-Range", f"bytes */{len(body)}")
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        self.send_response(206 if asked else 200)
        if asked:
            self.send_header("Content-Range", f"bytes {start}-{len(body) - 1}/{len(body)}")
        self.send_header("ETag", files.etag)
        part = body[start:]
        if files.close_after:
            cut = files.close_after.pop(0)
            self.close_connection = True
        else:
            cut = len(part)
        files.sent += len(part[:cut])  # before it goes out: the client may have it all before we are at the next line
        if files.length:
            self.send_header("Content-Length", str(len(part)))
            self.end_headers()
            self.wfile.write(part[:cut])
        else:
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            if part[:cut]:
                self.wfile.write(b"%x\r\n%b\r\n" % (len(part[:cut]), part[:cut]))
            if cut >= len(part):
                self.wfile.write(b"0\r\n\r\n")

    def log_message(self, format: str, *args: object) -> None:
        """Nothing: the requests are kept."""


@contextmanager
def serve() -> Iterator[Files]:
    """Runs a server on a free port of this machine until the block ends; `base` is its address."""
    files = Files()
    handler = type("Handler", (_Handler,), {"files": files})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    files.base = f"http://127.0.0.1:{server.server_port}/"
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield files
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
