"""What a task costs: bytes it reads, in how many operations, and memory it needs at its peak."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

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

_Kind = Hyperslab | tuple[int, ...]
"A region, or its shape where no more than this matters."


class ReadingCosts:
    """What reading takes, of the sources of a job.

    Where that depends on the shape of a region alone, each shape is looked at once: plans have many
    tasks of few shapes. Else each region is: with a large halo, many tasks read the same.
    """

    def __init__(self, inputs: Mapping[str, tuple[ArraySource, ...]], values: Values) -> None:
        self._inputs = tuple(inputs.values())
        self._values = values
        self._known: dict[tuple[int, int, _Kind], _Cost] = {}
        self._is_even: dict[tuple[int, int], bool] = {}

    def of(self, reads: Sequence[Sequence[Piece]]) -> tuple[int, int]:
        """(bytes from storage, bytes held while reading) of the pieces of a task, per input."""
        costs = list(self._each(reads))
        held = sum(cost.result for cost in costs)
        beside = max((cost.peak - cost.result for cost in costs), default=0)
        # one is read at a time
        return sum(cost.nbytes for cost in costs), held + max(0, beside)

    def _each(self, reads: Sequence[Sequence[Piece]]) -> Iterator[_Cost]:
        for number, pieces in enumerate(reads):
            for piece in pieces:
                yield self._cost(number, piece)

    def _cost(self, number: int, piece: Piece) -> _Cost:
        place = (number, piece.source)
        if place not in self._is_even:
            self._is_even[place] = reading.is_even(self._inputs[number][piece.source])
        key = (*place, _kind(piece.slab, self._is_even[place]))
        if key not in self._known:
            self._known[key] = self._looked_up(number, piece)
        return self._known[key]

    def _looked_up(self, number: int, piece: Piece) -> _Cost:
        source = self._inputs[number][piece.source]
        nbytes = reading.read_nbytes(gzipindex.expected(source), piece.slab)
        peak = reading.read_peak(source, piece.slab, self._values)
        result = piece.slab.size * source.dtype(self._values).itemsize
        return _Cost(nbytes, peak, result)


def _kind(slab: Hyperslab, is_even: bool) -> _Kind:
    if is_even:
        return slab.count
    return slab


class _Cost(NamedTuple):
    """What reading one piece takes, bytes."""

    nbytes: int
    "Bytes from storage."
    peak: int
    "Bytes held at once, the result included."
    result: int


class Operations:
    """How many reads and writes of files tasks of a job take."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._inputs = tuple(job.inputs.values())
        self._is_even = [all(map(reading.is_even, sources)) for sources in self._inputs]
        self._reads: dict[tuple[int, int, _Kind], int] = {}
        self._writes: dict[tuple[int, tuple[int, ...]], int] = {}

    def of(self, tasks: Iterable[Task]) -> tuple[int, int]:
        """(reads, writes) of some of the tasks together."""
        reads = 0
        writes = 0
        for task in tasks:
            for number, pieces in enumerate(task.reads):
                reads += sum(self._read(number, piece) for piece in pieces)
            writes += self._written(task)
        return reads, writes

    def _read(self, number: int, piece: Piece) -> int:
        source = self._inputs[number][piece.source]
        key = (number, piece.source, _kind(piece.slab, self._is_even[number]))
        if key not in self._reads:
            self._reads[key] = reading.read_operations(source, piece.slab)
        return self._reads[key]

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
            block += math.prod(made) * np.dtype(promise.dtype or dtype).itemsize
        needs.append(held + block + int(step.temporaries * max(given, block)))
        held = block
        shape = shapes[0]
        dtype = np.dtype(step.returns[0].dtype or dtype)
    if isinstance(pipeline.end, Reduce):
        needs.append(held + int(pipeline.end.temporaries * block))
    elif isinstance(pipeline.end, Write):
        suffix, _ = formats.written_as(pipeline.end.format)
        copies_of_block = 1 if suffix.is_written_in_place else 2
        needs.append(held + block * copies_of_block)
    return copies + max(needs)
