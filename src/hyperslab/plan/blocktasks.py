"""BlockTasks: a task for every block, with what it reads, writes and needs at its peak."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from hyperslab import formats
from hyperslab.arrays.axes import for_each
from hyperslab.arrays.partition import Partition
from hyperslab.arrays.sets import Piece, Whole
from hyperslab.arrays.slab import Hyperslab
from hyperslab.blocks.reading import gzipindex
from hyperslab.blocks.writing.forms import form_of
from hyperslab.plan.becoming import Made
from hyperslab.plan.command import Execute
from hyperslab.plan.costs import ReadingCosts, aligning_nbytes, working_bytes
from hyperslab.plan.pipeline import Pipeline, Reduce, Write
from hyperslab.plan.sinks import block_name, stem_of, written_nbytes
from hyperslab.plan.task import Job, Task

_Needs = tuple[int, int]
"Bytes written, and memory beside what is read, of a task."


class _Block(NamedTuple):
    """A block, and what is read for it."""

    whole: int
    "Number of its array."
    core: Hyperslab
    read: Hyperslab
    "The block with its halo, as far as that lies in the array."
    pad: tuple[tuple[int, int], ...]
    reads: tuple[tuple[Piece, ...], ...]
    "What is read of each input."
    beside: int
    "How many blocks the array has."


class BlockTasks:
    """The tasks of a job.

    Most blocks of a plan have one of few shapes, and what depends on the shape alone is worked out
    once for each.
    """

    def __init__(self, pipeline: Pipeline, job: Job) -> None:
        self._pipeline = pipeline
        self._job = job
        self._reading = ReadingCosts(job.inputs, job.values)
        self._suffix = _block_suffix(pipeline.end)
        self._windows = _windows_nbytes(job)
        self._known: dict[tuple[int, tuple[int, ...]], _Needs] = {}

    def of(self, partitions: Sequence[Partition]) -> list[Task]:
        """A task for every block that has elements, in order."""
        blocks = [
            block
            for index, partition in enumerate(partitions)
            for block in self._blocks(index, partition)
        ]
        return self._tasks(blocks)

    def _blocks(self, index: int, partition: Partition) -> Iterator[_Block]:
        """The blocks of a whole that have elements."""
        return self._around(index, [core for core in partition if core.size], len(partition))

    def largest_peak(self, partitions: Sequence[Partition]) -> int:
        """Memory that the largest block of any array needs, about: stored chunks of other blocks
        may be larger.
        """
        seen = set()
        peak = 0
        for index, partition in enumerate(partitions):
            looks = (partition.cuts, self._job.becoming[index].given)
            if looks in seen or not len(partition):
                continue
            seen.add(looks)
            core = _largest_block(partition, for_each(self._job.halo, len(partition.shape), 0))
            if core.size:
                (task,) = self._tasks(list(self._around(index, [core], len(partition))))
                peak = max(peak, task.bytes_peak)
        return peak

    @property
    def reads_streams(self) -> bool:
        """Whether the source has files that are one gzip stream each, large enough to matter."""
        return any(
            source.gzip is not None or gzipindex.can_be_indexed(source)
            for source in self._pipeline.source.sources
        )

    def slot_reads(self, partitions: Sequence[Partition], slots: int) -> int:
        """Bytes that the busiest slot reads, about."""
        tasks = self.of(partitions)
        waves = math.ceil(len(tasks) / slots)
        return waves * max((task.bytes_read for task in tasks), default=0)

    def _around(self, index: int, cores: Sequence[Hyperslab], number: int) -> Iterator[_Block]:
        """Some of so many blocks of a whole."""
        shape = self._pipeline.source.wholes[index].shape
        halo = for_each(self._job.halo, len(shape), 0)
        regions = [_with_halo(core, halo, shape) for core in cores]
        reads = self._reads(index, [read for read, _ in regions])
        for core, (read, pad), own in zip(cores, regions, reads, strict=True):
            yield _Block(index, core, read, pad, own, number)

    def _tasks(self, blocks: Sequence[_Block]) -> list[Task]:
        """The tasks of blocks, numbered from 0 on."""
        reading = self._reading.of([block.reads for block in blocks])
        costs = zip(blocks, reading.nbytes, reading.held, strict=True)
        return [
            self._task(number, block, nbytes, held)
            for number, (block, nbytes, held) in enumerate(costs)
        ]

    def _task(self, number: int, block: _Block, nbytes: int, held: int) -> Task:
        """The task of a block, of which so many bytes are read, and so many held meanwhile."""
        index = block.whole
        core = block.core
        names: tuple[str, ...] = ()
        if self._suffix:
            names = tuple(
                _block_name(self._pipeline.source.wholes[index], made, core, block.beside)
                + self._suffix
                for made in self._job.becoming[index].outputs
            )
        if self._job.alignments:
            row = self._job.alignment(index)
            held += aligning_nbytes(row, block.read, self._job.becoming[index].given)
        written, working = self._needs(index, core)
        held += working
        return Task(number, index, core, block.pad, block.reads, names, nbytes, written, held)

    def _reads(
        self, index: int, regions: Sequence[Hyperslab]
    ) -> Iterator[tuple[tuple[Piece, ...], ...]]:
        """What is read of all inputs for each of some regions of the source."""
        row = self._job.alignment(index)
        each = []
        for inputs, alignment in zip(self._pipeline.inputs.values(), row, strict=True):
            own: Iterable[Hyperslab] = regions
            if alignment is not None and regions:
                own = alignment.regions(regions)
            whole = inputs.beside(index)
            each.append([tuple(whole.pieces(region)) for region in own])
        return zip(*each, strict=True)

    def _needs(self, index: int, core: Hyperslab) -> _Needs:
        """What a block writes and needs; of files that several tasks write to, it may depend on its
        place.
        """
        output = self._job.output
        by_place = False
        if output is not None and output.volumes:
            by_place = any(len(tiles.members) > 1 for tiles in output.wholes[index])
        if by_place:
            return self._looked_up(index, core)
        key = (index, core.count)
        if key not in self._known:
            self._known[key] = self._looked_up(index, core)
        return self._known[key]

    def _looked_up(self, index: int, core: Hyperslab) -> _Needs:
        becoming = self._job.becoming[index]
        working = working_bytes(self._pipeline, core.count, becoming.given)
        written = 0
        if isinstance(self._pipeline.end, Write):
            for made in becoming.outputs:
                written += math.prod(made.shape_of(core.count)) * made.dtype.itemsize
        if self._windows is None:
            return written, working
        padded = written_nbytes(self._job, index, core)
        return padded, working + padded - written + self._windows


def _windows_nbytes(job: Job) -> int | None:
    """Memory that writers of chunks take beside them; None where no file has chunks."""
    if job.output is None:
        return None
    sinks = [sink for sink, _ in job.output.volumes]
    if not any(sink.unit for sink in sinks):
        return None
    return max(form_of(sink).window_nbytes for sink in sinks)


def _block_suffix(end: Write | Reduce | Execute | None) -> str:
    """What ends the names of files of blocks; '' where tasks write no files of their own."""
    if isinstance(end, Write) and end.keep == "blocks":
        return formats.written()[end.format]
    return ""


def _block_name(whole: Whole, made: Made, core: Hyperslab, blocks: int) -> str:
    """Name of the file of a block, without its suffix: with the first voxel of the block in the
    whole, along the axes that the array has.
    """
    stem = stem_of(whole.name, made)
    if made.is_like_whole:
        return block_name(stem, core, whole.shape, blocks)
    first = made.of_whole.region(core)
    return block_name(stem, first, made.of_whole.shape(whole.shape), blocks)


def _largest_block(partition: Partition, halo: Sequence[int]) -> Hyperslab:
    """The block that, with its halo, has the most elements within the array."""
    start = []
    count = []
    for cuts, around in zip(partition.cuts, halo, strict=True):

        def reach(interval: tuple[int, int], around: int = around, extent: int = cuts[-1]) -> int:
            low, high = interval
            return min(high + around, extent) - max(low - around, 0)

        low, high = max(itertools.pairwise(cuts), key=reach)
        start.append(low)
        count.append(high - low)
    return Hyperslab(tuple(start), tuple(count))


def _with_halo(
    core: Hyperslab, halo: Sequence[int], shape: Sequence[int]
) -> tuple[Hyperslab, tuple[tuple[int, int], ...]]:
    """The region to be read for a block, and the voxels per axis that lie beyond the array."""
    if not any(halo):
        return core, ((0, 0),) * core.ndim
    start = []
    count = []
    pad = []
    for h, first, n, extent in zip(halo, core.start, core.count, shape, strict=True):
        low = min(h, first)
        high = min(h, extent - first - n)
        start.append(first - low)
        count.append(n + low + high)
        pad.append((h - low, h - high))
    return Hyperslab(tuple(start), tuple(count)), tuple(pad)
