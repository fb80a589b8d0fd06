"""Every row of the feature matrices: read as the format's library reads it, bit for bit, by the
expected way.
"""

from __future__ import annotations

import os
import re
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pytest

from hyperslab import formats
from hyperslab.arrays import Array
from hyperslab.arrays.slab import Hyperslab, from_index
from hyperslab.arrays.source import ArraySource, Values
from hyperslab.blocks import reading
from hyperslab.blocks.view import ArrayView
from hyperslab.errors import FormatError, UsageError
from tests.formats import page
from tests.formats.hdf5_made import chunk_index
from tests.formats.matrix import Expected, Matrix, Row, opened, way_of
from tests.repetitions import ALL, repeats

Made = Callable[[Matrix, Row], Path]
Case = TypeVar("Case")
CASES = [(matrix, row) for matrix in page.MATRICES for row in matrix.rows()]
READ = [(matrix, row) for matrix, row in CASES if row.way != "refused"]
REFUSED = [(matrix, row) for matrix, row in CASES if row.way == "refused"]

LEAST_TYPICAL = 20
"Elements of a file, from which on netCDF's have every value that `netcdf_made.typical` gives."


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """The file of a row, made once."""
    found: dict[Callable[[Path], None], Path] = {}

    def of_row(matrix: Matrix, row: Row) -> Path:
        if row.make not in found:
            path = tmp_path_factory.mktemp("row") / f"made{row.suffix or matrix.suffix}"
            row.make(path)
            found[row.make] = path
        return found[row.make]

    return of_row


def parametrized(chosen: list[tuple[Matrix, Row]]) -> pytest.MarkDecorator:
    ids = [f"{matrix.title}: {row.group}: {row.name}" for matrix, row in chosen]
    cases = [_case(matrix, row) for matrix, row in chosen]
    return pytest.mark.parametrize(("matrix", "row"), cases, ids=ids)


def _case(matrix: Matrix, row: Row) -> Any:
    if row.repeats:
        return pytest.param(matrix, row, marks=repeats(row.repeats))
    return matrix, row


def kinds(source: ArraySource) -> Iterator[Values]:
    """The two kinds of value where they differ; where they do not, the real ones are the stored
    ones.
    """
    if source.scaling is not None or source.unscalable:
        yield "stored"
    if not source.unscalable:
        yield "real"


source_of = cache(opened)


@cache
def whole(expected: Expected, url: str, values: Values) -> Array:
    """All values as they have to be, in native byte order."""
    found = expected(url, values)
    return found.astype(found.dtype.newbyteorder("="))


@parametrized(READ)
def test_a_row(matrix: Matrix, row: Row, made: Made) -> None:
    path = made(matrix, row)
    assert row.index in ("", chunk_index(path) if row.index else "")
    urls = matrix.urls(row, path)
    for url in urls:
        the_way_is_the_expected_one(matrix, row, url)
        values_are_those_of_the_library(matrix, row, url)
        the_place_is_that_of_the_library(matrix, row, url)
    for url in urls[:1]:
        values_are_read_into_memory_of_any_layout(matrix, row, url)
    real_values_are_what_the_table_says(row, [source_of(url) for url in urls])


def values_are_those_of_the_library(matrix: Matrix, row: Row, url: str) -> None:
    source = source_of(url)
    for values in kinds(source):
        expected = whole(row.expected or matrix.expected, url, values)
        view = ArrayView(source, values)
        assert view.shape == expected.shape
        everything, *parts = selections(expected.shape)
        for index in (everything, *in_turn(row, 0, parts)):
            same_bits(np.asarray(view[index], view.dtype), expected[(..., *index)])
        for axis, positions in in_turn(row, 1, lists(expected.shape)):
            before: tuple[Any, ...] = (slice(None),) * axis
            same_bits(view[(*before, positions)], expected.take(positions, axis))


def values_are_read_into_memory_of_any_layout(matrix: Matrix, row: Row, url: str) -> None:
    source = source_of(url)
    values: Values = "stored" if source.unscalable else "real"
    expected = whole(row.expected or matrix.expected, url, values)
    for place, index in enumerate(selections(expected.shape)[:2]):
        slab, _ = from_index(index, expected.shape)
        for out in in_turn(row, place, outputs(slab.count, source.dtype(values))):
            assert reading.read(source, slab, out, values) is out
            same_bits(out, expected[(..., *index)])


def the_way_is_the_expected_one(matrix: Matrix, row: Row, url: str) -> None:
    source = source_of(url)
    assert way_of(source) == row.way, source.reason
    assert row.reason in source.reason
    assert source.dims == (matrix.dims(url) if matrix.dims else source.dims)


def the_place_is_that_of_the_library(matrix: Matrix, row: Row, url: str) -> None:
    if matrix.affine is None or row.expected or row.unscalable:
        return
    header = source_of(url).header
    np.testing.assert_array_equal(header.affine, matrix.affine(url))


def real_values_are_what_the_table_says(row: Row, sources: list[ArraySource]) -> None:
    for source in sources:
        assert bool(source.unscalable) == bool(row.unscalable), source.unscalable
        if row.unscalable:
            with pytest.raises(UsageError, match=f"{re.escape(row.unscalable)}.*--values stored"):
                source.dtype("real")
    meant, dtype = (
        [source for source in sources if not source.unscalable],
        re.split("[;, ]", row.real)[0],
    )
    changed = [
        source for source in meant if source.scaling or source.real != source.dtype("stored")
    ]
    assert bool(row.real) == bool(changed)
    assert not re.fullmatch(r"(u?int|float|complex)\d+([;,(].*)?", row.real) or {
        str(s.real) for s in meant
    } == {dtype}
    if sum(source.size for source in changed) >= LEAST_TYPICAL:
        assert any(map(new_nan, changed)) == ("NaN" in row.real)


def new_nan(source: ArraySource) -> bool:
    """Whether a stored value that is not NaN is NaN in earnest."""
    slab = Hyperslab.full(source.shape)
    stored, real = (reading.read(source, slab, values=values) for values in ("stored", "real"))
    return bool((np.isnan(real) & ~np.isnan(stored)).any()) if real.dtype.kind in "fc" else False


@parametrized(REFUSED)
def test_what_cannot_be_read_is_refused(matrix: Matrix, row: Row, made: Made) -> None:
    path = made(matrix, row)
    with suppress(FormatError):
        formats.arrays(str(path))
    for url in matrix.urls(row, path):
        with pytest.raises(FormatError, match=re.escape(row.reason)):
            np.asarray(ArrayView(opened(url)))


def test_the_rows_have_names_of_their_own() -> None:
    assert len({(matrix.title, row.group, row.name) for matrix, row in CASES}) == len(CASES)


def test_the_page_shows_the_matrices() -> None:
    shown = page.PAGE.read_text()
    assert shown == page.replaced(shown), f"{page.COMMAND} brings it up to date"


def selections(shape: tuple[int, ...]) -> list[tuple[Any, ...]]:
    """All, every other element from the second on, and backwards."""
    whole: tuple[Any, ...] = (slice(None),) * len(shape)
    strided = tuple(slice(min(1, n - 1), None, 2) for n in shape)
    backward = tuple(slice(None, None, -1 - axis % 3) for axis in range(len(shape)))
    inner = tuple(slice(n // 3, max(n // 3 + 1, n - 1)) for n in shape)
    return [whole, strided, backward, inner] if shape else [whole]


def lists(shape: tuple[int, ...]) -> list[tuple[int, list[int]]]:
    """Unsorted positions, some of them twice, along the first and the last axis that have several
    elements.
    """
    axes = [axis for axis, n in enumerate(shape) if n > 1]
    return [
        (axis, [shape[axis] - 1, 0, 1, shape[axis] // 2, 0, -1])
        for axis in dict.fromkeys([*axes[:1], *axes[-1:]])
    ]


def outputs(shape: tuple[int, ...], dtype: np.dtype[Any]) -> list[Array]:
    """Blocks in C order, in Fortran order, with gaps, and walked backwards."""
    wide = np.zeros((*shape[:-1], 3 * shape[-1]) if shape else (), dtype)
    backward: tuple[Any, ...] = (..., *[slice(None, None, -1)] * len(shape))
    turned = np.zeros(shape, dtype)[backward]
    gaps = wide[(..., slice(1, None, 3))] if shape else wide
    return [np.zeros(shape, dtype), np.zeros(shape, dtype, order="F"), gaps, turned]


def in_turn(row: Row, place: int, cases: list[Case]) -> list[Case]:
    """Every other one of the cases of a row in `make test`, where rows take turns: of selections,
    of lists, and of blocks for a selection, all of which meet a row. All in `make test-all`.
    """
    if ALL in os.environ:
        return cases
    turn = zlib.crc32(row.name.encode()) + place
    return cases[turn % 2 :: 2]


def same_bits(block: Array, expected: Array) -> None:
    """Equal shape, dtype, and bytes; objects are compared one by one."""
    assert block.shape == expected.shape
    assert block.dtype.newbyteorder("=") == expected.dtype.newbyteorder("=")
    if expected.dtype.hasobject:
        assert all(map(_same_object, block.ravel(), expected.ravel()))
    elif expected.dtype.names:
        for name in expected.dtype.names:  # what lies between fields means nothing
            same_bits(block[name], expected[name])
    elif expected.dtype.char in "gG":  # of their bytes, some mean nothing
        np.testing.assert_array_equal(block, expected)
    else:
        plain = expected.astype(block.dtype)
        assert block.tobytes() == plain.tobytes(), f"{block!r} is not {plain!r}"


def _same_object(one: Any, other: Any) -> bool:
    if isinstance(other, np.void):
        return all(_same_object(one[name], other[name]) for name in other.dtype.names or ())
    return type(one) is type(other) and np.array_equal(one, other)


def test_a_difference_of_one_bit_is_noticed(made: Made) -> None:
    matrix, row = next(
        (matrix, row) for matrix, row in CASES if row.name == "shuffle, deflate, fletcher32"
    )
    url = matrix.urls(row, made(matrix, row))[0]
    expected = matrix.expected(url, "stored")
    expected.view("u1").ravel()[77] ^= 1
    with pytest.raises(AssertionError, match="is not"):
        same_bits(reading.read(opened(url), Hyperslab.full(expected.shape)), expected)
