"""A small web server: objects with ranges, or a way to another server; it counts, and misbehaves
when told to.

A fault is the name of one of `FAULTS`; `faults` are met by the requests that follow, one each (by
those with `only` in their path), `always` by all.
"""

from __future__ import annotations

import http.client
import re
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import md5
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

FAULTS = (
    "503",
    "429",
    "500",
    "403",
    "404",
    "hang",
    "drop",
    "short",
    "rangeless",
    "shifted",
    "unsaid",
    "drip",
)
SLOW_DOWN = (
    b"<?xml version='1.0'?><Error><Code>SlowDown</Code><Message>Reduce your request"
    b" rate.</Message></Error>"
)
_NOT_SENT_ON = {"connection", "transfer-encoding", "date", "server"}
_DRIP_S = 0.3


class Seen(NamedTuple):
    """A request."""

    method: str
    path: str
    "With its query."
    range: str
    headers: dict[str, str]
    status: int


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes


class Server(ThreadingHTTPServer):
    """Listens on a free port of this machine."""

    daemon_threads = True
    request_queue_size = 64  # a connection that finds no place waits a second before it tries again

    def __init__(self, upstream: tuple[str, int] | None = None) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.upstream = upstream
        self.objects: dict[str, bytes] = {}
        self.seen: list[Seen] = []
        self.faults: deque[str] = deque()
        self.always = self.only = ""
        self.says_state = True
        "Whether answers have an ETag."
        self.delay_s = 0.0
        self.most_at_once = self._at_once = 0
        self.ending, self.released = threading.Event(), threading.Event()
        self.lock = threading.Lock()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def forget(self) -> None:
        """Behave well again, and count anew."""
        self.released.set()
        while self._at_once:
            time.sleep(0.01)
        self.released.clear()
        with self.lock:
            self.faults.clear()
            self.seen.clear()
            self.always = self.only = ""
            self.says_state, self.delay_s, self.most_at_once = True, 0.0, 0

    def gets(self) -> list[Seen]:
        return [seen for seen in self.seen if seen.method == "GET"]

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that has gone is none of our matter."""

    @contextmanager
    def one_more(self, path: str) -> Iterator[str]:
        """Count a request under way; the fault that it meets."""
        with self.lock:
            self._at_once += 1
            self.most_at_once = max(self.most_at_once, self._at_once)
            fault = self.faults.popleft() if self.faults and self.only in path else self.always
        try:
            yield fault
        finally:
            with self.lock:
                self._at_once -= 1


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Server

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""

    def do_GET(self) -> None:
        with self.server.one_more(self.path) as fault:
            time.sleep(self.server.delay_s)
            length = int(self.headers.get("Content-Length", 0))
            if len(sent := self.rfile.read(length)) < length:
                raise ConnectionAbortedError
            answer = self._refusal(fault) or (
                self._forwarded(sent) if self.server.upstream else self._own(fault)
            )
            heads = {name.lower(): value for name, value in self.headers.items()}
            self.server.seen.append(
                Seen(self.command, self.path, heads.get("range", ""), heads, answer.status)
            )
        self._send(answer, fault)

    do_HEAD = do_PUT = do_POST = do_DELETE = do_GET  # noqa: N815  # names that http.server wants

    def _refusal(self, fault: str) -> Answer | None:
        if fault == "hang":
            self.server.released.wait()
            raise ConnectionAbortedError
        if fault == "drop":
            self.close_connection = True
            return Answer(0, {}, b"")
        if fault.isdecimal():
            kind = {"Content-Type": "application/xml"} | (
                {"Retry-After": "0"} if fault == "429" else {}
            )
            return Answer(int(fault), kind, SLOW_DOWN if fault == "503" else b"")
        return None

    def _own(self, fault: str) -> Answer:
        data = self.server.objects.get(unquote(urlsplit(self.path).path))
        if data is None:
            return Answer(404, {}, b"nothing here")
        state = (
            {"ETag": f'"{md5(data, usedforsecurity=False).hexdigest()}"'}
            if self.server.says_state
            else {}
        )
        asked = re.fullmatch(r"bytes=(\d*)-(\d+)", self.headers.get("Range", ""))
        if asked is None or fault == "rangeless":
            return Answer(200, state, data)
        first, last = int(asked[1] or 0), min(int(asked[2]), len(data) - 1)
        if not asked[1]:  # so many at the end
            first, last = max(0, len(data) - int(asked[2])), len(data) - 1
        if first >= len(data):
            return Answer(416, {**state, "Content-Range": f"bytes */{len(data)}"}, b"")
        move = 1 if fault == "shifted" and first else 0
        said = (
            {}
            if fault == "unsaid"
            else {"Content-Range": f"bytes {first - move}-{last - move}/{len(data)}"}
        )
        return Answer(206, {**state, **said}, data[first - move : last + 1 - move])

    def _forwarded(self, sent: bytes) -> Answer:
        assert self.server.upstream is not None
        connection = http.client.HTTPConnection(*self.server.upstream, timeout=100)
        try:
            connection.request(self.command, self.path, sent, dict(self.headers))
            said = connection.getresponse()
            heads = {
                name: value for name, value in said.getheaders() if name.lower() not in _NOT_SENT_ON
            }
            return Answer(said.status, heads, said.read())
        finally:
            connection.close()

    def _send(self, answer: Answer, fault: str) -> None:
        if not answer.status:
            return
        heads = {"Content-Length": str(len(answer.body)), **answer.headers}
        self.send_response(answer.status)
        for name, value in heads.items():
            self.send_header(name, value)
        self.end_headers()
        body = answer.body if self.command != "HEAD" else b""
        if fault == "short":
            body, self.close_connection = body[: len(body) // 2], True
        if fault == "drip":
            for byte in body:
                self.wfile.write(bytes([byte]))
                if self.server.ending.wait(_DRIP_S):
                    return
            return
        self.wfile.write(body)


@contextmanager
def serving(upstream: tuple[str, int] | None = None) -> Iterator[Server]:
    """A server, until the block ends."""
    server = Server(upstream)
    thread = threading.Thread(
        target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True
    )
    thread.start()
    try:
        yield server
    finally:
        server.ending.set()
        server.released.set()
        server.shutdown()
        server.server_close()
        thread.join()
