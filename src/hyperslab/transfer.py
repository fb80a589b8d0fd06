"""Transfer: cutting an array so that reading and writing it both go in long runs.

An array that lies in one order, or in chunks, and is written in another cannot be cut along the slow axes of either
alone: one side would then move a row at a time. The cut here begins with one block and divides, while that is too
large, the axis for which both sides together have the least to do. What it divides at are given places, so that no
stored chunk of the output has two writers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hyperslab.partition import Partition

OPERATION_NBYTES = 64 * 1024
"Bytes that are moved in about the time that one read or write takes beside them."
_LIMITS_TRIED = 4
_WORTH = 1.1
"A block twice as large is worth its memory where it has this much less to do."


@dataclass(frozen=True, slots=True)
class Side:
    """How an array lies in files."""

    axes: tuple[int, ...]
    "From slowest to fastest."
    itemsize: int
    tile: tuple[int, ...]
    "Shape of what one file holds of it."
    chunk: tuple[int, ...] = ()
    "Shape of the stored chunks, each of which is read or written whole; () where there are none."


@dataclass(frozen=True, slots=True)
class Transfer:
    """An array on its way, and where it may be cut."""

    shape: tuple[int, ...]
    places: tuple[Sequence[int], ...]
    "Per axis, ascending: 0, positions at which it may be cut, the extent."
    read: Side
    write: Side
    whole: frozenset[int] = frozenset()
    "Axes that are not cut."

    @property
    def itemsize(self) -> int:
        """Of an element, on the side where it is larger."""
        return max(self.read.itemsize, self.write.itemsize)


def cut_transfer(transfer: Transfer, limit_nbytes: int) -> Partition:
    """Cut into blocks within the limit, or as small as the places allow, in the stored order of what is read."""
    parts = [1] * len(transfer.shape)
    last = None
    while _block_nbytes(transfer, parts) > limit_nbytes:
        axes = _divisible(transfer, parts)
        if not axes:
            break
        last = min(axes, key=lambda axis: _cost(transfer, _divided(transfer, parts, axis)))
        parts = _divided(transfer, parts, last)
    if last is not None:
        parts = _relaxed(transfer, parts, last, limit_nbytes)
    return Partition(tuple(_cuts(transfer, axis, n) for axis, n in enumerate(parts)), transfer.read.axes)


def best_limit(transfer: Transfer, least_nbytes: int, most_nbytes: int) -> int:
    """The smallest limit, among `least` and its doubles up to `most`, that has hardly more to do than larger ones."""
    limits = [min(least_nbytes, most_nbytes)]
    while len(limits) < _LIMITS_TRIED and limits[-1] * 2 <= most_nbytes:
        limits.append(limits[-1] * 2)
    costs = [_cost(transfer, [len(axis) - 1 for axis in cut_transfer(transfer, limit).cuts]) for limit in limits]
    return next(limit for limit, cost in zip(limits, costs, strict=True) if cost <= _WORTH * min(costs))


def _divisible(transfer: Transfer, parts: Sequence[int]) -> list[int]:
    """Axes that can be divided further."""
    return [axis for axis in transfer.write.axes if parts[axis] < _most_parts(transfer, axis)]


def _most_parts(transfer: Transfer, axis: int) -> int:
    return 1 if axis in transfer.whole else max(1, len(transfer.places[axis]) - 1)


def _divided(transfer: Transfer, parts: Sequence[int], axis: int) -> list[int]:
    more = min(2 * parts[axis], _most_parts(transfer, axis))
    return [more if a == axis else n for a, n in enumerate(parts)]


def _relaxed(transfer: Transfer, parts: Sequence[int], axis: int, limit_nbytes: int) -> list[int]:
    """The fewest parts along an axis with which the blocks are still within the limit."""
    low, high = max(1, parts[axis] // 2), parts[axis]
    while low < high:
        middle = (low + high) // 2
        tried = [middle if a == axis else n for a, n in enumerate(parts)]
        low, high = (low, middle) if _block_nbytes(transfer, tried) <= limit_nbytes else (middle + 1, high)
    return [high if a == axis else n for a, n in enumerate(parts)]


def _cuts(transfer: Transfer, axis: int, parts: int) -> tuple[int, ...]:
    """Cut positions of nearly equal intervals between the places of an axis."""
    if not transfer.shape[axis]:
        return (0,)
    places = transfer.places[axis]
    steps = len(places) - 1
    return tuple(int(places[steps * i // parts]) for i in range(parts + 1))


def _block(transfer: Transfer, parts: Sequence[int]) -> tuple[int, ...]:
    """Shape of the largest block."""
    return tuple(int(np.diff(_cuts(transfer, axis, n)).max(initial=0)) for axis, n in enumerate(parts))


def _block_nbytes(transfer: Transfer, parts: Sequence[int]) -> int:
    return math.prod(_block(transfer, parts)) * transfer.itemsize


def _cost(transfer: Transfer, parts: Sequence[int]) -> float:
    """What both sides have to do, in bytes: those that they move, and what each operation is worth."""
    return sum(_side_cost(transfer, side, parts) for side in (transfer.read, transfer.write))


def _side_cost(transfer: Transfer, side: Side, parts: Sequence[int]) -> float:
    if side.chunk:
        touched = [_touched(_cuts(transfer, axis, n), side.chunk[axis]) for axis, n in enumerate(parts)]
        return math.prod(touched) * float(math.prod(side.chunk) * side.itemsize + OPERATION_NBYTES)
    run, block = 1, _block(transfer, parts)
    for axis in reversed(side.axes):
        run *= min(block[axis], side.tile[axis])
        if block[axis] < side.tile[axis]:
            break
    return math.prod(transfer.shape) * (side.itemsize + OPERATION_NBYTES / max(1, run))


def _touched(cuts: Sequence[int], chunk: int) -> int:
    """How many chunks the intervals between cuts touch along an axis, one that is cut counted for each of its parts."""
    edges = np.asarray(cuts)
    return int((-(-edges[1:] // chunk) - edges[:-1] // chunk).sum())
