"""Way: how regions of a source are read, and what that takes.

A region is given to most of these functions in stored order and from low to high indices; `read`
alone has it as it was asked for.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from hyperslab.arrays import Array
from hyperslab.arrays.boxes import Boxes
from hyperslab.arrays.byteranges import PREAD_COST_NBYTES, ascending, turns
from hyperslab.arrays.order import empty
from hyperslab.arrays.slab import Hyperslab
from hyperslab.arrays.source import ArraySource
from hyperslab.blocks.reading.kept import Reader
from hyperslab.blocks.reading.opening import opened


class Counted(Protocol):
    """What is open while a region is read, and how many bytes were taken from storage."""

    nbytes: int


class Costs(NamedTuple):
    """What it takes to read each of many boxes, by itself: (boxes,) each."""

    nbytes: npt.NDArray[np.int64]
    operations: npt.NDArray[np.int64]
    peak: npt.NDArray[np.int64]


class Way:
    """One way of reading; a subclass says what differs."""

    name: str
    words: str
    "The way in words, as users see it."
    uses_library = False
    "Whether the library of the format reads, which may look at everything that a source says."
    fills = True
    "Whether stored values are read into the block itself, where that has their dtype."
    seek_nbytes = PREAD_COST_NBYTES
    "Bytes that could be read in the time that it takes to continue elsewhere in the file."

    def fits(self, source: ArraySource) -> bool:
        """Whether a source can be read in this way."""
        raise NotImplementedError

    def nbytes(self, source: ArraySource, region: Hyperslab) -> int:
        """Bytes that reading a region takes from storage."""
        raise NotImplementedError

    def operations(self, source: ArraySource, region: Hyperslab) -> int:
        """Reads in which it takes them."""
        raise NotImplementedError

    def is_even(self, source: ArraySource) -> bool:
        """Whether that, and `peak`, depend on the shape of a box alone, not on its place."""
        return False

    def peak(self, source: ArraySource, region: Hyperslab, threads: int | None) -> int:
        """Upper bound of the bytes held while a region is read, beside its block and its stored
        values.

        `threads` as for `read`; None where it is not known how many there will be.
        """
        raise NotImplementedError

    def costs(self, source: ArraySource, boxes: Boxes) -> Costs:
        """All three for many boxes with elements, whatever the number of threads."""
        regions = list(boxes)
        nbytes = [self.nbytes(source, region) for region in regions]
        operations = [self.operations(source, region) for region in regions]
        peak = [self.peak(source, region, None) for region in regions]
        return Costs(np.array(nbytes), np.array(operations), np.array(peak))

    def opened(self, source: ArraySource, reader: Reader | None) -> AbstractContextManager[Counted]:
        """What `read` is given, at whose end it is the same file as at its beginning.

        Raises SourceChanged.
        """
        return opened(source, reader)

    def read(
        self,
        file: Any,
        source: ArraySource,
        slab: Hyperslab,
        out: Array | None,
        threads: int,
        reader: Reader | None,
    ) -> Array:
        """The stored values of a region, in native byte order: in `out`, if given, which has their
        shape and dtype, else in a block of their own.

        Raises FormatError, SourceChanged, Unavailable.
        """
        block = out
        if block is None:
            block = empty(slab.count, source.axes, source.dtype("stored"))
        stored = slab.permute(source.axes)
        # Turned and then retyped, the block is still the caller's memory.
        turned = block.transpose(source.axes)[turns(stored)].view(source.stored)
        self.fill(file, source, ascending(stored), turned, threads, reader)
        if not source.stored.isnative:
            block.byteswap(inplace=True)
        return block

    def fill(
        self,
        file: Any,
        source: ArraySource,
        region: Hyperslab,
        block: Array,
        threads: int,
        reader: Reader | None,
    ) -> None:
        """Read a region into `block`, which has its shape and the file's dtype."""
        raise NotImplementedError

    def unit(self, source: ArraySource) -> tuple[int, ...]:
        """Shape, along the array's own axes, of what is read as a whole; () where any region is."""
        chunk = source.own_chunk_shape
        return tuple(map(min, chunk, source.shape))

    def part(self, source: ArraySource, region: Hyperslab) -> ArraySource:
        """The source with what a region needs of its tables."""
        return source
