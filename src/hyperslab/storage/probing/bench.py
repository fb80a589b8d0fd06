"""Bench: one measurement after the other, on files that it has written before.

What is read cold, and what is read from the page cache, are different files, so that no measurement
changes what the next one finds.
"""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from hyperslab.storage.probing import caches
from hyperslab.storage.probing.clients import Clients, Done, Order
from hyperslab.storage.probing.content import PAGE_NBYTES
from hyperslab.storage.probing.folder import Folder
from hyperslab.storage.probing.operations import NAMED
from hyperslab.storage.probing.transfers import Segment

COLD = "cold."
"What the names of the files begin with that are read from storage; their number follows."
READS = ("read-cold", "read-cached")
WRITES = ("write", "write-direct")
NOT_COLD = 0.02
"Share of a file in the page cache from which on it is not called cold."
KEPT_NBYTES = 256 * 2**20
"Most bytes of the files that are read from the page cache."
TRIALS = 2
"Further looks at a point, if the one before was too short."
LEAST_NAMES, MOST_NAMES = 4, 2000
"Files of one client whose names are measured, at least and at most."
_REFUSED = (errno.EINVAL, errno.EOPNOTSUPP)
_FIRST_NBYTES = 2**20
"Bytes of a write of which nothing is known yet ..."
_FIRST_REQUESTS = 64
"... and the most requests that these are."


class Setting(NamedTuple):
    """One point of a curve of bytes."""

    what: str
    "Name of the curve: one of READS or WRITES."
    clients: int
    request_nbytes: int


class Look(NamedTuple):
    """What one measurement of a point gave."""

    rate: float
    took_s: float


@dataclass(slots=True)
class Bench:
    """What measures, in a folder of its own."""

    folder: Folder
    clients: Clients
    seconds: float
    "Time of one measurement."
    drops_caches: bool
    "Whether the kernel is to forget everything before reads from storage, which root may ask."
    files: list[Segment] = field(default_factory=list)
    "Files that are read from storage."
    kept: list[Segment] = field(default_factory=list)
    "Files that are read from the page cache."
    write_nbytes: int = 0
    "Most bytes of one measurement of writing."
    warm_share: float = 0.0
    "Largest share of the files that was in the page cache when they were to be cold."
    cold_share: float = 0.0
    "Largest share of the others that was not in it when they were to be."
    is_seen: bool = True
    "Whether it can be seen what is in the page cache."
    seed: int = 0
    _number: int = 0
    _rates: dict[tuple[str, int], float] = field(default_factory=dict)

    def first_write(self, nbytes: int) -> float:
        """Write and remove a file; the rate of that, bytes per second."""
        files = [self._new(nbytes)]
        rate = _rate_of_writes(self._write([files], 2**20, is_direct=False))["write"]
        _remove(files)
        return rate

    def write_files(self, size_nbytes: int, kept_nbytes: int, clients: int) -> None:
        """Write what is read later: as many files as clients at most, of this size together."""
        nbytes = _pages(size_nbytes / clients)
        kept_each_nbytes = _pages(kept_nbytes / clients)
        self.files = [self._new(nbytes, f"{COLD}{n}") for n in range(clients)]
        self.kept = [self._new(kept_each_nbytes, f"kept.{n}") for n in range(clients)]
        self._write([[*self.files, *self.kept]], 2**20, is_direct=False)
        self.write_nbytes = size_nbytes

    def has_cold(self) -> bool:
        """Whether files leave the page cache when they are asked to, or that cannot be seen."""
        resident = self._read(Setting("read-cold", 1, PAGE_NBYTES))[0].ready["resident"]
        self.is_seen = resident is not None
        return resident is None or resident <= NOT_COLD

    def has_direct(self) -> bool:
        """Whether files can be written past the page cache."""
        files = [self._new(PAGE_NBYTES)]
        try:
            self._write([files], PAGE_NBYTES, is_direct=True)
        except OSError as error:
            if error.errno not in _REFUSED:
                raise
            return False
        finally:
            _remove(files)
        return True

    def rates(self, setting: Setting, *, is_compared: bool = False) -> dict[str, float]:
        """Rates, bytes per second, by the name of their curve: one of reads; of buffered writes
        two, up to the last write and up to the last fsync.

        What was written is read back from storage and compared if asked for. Raises StorageDamages.
        """
        if setting.what in READS:
            done = self._read(setting)
            self._note(setting, done)
            return {setting.what: overlap_rate(done)}
        return self._writing_rates(setting, is_compared)

    def scout(self, setting: Setting) -> Look:
        """A first look at a setting, in a measurement that is long enough."""
        look = self._look(setting)
        if setting.what in READS:
            return look
        for _ in range(TRIALS):
            before = look
            look = self._look(setting)
            if look.rate < 2 * before.rate:
                break
        return look

    def _look(self, setting: Setting) -> Look:
        began_s = time.monotonic()
        rate = self.rates(setting)[setting.what]
        return Look(rate, time.monotonic() - began_s)

    def compare_all(self) -> None:
        """Read all files again, from storage, and compare every byte. Raises StorageDamages."""
        segments = [*self.files, *self.kept]
        self.clients.one(Order("compare", {"segments": segments, "is_cold": True}))

    def small_reads(self, nbytes: int, *, is_direct: bool) -> tuple[float, float]:
        """Median and 95th percentile of the times of small reads from storage, seconds."""
        self._forget()
        arguments = {
            "segments": self.files,
            "nbytes": nbytes,
            "seconds": self.seconds,
            "seed": self._next_number(),
            "is_direct": is_direct,
        }
        result = self.clients.one(Order("small_reads", arguments)).result
        return result["median_ns"] / 1e9, result["p95_ns"] / 1e9

    def names(self, clients: int, count: int) -> dict[str, float]:
        """Rates of the operations on names, per second, with so many files for each client."""
        folder = self.folder.path / "names"
        folder.mkdir(exist_ok=True)
        rates = {}
        for operation in NAMED:
            orders = [_names(operation, folder, client, count) for client in range(clients)]
            rates[operation] = overlap_rate(self.clients.together(orders))
        return rates

    def suitable_names(self, rates: Mapping[str, float], clients: int) -> int:
        """Files for each client, so that an operation takes about half the time of a measurement,
        by the rates that `names` has given for few.
        """
        wanted = min(rates.values()) * self.seconds / 2 / clients
        return int(min(max(wanted, LEAST_NAMES), MOST_NAMES))

    def opening(self, nbytes: int, *, once: bool) -> float:
        """Time of a read of a file that stays open, or is opened for it, seconds."""
        path, _, size = self.kept[0]
        arguments = {
            "path": path,
            "size": size,
            "nbytes": nbytes,
            "seconds": self.seconds / 8,
            "once": once,
        }
        result = self.clients.one(Order("opening", arguments)).result
        return float(result["elapsed_ns"] / 1e9 / result["count"])

    def pinned(self, cpus: Sequence[int], setting: Setting) -> float:
        """Rate of one client on these processors."""
        usual = sorted(os.sched_getaffinity(0))
        self.clients.one(Order("pin", {"cpus": cpus}))
        try:
            return self.rates(setting)[setting.what]
        finally:
            self.clients.one(Order("pin", {"cpus": usual}))

    def _known(self, setting: Setting) -> float:
        """Rate of a setting as far as it is known, of fewer clients if need be; 0: not at all."""
        return self._rates.get((setting.what, setting.request_nbytes), 0.0)

    def _writing_rates(self, setting: Setting, is_compared: bool) -> dict[str, float]:
        """Rates of writing new files, which are then removed."""
        nbytes = self.share(setting)
        batches = [[self._new(nbytes)] for _ in range(setting.clients)]
        files = [segment for batch in batches for segment in batch]
        is_direct = setting.what == "write-direct"
        try:
            done = self._write(batches, setting.request_nbytes, is_direct)
            if is_compared:
                orders = [Order("compare", {"segments": b, "is_cold": True}) for b in batches]
                self.clients.together(orders)
        finally:
            _remove(files)
        rates = _rate_of_writes(done)
        found = rates["write"]
        self._rates[setting.what, setting.request_nbytes] = max(self._known(setting), found)
        if is_direct:
            return {setting.what: found}
        return rates

    def share(self, setting: Setting) -> int:
        """Bytes that each client writes, so that it takes about the time of a measurement."""
        known = self._known(setting)
        wanted = known * self.seconds
        if not known:
            wanted = min(_FIRST_NBYTES, _FIRST_REQUESTS * setting.request_nbytes)
        total = min(wanted, self.write_nbytes)
        requests = round(total / setting.clients / setting.request_nbytes)
        return max(1, requests) * setting.request_nbytes

    def _write(
        self, batches: Sequence[Sequence[Segment]], request_nbytes: int, is_direct: bool
    ) -> list[Done]:
        orders = []
        for segments in batches:
            arguments = {
                "segments": segments,
                "request_nbytes": request_nbytes,
                "is_direct": is_direct,
            }
            orders.append(Order("write", arguments))
        return self.clients.together(orders)

    def _read(self, setting: Setting) -> list[Done]:
        is_cold = setting.what == "read-cold"
        files = self.kept
        if is_cold:
            self._forget()
            files = self.files
        orders = []
        for client in range(setting.clients):
            arguments = {
                "segments": files[client :: setting.clients],
                "request_nbytes": setting.request_nbytes,
                "seconds": self.seconds,
                "is_cold": is_cold,
            }
            orders.append(Order("read", arguments))
        return self.clients.together(orders)

    def _forget(self) -> None:
        if self.drops_caches:
            caches.drop_all()

    def _note(self, setting: Setting, done: Sequence[Done]) -> None:
        """Keep how far the page cache was as it was to be."""
        shares = [one.ready["resident"] for one in done]
        known = [share for share in shares if share is not None]
        if setting.what == "read-cold":
            self.warm_share = max(self.warm_share, *known, 0.0)
        else:
            self.cold_share = max(self.cold_share, *(1 - share for share in known), 0.0)

    def _new(self, nbytes: int, name: str = "") -> Segment:
        """A file that is to be written."""
        number = self._next_number()
        return str(self.folder.path / (name or f"new.{number}")), number, nbytes

    def _next_number(self) -> int:
        self._number += 1
        return self._number


def _names(operation: str, folder: Path, client: int, count: int) -> Order:
    arguments = {
        "operation": operation,
        "folder": str(folder),
        "client": client,
        "count": count,
    }
    return Order("names", arguments)


def _pages(nbytes: float) -> int:
    """Whole pages of so many bytes, one at least."""
    return max(1, int(nbytes) // PAGE_NBYTES) * PAGE_NBYTES


def _remove(files: Sequence[Segment]) -> None:
    for path, _, _ in files:
        Path(path).unlink(missing_ok=True)


def _rate_of_writes(done: Sequence[Done]) -> dict[str, float]:
    """Rates of all clients up to their last write (write-cached), and to their last fsync."""
    nbytes = sum(one.result["nbytes"] for one in done)
    start_ns = min(one.result["start_ns"] for one in done)
    ends = {"write-cached": "written_ns", "write": "end_ns"}
    rates = {}
    for what, moment in ends.items():
        end_ns = max(one.result[moment] for one in done)
        rates[what] = nbytes / (end_ns - start_ns) * 1e9
    return rates


def overlap_rate(done: Sequence[Done]) -> float:
    """Rate of all clients, per second, over the time in which all of them were at it; where there
    is none, from the first start to the last end.
    """
    marks = [one.result["marks"] for one in done]
    start_ns = max(own[0][0] for own in marks)
    end_ns = min(own[-1][0] for own in marks)
    if end_ns <= start_ns:
        start_ns = min(own[0][0] for own in marks)
        end_ns = max(own[-1][0] for own in marks)
    reached = [_reached(own, end_ns) - _reached(own, start_ns) for own in marks]
    return float(sum(reached) / (end_ns - start_ns) * 1e9)


def _reached(marks: Sequence[tuple[int, int]], moment_ns: int) -> float:
    """How far a client was at a moment, along a line between its marks."""
    if moment_ns <= marks[0][0]:
        return 0.0
    for (before_ns, before), (after_ns, after) in pairwise(marks):
        if moment_ns <= after_ns:
            if after_ns == before_ns:
                return after
            return before + (after - before) * (moment_ns - before_ns) / (after_ns - before_ns)
    return marks[-1][1]
