"""Zarr arrays of versions 2 and 3: chunks, shards, codecs, fill values, and xarray's packing."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import numcodecs
import numpy as np
import zarr
import zarr.codecs.numcodecs as more
from xarray.backends.zarr import FillValueCoder

from hyperslab.arrays import Array
from hyperslab.arrays.source import Values
from tests.comparison import draws
from tests.comparison.datasets import netcdf_packing
from tests.comparison.draws import chance
from tests.comparison.made import Dataset, NotMade
from tests.formats.zarr_rows import by_xarray, by_zarr, dims

_TYPES = ("i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8", "c8", "c16", "?")
_NAMES = ("", "", "v", "a/v", "a/b/größe")


def version2(rng: Random, folder: Path) -> Dataset:
    return _make(rng, folder, 2)


def version3(rng: Random, folder: Path) -> Dataset:
    return _make(rng, folder, 3)


def _make(rng: Random, folder: Path, version: int) -> Dataset:
    path, name = folder / "made.zarr", rng.choice(_NAMES)
    shape, dtype = draws.shape(rng), np.dtype(rng.choice(_TYPES))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        options, keeps = (_options2 if version == 2 else _options3)(rng, shape, dtype)
        is_meant = bool(name) and chance(rng, 0.5)
        said = _say(rng, shape, dtype, version, options) if is_meant else {}
        try:
            known = _write(rng, path, name, shape, options, said, version)
        except (ValueError, TypeError, RuntimeError, OverflowError, IndexError) as error:
            raise NotMade(f"Zarr: {type(error).__name__}: {error}") from error
    url = f"{path}::{name}" if name else str(path)
    return Dataset(
        kind=f"Zarr {version}" + (", sharded" if "shards" in options else ""),
        path=path,
        name=name,
        said=f"{shape} {options} {said}",
        reference=lambda values: _by_library(url, values, is_meant),
        known=known if keeps else None,
        dims=lambda: dims(url),
        change=(lambda copy, places, new: _change(copy, name, places, new)) if keeps else None,
    )


def _by_library(url: str, values: Values, is_meant: bool) -> Array:
    with np.errstate(all="ignore"):
        return by_xarray(url, values) if is_meant and values == "real" else by_zarr(url, values)


def _common(rng: Random, shape: tuple[int, ...], dtype: np.dtype[Any]) -> dict[str, Any]:
    chunks = tuple(max(1, n) for n in draws.chunks(rng, shape, may_exceed=True))
    options: dict[str, Any] = {"chunks": chunks}
    if chance(rng, 0.6):
        fill = draws.values(rng, (1,), dtype)[0]
        options["fill_value"] = (
            dtype.type(0) if np.isnan(fill) else fill
        )  # zarr-python loses the payload of NaN
    return options


def _options2(
    rng: Random, shape: tuple[int, ...], dtype: np.dtype[Any]
) -> tuple[dict[str, Any], bool]:
    order: Any = rng.choice("<>")
    options = {
        **_common(rng, shape, dtype),
        "dtype": dtype.newbyteorder(order),
        "order": rng.choice("CCF"),
    }
    packers = (
        None,
        numcodecs.Zlib(1),
        numcodecs.GZip(1),
        numcodecs.BZ2(1),
        numcodecs.LZMA(),
        numcodecs.LZ4(),
        numcodecs.Zstd(1),
        numcodecs.Blosc("zstd"),
        numcodecs.Blosc("lz4", 5, 2),
    )
    options["compressors"] = rng.choice(packers)
    if chance(rng, 0.3):
        options["chunk_key_encoding"] = {"name": "v2", "separator": "/"}
    if dtype.kind in "iu" and chance(rng, 0.25):
        stored = options["dtype"].str
        filters = (
            numcodecs.Delta(stored),
            numcodecs.Shuffle(dtype.itemsize),
            numcodecs.Fletcher32(),
        )
        options["filters"] = rng.sample(filters, rng.randint(1, 2))
    if dtype.kind == "f" and dtype.itemsize > 2 and options["dtype"].isnative and chance(rng, 0.1):
        options["filters"] = [numcodecs.BitRound(5)]
        return options, False
    return options, True


def _options3(
    rng: Random, shape: tuple[int, ...], dtype: np.dtype[Any]
) -> tuple[dict[str, Any], bool]:
    options = {**_common(rng, shape, dtype), "dtype": dtype, "compressors": _packers(rng)}
    if chance(rng, 0.3):
        factors = tuple(rng.randint(1, 3) for _ in shape)
        whole = tuple(n * factor for n, factor in zip(options["chunks"], factors, strict=True))
        options["shards"] = {"shape": whole, "index_location": rng.choice(("start", "end"))}
    if shape and chance(rng, 0.3):
        options["filters"] = [
            zarr.codecs.TransposeCodec(order=tuple(rng.sample(range(len(shape)), len(shape))))
        ]
    elif dtype.kind in "iu" and chance(rng, 0.1):
        options["filters"] = [more.Delta(dtype=dtype.newbyteorder("<").str)]
    elif dtype.itemsize > 1 and chance(rng, 0.3):
        options["serializer"] = zarr.codecs.BytesCodec(endian="big")
    if chance(rng, 0.2):
        kind = rng.choice(("v2", "default"))
        options["chunk_key_encoding"] = {"name": kind, "separator": rng.choice("./")}
    return options, True


def _packers(rng: Random) -> Any:
    """Any codecs from bytes to bytes, one after the other."""
    blosc: Any = zarr.codecs.BloscCodec
    inner, shuffle = (
        rng.choice(("lz4", "zstd", "zlib", "blosclz")),
        rng.choice(("shuffle", "bitshuffle", "noshuffle")),
    )
    packers = (
        zarr.codecs.GzipCodec(level=rng.randint(0, 9)),
        zarr.codecs.ZstdCodec(level=3),
        zarr.codecs.Crc32cCodec(),
        zarr.codecs.ZstdCodec(level=1, checksum=True),
        blosc(cname=inner, shuffle=shuffle),
        more.LZ4(),
        more.BZ2(level=1),
        more.Zlib(level=1),
        more.Shuffle(elementsize=2),
        more.Fletcher32(),
    )
    return rng.sample(packers, rng.choice((0, 1, 1, 1, 2)))


def _say(
    rng: Random, shape: tuple[int, ...], dtype: np.dtype[Any], version: int, options: dict[str, Any]
) -> dict[str, Any]:
    """Names of axes and packing, as xarray writes them; xarray knows no valid_range."""
    said = netcdf_packing.packing(rng, dtype)
    for name in ("valid_min", "valid_max", "valid_range"):
        said.pop(name, None)
    said.pop(
        "_Unsigned" if said.get("_Unsigned") == "false" else "", None
    )  # to xarray, numbers with a sign
    if not options["dtype"].isnative:  # xarray takes the bytes of a mask for those of our order
        said.pop("_Unsigned", None)
    for name, neutral in (("scale_factor", 1), ("add_offset", 0)):
        if said.get(name) == neutral:  # which changes the dtype to xarray, and nothing to netCDF
            said.pop(name)
    if not netcdf_packing.holds(said.get("missing_value", 0), dtype):  # likewise
        said.pop("missing_value")
    if dtype.kind == "f" and np.isnan(
        said.get("_FillValue", 0)
    ):  # by which xarray then takes another dtype
        said.pop("scale_factor", None)
        said.pop("add_offset", None)
    axes = [f"axis{number}" for number in range(len(shape))]
    if version == 2:
        options["fill_value"] = said.pop("_FillValue", None)
        return {**_plain(said), "_ARRAY_DIMENSIONS": axes}
    options["dimension_names"] = axes
    filled = (
        {"_FillValue": FillValueCoder.encode(said.pop("_FillValue"), dtype)}
        if "_FillValue" in said
        else {}
    )
    return {**_plain(said), **filled}


def _plain(said: dict[str, Any]) -> dict[str, Any]:
    """Attributes as JSON has them."""
    return {
        name: value.tolist() if isinstance(value, np.generic | np.ndarray) else value
        for name, value in said.items()
    }


def _write(
    rng: Random,
    path: Path,
    name: str,
    shape: tuple[int, ...],
    options: dict[str, Any],
    said: dict[str, Any],
    version: int,
) -> Array:
    create: Any = zarr.create_array  # whose types know words, not strings
    array = create(
        store=path, name=name or None, shape=shape, zarr_format=version, attributes=said, **options
    )
    fill = options.get("fill_value")
    known = np.full(shape, 0 if fill is None else fill, options["dtype"])
    for _ in range(rng.choice((0, 1, 1, 1, 2))):
        values = draws.values(rng, shape, known.dtype)
        if "fill_value" in options and fill is None:
            where: Any = ...  # what is not written then means nothing
        else:
            where = draws.region(rng, shape) if shape and chance(rng, 0.5) else ...
        if values.size:
            array[where] = values[where]
            known[where] = values[where]
    return known.astype(known.dtype.newbyteorder("="))


def _change(path: Path, name: str, places: Sequence[tuple[int, ...]], new: Array) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        array: Any = zarr.open_array(path, path=name, mode="r+")
        for place, value in zip(places, new, strict=True):
            array[place or ...] = value
