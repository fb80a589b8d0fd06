"""Arrays in memory: a region is a slice of them."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

from hyperslab.arrays import Array
from hyperslab.arrays.slab import Hyperslab
from hyperslab.arrays.source import ArraySource
from hyperslab.blocks.reading.kept import Reader
from hyperslab.blocks.reading.ways.way import Counted, Way
from hyperslab.formats import memory


@dataclass(slots=True)
class Counter:
    """Stands for a file where none is opened here."""

    nbytes: int = 0
    path: str = ""
    "Path at which a library is to read, where that is not the source's own."


class Memory(Way):
    """Slices of an array in memory."""

    name = "memory"
    words = "slices"
    seek_nbytes = 0

    def fits(self, source: ArraySource) -> bool:
        return source.data is not None

    def nbytes(self, source: ArraySource, region: Hyperslab) -> int:
        return region.size * source.stored.itemsize

    def operations(self, source: ArraySource, region: Hyperslab) -> int:
        return 1

    def is_even(self, source: ArraySource) -> bool:
        return True

    def peak(self, source: ArraySource, region: Hyperslab, threads: int | None) -> int:
        return 0

    def opened(self, source: ArraySource, reader: Reader | None) -> AbstractContextManager[Counted]:
        return nullcontext(Counter())

    def read(
        self,
        file: Counter,
        source: ArraySource,
        slab: Hyperslab,
        out: Array | None,
        threads: int,
        reader: Reader | None,
    ) -> Array:
        found = memory.read_reference(source, slab)
        file.nbytes = found.nbytes
        if out is None:
            return found.copy(order="K")
        out[...] = found
        return out
