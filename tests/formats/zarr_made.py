"""Zarr stores of every kind, made with zarr-python, and values to put in them."""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import zarr
from xarray.backends.zarr import FillValueCoder
from zarr.codecs import Crc32cCodec, GzipCodec, ZstdCodec

from hyperslab.arrays import Array
from tests.formats.nifti_made import random_values

SHAPE = (5, 6, 7)
CHUNKS = (2, 3, 4)
CODECS: dict[str, Any] = {
    "gzip": GzipCodec(level=3),
    "zstd": ZstdCodec(level=1),
    "zstd with a checksum": ZstdCodec(level=1, checksum=True),
    "crc32c": Crc32cCodec(),
}


def values(shape: tuple[int, ...] = SHAPE, dtype: Any = "i2") -> Array:
    """Any numbers."""
    plain = np.dtype(dtype)
    if plain.kind == "b":
        return np.random.default_rng(len(shape)).integers(0, 2, shape).astype(plain)
    return random_values(shape, plain)


def make(
    path: Path,
    *,
    name: str = "",
    version: int = 3,
    dtype: Any = "i2",
    shape: tuple[int, ...] = SHAPE,
    chunks: tuple[int, ...] = CHUNKS,
    parts: tuple[Any, ...] = (...,),
    said: Mapping[str, Any] | None = None,
    **options: Any,
) -> Path:
    """A store with one array, of which the parts are written."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of codecs that are not in the specification, and the like
        create: Any = zarr.create_array  # whose types know words, not strings
        array = create(
            store=path,
            name=name or None,
            shape=shape,
            chunks=chunks,
            dtype=dtype,
            zarr_format=version,
            attributes=dict(said or {}),
            **options,
        )
        for part in parts:
            array[part] = values(shape, dtype)[part]
    return path


def edit(path: Path, name: str = "zarr.json", **said: Any) -> None:
    """Change a metadata document; None takes an entry out."""
    document = json.loads((path / name).read_text())
    document = {
        key: value
        for key, value in {**document, **said}.items()
        if value is not None or key == "compressor"
    }
    (path / name).write_text(json.dumps(document))


def named(
    path: Path, name: str, version: int, dtype: str, said: dict[str, Any], **options: Any
) -> None:
    """A variable as xarray knows it: with names of axes, and _FillValue where xarray keeps it."""
    said, plain = dict(said), np.dtype(dtype)
    if version == 2:
        options["fill_value"] = said.pop("_FillValue", None)
        said["_ARRAY_DIMENSIONS"] = ["y", "x"]
    else:
        options["dimension_names"] = ("y", "x")
        if "_FillValue" in said:
            said["_FillValue"] = FillValueCoder.encode(said["_FillValue"], plain)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        near = np.resize(
            np.array([*range(0 if plain.kind == "u" else -3, 8), *_extremes(plain)], plain), (6, 7)
        )
        create: Any = zarr.create_array  # whose types know words, not strings
        array = create(
            store=path,
            name=name,
            shape=(6, 7),
            chunks=(4, 5),
            dtype=plain,
            zarr_format=version,
            attributes=said,
            **options,
        )
        array[...] = near


def _extremes(plain: np.dtype[Any]) -> list[Any]:
    return (
        [0.1, 1e20, np.nan, np.inf]
        if plain.kind == "f"
        else [np.iinfo(plain).min, np.iinfo(plain).max]
    )
