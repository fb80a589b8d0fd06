"""The engine of xarray gives what xarray's other engines give, for every real file and every kind
of variable.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import xarray
from xarray.tests import create_test_data

from hyperslab.arrays import Array
from hyperslab.connectors.xarray import HyperslabBackend
from hyperslab.errors import FormatError
from tests.connectors.opened import (
    FORMATS,
    RAW,
    assert_same,
    assert_stored_alike,
    ours,
    theirs,
    write_all_kinds,
)
from tests.formats.files import few_real_files, real_files
from tests.repetitions import each_value

MANY = 20
LARGEST = 10**6


@pytest.mark.parametrize(
    "path", [*few_real_files("hdf5", only=".nc"), *real_files("netcdf", without=(".mnc",))]
)
@pytest.mark.parametrize("options", [{}, RAW], ids=["decoded", "stored"])
def test_netcdf_files_are_as_netcdf4_gives_them(path: Path, options: dict[str, Any]) -> None:
    # A compound fill value cannot be decoded, and keeps xarray from opening the file with other
    # engines.
    decoded = RAW if path.name == "ref_tst_compounds.nc" else options
    with ours(path, **options) as found, theirs(path, **decoded) as expected:
        names = list(found.variables)
        assert names == list(expected.variables)
        assert found.encoding == expected.encoding
        assert_same(found[names[:MANY]], expected[names[:MANY]])
        for name in names[:MANY]:
            assert_stored_alike(found[name], expected[name])


@pytest.mark.filterwarnings("ignore:.*is left out")
@pytest.mark.parametrize(
    "path", few_real_files("hdf5", without=("tbigdims.h5", "ref_hdf5_compat1.nc", ".mnc"))
)
def test_groups_of_hdf5_files_are_as_h5netcdf_gives_them(path: Path) -> None:
    found, expected = xarray.open_groups(path, engine=HyperslabBackend, **RAW), by_h5netcdf(path)
    assert not expected or list(found) == list(expected)
    with h5py.File(path) as file:
        for group, dataset in found.items():
            for name, variable in dataset.variables.items():
                assert_as_h5py(variable, file[f"{group}/{name}"])
            if expected:
                xarray.testing.assert_identical(dataset, expected[group])


def by_h5netcdf(path: Path) -> dict[str, xarray.Dataset]:
    """Nothing for files that it does not open or xarray does not compare: null dataspaces, lists as
    elements.
    """
    try:
        groups = xarray.open_groups(path, engine="h5netcdf", phony_dims="access", **RAW)
        for dataset in groups.values():
            xarray.testing.assert_identical(dataset, dataset.copy(deep=True))
    except (AttributeError, TypeError, ValueError, OSError, AssertionError):
        return {}
    return groups


def assert_as_h5py(variable: xarray.Variable, dataset: Any) -> None:
    """The same elements, unless there are very many; what h5py cannot read cannot be read here
    either.
    """
    if variable.size > LARGEST:
        return
    text = h5py.check_string_dtype(dataset.dtype)
    try:
        expected = dataset.asstr()[()] if text and text.length is None else dataset[()]
    except OSError:
        with pytest.raises(FormatError):
            variable.load()
        return
    assert plain(variable.values) == plain(expected)


def plain(value: Any) -> Any:
    """Elements as Python has them, to be compared; NaN as text, since it equals nothing."""
    if isinstance(value, np.ndarray | np.generic) and not isinstance(value, str | bytes):
        value = value.tolist()
    if isinstance(value, list | tuple):
        return [plain(element) for element in value]
    return str(value) if value != value else value


@pytest.fixture(scope="module", params=FORMATS)
def kinds(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("kinds") / f"{request.param}.nc"
    write_all_kinds(path, request.param)
    return path


WAYS: list[dict[str, Any]] = [
    {},
    RAW,
    {"mask_and_scale": False},
    {"decode_times": False, "decode_coords": "all"},
    {"concat_characters": False},
    {"drop_variables": ["packed", "time"]},
    {"drop_variables": "place"},
    {"chunks": {}},
]


@each_value("every option, and every kind of file")
@pytest.mark.parametrize("options", WAYS, ids=str)
def test_every_kind_of_variable_is_as_netcdf4_gives_it(
    kinds: Path, options: dict[str, Any]
) -> None:
    with ours(kinds, **options) as found, theirs(kinds, **options) as expected:
        assert_same(found.load(), expected.load())
        assert found.encoding == expected.encoding
        for name in found.variables:
            assert_stored_alike(found[name], expected[name])


def test_files_that_h5netcdf_writes(tmp_path: Path) -> None:
    path = tmp_path / "a.nc"
    made = create_test_data(add_attrs=True)
    made["words"] = ("dim2", np.array(["ä", "", *"abcdefg"], object))
    made.to_netcdf(
        path, engine="h5netcdf", encoding={"var1": {"compression": "lzf", "chunksizes": (3, 4)}}
    )
    with ours(path) as found, theirs(path, "h5netcdf") as expected:
        assert_same(found, expected)
        xarray.testing.assert_identical(found, made)


@pytest.mark.parametrize("group", ["inside", "/inside/", "/inside/below"])
def test_groups_are_as_netcdf4_gives_them(netcdf4: Path, group: str) -> None:
    with ours(netcdf4, group=group) as found, theirs(netcdf4, group=group) as expected:
        assert_same(found, expected)


@pytest.mark.parametrize("group", [None, "inside"])
def test_trees_are_as_netcdf4_gives_them(netcdf4: Path, group: str | None) -> None:
    with (
        xarray.open_datatree(netcdf4, engine=HyperslabBackend, group=group) as tree,
        xarray.open_datatree(netcdf4, engine="netcdf4", group=group) as other,
    ):
        xarray.testing.assert_identical(tree, other)
    found, expected = (
        xarray.open_groups(netcdf4, engine=engine, group=group)
        for engine in (HyperslabBackend, "netcdf4")
    )
    assert list(found) == list(expected)
    for dataset in expected.values():
        dataset.close()


def test_the_text_of_any_file_is_text(tmp_path: Path) -> None:
    words: Array = np.array([["ä", ""], ["b" * 100, "c"]], object)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["words"] = words
        file["fixed"] = np.array([b"abc", b"d"])
        file["one"] = "text"
        file.create_dataset("chunked", data=words, chunks=(1, 2), compression="gzip")
    with ours(tmp_path / "a.h5") as found, theirs(tmp_path / "a.h5", "h5netcdf") as expected:
        assert_same(found, expected)
        assert found.words.values.tolist() == words.tolist()
        assert found.one.item() == "text"
