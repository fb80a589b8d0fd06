"""Measuring: all that a probe does with one place.

A quick look chooses the points: more clients until the rate grows no longer, each number tried
once. Then all points are measured as often as each other, in an order that is drawn anew for every
repetition, so that what else the machine does meets all of them alike.
"""

from __future__ import annotations

import os
import random
import socket
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeAlias

from hyperslab.errors import UsageError
from hyperslab.machine import numa
from hyperslab.storage.probing import caches, fio
from hyperslab.storage.probing.bench import (
    KEPT_NBYTES,
    MOST_NAMES,
    NOT_COLD,
    READS,
    WRITES,
    Bench,
    Setting,
)
from hyperslab.storage.probing.clients import Clients, new_seed
from hyperslab.storage.probing.content import PAGE_NBYTES, WINDOW_NBYTES
from hyperslab.storage.probing.folder import own_folder, sweep
from hyperslab.storage.probing.operations import NAMED
from hyperslab.storage.probing.records import (
    Compared,
    Curve,
    Latency,
    Measured,
    Opening,
    Point,
    Probed,
)
from hyperslab.storage.probing.space import require_directory, require_space, space_of
from hyperslab.storage.tiers.tier import Tier
from hyperslab.units import show_bytes, show_count, show_share

USUAL_NBYTES = 2**20
"Size of requests with which numbers of clients are compared."
REQUESTS = (4096, 65536, USUAL_NBYTES, WINDOW_NBYTES)
OPENED = (1, 16, 256, 4096, 2**14, 2**16, 2**18, 2**20, 2**22)
"Sizes of reads for which a file is opened each time, bytes."
SMALL_NBYTES = 4096
LEAST_NBYTES = 16 * 2**20
"Size of the files below which nothing is chosen by itself."
MOST_NBYTES = 2**30
STEADY_S = 2.0
"Time that writing the files takes, by the first impression."
FLAT = 1.1
"Growth below which a look at more clients counts as none; two of them end it."
NEEDED = 2.25
"Bytes on the disk at a time for a byte of the files: those read from memory, and those written."
_FIRST_NBYTES = 8 * 2**20
_GRANULE_NBYTES = 65536

Told: TypeAlias = Callable[[int, int], None]
"Who is told how many measurements are done, and of how many."


@dataclass(frozen=True, slots=True)
class Effort:
    """How much is measured."""

    seconds: float
    "Time of one measurement."
    repetitions: int
    least_repetitions: int
    "Repetitions after which time may be up."
    budget_s: float
    "Time after which no further repetition begins, if that many are done."


FULL = Effort(0.2, 5, 3, 40.0)
QUICK = Effort(0.05, 3, 2, 10.0)


@dataclass(frozen=True, slots=True)
class Options:
    """How a place is to be probed."""

    size_nbytes: int | None = None
    "Bytes of the files that are read from storage; None: what suits it."
    effort: Effort = FULL
    most_clients: int | None = None
    "Most processes at a time; None: by the processors."
    drops_caches: bool = False
    with_fio: bool = False
    "Whether fio is to measure some of the points, too."


def usual_clients() -> int:
    """Processes at a time up to which rates are measured: a power of two, at least 4."""
    cpus = len(os.sched_getaffinity(0))
    return min(32, max(4, 1 << (cpus - 1).bit_length()))


def probe(path: Path, tier: Tier, options: Options, told: Told) -> Probed:
    """Measure what the storage does that a path lies on, in a folder of our own that is removed.

    `tier` says what the path is made of. Raises UsageError for a path that cannot be written to,
    DoesNotFit for a disk that would become too full, StorageDamages where other bytes are read
    than were written, OSError for what the storage answers.
    """
    place = require_directory(path)
    if options.drops_caches:
        _require_dropping()
    if options.with_fio:
        fio.require()
    began_s = time.monotonic()
    swept, left = sweep(place)
    notes = [f"{one} was left by a probe that died, and is removed now" for one in swept]
    notes += [
        f"{one} was left by a probe, perhaps; remove it if none is at work there" for one in left
    ]
    most = options.most_clients or usual_clients()
    size_nbytes = _fitting(place, options.size_nbytes, most)
    seed = new_seed()
    with own_folder(place) as folder, Clients(folder, seed) as clients:
        seconds = options.effort.seconds
        bench = Bench(folder, clients, seconds, options.drops_caches, seed=seed)
        if options.size_nbytes is None:
            size_nbytes = _suitable(bench, size_nbytes, most, options.effort)
        bench.write_files(size_nbytes, _kept(size_nbytes), most)
        probing = Probing(bench, options, most, told)
        probing.measure()
        bench.compare_all()
        notes += probing.notes(tier)
        return Probed(
            path=str(path),
            host=socket.gethostname(),
            at_s=time.time(),
            took_s=time.monotonic() - began_s,
            tier=tier.as_json(),
            media=tuple(sorted(tier.media)),
            size_nbytes=size_nbytes,
            repetitions=probing.repetitions,
            how_cold=probing.how_cold(),
            curves=probing.curves(),
            latency=probing.latency(),
            names=probing.names(),
            opening=probing.opening(),
            nodes=probing.nodes(),
            compared=probing.compared(),
            notes=tuple(notes),
        )


def _require_dropping() -> None:
    if not os.access(caches.DROP_CACHES, os.W_OK):
        raise UsageError(
            f"--drop-caches: {caches.DROP_CACHES} can be written by root alone; leave it out, and"
            " only the pages of the probe's own files are dropped"
        )


def _fitting(place: Path, asked_nbytes: int | None, clients: int) -> int:
    """Size of the files: the one that was asked for, or the largest that fits. Raises DoesNotFit
    where it does not, and UsageError where it is too small to be shared by the clients.
    """
    least = clients * _GRANULE_NBYTES
    wanted = asked_nbytes or LEAST_NBYTES
    if wanted < least:
        raise UsageError(
            f"--size {show_bytes(wanted)}: {clients} clients need {show_bytes(least)} at least;"
            " give more, or fewer --clients"
        )
    require_space(place, int(NEEDED * wanted), clients * (2 + MOST_NAMES))
    if asked_nbytes:
        return _rounded(asked_nbytes, clients)
    largest = int(space_of(place).usable_nbytes / NEEDED)
    return _rounded(min(largest, MOST_NBYTES), clients)


def _rounded(nbytes: int, clients: int) -> int:
    granule = clients * _GRANULE_NBYTES
    return nbytes // granule * granule


def _suitable(bench: Bench, largest_nbytes: int, clients: int, effort: Effort) -> int:
    """Size by a first impression of how fast it is written: so that there is something to read for
    the time of a measurement, and writing it does not take long.
    """
    rate = bench.first_write(min(_FIRST_NBYTES, largest_nbytes))
    steady_s = STEADY_S * effort.seconds / FULL.seconds
    wanted = max(LEAST_NBYTES, int(rate * steady_s))
    return _rounded(min(wanted, largest_nbytes), clients)


def _kept(size_nbytes: int) -> int:
    """Size of the files that are read from the page cache: it is to hold them all the time."""
    available = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return max(PAGE_NBYTES, min(size_nbytes // 4, KEPT_NBYTES, available // 4))


class Probing:
    """The measurements of one place, and what they have given so far."""

    def __init__(self, bench: Bench, options: Options, most_clients: int, told: Told) -> None:
        self._bench = bench
        self._options = options
        self._most = most_clients
        self._told = told
        self._rates: dict[tuple[str, int, int], list[float]] = defaultdict(list)
        "Bytes per second by curve, clients and size of requests."
        self._names: dict[tuple[str, int], list[float]] = defaultdict(list)
        self._latency: dict[str, list[tuple[float, float]]] = defaultdict(list)
        self._opening: dict[tuple[int, bool], list[float]] = defaultdict(list)
        self._nodes: dict[str, dict[str, list[float]]] = {}
        self._fio: dict[Setting, list[float]] = defaultdict(list)
        self._done = 0
        self._total = 0
        self.repetitions = 0
        self._is_late = False
        self._has_cold = False
        self._has_direct = False

    def measure(self) -> None:
        """Choose the points, and measure all of them."""
        self._has_cold = self._bench.has_cold()
        self._has_direct = self._bench.has_direct()
        steps = list(self._steps())
        effort = self._options.effort
        self._total = len(steps) * effort.repetitions
        until_s = time.monotonic() + effort.budget_s
        order = random.Random(self._bench.seed)
        for repetition in range(effort.repetitions):
            if repetition >= effort.least_repetitions and time.monotonic() > until_s:
                self._is_late = True
                break
            order.shuffle(steps)
            for step in steps:
                step()
                self._done += 1
                self._told(self._done, self._total)
            self.repetitions += 1

    def _steps(self) -> Iterator[Callable[[], None]]:
        """All measurements of a repetition."""
        settings = list(self._settings())
        for setting in settings:
            yield partial(self._measure_rate, setting)
        for clients in self._numbers_of_clients():
            yield partial(self._measure_names, clients, self._names_of_each(clients))
        for kind in self._kinds_of_latency():
            yield partial(self._measure_latency, kind)
        largest = self._bench.kept[0][2]
        for nbytes in (size for size in OPENED if size <= largest):
            yield partial(self._measure_opening, nbytes, once=True)
            yield partial(self._measure_opening, nbytes, once=False)
        found = numa.nodes()
        if len(found) > 1:
            for node, cpus in found.items():
                yield partial(self._measure_node, node, cpus)
        if self._options.with_fio:
            for setting in self._settings_of_fio(settings):
                yield partial(self._measure_by_fio, setting)

    # Which points

    def _curves(self) -> list[str]:
        """Names of the curves that can be measured here."""
        absent = set()
        if not self._has_cold:
            absent.add("read-cold")
        if not self._has_direct:
            absent.add("write-direct")
        return [what for what in (*READS, *WRITES) if what not in absent]

    def _settings(self) -> Iterator[Setting]:
        """Points of the curves: numbers of clients up to where a look finds no growth, then sizes
        of requests.
        """
        for what in self._curves():
            yield from self._climb(what)
            for nbytes in REQUESTS:
                if nbytes != self._usual and nbytes <= self._longest(what):
                    setting = Setting(what, 1, nbytes)
                    self._look(setting)
                    yield setting

    def _climb(self, what: str) -> Iterator[Setting]:
        best = 0.0
        flat = 0
        for clients in self._numbers_of_clients():
            setting = Setting(what, clients, self._usual)
            rate = self._look(setting)
            yield setting
            if rate < FLAT * best:
                flat += 1
            if flat == 2:
                return
            best = max(best, rate)

    def _numbers_of_clients(self) -> list[int]:
        """Powers of two up to the most, and that."""
        powers = [2**n for n in range(self._most.bit_length())]
        return sorted({*(n for n in powers if n <= self._most), self._most})

    def _look(self, setting: Setting) -> float:
        self._told(self._done, 0)
        return self._bench.scout(setting)

    @property
    def _usual(self) -> int:
        """Size of requests with which numbers of clients are compared, of these files."""
        longest = self._bench.files[0][2]
        return max(nbytes for nbytes in REQUESTS if nbytes <= min(USUAL_NBYTES, longest))

    def _longest(self, what: str) -> int:
        if what == "read-cached":
            return self._bench.kept[0][2]
        return self._bench.files[0][2]

    def _names_of_each(self, clients: int) -> int:
        """Files of each client, so that an operation takes about the time of a measurement."""
        rates = self._bench.names(clients, 16)
        wanted = min(rates.values()) * self._bench.seconds / 2 / clients
        return int(min(max(wanted, 16), MOST_NAMES))

    def _kinds_of_latency(self) -> list[str]:
        kinds = ["cold"]
        if not self._has_cold:
            kinds = ["cached"]
        if self._has_direct:
            kinds.append("direct")
        return kinds

    def _settings_of_fio(self, settings: Sequence[Setting]) -> Iterator[Setting]:
        """Points of one client, and of as many as there are files, that fio can measure."""
        for setting in settings:
            is_usual = setting.request_nbytes == self._usual
            if setting.what in fio.MEASURED and is_usual and setting.clients in (1, self._most):
                yield setting

    # One measurement

    def _measure_rate(self, setting: Setting) -> None:
        is_first = self.repetitions == 0
        rates = self._bench.rates(setting, is_compared=is_first)
        for what, rate in rates.items():
            self._rates[what, setting.clients, setting.request_nbytes].append(rate)

    def _measure_names(self, clients: int, count: int) -> None:
        for operation, rate in self._bench.names(clients, count).items():
            self._names[operation, clients].append(rate)

    def _measure_latency(self, kind: str) -> None:
        times = self._bench.small_reads(SMALL_NBYTES, is_direct=kind == "direct")
        self._latency[kind].append(times)

    def _measure_opening(self, nbytes: int, *, once: bool) -> None:
        self._opening[nbytes, once].append(self._bench.opening(nbytes, once=once))

    def _measure_node(self, node: str, cpus: Sequence[int]) -> None:
        for what in self._curves():
            rate = self._bench.pinned(cpus, Setting(what, 1, self._usual))
            self._nodes.setdefault(node, defaultdict(list))[what].append(rate)

    def _measure_by_fio(self, setting: Setting) -> None:
        self._fio[setting].append(fio.rate(self._bench, setting))

    # What came of them

    def curves(self) -> dict[str, Curve]:
        """Curves of bytes by their names."""
        points = defaultdict(list)
        for (what, clients, nbytes), values in sorted(self._rates.items()):
            points[what].append(Point(clients, nbytes, Measured(tuple(values))))
        return {what: Curve(tuple(own)) for what, own in points.items()}

    def names(self) -> dict[str, Curve]:
        """Curves of operations on names."""
        points = defaultdict(list)
        for (operation, clients), values in sorted(self._names.items()):
            points[operation].append(Point(clients, 0, Measured(tuple(values))))
        return {operation: Curve(tuple(points[operation])) for operation in NAMED}

    def latency(self) -> dict[str, Latency]:
        """Latencies by their kind."""
        found = {}
        for kind, times in sorted(self._latency.items()):
            medians, highs = zip(*times, strict=True)
            found[kind] = Latency(SMALL_NBYTES, Measured(medians), Measured(highs))
        return found

    def opening(self) -> tuple[Opening, ...]:
        """What opening costs, by the size of reads."""
        found = []
        for nbytes, once in sorted(self._opening):
            if once:
                each = Measured(tuple(self._opening[nbytes, False]))
                found.append(Opening(nbytes, each, Measured(tuple(self._opening[nbytes, True]))))
        return tuple(found)

    def nodes(self) -> dict[str, dict[str, Measured]]:
        """Rates by node and curve."""
        return {
            node: {what: Measured(tuple(values)) for what, values in rates.items()}
            for node, rates in self._nodes.items()
        }

    def compared(self) -> tuple[Compared, ...]:
        """Points that fio has measured, too."""
        found = []
        for setting, values in self._fio.items():
            ours = Measured(
                tuple(self._rates[setting.what, setting.clients, setting.request_nbytes])
            )
            found.append(Compared(*setting, ours, Measured(tuple(values))))
        return tuple(found)

    def how_cold(self) -> str:
        """How reads were made to come from storage; '' where they were not."""
        if not self._has_cold:
            return ""
        if self._options.drops_caches:
            return "/proc/sys/vm/drop_caches, by root"
        return "posix_fadvise(POSIX_FADV_DONTNEED) on each file"

    def notes(self, tier: Tier) -> Iterable[str]:
        """What limits the numbers, in sentences without a full stop."""
        bench = self._bench
        if not self._has_cold:
            yield (
                "files stay in memory, whatever is asked for: nothing here is read from anywhere"
                " else, so that there are no cold reads to be measured"
            )
        elif bench.warm_share > NOT_COLD:
            yield (
                f"up to {show_share(bench.warm_share)} of the files were still in the page cache"
                " when they were to be read cold: cold rates are too high"
            )
        if not bench.is_seen:
            yield "it cannot be seen here what of a file is in the page cache"
        if bench.cold_share > NOT_COLD:
            yield (
                f"up to {show_share(bench.cold_share)} of the files were not in the page cache when"
                " they were to be read from there: memory is short"
            )
        if self._has_cold and tier.medium in _HELD_ELSEWHERE:
            yield _HELD_ELSEWHERE[tier.medium]
        if not self._has_direct:
            yield "direct writes (O_DIRECT) are refused by this file system"
        if self._is_late:
            done = show_count(self.repetitions, "repetition")
            yield f"time was up after {done} of {self._options.effort.repetitions}"


_SERVER = "what a server holds in its own memory counts as storage here, and may be read faster"
_HELD_ELSEWHERE: Mapping[str, str] = {
    "network": _SERVER,
    "lustre": _SERVER,
    "beegfs": _SERVER,
    "fuse": "what the program behind this file system holds in memory counts as storage here",
    "block": (
        "the disk of a virtual machine, perhaps: what its host holds in memory counts as storage"
    ),
}
"What a page cache that is out of reach means for cold reads, by the kind of the medium."
