"""Sinks: the files that a pipeline writes, described before anything runs.

An array goes to one file, or to the files of a grid; either way a task writes the part of
its block that lies in each.
"""

from __future__ import annotations

import hashlib
import math
import os
import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import cast

import numpy as np

from hyperslab import formats
from hyperslab.arrays import DType
from hyperslab.arrays.encoding import Encoding
from hyperslab.arrays.header import Header
from hyperslab.arrays.naming import groups_above
from hyperslab.arrays.partition import Layout, Partition, cut, flag_of, number_cut
from hyperslab.arrays.sets import Member, SourceSet, Whole
from hyperslab.arrays.sink import ArraySink
from hyperslab.arrays.slab import Hyperslab
from hyperslab.arrays.source import ArraySource, Scaling
from hyperslab.arrays.transfer import Positions, Side, Transfer, bounds_of
from hyperslab.blocks.writing.forms import form_of
from hyperslab.errors import UsageError
from hyperslab.formats.hooks import Unites
from hyperslab.plan.becoming import Becoming, Made
from hyperslab.plan.pipeline import Write
from hyperslab.plan.task import Job, Output, Task, Volume, label_of, pieces_of_block
from hyperslab.units import show_count

SOURCE_OF_CHUNK_NBYTES = 32 * 2**20
"Most bytes of the source that a chunk of an array without some of its axes is made of, if chosen."
MOST_FILES = 20_000
"Files that arrays are split into, at most: each is described before anything runs."
_MOST_PLACES = 2**15
_NAME_MAX = 255
"Bytes of a file's name (Linux, limits.h)."
_LONGEST_NAME_NBYTES = _NAME_MAX - len("..123456789abc-123456789abc.part")


def output(sources: SourceSet, becoming: Sequence[Becoming], end: Write) -> Output:
    """Describe every file that several tasks will write to. Raises UsageError for what the format
    cannot hold.
    """
    formats.written_as(end.format)  # or says which there are
    folder = os.path.abspath(end.dest)
    if end.keep != "volume":
        return Output(folder, end.format, end.encoding, end.encodings)
    is_shared = _is_shared(becoming, end)
    if not (is_shared or end.are_together):
        _require_one_file(becoming, end)
    _require_few(becoming, end)
    sinks: list[ArraySink] = []
    tiled: list[tuple[Whole, ...]] = []
    for index, whole in enumerate(sources.wholes):
        if any(not made.shape for made in becoming[index].outputs):
            raise UsageError(_is_a_number(sources.first(whole)))
        encoding = end.encoding
        if end.encodings:
            encoding = end.encodings[index]
        tiles = []
        for made, own in _stored_alike(whole, becoming[index], encoding, end):
            boxes = list(_grid(made, end))
            first = len(sinks)
            stored = _called(made, own) if is_shared else _called_alone(made, own, end.format)
            for box in boxes:
                name = _file_name(whole, made, box, len(boxes), end)
                sinks.append(_sink(os.path.join(folder, name), made, box, stored))
            members = [Member(first + number, box) for number, box in enumerate(boxes)]
            tiles.append(_tiled(made.shape, members))
        tiled.append(tuple(tiles))
    if is_shared:
        _require_other_names(becoming[0].outputs, sinks)
    if is_shared or end.are_together:
        sinks = list(_together(sinks))
    volumes = _volumes(folder, sinks)
    return Output(folder, end.format, end.encoding, volumes=volumes, wholes=tuple(tiled))


def _is_shared(becoming: Sequence[Becoming], end: Write) -> bool:
    """Whether several arrays that a function makes of one go into one file."""
    if not end.name or len(becoming) > 1 or len(becoming[0].outputs) == 1:
        return False
    facts = formats.facts_of_file_name(end.name)
    return facts is not None and facts.holds_several


def _called(made: Made, encoding: Encoding) -> Encoding:
    """How an array is stored in a file of several, by the name that the function gives it."""
    group = encoding.name.strip("/")
    return replace(encoding, name=f"{group}/{made.name}".lstrip("/"))


def _called_alone(made: Made, encoding: Encoding, written: str) -> Encoding:
    """How an array is stored in a file of its own, by the name that the function gives it: but for
    one that is the name of an axis of it, and where another one is asked for, or none can be.
    """
    _, facts = formats.written_as(written)
    if not made.name or encoding.name or not facts.holds_several:
        return encoding
    from hyperslab.formats.place import laid_out  # which few arrays need

    if made.name in laid_out(made.header_of(), made.shape).dims:
        return encoding
    return replace(encoding, name=made.name)


def _require_other_names(arrays: Sequence[Made], sinks: Sequence[ArraySink]) -> None:
    """Raise UsageError for an array that is called as an axis of one in the same file, whose
    coordinates have that name.
    """
    dims = {
        dim: made.name for made, sink in zip(arrays, sinks, strict=True) for dim in sink.header.dims
    }
    name = next((made.name for made in arrays if made.name in dims), None)
    if name is not None:
        raise UsageError(
            f"{sinks[0].path}: '{name}' would be an array and the coordinates along an axis of"
            f" '{dims[name]}' in it: give the array another name, or name a directory"
        )


def _together(sinks: Sequence[ArraySink]) -> tuple[ArraySink, ...]:
    """The same arrays in one file. Raises UsageError for two of one name, and for one whose name
    is that of the group of another.
    """
    names = [sink.encoding.name.strip("/") for sink in sinks]
    groups = {group for name in names for group in groups_above(name)}
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise UsageError(
            f"{sinks[0].path}: two arrays would have the name '{twice}' in it: leave out one, or"
            " name a directory"
        )
    both = next((name for name in names if name in groups), None)
    if both is not None:
        raise UsageError(
            f"{sinks[0].path}: '{both}' would be an array and a group of others in it: leave out"
            " one, or name a directory"
        )
    module = cast(Unites, formats.module(sinks[0].format))
    return module.together(sinks)


def _volumes(folder: str, sinks: Sequence[ArraySink]) -> tuple[Volume, ...]:
    """Arrays and the unfinished files that they go to, which are one for all arrays of a file."""
    unfinished = _unfinished(folder)
    partials: dict[str, str] = {}
    for sink in sinks:
        if sink.path not in partials:
            name = os.path.basename(sink.path)
            partials[sink.path] = _partial_path(folder, name, sink, unfinished)
    return tuple(Volume(sink, partials[sink.path]) for sink in sinks)


def _stored_alike(
    whole: Whole, becoming: Becoming, encoding: Encoding, end: Write
) -> Iterator[tuple[Made, Encoding]]:
    """The arrays that a whole becomes, and how each is stored.

    Where chunks are chosen here, arrays of one shape have those of the first one, so that blocks
    may be cut between them.
    """
    chosen: dict[tuple[int, ...], tuple[int, ...]] = {}
    is_chosen = len(becoming.outputs) > 1 or becoming.dropped
    for made in becoming.outputs:
        if not is_chosen or encoding.chunks or encoding.shards or end.grid is not None:
            yield made, encoding
            continue
        if made.shape not in chosen:
            name = _file_name(whole, made, Hyperslab.full(made.shape), 1, end)
            sink = _sink(name, made, Hyperslab.full(made.shape), encoding)
            chosen[made.shape] = _fitting_chunks(sink, whole, becoming)
        yield made, replace(encoding, chunks=chosen[made.shape])


def _fitting_chunks(sink: ArraySink, whole: Whole, becoming: Becoming) -> tuple[int, ...]:
    """Shape of a file's chunks, () for none, for which a task reads no more than a block should
    have: a chunk of a map takes the whole series of its voxels.
    """
    chunk = list(sink.unit)
    along = math.prod(whole.shape[axis] for axis in becoming.dropped)
    most = max(1, SOURCE_OF_CHUNK_NBYTES // (along * becoming.given[0].itemsize))
    while chunk and math.prod(chunk) > most:
        longest = max(range(len(chunk)), key=chunk.__getitem__)
        chunk[longest] = math.ceil(chunk[longest] / 2)
    return tuple(chunk)


def _require_one_file(becoming: Sequence[Becoming], end: Write) -> None:
    """Raise UsageError for one name of several files."""
    names = [made.name for whole in becoming for made in whole.outputs]
    if not end.name or len(names) == 1:
        return
    what = show_count(len(becoming), "array")
    others = ""
    if len(becoming) == 1:
        what = f"{len(names)} arrays ({', '.join(names)})"
        others = ", or write .h5, .nc or .zarr, which hold several"
    raise UsageError(
        f"{end.name}: the run makes {what}, a file each: name a directory, and say --format"
        f" {end.format}{others}"
    )


def _file_name(whole: Whole, made: Made, box: Hyperslab, boxes: int, end: Write) -> str:
    """Name of the file that holds a region of what a whole becomes."""
    if end.name:
        return end.name
    name = block_name(stem_of(whole.name, made), box, made.shape, boxes)
    return name + formats.written()[end.format]


def stem_of(name: str, made: Made) -> str:
    """What the names of an array's files begin with: the source's, then the array's own."""
    if not made.name:
        return name
    return f"{name}_{made.name}"


def _grid(made: Made, end: Write) -> Partition:
    """The regions of a whole's result that are files."""
    if end.grid is None:
        return Partition(tuple((0, n) for n in made.shape), made.axes)
    return cut(_layout(made), end.grid, 0)


def _layout(made: Made) -> Layout:
    return Layout(made.shape, made.axes, made.dtype.itemsize, None)


def _require_few(becoming: Sequence[Becoming], end: Write) -> None:
    """Raise UsageError for more files than may be planned, before any of them is described."""
    if end.grid is None:
        return
    arrays = [made for whole in becoming for made in whole.outputs if made.shape]
    files = sum(number_cut(_layout(made), end.grid) for made in arrays)
    if files > MOST_FILES:
        raise UsageError(
            f"{flag_of(end.grid)} splits {show_count(len(arrays), 'array')} into {files:,} files;"
            f" there may be at most {MOST_FILES:,}: ask for fewer and larger ones"
        )


def _is_a_number(source: ArraySource) -> str:
    return (
        f"{label_of(source)} is a single number, not an array, and cannot be converted;"
        " read it with hyperslab.open"
    )


def _tiled(shape: tuple[int, ...], members: Sequence[Member]) -> Whole:
    """The files of an array as a whole that they tile."""
    axis = max(range(len(shape)), key=lambda a: len({m.box.start[a] for m in members}), default=0)
    ordered = sorted(members, key=lambda m: m.box.start[axis : axis + 1])
    longest = 0
    if shape:
        longest = max((m.box.count[axis] for m in members), default=0)
    return Whole("", shape, tuple(ordered), Header(), axis, longest)


def _sink(path: str, made: Made, box: Hyperslab, encoding: Encoding) -> ArraySink:
    """The file that holds a region of what a whole becomes."""
    header = made.header_of()
    if box.count != made.shape:
        header = replace(header.for_slab(box), whole_shape=made.shape, is_block=True)
    return _describe(path, box.count, made.dtype, header, made.scaling, encoding)


def block_sink(job: Job, task: Task, number: int) -> ArraySink:
    """The file of one block of an array, with the header that keeps its voxels where they are in
    the whole.
    """
    output = job.output
    assert output is not None
    made = job.becoming[task.whole].outputs[number]
    path = os.path.join(output.folder, task.outputs[number])
    header = replace(made.header_of(task.core), is_block=True)
    shape = made.shape_of(task.core.count)
    encoding = _called_alone(made, output.encoding_of(task.whole), output.format)
    return _describe(path, shape, made.dtype, header, made.scaling, encoding)


def _describe(
    path: str,
    shape: tuple[int, ...],
    dtype: DType,
    header: Header,
    scaling: Scaling | None,
    encoding: Encoding,
) -> ArraySink:
    describe = formats.module(formats.format_of_name(path)).sink
    return describe(path, shape, dtype, header, scaling, encoding)


def block_name(stem: str, box: Hyperslab, shape: Sequence[int], blocks: int) -> str:
    """The stem alone when an array is one block, else with the block's first voxel, padded so that
    names sort.
    """
    if blocks <= 1:
        return stem
    words = [stem]
    for first, extent in zip(box.start, shape, strict=True):
        digits = len(str(extent))
        words.append(f"{first:0{digits}d}")
    return "_".join(words)


def require_short(names: Iterable[str]) -> None:
    """Raise UsageError for the name of a file that is too long while the file is unfinished."""
    longest = max(names, key=lambda name: len(os.fsencode(name)), default="")
    if len(os.fsencode(longest)) > _LONGEST_NAME_NBYTES:
        raise UsageError(
            f"{longest}: the name may have up to {_LONGEST_NAME_NBYTES} bytes, since file systems"
            f" take {_NAME_MAX} and an unfinished file has a longer one: choose a shorter one"
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
    digest = allocation_digest(sink)
    path = unfinished.get(f".{name}.{digest}")
    if path is not None and form_of(sink).is_allocated(sink, path):
        return path
    return os.path.join(folder, f".{name}.{digest}-{secrets.token_hex(6)}.part")


def allocation_digest(sink: ArraySink) -> str:
    """Tell an unfinished file from one of another description: 12 hexadecimal digits in its name.

    The fields are named one by one, in the words that every version has written: a run finds what
    one of an earlier version has left. A new field that changes what is written is only told where
    it is not as it was before there was one.
    """
    if sink.members:
        digests = [allocation_digest(replace(one, head=None)) for one in sink.members]
        told = repr(sink.head) + "".join(digests)
        return hashlib.sha256(told.encode()).hexdigest()[:12]
    about = [
        *map(repr, (sink.shape, sink.axes, sink.dtype.str, sink.form, sink.unit)),
        _in_tuple([_told("Codec", name=c.name, options=c.options) for c in sink.codecs]),
        _encoding(sink.encoding),
        repr(sink.head),
    ]
    scaling = None
    if sink.scaling is not None:
        scaling = sink.scaling.key
    text = _in_tuple([_in_tuple(about), repr(scaling), repr(_affine(sink))])
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _encoding(encoding: Encoding) -> str:
    return _told(
        "Encoding",
        chunks=encoding.chunks,
        compression=encoding.compression,
        level=encoding.level,
        shards=encoding.shards,
        version=encoding.version,
        name=encoding.name,
        virtual=encoding.virtual,
    )


def _told(kind: str, **fields: object) -> str:
    """A record by some of its fields, as Python shows one of a dataclass that has no others."""
    told = ", ".join(f"{name}={value!r}" for name, value in fields.items())
    return f"{kind}({told})"


def _in_tuple(texts: Sequence[str]) -> str:
    """Texts of values, as Python shows a tuple of these."""
    if len(texts) == 1:
        return f"({texts[0]},)"
    return f"({', '.join(texts)})"


def _affine(sink: ArraySink) -> bytes:
    if sink.header.affine is None:
        return b""
    return np.asarray(sink.header.affine, np.float64).tobytes()


def cut_for(becoming: Sequence[Becoming], output: Output) -> tuple[Becoming, ...]:
    """What wholes become, where inner cuts of theirs keep to the chunks of the output's files."""
    if not output.volumes:
        return tuple(becoming)
    cut_by_chunk = []
    for whole, tiles in zip(becoming, output.wholes, strict=True):
        outputs = list(whole.outputs)
        for number, tiled in enumerate(tiles):
            chunk = output.volumes[tiled.members[0].source].sink.unit
            if chunk:
                outputs[number] = outputs[number].cut_by(chunk)
        cut_by_chunk.append(replace(whole, outputs=tuple(outputs)))
    return tuple(cut_by_chunk)


def transfer(
    sources: SourceSet, made: Made, output: Output, index: int, whole_axes: frozenset[int]
) -> Transfer:
    """What the plan knows of an array on its way from its files to those that are written."""
    whole = sources.wholes[index]
    (tiles,) = output.wholes[index]
    source = sources.first(whole)
    sink = output.volumes[tiles.members[0].source].sink
    unit = _coarse(made.unit, whole.shape)
    read_edges = _edges(whole, whole.shape, (1,) * len(made.scale))
    edges = _edges(tiles, whole.shape, made.scale)
    chunk = _coarse(source.own_chunk_shape, whole.shape)
    written_unit: tuple[int, ...] = ()
    if sink.unit:
        written_unit = unit
    return Transfer(
        shape=whole.shape,
        places=tuple(bounds_of(*axis) for axis in zip(edges, unit, strict=True)),
        read=Side(source.axes, source.stored.itemsize, read_edges, chunk),
        write=Side(sink.axes, sink.dtype.itemsize, edges, written_unit),
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


def written_nbytes(job: Job, index: int, core: Hyperslab) -> int:
    """Bytes of the result of a block as files hold them uncompressed: whole chunks, which may reach
    beyond the array.
    """
    assert job.output is not None
    nbytes = 0
    for _, piece in pieces_of_block(job, index, core):
        sink = job.output.volumes[piece.source].sink
        elements = piece.slab.size
        if sink.unit:
            whole_chunks = zip(piece.slab.count, sink.unit, strict=True)
            elements = math.prod(math.ceil(n / u) * u for n, u in whole_chunks)
        nbytes += elements * sink.dtype.itemsize
    return nbytes


def _edges(whole: Whole, shape: Sequence[int], scale: Sequence[int]) -> tuple[Positions, ...]:
    """Positions on each axis of the input where the files of a whole begin and end."""
    corners = np.array([m.box.bounds for m in whole.members], np.int64)
    bounds = corners.reshape(-1, len(shape)) * scale
    edges = []
    for axis, extent in enumerate(shape):
        ends = np.array([0, extent], np.int64)
        edges.append(np.union1d(np.minimum(bounds[:, axis], extent), ends))
    return tuple(edges)
