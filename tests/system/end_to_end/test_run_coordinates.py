"""Coordinates and attributes of netCDF, HDF5 and Zarr files go with the arrays of a run, too, as
xarray sees them.
"""

from __future__ import annotations

from pathlib import Path

import nibabel as nib
import numpy as np
import pytest
import xarray

import hyperslab
from hyperslab.arrays import Array
from hyperslab.blocks import surroundings
from hyperslab.formats.sharing import are_same
from hyperslab.plan import surrounded
from tests.system.end_to_end.command import call

TIME = [0.0, 1, 3, 6, 10, 15]
Y = [10.0, 20, 40, 80]


def _field(shape: tuple[int, ...], seed: int = 0) -> Array:
    return np.random.default_rng(seed).random(shape)


@pytest.fixture(scope="module")
def grid() -> xarray.Dataset:
    """An irregular grid with all that may lie around an array."""
    dims = ("time", "y", "x")
    said = {"units": "K", "coordinates": "lat height", "grid_mapping": "crs"}
    made = xarray.Dataset(
        {
            "t2m": (dims, _field((6, 4, 5)).astype(np.float32), said),
            "lat": (("y", "x"), _field((4, 5), 1), {"units": "degrees_north"}),
            "height": ((), 2.0, {"units": "m"}),
            "time_bnds": (("time", "nv"), _field((6, 2), 2)),
            "crs": ((), np.int32(0), {"grid_mapping_name": "latitude_longitude"}),
        },
        {"time": ("time", TIME, {"units": "days since 2000-01-01", "bounds": "time_bnds"})},
        {"title": "made", "Conventions": "CF-1.8"},
    )
    return made.assign_coords(y=("y", Y), x=("x", [1.0, 2, 4, 8, 16]))


@pytest.fixture(scope="module")
def source(grid: xarray.Dataset, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("grid") / "grid.nc"
    grid.to_netcdf(path, engine="h5netcdf")
    return path


def _seen(path: Path) -> xarray.Dataset:
    with xarray.open_dataset(path, engine="h5netcdf", decode_cf=False) as found:
        return found.load()


def _require_around(found: xarray.Dataset, wanted: xarray.Dataset, array: str = "t2m") -> None:
    """What lies around an array is as wanted, bit by bit, and with the same attributes."""
    around = found.drop_vars(array)
    xarray.testing.assert_equal(around, wanted)
    assert around.attrs == wanted.attrs
    for name, one in wanted.variables.items():
        assert around[name].dtype == one.dtype
        assert are_same({key: around[name].attrs[key] for key in one.attrs}, one.attrs)


def _plus(block: Array) -> Array:
    return block + 1


def _mean(block: Array) -> Array:
    found: Array = block.mean(axis=0)
    return found


def _both(block: Array) -> dict[str, Array]:
    return {"mean": block.mean(axis=0), "fit": block + 1, "steps": np.diff(block, axis=0)}


def _ends(block: Array) -> dict[str, Array]:
    return {"lat": block.mean(axis=0), "last": block[-1]}


def test_all_goes_with_the_only_array(source: Path, tmp_path: Path) -> None:
    done = call("run", "increment", source, "-o", tmp_path / "o.nc", "--engine", "serial")
    assert (done.code, "left out" in done.err) == (0, False), done.err
    found, grid = _seen(tmp_path / "o.nc"), _seen(source)
    _require_around(found, grid.drop_vars("t2m"))
    np.testing.assert_array_equal(found.t2m, grid.t2m + 1)


def test_a_conversion_does_not_say_that_coordinates_stay_behind(
    source: Path, tmp_path: Path
) -> None:
    done = call("convert", source, tmp_path / "o.nc")
    assert (done.code, "left out" in done.out + done.err) == (0, False)
    assert "coordinates" not in done.out + done.err


def test_a_region_has_its_own_coordinates(source: Path, tmp_path: Path) -> None:
    """With a halo, in blocks that are smaller than the region, and from the middle of it."""
    pipeline = hyperslab.Pipeline(source, region="1:5,1:4,2:5").map(_plus, halo=1)
    hyperslab.run(
        pipeline.write(tmp_path / "o.nc"), engine="serial", rule=hyperslab.Rule("blocks", (2, 2, 1))
    )
    found, grid = _seen(tmp_path / "o.nc"), _seen(source)
    part = grid.isel(time=slice(1, 5), y=slice(1, 4), x=slice(2, 5))
    _require_around(found, part.drop_vars("t2m"))
    np.testing.assert_array_equal(found.t2m, part.t2m + 1)


def test_what_lies_along_an_axis_that_is_gone_stays(source: Path, tmp_path: Path) -> None:
    pipeline = hyperslab.Pipeline(source, region=":,1:3,:").map(_mean, drop_axis="time")
    prepared = hyperslab.prepare(
        pipeline.write(tmp_path / "o.nc"), hyperslab.Options(engine="serial")
    )
    assert [note.partition(": ")[2] for note in prepared.notes] == [
        "variables time, time_bnds (along axes that change)"
    ]
    hyperslab.run(pipeline.write(tmp_path / "o.nc"), engine="serial")
    part = _seen(source).isel(y=slice(1, 3))
    _require_around(_seen(tmp_path / "o.nc"), part.drop_vars(["t2m", "time", "time_bnds"]))


def test_merged_voxels_have_no_coordinates(source: Path, tmp_path: Path) -> None:
    pipeline = hyperslab.Pipeline(source).map(lambda block: block[::3], scale=(3, 1, 1))
    hyperslab.run(pipeline.write(tmp_path / "o.nc"), engine="serial")
    found = _seen(tmp_path / "o.nc")
    _require_around(found, _seen(source).drop_vars(["t2m", "time", "time_bnds"]))


@pytest.mark.parametrize("end", ["nc", "h5"])
def test_several_arrays_share_what_goes_with_each(source: Path, tmp_path: Path, end: str) -> None:
    """None along time for the one whose steps are fewer."""
    path = tmp_path / f"o.{end}"
    hyperslab.run(hyperslab.Pipeline(source).map(_both).write(path), engine="serial")
    found, grid = _seen(path), _seen(source)
    assert (found.fit.dims, found["mean"].dims) == (("time", "y", "x"), ("y", "x"))
    assert found.steps.dims[1:] == ("y", "x")
    assert found.steps.dims[0] not in found.variables
    _require_around(found.drop_vars(["mean", "steps"]), grid.drop_vars("t2m"), "fit")
    np.testing.assert_array_equal(found.fit, grid.t2m + 1)


def test_an_array_keeps_its_name_before_a_coordinate(source: Path, tmp_path: Path) -> None:
    pipeline = hyperslab.Pipeline(source).map(_ends).write(tmp_path / "o.nc")
    prepared = hyperslab.prepare(pipeline, hyperslab.Options(engine="serial"))
    assert "variables lat (new arrays have these names)" in prepared.notes[0]
    hyperslab.run(pipeline, engine="serial")
    found, grid = _seen(tmp_path / "o.nc"), _seen(source)
    np.testing.assert_array_equal(found.lat, grid.t2m.values.mean(axis=0))
    assert {"y", "x", "crs", "height"} <= set(found.variables)


def test_blocks_have_their_own_coordinates(source: Path, tmp_path: Path) -> None:
    pipeline = hyperslab.Pipeline(source).map(_plus).write(tmp_path / "out", "nc")
    hyperslab.run(pipeline, engine="serial", rule=hyperslab.Rule("blocks", (2, 1, 1)))
    first, second = (_seen(path) for path in sorted((tmp_path / "out").glob("*.nc")))
    grid = _seen(source).drop_vars("t2m")
    _require_around(first, grid.isel(time=slice(0, 3)))
    _require_around(second, grid.isel(time=slice(3, 6)))


def test_hdf5_and_zarr_keep_coordinates(source: Path, tmp_path: Path) -> None:
    for before, after in (("grid.nc", "a.h5"), ("a.h5", "b.zarr"), ("b.zarr", "c.nc")):
        path = source if before == "grid.nc" else f"{tmp_path / before}::t2m"
        pipeline = hyperslab.Pipeline(path, region=":,1:,:").map(_plus)
        hyperslab.run(pipeline.write(tmp_path / after), engine="serial")
    grid = _seen(source).drop_vars("t2m")
    _require_around(_seen(tmp_path / "a.h5"), grid.isel(y=slice(1, 4)))
    stored = xarray.open_zarr(tmp_path / "b.zarr", decode_cf=False, consolidated=False)
    for name, first in (("time", 0), ("y", 2), ("x", 0)):
        np.testing.assert_array_equal(stored[name], grid[name][first:])
    np.testing.assert_array_equal(stored.t2m, _seen(source).t2m[:, 2:] + np.float32(1) + 1)
    for one in grid.variables.values():
        one.attrs.pop("_FillValue", None)  # a store has none where nothing is missing
    _require_around(_seen(tmp_path / "c.nc"), grid.isel(y=slice(3, 4)))
    assert stored.attrs["title"] == "made"


def test_files_of_one_array_have_the_coordinates_of_all(source: Path, tmp_path: Path) -> None:
    grid = xarray.open_dataset(source, decode_cf=False, engine="h5netcdf")
    for number in range(2):
        part = grid.isel(time=slice(3 * number, 3 * number + 3))
        part.to_netcdf(tmp_path / f"part{number}.nc", engine="h5netcdf")
    files = hyperslab.gather([tmp_path / "part0.nc", tmp_path / "part1.nc"], "concatenated", 0)
    hyperslab.run(hyperslab.Pipeline(files).map(_plus).write(tmp_path / "o.nc"), engine="serial")
    _require_around(_seen(tmp_path / "o.nc"), _seen(source).drop_vars("t2m"))


def test_no_more_files_are_asked_than_a_bound(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(surrounded, "MOST_FILES", 0)
    monkeypatch.setattr(surroundings, "read_groups", None)
    pipeline = hyperslab.Pipeline(source).map(_plus).write(tmp_path / "o.nc")
    prepared = hyperslab.prepare(pipeline, hyperslab.Options(engine="serial"))
    assert "of more than 0 files are left out" in prepared.notes[0]


def test_a_computed_array_is_alone(source: Path) -> None:
    computed = hyperslab.Pipeline(source).map(_plus).compute(engine="serial")
    np.testing.assert_array_equal(computed, _seen(source).t2m + 1)


def test_an_image_without_an_axis_of_space_has_its_place(tmp_path: Path) -> None:
    """Which the coordinates along the others would take from it."""
    affine = np.diag([2.0, 3, 4, 1])
    nib.save(nib.Nifti1Image(_field((6, 4, 5)), affine), tmp_path / "image.nii")  # type: ignore[no-untyped-call]
    hyperslab.convert(tmp_path / "image.nii", tmp_path / "image.nc")
    for name in ("image.nii", "image.nc"):
        pipeline = hyperslab.Pipeline(tmp_path / name).map(_mean, drop_axis=0)
        hyperslab.run(pipeline.write(tmp_path / f"mean.{name}"), engine="serial")
    wanted = hyperslab.open(tmp_path / "mean.image.nii").affine
    np.testing.assert_array_equal(hyperslab.open(tmp_path / "mean.image.nc").affine, wanted)


def _taking_names(block: Array) -> dict[str, Array]:
    return {"height": block.mean(axis=0), "time_bnds": block + 1}


def test_no_attribute_names_what_is_not_there(source: Path, tmp_path: Path) -> None:
    """A variable that is left out, be it along axes that are gone, or as an array has its name."""
    pipeline = hyperslab.Pipeline(f"{source}::t2m")
    hyperslab.run(pipeline.map(_taking_names).write(tmp_path / "taken.nc"), engine="serial")
    taken = _seen(tmp_path / "taken.nc")
    assert taken["height"].dims == ("y", "x")
    assert taken["height"].attrs["coordinates"] == "lat"
    assert "bounds" not in taken["time"].attrs
    over_y = pipeline.map(lambda block: block.mean(axis=1)).write(tmp_path / "gone.nc")
    hyperslab.run(over_y, engine="serial")
    gone = _seen(tmp_path / "gone.nc")
    assert "lat" not in gone.variables
    assert gone["t2m"].attrs["coordinates"] == "height"
    assert gone["time"].attrs["bounds"] == "time_bnds"


@pytest.mark.parametrize("form", ["nc", "h5", "zarr"])
def test_a_region_of_an_array_without_a_place_has_no_affine(
    source: Path, tmp_path: Path, form: str
) -> None:
    region = np.s_[2:5, 1:, 1:4]
    cut = hyperslab.Pipeline(f"{source}::t2m", region=region)
    pipelines = {"cut": cut, "means": cut.map(lambda block: block.mean(axis=1))}
    for name, pipeline in pipelines.items():
        path = tmp_path / f"{name}.{form}"
        hyperslab.run(pipeline.write(path), engine="serial", report=False)
        said = hyperslab.open(path).source.header.attributes
        assert "units" in said
        assert not [one for one in said if one.startswith("affine")], name


def test_blocks_of_an_array_without_a_place_say_where_they_lie(
    source: Path, tmp_path: Path
) -> None:
    pipeline = hyperslab.Pipeline(f"{source}::t2m")
    whole = hyperslab.open(f"{source}::t2m")[...]
    split = pipeline.write(tmp_path / "blocks", format="h5", keep="blocks")
    hyperslab.run(split, engine="serial", report=False, blocks=(3, 1, 1))
    places = []
    for path in (tmp_path / "blocks").glob("*.h5"):
        block = hyperslab.open(path)
        affine = block.source.header.affine
        assert affine is not None
        places.append(int(affine[0, 3]))
        np.testing.assert_array_equal(block[...], whole[places[-1] :][: len(block)])
    assert sorted(places) == [0, 2, 4]
