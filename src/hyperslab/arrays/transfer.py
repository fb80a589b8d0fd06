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
from collections.abc import Callable, Iterator, Sequence
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
"Positions along one axis, ascending, from 0 to the extent; one position where that is 0."
Cuts = tuple[Positions, ...]


@dataclass(frozen=True, slots=True)
class Side:
    """How an array lies in files."""

    axes: tuple[int, ...]
    "Axes from slowest to fastest."
    itemsize: int
    edges: tuple[Positions, ...]
    "Positions of each axis: 0, where one file ends and the next one begins, the extent."
    chunk: tuple[int, ...] = ()
    """Shape of the stored chunks of every file, each of which is read or written whole; () where
    there are none.
    """


@dataclass(frozen=True, slots=True)
class Transfer:
    """An array on its way, and where it may be cut."""

    shape: tuple[int, ...]
    places: tuple[Positions, ...]
    "Positions of each axis: 0, those at which it may be cut, the extent."
    read: Side
    write: Side
    whole: frozenset[int] = frozenset()
    "Axes that are not cut."

    @property
    def itemsize(self) -> int:
        """Size of an element, bytes, on the side where it is larger."""
        return max(self.read.itemsize, self.write.itemsize)


def cut_transfer(transfer: Transfer, limit_nbytes: int) -> Partition:
    """Cut into blocks within the limit, or as small as the places allow, in the stored order of
    what is read.
    """
    uncut = tuple(_cuts(places, places, 1, 1) for places in transfer.places)
    if _nbytes(transfer, uncut) <= limit_nbytes:
        return _partition(transfer, uncut)
    bounds = (_bounds(transfer.read), _bounds(transfer.write))
    found = [_divided(transfer, bounds, marks, limit_nbytes) for marks in _marks(transfer, bounds)]

    def excess_and_cost(cuts: Cuts) -> tuple[int, float]:
        nbytes = max(limit_nbytes, _nbytes(transfer, cuts))
        return nbytes, _cost(transfer, bounds, cuts)

    return _partition(transfer, min(found, key=excess_and_cost))


def _partition(transfer: Transfer, cuts: Cuts) -> Partition:
    positions = (tuple(axis.tolist()) for axis in cuts)
    return Partition(tuple(positions), transfer.read.axes)


def best_limit(transfer: Transfer, least_nbytes: int, most_nbytes: int) -> int:
    """The smallest limit, among `least` and its doubles up to `most`, that has hardly more to do
    than larger ones.
    """
    limits = [min(least_nbytes, most_nbytes)]
    while len(limits) < _LIMITS_TRIED and limits[-1] * 2 <= most_nbytes:
        limits.append(limits[-1] * 2)
    bounds = (_bounds(transfer.read), _bounds(transfer.write))
    costs = []
    for limit in limits:
        made = cut_transfer(transfer, limit)
        cuts = tuple(map(np.asarray, made.cuts))
        costs.append(_cost(transfer, bounds, cuts))
    worthwhile = _WORTH * min(costs)
    good = (limit for limit, cost in zip(limits, costs, strict=True) if cost <= worthwhile)
    return next(good)


def _bounds(side: Side) -> Cuts:
    """Positions of each axis where files and, in them, chunks begin and end."""
    if not side.chunk:
        return side.edges
    return tuple(bounds_of(*axis) for axis in zip(side.edges, side.chunk, strict=True))


def bounds_of(edges: Positions, step: int) -> Positions:
    """The edges of files, and every so many elements in each file."""
    files = itertools.pairwise(edges.tolist())
    inner = [np.arange(first, last, step) for first, last in files]
    found = np.concatenate([*inner, edges[-1:]])
    return found.astype(np.int64)


def _marks(transfer: Transfer, bounds: tuple[Cuts, Cuts]) -> Iterator[Cuts]:
    """Sets of places that are good to cut at: bounds of what is read, of what is written, of both,
    of none.
    """
    ends = [np.unique([0, extent]) for extent in transfer.shape]
    both = tuple(map(np.union1d, *bounds))
    for marks in (*bounds, both, ends):
        possible = map(np.intersect1d, marks, transfer.places)
        yield tuple(map(np.union1d, possible, ends))


def _divided(transfer: Transfer, bounds: tuple[Cuts, Cuts], marks: Cuts, limit_nbytes: int) -> Cuts:
    """Divide one axis after the other, that for which there is the least to do, until a block is
    within the limit.
    """
    places = transfer.places
    most = [max(1, len(found) - 1) for found in places]
    for kept in transfer.whole:
        most[kept] = 1
    parts = [1] * len(places)
    made = tuple(map(_cuts, places, marks, parts, most))
    last = None

    def made_with(axis: int, number: int) -> Cuts:
        """The cuts with another number of parts along one axis."""
        cuts = _cuts(places[axis], marks[axis], number, most[axis])
        return (*made[:axis], cuts, *made[axis + 1 :])

    def more(axis: int) -> int:
        """The next number of parts that is worth trying."""
        doubled = 2 * parts[axis]
        marked = len(marks[axis]) - 1
        if parts[axis] < marked < doubled:
            doubled = marked
        return min(doubled, most[axis])

    def cost_of_more(axis: int) -> float:
        return _cost(transfer, bounds, made_with(axis, more(axis)))

    while _nbytes(transfer, made) > limit_nbytes:
        axes = [axis for axis in transfer.write.axes if parts[axis] < most[axis]]
        if not axes:
            break
        last = min(axes, key=cost_of_more)
        parts[last] = more(last)
        made = made_with(last, parts[last])
    if last is None:
        return made
    axis = last

    def fits(number: int) -> bool:
        return _nbytes(transfer, made_with(axis, number)) <= limit_nbytes

    return made_with(axis, _fewest(fits, parts[axis]))


def _fewest(fits: Callable[[int], bool], parts: int) -> int:
    """The fewest parts, of those from half as many on, that fit; `parts` where no fewer do."""
    low = max(1, parts // 2)
    while low < parts:
        middle = (low + parts) // 2
        if fits(middle):
            parts = middle
        else:
            low = middle + 1
    return parts


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
    rows = np.searchsorted(places, marks)
    found = []
    for first, last in itertools.pairwise(rows.tolist()):
        between = places[first : last + 1]
        found.append(_spread(between, min(each, last - first)))
    return _distinct(np.concatenate(found))


def _distinct(ascending: Positions) -> Positions:
    """The positions, each once."""
    is_new = np.diff(ascending, prepend=ascending[0] - 1) > 0
    return ascending[is_new]


def _missing(known: Positions, more: Positions) -> Positions:
    """Positions, of some, that are not known."""
    rows = np.minimum(np.searchsorted(known, more), len(known) - 1)
    is_missing: npt.NDArray[np.bool_] = known[rows] != more
    return more[is_missing]


def _merged(one: Positions, other: Positions) -> Positions:
    """Positions of both, each once; quick where one of them is short."""
    few, many = sorted((one, other), key=len)
    new = _missing(many, few)
    return np.insert(many, np.searchsorted(many, new), new)


def _spread(places: Positions, parts: int) -> Positions:
    steps = np.arange(parts + 1)
    rows = (len(places) - 1) * steps // parts
    return places[rows]


def _nbytes(transfer: Transfer, cuts: Cuts) -> int:
    """Bytes of the largest block."""
    largest = [int(np.diff(axis).max(initial=0)) for axis in cuts]
    return math.prod(largest) * transfer.itemsize


def _cost(transfer: Transfer, bounds: tuple[Cuts, Cuts], cuts: Cuts) -> float:
    """What both sides have to do, in bytes: those that they move, and what each operation is
    worth.
    """
    read = _side_cost(transfer.shape, transfer.read, bounds[0], cuts)
    written = _side_cost(transfer.shape, transfer.write, bounds[1], cuts)
    return read + written


def _side_cost(shape: Sequence[int], side: Side, bounds: Cuts, cuts: Cuts) -> float:
    if side.chunk:  # one that is cut counts for each of its parts
        pairs = (sorted(axis, key=len) for axis in zip(bounds, cuts, strict=True))
        touched = math.prod(len(many) + len(_missing(many, few)) - 1 for few, many in pairs)
        chunk_nbytes = math.prod(side.chunk) * side.itemsize
        return touched * float(chunk_nbytes + OPERATION_NBYTES)
    pieces = tuple(map(_merged, bounds, cuts))
    nbytes = math.prod(shape) * side.itemsize
    return nbytes + OPERATION_NBYTES * float(_runs(shape, side, bounds, pieces))


def _runs(shape: Sequence[int], side: Side, bounds: Cuts, pieces: Cuts) -> int:
    """Runs of the files that their pieces are: a run goes on to the next axis where a piece is as
    long as its file.

    Of the pieces that are whole along all axes faster than one, those that are cut along it have a
    run for each element of the slower axes.
    """
    runs = 0
    whole = 1
    slower = math.prod(shape)
    for axis in reversed(side.axes):
        slower //= max(1, shape[axis])
        uncut = _uncut(bounds[axis], pieces[axis])
        parts = len(pieces[axis]) - 1 - uncut
        runs += whole * parts * slower
        whole *= uncut
    return runs + whole


def _uncut(bounds: Positions, pieces: Positions) -> int:
    """How many pieces are whole files, along one axis."""
    is_bound = bounds[np.searchsorted(bounds, pieces)] == pieces
    return int((is_bound[:-1] & is_bound[1:]).sum())
