"""Transfer: cutting an array so that reading and writing it both go in long runs.

An array that lies in one order, or in chunks, or in several files, and is written in another way
cannot be cut along the slow axes of either side alone: the other would then move a row at a time.
The cut here begins with one block and divides, while that is too large, the axis for which both
sides together have the least to do. What it divides at are given places, so that no stored chunk of
the output has two writers; among them, it tries those that are edges of files and chunks, where
nothing is cut in two.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hyperslab.arrays.partition import Partition

OPERATION_NBYTES = 64 * 1024
"Bytes that are moved in about the time that one read or write takes beside them."
_LIMITS_TRIED = 4
_WORTH = 1.1
"A block twice as large is worth its memory where it has this much less to do."

Positions = npt.NDArray[np.int64]
"Along one axis, ascending, from 0 to the extent; one position where that is 0."
Cuts = tuple[Positions, ...]


@dataclass(frozen=True, slots=True)
class Side:
    """How an array lies in files."""

    axes: tuple[int, ...]
    "From slowest to fastest."
    itemsize: int
    edges: tuple[Positions, ...]
    "Per axis: 0, where one file ends and the next one begins, the extent."
    chunk: tuple[int, ...] = ()
    """Shape of the stored chunks of every file, each of which is read or written whole; () where
    there are none.
    """


@dataclass(frozen=True, slots=True)
class Transfer:
    """An array on its way, and where it may be cut."""

    shape: tuple[int, ...]
    places: tuple[Positions, ...]
    "Per axis: 0, positions at which it may be cut, the extent."
    read: Side
    write: Side
    whole: frozenset[int] = frozenset()
    "Axes that are not cut."

    @property
    def itemsize(self) -> int:
        """Of an element, on the side where it is larger."""
        return max(self.read.itemsize, self.write.itemsize)


def cut_transfer(transfer: Transfer, limit_nbytes: int) -> Partition:
    """Cut into blocks within the limit, or as small as the places allow, in the stored order of
    what is read.
    """
    bounds = (_bounds(transfer.read), _bounds(transfer.write))
    found = [_divided(transfer, bounds, marks, limit_nbytes) for marks in _marks(transfer, bounds)]
    best = min(
        found,
        key=lambda cuts: (
            max(limit_nbytes, _nbytes(transfer, cuts)),
            _cost(transfer, bounds, cuts),
        ),
    )
    return Partition(tuple(tuple(axis.tolist()) for axis in best), transfer.read.axes)


def best_limit(transfer: Transfer, least_nbytes: int, most_nbytes: int) -> int:
    """The smallest limit, among `least` and its doubles up to `most`, that has hardly more to do
    than larger ones.
    """
    limits = [min(least_nbytes, most_nbytes)]
    while len(limits) < _LIMITS_TRIED and limits[-1] * 2 <= most_nbytes:
        limits.append(limits[-1] * 2)
    bounds = (_bounds(transfer.read), _bounds(transfer.write))
    cuts = [tuple(map(np.asarray, cut_transfer(transfer, limit).cuts)) for limit in limits]
    costs = [_cost(transfer, bounds, made) for made in cuts]
    return next(
        limit for limit, cost in zip(limits, costs, strict=True) if cost <= _WORTH * min(costs)
    )


def _bounds(side: Side) -> Cuts:
    """Per axis, where files and, in them, chunks begin and end."""
    if not side.chunk:
        return side.edges
    return tuple(bounds_of(*axis) for axis in zip(side.edges, side.chunk, strict=True))


def bounds_of(edges: Positions, step: int) -> Positions:
    """The edges of files, and every so many elements in each file."""
    inner = [np.arange(a, z, step) for a, z in itertools.pairwise(edges.tolist())]
    return np.concatenate([*inner, edges[-1:]]).astype(np.int64)


def _marks(transfer: Transfer, bounds: tuple[Cuts, Cuts]) -> Iterator[Cuts]:
    """Sets of places that are good to cut at: bounds of what is read, of what is written, of both,
    of none.
    """
    ends = [np.unique([0, extent]) for extent in transfer.shape]
    for marks in (bounds[0], bounds[1], tuple(map(np.union1d, *bounds)), ends):
        yield tuple(
            np.union1d(np.intersect1d(m, p), e)
            for m, p, e in zip(marks, transfer.places, ends, strict=True)
        )


def _divided(transfer: Transfer, bounds: tuple[Cuts, Cuts], marks: Cuts, limit_nbytes: int) -> Cuts:
    """Divide one axis after the other, that for which there is the least to do, until a block is
    within the limit.
    """
    places = transfer.places
    most = [1 if axis in transfer.whole else max(1, len(p) - 1) for axis, p in enumerate(places)]
    parts, last = [1] * len(places), -1

    def made(axis: int, number: int) -> Cuts:
        counts = [number if a == axis else n for a, n in enumerate(parts)]
        return tuple(_cuts(*each) for each in zip(places, marks, counts, most, strict=True))

    def more(axis: int) -> int:
        doubled, marked = 2 * parts[axis], len(marks[axis]) - 1
        return min(marked if parts[axis] < marked < doubled else doubled, most[axis])

    while _nbytes(transfer, made(-1, 0)) > limit_nbytes:
        axes = [axis for axis in transfer.write.axes if parts[axis] < most[axis]]
        if not axes:
            break
        last = min(axes, key=lambda axis: _cost(transfer, bounds, made(axis, more(axis))))
        parts[last] = more(last)
    if last >= 0:  # the fewest parts of the axis that was divided last
        low, high = max(1, parts[last] // 2), parts[last]
        while low < high:
            middle = (low + high) // 2
            fits = _nbytes(transfer, made(last, middle)) <= limit_nbytes
            low, high = (low, middle) if fits else (middle + 1, high)
        parts[last] = high
    return made(-1, 0)


def _cuts(places: Positions, marks: Positions, parts: int, most: int) -> Positions:
    """Cut positions of about so many nearly equal intervals: at marks, or at places between all of
    them.
    """
    if len(places) < 2:
        return places[:1]
    if parts == 1:
        return places[[0, -1]]
    if parts >= most:
        return places
    if parts < len(marks):
        return _spread(marks, parts)
    each = math.ceil(parts / (len(marks) - 1))
    first = np.searchsorted(places, marks)
    inner = [places[a : z + 1] for a, z in itertools.pairwise(first.tolist())]
    return np.unique(
        np.concatenate([_spread(between, min(each, len(between) - 1)) for between in inner])
    )


def _spread(places: Positions, parts: int) -> Positions:
    return places[(len(places) - 1) * np.arange(parts + 1) // parts]


def _nbytes(transfer: Transfer, cuts: Cuts) -> int:
    """Bytes of the largest block."""
    return math.prod(int(np.diff(axis).max(initial=0)) for axis in cuts) * transfer.itemsize


def _cost(transfer: Transfer, bounds: tuple[Cuts, Cuts], cuts: Cuts) -> float:
    """What both sides have to do, in bytes: those that they move, and what each operation is
    worth.
    """
    sides = (transfer.read, transfer.write)
    return sum(
        _side_cost(transfer.shape, side, own, cuts) for side, own in zip(sides, bounds, strict=True)
    )


def _side_cost(shape: Sequence[int], side: Side, bounds: Cuts, cuts: Cuts) -> float:
    pieces = tuple(np.union1d(*pair) for pair in zip(bounds, cuts, strict=True))
    if side.chunk:  # one that is cut counts for each of its parts
        touched = math.prod(len(axis) - 1 for axis in pieces)
        return touched * float(math.prod(side.chunk) * side.itemsize + OPERATION_NBYTES)
    return math.prod(shape) * side.itemsize + OPERATION_NBYTES * float(
        _runs(shape, side, bounds, pieces)
    )


def _runs(shape: Sequence[int], side: Side, bounds: Cuts, pieces: Cuts) -> int:
    """Runs of the files that their pieces are: a run goes on to the next axis where a piece is as
    long as its file.

    Of the pieces that are whole along all axes faster than one, those that are cut along it have a
    run for each element of the slower axes.
    """
    runs, whole = 0, 1
    slower = math.prod(shape)
    for axis in reversed(side.axes):
        slower //= max(1, shape[axis])
        first, end = (
            np.searchsorted(bounds[axis], pieces[axis][:-1]),
            np.searchsorted(bounds[axis], pieces[axis][1:]),
        )
        uncut = int(
            (
                (bounds[axis][first] == pieces[axis][:-1]) & (bounds[axis][end] == pieces[axis][1:])
            ).sum()
        )
        runs += whole * (len(pieces[axis]) - 1 - uncut) * slower
        whole *= uncut
    return runs + whole
