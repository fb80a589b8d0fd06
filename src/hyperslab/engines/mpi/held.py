"""Held: a connection of every rank to the driver, by which each sees that the other is gone.

Launchers do not always end the others with a rank that has died: by itself `srun` lets them wait.
Of a rank of another host, or in a container of its own, the driver cannot look at the process; but
its kernel closes what it has opened, however it ends, and a host that is gone does not answer any
more. So ranks keep a connection to the driver, over which nothing is said once they are admitted; a
stranger is not, who does not know the word. A rank that cannot reach the driver goes without.

Held by tests/engines/test_mpi.py and tests/system/faults/test_mpi.py.
"""

from __future__ import annotations

import os
import resource
import secrets
import select
import signal
import socket
import threading
from contextlib import suppress
from dataclasses import dataclass

from hyperslab.machine.clock import own_address

LIMIT_S = 2.0
"How long making a connection may take."
_IDLE_S, _AGAIN_S, _TIMES = 10, 5, 20
"""A host is gone that has not answered for so long, and when asked again, so often: two minutes, in
which a network may have been away. The death of a process is heard of at once.
"""
_MOST_WAITING = 4096
_MOST_NBYTES = 128
"Length of a rank's line at most."
_SPARED = 256
"Descriptors that are left to files and libraries."
_ADMITTED = b"!"
_ends: list[socket.socket] = []
"This process's ends of such connections."


def _let_go() -> None:
    """A process that was forked here must not be taken for this one."""
    for end in _ends:
        end.close()
    _ends.clear()


os.register_at_fork(after_in_child=_let_go)


@dataclass(frozen=True, slots=True)
class Invitation:
    """Where the driver listens, and the word by which it knows its ranks."""

    host: str
    port: int
    word: str

    def line_of(self, rank: int) -> bytes:
        """What a rank says of itself."""
        return f"{self.word} {rank}\n".encode()


class Watch:
    """The driver's side of the connections of all ranks."""

    def __init__(self, towards: str) -> None:
        """Ranks are invited to the address from which the host `towards` is reached, until this is
        closed. Raises OSError.
        """
        self._most = _most_descriptors() - _SPARED
        self._listener = socket.create_server((own_address(towards), 0), backlog=_MOST_WAITING)
        host, port = self._listener.getsockname()[:2]
        self.invitation = Invitation(host, port, secrets.token_hex(16))
        self._poll = select.poll()
        self._ranks: dict[int, int] = {}
        "The rank of each connection, by its descriptor."
        self._changed = threading.Condition()
        self._is_full = False
        self._thread = threading.Thread(target=self._admit, daemon=True)
        self._thread.start()

    def await_ranks(self, number: int) -> None:
        """Wait until so many ranks, which have made their connections, are admitted, or no more can
        be; not for long.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._is_full or len(self._ranks) >= number, LIMIT_S)

    def close(self) -> None:
        """Invite nobody any more."""
        with self._listener, suppress(OSError):  # it admits no more already
            self._listener.shutdown(socket.SHUT_RDWR)  # wakes the thread, where it waits
        self._thread.join()

    def gone(self) -> list[int]:
        """Ranks whose connection has ended."""
        return [self._ranks[fd] for fd, _ in self._poll.poll(0)]

    def _admit(self) -> None:
        """Take connections as they are made: kernels let few of them wait."""
        with suppress(OSError):  # closed, or no more may be open
            while not self._is_full:
                end, _ = self._listener.accept()
                self._take(end)
                with self._changed:
                    self._is_full = end.fileno() >= self._most
                    self._changed.notify()

    def _take(self, end: socket.socket) -> None:
        """Keep the connection of a rank, and close that of anybody else."""
        rank = self._rank_of(end)
        if rank is None:
            end.close()
            return
        _keep(end)
        self._ranks[end.fileno()] = rank
        self._poll.register(end, select.POLLIN)
        with suppress(OSError):  # of a rank that has died meanwhile
            end.sendall(_ADMITTED)

    def _rank_of(self, end: socket.socket) -> int | None:
        end.settimeout(LIMIT_S)
        try:
            with end.makefile("rb") as said:
                line = said.readline(_MOST_NBYTES)
        except OSError:
            return None
        word, _, rank = line.partition(b" ")
        if not secrets.compare_digest(word, self.invitation.word.encode()):
            return None
        return int(rank)


def _most_descriptors() -> int:
    """How many descriptors this process may have: from now on as many as it can."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(OSError, ValueError):  # more than the kernel allows now
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def hold(invitation: Invitation, rank: int) -> bool:
    """Keep a connection to the driver, and end with it; whether there is one."""
    try:
        end = socket.create_connection((invitation.host, invitation.port), LIMIT_S)
        end.sendall(invitation.line_of(rank))
    except OSError:
        return False
    _keep(end)
    threading.Thread(target=_end_with_the_driver, args=(end,), daemon=True).start()
    return True


def release() -> None:
    """Do not end with the driver any more, which has said that this is the end."""
    while _ends:
        end = _ends.pop()
        with suppress(OSError):  # it has ended
            end.shutdown(socket.SHUT_RDWR)  # wakes the thread that waits, which closes it


def _keep(end: socket.socket) -> None:
    end.settimeout(None)
    end.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    end.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, _IDLE_S)
    end.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, _AGAIN_S)
    end.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, _TIMES)
    _ends.append(end)


def _end_with_the_driver(end: socket.socket) -> None:
    """Wait for the end of a connection; unless it was released, the driver is gone."""
    with end:
        is_admitted = _heard(end) == _ADMITTED
        if is_admitted and not _heard(end) and end in _ends:
            _end()


def _heard(end: socket.socket) -> bytes:
    try:
        return end.recv(1)
    except OSError:
        return b""


def _end() -> None:
    """End this process, with what functions have started where it leads a group of its own."""
    if os.getpgrp() == os.getpid():
        os.killpg(0, signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)
