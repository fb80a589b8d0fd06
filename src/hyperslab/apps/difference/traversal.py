"""How two arrays are walked through together: blocks that take long runs of both files and fit the
memory.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from hyperslab.apps.difference.side import Side
from hyperslab.arrays.partition import Layout, Partition, Rule, cut
from hyperslab.arrays.slab import Hyperslab
from hyperslab.errors import DoesNotFit
from hyperslab.units import show_bytes

TILE_ELEMENTS = 2**15
"""Elements that are compared at a time; with what is made of them they stay in the processor's
cache.
"""
_ELEMENT_NBYTES = 128
"""Upper bound of what comparing allocates per element beside copies of it: distances of 16 bytes,
indices, masks.
"""
LARGEST_NBYTES = 64 * 2**20
"Largest size of two blocks together, bytes: more makes nothing faster."
LEAST_NBYTES = 64 * 2**10
FLOOR_NBYTES = 4 * 2**20
"Blocks are made smaller for the sake of more threads down to this."
HARDLY_LONGER = 1.1
_MOST_PERMUTED = 4
"Most axes of which all orders are tried."


class Way(NamedTuple):
    """One way to walk."""

    partition: Partition
    slots: int
    "Blocks compared at a time."
    price: float
    "About what it takes for every byte of both arrays, in bytes that one thread reads."


def traverse(a: Side, b: Side, memory_nbytes: int, threads: int) -> Way:
    """The smallest blocks with which the walk takes hardly longer than with any, on at most so many
    threads.

    Larger blocks are better where the files are stored differently, fewer threads where each has
    too little memory. Raises DoesNotFit when even one block that can be read by itself needs more
    than the memory.
    """
    ways = []
    needed = 0
    nbytes = math.prod(a.whole.shape) * (a.dtype.itemsize + b.dtype.itemsize)
    most_slots = 1
    if nbytes > LEAST_NBYTES:
        most_slots = max(1, threads)
    for slots in _halvings(most_slots, 1):
        share = memory_nbytes // slots
        half_of_a_slot = -(-nbytes // (2 * slots))
        most = min(LARGEST_NBYTES, share, max(FLOOR_NBYTES, half_of_a_slot))
        wanted = max(LEAST_NBYTES, most)
        larger = _doublings(2 * wanted, min(nbytes, share))
        for limit in (*larger, *_halvings(wanted, LEAST_NBYTES)):
            way = _choose(a, b, limit, slots)
            needed = peak(a, b, next(iter(way.partition), Hyperslab.full(a.whole.shape)))
            if needed <= share:
                ways.append(way)
                if limit <= wanted:
                    break
    if not ways:
        raise too_little(needed, memory_nbytes)
    enough = HARDLY_LONGER * min(way.price for way in ways)
    quick = [way for way in ways if way.price <= enough]
    return min(quick, key=lambda way: math.prod(way.partition.largest))


def too_little(needed: int, memory_nbytes: int) -> DoesNotFit:
    """What is said of a block that does not fit."""
    return DoesNotFit(
        f"--memory {show_bytes(memory_nbytes)}: one block takes {show_bytes(needed)}; give more"
    )


def peak(a: Side, b: Side, slab: Hyperslab) -> int:
    """Upper bound of the bytes that reading and comparing a region holds at once: one block is read
    after the other.
    """
    block_a = slab.size * a.dtype.itemsize
    block_b = slab.size * b.dtype.itemsize
    element = _ELEMENT_NBYTES + 2 * (a.dtype.itemsize + b.dtype.itemsize)
    comparing = min(slab.size, TILE_ELEMENTS) * element
    at_first = block_a + a.peak_beside(slab)
    at_last = block_a + block_b + max(b.peak_beside(slab), comparing)
    return max(at_first, at_last)


def tiles(shape: tuple[int, ...], a_axes: tuple[int, ...], b_axes: tuple[int, ...]) -> Partition:
    """Cut two blocks, laid out in memory with these axes from slowest to fastest, into what is
    compared at a time.
    """
    # Tiles that are about as long along every axis use whole cache lines of both blocks.
    halo: tuple[int, ...] = ()
    if a_axes != b_axes:
        halo = (1,) * len(shape)
    return cut(Layout(shape, a_axes, 1, None, halo), Rule(), TILE_ELEMENTS)


def _choose(a: Side, b: Side, limit_nbytes: int, slots: int) -> Way:
    """The cheapest of many ways to cut: along every order of axes, in chunks of the one, the other
    or both.
    """
    shape = a.whole.shape
    itemsize = a.dtype.itemsize + b.dtype.itemsize
    layouts = (
        Layout(shape, order, itemsize, unit, halo)
        for order in _orders(a, b)
        for unit in _units(a, b)
        for halo in ((), (1,) * len(shape))
    )
    ways = (
        Way(partition, slots, _price(a, b, partition, slots))
        for partition in _cut(layouts, limit_nbytes)
    )

    def beyond(way: Way) -> int:
        return max(limit_nbytes, math.prod(way.partition.largest) * itemsize)

    return min(ways, key=lambda way: (beyond(way), way.price, len(way.partition)))


def _cut(layouts: Iterable[Layout], limit_nbytes: int) -> Iterator[Partition]:
    return (cut(layout, Rule(), limit_nbytes) for layout in layouts)


def _price(a: Side, b: Side, partition: Partition, slots: int) -> float:
    """Price of a byte, with all slots at work but in the last round."""
    block = partition.largest
    blocks = max(1, len(partition))
    return (a.cost(block) + b.cost(block)) * -(-blocks // slots) / blocks


def _orders(a: Side, b: Side) -> list[tuple[int, ...]]:
    """Orders of the axes from slowest to fastest, those of the files first."""
    orders = [a.first.axes, b.first.axes]
    ndim = len(orders[0])
    if ndim <= _MOST_PERMUTED:
        orders += itertools.permutations(range(ndim))
    return list(dict.fromkeys(orders))


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


def _doublings(first: int, last: int) -> Iterator[int]:
    while first <= last:
        yield first
        first *= 2
