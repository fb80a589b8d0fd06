"""How two arrays are walked through together: blocks that take long runs of both files and fit the memory."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

from hyperslab.difference.side import Side
from hyperslab.errors import DoesNotFit
from hyperslab.partition import Layout, Partition, Rule, cut
from hyperslab.slab import Hyperslab
from hyperslab.units import show_bytes

TILE_ELEMENTS = 2**15
"Elements that are compared at a time; with what is made of them they stay in the processor's cache."
_ELEMENT_NBYTES = 128
"Upper bound of what comparing allocates per element beside copies of it: distances of 16 bytes, indices, masks."
LARGEST_NBYTES = 64 * 2**20
"Of the two blocks together: more makes nothing faster."
LEAST_NBYTES = 64 * 2**10
FLOOR_NBYTES = 4 * 2**20
"Blocks are made smaller for the sake of more threads down to this."
_MOST_PERMUTED = 4
"Up to so many axes all orders are tried."


def traverse(a: Side, b: Side, memory_nbytes: int, threads: int) -> tuple[Partition, int]:
    """A partition of both arrays and how many of its blocks are compared at a time, at most `threads`.

    Raises DoesNotFit when even one block that can be read by itself needs more than the memory.
    """
    nbytes = math.prod(a.whole.shape) * (a.dtype.itemsize + b.dtype.itemsize)
    needed = 0
    for slots in _halvings(max(1, threads), 1):
        share = memory_nbytes // slots
        wanted = min(LARGEST_NBYTES, share, max(FLOOR_NBYTES, -(-nbytes // (2 * slots))))
        for limit in _halvings(max(wanted, LEAST_NBYTES), LEAST_NBYTES):
            partition = _choose(a, b, limit)
            needed = peak(a, b, next(iter(partition), Hyperslab.full(a.whole.shape)))
            if needed <= share:
                return partition, slots
    raise too_little(needed, memory_nbytes)


def too_little(needed: int, memory_nbytes: int) -> DoesNotFit:
    """What is said of a block that does not fit."""
    return DoesNotFit(f"--memory {show_bytes(memory_nbytes)}: one block takes {show_bytes(needed)}; give more")


def peak(a: Side, b: Side, slab: Hyperslab) -> int:
    """Upper bound of the bytes that reading and comparing a region holds at once: one block is read after the other."""
    blocks = [slab.size * side.dtype.itemsize for side in (a, b)]
    comparing = min(slab.size, TILE_ELEMENTS) * (_ELEMENT_NBYTES + 2 * (a.dtype.itemsize + b.dtype.itemsize))
    return max(blocks[0] + a.peak_beside(slab), sum(blocks) + max(b.peak_beside(slab), comparing))


def tiles(shape: tuple[int, ...], a_axes: tuple[int, ...], b_axes: tuple[int, ...]) -> Partition:
    """Cut two blocks, laid out in memory with these axes from slowest to fastest, into what is compared at a time."""
    # Tiles that are about as long along every axis use whole cache lines of both blocks.
    halo = () if a_axes == b_axes else (1,) * len(shape)
    return cut(Layout(shape, a_axes, 1, None, halo), Rule(), TILE_ELEMENTS)


def _choose(a: Side, b: Side, limit_nbytes: int) -> Partition:
    """The cheapest of many ways to cut: along every order of axes, in chunks of the one, the other or both."""
    shape, itemsize = a.whole.shape, a.dtype.itemsize + b.dtype.itemsize

    def price(partition: Partition) -> tuple[int, float, int]:
        block = partition.largest
        beyond = max(limit_nbytes, math.prod(block) * itemsize)
        return beyond, a.cost(block) + b.cost(block), len(partition)

    layouts = (
        Layout(shape, order, itemsize, unit, halo)
        for order in _orders(a, b)
        for unit in _units(a, b)
        for halo in ((), (1,) * len(shape))
    )
    return min((cut(layout, Rule(), limit_nbytes) for layout in layouts), key=price)


def _orders(a: Side, b: Side) -> list[tuple[int, ...]]:
    """Orders of the axes from slowest to fastest, those of the files first."""
    axes = [a.first.axes, b.first.axes]
    more = itertools.permutations(range(len(axes[0]))) if len(axes[0]) <= _MOST_PERMUTED else ()
    return list(dict.fromkeys([*axes, *more]))


def _units(a: Side, b: Side) -> list[tuple[int, ...] | None]:
    """Shapes whose multiples blocks may be."""
    found: list[tuple[int, ...] | None] = [side.unit or None for side in (a, b)]
    if a.unit and b.unit:
        common = zip(a.unit, b.unit, a.whole.shape, strict=True)
        found.append(tuple(max(1, min(math.lcm(m, n), extent)) for m, n, extent in common))
    return list(dict.fromkeys([*found, None]))


def _halvings(first: int, last: int) -> Iterator[int]:
    while first > last:
        yield first
        first //= 2
    yield last
