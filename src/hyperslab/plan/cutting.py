"""Where wholes are cut: by a rule, or for long runs of what is read and written."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from hyperslab.arrays.axes import for_each
from hyperslab.arrays.partition import (
    Layout,
    Partition,
    Rule,
    cut,
    cut_part,
    cut_within,
    halvings,
    padded_nbytes,
)
from hyperslab.arrays.source import ArraySource
from hyperslab.arrays.transfer import best_limit, cut_transfer
from hyperslab.errors import UsageError
from hyperslab.plan.becoming import Becoming, become
from hyperslab.plan.pipeline import Pipeline
from hyperslab.units import show_count

if TYPE_CHECKING:
    from hyperslab.arrays.transfer import Transfer
    from hyperslab.plan.task import Output

AUTO_LIMIT_NBYTES = 32 * 2**20
"""Largest block of the automatic partition: glibc serves larger arrays by mmap, whose pages are
cleared at each use.
"""
AUTO_FLOOR_NBYTES = 2**20
"Smallest block that is cut only to give every slot something to do."


SMALLEST_NBYTES = 64 * 1024
"Smallest limit that the automatic partition tries: a task takes more for itself."
MOST_BLOCKS = 20_000
"""Blocks of a plan, beyond one for each array: planning takes up to 100 µs for each, and every
engine more.
"""
MOST_SHARE = 64
"Times its elements that a block with its halo may have: beyond, halving it hardly saves memory."
_WORTH = 1.1
"Fewer and larger blocks with a halo are taken for what takes so much longer than the best."


class _Try(NamedTuple):
    """A limit of blocks with a halo, and what comes of it."""

    limit: int
    padded_nbytes: int
    "Bytes of the largest block with its halo."
    cost: int
    "Bytes that the busiest slot handles; each task costs it some more."


@dataclass(frozen=True, slots=True, eq=False)
class Cutting:
    """How the wholes of a pipeline are cut: by a rule, or for long runs of what is read and
    written.
    """

    pipeline: Pipeline
    becoming: tuple[Becoming, ...]
    shared: Output | None
    "The output, where blocks are cut for long runs of what is written, too."
    rule: Rule

    @classmethod
    def of(
        cls,
        pipeline: Pipeline,
        becoming: tuple[Becoming, ...],
        output: Output | None,
        rule: Rule,
    ) -> Cutting:
        """What a rule makes of an output: automatic blocks suit files that all tasks write to, of
        the one array that has the axes of its source.
        """
        is_part = pipeline.region is not None
        if rule.kind != "auto" or output is None or not output.volumes or is_part:
            return cls(pipeline, becoming, None, rule)
        are_alike = all(
            len(whole.outputs) == 1 and whole.main.is_like_whole and not whole.dropped
            for whole in becoming
        )
        return cls(pipeline, becoming, output if are_alike else None, rule)

    def auto_limit(self, slots: int, slot_nbytes: int) -> int:
        """Bytes of a block that fits the memory of a slot and leaves every slot some work."""
        if self.rule.kind != "auto":
            return AUTO_LIMIT_NBYTES
        fits = int(slot_nbytes / _multiples(self.pipeline))
        if any(self.pipeline.halo):
            return self._limit_with_halo(slots, fits)
        share = math.ceil(self.nbytes / (2 * slots))
        most = max(self._least, min(fits, max(share, AUTO_FLOOR_NBYTES)))
        output = self.shared
        if output is not None and len(self.pipeline.source.wholes) == 1:
            return best_limit(self._transfer(output, 0), AUTO_LIMIT_NBYTES, most)
        return max(self._least, min(AUTO_LIMIT_NBYTES, most))

    @property
    def nbytes(self) -> int:
        """Bytes of all blocks together, by the largest element of each input."""
        largest = [
            max(source.stored.itemsize for source in inputs.sources)
            for inputs in self.pipeline.inputs.values()
        ]
        return self._size() * sum(largest)

    @property
    def _least(self) -> int:
        """The smallest limit that is worth trying."""
        return max(SMALLEST_NBYTES, math.ceil(2 * self.nbytes / MOST_BLOCKS))

    def _limit_with_halo(self, slots: int, fits: int) -> int:
        """The limit with which the slots have the least to do, halos included, or hardly more.

        Smaller blocks occupy more slots, and read and compute more of their neighbours again. Of
        limits that are about as good it is the largest of those for which a block does not leave
        the processor's and the allocator's caches, else the one with the smallest blocks.
        """
        tried = list(self._tries(slots, fits))
        able = [one for one in tried if one.padded_nbytes <= fits]
        if not able:
            return min(tried, key=_by_padded).limit
        least = min(one.cost for one in able)
        good = [one for one in able if one.cost <= least * _WORTH]
        small = [one for one in good if one.padded_nbytes <= AUTO_LIMIT_NBYTES]
        if small:
            return small[0].limit
        return good[-1].limit

    def _tries(self, slots: int, fits: int) -> Iterator[_Try]:
        """Limits from that of one block on, each of about half of the one before, while blocks are
        not so small that they are many or hardly more than their halo.
        """
        wholes = self.pipeline.source.wholes
        index = max(range(len(wholes)), key=lambda i: math.prod(wholes[i].shape))
        layout = self._layout(index)
        alike = self.pipeline.source.size / max(1, math.prod(layout.shape))
        for limit in self._limits(layout):
            partition = self._partition(index, limit)
            padded = padded_nbytes(layout, partition.largest)
            waves = max(1, math.ceil(len(partition) * alike / slots))
            yield _Try(limit, padded, waves * (padded + AUTO_FLOOR_NBYTES))
            core_nbytes = math.prod(partition.largest) * layout.itemsize
            is_small = core_nbytes <= AUTO_FLOOR_NBYTES and padded <= fits
            if is_small or core_nbytes * MOST_SHARE < padded:
                return

    def _limits(self, layout: Layout) -> Iterator[int]:
        """Bounds of the largest of ever smaller blocks."""
        if self.shared is None:
            dropped = self.becoming[0].dropped
            whole_axes = {axis % len(layout.shape) for axis in (*self.rule.axes_whole, *dropped)}
            limits = [padded_nbytes(layout, block) for block in halvings(layout, whole_axes)]
        else:
            nbytes = max(1, math.prod(layout.shape) * layout.itemsize)
            limits = [nbytes >> times for times in range(nbytes.bit_length())]
        yield max(limits[0], self._least)
        yield from (limit for limit in limits[1:] if limit >= self._least)

    def few(self, limit: int) -> tuple[int, tuple[Partition, ...]]:
        """The limit, and the blocks of every whole: where there would be too many, with the next
        limit that makes few enough.

        Raises UsageError where the rule says how many there are to be.
        """
        whole = [math.prod(whole.shape) for whole in self.pipeline.source.wholes]
        most = max(MOST_BLOCKS, len(whole))
        while True:
            partitions = tuple(self._partition(i, limit, MOST_BLOCKS) for i in range(len(whole)))
            blocks = sum(map(len, partitions))
            if blocks <= most:
                return limit, partitions
            if self.rule.kind != "auto":
                raise UsageError(
                    f"{self.rule} cuts the {show_count(len(whole), 'array')} into {blocks:,}"
                    f" blocks; a run has at most {MOST_BLOCKS:,}: ask for fewer and larger ones,"
                    " or run over fewer files at a time"
                )
            limit *= 2

    def partitions(self, limit: int) -> tuple[Partition, ...]:
        """The blocks of every whole."""
        return tuple(self._partition(index, limit) for index in range(len(self.becoming)))

    def most(self) -> int:
        """How many blocks there can be of all wholes, as no unit and no axis that is kept whole is
        cut.
        """
        wholes = zip(self.pipeline.source.wholes, self.becoming, strict=True)
        return sum(self._most_of(whole.shape, becoming) for whole, becoming in wholes)

    def _most_of(self, shape: tuple[int, ...], becoming: Becoming) -> int:
        kept = _positive((*self.rule.axes_whole, *becoming.dropped), len(shape))
        units = enumerate(zip(shape, becoming.unit, strict=True))
        return math.prod(-(-extent // unit) for axis, (extent, unit) in units if axis not in kept)

    def note(self, partitions: Sequence[Partition]) -> str:
        """Why the number or the shape of the blocks is not what was asked for; '' where it is."""
        if self.pipeline.region is not None:
            return ""
        for index, partition in enumerate(partitions):
            unlike = _unlike(self.rule, partition)
            if unlike:
                return f"{unlike}, because {self._why(index, partition)}"
        return ""

    def _why(self, index: int, partition: Partition) -> str:
        becoming = self.becoming[index]
        shape = "x".join(map(str, self.pipeline.source.wholes[index].shape))
        unit = "x".join(map(str, becoming.unit))
        if self.rule.kind == "blocks" and len(partition) > math.prod(self.rule.value):
            grid = "x".join(map(str, partition.grid))
            return f"blocks form a regular grid, here {grid}"
        if becoming.unit != becoming.main.scale:
            return f"blocks must consist of whole chunks of the output, {unit}"
        if any(n > 1 for n in becoming.main.scale):
            return f"the {unit} voxels that become one must lie in one block"
        if becoming.dropped:
            return f"axes that the function drops are not cut, and the others of {shape} are short"
        if self.rule.axes_whole:
            return f"--axes-whole leaves no more of {shape} to cut"
        return f"the array has only {shape} voxels"

    def _partition(self, index: int, limit: int, most: int | None = None) -> Partition:
        """The blocks of a whole; UsageError where a rule other than `auto` makes more of them."""
        output = self.shared
        if output is not None:
            return cut_transfer(self._transfer(output, index), limit)
        becoming = self.becoming[index]
        rule = replace(self.rule, axes_whole=(*self.rule.axes_whole, *becoming.dropped))
        layout = self._layout(index)
        if rule.kind == "auto":
            most = None
        if self.pipeline.region is None:
            return cut(layout, rule, limit, becoming.unit, most)
        region = self.pipeline.region.within(self.pipeline.source.wholes[index])
        is_in_units = any(n > 1 for n in becoming.unit)
        if becoming.main.origin and is_in_units:
            return cut_part(layout, region, rule, limit, becoming.unit, most)
        return cut_within(layout, region, rule, limit, most)

    def _size(self) -> int:
        """Elements of the source that it runs over."""
        source = self.pipeline.source
        region = self.pipeline.region
        if region is None:
            return source.size
        return sum(region.within(whole).size for whole in source.wholes)

    def _transfer(self, output: Output, index: int) -> Transfer:
        from hyperslab.plan.sinks import transfer

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
        halo = for_each(self.pipeline.halo, source.ndim, 0)
        return Layout(whole.shape, source.axes, itemsize, chunk, halo)


def preview(pipeline: Pipeline, slots: int, slot_nbytes: int) -> tuple[Partition, ...]:
    """How every whole of a pipeline would be cut for so many slots, left to itself; the pipeline
    need not have an end.
    """
    cutting = Cutting.of(pipeline, become(pipeline), None, Rule())
    _, partitions = cutting.few(cutting.auto_limit(slots, slot_nbytes))
    return partitions


def _unlike(rule: Rule, partition: Partition) -> str:
    """How a partition differs from its rule; '' where it does not, or the rule leaves it open."""
    if rule.kind == "blocks" and len(partition) != math.prod(rule.value):
        value = "x".join(map(str, rule.value))
        return f"--blocks {value} became {len(partition):,}"
    if rule.kind != "block-shape" or not len(partition):
        return ""
    asked = [
        extent if axis in _positive(rule.axes_whole, len(rule.value)) else min(n, extent)
        for axis, (n, extent) in enumerate(zip(rule.value, partition.shape, strict=True))
    ]
    if partition.largest == tuple(asked):
        return ""
    value = ",".join(map(str, rule.value))
    largest = ",".join(map(str, partition.largest))
    return f"--block-shape {value} became {largest}"


def _positive(axes: Sequence[int], ndim: int) -> set[int]:
    return {axis % ndim for axis in axes}


def _by_padded(one: _Try) -> int:
    return one.padded_nbytes


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
