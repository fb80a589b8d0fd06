"""The live page of a run: a small web server in the driver, for as long as the run lasts.

- it listens on 127.0.0.1 alone, at a port that is free, and answers who knows the token of its URL
- it ends with the driver's process, whatever ends that: its threads and its port are the process's
- the run waits for no browser: a thread of its own serves each, and at the end for LEAVE_S at most
- the charts are made for somebody who looks, and for a twentieth of a processor's time at most

Held by tests/driver/test_live.py and tests/system/browser/test_live.py.
"""

from __future__ import annotations

import hmac
import json
import os
import secrets
import socket
import socketserver
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit

from hyperslab.report.failures import Failed, failures_html, grouped
from hyperslab.report.html import charts_json
from hyperslab.report.listener import Listener
from hyperslab.report.live import live_html
from hyperslab.report.progress import Count
from hyperslab.trace import Trace

INTERVAL_S = 1.0
"Time between two messages to a browser."
SHARE = 0.05
"Share of a processor's time that charts may take."
LEAVE_S = 2.0
"How long the end of a run waits for browsers to take the page that stays."
TIMEOUT_S = 10.0
"A browser that takes or sends nothing for so long is left alone."
MOST_CONNECTIONS = 16


@dataclass(frozen=True, slots=True)
class Seen:
    """What there is to see of a run; threads of the server ask for it while the run goes on."""

    title: str
    page: Path
    "Where the page that stays will be."
    count: Count
    trace: Callable[[], Trace]
    failures: Callable[[], Sequence[Failed]]


@contextmanager
def shown(seen: Seen) -> Iterator[None]:
    """Serve the live page of a run until the end of the block."""
    with _Live(seen) as live:
        _tell(f"live       {live.url}\n")
        yield


def _tell(line: str) -> None:
    """Say the address, which was asked for, to whoever hears it."""
    if sys.stderr is not None:
        listener = Listener(sys.stderr)
        listener.write(line)
        listener.drain()


class _Sight:
    """Charts and failures of a run so far, made anew as often as they cost little."""

    def __init__(self, seen: Seen) -> None:
        self._seen = seen
        self._making = threading.Lock()
        self._due_at = 0.0
        self._made: list[bytes] = []

    def messages(self) -> list[bytes]:
        """The newest messages there are; the same list as long as they are the same."""
        if time.monotonic() >= self._due_at and self._making.acquire(blocking=False):
            try:
                self._make()
            finally:
                self._making.release()
        return self._made

    def _make(self) -> None:
        began = time.thread_time()
        failures = failures_html(grouped(self._seen.failures()))
        charts = charts_json(self._seen.trace())
        self._made = [_message("failures", json.dumps(failures)), _message("charts", charts)]
        cost = time.thread_time() - began
        self._due_at = time.monotonic() + max(INTERVAL_S, cost / SHARE)


def _message(event: str, data: str) -> bytes:
    """A message of a stream of events (HTML Standard, 9.2); the data are one line."""
    return f"event: {event}\ndata: {data}\n\n".encode()


class _Live:
    """The server of one run, with its address."""

    def __init__(self, seen: Seen) -> None:
        self.seen = seen
        self.sight = _Sight(seen)
        self.token = secrets.token_urlsafe(24)
        self.ended = threading.Event()
        self.server = _Server(self)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/?token={self.token}"

    def __enter__(self) -> Self:
        serve = self.server.serve_forever
        threading.Thread(target=serve, args=(0.1,), name="live", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        """Give the browsers the page that stays, then let go of all of them."""
        self.ended.set()
        try:
            self.server.await_streams(LEAVE_S)
        finally:
            self.server.shutdown()
            self.server.server_close()

    def progress(self) -> bytes:
        count = self.seen.count
        words = count.words()
        if not count.tasks:
            words = "getting ready"
        said = {"words": words, "done": count.done, "tasks": count.tasks}
        return _message("progress", json.dumps(said))

    def end(self) -> bytes:
        """The page that stays, and where it is."""
        page = ""
        words = "The run has ended, and has written no page: 'hyperslab report' writes it."
        if self.seen.page.is_file():
            page = self.seen.page.read_text(encoding="utf-8")
            words = f"The run has ended. This page is {self.seen.page}"
        return _message("end", json.dumps({"page": page, "words": words}))


_servers: weakref.WeakSet[_Server] = weakref.WeakSet()


def _close_in_child() -> None:
    """A process that a function has forked serves nobody, and holds no port."""
    for server in list(_servers):
        server.socket.close()


os.register_at_fork(after_in_child=_close_in_child)


class _Server(socketserver.ThreadingTCPServer):
    """A thread for every connection, of which there are not many."""

    daemon_threads = True

    def __init__(self, live: _Live) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.live = live
        self._places = threading.Semaphore(MOST_CONNECTIONS)
        self._streams: set[socket.socket] = set()
        self._changed = threading.Condition()
        _servers.add(self)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Serve a connection; one too many is closed."""
        if self._places.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._places.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Nothing, where the browser is gone."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)

    @contextmanager
    def streaming(self, connection: socket.socket) -> Iterator[None]:
        """A stream of events to one browser."""
        with self._changed:
            self._streams.add(connection)
        try:
            yield
        finally:
            with self._changed:
                self._streams.remove(connection)
                self._changed.notify_all()

    def await_streams(self, limit_s: float) -> None:
        """Wait until all streams have ended; those that have not by then are cut."""
        with self._changed:
            self._changed.wait_for(lambda: not self._streams, limit_s)
            for connection in self._streams:
                with suppress(OSError):  # the browser was quicker
                    connection.shutdown(socket.SHUT_RDWR)


class _Handler(BaseHTTPRequestHandler):
    """One request: of the page, or of the events that it follows."""

    server: _Server
    timeout = TIMEOUT_S

    def do_GET(self) -> None:
        live = self.server.live
        asked = urlsplit(self.path)
        given = parse_qs(asked.query).get("token", [""])[0]
        if not hmac.compare_digest(given.encode(), live.token.encode()):
            self._answer(403, "text/plain", b"This address lacks the token of the run.\n")
        elif asked.path == "/":
            page = live_html(live.seen.title, live.seen.page)
            self._answer(200, "text/html; charset=utf-8", page.encode())
        elif asked.path == "/events":
            self._stream(live)
        else:
            self._answer(404, "text/plain", b"There is no such page.\n")

    def _answer(self, status: int, kind: str, body: bytes) -> None:
        self._begin(status, kind)
        self.wfile.write(body)

    def _begin(self, status: int, kind: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Cache-Control", "no-store")
        self.send_header("Referrer-Policy", "no-referrer")
        self.send_header("X-Content-Type-Options", "nosniff")
        self.end_headers()

    def _stream(self, live: _Live) -> None:
        """Numbers every second, charts where they are new, and the page that stays at the end."""
        self._begin(200, "text/event-stream")
        sent: list[bytes] = []
        with self.server.streaming(self.connection):
            while not live.ended.is_set():
                self.wfile.write(live.progress())
                newest = live.sight.messages()
                if newest is not sent:
                    self.wfile.writelines(newest)
                sent = newest
                live.ended.wait(INTERVAL_S)
            self.wfile.write(live.end())

    def log_message(self, format: str, *args: object) -> None:
        """Nothing: the lines would hold the token."""
