"""Clients: processes that measure at the same time, as whoever asks them sees them.

Processes, so that no interpreter's lock is measured. They begin together, at a moment that each of
them waits for, and hold the lock of the folder that they write to as long as one of them lives.
"""

from __future__ import annotations

import os
import secrets
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from multiprocessing.connection import Connection
from types import TracebackType
from typing import Any, NamedTuple, Self

from hyperslab.errors import HyperslabError
from hyperslab.storage.probing.content import random_window
from hyperslab.storage.probing.folder import Folder
from hyperslab.units import show_seconds

LEAD_NS = 2_000_000
"Time in which all clients are told when to begin."
PATIENCE_S = 300.0
"Longest time of one operation; storage that takes longer is broken, or nothing to be measured."
_END_S = 5.0


class Order(NamedTuple):
    """One operation that a client is to do."""

    name: str
    arguments: Mapping[str, Any]


class Done(NamedTuple):
    """What came of an order."""

    ready: Mapping[str, Any]
    "What the client said when it was prepared."
    result: Mapping[str, Any]


class StorageDamages(HyperslabError):
    """Storage that gave back other bytes than it was given."""


class Clients:
    """Processes, started when they are needed, that are gone when the block ends."""

    def __init__(self, folder: Folder, seed: int) -> None:
        self._folder = folder
        self._window = random_window(seed)
        self._pipe = os.pipe()
        self._processes: list[subprocess.Popen[bytes]] = []
        self._connections: list[Connection] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        for process in self._processes:
            process.kill()
        for connection in self._connections:
            connection.close()
        for fd in (*self._pipe, self._window):
            os.close(fd)
        for process in self._processes:
            _await_end(process)

    def together(self, orders: Sequence[Order]) -> list[Done]:
        """Have as many clients do an order each, all from the same moment on.

        Raises OSError as the first of them met it, StorageDamages, and HyperslabError where storage
        does not answer.
        """
        while len(self._processes) < len(orders):
            self._start()
        used = self._connections[: len(orders)]
        for connection, order in zip(used, orders, strict=True):
            connection.send(order)
        limit_s = time.monotonic() + PATIENCE_S
        ready = [self._answer(connection, "ready", limit_s) for connection in used]
        start_ns = time.monotonic_ns() + LEAD_NS
        for connection in used:
            connection.send(start_ns)
        limit_s = time.monotonic() + PATIENCE_S
        results = [self._answer(connection, "done", limit_s) for connection in used]
        return [Done(*both) for both in zip(ready, results, strict=True)]

    def one(self, order: Order) -> Done:
        """Have a single client do an order."""
        return self.together([order])[0]

    def _start(self) -> None:
        """Start one more client, in a session of its own: Ctrl-C is for us alone."""
        ours, theirs = socket.socketpair()
        given = (theirs.fileno(), self._pipe[0], self._window)
        inherited = [*given, *self._folder.descriptors]
        with theirs:
            process = subprocess.Popen(
                [sys.executable, "-c", _program(given)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=inherited,
                start_new_session=True,
            )
        self._processes.append(process)
        self._connections.append(Connection(ours.detach()))

    def _answer(self, connection: Connection, wanted: str, limit_s: float) -> Any:
        """What a client says next, if it is what was wanted."""
        try:
            if not connection.poll(max(0.0, limit_s - time.monotonic())):
                raise HyperslabError(
                    f"{self._folder.place}: the storage has not answered for"
                    f" {show_seconds(PATIENCE_S)}; look whether its server or device works"
                )
            kind, value = connection.recv()
        except (EOFError, ConnectionError) as error:
            raise HyperslabError(
                f"{self._folder.place}: a process of the probe was killed; probe again"
            ) from error
        if kind == wanted:
            return value
        if kind == "failed":
            number, text, name = value
            raise OSError(number, text, name or str(self._folder.place))
        if kind == "damaged":
            raise StorageDamages(
                f"{self._folder.place}: what was written is not what is read back: {value}; trust"
                " no data to this storage before its cause is found"
            )
        raise HyperslabError(f"a process of the probe failed:\n{value}")


def _program(given: Sequence[int]) -> str:
    """Code of a client, with our import path."""
    path = [folder or os.getcwd() for folder in sys.path]
    module = "hyperslab.storage.probing.client"
    arguments = ", ".join(map(str, given))
    return f"import sys; sys.path[:] = {path!r}; from {module} import main; main({arguments})"


def _await_end(process: subprocess.Popen[bytes]) -> None:
    try:
        process.wait(_END_S)
    except subprocess.TimeoutExpired:
        return  # it waits for a device, and ends when that has answered


def new_seed() -> int:
    """A seed for content that no earlier probe has written."""
    return secrets.randbits(63)
