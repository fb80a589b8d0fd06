"""Catalogue: what arrays some files hold, as a table with a row for each."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from pyspark.sql import types

from hyperslab import formats
from hyperslab.arrays.source import ArrayInfo
from hyperslab.errors import HyperslabError

SCHEMA = types.StructType(
    [
        types.StructField("path", types.StringType(), nullable=False),
        types.StructField("dataset", types.StringType()),
        types.StructField("shape", types.ArrayType(types.LongType(), containsNull=False)),
        types.StructField("dtype", types.StringType()),
        types.StructField("chunks", types.ArrayType(types.LongType(), containsNull=False)),
        types.StructField("codecs", types.ArrayType(types.StringType(), containsNull=False)),
        types.StructField("nbytes_stored", types.LongType()),
        types.StructField("attributes", types.MapType(types.StringType(), types.StringType())),
        types.StructField("error", types.StringType()),
    ]
)
"""`error` says why a file, or an array in it, cannot be read; the columns that are then unknown are
null.
"""

Row = tuple[Any, ...]


def entries(url: str, storage_options: Mapping[str, Any] | None = None) -> Iterator[Row]:
    """The rows of one file."""
    try:
        found = formats.arrays(url, storage_options)
    except (HyperslabError, OSError) as error:
        yield url, None, None, None, None, None, None, None, str(error)
        return
    path = formats.split_url(url)[0]
    for info in found:
        yield _entry(path, info, storage_options)


def _entry(path: str, info: ArrayInfo, storage_options: Mapping[str, Any] | None) -> Row:
    name = info.name.strip("/")
    known = (path, info.name, [int(n) for n in info.shape], info.dtype)
    try:
        url = path
        if name:
            url = f"{path}::{name}"
        source = formats.open_source(url, storage_options)
    except (HyperslabError, OSError) as error:
        return *known, None, None, None, None, str(error)
    attributes = {key: _text(value) for key, value in source.header.attributes.items()}
    chunks = [int(n) for n in source.own_chunk_shape]
    codecs = [codec.name for codec in source.codecs]
    return *known, chunks, codecs, int(source.nbytes_stored), attributes, None


def _text(value: Any) -> str:
    """An attribute as text: as it is, or in JSON where it is no text."""
    if isinstance(value, str):
        return value
    return json.dumps(value, default=_plain)


def _plain(value: Any) -> Any:
    if hasattr(value, "tolist"):
        return value.tolist()
    return str(value)
