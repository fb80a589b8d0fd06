"""Several arrays of one file in one new file: all of the root group, those of a group, those that
are named; with their coordinates, scales and attributes, and what is left out said.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import h5py
import netCDF4
import numpy as np
import pytest
import xarray

import hyperslab
from hyperslab.blocks import surroundings
from hyperslab.blocks.writing import places
from tests.repetitions import few
from tests.system.end_to_end.command import SMALL, call, convert, refuse, save, succeed

pytestmark = pytest.mark.usefixtures("hurried")

DIMENSIONS = {"time": 5, "y": 3, "x": 4, "nv": 2}
KILLED = """
import os, signal, sys
from hyperslab.blocks import writing
from hyperslab.cli import main

write, left = writing.write_region, [3]

def write_and_die(*arguments):
    done = write(*arguments)
    left[0] -= 1
    if not left[0]:
        os.kill(os.getpid(), signal.SIGKILL)
    return done

writing.write_region = write_and_die
main(sys.argv[1:])
"""
"A conversion whose process is killed when the third region has been written."


def model(path: Path, kind: Any = "NETCDF4") -> Path:
    """Two variables on one grid, one of another shape, and a group, as climate models leave
    them.
    """
    with netCDF4.Dataset(path, "w", format=kind) as file:
        file.setncatts({"title": "a model", "version": np.int32(3)})
        _fill(file)
        if kind == "NETCDF4":
            group = file.createGroup("deep")
            group.setncatts({"about": "the deep"})
            _fill(group)
            file.createVariable("note", str, ())[...] = "a text"
    return path


def _fill(group: Any) -> None:
    for name, extent in DIMENSIONS.items():
        group.createDimension(name, None if name == "time" else extent)
    _add(group, "time", "f8", ("time",), {"units": "days since 2000-01-01", "bounds": "time_bnds"})
    _add(group, "time_bnds", "f8", ("time", "nv"))
    _add(group, "lat", "f4", ("y", "x"), {"units": "degrees_north"})
    _add(group, "x", "i2", ("x",), {"units": "m"})
    _add(group, "crs", "i4", (), {"grid_mapping_name": "latitude_longitude"})
    about = {"coordinates": "lat", "grid_mapping": "crs", "units": "K", "scale_factor": 0.5}
    _add(group, "tas", "i2", ("time", "y", "x"), about)
    _add(group, "pr", "f4", ("time", "y", "x"), {"units": "mm", "coordinates": "lat"})
    _add(group, "height", "f8", ("y", "x"))
    _add(group, "number", "i4", (), {"units": "1"})


def _add(group: Any, name: str, dtype: str, dims: Any, said: Any = None) -> None:
    chunks = tuple(1 if dim == "time" else DIMENSIONS[dim] for dim in dims)
    variable = group.createVariable(name, dtype, dims, chunksizes=chunks if dims else None)
    variable.setncatts(said or {})
    variable.set_auto_maskandscale(False)
    shape = tuple(DIMENSIONS[dim] for dim in dims)
    variable[...] = np.arange(np.prod(shape, dtype=int)).reshape(shape) + len(name)


def opened(path: Path, group: str | None = None) -> xarray.Dataset:
    with xarray.open_dataset(path, engine="netcdf4", group=group) as dataset:
        return dataset.load()


@pytest.mark.parametrize(
    ("kind", "compression"), [("NETCDF4", "gzip"), ("NETCDF3_CLASSIC", "none")]
)
def test_a_file_stands_for_all_variables_of_its_root(
    tmp_path: Path, kind: str, compression: str
) -> None:
    source = model(tmp_path / "a.nc", kind)
    expected = opened(source).drop_vars("note", errors="ignore")
    convert(source, tmp_path / "b.nc", "--compression", compression)
    xarray.testing.assert_identical(opened(tmp_path / "b.nc"), expected)
    if kind == "NETCDF4":
        convert(tmp_path / "b.nc", tmp_path / "c.h5")
        convert(tmp_path / "c.h5", tmp_path / "d.nc")
        again = opened(tmp_path / "d.nc")
        xarray.testing.assert_equal(again, expected)
        assert again.attrs == expected.attrs


def test_a_group_is_the_same_group_of_the_new_file(tmp_path: Path) -> None:
    source = model(tmp_path / "a.nc")
    convert(f"{source}::/deep", tmp_path / "b.nc")
    xarray.testing.assert_identical(opened(tmp_path / "b.nc", "deep"), opened(source, "deep"))
    with h5py.File(tmp_path / "b.nc") as file:
        assert list(file) == ["deep"]
        assert file.attrs["title"] == b"a model"


def test_variables_that_are_named(tmp_path: Path) -> None:
    source = model(tmp_path / "a.nc")
    convert(f"{source}::pr", f"{source}::/deep/height", tmp_path / "b.nc")
    expected = opened(source)[["pr", "time_bnds"]]
    xarray.testing.assert_identical(opened(tmp_path / "b.nc"), expected)
    deep = opened(tmp_path / "b.nc", "deep")
    xarray.testing.assert_identical(deep.height.variable, opened(source, "deep").height.variable)


def test_what_stays_behind_is_said_once(tmp_path: Path) -> None:
    source = model(tmp_path / "a.nc")
    said = succeed("convert", source, tmp_path / "b.nc", "--dry-run", *SMALL[:2])
    (note,) = [line for line in said.splitlines() if line.startswith("note")]
    assert "variable note (it is neither numbers nor characters)" in note
    assert "groups deep (name each one, as a.nc::/deep); unlimited dimensions, which" in note
    assert "which become fixed (time)" in note
    pair = (f"{source}::tas", f"{source}::pr")
    said = succeed("convert", *pair, tmp_path / "b.nc", "--dry-run", *SMALL[:2])
    (note,) = [line for line in said.splitlines() if line.startswith("note")]
    assert "variables height, note, number (name each one to convert it)" in note


@pytest.mark.parametrize(
    "compression", few(["none"], ["gzip", "none"], "a conversion that was killed goes on")
)
def test_a_conversion_that_was_killed_goes_on(tmp_path: Path, compression: str) -> None:
    source = model(tmp_path / "a.nc")
    dest = tmp_path / "b.nc"
    words = ["convert", str(source), str(dest), *SMALL, "--compression", compression]
    done = subprocess.run([sys.executable, "-c", KILLED, *words], check=False)
    assert done.returncode == -signal.SIGKILL
    assert not dest.exists()
    (unfinished,) = tmp_path.glob(f".{dest.name}.*.part")
    succeed(*words, "--resume")
    assert not unfinished.exists()
    xarray.testing.assert_identical(opened(dest), opened(source).drop_vars("note"))
    succeed("verify", dest)
    if compression == "none":
        damaged = bytearray(dest.read_bytes())
        damaged[-1] ^= 1
        dest.write_bytes(damaged)
        assert "b.nc::height (task 2)" in call("verify", dest).out


def test_large_coordinates_and_files_on_a_network(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Coordinates beyond a size are arrays, and scales of the others; chunks of writers that have
    files of their own are copied into one.
    """
    monkeypatch.setattr(surroundings, "LARGEST_NBYTES", 30)
    monkeypatch.setattr(places, "is_local", lambda _: False)
    source = model(tmp_path / "a.nc")
    convert(source, tmp_path / "b.nc", "--compression", "gzip")
    expected = opened(source).drop_vars("note")
    xarray.testing.assert_identical(opened(tmp_path / "b.nc"), expected)
    with h5py.File(tmp_path / "b.nc") as file:
        assert file["time"].is_scale
        assert file["time"].chunks == (1,)


def test_several_arrays_of_a_zarr_store(tmp_path: Path) -> None:
    source = model(tmp_path / "a.nc")
    convert(source, tmp_path / "b.zarr")
    stored = xarray.open_zarr(tmp_path / "b.zarr")
    for name in ("tas", "pr", "height"):
        np.testing.assert_array_equal(stored[name], opened(source)[name])
    np.testing.assert_array_equal(stored.lat, opened(source).lat)
    np.testing.assert_array_equal(stored.time, opened(source).time)
    assert stored.attrs == {"title": "a model", "version": 3}
    succeed("verify", tmp_path / "b.zarr")
    convert(tmp_path / "b.zarr", tmp_path / "c.nc")
    np.testing.assert_array_equal(opened(tmp_path / "c.nc").tas, opened(source).tas)


def test_arrays_that_say_no_place_are_not_said_to_overlap(tmp_path: Path) -> None:
    source = tmp_path / "a.h5"
    with h5py.File(source, "w") as file:
        file["one"] = np.arange(60).reshape(3, 4, 5)
        file["two"] = np.arange(6.0).reshape(2, 3)
        file.attrs["title"] = "plain"
    pair = (f"{source}::one", f"{source}::one")
    said = refuse(*pair, tmp_path / "b.h5", "--sources", "mosaic")
    assert "::/one do not say where they lie" in said
    assert "overlap" not in said
    pair = (f"{source}::one", f"{source}::two")
    said = refuse(*pair, tmp_path / "b.nii")
    assert "a file of NIfTI holds one array, and 2 are named" in said
    assert "2 arrays go into" in refuse(source, tmp_path / "b.nc", "--name", "v")
    said = refuse(*pair, tmp_path / "b.nc", "--chunks", "2,2")
    assert "give one extent of at least 1 for each axis" in said
    convert(source, tmp_path / "b.nc")
    found = opened(tmp_path / "b.nc")
    assert found.attrs == {"title": "plain"}
    np.testing.assert_array_equal(found.one, np.arange(60).reshape(3, 4, 5))
    np.testing.assert_array_equal(found.two, np.arange(6.0).reshape(2, 3))


def test_arrays_of_several_files_keep_the_names_of_these(tmp_path: Path) -> None:
    for number in range(2):
        values = np.full((3, 4, 5), number, "i2")
        save(tmp_path / f"s{number}.nii", values, np.diag([2.0, 2.0, 2.0, 1.0]))
    hyperslab.convert(
        [tmp_path / "s0.nii", tmp_path / "s1.nii"],
        tmp_path / "b.h5",
        kind="independent",
        engine="serial",
    )
    for number in range(2):
        found = hyperslab.open(f"{tmp_path / 'b.h5'}::s{number}")
        np.testing.assert_array_equal(found[...], number)
        np.testing.assert_array_equal(found.affine, np.diag([2, 2, 2, 1]))
