"""Chains of HDF5 filters with any of their options."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Any, NamedTuple

import h5py
import hdf5plugin
import numpy as np
from h5py import h5z

from hyperslab.arrays import Array
from tests.comparison.draws import chance
from tests.formats.hdf5_made import create


class Filter(NamedTuple):
    """One filter of a chain."""

    name: str
    code: int
    options: tuple[int, ...] = ()
    keeps: bool = True
    "Whether what is read is what was written."

    def __str__(self) -> str:
        return f"{self.name}{list(self.options)}" if self.options else self.name


Drawn = Callable[[Random, "np.dtype[Any]"], Filter]


def _deflate(rng: Random, dtype: np.dtype[Any]) -> Filter:
    return Filter("deflate", h5z.FILTER_DEFLATE, (rng.randint(0, 9),))


def _szip(rng: Random, dtype: np.dtype[Any]) -> Filter:
    coding = rng.choice((h5z.SZIP_NN_OPTION_MASK, h5z.SZIP_EC_OPTION_MASK))
    return Filter("szip", h5z.FILTER_SZIP, (coding, rng.choice((2, 4, 8, 16, 32))))


def _scaleoffset(rng: Random, dtype: np.dtype[Any]) -> Filter:
    if dtype.kind == "f":
        return Filter(
            "scaleoffset", h5z.FILTER_SCALEOFFSET, (h5z.SO_FLOAT_DSCALE, rng.randint(0, 4)), False
        )
    return Filter(
        "scaleoffset", h5z.FILTER_SCALEOFFSET, (h5z.SO_INT, rng.choice((0, 0, 0, 7))), False
    )


def _lz4(rng: Random, dtype: np.dtype[Any]) -> Filter:
    return Filter("lz4", 32004, (rng.choice((0, 0, 8, 64, 1000)),))


def _zstd(rng: Random, dtype: np.dtype[Any]) -> Filter:
    return Filter("zstd", 32015, (rng.choice((1, 3, 9)),))


def _blosc(rng: Random, dtype: np.dtype[Any]) -> Filter:
    codec: Any = rng.choice(("blosclz", "lz4", "lz4hc", "snappy", "zlib", "zstd"))
    made = hdf5plugin.Blosc(codec, rng.randint(0, 9), rng.randint(0, 2))
    return Filter(f"blosc {codec}", made.filter_id, tuple(made.filter_options))


def _blosc2(rng: Random, dtype: np.dtype[Any]) -> Filter:
    codec: Any = rng.choice(("blosclz", "lz4", "lz4hc", "zlib", "zstd"))
    made = hdf5plugin.Blosc2(codec, rng.randint(0, 9), rng.randint(0, 2))
    return Filter(f"blosc2 {codec}", made.filter_id, tuple(made.filter_options))


def _bitshuffle(rng: Random, dtype: np.dtype[Any]) -> Filter:
    codec: Any = rng.choice(("none", "lz4", "zstd"))
    made = hdf5plugin.Bitshuffle(rng.choice((0, 8, 64, 1024)), codec)
    return Filter(f"bitshuffle {codec}", made.filter_id, tuple(made.filter_options))


def _bzip2(rng: Random, dtype: np.dtype[Any]) -> Filter:
    made = hdf5plugin.BZip2(rng.randint(1, 9))
    return Filter("bzip2", made.filter_id, tuple(made.filter_options))


def _zfp(rng: Random, dtype: np.dtype[Any]) -> Filter:
    made = hdf5plugin.Zfp(reversible=True)
    return Filter("zfp", made.filter_id, tuple(made.filter_options), False)


_DECODED: tuple[Drawn, ...] = (
    _deflate,
    _deflate,
    _deflate,
    _lz4,
    _zstd,
    _blosc,
    _bitshuffle,
    lambda rng, dtype: Filter("shuffle", h5z.FILTER_SHUFFLE),
    lambda rng, dtype: Filter("shuffle", h5z.FILTER_SHUFFLE),
    lambda rng, dtype: Filter("fletcher32", h5z.FILTER_FLETCHER32),
    lambda rng, dtype: Filter("lzf", 32000),
)
_OTHERS: tuple[Drawn, ...] = (
    _szip,
    _scaleoffset,
    _blosc2,
    _bzip2,
    _zfp,
    lambda rng, dtype: Filter("nbit", h5z.FILTER_NBIT),
)
"Not FciDecomp, which reads other values each time where elements use some of their bits."


def chain(rng: Random, dtype: np.dtype[Any]) -> tuple[Filter, ...]:
    """None, one, a chain that people use, or any filters one after the other."""
    style = rng.random()
    if style < 0.25:
        return ()
    if style < 0.4:
        before = [Filter("shuffle", h5z.FILTER_SHUFFLE)]
        after = [Filter("fletcher32", h5z.FILTER_FLETCHER32)] if chance(rng, 0.3) else []
        return (*before, _deflate(rng, dtype), *after)
    if style < 0.5:
        return (rng.choice(_OTHERS)(rng, dtype),)
    length = rng.choice((1, 1, 1, 2, 2, 3, 4))
    return tuple(rng.choice(_DECODED)(rng, dtype) for _ in range(length))


def add(creation: Any, filters: Sequence[Filter]) -> None:
    """Put the filters into a list of creation properties, as their libraries want it."""
    for one in filters:
        if one.code == h5z.FILTER_DEFLATE:
            creation.set_deflate(*one.options)
        elif one.code == h5z.FILTER_SZIP:
            creation.set_szip(*one.options)
        elif one.code == h5z.FILTER_SCALEOFFSET:
            creation.set_scaleoffset(*one.options)
        else:
            creation.set_filter(one.code, h5z.FLAG_OPTIONAL, one.options)


def packed(chunk: Array, kind: Any, filters: Sequence[Filter], mask: int) -> bytes | None:
    """What HDF5 stores of a chunk without the filters of a mask; None where one of the others does
    nothing to it.
    """
    kept = [one for number, one in enumerate(filters) if not mask >> number & 1]
    with h5py.File("chunk", "w", driver="core", backing_store=False) as file:
        dataset = create(
            file, chunk.shape, kind, chunks=chunk.shape, add=lambda creation: add(creation, kept)
        )
        dataset[...] = chunk
        skipped, raw = dataset.id.read_direct_chunk((0,) * chunk.ndim)
    return None if skipped else bytes(raw)
