"""Clock: how far one host's monotonic clock is from the driver's, so that all lanes of a trace
share one time axis.

A worker asks the driver's clock several times over TCP; the exchange that took least bounds the
error (Cristian, Probabilistic clock synchronization, Distributed Computing 3, 1989): half of its
round trip. Where the driver cannot be reached the hosts' wall clocks are compared instead, and the
trace says so.
"""

from __future__ import annotations

import os
import socket
import struct
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

ROUNDS = 16
CONNECT_LIMIT_S = 2.0
_TIME = struct.Struct("<q")

How = Literal["same clock", "measured", "wall clocks"]


@dataclass(frozen=True, slots=True)
class Reference:
    """The driver's clock, as workers know it."""

    identity: str
    address: tuple[str, int] | None
    "Where it can be asked; None when every worker shares it."
    wall_less_monotonic_ns: int


@dataclass(frozen=True, slots=True)
class Clock:
    """A host's monotonic clock against the driver's: driver's time = own time + offset."""

    host: str
    offset_ns: int
    error_ns: int | None
    "Bound of the offset's error; None when only the hosts' wall clocks were compared."
    how: How


def identity() -> str:
    """What processes share whose monotonic clock is the same: the boot of the kernel and the time
    namespace.
    """
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    try:
        return f"{boot} {os.readlink('/proc/self/ns/time')}"
    except OSError:  # a kernel without time namespaces
        return boot


def reference(address: tuple[str, int] | None) -> Reference:
    """This process's clock, for others to compare theirs with."""
    return Reference(identity(), address, time.time_ns() - time.monotonic_ns())


def compare(driver: Reference) -> Clock:
    """This host's clock against the driver's."""
    host = socket.gethostname()
    if identity() == driver.identity:
        return Clock(host, 0, 0, "same clock")
    try:
        offset, error = _ask(driver.address)
    except (
        OSError
    ):  # the driver cannot be reached from here: the trace says how its clocks were aligned
        offset = time.time_ns() - time.monotonic_ns() - driver.wall_less_monotonic_ns
        return Clock(host, offset, None, "wall clocks")
    return Clock(host, offset, error, "measured")


def _ask(address: tuple[str, int] | None) -> tuple[int, int]:
    """(offset, half of the shortest round trip). Raises OSError when the driver does not answer."""
    if address is None:
        raise OSError("the driver keeps no clock server")
    answers = []
    with socket.create_connection(address, CONNECT_LIMIT_S) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for _ in range(ROUNDS):
            before = time.monotonic_ns()
            connection.sendall(b"?")
            there = _TIME.unpack(_receive(connection, _TIME.size))[0]
            after = time.monotonic_ns()
            answers.append((after - before, there - (before + after) // 2))
    trip, offset = min(answers)
    return offset, trip // 2


def _receive(connection: socket.socket, nbytes: int) -> bytes:
    data = b""
    while len(data) < nbytes:
        more = connection.recv(nbytes - len(data))
        if not more:
            raise ConnectionError("the driver's clock server went away")
        data += more
    return data


class ClockServer:
    """Answers with this process's monotonic time, on the address from which `towards` is
    reached.
    """

    def __init__(self, towards: str) -> None:
        self._socket = socket.create_server((own_address(towards), 0))
        self.address: tuple[str, int] = self._socket.getsockname()[:2]
        threading.Thread(target=self._serve, name="clock server", daemon=True).start()

    def close(self) -> None:
        with suppress(OSError):  # nobody has connected
            self._socket.shutdown(socket.SHUT_RDWR)  # wakes the thread that waits
        self._socket.close()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:  # closed
                return
            threading.Thread(target=_answer, args=(connection,), daemon=True).start()


def serve_towards(host: str | None) -> ClockServer | None:
    """A clock server that a host can reach; None where that cannot be found out: workers compare
    wall clocks then.
    """
    try:
        return ClockServer(host or "localhost")
    except OSError:
        return None


def _answer(connection: socket.socket) -> None:
    with connection:
        connection.settimeout(CONNECT_LIMIT_S)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            while connection.recv(1):
                connection.sendall(_TIME.pack(time.monotonic_ns()))
        except OSError:  # the worker has gone: it asks again, or compares wall clocks
            return


def own_address(towards: str) -> str:
    """The address of this host on its way to another; connecting a datagram socket sends
    nothing.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect((towards, 9))
        return str(probe.getsockname()[0])
