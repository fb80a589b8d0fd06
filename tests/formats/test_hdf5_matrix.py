"""Every row of the feature matrix of HDF5: read as h5py reads it, bit for bit, and by the way that is expected."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

import hyperslab
from hyperslab import blockio, formats
from hyperslab.array import Array, ArraySource
from hyperslab.errors import FormatError
from hyperslab.slab import Hyperslab, from_index
from tests.formats import hdf5_page
from tests.formats.hdf5_made import NAME, chunk_index
from tests.formats.hdf5_rows import WAYS, Row, rows

Made = Callable[[Row], tuple[Path, str]]
ROWS = rows()
READ = [row for row in ROWS if row.way != "refused"]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """The file of a row, made once."""
    found: dict[int, Path] = {}

    def of_row(row: Row) -> tuple[Path, str]:
        if id(row) not in found:
            path = tmp_path_factory.mktemp("row") / "made.h5"
            row.make(path)
            found[id(row)] = path
        return found[id(row)], f"{found[id(row)]}::{NAME}"

    return of_row


def by_h5py(path: Path) -> Array:
    """All of the dataset, in native byte order; the elements of an array datatype are axes, as in NumPy."""
    with h5py.File(path, "r", locking=False) as file:
        values = np.asarray(file[NAME][...])
    return values.astype(values.dtype.newbyteorder("="))


def parametrized(chosen: list[Row]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("row", chosen, ids=lambda row: f"{row.group}: {row.name}")


@parametrized(READ)
def test_values_are_those_of_h5py(row: Row, made: Made) -> None:
    path, url = made(row)
    expected, view = by_h5py(path), hyperslab.open(url)
    assert view.shape == expected.shape
    for index in selections(expected.shape):
        same_bits(np.asarray(view[index], view.dtype), expected[(..., *index)])
    for axis, positions in lists(expected.shape):
        before: tuple[Any, ...] = (slice(None),) * axis
        same_bits(view[(*before, positions)], expected.take(positions, axis))


@parametrized(READ)
def test_values_are_read_into_memory_of_any_layout(row: Row, made: Made) -> None:
    path, url = made(row)
    expected, source = by_h5py(path), formats.open_source(url)
    for index in selections(expected.shape):
        slab, _ = from_index(index, expected.shape)
        for out in outputs(slab.count, source):
            assert blockio.read(source, slab, out) is out
            same_bits(out, expected[(..., *index)])


@parametrized(ROWS)
def test_the_way_is_the_expected_one(row: Row, made: Made) -> None:
    path, url = made(row)
    assert row.way in WAYS
    if row.index:
        assert chunk_index(path) == row.index
    if row.way == "refused":
        with pytest.raises(FormatError, match=row.reason):
            formats.open_source(url)
        assert [info.name for info in formats.arrays(str(path))] in ([], [f"/{NAME}"]), "it is listed all the same"
        return
    source = formats.open_source(url)
    assert ("h5py" if source.chunks is None else "chunk table") == row.way, source.reason
    assert row.reason in source.reason


def test_the_rows_have_names_of_their_own() -> None:
    assert len({(row.group, row.name) for row in ROWS}) == len(ROWS)


def test_the_page_shows_the_matrix() -> None:
    page = hdf5_page.PAGE.read_text()
    assert page == hdf5_page.replaced(page), "python -m tests.formats.hdf5_page brings it up to date"


def selections(shape: tuple[int, ...]) -> list[tuple[Any, ...]]:
    """All, every other element from the second on, and backwards."""
    whole: tuple[Any, ...] = (slice(None),) * len(shape)
    strided = tuple(slice(min(1, n - 1), None, 2) for n in shape)
    backward = tuple(slice(None, None, -1 - axis % 3) for axis in range(len(shape)))
    inner = tuple(slice(n // 3, max(n // 3 + 1, n - 1)) for n in shape)
    return [whole, strided, backward, inner] if shape else [whole]


def lists(shape: tuple[int, ...]) -> list[tuple[int, list[int]]]:
    """Unsorted positions, some of them twice, along the first and the last axis that have several elements."""
    axes = [axis for axis, n in enumerate(shape) if n > 1]
    return [(axis, [shape[axis] - 1, 0, 1, shape[axis] // 2, 0, -1]) for axis in dict.fromkeys([*axes[:1], *axes[-1:]])]


def outputs(shape: tuple[int, ...], source: ArraySource) -> list[Array]:
    """Blocks in C order, in Fortran order, with gaps, and walked backwards."""
    dtype = source.dtype("real")
    wide = np.zeros((*shape[:-1], 3 * shape[-1]) if shape else (), dtype)
    backward: tuple[Any, ...] = (..., *[slice(None, None, -1)] * len(shape))
    turned = np.zeros(shape, dtype)[backward]
    gaps = wide[(..., slice(1, None, 3))] if shape else wide
    return [np.zeros(shape, dtype), np.zeros(shape, dtype, order="F"), gaps, turned]


def same_bits(block: Array, expected: Array) -> None:
    """Equal shape, dtype, and bytes; objects are compared one by one."""
    assert block.shape == expected.shape
    assert block.dtype.newbyteorder("=") == expected.dtype.newbyteorder("=")
    if expected.dtype.hasobject:
        assert all(map(_same_object, block.ravel(), expected.ravel()))
    else:
        plain = expected.astype(block.dtype)
        assert block.tobytes() == plain.tobytes(), f"{block!r} is not {plain!r}"


def _same_object(one: Any, other: Any) -> bool:
    if isinstance(other, np.void):
        return all(_same_object(one[name], other[name]) for name in other.dtype.names or ())
    return type(one) is type(other) and np.array_equal(one, other)


def test_a_difference_of_one_bit_is_noticed(made: Made) -> None:
    row = next(row for row in ROWS if row.name == "shuffle, deflate, fletcher32")
    path, url = made(row)
    expected = by_h5py(path)
    expected.view("u1").ravel()[77] ^= 1
    with pytest.raises(AssertionError, match="is not"):
        same_bits(blockio.read(formats.open_source(url), Hyperslab.full(expected.shape)), expected)
