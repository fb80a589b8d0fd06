"""The metadata documents of arrays that are written, and copies of them for those who read a group.

- xarray and zarr-python open a group with its copies, consolidated metadata, in one look, also on a
  web server that lists nothing (`tests/formats/test_zarr_sink.py`)
- copies of version 3 are a field of the group's document, which no reader has to understand: its
  specification knows none
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from hyperslab.arrays.encoding import Encoding
from hyperslab.arrays.sink import ArraySink
from hyperslab.formats.zarr.metadata import DIMENSIONS2

Documents = dict[str, dict[str, Any]]
"Documents by their names in a store."


def documents_of(sink: ArraySink, attributes: Mapping[str, Any]) -> Documents:
    """The metadata documents of an array with these attributes by their names, those of groups
    first.
    """
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
            os.path.join(*names, "zarr.json"): {**array_of(sink), "attributes": attributes},
        }
    dims = {DIMENSIONS2: list(_dims(sink))}
    return {
        **said,
        os.path.join(*names, ".zarray"): array_of(sink),
        os.path.join(*names, ".zattrs"): {**attributes, **dims},
    }


def array_of(sink: ArraySink) -> dict[str, Any]:
    """The document of an array, without attributes."""
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


def with_attributes(documents: Documents, said: Mapping[str, Mapping[str, Any]]) -> Documents:
    """The same documents, in which groups have attributes, by their paths."""
    found = dict(documents)
    for path, attributes in said.items():
        new = os.path.join(path, "zarr.json")
        if attributes and os.path.join(path, ".zgroup") in documents:
            found[os.path.join(path, ".zattrs")] = dict(attributes)
        elif attributes and documents.get(new, {}).get("node_type") == "group":
            found[new] = {**documents[new], "attributes": dict(attributes)}
    return found


def with_copies(documents: Documents) -> Documents:
    """Documents of a store, in which those of every group hold, or have beside them, copies of all
    below it.
    """
    found = dict(documents)
    for name, said in documents.items():
        folder, document = os.path.split(name)
        if document == ".zgroup":
            own = {".zgroup": said}
            if os.path.join(folder, ".zattrs") in documents:
                own[".zattrs"] = documents[os.path.join(folder, ".zattrs")]
            copies = own | _below(folder, documents)
            metadata = {"zarr_consolidated_format": 1, "metadata": copies}
            found[os.path.join(folder, ".zmetadata")] = metadata
        elif said.get("node_type") == "group":
            copies = {os.path.dirname(one): copy for one, copy in _below(folder, documents).items()}
            field = {"kind": "inline", "must_understand": False, "metadata": copies}
            found[name] = {**said, "consolidated_metadata": field}
    return found


def _below(folder: str, documents: Documents) -> Documents:
    """The documents in folders below one, by their names there."""
    start = os.path.join(folder, "")
    inside = {
        name.removeprefix(start): said for name, said in documents.items() if name.startswith(start)
    }
    return {name: said for name, said in inside.items() if os.path.dirname(name)}
