"""Recorder: every message that a process of Dask sends and receives, with time, ends, operations
and bytes.

It wraps `write` and `read` of the classes of all transports, in the process that it runs in, and so
sees messages before they are encrypted. Records go to a file of the process, about once a second,
so that one that is killed loses no more than that. The functions are sent to schedulers and workers
by value: these need not have hyperslab, and what the functions share with one another lies at
Dask's own class of connections, not here.

Nothing that goes wrong here is raised in the program that is recorded, and nothing on an event loop
waits for a disk: files are opened, written and closed by a thread, whoever ends a recorder on a
loop leaves the loop to others meanwhile (`stopped`), a recorder that cannot write ends, and what it
would have to keep has a limit. Why is told by `lost`.

    first line      {"host": ..., "pid": ...}
    other lines     {"roles": {...}, "missed": ..., "from_ns": ..., "ways": [...], "said": [...],
                    "rows": [since_ns, way, said, nbytes]}
    ways            [is_sent, local, peer], all that occur in the line
    said            operations of messages, all that occur in the line
    rows            a list for each column: times since from_ns, places in ways and in said, sizes
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import contextvars
import functools
import itertools
import json
import logging
import os
import socket
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any, Literal

from hyperslab.traffic import UNDECODABLE, Conversation, said_by

FLUSH_S = 1.0
CLOSE_S = 5.0
"Time for which whoever ends a recorder waits until its last rows are written."
_LOOK_S = 0.01
"Time from one look to the next of whoever waits for that on an event loop."
LEASE_S = 180.0
"""Time after which a recorder ends whose driver is silent: network file systems may show a change
a minute late.
"""
ROWS_AT_ONCE = 1000
"Rows of a line: while it becomes text, nothing else of the process runs."
MOST_ROWS = 1_000_000
"Rows that may wait for a disk; those beyond are counted."
SUFFIX = ".jsonl"
LEASE = "driver"
"Name of the file by which a driver says that it lives."
Role = Literal["driver", "led", "free"]
"""What a recorder is: that of a driver; one that ends with its driver, whatever kills it; or one
that ends with its process.
"""
_SHARED = "hyperslab_recorder"
"Attribute of Dask's class of connections that holds what is shared in a process."
_ENDS = "_hyperslab_ends_2"
"""Attribute of a connection that holds its ends and its conversation. It outlives a recorder, and
another version may record next: it gets another name whenever these are held otherwise.
"""
_INSIDE = "inproc://"
_NOWHERE = "unknown:0"
"Address of an end of which nothing can be said."
_PRELUDE_NBYTES = 16
_LENGTH_NBYTES = 8
"""Bytes that TCP's framing adds to a message, and to each of its frames, see
`distributed.comm.tcp`; other transports add them outside of what they count.
"""
_SOCKETS = (("stream",), ("sock", "stream"), ("handler", "ws_connection", "stream"))
"Ways from a transport to the stream that has its socket."


class Log:
    """The file of one process, to which a thread of its own writes."""

    def __init__(self, folder: str, role: Role) -> None:
        self.users = 0
        self.rows: list[tuple[Any, ...]] = []
        self.missed = 0
        "Messages that found no room since the last line was written."
        self._folder = folder
        self._role = role
        self._lease = os.path.join(folder, LEASE)
        self._changed = (0, time.monotonic())
        self._file: Any = None
        self._is_over = threading.Event()
        self._roles: dict[str, str] = {}
        self._thread = threading.Thread(target=self._record, name="hyperslab-recorder", daemon=True)
        self._thread.start()
        atexit.register(self.close)

    def take(self, row: tuple[Any, ...]) -> None:
        """Keep a message until the next flush."""
        if len(self.rows) < MOST_ROWS:
            self.rows.append(row)
            return
        self.missed += 1

    def close(self) -> None:
        """Have what there is written, and end; a disk that does not answer is not waited for."""
        self.end()
        self._thread.join(CLOSE_S)

    def end(self) -> None:
        """Have the thread end, after its last rows."""
        atexit.unregister(self.close)
        self._is_over.set()

    def is_writing(self) -> bool:
        """Whether the thread goes on."""
        return self._thread.is_alive()

    def _record(self) -> None:
        """Write until it is over, or until something goes wrong: then end in this process."""
        try:
            self._open()
            self._flush_often()
        except Exception as error:  # noqa: BLE001  # whatever disks and Dask's servers raise
            abandon(self._folder, str(error))
        if self._file is not None:
            with contextlib.suppress(OSError):  # of a full disk: closing writes once more
                self._file.close()

    def _open(self) -> None:
        name = f"{socket.gethostname()}-{os.getpid()}-{os.urandom(4).hex()}{SUFFIX}"
        if self._role != "led":  # one that is led would bring back what the driver has removed
            os.makedirs(self._folder, exist_ok=True)
        self._file = open(os.path.join(self._folder, name), "w", encoding="utf-8")  # noqa: SIM115
        self._put({"host": socket.gethostname(), "pid": os.getpid()})

    def _flush_often(self) -> None:
        while not self._is_over.wait(FLUSH_S):
            self._flush()
            if self._role == "driver":
                self._renew()
            if self._role == "led" and self._is_abandoned():
                abandon(self._folder)
        self._flush()

    def _renew(self) -> None:
        with contextlib.suppress(OSError), open(self._lease, "w", encoding="utf-8") as file:
            file.write(f"{time.time()}\n")

    def _is_abandoned(self) -> bool:
        """Whether the driver has not been heard of for long, by the clock of this host."""
        now = time.monotonic()
        with contextlib.suppress(OSError):
            seen = os.stat(self._lease).st_mtime_ns
            if seen != self._changed[0]:
                self._changed = (seen, now)
        return now - self._changed[1] > LEASE_S

    def _flush(self) -> None:
        roles = _roles()
        rows = self.rows[:]
        del self.rows[: len(rows)]  # others may have come behind them
        missed = self.missed
        self.missed -= missed
        if rows or missed or roles != self._roles:
            self._roles = roles
            self._put({"roles": roles, "missed": missed, **_columns(rows[:ROWS_AT_ONCE])})
        for first in range(ROWS_AT_ONCE, len(rows), ROWS_AT_ONCE):
            self._put(_columns(rows[first : first + ROWS_AT_ONCE]))

    def _put(self, line: dict[str, Any]) -> None:
        self._file.write(json.dumps(line, separators=(",", ":")) + "\n")
        self._file.flush()


def _columns(rows: list[tuple[Any, ...]]) -> dict[str, Any]:
    """Rows of a line, in which ends and operations stand once: it takes half as long to make, and
    is a fifth as long.
    """
    if not rows:
        return {}
    times, ways, said, sizes = zip(*rows, strict=True)
    from_ns = times[0]
    ways_known, ways_at = _placed(ways)
    said_known, said_at = _placed(said)
    since_ns = [time_ns - from_ns for time_ns in times]
    columns = [since_ns, ways_at, said_at, sizes]
    return {"from_ns": from_ns, "ways": ways_known, "said": said_known, "rows": columns}


def _placed(values: tuple[Any, ...]) -> tuple[list[Any], list[int]]:
    """Different values, and the place among them of each of all."""
    places: dict[Any, int] = {}
    at = [places.setdefault(value, len(places)) for value in values]
    return list(places), at


class Shared:
    """What all recorders of a process share: its logs by folder, and the functions that they
    replaced.
    """

    def __init__(self) -> None:
        self.logs: dict[str, Log] = {}
        "Never changed, but replaced by another one: event loops go through it at any time."
        self.lost: dict[str, str] = {}
        "Why a log has ended too early, by its folder."
        self.changing = threading.Lock()
        self.replaced: list[tuple[Any, str, Any]] = []
        self.sizes: contextvars.ContextVar[list[int] | None]
        self.sizes = contextvars.ContextVar("hyperslab_sizes", default=None)

    def replace(self, owner: Any, name: str, function: Any) -> None:
        self.replaced.append((owner, name, getattr(owner, name)))
        setattr(owner, name, function)


def start(folder: str, role: Role = "free") -> None:
    """Record the messages of this process into a folder, too; each call needs its `stop`, or its
    `stopped` on an event loop. Where it cannot be written to, `lost` says so.
    """
    from distributed.comm.core import Comm

    shared = Comm.__dict__.get(_SHARED)
    if shared is None:
        shared = Shared()
        setattr(Comm, _SHARED, shared)
    with shared.changing:
        if folder not in shared.logs:
            shared.logs = {**shared.logs, folder: Log(folder, role)}
        shared.logs[folder].users += 1
        if not shared.replaced:
            _wrap(shared)


def stop(folder: str) -> None:
    """End what a `start` began, and wait until its rows are written, where no event loop runs; the
    last one leaves Dask as it was.
    """
    log = _let_go(folder)
    if log is not None:
        log.close()
        _require_written(folder, log)


async def stopped(folder: str) -> None:
    """End what a `start` began, on an event loop, which goes on until the rows are written."""
    log = _let_go(folder)
    if log is None:
        return
    log.end()
    deadline = time.monotonic() + CLOSE_S
    while log.is_writing() and time.monotonic() < deadline:
        await asyncio.sleep(_LOOK_S)
    _require_written(folder, log)


def _let_go(folder: str) -> Log | None:
    """The log that has no users any more; None where others use it, or there is none."""
    from distributed.comm.core import Comm

    shared = Comm.__dict__.get(_SHARED)
    if shared is None:
        return None
    with shared.changing:
        log: Log | None = shared.logs.get(folder)
        if log is None:
            return None
        log.users -= 1
        if log.users:
            return None
        _end(shared, folder)
        return log


def _require_written(folder: str, log: Log) -> None:
    """Have it told where the last rows of a log are still not written."""
    from distributed.comm.core import Comm

    if log.is_writing():
        Comm.__dict__[_SHARED].lost[folder] = f"the disk did not answer within {CLOSE_S:g} s"


def abandon(folder: str, why: str = "") -> None:
    """End all that was begun for a folder: its driver is gone, or it cannot be written to."""
    from distributed.comm.core import Comm

    shared = Comm.__dict__[_SHARED]
    with shared.changing:
        if why:
            shared.lost[folder] = why
            sentence = "messages of this process are not recorded any more in %s: %s"
            logging.getLogger("hyperslab").warning(sentence, folder, why)
        if folder in shared.logs:
            shared.logs[folder].end()
            _end(shared, folder)


def lost(folder: str) -> str:
    """Why not all was recorded in this process, told once; '' where it was."""
    from distributed.comm.core import Comm

    shared = Comm.__dict__.get(_SHARED)
    if shared is None:
        return ""
    why: str = shared.lost.pop(folder, "")
    return why


def _end(shared: Any, folder: str) -> None:
    shared.logs = {other: log for other, log in shared.logs.items() if other != folder}
    while shared.replaced and not shared.logs:
        owner, name, original = shared.replaced.pop()
        setattr(owner, name, original)


def _wrap(shared: Any) -> None:
    """Replace `write` and `read` of every transport, and what makes messages of frames."""
    from distributed.comm import tcp
    from distributed.comm.core import Comm

    modules = {}
    for transport in [*_below(Comm)]:
        for name, wrapped in (("write", _writing), ("read", _reading)):
            if name in transport.__dict__:
                shared.replace(transport, name, wrapped(shared, getattr(transport, name)))
        modules[transport.__module__] = sys.modules[transport.__module__]
    for module in modules.values():
        if hasattr(module, "from_frames"):
            has_prelude = module is tcp
            counted = _counting(shared, module.from_frames, has_prelude)
            shared.replace(module, "from_frames", counted)


def _below(kind: Any) -> Iterator[Any]:
    for one in kind.__subclasses__():
        yield one
        yield from _below(one)


def _writing(shared: Any, write: Any) -> Any:
    @functools.wraps(write)
    async def recorded_write(comm: Any, message: Any, *args: Any, **more: Any) -> Any:
        ends = comm.__dict__.get(_ENDS) or _meet(comm)
        # Before it is sent: the answer may be there before this goes on.
        operations = _named(ends.conversation, message, True)
        nbytes = await write(comm, message, *args, **more)
        size = nbytes if ends.is_outside else 0
        row = (time.time_ns(), ends.sent, operations, size)
        for log in shared.logs.values():
            log.take(row)
        return nbytes

    return recorded_write


def _reading(shared: Any, read: Any) -> Any:
    @functools.wraps(read)
    async def recorded_read(comm: Any, *args: Any, **more: Any) -> Any:
        sizes: list[int] = []
        token = shared.sizes.set(sizes)
        try:
            message = await read(comm, *args, **more)
        finally:
            shared.sizes.reset(token)
        ends = comm.__dict__.get(_ENDS) or _meet(comm)
        operations = _named(ends.conversation, message, False)
        row = (time.time_ns(), ends.received, operations, sum(sizes))
        for log in shared.logs.values():
            log.take(row)
        return message

    return recorded_read


def _named(conversation: Any, message: Any, by_first: bool) -> Any:
    """Operations of a message; whatever is in one, its program is to have it."""
    try:
        return conversation.named(said_by(message), by_first)
    except Exception:  # noqa: BLE001  # of objects of the user's
        return ((UNDECODABLE, 1),)


def _counting(shared: Any, from_frames: Any, has_prelude: bool) -> Any:
    @functools.wraps(from_frames)
    def counted_frames(frames: Any, *args: Any, **more: Any) -> Any:
        sizes = shared.sizes.get()
        if sizes is not None:
            sizes.append(_size(frames, has_prelude))
        return from_frames(frames, *args, **more)

    return counted_frames


def _size(frames: Any, has_prelude: bool) -> int:
    """Bytes of a message; 0 where its frames are of kinds that nobody knows yet."""
    size = 0
    try:
        if has_prelude:
            size = _PRELUDE_NBYTES + _LENGTH_NBYTES * len(frames)
        for frame in frames:  # a generator takes twice as long
            size += getattr(frame, "nbytes", None) or len(frame)
    except Exception:  # noqa: BLE001
        return 0
    return size


class Ends:
    """A connection: what of it stands in each of its rows, made once."""

    __slots__ = ("conversation", "is_outside", "received", "sent")

    def __init__(self, local: str, peer: str) -> None:
        self.conversation = Conversation()
        self.is_outside = not local.startswith(_INSIDE)
        self.sent = (1, local, peer)
        self.received = (0, local, peer)


def _meet(comm: Any) -> Ends:
    """The ends of a connection that is seen for the first time."""
    try:
        local, peer = _addresses(comm)
    except Exception:  # noqa: BLE001  # of a transport of the user's
        local = peer = _NOWHERE
    ends = Ends(local, peer)
    comm.__dict__[_ENDS] = ends
    return ends


def _addresses(comm: Any) -> tuple[str, str]:
    """Addresses of this end and the other one, which both ends call the same: an address that a
    user gave may have the name of a host.
    """
    for path in _SOCKETS:
        end = comm
        for name in path:
            end = getattr(end, name, None)
        link = getattr(end, "socket", None)
        if link is not None:
            with contextlib.suppress(OSError):
                return _written(link.getsockname()), _written(link.getpeername())
    return _bare(comm.local_address), _bare(comm.peer_address)


def _bare(address: str) -> str:
    """An address without its protocol, unless it is one inside of a process."""
    if address.startswith(_INSIDE):
        return address
    return address.rpartition("://")[2]


def _written(name: Any) -> str:
    host, port = name[:2]
    if ":" in host:
        return f"[{host}]:{port}"
    return f"{host}:{port}"


def _roles() -> dict[str, str]:
    """What this process is, by '' and by the addresses at which it listens."""
    kinds = {
        "scheduler": ("distributed.scheduler", "Scheduler"),
        "worker": ("distributed.worker", "Worker"),
        "nanny": ("distributed.nanny", "Nanny"),
        "client": ("distributed.client", "Client"),
    }
    roles: dict[str, str] = {}
    for role, (module, name) in kinds.items():
        servers = getattr(getattr(sys.modules.get(module), name, None), "_instances", ())
        with contextlib.suppress(RuntimeError):  # another thread adds one: the next look sees it
            for server in itertools.islice(servers, 1000):
                if not _is_over(server):
                    _take(roles, role, server)
    return roles


def _is_over(server: Any) -> bool:
    """Whether a server or client has been closed, and only waits to be forgotten by Python."""
    status = getattr(server, "status", "")
    return getattr(status, "name", status) in ("closed", "failed")


def _take(roles: dict[str, str], role: str, server: Any) -> None:
    called = role
    if role in ("worker", "nanny"):
        called = f"{role} {str(server.name).rpartition('://')[2]}"
    roles.setdefault("", called)
    if role == "client":
        return
    # A server that has not begun to listen raises ValueError.
    with contextlib.suppress(ValueError, AttributeError):
        roles[str(server.address).rpartition("://")[2]] = called
