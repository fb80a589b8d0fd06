"""How two arrays, or two sets of files, differ in values and headers; in bounded memory, block by
block.

- the result does not depend on blocks, threads and memory, unless the comparison stops at the first
  difference (`tests/apps/test_difference.py`)
- what is held at once is no more than `memory_bytes` (`tests/apps/test_difference_memory.py`)
"""

from __future__ import annotations

import math
import tempfile
import threading
from collections import deque
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, get_args

import numpy as np

from hyperslab.apps.difference.found import (
    Comparison,
    Difference,
    Element,
    HeaderDifference,
    ValueDifference,
)
from hyperslab.apps.difference.headers import compare_headers, compare_storage, say_shape
from hyperslab.apps.difference.pairing import Pair, Source, Together, name_of, pair, say
from hyperslab.apps.difference.side import Side, side
from hyperslab.apps.difference.traversal import peak, tiles, too_little, traverse
from hyperslab.apps.difference.values import Tolerance, are_comparable, compare
from hyperslab.arrays import Array
from hyperslab.arrays.partition import Partition
from hyperslab.arrays.slab import Hyperslab
from hyperslab.arrays.source import Values
from hyperslab.errors import HyperslabError, UsageError
from hyperslab.machine.host import MEMORY_SHARE, Host
from hyperslab.plan.task import label_of
from hyperslab.report.progress import Progress, Quiet
from hyperslab.units import show_bytes

TOLD_NBYTES = 100_000_000
"Fewer bytes in memory are compared without a word on progress: in less than a second."
TOLD_PAIRS = 100
_AHEAD = 4
"Blocks per thread that wait, so that no thread does."


@dataclass(frozen=True, slots=True)
class _How:
    """What was asked for."""

    values: Values
    tolerance: Tolerance
    first: bool
    headers: bool
    attributes: bool
    memory_nbytes: int
    threads: int
    progress: Progress
    stopping: threading.Event = field(default_factory=threading.Event)


def diff(
    a: Source,
    b: Source,
    *,
    values: Values = "real",
    atol: float = 0.0,
    rtol: float = 0.0,
    first: bool = False,
    headers: bool = True,
    attributes: bool = True,
    sources: Together = "auto",
    axis: int = 0,
    storage_options: Mapping[str, Any] | None = None,
    memory_bytes: int | None = None,
    threads: int | None = None,
    progress: Progress | None = None,
) -> Comparison:
    """Compare two sources, each anything that `hyperslab.gather` takes: values and headers.

    `sources` says how the files of a source with several belong together: as `independent` arrays,
    each compared with the file of the same name (but for folders above and suffixes), or one array,
    `concatenated` along `axis` or a `mosaic`. By default ('auto'), files of equal names on both
    sides are independent, others blocks of a mosaic. Two numbers are equal if they are the same
    number, whatever their dtypes, and NaN equals NaN; with `atol` or `rtol` also if |a - b| <= atol
    + rtol * |b|, as in numpy.allclose. `first` stops at the first block that differs. Without
    `headers` values alone are compared, without `attributes` geometry, dtypes, units and scaling
    alone. `storage_options` are what fsspec is given with URLs.

    Memory is for blocks and what reading them takes, by default 80 % of what is available, shared
    by the threads, by default one per processor. Raises UsageError for sources that are not there
    or make no array, or too little memory, FormatError for files that cannot be read, SourceChanged
    for those written to meanwhile; where several pairs are compared, such a pair has its reason in
    `trouble` and the others continue.
    """
    how = _How(
        _chosen(values),
        Tolerance(_not_negative("atol", atol), _not_negative("rtol", rtol)),
        first,
        headers,
        attributes,
        _positive("memory", memory_bytes) or int(Host.here().memory_bytes * MEMORY_SHARE),
        _positive("threads", threads) or Host.here().cpus,
        progress or Quiet(),
    )
    pairing = pair(a, b, sources, axis, storage_options)
    if len(pairing.pairs) == 1 and not pairing.only_a and not pairing.only_b:
        return Comparison((_compare(pairing.pairs[0], how),))
    return Comparison(tuple(_compare_all(pairing.pairs, how)), pairing.only_a, pairing.only_b)


def _chosen(values: Values) -> Values:
    if values not in get_args(Values):
        raise UsageError(f"--values {values}: choose one of {', '.join(get_args(Values))}")
    return values


def _not_negative(name: str, number: float) -> float:
    if not 0 <= number < np.inf:
        raise UsageError(f"--{name} {number:g}: give a number of 0 or more")
    return number


def _positive(name: str, number: int | None) -> int | None:
    if number is not None and number < 1:
        raise UsageError(f"--{name} {number}: give 1 or more")
    return number


def _compare_all(pairs: tuple[Pair, ...], how: _How) -> Iterator[Difference]:
    """One pair after the other; one that cannot be compared is a result, too."""
    quiet = replace(how, progress=Quiet())
    with _progress(how, len(pairs), 0, len(pairs) >= TOLD_PAIRS) as progress:
        for each in pairs:
            try:
                found = _compare(each, quiet)
            except HyperslabError as error:
                found = Difference(name_of(each.a), name_of(each.b), trouble=str(error))
            progress.advance(0)
            yield found
            if how.first and not found.same:
                return


def _compare(each: Pair, how: _How) -> Difference:
    a, b = each.open()
    names = (say(each.a, a), say(each.b, b))
    shapes = (a.wholes[0].shape, b.wholes[0].shape)
    if shapes[0] != shapes[1]:
        return Difference(*names, (HeaderDifference("shape", *map(say_shape, shapes)),))
    ours = side(a, how.values)
    theirs = side(b, how.values)
    headers: list[HeaderDifference] = []
    storage: tuple[HeaderDifference, ...] = ()
    if how.headers:
        headers = compare_headers(a, b, how.attributes)
        storage = tuple(compare_storage(a, b))
    found = None
    if are_comparable(ours.dtype, theirs.dtype):
        found = _compare_values(ours, theirs, how)
    else:
        why = "these values cannot be compared one by one"
        kinds = HeaderDifference("kind of values", str(ours.dtype), str(theirs.dtype), why)
        headers.insert(0, kinds)
    return Difference(*names, tuple(headers), storage, found)


def _compare_values(a: Side, b: Side, how: _How) -> ValueDifference:
    """All blocks, in parallel; results are added up in the order of the blocks."""
    partition, slots, _ = traverse(a, b, how.memory_nbytes, how.threads)
    itemsize = a.dtype.itemsize + b.dtype.itemsize
    total = ValueDifference()
    nbytes = math.prod(partition.shape) * itemsize
    with (
        _threads(slots, how.stopping) as pool,
        tempfile.TemporaryDirectory(prefix="hyperslab-diff-") as folder,
    ):
        a, b = _indexed(a, b, partition, Path(folder), pool, how)
        with _progress(how, len(partition), nbytes, nbytes >= TOLD_NBYTES) as progress:
            for slab, found in _blocks(a, b, partition, pool, slots, how):
                total += found
                progress.advance(slab.size * itemsize)
                if how.first and total.differing:
                    break
    return total


@contextmanager
def _threads(number: int, stopping: threading.Event) -> Iterator[ThreadPoolExecutor]:
    """Threads that end, whatever happens, with what they are at; what waits is dropped."""
    pool = ThreadPoolExecutor(number, "hyperslab-diff")
    try:
        yield pool
    finally:
        stopping.set()
        pool.shutdown(cancel_futures=True)
        stopping.clear()


@contextmanager
def _progress(how: _How, tasks: int, nbytes: int, told: bool) -> Iterator[Progress]:
    progress: Progress = Quiet()
    if told:
        progress = how.progress
    progress.begin(tasks, nbytes)
    try:
        yield progress
    finally:
        progress.end()


def _indexed(
    a: Side, b: Side, partition: Partition, folder: Path, pool: ThreadPoolExecutor, how: _How
) -> tuple[Side, Side]:
    """The sides with indexes of the gzip files that several blocks read."""

    def watch(_: int) -> None:
        if how.stopping.is_set():
            raise InterruptedError("the comparison was stopped")

    nbytes = sum(s.sources[n].file_size for s in (a, b) for n in s.to_be_indexed(partition))
    if nbytes > TOLD_NBYTES:
        how.progress.tell(f"indexing {show_bytes(nbytes)} of gzip files, once for all blocks")
    waiting = [
        {n: pool.submit(s.indexed, n, folder, watch) for n in s.to_be_indexed(partition)}
        for s in (a, b)
    ]
    ours, theirs = ({number: made.result() for number, made in found.items()} for found in waiting)
    return a.over(ours), b.over(theirs)


def _blocks(
    a: Side, b: Side, partition: Partition, pool: ThreadPoolExecutor, slots: int, how: _How
) -> Iterator[tuple[Hyperslab, ValueDifference]]:
    """Every block and what differs in it, in order; as many are under way as the memory holds."""
    waiting: deque[tuple[Hyperslab, int, Future[ValueDifference]]] = deque()
    for slab in partition:
        if (needed := peak(a, b, slab)) > how.memory_nbytes:
            raise too_little(needed, how.memory_nbytes)
        while waiting and (
            len(waiting) >= _AHEAD * slots
            or needed + sum(n for _, n, future in waiting if not future.done()) > how.memory_nbytes
        ):
            done, _, future = waiting.popleft()
            yield done, future.result()
        waiting.append((slab, needed, pool.submit(_compare_block, a, b, slab, how.tolerance)))
    for done, _, future in waiting:
        yield done, future.result()


def _compare_block(a: Side, b: Side, slab: Hyperslab, tolerance: Tolerance) -> ValueDifference:
    """Read a region of both and compare it, tile by tile."""
    ours = np.atleast_1d(a.read(slab))
    theirs = np.atleast_1d(b.read(slab))
    total = ValueDifference(slab.size)
    for tile in tiles(ours.shape, *((s.first.axes or (0,)) for s in (a, b))):
        part = tile.slices()
        found = compare(ours[part], theirs[part], tolerance)
        if found.mask.any():
            here = Hyperslab(tile.start[: slab.ndim], tile.count[: slab.ndim])
            first, box = _describe(found.mask, ours[part], theirs[part], slab.compose(here))
            total += ValueDifference(
                differing=int(np.count_nonzero(found.mask)),
                one_nan=found.one_nan,
                absolute=_known(found.absolute),
                relative=_known(found.relative),
                first=first,
                box=box,
                files_a=_per_file(a, slab, here, found.mask),
                files_b=_per_file(b, slab, here, found.mask),
            )
    return total


def _known(number: float) -> float | None:
    """A number; None for NaN."""
    if math.isnan(number):
        return None
    return number


def _describe(mask: Array, a: Array, b: Array, where: Hyperslab) -> tuple[Element, Hyperslab]:
    """The first differing element of a tile that lies at `where`, and the box of all."""
    found = np.nonzero(mask)
    first = tuple(int(axis[0]) for axis in found)
    low = tuple(int(axis.min()) for axis in found)
    count = [int(axis.max()) + 1 - start for axis, start in zip(found, low, strict=True)]
    box = Hyperslab(low, tuple(count))
    index = tuple(start + n for start, n in zip(where.start, first, strict=False))
    here = Hyperslab(box.start[: where.ndim], box.count[: where.ndim])
    return Element(index, a[first].item(), b[first].item()), where.compose(here)


def _per_file(side: Side, slab: Hyperslab, tile: Hyperslab, mask: Array) -> dict[str, int]:
    """How many of the differing elements of a tile of a block each file of a side holds."""
    found = {}
    for piece in side.pieces(slab.compose(tile)):
        count = int(np.count_nonzero(mask[piece.place.slices()]))
        if count:
            found[label_of(side.sources[piece.source])] = count
    return found
