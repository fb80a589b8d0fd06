"""Measuring: all that a probe does with one place.

A quick look chooses the points: more clients until the rate grows no longer, each number tried
once. Then all points are measured as often as each other, in an order that is drawn anew for every
repetition, so that what else the machine does meets all of them alike.
"""

from __future__ import annotations

import random
import socket
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TypeAlias

from hyperslab.machine import numa
from hyperslab.storage.probing import faults, fio
from hyperslab.storage.probing.bench import LEAST_NAMES, NOT_COLD, READS, WRITES, Setting
from hyperslab.storage.probing.content import WINDOW_NBYTES
from hyperslab.storage.probing.operations import NAMED
from hyperslab.storage.probing.planning import EXTRA, NEEDED, WANTED, Step, chosen
from hyperslab.storage.probing.preparing import Options, Prepared, prepared
from hyperslab.storage.probing.records import (
    Compared,
    Curve,
    Latency,
    Measured,
    Opening,
    Point,
    Probed,
)
from hyperslab.storage.tiers.tier import Tier
from hyperslab.units import show_count, show_share

USUAL_NBYTES = 2**20
"Size of requests with which numbers of clients are compared."
REQUESTS = (4096, 65536, USUAL_NBYTES, WINDOW_NBYTES)
OPENED = (1, 16, 256, 4096, 2**14, 2**16, 2**18, 2**20, 2**22)
"Sizes of reads for which a file is opened each time, bytes."
SMALL_NBYTES = 4096
FLAT = 1.1
"Growth below which a look at more clients counts as none; two of them end it."
LOOKING_SHARE = 0.3
"Share of the time of a probe in which points are looked at."
COMPARED = 1.25
"Bytes that are compared in the end for a byte of the files: those read from memory, too."
Told: TypeAlias = Callable[[int, int], None]
"Who is told how many measurements are done, and of how many."


def probe(path: Path, tier: Tier, options: Options, told: Told) -> Probed:
    """Measure what the storage does that a path lies on, in a folder of our own that is removed.

    `tier` says what the path is made of. Raises UsageError for a path that cannot be written to,
    DoesNotFit for a disk that would become too full, StorageDamages where other bytes are read
    than were written, HyperslabError for storage that has failed, OSError for what else it answers.
    """
    if options.with_fio:
        fio.require()
    began_s = time.monotonic()
    with faults.told(path), prepared(path, options) as ready:
        probing = Probing(ready, options, told, began_s)
        probing.measure()
        ready.bench.compare_all()
        return Probed(
            path=str(path),
            host=socket.gethostname(),
            at_s=time.time(),
            took_s=time.monotonic() - began_s,
            tier=tier.as_json(),
            media=tuple(sorted(tier.media)),
            size_nbytes=ready.size_nbytes,
            repetitions=probing.repetitions,
            how_cold=probing.how_cold(),
            curves=probing.curves(),
            latency=probing.latency(),
            names=probing.names(),
            opening=probing.opening(),
            nodes=probing.nodes(),
            compared=probing.compared(),
            notes=(*ready.notes, *probing.notes(tier)),
        )


class Probing:
    """The measurements of one place, and what they have given so far."""

    def __init__(self, ready: Prepared, options: Options, told: Told, began_s: float) -> None:
        """`began_s` is the moment at which the probe has begun, by the monotonic clock."""
        self._bench = ready.bench
        self._size_nbytes = ready.size_nbytes
        self._options = options
        self._effort = options.effort
        self._most = ready.most_clients
        self._told = told
        self._began_s = began_s
        self._rates: dict[tuple[str, int, int], list[float]] = defaultdict(list)
        "Bytes per second by curve, clients and size of requests."
        self._names: dict[tuple[str, int], list[float]] = defaultdict(list)
        self._latency: dict[str, list[tuple[float, float]]] = defaultdict(list)
        self._opening: dict[tuple[int, bool], list[float]] = defaultdict(list)
        self._nodes: dict[str, dict[str, list[float]]] = {}
        self._fio: dict[Setting, list[float]] = defaultdict(list)
        self._looked: dict[Setting, float] = {}
        "Rates by the first look."
        self.repetitions = 0
        self._left_out = 0
        "Number of points for which there was no time."
        self._has_cold = False
        self._has_direct = False

    def measure(self) -> None:
        """Choose the points, and measure all of them."""
        self._has_cold = self._bench.has_cold()
        self._has_direct = self._bench.has_direct()
        found = list(self._steps())
        until_s = self._began_s + self._effort.budget_s - self._comparing_s()
        began_s = time.monotonic()
        effort = self._effort
        times = (effort.repetitions, effort.least_repetitions)
        plan = chosen(found, *times, max(0.0, until_s - began_s))
        self._left_out += plan.left_out
        total = len(plan.steps) * plan.repetitions
        order = random.Random(self._bench.seed)
        for repetition in range(plan.repetitions):
            now_s = time.monotonic()
            if repetition and now_s + (now_s - began_s) / repetition / 2 > until_s:
                break
            order.shuffle(plan.steps)
            for number, step in enumerate(plan.steps):
                step.act()
                self._told(repetition * len(plan.steps) + number + 1, total)
            self.repetitions += 1

    def _comparing_s(self) -> float:
        """Time that it takes to read all files again, about, for which it is kept."""
        reads = next(what for what in READS if what in self._curves())
        rate = self._looked[Setting(reads, 1, self._usual)]
        return COMPARED * self._size_nbytes / rate

    # Which points

    def _steps(self) -> Iterator[Step]:
        """All measurements of a repetition."""
        yield from self._steps_of_rates()
        for clients in self._numbers_of_clients():
            if clients == 1 or self._may_look():
                yield self._step_of_names(clients)
        short_s = self._effort.seconds
        for kind in self._kinds_of_latency():
            yield Step(partial(self._measure_latency, kind), NEEDED, short_s)
        largest = self._bench.kept[0][2]
        for nbytes in (size for size in OPENED if size <= largest):
            rank = EXTRA if nbytes > OPENED[0] else NEEDED
            yield Step(partial(self._measure_opening, nbytes), rank, short_s / 2)
        yield from self._steps_of_nodes()
        if self._options.with_fio:
            yield from self._steps_of_fio()

    def _steps_of_rates(self) -> Iterator[Step]:
        """Points of the curves: one client, numbers of them up to where a look finds no growth,
        then sizes of requests; as long as there is time to look.
        """
        curves = self._curves()
        for what in curves:
            yield self._look(Setting(what, 1, self._usual), NEEDED)
        for what in curves:
            yield from self._climb(what)
        for what in curves:
            for nbytes in REQUESTS:
                if nbytes != self._usual and nbytes <= self._longest(what) and self._may_look():
                    yield self._look(Setting(what, 1, nbytes), EXTRA)

    def _climb(self, what: str) -> Iterator[Step]:
        best = self._looked[Setting(what, 1, self._usual)]
        flat = 0
        for clients in self._numbers_of_clients()[1:]:
            if flat == 2 or not self._may_look():
                return
            setting = Setting(what, clients, self._usual)
            yield self._look(setting, WANTED)
            rate = self._looked[setting]
            if rate < FLAT * best:
                flat += 1
            best = max(best, rate)

    def _may_look(self) -> bool:
        """Whether there is time to look at one more point; it is left out if there is none."""
        if time.monotonic() < self._began_s + LOOKING_SHARE * self._effort.budget_s:
            return True
        self._left_out += 1
        return False

    def _look(self, setting: Setting, rank: int) -> Step:
        """Measure a point once, to know how long that takes."""
        self._told(0, 0)
        look = self._bench.scout(setting)
        self._looked[setting] = look.rate
        return Step(partial(self._measure_rate, setting), rank, look.took_s)

    def _step_of_names(self, clients: int) -> Step:
        """Operations on so many names that each kind takes about half the time of a measurement."""
        rates = self._bench.names(clients, LEAST_NAMES)
        count = self._bench.suitable_names(rates, clients)
        cost_s = sum(count * clients / rate for rate in rates.values())
        rank = WANTED if clients > 1 else NEEDED
        return Step(partial(self._measure_names, clients, count), rank, cost_s)

    def _steps_of_nodes(self) -> Iterator[Step]:
        found = numa.nodes()
        if len(found) < 2:
            return
        for node, cpus in found.items():
            cost_s = self._effort.seconds * len(self._curves())
            yield Step(partial(self._measure_node, node, cpus), WANTED, cost_s)

    def _steps_of_fio(self) -> Iterator[Step]:
        """Latencies, and points of one client and of as many as there are files, that fio can
        measure.
        """
        for kind in self._kinds_of_latency():
            if kind in fio.MEASURED_LATENCY:
                setting = Setting(kind, 1, SMALL_NBYTES)
                cost_s = self._effort.seconds + fio.START_S
                yield Step(partial(self._measure_latency_by_fio, setting), NEEDED, cost_s)
        for setting in self._looked:
            is_usual = setting.request_nbytes == self._usual
            if setting.what in fio.MEASURED and is_usual and setting.clients in (1, self._most):
                cost_s = self._effort.seconds + fio.START_S
                rank = WANTED if setting.clients > 1 else NEEDED
                yield Step(partial(self._measure_by_fio, setting), rank, cost_s)

    def _curves(self) -> list[str]:
        """Names of the curves that can be measured here."""
        absent = set()
        if not self._has_cold:
            absent.add("read-cold")
        if not self._has_direct:
            absent.add("write-direct")
        return [what for what in (*READS, *WRITES) if what not in absent]

    def _numbers_of_clients(self) -> list[int]:
        """Powers of two up to the most, and that."""
        powers = [2**n for n in range(self._most.bit_length())]
        return sorted({*(n for n in powers if n <= self._most), self._most})

    @property
    def _usual(self) -> int:
        """Size of requests with which numbers of clients are compared, of these files."""
        longest = self._bench.files[0][2]
        return max(nbytes for nbytes in REQUESTS if nbytes <= min(USUAL_NBYTES, longest))

    def _longest(self, what: str) -> int:
        if what == "read-cached":
            return self._bench.kept[0][2]
        return self._bench.files[0][2]

    def _kinds_of_latency(self) -> list[str]:
        kinds = ["cold"]
        if not self._has_cold:
            kinds = ["cached"]
        if self._has_direct:
            kinds.append("direct")
        return kinds

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

    def _measure_opening(self, nbytes: int) -> None:
        for once in (True, False):
            self._opening[nbytes, once].append(self._bench.opening(nbytes, once=once))

    def _measure_node(self, node: str, cpus: Sequence[int]) -> None:
        for what in self._curves():
            rate = self._bench.pinned(cpus, Setting(what, 1, self._usual))
            self._nodes.setdefault(node, defaultdict(list))[what].append(rate)

    def _measure_by_fio(self, setting: Setting) -> None:
        self._fio[setting].append(fio.rate(self._bench, setting))

    def _measure_latency_by_fio(self, setting: Setting) -> None:
        is_direct = setting.what == "direct"
        found_s = fio.latency(self._bench, setting.request_nbytes, is_direct=is_direct)
        self._fio[setting].append(found_s)

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
        """Points that fio has measured, too, and for which there was time on our side."""
        found = []
        for setting, values in self._fio.items():
            ours = self._rates.get(setting) or [median for median, _ in self._latency[setting.what]]
            if ours:
                found.append(Compared(*setting, Measured(tuple(ours)), Measured(tuple(values))))
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
        if self._left_out:
            points = show_count(self._left_out, "point")
            yield f"storage is so slow that there was no time for {points} of the curves"
        if self.repetitions < self._effort.repetitions:
            done = show_count(self.repetitions, "repetition")
            yield f"time was up after {done} of {self._effort.repetitions}"


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
