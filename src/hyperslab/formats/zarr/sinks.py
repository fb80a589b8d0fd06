"""Zarr arrays to be written by many processes at a time: each owns whole chunks, or whole shards.

`sink` says what there will be, `create` makes the directory and its metadata documents,
`write_region` the chunk files of a region. All that is needed to write is in the sink: no writer
reads metadata, nor what was there before, so that a region can be written again. A chunk file
appears whole, by rename.

- written arrays are read by zarr-python and xarray as they were meant
  (`tests/formats/test_zarr_sink.py`)
- xarray opens groups: it reads arrays that have a name, with `xarray.open_zarr`, not one that is
  the store itself. So an image gets one, and coordinates
  (`tests/connectors/test_xarray_written.py`)
- version 2 has no fill value, which xarray would take for a missing value; in version 3 it is 0
- factors of packing are JSON numbers, which are float64 where they are read again: what is computed
  in float32, and would have other values then, is refused
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from hyperslab.arrays import Array
from hyperslab.arrays.encoding import Encoding
from hyperslab.arrays.header import Header, Omitted
from hyperslab.arrays.sink import ArraySink
from hyperslab.arrays.slab import Hyperslab
from hyperslab.arrays.source import Codec, Scaling
from hyperslab.errors import UsageError
from hyperslab.formats.conventions.agreement import agree, meaning
from hyperslab.formats.conventions.packing import ATTRIBUTES, pack, unpack
from hyperslab.formats.conventions.uncut import AFFINE
from hyperslab.formats.free_names import with_free_names
from hyperslab.formats.place import (
    DATASET,
    NAMES,
    attributes_of,
    companions_beside,
    coordinates_beside,
    laid_out,
)
from hyperslab.formats.sharing import require_alike
from hyperslab.formats.zarr.documents import (
    Documents,
    array_of,
    documents_of,
    with_attributes,
    with_copies,
)
from hyperslab.formats.zarr.metadata import chunk_files, packing_of, place

CHUNK_NBYTES = 1024**2
"""Most bytes of a chunk whose shape is chosen here, decoded: longest axes are halved until it holds
no more.
"""
LEVELS = {"zstd": (1, 22, 1), "gzip": (0, 9, 1), "blosc": (0, 9, 5), "none": (0, 0, 0)}
"Lowest and highest level of each compression, and the one that is taken where none is asked for."
_LARGEST_NDIM = 32
_OF_OTHERS = ATTRIBUTES | NAMES | {"zooms", "sform_code", "qform_code", "byte_order", "version"}
"Attributes that say what packing, place and bytes were; the new array has its own."
_LARGEST_ATTRIBUTE = 65536


def sink(
    path: str,
    shape: tuple[int, ...],
    dtype: np.dtype[Any],
    header: Header,
    scaling: Scaling | None = None,
    encoding: Encoding = Encoding(),  # noqa: B008  # frozen
) -> ArraySink:
    """Describe a Zarr array; touches no disk.

    An image without a name is the array `data` of a group, its coordinates beside it; any other
    array without one, and what is named '/', is the store itself. Version 3 unless 2 is asked for.
    Chunks are of up to 1 MiB, as even as the shape allows, unless given; `unit` is a chunk, or a
    shard. Compression is zstd unless given: none, gzip, zstd, or blosc (lz4 after a shuffle).
    `encoding` of the result holds all that was chosen. `scaling` becomes netCDF's attributes of
    packing. Raises UsageError for what Zarr, or those attributes, cannot hold.
    """
    plain = np.dtype(dtype)
    header = laid_out(header, shape)
    if coordinates_beside(header, shape) and not encoding.name:
        encoding = replace(encoding, name=DATASET)
    if plain.kind not in "biufc" or plain.itemsize > (16 if plain.kind == "c" else 8):
        raise UsageError(
            f"{path}: Zarr cannot hold {dtype}; convert the block to numbers of up to 64 bits"
        )
    if len(shape) > _LARGEST_NDIM:
        raise UsageError(
            f"{path}: Zarr arrays here have up to {_LARGEST_NDIM} axes, not {len(shape)}"
        )
    chosen = _chosen(path, tuple(shape), plain, encoding)
    codecs: tuple[Codec, ...] = ()
    if chosen.compression != "none":
        codecs = (Codec(str(chosen.compression)),)
    made = ArraySink(
        path=path,
        format="zarr",
        shape=tuple(shape),
        axes=tuple(range(len(shape))),
        dtype=plain,
        head=None,
        header=header,
        scaling=scaling,
        form="store",
        unit=chosen.shards or chosen.chunks,
        codecs=codecs,
        encoding=chosen,
    )
    documents_of(made, _attributes(made))
    chunk_files()
    return made


def together(sinks: Sequence[ArraySink]) -> tuple[ArraySink, ...]:
    """The same arrays in one store. Raises UsageError for one that is the store itself, and for
    arrays that bring other variables of one name.
    """
    path = sinks[0].path
    if not all(sink.encoding.name for sink in sinks):
        raise UsageError(f"{path}: each of several arrays of a store needs a name")
    require_alike(sinks)
    named = with_free_names(sinks)
    return tuple(replace(sink, members=named) for sink in named)


def create(sink: ArraySink, path: str) -> None:
    """Make the directory `path` with the metadata documents, of groups above the array too, and the
    coordinates beside it. Raises OSError.
    """
    others: dict[str, tuple[ArraySink, Array]] = {}
    for member in sink.in_file:
        others |= {one.encoding.name: (one, values) for one, values in beside(member)}
    for member in sink.in_file:
        others.pop(member.encoding.name, None)
    documents: Documents = {}
    for described in (*sink.in_file, *(one for one, _ in others.values())):
        documents |= documents_of(described, _attributes(described))
    documents = with_attributes(documents, _attributes_of_groups(sink))
    for name, said in with_copies(documents).items():
        file = Path(path, name)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(said, indent=2, allow_nan=False), encoding="utf-8")
    for one, values in others.values():
        write_region(one, path, Hyperslab.full(one.shape), values)


def _attributes_of_groups(sink: ArraySink) -> dict[str, dict[str, Any]]:
    """What the groups of a store say of themselves, by their paths, as far as JSON can hold it."""
    found: dict[str, dict[str, Any]] = {}
    for member in sink.in_file:
        header = member.header
        for path, said in {"": header.file_attributes, **header.group_attributes}.items():
            kept = {name: _said(value) for name, value in said.items()}
            found[path] = {name: value for name, value in kept.items() if value is not None}
    return found


def beside(described: ArraySink) -> list[tuple[ArraySink, Array]]:
    """The coordinates of an array, and what else goes with it: arrays in its group that are a chunk
    each, and their values; of one that is the store itself none.
    """
    folder, _, own = described.encoding.name.rpartition("/")
    made: list[tuple[ArraySink, Array]] = []
    if not own:
        return made
    for one in companions_beside(described.header, described.shape):
        if one.name == own:
            continue
        shape = one.values.shape
        encoding = Encoding(
            chunks=shape,
            compression="none",
            version=described.encoding.version,
            name=f"{folder}/{one.name}".lstrip("/"),
        )
        header = Header(dims=one.dims, attributes=one.attributes)
        coordinate = sink(described.path, shape, one.values.dtype, header, None, encoding)
        made.append((coordinate, one.values))
    return made


def write_region(sink: ArraySink, path: str, slab: Hyperslab, block: Array) -> int:
    """Write the chunks or shards of a region to a directory that `create` made: their stored bytes.

    The region begins and ends at multiples of `sink.unit`, or at the array's edge. Writers of other
    regions may be at work, also of the same one. Raises OSError.
    """
    _require_owned(sink, slab)
    array, store = chunk_files().writing(place(path, sink.encoding.name), array_of(sink))
    if block.size:
        chunk_files().write(array, slab, block, sink.unit)
    nbytes: int = store.nbytes
    return nbytes


def _chosen(path: str, shape: tuple[int, ...], dtype: np.dtype[Any], asked: Encoding) -> Encoding:
    """An encoding with nothing left open."""
    version = asked.version or 3
    compression = asked.compression or "zstd"
    if version not in (2, 3):
        raise UsageError(f"{path}: Zarr has versions 2 and 3, not {version}")
    if asked.shards and version == 2:
        raise UsageError(f"{path}: Zarr has shards from version 3 on; leave them out, or version 2")
    if asked.virtual:
        raise UsageError(
            f"{path}: Zarr has no virtual datasets; its chunks are files of their own anyway"
        )
    if compression not in LEVELS:
        raise UsageError(
            f"{path}: Zarr's compression is one of {', '.join(LEVELS)}, not {compression}"
        )
    lowest, highest, usual = LEVELS[compression]
    level = usual
    if asked.level is not None:
        level = asked.level
    if not lowest <= level <= highest:
        raise UsageError(
            f"{path}: the level of {compression} is {lowest} to {highest}, not {level}"
        )
    chunks = asked.chunks or _even_chunks(
        asked.shards or shape, dtype.itemsize, divides=bool(asked.shards)
    )
    for what, extents in (("chunks", chunks), ("shards", asked.shards or chunks)):
        if len(extents) != len(shape) or min(extents, default=1) < 1:
            raise UsageError(
                f"{path}: {what} of {extents} do not fit {shape}; give one positive extent for each"
                " axis"
            )
    if any(shard % chunk for shard, chunk in zip(asked.shards, chunks, strict=False)):
        raise UsageError(
            f"{path}: shards of {asked.shards} are not multiples of chunks of {chunks}"
        )
    _require_name(path, asked.name)
    whole = chunks
    if not asked.shards:
        whole = tuple(min(n, max(1, extent)) for n, extent in zip(chunks, shape, strict=True))
    return replace(
        asked,
        version=version,
        compression=compression,
        level=level,
        chunks=whole,
        name=asked.name.strip("/"),
    )


def _even_chunks(shape: Sequence[int], itemsize: int, divides: bool) -> tuple[int, ...]:
    """The shape cut in two along its longest axis until a part holds no more than CHUNK_NBYTES.

    What divides a shape, as chunks do a shard, is cut into more parts where two are not possible.
    """
    chunk = [max(1, extent) for extent in shape]
    while math.prod(chunk) * itemsize > CHUNK_NBYTES:
        axis = chunk.index(max(chunk))
        parts = next(n for n in range(2, chunk[axis] + 1) if not divides or chunk[axis] % n == 0)
        chunk[axis] = -(-chunk[axis] // parts)
    return tuple(chunk)


def _require_name(path: str, name: str) -> None:
    """Zarr 3 core specification, 'Node names'."""
    parts = name.strip("/").split("/")
    is_root = name in ("", "/")
    if not is_root and any(not part.strip(".") or part.startswith("__") for part in parts):
        raise UsageError(
            f"{path}: '{name}' cannot name a Zarr array; use names without dots alone or a leading"
            " '__'"
        )


def _require_owned(sink: ArraySink, slab: Hyperslab) -> None:
    axes = zip(slab.start, slab.bounds[1], sink.unit, sink.shape, strict=True)
    if not slab.is_box or any(
        first % n or (end % n and end != extent) for first, end, n, extent in axes
    ):
        raise UsageError(
            f"{sink.path}: the region {slab} cuts through chunks or shards of {sink.unit}"
        )


def _attributes(sink: ArraySink) -> dict[str, Any]:
    """What the array says of itself: its place, its packing, and of the header's attributes what
    JSON can hold.
    """
    header = sink.header
    place = attributes_of(sink.header, sink.shape)
    if not np.isfinite(place.get(AFFINE, 0)).all():
        raise UsageError(
            f"{sink.path}: the affine holds NaN or infinity, which JSON, and so Zarr, cannot hold"
        )
    packed = _packing(sink)
    kept = {
        name: found
        for name, value in header.attributes.items()
        if (found := _kept(name, value)) is not None
    }
    plain = {
        name: value if isinstance(value, str) else value.tolist() for name, value in place.items()
    }
    return {**kept, **plain, **packed}


def _packing(sink: ArraySink) -> dict[str, Any]:
    """Attributes that give stored values their meaning, with factors of float64: JSON has no other.
    Raises UsageError.

    Those of another store stay as they are.
    """
    meant = meaning(sink.scaling, sink.dtype, sink.header.real)
    attributes: Mapping[str, Any] = {}
    if sink.header.real is not None:
        attributes = sink.header.attributes
    own = {
        name: value
        for name, value in attributes.items()
        if name in ATTRIBUTES and _is_of_json(value)
    }
    one = {}
    if meant.real == np.float64:
        one = {"scale_factor": 1.0, "add_offset": 0.0}
    try:
        made = {}
        if sink.scaling is not None:
            made = _json(pack(sink.scaling, sink.dtype))
    except (TypeError, ValueError) as error:
        raise _unsaid(sink, str(error)) from error
    for said in (own, made, one | made):
        if agree(
            meant, unpack(packing_of(said, sink.dtype), sink.dtype, default_fill=False), sink.dtype
        ):
            return dict(said)
    raise _unsaid(sink, f"they are computed in {meant.real}, JSON's factors in float64")


def _unsaid(sink: ArraySink, why: str) -> UsageError:
    return UsageError(
        f"{sink.path}: Zarr cannot say what these stored values mean ({why}); use --values real"
    )


def _is_of_json(value: Any) -> bool:
    return isinstance(value, str | int | float | list) and not isinstance(value, np.generic)


def _kept(name: str, value: Any) -> Any:
    """An attribute that the new array has too, as JSON has it; None for others."""
    if name in _OF_OTHERS or name.startswith("_") or isinstance(value, Omitted):
        return None
    if name == "units" and not isinstance(value, str | bytes):  # NIfTI's, of its axes
        return None
    return _said(value)


def _said(value: Any) -> Any:
    """A value as JSON has it; None for one that it cannot hold, or that is too large."""
    try:
        found = _json(value)
    except (TypeError, ValueError):
        return None
    if len(json.dumps(found)) <= _LARGEST_ATTRIBUTE:
        return found
    return None


def _json(value: Any) -> Any:
    """A value as JSON gives it back. Raises TypeError or ValueError for one that it cannot hold."""
    if isinstance(value, bytes):
        value = value.decode()
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, Mapping):
        return {str(name): _json(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_json(item) for item in value]
    return json.loads(json.dumps(value, allow_nan=False))
