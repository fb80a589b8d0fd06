"""Arrays in one new file that do not go together: what one of them brings is never given to
another, nor lost without a word.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import netCDF4
import numpy as np
import pytest
import xarray
import zarr

import hyperslab
from tests.system.end_to_end.command import call, save

APART = ("--sources", "independent")
ENGINE = ("--engine", "serial", "--no-report")


def made(*words: object) -> str:
    """What a conversion that succeeds prints."""
    done = call("convert", *words, *ENGINE)
    assert done.code == 0, done
    return done.out + done.err


def refused(*words: object) -> str:
    """Why a conversion is refused before it starts."""
    done = call("convert", *words, *ENGINE)
    assert done.code == 2, done
    return done.err


def series(path: Path, name: str, first: int, **said: Any) -> str:
    """A variable along a time that begins with `first`, as xarray writes it."""
    values = np.arange(4.0) + first
    time = xarray.Variable("time", values, {"units": "s"})
    dataset = xarray.Dataset({name: ("time", values * 10)}, {"time": time}, said)
    dataset.to_netcdf(path)
    return f"{path}::{name}"


def opened(path: Path) -> xarray.Dataset:
    engine = "zarr" if path.suffix == ".zarr" else "netcdf4"
    with xarray.open_dataset(path, engine=engine, decode_times=False) as dataset:
        return dataset.load()


@pytest.mark.parametrize("dest", ["ab.zarr", "ab.nc", "ab.h5"])
def test_coordinates_of_two_files_do_not_replace_one_another(tmp_path: Path, dest: str) -> None:
    pair = (series(tmp_path / "a.nc", "tas", 0), series(tmp_path / "b.nc", "pr", 10))
    said = refused(*pair, tmp_path / dest, *APART)
    assert "two arrays bring other values of 'time'" in said
    assert "name a directory" in said
    for name in "ab":
        made(tmp_path / f"{name}.nc", tmp_path / f"{name}.zarr")
    stores = (f"{tmp_path / 'a.zarr'}::tas", f"{tmp_path / 'b.zarr'}::pr")
    assert "other values of 'time'" in refused(*stores, tmp_path / dest, *APART)
    other = f"{tmp_path / 'b.nc'}::time"
    assert "other values of 'time'" in refused(pair[0], other, tmp_path / dest, *APART)


def test_a_variable_of_two_axes_named_as_its_first_one(tmp_path: Path) -> None:
    with netCDF4.Dataset(tmp_path / "a.nc", "w") as file:
        for name, extent in {"y": 3, "x": 4}.items():
            file.createDimension(name, extent)
        for name, dims in {"w": ("y", "x"), "y": ("y", "x"), "x": ("x",)}.items():
            file.createVariable(name, "f4", dims)[...] = np.random.default_rng(1).random()
    made(tmp_path / "a.nc", tmp_path / "b.nc")
    xarray.testing.assert_identical(opened(tmp_path / "b.nc"), opened(tmp_path / "a.nc"))


def test_coordinates_of_characters(tmp_path: Path) -> None:
    names = xarray.Variable("station", np.array([b"one", b"two", b"four"], "S4"))
    dataset = xarray.Dataset(
        {"t": (("station", "time"), np.ones((3, 2)))}, {"station": names, "time": [0.0, 1.0]}
    )
    dataset.to_netcdf(tmp_path / "a.nc", format="NETCDF3_64BIT")
    made(tmp_path / "a.nc", tmp_path / "b.nc")
    xarray.testing.assert_identical(opened(tmp_path / "b.nc"), opened(tmp_path / "a.nc"))
    made(tmp_path / "b.nc", tmp_path / "c.h5")
    made(tmp_path / "c.h5", tmp_path / "d.nc")
    xarray.testing.assert_identical(opened(tmp_path / "d.nc"), opened(tmp_path / "a.nc"))


def test_axes_whose_names_are_taken_get_numbers_and_are_said(tmp_path: Path) -> None:
    for name, extent in {"a": 3, "b": 4}.items():
        values = np.arange(extent * 2.0).reshape(extent, 2)
        xarray.Dataset({name: (("y", "x"), values)}).to_netcdf(tmp_path / f"{name}.nc")
    said = made(tmp_path / "a.nc", tmp_path / "b.nc", tmp_path / "c.nc", *APART)
    assert "axis y of b is called dim_0" in said
    found = opened(tmp_path / "c.nc")
    assert found.a.dims == ("y", "x")
    assert found.b.dims == ("dim_0", "x")


def test_coordinates_of_floats_go_into_zarr(tmp_path: Path) -> None:
    tas = series(tmp_path / "a.nc", "tas", 0)
    made(tmp_path / "a.nc", tmp_path / "b.zarr")
    xarray.testing.assert_equal(opened(tmp_path / "b.zarr"), opened(tmp_path / "a.nc"))
    with netCDF4.Dataset(tmp_path / "a.nc", "a") as file:
        file["time"].scale_factor = 2.0
    made(tas, tmp_path / "c.zarr")
    np.testing.assert_array_equal(opened(tmp_path / "c.zarr").time, [0, 2, 4, 6])
    made(tas, f"{tmp_path / 'a.nc'}::time", tmp_path / "d.zarr")
    np.testing.assert_array_equal(opened(tmp_path / "d.zarr").time, [0, 2, 4, 6])


@pytest.mark.parametrize("dest", ["c.nc", "c.zarr"])
def test_an_array_of_a_store_that_is_named_alone_has_its_coordinates(
    tmp_path: Path, dest: str
) -> None:
    stores = []
    for name, first in {"a": 0, "b": 10}.items():
        series(tmp_path / f"{name}.nc", "tas", first)
        made(tmp_path / f"{name}.nc", tmp_path / f"{name}.zarr")
        stores.append(f"{tmp_path / name}.zarr::tas")
    made(stores[0], tmp_path / dest)
    xarray.testing.assert_equal(opened(tmp_path / dest), opened(tmp_path / "a.nc"))
    made(*stores, tmp_path / f"joined_{dest}", "--axis", "0")
    joined = opened(tmp_path / f"joined_{dest}")
    both = [opened(tmp_path / "a.nc"), opened(tmp_path / "b.nc")]
    xarray.testing.assert_equal(joined, xarray.concat(both, "time"))


@pytest.mark.parametrize("dest", ["ab.zarr", "ab.h5"])
def test_images_of_two_places_are_not_put_in_one(tmp_path: Path, dest: str) -> None:
    for number in range(2):
        save(tmp_path / f"s{number}.nii", np.zeros((3, 4, 5), "i2"), np.diag([1 + number, 1, 1, 1]))
    pair = (tmp_path / "s0.nii", tmp_path / "s1.nii")
    assert "other values of 'x'" in refused(*pair, tmp_path / dest, *APART)


@pytest.mark.parametrize("dest", ["b.zarr", "b.nc"])
def test_an_array_is_no_group_of_another(tmp_path: Path, dest: str) -> None:
    for name, path in (("a.h5", "one"), ("b.h5", "one/two")):
        with h5py.File(tmp_path / name, "w") as file:
            file[path] = np.arange(4.0)
    pair = (f"{tmp_path / 'a.h5'}::one", f"{tmp_path / 'b.h5'}::one/two")
    assert "'one' would be an array and a group" in refused(*pair, tmp_path / dest, *APART)


def test_an_array_gets_no_coordinates_of_another_file(tmp_path: Path) -> None:
    tas = series(tmp_path / "a.nc", "tas", 0)
    xarray.Dataset({"pr": ("time", np.arange(4.0))}).to_netcdf(tmp_path / "b.nc")
    said = refused(tas, f"{tmp_path / 'b.nc'}::pr", tmp_path / "ab.nc", *APART)
    assert "pr has no coordinates along time, and would get those of" in said


def test_each_file_of_a_directory_has_its_coordinates(tmp_path: Path) -> None:
    tas = series(tmp_path / "a.nc", "tas", 0)
    time = f"{tmp_path / 'a.nc'}::time"
    made(tas, time, tmp_path / "dir", "--format", "nc", *APART)
    expected = opened(tmp_path / "a.nc")
    xarray.testing.assert_identical(opened(tmp_path / "dir" / "a_tas.nc"), expected)


def test_what_several_files_say_of_themselves(tmp_path: Path) -> None:
    xarray.Dataset({"more": 1.0, "other": 2.0}).to_netcdf(tmp_path / "b.nc")
    tas = series(tmp_path / "a.nc", "tas", 0, title="one", model="m", kinds=["x", "y"])
    pr = series(tmp_path / "b.nc", "pr", 0, title="two", model="m", kinds=["x", "y"])
    with netCDF4.Dataset(tmp_path / "b.nc", "a") as file:
        file.createVariable("more", "f4", ("time",))
    said = made(tas, pr, tmp_path / "ab.nc", *APART)
    assert f"left out of {tmp_path / 'b.nc'}: variables more (name each one" in said
    assert f"left out of {tmp_path / 'a.nc'}" not in said
    assert "left out: attributes title (they differ from file to file)" in said
    assert opened(tmp_path / "ab.nc").attrs == {"model": "m", "kinds": ["x", "y"]}
    made(tas, pr, tmp_path / "ab.zarr", *APART)
    assert opened(tmp_path / "ab.zarr").attrs == {"model": "m", "kinds": ["x", "y"]}


def test_blocks_of_one_image_are_merged_as_before(tmp_path: Path) -> None:
    whole = np.arange(60, dtype="i2").reshape(3, 4, 5)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        for name, first, end in (("w0", 0, 2), ("w1", 2, 5)):
            affine = np.diag([2.0, 2, 2, 1])
            affine[2, 3] = 2.0 * first
            file[name] = whole[..., first:end]
            file[name].attrs["affine"] = affine.ravel()
    made(*(f"{tmp_path / 'a.h5'}::{name}" for name in ("w0", "w1")), tmp_path / "b.h5")
    np.testing.assert_array_equal(hyperslab.open(tmp_path / "b.h5")[...], whole)


@pytest.mark.filterwarnings("ignore::zarr.errors.UnstableSpecificationWarning")
def test_stores_with_text_and_attributes_of_json(tmp_path: Path) -> None:
    group = zarr.open_group(tmp_path / "a.zarr", mode="w")
    group.create_array("v", data=np.arange(4.0), dimension_names=["s"])
    group.create_array("s", data=np.array(["a", "b", "c", "d"], "U1"), dimension_names=["s"])
    group.create_array("w", data=np.arange(2.0), dimension_names=["t"])
    group.create_array("t", data=np.arange(5, 7), dimension_names=["t"])
    number = group.create_array("crs", data=np.array(1.0))
    number.attrs.update(said={"a": 1}, _FillValue="AAAAAAAA+H8=")
    group.attrs.update(title="a store", numbers=[1, 2], scales={"a": 1})
    said = made(tmp_path / "a.zarr", tmp_path / "b.nc")
    assert "has no place for the attributes scales" in said
    assert "variable s (it is neither numbers nor characters)" in said
    found = opened(tmp_path / "b.nc")
    np.testing.assert_array_equal(found.v, np.arange(4.0))
    assert found.crs == 1
    assert found.attrs["title"] == "a store"
    np.testing.assert_array_equal(found.attrs["numbers"], [1, 2])
    named = (f"{tmp_path / 'a.zarr'}::v", f"{tmp_path / 'a.zarr'}::w")
    made(*named, tmp_path / "d.nc")
    np.testing.assert_array_equal(opened(tmp_path / "d.nc").t, [5, 6])
    made(tmp_path / "a.zarr", tmp_path / "c.zarr")
    again = zarr.open_group(tmp_path / "c.zarr")
    assert again.attrs == group.attrs
    assert hyperslab.open(f"{tmp_path / 'c.zarr'}::crs")[...] == 1


def test_an_array_without_elements_is_refused_beside_others(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "e.h5", "w") as file:
        file["empty"] = np.zeros((0, 3))
        file["full"] = np.zeros((2, 3))
    pair = (f"{tmp_path / 'e.h5'}::empty", f"{tmp_path / 'e.h5'}::full")
    assert "empty has no elements" in refused(*pair, tmp_path / "f.h5")


def test_dimensions_that_may_grow_are_said(tmp_path: Path) -> None:
    with netCDF4.Dataset(tmp_path / "a.nc", "w") as file:
        file.createDimension("time", None)
        file.createDimension("x", 3)
        file.createVariable("v", "f4", ("x",))[...] = 1
        file.createVariable("w", "f4", ("x",))[...] = 2
    said = made(tmp_path / "a.nc", tmp_path / "b.nc")
    assert "unlimited dimensions, which become fixed (time)" in said
