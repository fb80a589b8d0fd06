"""Rows: the elements of an RDD as arrays of numbers, a batch at a time, with what they say of their
place.

- no value changes: numbers of several types in one row, or in two rows, are refused unless a dtype
  is named that holds each of them exactly (`tests/connectors/spark/test_write.py`)
"""

from __future__ import annotations

import array
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from hyperslab.arrays import Array
from hyperslab.arrays.slab import Hyperslab
from hyperslab.connectors.spark.exactness import NUMBERS, exactly
from hyperslab.errors import UsageError

BATCH_NBYTES = 8 * 1024**2
"""Bytes of values that are gathered before they are written; rows with an index are sorted within a
batch.
"""
_ITEM_NBYTES = 64
"Least bytes that an element of an RDD takes."
_MOST = 2**62
"No index reaches this."
_PYTHON = {bool, int, float, complex}
_PLAIN = (bool, int, float, complex, np.number, np.bool_)
_SAME: dict[type, type] = {np.bool_: bool, np.int64: int, np.float64: float, np.complex128: complex}
"Python's types for those of NumPy that hold the same values."

Kind = Literal["blocks", "rows with an index", "rows"]


@dataclass(frozen=True, slots=True, eq=False)
class Piece:
    """Values that lie together in memory: a block, or rows of one shape."""

    kind: Kind
    block: Array
    start: tuple[int, ...] = ()
    "First element of a block in the whole array; () for rows."
    index: npt.NDArray[np.int64] | None = None
    "Indices of rows, ascending, where they have any."


def pieces(items: Iterable[Any], partition: int, dtype: np.dtype[Any] | None) -> Iterator[Piece]:
    """What the elements of a partition are, in order. Raises UsageError for what is not a row of
    numbers.
    """
    done = 0
    for batch in _batches(items):
        kind = _kind(batch[0])
        if any(_kind(item) != kind for item in batch):
            raise UsageError(
                f"partition {partition} holds {kind} and others: write elements of one kind"
            )
        if kind == "blocks":
            yield from (_placed(slab, block, dtype) for slab, block in batch)
        elif kind == "rows":
            first = done

            def name(row: int, first: int = first) -> str:
                return f"row {first + row} of partition {partition}"

            yield Piece(kind, _values(batch, name, dtype))
        else:
            yield _indexed(batch, dtype)
        done += len(batch)


def recast(
    block: Array, dtype: np.dtype[Any] | None, name: Callable[[tuple[int, ...]], str]
) -> Array:
    """The block as `dtype`, if that is given. Raises UsageError for a value that has no equal
    there, with its name.
    """
    if dtype is None:
        return block
    made, odd = exactly(block, dtype)
    if odd is not None:
        raise UsageError(
            f"dtype={dtype}: the value {block[odd]!s} {name(odd)} cannot be represented: name"
            " another"
            " dtype, or round the values first"
        )
    return made


def sort(index: npt.NDArray[np.int64], block: Array) -> Piece:
    """Rows in the order of their index, so that those which lie together in the array do so in the
    file.
    """
    if index.size and index.min() < 0:
        raise UsageError(f"a row has the index {index.min()}: indices are whole numbers from 0")
    if (index[1:] < index[:-1]).any():
        order = np.argsort(index, kind="stable")
        index = index[order]
        block = block[order]
    return Piece("rows with an index", block, index=index)


def _batches(items: Iterable[Any]) -> Iterator[list[Any]]:
    batch: list[Any] = []
    nbytes = 0
    for item in items:
        batch.append(item)
        nbytes += _nbytes(item)
        if nbytes >= BATCH_NBYTES:
            yield batch
            batch = []
            nbytes = 0
    if batch:
        yield batch


def _nbytes(item: Any) -> int:
    """About what an element takes in memory."""
    if isinstance(item, tuple) and len(item) == 2:
        row = item[1]
    else:
        row = getattr(item, "vector", item)
    known = getattr(row, "nbytes", None)
    if isinstance(known, int):
        return known + _ITEM_NBYTES
    size = getattr(row, "size", None)
    count = 1
    if isinstance(size, int):
        count = size
    elif isinstance(row, Sized):
        count = len(row)
    return 8 * count + _ITEM_NBYTES


def _kind(item: Any) -> Kind:
    """What an element is. Raises UsageError for a pair of a whole number and a number, which could
    be two things.
    """
    if not isinstance(item, tuple):
        if hasattr(item, "vector") and hasattr(item, "index"):
            return "rows with an index"
        return "rows"
    if len(item) != 2:
        return "rows"
    if isinstance(item[0], Hyperslab):
        return "blocks"
    if _is_whole(item[0]) and isinstance(item[1], _PLAIN):
        raise UsageError(
            f"the pair {item} may be a row of two numbers, or a number with its index: write the"
            " first as a list, the second as (index, numpy.array(number))"
        )
    if _is_whole(item[0]):
        return "rows with an index"
    return "rows"


def _is_whole(value: Any) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def _placed(slab: Hyperslab, block: Any, dtype: np.dtype[Any] | None) -> Piece:
    if (
        not isinstance(block, np.ndarray)
        or block.shape != slab.count
        or not slab.is_box
        or not slab.ndim
    ):
        if isinstance(block, np.ndarray):
            what = f"an array of shape {block.shape}"
        else:
            what = f"a {type(block).__name__}"
        raise UsageError(
            f"the block at {slab} is {what}: give an array of the hyperslab's shape, with strides"
            " of 1"
        )
    try:
        plain = _array(block)
    except UsageError as error:
        raise UsageError(f"the block at {slab}: {error}") from None

    def name(place: tuple[int, ...]) -> str:
        return f"at {tuple(a + i for a, i in zip(slab.start, place, strict=True))}"

    return Piece("blocks", recast(plain, dtype, name), slab.start)


def _indexed(batch: Sequence[Any], dtype: np.dtype[Any] | None) -> Piece:
    numbers = []
    rows = []
    for item in batch:
        if isinstance(item, tuple):
            number, row = item
        else:
            number = item.index
            row = item.vector
        if not _is_whole(number) or not 0 <= number < _MOST:
            raise UsageError(f"a row has the index {number}: indices are whole numbers from 0")
        numbers.append(number)
        rows.append(row)
    index = np.array(numbers, np.int64)
    block = _values(rows, lambda place: f"row {index[place]}", dtype)
    return sort(index, block)


def _values(rows: Sequence[Any], name: Callable[[int], str], dtype: np.dtype[Any] | None) -> Array:
    """All rows as one array."""
    kinds = set(map(type, rows))
    if len(kinds) == 1 and kinds <= _PYTHON:
        try:
            block = _numbers(rows)
        except UsageError as error:
            raise UsageError(f"{name(0)} or a later one {error}") from None
        return recast(block, dtype, lambda place: f"of {name(place[0])}")
    if kinds <= {list, tuple} and (table := _table(rows)) is not None:
        return recast(table, dtype, lambda place: _within(name, place[0])(place[1:]))
    arrays = []
    for number, row in enumerate(rows):
        try:
            arrays.append(_array(row))
        except UsageError as error:
            raise UsageError(f"{name(number)}: {error}") from None
    return _stacked(arrays, name, dtype)


def _table(rows: Sequence[Any]) -> Array | None:
    """Sequences of one length and of one of Python's types, at once: a tenth of the time; None for
    others.
    """
    flat = list(itertools.chain.from_iterable(rows))
    kinds = set(map(type, flat))
    if len(kinds) != 1 or not kinds <= {bool, int, float} or len(set(map(len, rows))) != 1:
        return None
    try:
        return np.array(
            flat, {bool: np.bool_, int: np.int64, float: np.float64}[kinds.pop()]
        ).reshape(len(rows), -1)
    except OverflowError:
        return None


def _stacked(
    arrays: Sequence[Array], name: Callable[[int], str], dtype: np.dtype[Any] | None
) -> Array:
    shape = arrays[0].shape
    found = arrays[0].dtype
    odd = next((i for i, one in enumerate(arrays) if one.shape != shape), None)
    if odd is not None:
        raise UsageError(
            f"{name(odd)} has the shape {arrays[odd].shape}, {name(0)} {shape}: all rows of an"
            " array have one shape"
        )
    odd = next((i for i, one in enumerate(arrays) if one.dtype != found), None)
    if odd is not None and dtype is None:
        raise UsageError(
            f"{name(odd)} holds {arrays[odd].dtype}, {name(0)} {found}: say dtype= to have one of"
            " them"
        )
    if odd is not None:
        arrays = [recast(one, dtype, _within(name, i)) for i, one in enumerate(arrays)]
    if shape:
        block = np.concatenate(arrays).reshape(len(arrays), *shape)
    else:
        block = np.array(arrays)
    return recast(block, dtype, lambda place: _within(name, place[0])(place[1:]))


def _within(name: Callable[[int], str], row: int) -> Callable[[tuple[int, ...]], str]:
    return lambda place: f"of {name(row)}" + (f" at {', '.join(map(str, place))}" if place else "")


def _array(row: Any) -> Array:
    """A row as an array in native byte order."""
    if np.ma.is_masked(row):
        raise UsageError("holds masked values: fill them first")
    if isinstance(row, np.ndarray | np.generic | array.array):
        made: Array = np.asarray(row)
    elif hasattr(row, "toArray"):
        made = np.asarray(row.toArray())
    elif isinstance(row, _PLAIN):
        made = _numbers([row]).reshape(())
    elif isinstance(row, Sequence) and not isinstance(row, str | bytes | bytearray):
        made = _numbers(row)
    else:
        raise UsageError(
            f"a {type(row).__name__} is not a row of numbers: write arrays, sequences of"
            " numbers, or"
            " vectors"
        )
    if made.dtype.kind not in NUMBERS:
        raise UsageError(f"holds {made.dtype}, which is not a number: write numbers")
    return made.astype(made.dtype.newbyteorder("="), copy=False)


def _numbers(values: Sequence[Any]) -> Array:
    """A sequence of numbers as an array; whole ones among floats only where floats have them."""
    kinds = {_SAME.get(kind, kind) for kind in set(map(type, values))}
    if len(kinds) == 1 and issubclass(kind := next(iter(kinds)), np.number):
        return np.array(values, kind)
    if kinds == {bool}:
        return np.array(values, np.bool_)
    if kinds == {int}:
        return _wholes(values)
    if not kinds or not kinds <= {int, float, complex}:
        named = " and ".join(sorted(kind.__name__ for kind in kinds)) or "nothing"
        raise UsageError(
            f"a sequence of {named} is not a row of numbers of one type: write one type, or an"
            " array"
        )
    dtype: np.dtype[Any] = np.dtype(np.float64)
    if complex in kinds:
        dtype = np.dtype(np.complex128)
    wholes = [value for value in values if isinstance(value, int | np.int64)]
    recast(_wholes(wholes or [0]), dtype, lambda _: "among them")
    return np.array(values, dtype)


def _wholes(values: Sequence[Any]) -> Array:
    """int64, or where that is too small uint64."""
    try:
        return np.array(values, np.int64)
    except OverflowError:
        pass
    try:
        return np.array([int(value) for value in values], np.uint64)
    except OverflowError:
        raise UsageError(
            "holds whole numbers that no 64 bits hold: write floats, or an array"
        ) from None
