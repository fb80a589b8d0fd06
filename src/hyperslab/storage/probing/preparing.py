"""Preparing: what is asked of a probe, and the files in a folder of our own that it needs."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from hyperslab.errors import UsageError
from hyperslab.storage.probing import caches
from hyperslab.storage.probing.bench import KEPT_NBYTES, MOST_NAMES, Bench
from hyperslab.storage.probing.clients import Clients, new_seed
from hyperslab.storage.probing.content import PAGE_NBYTES
from hyperslab.storage.probing.folder import own_folder, sweep
from hyperslab.storage.probing.space import require_directory, require_space, space_of
from hyperslab.units import show_bytes

LEAST_NBYTES = 16 * 2**20
"Size of the files below which nothing is chosen by itself, unless storage is so slow."
MOST_NBYTES = 2**30
STEADY_S = 2.0
"Time that writing the files takes, by the first impression."
SLOW_SHARE = 0.05
"Share of the time of a probe that writing the files of the least size may take."
NEEDED = 2.25
"Bytes on the disk at a time for a byte of the files: those read from memory, and those written."
_IMPRESSIONS = (2**19, 2**23, 2**26)
"""Bytes that are written for a first impression; larger ones where that takes less than a moment,
as in front of a slow medium there may be memory that takes the first ones.
"""
_MOMENT_S = 0.1
_GRANULE_NBYTES = 65536


@dataclass(frozen=True, slots=True)
class Effort:
    """How much is measured."""

    seconds: float
    "Time of one measurement."
    repetitions: int
    least_repetitions: int
    "Repetitions after which time may be up, and for which there is time by the plan."
    budget_s: float
    "Time of a probe, about."


FULL = Effort(0.2, 5, 3, 60.0)
QUICK = Effort(0.05, 3, 2, 12.0)


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


@dataclass(frozen=True, slots=True)
class Prepared:
    """A place in which all is ready to be measured."""

    bench: Bench
    size_nbytes: int
    "Bytes of the files that are read from storage."
    most_clients: int
    notes: tuple[str, ...]
    "What was found there, as sentences without a full stop."


def usual_clients() -> int:
    """Processes at a time up to which rates are measured: a power of two, at least 4."""
    cpus = len(os.sched_getaffinity(0))
    return min(32, max(4, 1 << (cpus - 1).bit_length()))


@contextmanager
def prepared(path: Path, options: Options) -> Iterator[Prepared]:
    """Write the files that are read later, in a folder of our own that goes with the block; what
    dead probes have left there goes, too.

    Raises UsageError for a path that cannot be written to, and DoesNotFit for a disk that would
    become too full.
    """
    place = require_directory(path)
    if options.drops_caches:
        _require_dropping()
    notes = _swept(place)
    most = options.most_clients or usual_clients()
    size_nbytes = _fitting(place, options.size_nbytes, most)
    seed = new_seed()
    effort = options.effort
    with own_folder(place) as folder, Clients(folder, seed) as clients:
        bench = Bench(folder, clients, effort.seconds, options.drops_caches, seed=seed)
        if options.size_nbytes is None:
            size_nbytes = _suitable(bench, size_nbytes, most, effort)
        bench.write_files(size_nbytes, _kept(size_nbytes), most)
        yield Prepared(bench, size_nbytes, most, notes)


def _swept(place: Path) -> tuple[str, ...]:
    """What is to be told of folders of earlier probes."""
    swept, left = sweep(place)
    gone = [f"{one} was left by a probe that died, and is removed now" for one in swept]
    unknown = [
        f"{one} was left by a probe, perhaps; remove it if none is at work there" for one in left
    ]
    return (*gone, *unknown)


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
    return max(1, nbytes // granule) * granule


def _suitable(bench: Bench, largest_nbytes: int, clients: int, effort: Effort) -> int:
    """Size by a first impression of how fast it is written: so that there is something to read for
    the time of a measurement, and writing it does not take long.
    """
    rate = 0.0
    for nbytes in _IMPRESSIONS:
        rate = bench.first_write(min(nbytes, largest_nbytes))
        if nbytes / rate > _MOMENT_S:
            break
    steady_s = STEADY_S * effort.seconds / FULL.seconds
    least = min(LEAST_NBYTES, int(rate * effort.budget_s * SLOW_SHARE))
    wanted = max(least, int(rate * steady_s))
    return _rounded(min(wanted, largest_nbytes), clients)


def _kept(size_nbytes: int) -> int:
    """Size of the files that are read from the page cache: it is to hold them all the time."""
    available = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return max(PAGE_NBYTES, min(size_nbytes // 4, KEPT_NBYTES, available // 4))
