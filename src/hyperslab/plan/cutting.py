"""Where wholes are cut: by a rule, or for long runs of what is read and written."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from hyperslab.arrays.partition import Layout, Partition, Rule, cut, cut_within
from hyperslab.arrays.source import ArraySource
from hyperslab.arrays.transfer import Transfer, best_limit, cut_transfer
from hyperslab.plan.becoming import Becoming
from hyperslab.plan.pipeline import Pipeline
from hyperslab.plan.sinks import transfer
from hyperslab.plan.task import Output

AUTO_LIMIT_NBYTES = 32 * 2**20
"""Largest block of the automatic partition: glibc serves larger arrays by mmap, whose pages are
cleared at each use.
"""
AUTO_FLOOR_NBYTES = 2**20
"Smallest block that is cut only to give every slot something to do."


@dataclass(frozen=True, slots=True, eq=False)
class Cutting:
    """How the wholes of a pipeline are cut: by a rule, or for long runs of what is read and
    written.
    """

    pipeline: Pipeline
    becoming: tuple[Becoming, ...]
    output: Output | None
    rule: Rule

    def auto_limit(self, slots: int, slot_nbytes: int) -> int:
        """Bytes of a block that fits the memory of a slot and leaves every slot some work."""
        pipeline = self.pipeline
        largest = [
            max(source.stored.itemsize for source in inputs.sources)
            for inputs in pipeline.inputs.values()
        ]
        share = math.ceil(self._size() * sum(largest) / (2 * slots))
        fits = int(slot_nbytes / _multiples(pipeline))
        most = max(1, min(fits, max(share, AUTO_FLOOR_NBYTES)))
        output = self._shared_files()
        if output is not None and len(pipeline.source.wholes) == 1:
            return best_limit(self._transfer(output, 0), AUTO_LIMIT_NBYTES, most)
        return min(AUTO_LIMIT_NBYTES, most)

    def partitions(self, limit: int) -> tuple[Partition, ...]:
        """The blocks of every whole."""
        return tuple(self._partition(index, limit) for index in range(len(self.becoming)))

    def _partition(self, index: int, limit: int) -> Partition:
        output = self._shared_files()
        if output is not None:
            return cut_transfer(self._transfer(output, index), limit)
        becoming = self.becoming[index]
        rule = replace(self.rule, axes_whole=(*self.rule.axes_whole, *becoming.dropped))
        layout = self._layout(index)
        if self.pipeline.region is None:
            return cut(layout, rule, limit, becoming.unit)
        region = self.pipeline.region.within(self.pipeline.source.wholes[index])
        return cut_within(layout, region, rule, limit)

    def _size(self) -> int:
        """Elements of the source that it runs over."""
        source = self.pipeline.source
        region = self.pipeline.region
        if region is None:
            return source.size
        return sum(region.within(whole).size for whole in source.wholes)

    def _shared_files(self) -> Output | None:
        """The output, where blocks are cut for long runs of what is written, too: files that all
        tasks write to, of the one array that has the axes of its source.
        """
        if self.rule.kind != "auto" or self.output is None or not self.output.volumes:
            return None
        are_alike = all(
            len(whole.outputs) == 1 and whole.main.is_like_whole and not whole.dropped
            for whole in self.becoming
        )
        return self.output if are_alike else None

    def _transfer(self, output: Output, index: int) -> Transfer:
        sources = self.pipeline.source
        whole_axes = frozenset(axis % sources.ndim for axis in self.rule.axes_whole)
        return transfer(sources, self.becoming[index].main, output, index, whole_axes)

    def _layout(self, index: int) -> Layout:
        sources = self.pipeline.source
        whole = sources.wholes[index]
        source = sources.first(whole)
        chunk = None
        if len(whole.members) == 1:
            chunk = _chunk(source)
        itemsize = sum(dtype.itemsize for dtype in self.becoming[index].given)
        return Layout(whole.shape, source.axes, itemsize, chunk, self.pipeline.halo)


def _multiples(pipeline: Pipeline) -> float:
    """Estimated memory of a task in multiples of its blocks; the task's own bytes_peak is exact
    about what we hold.
    """
    temporaries = max([step.temporaries for step in pipeline.steps], default=1)
    if any(pipeline.halo):
        return 4 + temporaries
    return 3 + temporaries


def _chunk(source: ArraySource) -> tuple[int, ...] | None:
    """Shape of the stored chunks in the array's axes; None for an array that is stored as one."""
    stored = source.chunk_shape
    if source.chunks is not None:
        stored = source.chunks.chunk_shape
    if not stored or stored == source.stored_shape:
        return None
    by_axis = dict(zip(source.axes, stored, strict=True))
    return tuple(min(by_axis[axis], extent) for axis, extent in enumerate(source.shape))
