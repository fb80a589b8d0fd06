"""Scaling: from stored to real values, by slope and intercept, bounds, missing values.

A block is converted in pieces, so that what is needed beside it is bounded: `working_nbytes` says
by how much.

- NIfTI: as nibabel.volumeutils.apply_read_scaling (`tests/formats/test_nifti.py`)
- netCDF: as netCDF4-python masks and scales, NaN where it masks (`tests/formats/test_netcdf.py`)
- MINC: as nibabel.minc1 and nibabel.minc2 (`tests/formats/test_minc.py`)
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from hyperslab.arrays import Array
from hyperslab.arrays.slab import Hyperslab
from hyperslab.arrays.source import ArraySource, Scaling

PIECE_SIZE = 2**16
"Elements converted at a time; their intermediate values stay in the processor's cache."
_CAST_NBYTES = 3 * 8192 * 32
"What NumPy's own buffers take when a loop converts its arguments: 8192 elements of each."


def apply(source: ArraySource, slab: Hyperslab, stored: Array, out: Array) -> None:
    """Put the real values of a region into `out`, of dtype source.real; `stored` may be the same
    memory.

    Both have the shape of the slab; `stored` is in native byte order. Overflow gives infinity,
    without a warning.
    """
    assert source.scaling is not None
    scaling = source.scaling
    slope = _of_region(scaling.slope, source, slab)
    inter = _of_region(scaling.inter, source, slab)
    stored = stored.transpose(source.axes)
    out = out.transpose(source.axes)
    with np.errstate(all="ignore"):
        for piece in _pieces(out.shape):
            slope_here = _of_piece(slope, piece)
            inter_here = _of_piece(inter, piece)
            _convert(scaling, slope_here, inter_here, stored[piece], out[piece])


def real_values(scaling: Scaling, stored: Array, real: np.dtype[Any]) -> Array:
    """The real values, of this dtype, of a few stored ones in native byte order; the scaling is one
    for all.
    """
    out = np.empty(stored.shape, real)
    with np.errstate(all="ignore"):
        _convert(scaling, scaling.slope, scaling.inter, stored, out)
    return out


def working_nbytes(source: ArraySource, size: int) -> int:
    """Upper bound of the bytes that `apply` allocates for so many elements: two intermediate values
    and two masks of a piece.
    """
    return min(size, PIECE_SIZE) * (3 * source.real.itemsize + 4) + _CAST_NBYTES


def _of_region(factor: Any, source: ArraySource, slab: Hyperslab) -> Any:
    """The factors of a region, in stored order."""
    if np.ndim(factor) == 0:
        return factor
    cut = []
    for extent, whole, part in zip(factor.shape, source.shape, slab.slices(), strict=True):
        is_one_for_all = extent != whole
        cut.append(slice(None) if is_one_for_all else part)
    return factor[tuple(cut)].transpose(source.axes)


def _of_piece(factor: Any, piece: tuple[Any, ...]) -> Any:
    if np.ndim(factor) == 0:
        return factor
    cut = []
    for extent, part in zip(factor.shape, piece[1:], strict=True):
        cut.append(slice(None) if extent == 1 else part)
    return factor[tuple(cut)]


def _pieces(shape: Sequence[int]) -> Iterator[tuple[Any, ...]]:
    """Indices of up to PIECE_SIZE elements each that together select all of a C-ordered block."""
    level = 0
    while level < len(shape) and math.prod(shape[level:]) > PIECE_SIZE:
        level += 1
    whole = tuple(slice(0, n) for n in shape)
    if level == 0:
        yield (..., *whole)
        return
    extent = shape[level - 1]
    inner = max(1, math.prod(shape[level:]))
    step = max(1, PIECE_SIZE // inner)
    slower = (range(n) for n in shape[: level - 1])
    for index in itertools.product(*slower):
        outer = tuple(slice(i, i + 1) for i in index)
        for first in range(0, extent, step):
            last = min(first + step, extent)
            yield (..., *outer, slice(first, last), *whole[level:])


def _convert(scaling: Scaling, slope: Any, inter: Any, stored: Array, out: Array) -> None:
    plain = stored
    if scaling.unsigned:
        plain = stored.view(f"u{stored.dtype.itemsize}")
    absent = _absent(scaling, plain)
    values = plain
    if scaling.clip is not None:
        values = np.clip(plain, *scaling.clip, dtype=np.float64)
    if _changes(slope, 1):
        values = _combine(np.multiply, values, slope, out)
    if _changes(inter, 0):
        values = _combine(np.add, values, inter, out)
    if values is not out:
        np.copyto(out, values, casting="unsafe")
    if absent is not None:
        np.copyto(out, np.nan, where=absent)


def _absent(scaling: Scaling, plain: Array) -> Array | None:
    """Where a value is missing or not valid; None where none can be."""
    if not scaling.missing and scaling.valid is None:
        return None
    absent = np.zeros(plain.shape, np.bool_)
    for value in scaling.missing:
        absent |= plain == value
    low, high = scaling.valid or (None, None)
    if low is not None:
        absent |= plain < low
    if high is not None:
        absent |= plain > high
    return absent


def _changes(factor: Any, neutral: int) -> bool:
    """False for a Python float that would change nothing but the sign of a zero."""
    return isinstance(factor, np.ndarray | np.generic) or factor != neutral


def _combine(operation: np.ufunc, values: Array, factor: Any, out: Array) -> Array:
    """The product or sum in the dtype that `Scaling` says, within `out` if that has it."""
    dtype = out.dtype
    if isinstance(factor, np.ndarray | np.generic):
        dtype = np.result_type(values.dtype, factor.dtype)
    if dtype == out.dtype:
        return np.asarray(operation(values, factor, out=out, dtype=dtype))
    return np.asarray(operation(values, factor, dtype=dtype))
