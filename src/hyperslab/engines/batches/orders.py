"""Orders: what all batches of a round share, in one file of the run directory that every worker
reads once.
"""

from __future__ import annotations

import functools
import os
import pickle
import socket
import threading
import uuid
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import cloudpickle

from hyperslab.engines.batches.inflight import FOLDER, remove
from hyperslab.errors import RunStopped
from hyperslab.machine.clock import Clock, Reference, compare
from hyperslab.plan.journal import SlotJournal
from hyperslab.plan.shipment import Shipment, unpack
from hyperslab.plan.task import Merge, StepFunction
from hyperslab.trace import Slot

PREFIX = "orders."
SUFFIX = ".pickle"


@dataclass(frozen=True, slots=True)
class Orders:
    """What a worker needs to run any batch of a round."""

    folder: Path
    name: str
    steps: tuple[StepFunction, ...]
    merge: Merge | None
    clock: Reference
    limit_nbytes: int
    "Largest value that travels through the engine."
    of_processes: bool
    """True where a worker is made of processes (Spark's executor), one for each of its slots, and
    not of threads.
    """
    on_driver: bool = False

    @property
    def marks(self) -> Path:
        """The folder of this round's marks, which exists while the round runs."""
        return self.folder / FOLDER / self.name


_loading = threading.Lock()
_loaded: dict[str, Orders] = {}


def round_name(number: int) -> str:
    """A name that no other round of any run has, so that a worker never takes it for one that it
    knows.
    """
    return f"r{number}.{uuid.uuid4().hex[:12]}"


def marks_of(place: str) -> Path:
    """The folder of the marks of the round whose orders lie at `place`."""
    path = Path(place)
    name = path.name.removeprefix(PREFIX).removesuffix(SUFFIX)
    return path.parent / FOLDER / name


def clear(folder: Path) -> None:
    """A round, or the run, has ended: take away its marks, so that its batches end, its orders, and
    batches that lie beside them.
    """
    remove(folder / FOLDER)
    for path in folder.glob(f"{PREFIX}*{SUFFIX}*"):
        path.unlink(missing_ok=True)


def write_secret(path: Path, data: bytes) -> None:
    """Make a file that nobody else may read, as the parameters of functions may be secret, and that
    nobody changes.
    """
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o400), "wb") as file:
        file.write(data)


def write_orders(
    folder: Path,
    name: str,
    steps: Sequence[StepFunction],
    merge: Merge | None,
    shipment: Shipment,
    clock: Reference,
    limit_nbytes: int,
    of_processes: bool = False,
) -> str:
    """Put the orders of a round where workers find them; returns the path."""
    path = folder / f"{PREFIX}{name}{SUFFIX}"
    orders = Orders(folder, name, tuple(steps), merge, clock, limit_nbytes, of_processes)
    write_secret(path, pickle.dumps((shipment, cloudpickle.dumps(orders))))
    _loaded.clear()
    _loaded[str(path)] = replace(orders, on_driver=True)  # Spark's trees end here
    orders.marks.mkdir(parents=True)
    return str(path)


def load_orders(path: str) -> Orders:
    """Read by every worker once; only the latest are kept."""
    with _loading:
        if path not in _loaded:
            shipment, payload = pickle.loads(Path(path).read_bytes())
            unpack(shipment)
            _loaded.clear()
            _loaded[path] = pickle.loads(payload)
        return _loaded[path]


@functools.lru_cache(maxsize=4)
def _clock(driver: Reference) -> Clock:
    return compare(driver)


def offset_ns(orders: Orders) -> int:
    return _clock(orders.clock).offset_ns


_lane: list[int] = []
"The number of this process among those of its host, if it knows it."


def serve_lane(number: int) -> None:
    """Take a number for this process, which serves tasks one at a time."""
    _lane[:] = [number]


_worker: list[int] = []
"The number by which this process is one worker with those that begin after it, if it has one."


def serve_worker(number: int) -> None:
    """Take the number of a worker whose processes follow each other, in the place of this one's
    own.
    """
    _worker[:] = [number]


def _own_slot(orders: Orders) -> Slot:
    host = socket.gethostname()
    if _lane:
        return Slot(host, _lane[0], 0)
    return Slot(host, _own_worker(orders), threading.get_native_id())


def _own_worker(orders: Orders) -> int:
    if _worker:
        return _worker[0]
    if orders.of_processes:
        return os.getppid()
    return os.getpid()


class _Open(threading.local):
    """The journal that this thread writes to."""

    name: tuple[Path, str] | None = None
    journal: SlotJournal | None = None


_open = _Open()


def own_journal(orders: Orders) -> SlotJournal:
    """One per thread and round. Its slot is named by process and thread, which the driver numbers,
    unless the process knows its lane.
    """
    if _open.journal is None or _open.name != (orders.folder, orders.name):
        if _open.journal is not None:
            with suppress(
                RunStopped
            ):  # of an earlier run, whose directory may be gone; it is not this run's matter
                _open.journal.close()
        slot = _own_slot(orders)
        incarnation = f"{os.getpid()}.{uuid.uuid4().hex[:8]}"
        _open.name = orders.folder, orders.name
        _open.journal = SlotJournal(
            orders.folder, str(slot), incarnation, orders.merge, _clock(orders.clock)
        )
    return _open.journal
