"""Part: what one task of Spark loads, and reads block by block.

Spark's workers collect garbage after every task, which takes as long as they have objects. So a
task imports this module and what reads arrays, nothing that plans or writes, and what is there
before the first block, nearly all of it modules, is looked at no more.
"""

from __future__ import annotations

import functools
import gc
import sys
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from hyperslab.arrays import Array
from hyperslab.arrays.sets import Whole
from hyperslab.arrays.slab import Hyperslab
from hyperslab.arrays.source import ArraySource, Values
from hyperslab.blocks.view import ArrayView
from hyperslab.connectors.views import read_whole
from hyperslab.errors import HyperslabError, SourceChanged


class ReadFailed(HyperslabError):
    """A region that a task could not read; the text names file, dataset and hyperslab."""


@dataclass(frozen=True, slots=True)
class Part:
    """What one task loads: a region of an array, block by block, from the files that hold it."""

    slabs: tuple[Hyperslab, ...]
    "Regions of the whole array, one a block, in the order of the rows."
    sources: tuple[ArraySource, ...]
    "Only those that the task reads, with only the rows of their tables that it needs."
    whole: Whole
    "The array, of which only the members are known that the task reads."
    values: Values
    axis: int
    picked: tuple[int, ...] | None

    def __iter__(self) -> Iterator[tuple[Hyperslab, Array]]:
        """Read block after block. Raises ReadFailed."""
        _leave_out_what_is_there()
        views = {id(source): ArrayView(source, self.values, _one) for source in self.sources}
        for slab in self.slabs:
            block = self._read(slab, views)
            if self.picked is not None:
                block = block.take(self.picked, 1 - self.axis)
            yield slab, block

    def _read(self, slab: Hyperslab, views: dict[int, ArrayView]) -> Array:
        if not slab.size:
            return np.empty(slab.count, self.sources[0].dtype(self.values))
        source = None

        def view(of: ArraySource) -> ArrayView:
            nonlocal source
            source = of
            return views[id(of)]

        try:
            return read_whole(self.whole, self.sources, slab, self.values, view)
        except (HyperslabError, OSError) as error:
            assert source is not None
            where = f"{source.url}::{source.name}" if source.name else source.url
            why = _why(error, where)
            raise ReadFailed(f"{where}, hyperslab {slab} of the array: {why}") from error


def _why(error: Exception, where: str) -> str:
    """What happened, without the name of the file again, and without the remedies of a run of
    hyperslab's own.
    """
    if isinstance(error, SourceChanged):
        return "it is no longer there, or was written to since it was loaded: load it again"
    return str(error).removeprefix(f"{where}: ")


def _one() -> int:
    """A task has one core: Spark runs as many as there are."""
    return 1


@functools.cache
def _leave_out_what_is_there() -> None:
    """Leave the objects that are there by now out of every further search for garbage, once, if
    this is a worker of Spark.
    """
    spark = sys.modules.get("pyspark.taskcontext")
    if spark is not None and spark.TaskContext.get() is not None:
        gc.freeze()
