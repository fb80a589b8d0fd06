"""What a task costs: bytes it reads, in how many operations, and memory it needs at its peak."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from hyperslab import formats
from hyperslab.arrays import DType
from hyperslab.arrays.axes import for_each
from hyperslab.arrays.sets import Piece
from hyperslab.arrays.slab import Hyperslab
from hyperslab.arrays.source import ArraySource, Values
from hyperslab.blocks import reading
from hyperslab.blocks.reading import gzipindex
from hyperslab.blocks.writing.forms import form_of
from hyperslab.plan.alignment import Row
from hyperslab.plan.pipeline import Pipeline, Reduce, Write
from hyperslab.plan.task import Job, Task, output_pieces

Reads = Sequence[Sequence[Piece]]
"What a task reads, per input."


class Reading(NamedTuple):
    """What reading takes, one number for each of many tasks."""

    nbytes: list[int]
    "Bytes from storage."
    held: list[int]
    "Bytes held while reading, the results included."


class ReadingCosts:
    """What reading takes, of the sources of a job: all regions of a source are looked at
    together.
    """

    def __init__(self, inputs: Mapping[str, tuple[ArraySource, ...]], values: Values) -> None:
        self._inputs = tuple(inputs.values())
        self._values = values

    def of(self, tasks: Sequence[Reads]) -> Reading:
        """What the reads of every task take."""
        nbytes = [0] * len(tasks)
        results = [0] * len(tasks)
        beside = [0] * len(tasks)
        for source, owners, slabs in self._by_source(tasks):
            costs = self._costs(source, slabs)
            itemsize = source.dtype(self._values).itemsize
            for owner, slab, cost in zip(owners, slabs, costs, strict=True):
                result = slab.size * itemsize
                nbytes[owner] += cost.nbytes
                results[owner] += result
                # one is read at a time
                beside[owner] = max(beside[owner], cost.peak - result)
        held = list(map(operator.add, results, beside))
        return Reading(nbytes, held)

    def operations(self, tasks: Sequence[Reads]) -> int:
        """Reads in which the tasks together take what they read."""
        return sum(
            cost.operations
            for source, _, slabs in self._by_source(tasks)
            for cost in reading.costs_of(source, slabs, self._values)
        )

    def _by_source(
        self, tasks: Sequence[Reads]
    ) -> Iterator[tuple[ArraySource, list[int], list[Hyperslab]]]:
        """Each source, and the regions that are read of it, with the numbers of their tasks."""
        found: dict[tuple[int, int], tuple[list[int], list[Hyperslab]]] = {}
        for owner, reads in enumerate(tasks):
            for number, pieces in enumerate(reads):
                for piece in pieces:
                    owners, slabs = found.setdefault((number, piece.source), ([], []))
                    owners.append(owner)
                    slabs.append(piece.slab)
        for (number, index), (owners, slabs) in found.items():
            yield self._inputs[number][index], owners, slabs

    def _costs(self, source: ArraySource, slabs: Sequence[Hyperslab]) -> Sequence[reading.Cost]:
        """What each region takes, through an index where there will be one."""
        costs = reading.costs_of(source, slabs, self._values)
        indexed = gzipindex.expected(source)
        if indexed is source:
            return costs
        through_index = reading.costs_of(indexed, slabs, self._values)
        return [
            cost._replace(nbytes=other.nbytes)
            for cost, other in zip(costs, through_index, strict=True)
        ]


class Operations:
    """How many reads and writes of files tasks of a job take."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._reading = ReadingCosts(job.inputs, job.values)
        self._writes: dict[tuple[int, tuple[int, ...]], int] = {}

    def of(self, tasks: Iterable[Task]) -> tuple[int, int]:
        """(reads, writes) of some of the tasks together."""
        tasks = tuple(tasks)
        reads = self._reading.operations([task.reads for task in tasks])
        return reads, sum(map(self._written, tasks))

    def _written(self, task: Task) -> int:
        output = self._job.output
        if output is None or not output.volumes:
            return len(task.outputs)
        if any(len(tiles.members) > 1 for tiles in output.wholes[task.whole]):
            return _writes(self._job, task)
        key = (task.whole, task.core.count)
        if key not in self._writes:
            self._writes[key] = _writes(self._job, task)
        return self._writes[key]


def _writes(job: Job, task: Task) -> int:
    assert job.output is not None
    writes = 0
    for _, piece in output_pieces(job, task):
        sink = job.output.volumes[piece.source].sink
        writes += form_of(sink).operations(sink, piece.slab)
    return writes


def aligning_nbytes(row: Row, read: Hyperslab, dtypes: Sequence[DType]) -> int:
    """Memory that bringing further inputs beside the source's block takes, in bytes; `dtypes` are
    those of all inputs.
    """
    nbytes = 0
    for alignment, dtype in zip(row, dtypes, strict=True):
        if alignment is not None:
            nbytes += alignment.working_nbytes(read, dtype)
    return nbytes


def working_bytes(pipeline: Pipeline, count: Sequence[int], dtypes: Sequence[DType]) -> int:
    """Memory beside the blocks as read: padded copies, and the most demanding step with its result
    and temporaries.

    `count` is the block's shape without its halo, `dtypes` those of the inputs.
    """
    halo = for_each(pipeline.halo, len(count), 0)
    shape: tuple[int, ...] = tuple(n + 2 * h for n, h in zip(count, halo, strict=True))
    copies = 0
    if any(halo):
        copies = math.prod(shape) * sum(dtype.itemsize for dtype in dtypes)
    dtype = dtypes[0]
    held = 0
    needs = [0]
    block = math.prod(shape) * dtype.itemsize
    for step in pipeline.steps:
        given = block
        shapes = step.shapes(shape)
        block = 0
        for promise, made in zip(step.returns, shapes, strict=True):
            block += math.prod(made) * promise.made_of(dtype).itemsize
        needs.append(held + block + int(step.temporaries * max(given, block)))
        held = block
        shape = shapes[0]
        dtype = step.returns[0].made_of(dtype)
    if isinstance(pipeline.end, Reduce):
        needs.append(held + int(pipeline.end.temporaries * block))
    elif isinstance(pipeline.end, Write):
        suffix, _ = formats.written_as(pipeline.end.format)
        copies_of_block = 1 if suffix.is_written_in_place else 2
        needs.append(held + block * copies_of_block)
    return copies + max(needs)
