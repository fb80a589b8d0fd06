"""Ends of links: a listener in every process of a Dask cluster, and who measures from another one.

All of it is sent to the processes by value: they need not have hyperslab. Connections are bare TCP,
beside Dask's own, and are answered to who knows the probe's token alone.

    to the listener     token, what is asked for, bytes, time limit
    ECHO                packets come back as they are
    TAKE                bytes are taken, until the limit; the answer is their rate
    GIVE                bytes come, until whoever asked closes the connection
"""

from __future__ import annotations

import asyncio
import hmac
import math
import os
import select
import socket
import struct
import threading
import time
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

HEAD, RATE = "!16sBQd", "!d"
"What a connection begins with, and an answer, as `struct` has it, whose own objects do not travel."
ECHO, TAKE, GIVE = 0, 1, 2
PACKET_NBYTES = 32
PIECE_NBYTES = 1 << 18
ROUND_TRIPS = 20
ROUND_TRIPS_S = 1.0
"Time after which no more of them are made."
ANSWER_S = 10.0
"Time after which an end that is silent is given up."
IDLE_S = 300.0
"Time after which a listener ends that nobody has asked for anything: its driver may be gone."
WARM_SHARE = 0.25
"Share of the bytes that is not counted: TCP begins slowly, and a link may have saved up for some."
LEAST_PIECES = 64
"Pieces in which all bytes are received at least, so that there is a part to be counted."
RESOLUTION_S = 1e-6
ARRAY_NBYTES = 4 << 20
OBJECTS = 1_000
"Tuples in a list, of which Dask makes messages one by one."
SERIALISED = 3
"Times that a value is made a message; the fastest counts."
_LISTENERS = "_hyperslab_listeners"
"Attribute of Dask's server that holds the listeners of this process by token."


class Listener:
    """A socket that answers, in threads of its own."""

    def __init__(self, host: str, token: bytes) -> None:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._token = token
        self._socket = socket.create_server((host, 0), family=family)
        self._socket.settimeout(IDLE_S)
        self.place: tuple[str, int] = (host, self._socket.getsockname()[1])
        threading.Thread(target=self._serve, name="hyperslab-links", daemon=True).start()

    def close(self) -> None:
        """End: whoever waits for a connection is woken."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def _serve(self) -> None:
        with self._socket, suppress(OSError):  # closed, or nobody has come for long
            while True:
                connection, _ = self._socket.accept()
                threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection: socket.socket) -> None:
        with connection, suppress(OSError):  # told by the other end, which sees it, too
            _prepare(connection)
            head = _exactly(connection, struct.calcsize(HEAD))
            token, what, nbytes, limit_s = struct.unpack(HEAD, head)
            if hmac.compare_digest(token, self._token):
                (_echo, _take, _give)[what](connection, nbytes, limit_s)


def _prepare(connection: socket.socket) -> None:
    """Small packets at once; nothing is sent any more once it is closed."""
    connection.settimeout(ANSWER_S)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def _exactly(connection: socket.socket, nbytes: int) -> bytes:
    """So many bytes. Raises ConnectionError where there are fewer."""
    found = bytearray(nbytes)
    left = memoryview(found)
    while left:
        left = left[_some(connection, left) :]
    return bytes(found)


def _echo(connection: socket.socket, _nbytes: int, _limit_s: float) -> None:
    while True:
        connection.sendall(_exactly(connection, PACKET_NBYTES))


def _take(connection: socket.socket, nbytes: int, limit_s: float) -> None:
    connection.sendall(struct.pack(RATE, _received(connection, nbytes, limit_s)))
    while connection.recv(PIECE_NBYTES):  # until it is closed there: else the answer may be lost
        pass


def _give(connection: socket.socket, nbytes: int, _limit_s: float) -> None:
    _send(connection, nbytes)
    connection.recv(1)  # until it is closed there


def _send(connection: socket.socket, nbytes: int) -> None:
    """Send so many bytes, or until an answer is there."""
    piece = memoryview(bytes(PIECE_NBYTES))
    waiting = select.poll()
    waiting.register(connection, select.POLLIN | select.POLLOUT)
    while nbytes > 0:
        events = dict(waiting.poll(ANSWER_S * 1000))
        if not events:
            raise TimeoutError("the other end takes nothing")
        if events[connection.fileno()] != select.POLLOUT:
            return
        nbytes -= connection.send(piece[: min(nbytes, PIECE_NBYTES)])


def _received(connection: socket.socket, nbytes: int, limit_s: float) -> float:
    """The rate at which bytes come, so many or as many as come within the limit. Raises
    ConnectionError where none does.
    """
    buffer = bytearray(max(1, nbytes // LEAST_PIECES))
    seen = _some(connection, buffer)
    began = time.perf_counter()
    marks = [(0.0, seen)]
    while seen < nbytes and marks[-1][0] < limit_s:
        connection.settimeout(max(limit_s - marks[-1][0], RESOLUTION_S))
        with suppress(TimeoutError):
            seen += _some(connection, buffer)
        marks.append((time.perf_counter() - began, seen))
    connection.settimeout(ANSWER_S)
    return rate_of(marks)


def _some(connection: socket.socket, buffer: bytearray | memoryview) -> int:
    """Number of the bytes that have come. Raises ConnectionError where there will be no more."""
    nbytes = connection.recv_into(buffer)
    if not nbytes:
        raise ConnectionResetError("the other end has closed the connection")
    return nbytes


def rate_of(marks: list[tuple[float, int]]) -> float:
    """Bytes per second once a part has come, of seconds with the bytes that had come by then; of
    bytes that came all at once the rate of all.
    """
    last_s, total = marks[-1]
    first_s, before = next(one for one in marks if one[1] >= WARM_SHARE * total)
    if before == total:
        first_s, before = 0.0, 0
    return (total - before) / max(last_s - first_s, RESOLUTION_S)


def begin(token: bytes, dask_worker: Any = None, dask_scheduler: Any = None) -> tuple[str, int]:
    """Listen in this process, on the address that Dask has there; where to connect to. Raises
    OSError, also where that is not an address of this host, as behind one that translates.
    """
    server = dask_worker or dask_scheduler
    host = urlsplit(server.address).hostname
    if not host or server.address.startswith("inproc:"):
        raise OSError(f"{server.address} is inside of a process, and has no links")
    try:
        listener = Listener(host, token)
    except OSError as error:
        raise OSError(f"{host} is no address of its own ({error.strerror})") from error
    server.__dict__.setdefault(_LISTENERS, {})[token] = listener
    return listener.place


def end(token: bytes, dask_worker: Any = None, dask_scheduler: Any = None) -> None:
    """Listen no more."""
    listeners = (dask_worker or dask_scheduler).__dict__.get(_LISTENERS, {})
    if token in listeners:
        listeners.pop(token).close()


async def measured_beside(
    place: tuple[str, int], token: bytes, nbytes: int, limit_s: float
) -> tuple[list[float], float, float]:
    """Do as `measured` in a thread: a worker goes on meanwhile."""
    return await asyncio.to_thread(measured, place, token, nbytes, limit_s)


def measured(
    place: tuple[str, int], token: bytes, nbytes: int, limit_s: float
) -> tuple[list[float], float, float]:
    """Seconds of round trips to a listener, the rate to it, and the rate from it. Raises
    OSError.
    """
    with _asked(place, token, ECHO, 0, 0.0) as connection:
        round_trips_s = _round_trips(connection)
    with _asked(place, token, TAKE, nbytes, limit_s) as connection:
        _send(connection, nbytes)
        (there,) = struct.unpack(RATE, _exactly(connection, struct.calcsize(RATE)))
    with _asked(place, token, GIVE, nbytes, limit_s) as connection:
        back = _received(connection, nbytes, limit_s)
    return round_trips_s, there, back


def _asked(
    place: tuple[str, int], token: bytes, what: int, nbytes: int, limit_s: float
) -> socket.socket:
    """A connection to a listener that was asked for something."""
    connection = socket.create_connection(place, ANSWER_S)
    _prepare(connection)
    connection.sendall(struct.pack(HEAD, token, what, nbytes, limit_s))
    return connection


def _round_trips(connection: socket.socket) -> list[float]:
    """Seconds of each but the first, which also waits for a thread to begin."""
    packet = os.urandom(PACKET_NBYTES)
    found: list[float] = []
    deadline = time.perf_counter() + ROUND_TRIPS_S
    while len(found) <= ROUND_TRIPS and (len(found) < 2 or time.perf_counter() < deadline):
        began = time.perf_counter()
        connection.sendall(packet)
        if _exactly(connection, PACKET_NBYTES) != packet:
            raise ConnectionError("what came back is not what was sent")
        found.append(time.perf_counter() - began)
    return found[1:]


async def serialised_beside() -> tuple[float, float]:
    """Do as `serialised` in a thread."""
    return await asyncio.to_thread(serialised)


def serialised() -> tuple[float, float]:
    """Bytes per second at which an array, and Python's objects, become messages and values
    again.
    """
    objects = [(number, float(number), f"value {number}") for number in range(OBJECTS)]
    return _serialised(_array()), _serialised(objects)


def _array() -> Any:
    try:
        import numpy as np
    except ImportError:  # Dask does without it
        return bytearray(ARRAY_NBYTES)
    return np.arange(ARRAY_NBYTES // 8, dtype=np.float64)


def _serialised(value: Any) -> float:
    from distributed.protocol.core import dumps, loads
    from distributed.protocol.serialize import to_serialize

    best = math.inf
    nbytes = 0
    for _ in range(SERIALISED):
        began = time.perf_counter()
        # As over a socket, on which frames become bytes.
        frames = [bytes(frame) for frame in dumps({"value": to_serialize(value)})]
        loads(frames)
        best = min(best, time.perf_counter() - began)
        nbytes = sum(map(len, frames))
    return nbytes / best
