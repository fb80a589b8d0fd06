"""Fragments: which file holds which part of an array that tasks have written to files of their own.

- the fragments of an array cover it, and no element twice; else nothing is written
  (`tests/connectors/spark/test_fragments.py`)
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from hyperslab.connectors.spark.rows import Kind
from hyperslab.errors import UsageError

Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Staged:
    """What a task has written to a file of its own, or why not."""

    partition: int
    name: str = ""
    "Name of the file, in the folder of them all; '' where the partition had no elements."
    kind: Kind = "rows"
    dtype: str = ""
    row: tuple[int, ...] = ()
    "Shape of a row."
    ndim: int = 0
    "Axes of the array."
    is_reversed: bool = False
    "Blocks lie in Fortran order."
    table: int = 0
    """Where the table of the file's fragments begins: start and count of each, in the order in
    which they lie.
    """
    entries: int = 0
    rows: int = 0
    refused: str = ""
    "A sentence about elements that cannot be written; no other attempt would fare better."


@dataclass(frozen=True, slots=True, eq=False)
class Fragments:
    """Boxes of an array, and where their values lie: one row each."""

    start: Numbers
    "(rows, ndim)"
    count: Numbers
    offset: Numbers
    "(rows,): first byte in the file."
    file: Numbers
    "(rows,): number of the file."


def first_of_each(staged: Sequence[Staged]) -> list[Staged]:
    """The outcome of each partition in their order: the first, where attempts raced. Raises
    UsageError for refused.
    """
    first: dict[int, Staged] = {}
    for one in staged:
        first.setdefault(one.partition, one)
    kept = [first[number] for number in sorted(first)]
    if refused := next((one.refused for one in kept if one.refused), ""):
        raise UsageError(refused)
    return [one for one in kept if one.name]


def require_alike(staged: Sequence[Staged]) -> None:
    """Raise UsageError where partitions hold what cannot be one array."""
    for one in staged:
        first = staged[0]
        where = f"partition {one.partition} of the data"
        other = f"partition {staged[0].partition}"
        if one.kind != first.kind:
            raise UsageError(
                f"{where} holds {one.kind}, {other} {first.kind}: write elements of one kind"
            )
        if one.dtype != first.dtype:
            raise UsageError(
                f"{where} holds {np.dtype(one.dtype)}, {other} {np.dtype(first.dtype)}: say dtype="
                " to have one of them"
            )
        if one.row != first.row:
            raise UsageError(
                f"{where} has rows of shape {one.row}, {other} {first.row}: all rows have one shape"
            )
        if one.ndim != first.ndim:
            raise UsageError(
                f"{where} has blocks of {one.ndim} axes, {other} of {first.ndim}: blocks are of one"
                " array"
            )


def gathered(staged: Sequence[Staged], tables: Sequence[Numbers]) -> Fragments:
    """The fragments of all files; rows without an index follow each other in the order of the
    files.
    """
    parts = []
    reached = 0
    for number, (one, table) in enumerate(zip(staged, tables, strict=True)):
        start, count = np.split(table, 2, axis=1)
        if one.kind != "blocks":
            row = np.broadcast_to(np.array(one.row, np.int64), (len(table), len(one.row)))
            start = np.hstack([start + reached, np.zeros_like(row)])
            count = np.hstack([count, row])
            if one.kind == "rows":
                reached += one.rows
        nbytes = np.dtype(one.dtype).itemsize * count.prod(axis=1)
        offset = np.cumsum(nbytes) - nbytes
        file = np.full(len(table), number, np.int64)
        parts.append(Fragments(start, count, offset, file))
    return Fragments(
        np.concatenate([part.start for part in parts]),
        np.concatenate([part.count for part in parts]),
        np.concatenate([part.offset for part in parts]),
        np.concatenate([part.file for part in parts]),
    )


def extent(fragments: Fragments) -> tuple[int, ...]:
    """Shape of the smallest array that holds them all."""
    return tuple((fragments.start + fragments.count).max(axis=0).tolist())


def require_tiled(where: str, fragments: Fragments, shape: Sequence[int], kind: Kind) -> None:
    """Raise UsageError unless the fragments cover an array of this shape, and no element twice."""
    if fragments.start.shape[1] != len(shape):
        raise UsageError(
            f"{where}: shape={tuple(shape)} has {len(shape)} axes, the data have"
            f" {fragments.start.shape[1]}: give one extent for each axis"
        )
    end = fragments.start + fragments.count
    beyond = (end > np.array(shape)).any(axis=1)
    if beyond.any():
        odd = int(np.argmax(beyond))
        last = tuple((end[odd] - 1).tolist())
        raise UsageError(
            f"{where}: {_place(kind, last)} lies beyond shape={tuple(shape)}: give the shape of all"
            " data"
        )
    if kind != "blocks" and _follows(fragments, end, shape):
        return
    filled = (fragments.count > 0).all(axis=1)
    found = _flaw(fragments.start[filled], end[filled], [0] * len(shape), list(shape))
    if found is not None:
        number, first = found
        what = "is given more than once"
        if number == 0:
            what = "is given by no task"
        raise UsageError(
            f"{where}: {_place(kind, first)} {what}: the elements of the RDD have to cover the"
            " array from index 0 on, each of its elements once"
        )


def _follows(fragments: Fragments, end: Numbers, shape: Sequence[int]) -> bool:
    """Whether runs of whole rows follow each other from the first to the last: what is usual is
    seen at once.
    """
    order = np.argsort(fragments.start[:, 0])
    first = fragments.start[order, 0]
    last = end[order, 0]
    is_whole = (fragments.count[:, 1:] == np.array(shape[1:], np.int64)).all()
    if not is_whole or first[0] != 0 or last[-1] != shape[0]:
        return False
    return bool((first[1:] == last[:-1]).all())


def _place(kind: Kind, first: Sequence[int]) -> str:
    if kind == "blocks":
        return f"element {tuple(first)}"
    return f"row {first[0]}"


def _flaw(
    start: Numbers, end: Numbers, low: list[int], high: list[int]
) -> tuple[int, tuple[int, ...]] | None:
    """How often an element is covered that is not covered once, and which it is; None where all
    are.

    Boxes that are cells of the grid that their edges make are counted; others are cut in two at an
    edge in the middle, with the array.
    """
    if not math.prod(z - a for a, z in zip(low, high, strict=True)):
        return None
    edges = []
    for axis in range(len(low)):
        ends = [low[axis], high[axis]]
        edges.append(np.unique(np.concatenate([start[:, axis], end[:, axis], ends])))
    cells = [len(along) - 1 for along in edges]
    if not len(start):
        return 0, tuple(low)
    first = [np.searchsorted(along, start[:, axis]) for axis, along in enumerate(edges)]
    last = [np.searchsorted(along, end[:, axis]) for axis, along in enumerate(edges)]
    if all((z - a == 1).all() for a, z in zip(first, last, strict=True)):
        return _miscounted(first, cells, edges)
    axis = int(np.argmax(cells))
    if cells[axis] == 1:  # each covers all of it
        if len(start) == 1:
            return None
        return len(start), tuple(low)
    middle = int(edges[axis][cells[axis] // 2])
    below = start[:, axis] < middle
    above = end[:, axis] > middle
    lower = end[below].copy()
    upper = start[above].copy()
    lower[:, axis] = np.minimum(lower[:, axis], middle)
    upper[:, axis] = np.maximum(upper[:, axis], middle)
    top = high.copy()
    bottom = low.copy()
    top[axis] = middle
    bottom[axis] = middle
    found = _flaw(start[below], lower, low, top)
    if found is not None:
        return found
    return _flaw(upper, end[above], bottom, high)


def _miscounted(
    first: list[Any], cells: list[int], edges: list[Any]
) -> tuple[int, tuple[int, ...]] | None:
    """The first cell of a grid that not exactly one box is."""
    order = np.lexsort(first[::-1])
    places = np.stack([column[order] for column in first], axis=1)
    twice = (places[1:] == places[:-1]).all(axis=1)
    if twice.any():
        return 2, _corner(places[int(np.argmax(twice))], edges)
    if len(places) == math.prod(cells):
        return None
    missing = len(places)
    for number, cell in enumerate(places.tolist()):
        if cell != _cell(number, cells):
            missing = number
            break
    return 0, _corner(_cell(missing, cells), edges)


def _corner(cell: Sequence[int], edges: list[Any]) -> tuple[int, ...]:
    """The first element of a cell of a grid."""
    return tuple(int(along[i]) for along, i in zip(edges, cell, strict=True))


def _cell(number: int, cells: Sequence[int]) -> list[int]:
    """Where a cell of a grid lies, by its number in C order; there may be more of them than 64 bits
    count.
    """
    place = []
    for extent_along in reversed(cells):
        place.append(number % extent_along)
        number //= extent_along
    return place[::-1]
