"""Outputs: the files that a pipeline writes, described before anything runs.

An array goes to one file, or to the files of a grid; either way a task writes what of its block
lies in each.
"""

from __future__ import annotations

import hashlib
import math
import os
import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from hyperslab import formats
from hyperslab.arrays.header import Header
from hyperslab.arrays.partition import Layout, Partition, cut
from hyperslab.arrays.sets import Member, Whole
from hyperslab.arrays.sink import ArraySink
from hyperslab.arrays.slab import Hyperslab
from hyperslab.arrays.source import Scaling
from hyperslab.arrays.transfer import Positions, Side, Transfer, bounds_of
from hyperslab.blocks import reading
from hyperslab.blocks.writing.forms import form_of
from hyperslab.errors import UsageError
from hyperslab.plan.costs import output_dtype, output_shape
from hyperslab.plan.pipeline import Pipeline, Write
from hyperslab.plan.task import Job, Output, Task, Volume, output_pieces, scaled_header

_MOST_PLACES = 2**15
_NAME_MAX = 255
"Bytes of a file's name (Linux, limits.h)."
_LONGEST_NAME_NBYTES = _NAME_MAX - len("..123456789abc-123456789abc.part")


def output(pipeline: Pipeline, end: Write) -> Output:
    """Describe every file that several tasks will write to. Raises UsageError for what the format
    cannot hold.
    """
    formats.written_as(end.format)  # or says which there are
    folder = os.path.abspath(end.dest)
    unfinished = _unfinished(folder) if end.keep == "volume" else {}
    volumes: list[Volume] = []
    wholes: list[Whole] = []
    for index in range(len(pipeline.source.wholes)) if end.keep == "volume" else ():
        boxes = list(_grid(pipeline, end, index))
        members = [Member(len(volumes) + number, box) for number, box in enumerate(boxes)]
        volumes += (_volume(pipeline, end, folder, index, box, boxes, unfinished) for box in boxes)
        wholes.append(_tiled(output_shape(pipeline, pipeline.source.wholes[index].shape), members))
    return Output(folder, end.format, end.encoding, tuple(volumes), tuple(wholes))


def _grid(pipeline: Pipeline, end: Write, index: int) -> Partition:
    """The regions of a whole's result that are files."""
    whole = pipeline.source.wholes[index]
    shape, dtype = output_shape(pipeline, whole.shape), output_dtype(pipeline, index)
    axes = pipeline.source.first(whole).axes
    if end.grid is None:
        return Partition(tuple((0, n) for n in shape), axes)
    return cut(Layout(shape, axes, dtype.itemsize, None), end.grid, 0)


def _tiled(shape: tuple[int, ...], members: Sequence[Member]) -> Whole:
    axis = max(range(len(shape)), key=lambda a: len({m.box.start[a] for m in members}), default=0)
    ordered = sorted(members, key=lambda m: m.box.start[axis : axis + 1])
    longest = max((m.box.count[axis] for m in members), default=0) if shape else 0
    return Whole("", shape, tuple(ordered), Header(), axis, longest)


def _volume(
    pipeline: Pipeline,
    end: Write,
    folder: str,
    index: int,
    box: Hyperslab,
    boxes: Sequence[Hyperslab],
    unfinished: Mapping[str, str],
) -> Volume:
    whole = pipeline.source.wholes[index]
    shape = output_shape(pipeline, whole.shape)
    if not shape:
        source = pipeline.source.first(whole)
        where = f"{source.url}::{source.name}" if source.name else source.url
        raise UsageError(
            f"{where}: is a single number, not an array, and is not converted; hyperslab.open"
            " reads it"
        )
    suffix = formats.written()[end.format]
    name = end.name or block_name(whole.name, box, shape, len(boxes)) + suffix
    path = os.path.join(folder, name)
    header = scaled_header(header_kept(pipeline, index), pipeline.scale)
    header = header if len(boxes) == 1 else replace(header.for_slab(box), whole_shape=shape)
    dtype, scaling = output_dtype(pipeline, index), scaling_kept(pipeline, index)
    encoding = end.encodings[index] if end.encodings else end.encoding
    sink = formats.module(formats.format_of_name(name)).sink(
        path, box.count, dtype, header, scaling, encoding
    )
    return Volume(sink, _partial_path(folder, name, sink, unfinished))


def block_name(stem: str, box: Hyperslab, shape: Sequence[int], blocks: int) -> str:
    """The stem alone when an array is one block, else with the block's first voxel, padded so that
    names sort.
    """
    corner = [
        f"{first:0{len(str(extent))}d}" for first, extent in zip(box.start, shape, strict=True)
    ]
    return "_".join([stem, *(corner if blocks > 1 else [])])


def require_short(names: Iterable[str]) -> None:
    """Raise UsageError for the name of a file that is too long while the file is unfinished."""
    longest = max(names, key=lambda name: len(os.fsencode(name)), default="")
    if len(os.fsencode(longest)) > _LONGEST_NAME_NBYTES:
        raise UsageError(
            f"{longest}: file systems take names of up to {_NAME_MAX} bytes, of which"
            f" {_LONGEST_NAME_NBYTES} are left beside what marks an unfinished file: choose a"
            " shorter one"
        )


def _unfinished(folder: str) -> dict[str, str]:
    """Files and folders of unfinished volumes in a folder, by what comes before the token in their
    names.
    """
    found = sorted(Path(folder).glob(".*.part"))
    return {path.name.rpartition("-")[0]: str(path) for path in found}


def _partial_path(folder: str, name: str, sink: ArraySink, unfinished: Mapping[str, str]) -> str:
    """The same file, unfinished, as an earlier run left it, or a new name: results are of one
    allocation.
    """
    about = (
        sink.shape,
        sink.axes,
        sink.dtype.str,
        sink.form,
        sink.unit,
        sink.codecs,
        sink.encoding,
        sink.head,
    )
    scaling = sink.scaling.key if sink.scaling else None
    digest = hashlib.sha256(repr((about, scaling, _affine(sink))).encode()).hexdigest()[:12]
    path = unfinished.get(f".{name}.{digest}")
    if path is not None and form_of(sink).is_allocated(sink, path):
        return path
    return os.path.join(folder, f".{name}.{digest}-{secrets.token_hex(6)}.part")


def _affine(sink: ArraySink) -> bytes:
    return (
        b"" if sink.header.affine is None else np.asarray(sink.header.affine, np.float64).tobytes()
    )


def scaling_kept(pipeline: Pipeline, index: int) -> Scaling | None:
    """Blocks of stored values keep their slope and intercept while they keep their dtype."""
    return (
        pipeline.source.first(pipeline.source.wholes[index]).scaling
        if _stays_stored(pipeline, index)
        else None
    )


def header_kept(pipeline: Pipeline, index: int) -> Header:
    """What goes on with the values of a whole; with stored ones also what dtype their real values
    have.
    """
    whole = pipeline.source.wholes[index]
    real = pipeline.source.first(whole).real
    return replace(whole.header, real=real) if _stays_stored(pipeline, index) else whole.header


def _stays_stored(pipeline: Pipeline, index: int) -> bool:
    source = pipeline.source.first(pipeline.source.wholes[index])
    return pipeline.values == "stored" and output_dtype(pipeline, index) == source.dtype("stored")


def units(pipeline: Pipeline, output: Output | None, index: int) -> tuple[int, ...]:
    """Per axis of the input, what every inner cut must be a multiple of: merged voxels, and the
    output's chunks.
    """
    scale = pipeline.scale
    if output is None or not output.volumes:
        return scale
    unit = output.volumes[output.wholes[index].members[0].source].sink.unit or (1,) * len(scale)
    return tuple(s * u for s, u in zip(scale, unit, strict=True))


def transfer(
    pipeline: Pipeline, output: Output, index: int, whole_axes: frozenset[int]
) -> Transfer:
    """What the plan knows of an array on its way from its files to those that are written."""
    whole, tiles = pipeline.source.wholes[index], output.wholes[index]
    source, sink = pipeline.source.first(whole), output.volumes[tiles.members[0].source].sink
    scale, unit = pipeline.scale, _coarse(units(pipeline, output, index), whole.shape)
    edges = _edges(tiles, whole.shape, scale)
    return Transfer(
        shape=whole.shape,
        places=tuple(bounds_of(*axis) for axis in zip(edges, unit, strict=True)),
        read=Side(
            source.axes,
            source.stored.itemsize,
            _edges(whole, whole.shape, (1,) * len(scale)),
            _coarse(source.own_chunk_shape, whole.shape),
        ),
        write=Side(sink.axes, sink.dtype.itemsize, edges, unit if sink.unit else ()),
        whole=whole_axes,
    )


def _coarse(unit: Sequence[int], shape: Sequence[int]) -> tuple[int, ...]:
    """A multiple of a unit, of which an axis does not have so many that looking at each would take
    long.
    """
    return tuple(
        n * max(1, math.ceil(extent / n / _MOST_PLACES))
        for n, extent in zip(unit, shape, strict=False)
    )


def written_nbytes(job: Job, task: Task) -> int:
    """Bytes of a task's result as files hold them uncompressed: whole chunks, which may reach
    beyond the array.
    """
    assert job.output is not None
    pieces = [
        (job.output.volumes[piece.source].sink, piece.slab.count)
        for piece in output_pieces(job, task)
    ]
    return sum(
        math.prod(
            math.ceil(n / u) * u for n, u in zip(count, sink.unit or (1,) * len(count), strict=True)
        )
        * sink.dtype.itemsize
        for sink, count in pieces
    )


def operations(job: Job, task: Task) -> tuple[int, int]:
    """How many reads and writes of files a task takes."""
    reads = sum(
        reading.read_operations(sources[piece.source], piece.slab)
        for sources, pieces in zip(job.inputs.values(), task.reads, strict=True)
        for piece in pieces
    )
    if job.output is None or not job.output.volumes:
        return reads, 1 if task.output else 0
    writes = 0
    for piece in output_pieces(job, task):
        sink = job.output.volumes[piece.source].sink
        writes += form_of(sink).operations(sink, piece.slab)
    return reads, writes


def _edges(whole: Whole, shape: Sequence[int], scale: Sequence[int]) -> tuple[Positions, ...]:
    """Per axis of the input, where the files of a whole begin and end."""
    bounds = (
        np.array([m.box.bounds for m in whole.members], np.int64).reshape(-1, len(shape)) * scale
    )
    ends = [np.array([0, extent], np.int64) for extent in shape]
    return tuple(
        np.union1d(np.minimum(bounds[:, axis], extent), ends[axis])
        for axis, extent in enumerate(shape)
    )
