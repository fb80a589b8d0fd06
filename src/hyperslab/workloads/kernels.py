"""Kernels over one block: histograms and exact sums, in pieces that stay in the processor's cache.

Nothing here copies a block: its memory is walked in storage order, whatever its strides, and
temporaries have the size of a piece. Results do not depend on how an array is cut into blocks
(`tests/workloads/test_value_counts.py`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from hyperslab.arrays import Array
from hyperslab.native import core

PIECE_ELEMENTS = 2**16
"Values of a piece: half a MiB of them as float64. The sums below are exact for up to 2**20."
UNIT_BITS = 1074
"Every finite float64 is a whole multiple of 2**-1074, its square of 2**-2148."
_LIMB_BITS = 16
_BAND_BITS = 450
_BAND_SHIFT = 600
_VELTKAMP = 2.0**27 + 1
_BINNED = frozenset({"f4", "f8", "i1", "i2", "i4", "u1", "u2", "u4"})
"Dtypes whose values the native core bins, in any byte order."


class Finite(NamedTuple):
    """The finite values of a piece, and how many others it held."""

    values: Array
    nan: int
    below: int
    "Values of minus infinity."
    above: int
    "Values of plus infinity."


def storage_order(block: Array) -> tuple[int, ...]:
    """The axes of a block from slowest to fastest in memory."""
    return tuple(sorted(range(block.ndim), key=lambda axis: -abs(block.strides[axis])))


def pieces(block: Array, elements: int = PIECE_ELEMENTS) -> Iterator[Array]:
    """Every value once, as 1-D arrays of up to `elements` values in native byte order; views where
    memory allows.
    """
    native = block.dtype.newbyteorder("=")
    for piece in _split(block.transpose(storage_order(block)), elements):
        yield piece.astype(native, copy=False)


def _split(part: Array, elements: int) -> Iterator[Array]:
    if part.flags.c_contiguous or part.size <= elements:
        flat = part.reshape(-1)
        yield from (flat[i : i + elements] for i in range(0, flat.size, elements))
        return
    rows = max(1, elements * len(part) // part.size)
    for i in range(0, len(part), rows):
        chunk = part[i : i + rows]
        if chunk.size > elements:
            chunk = chunk[0]
        yield from _split(chunk, elements)


def finite(piece: Array) -> Finite:
    """Split a piece; one that is finite throughout, as integers are, is returned itself."""
    if piece.dtype.kind != "f" or not piece.size:
        return Finite(piece, 0, 0, 0)
    if np.isfinite(piece.min()) and np.isfinite(piece.max()):
        return Finite(piece, 0, 0, 0)
    kept = piece[np.isfinite(piece)]
    left_out = len(piece) - len(kept)
    nan = int(np.count_nonzero(np.isnan(piece)))
    below = int(np.count_nonzero(np.isneginf(piece)))
    return Finite(kept, nan, below, left_out - nan - below)


def value_counts(block: Array, low: int, bins: int) -> Array:
    """How often each of the integers low ... low + bins - 1 occurs: (bins,) int64. Raises
    ValueError for any other.
    """
    counts = np.zeros(bins, np.int64)
    if core is not None:
        core.value_counts(np.atleast_1d(block), low, counts)  # a buffer without axes has no shape
        return counts
    for piece in pieces(block):
        least = int(piece.min())
        most = int(piece.max())
        if least < low or most >= low + bins:
            raise ValueError(f"there are values other than {low} to {low + bins - 1}")
        counts += np.bincount(_above(piece, low), minlength=bins)
    return counts


def _above(piece: Array, low: int) -> Array:
    """Integers, none below `low`, as their distance from it, which fits where their own dtype would
    overflow.
    """
    if piece.dtype.itemsize < 8:
        if low:
            return np.subtract(piece, low, dtype=np.intp)
        return piece
    start = max(low, int(np.iinfo(piece.dtype).min))
    distance: Array = (piece - piece.dtype.type(start)).astype(np.intp)
    if start > low:
        return distance + (start - low)
    return distance


def equal_edges(
    low: Any, high: Any, bins: int, dtype: np.dtype[Any]
) -> tuple[Array, tuple[Any, Any]]:
    """Edges of `bins` equal bins from low to high, as numpy.histogram makes them for an array of
    this dtype.

    Returns (bins + 1,) edges and the range that makes them. Where neighbouring edges would round to
    one number, `bins` is halved until none do. A range of a single value is widened by 0.5 to both
    sides, as NumPy does, or to the neighbouring numbers where 0.5 is lost in rounding.
    """
    kind = np.result_type(low, high, binned_dtype(dtype))
    if kind.kind != "f":
        kind = np.dtype(np.float64)
    if kind.type(low) == kind.type(high):
        low, high = _widened(kind.type(low))
    while True:
        edges = _linear(low, high, bins, kind)
        if (edges[1:] > edges[:-1]).all():
            return edges, (low, high)
        bins //= 2


def binned_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The dtype that values are binned as: float16 cannot even number 4,096 bins, and NumPy bins no
    bool.
    """
    if dtype.char in "?e":
        if dtype.char == "?":
            return np.dtype(np.uint8)
        return np.dtype(np.float32)
    return dtype.newbyteorder("=")


def binned_counts(
    block: Array, edges: Array, bounds: tuple[Any, Any]
) -> tuple[Array, int, int, int]:
    """numpy.histogram of a block over what `equal_edges` returned: (counts as int64, below, above,
    NaN).

    Every bin holds its lower edge, the last one its upper edge too; infinite values are below or
    above.
    """
    counts = np.zeros(len(edges) - 1, np.int64)
    if core is not None and _is_decided_by_edges(block.dtype, edges, bounds):
        below, above, nan = core.binned_counts(
            np.atleast_1d(block), edges.astype(np.float64), counts
        )
        return counts, below, above, nan
    nan = below = above = 0
    how: dict[str, Any] = {"bins": edges}
    if _is_moderate(*bounds, edges.dtype):
        how = {"bins": len(counts), "range": bounds}
    for piece in pieces(block):
        values = piece.astype(binned_dtype(piece.dtype), copy=False)
        found = np.histogram(finite(values).values, **how)[0]
        counts += found
        if found.sum() < len(piece):
            nan += int(np.count_nonzero(np.isnan(values)))
            below += int(np.count_nonzero(values < bounds[0]))
            above += int(np.count_nonzero(values > bounds[1]))
    return counts, below, above, nan


def _is_decided_by_edges(dtype: np.dtype[Any], edges: Array, bounds: tuple[Any, Any]) -> bool:
    """Whether edges, as float64, tell what numpy.histogram counts where.

    It computes the number of a bin and corrects it by one at most. Values end up beyond the edges
    of their bins where that is not enough: for very many bins, and where their width is no normal
    number of the edges' dtype, whose rounding errors add up along the edges.
    """
    limits = np.finfo(edges.dtype)
    bins = len(edges) - 1
    width = (float(edges[-1]) - float(edges[0])) / bins
    if dtype.str[1:] not in _BINNED or edges.dtype.itemsize > 8:
        return False
    if edges[0] != bounds[0] or edges[-1] != bounds[1]:
        return False
    return width >= float(limits.tiny) and bins * float(limits.eps) < 0.25


def _linear(low: Any, high: Any, bins: int, kind: np.dtype[Any]) -> Array:
    if _is_moderate(low, high, kind):
        return np.asarray(np.linspace(low, high, bins + 1, dtype=kind))
    four = kind.type(4)
    first = kind.type(low) / 4
    last = kind.type(high) / 4
    edges = np.linspace(first, last, bins + 1, dtype=kind) * four
    edges[0] = low
    edges[-1] = high
    return np.asarray(edges)


def _is_moderate(low: Any, high: Any, kind: np.dtype[Any]) -> bool:
    """Whether numpy.histogram can make equal bins: it would overflow near the largest numbers of a
    dtype.
    """
    size = max(abs(float(low)), abs(float(high)))
    largest = float(np.finfo(kind).max)
    return size < largest / 4


def _widened(value: Any) -> tuple[Any, Any]:
    low = value - 0.5
    high = value + 0.5
    if low < value < high:
        return low, high
    most = np.finfo(value.dtype).max
    return np.nextafter(value, -most), np.nextafter(value, most)


def integer_sums(values: Array) -> tuple[int, int]:
    """The exact sums of up to 2**20 integers (or bool) and of their squares, for any width up to 64
    bits.

    Values are cut into limbs of 16 bits, so that all products and partial sums are integers below
    2**53 and float64 arithmetic is exact in any order.
    """
    unsigned = np.dtype(f"u{values.dtype.itemsize}")
    bias = 0
    if values.dtype.kind == "i":
        bias = 2 ** (8 * unsigned.itemsize - 1)
    raised = values.astype(unsigned) ^ unsigned.type(bias)
    limb = "u1"
    if unsigned.itemsize > 1:
        limb = "<u2"
    limbs = raised.astype(unsigned.newbyteorder("<")).view(limb)
    columns = limbs.reshape(len(values), -1).astype(np.float64)
    sums = columns.sum(axis=0).tolist()
    products = (columns.T @ columns).tolist()
    total = 0
    squares = 0
    for i, column in enumerate(sums):
        total += int(column) << (_LIMB_BITS * i)
        for j, product in enumerate(products[i]):
            squares += int(product) << (_LIMB_BITS * (i + j))
    n = len(values)
    # The bias, which every value has been raised by, goes out of both sums again.
    return total - bias * n, squares - 2 * bias * total + bias * bias * n


def float_sums(values: Array) -> tuple[int, int]:
    """The exact sums of finite float16, float32 or float64 values, in 2**-1074, and of their
    squares, in 2**-2148.

    A square of float64 is two numbers, the rounded product and its error (T. J. Dekker, Numer.
    Math. 18, 224-242, 1971); very large and very small values are scaled by a power of two first,
    so that neither over- nor underflows.
    """
    wide = values.astype(np.float64)
    if values.dtype.itemsize < 8:
        squares = exact_sum(wide * wide)
        return exact_sum(wide), squares << UNIT_BITS
    total = squares = 0
    for scale, band in _bands(wide):
        product, error = _square(band)
        square = exact_sum(product) + exact_sum(error)
        squares += _shifted(square, UNIT_BITS - 2 * scale)
        total += _shifted(exact_sum(band), -scale)
    return total, squares


def _bands(values: Array) -> Iterator[tuple[int, Array]]:
    """(scale, values times 2**scale) for groups whose squares, and the errors of these, are normal
    numbers.
    """
    size = np.abs(values)
    big = size > 2.0**_BAND_BITS
    small = (size < 2.0**-_BAND_BITS) & (size > 0)
    if not (big.any() or small.any()):
        yield 0, values
        return
    bands = {0: ~(big | small), -_BAND_SHIFT: big, _BAND_SHIFT: small}
    for scale, chosen in bands.items():
        yield scale, values[chosen] * 2.0**scale


def _square(values: Array) -> tuple[Array, Array]:
    """(product, error) with product + error == values * values exactly."""
    product = values * values
    high = values * _VELTKAMP
    high -= high - values
    low = values - high
    return product, ((high * high - product) + 2 * high * low) + low * low


def _shifted(number: int, bits: int) -> int:
    if bits >= 0:
        return number << bits
    return number >> -bits


def exact_sum(values: Array) -> int:
    """The exact sum of up to 2**20 float64 values of at most 2**950, in units of 2**-1074;
    overwrites `values`.

    Adding and subtracting a large power of two rounds all values to multiples of one unit, whose
    sum is exact in any order; what was rounded away is the next pass's input (S. M. Rump, T. Ogita,
    S. Oishi, "Accurate floating-point summation part I", SIAM J. Sci. Comput. 31(1), 189-224, 2008,
    algorithm ExtractVector).
    """
    total = 0
    room = len(values).bit_length() + 1
    while values.size and (largest := max(float(values.max()), -float(values.min()))) > 0:
        power = math.ldexp(1.0, math.frexp(largest)[1] + room)
        rounded = values + power
        rounded -= power
        values -= rounded
        total += _units(float(rounded.sum()))
    return total


def _units(value: float) -> int:
    numerator, denominator = value.as_integer_ratio()
    return numerator << (UNIT_BITS + 1 - denominator.bit_length())
