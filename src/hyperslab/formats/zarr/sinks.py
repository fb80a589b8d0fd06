"""Zarr arrays to be written by many processes at a time: each owns whole chunks, or whole shards.

`sink` says what there will be, `create` makes the directory and its metadata documents,
`write_region` the chunk files of a region. All that is needed to write is in the sink: no writer
reads metadata, nor what was there before, so that a region can be written again. A chunk file
appears whole, by rename.

- written arrays are read by zarr-python and xarray as they were meant
  (`tests/formats/test_zarr_sink.py`)
- xarray opens groups: it reads arrays that have a name, with `xarray.open_zarr`, not one that is
  the store itself
- version 2 has no fill value, which xarray would take for a missing value; in version 3 it is 0
- factors of packing are JSON numbers, which are float64 where they are read again: what is computed
  in float32, and would have other values then, is refused
"""

from __future__ import annotations

import json
import math
import os
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
from hyperslab.formats.place import NAMES, attributes_of
from hyperslab.formats.zarr.metadata import DIMENSIONS2, chunk_files, packing_of, place

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

    Version 3 unless 2 is asked for. Chunks are of up to 1 MiB, as even as the shape allows, unless
    given; `unit` is a chunk, or a shard. Compression is zstd unless given: none, gzip, zstd, or
    blosc (lz4 after a shuffle). `encoding` of the result holds all that was chosen. `scaling`
    becomes netCDF's attributes of packing. Raises UsageError for what Zarr, or those attributes,
    cannot hold.
    """
    plain = np.dtype(dtype)
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
    _documents(made)
    chunk_files()
    return made


def create(sink: ArraySink, path: str) -> None:
    """Make the directory `path` with the metadata documents, of groups above the array too. Raises
    OSError.
    """
    for name, said in _documents(sink).items():
        place = Path(path, name)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(json.dumps(said, indent=2, allow_nan=False), encoding="utf-8")


def write_region(sink: ArraySink, path: str, slab: Hyperslab, block: Array) -> int:
    """Write the chunks or shards of a region to a directory that `create` made: their stored bytes.

    The region begins and ends at multiples of `sink.unit`, or at the array's edge. Writers of other
    regions may be at work, also of the same one. Raises OSError.
    """
    _require_owned(sink, slab)
    array, store = chunk_files().writing(place(path, sink.encoding.name), _array(sink))
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
    if any(
        not part.strip(".") or part.startswith("__") for part in name.strip("/").split("/") if name
    ):
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


def _documents(sink: ArraySink) -> dict[str, dict[str, Any]]:
    """The metadata documents by their names, those of groups first."""
    names = [part for part in sink.encoding.name.split("/") if part]
    version = sink.encoding.version
    group: dict[str, Any] = {"zarr_format": version}
    document = ".zgroup"
    if version == 3:
        group |= {"node_type": "group", "attributes": {}}
        document = "zarr.json"
    above = ["/".join(names[:depth]) for depth in range(len(names))]
    said = {os.path.join(name, document): group for name in above}
    if version == 3:
        return {
            **said,
            os.path.join(*names, "zarr.json"): {**_array(sink), "attributes": _attributes(sink)},
        }
    dims = {DIMENSIONS2: list(_dims(sink))}
    return {
        **said,
        os.path.join(*names, ".zarray"): _array(sink),
        os.path.join(*names, ".zattrs"): {**_attributes(sink), **dims},
    }


def _array(sink: ArraySink) -> dict[str, Any]:
    """The document of the array, without attributes."""
    asked = sink.encoding
    dtype = sink.dtype
    if asked.version == 2:
        return {
            "zarr_format": 2,
            "shape": list(sink.shape),
            "chunks": list(asked.chunks),
            "dtype": dtype.str,
            "compressor": _compressor(asked),
            "fill_value": None,
            "order": "C",
            "filters": None,
            "dimension_separator": "/",
        }
    codecs = _codecs(asked, dtype)
    if asked.shards:
        index = [{"name": "bytes", "configuration": {"endian": "little"}}, {"name": "crc32c"}]
        inner = {
            "chunk_shape": list(asked.chunks),
            "codecs": codecs,
            "index_codecs": index,
            "index_location": "end",
        }
        codecs = [{"name": "sharding_indexed", "configuration": inner}]
    zero: Any = {"b": False, "c": [0.0, 0.0], "f": 0.0}.get(dtype.kind, 0)
    return {
        "zarr_format": 3,
        "node_type": "array",
        "shape": list(sink.shape),
        "data_type": dtype.name,
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": list(sink.unit)}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
        "fill_value": zero,
        "codecs": codecs,
        "attributes": {},
        "dimension_names": list(_dims(sink)),
    }


def _compressor(asked: Encoding) -> dict[str, Any] | None:
    more = {"clevel": asked.level, "cname": "lz4", "shuffle": 1, "blocksize": 0}
    level: dict[str, Any] = {"level": asked.level}
    options = {"gzip": level, "zstd": level, "blosc": more}
    if asked.compression in options:
        return {"id": asked.compression, **options[asked.compression]}
    return None


def _codecs(asked: Encoding, dtype: np.dtype[Any]) -> list[dict[str, Any]]:
    """Codecs of version 3; zstd checks its data, which costs it nothing."""
    endian = "big"
    if dtype.newbyteorder("<") == dtype:
        endian = "little"
    to_bytes: dict[str, Any] = {"name": "bytes"}
    if dtype.itemsize > 1:
        to_bytes["configuration"] = {"endian": endian}
    found = [to_bytes]
    more = {
        "typesize": dtype.itemsize,
        "cname": "lz4",
        "clevel": asked.level,
        "shuffle": "shuffle",
        "blocksize": 0,
    }
    options: dict[str, dict[str, Any]] = {
        "gzip": {"level": asked.level},
        "zstd": {"level": asked.level, "checksum": True},
        "blosc": more,
    }
    if asked.compression in options:
        found.append({"name": asked.compression, "configuration": options[asked.compression]})
    return found


def _dims(sink: ArraySink) -> tuple[str, ...]:
    dims = sink.header.dims
    if len(dims) == len(sink.shape):
        return dims
    return tuple(f"dim_{axis}" for axis in range(len(sink.shape)))


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
        f"{sink.path}: Zarr cannot say what these stored values mean ({why}): use --values real"
    )


def _is_of_json(value: Any) -> bool:
    return isinstance(value, str | int | float | list) and not isinstance(value, np.generic)


def _kept(name: str, value: Any) -> Any:
    """An attribute that the new array has too, as JSON has it; None for others."""
    if name in _OF_OTHERS or name.startswith("_") or isinstance(value, Omitted):
        return None
    if name == "units" and not isinstance(value, str | bytes):  # NIfTI's, of its axes
        return None
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
