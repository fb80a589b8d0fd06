"""Images that convert and run have written, in xarray by its own engines: they have places, and
what is cut, flipped or averaged there lies where nibabel puts it.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import nibabel as nib
import numpy as np
import pytest
import xarray
import zarr

import hyperslab
from tests.connectors.opened import ours
from tests.connectors.test_xarray_converted import (
    FLIP,
    SOURCES,
    TURNED,
    assert_alike,
    converted,
    series,
    sliced,
    stored,
)
from tests.connectors.test_xarray_coordinates import apply_affine, placed, saved
from tests.formats.files import DATA
from tests.repetitions import each_value
from tests.system.end_to_end.command import call

pytestmark = pytest.mark.usefixtures("hurried")
WAYS = {"nc": "netcdf4", "h5": "h5netcdf", "zarr": "zarr"}
"Ends of the names of files, and the engine of xarray that opens them."


def image_of(path: Path) -> xarray.DataArray:
    """The one image of a file, by an engine of xarray's own."""
    engine = WAYS[path.suffix[1:]]
    dataset = xarray.open_dataset(path, engine=engine)
    (name,) = dataset.data_vars
    return dataset[name]


def written(folder: Path, end: str, source: str = "a.nii") -> Path:
    hyperslab.convert(folder / source, folder / f"b.{end}", engine="serial")
    return folder / f"b.{end}"


@each_value("every format, and every affine")
@pytest.mark.parametrize("end", WAYS)
@pytest.mark.parametrize("turn", SOURCES.values(), ids=SOURCES)
def test_an_image_has_the_places_that_the_engine_gives_it(
    tmp_path: Path, end: str, turn: Any
) -> None:
    whole = series(tmp_path / "a.nii", turn)
    image = image_of(written(tmp_path, end))
    with ours(tmp_path / "a.nii") as dataset:
        assert image.dims == dataset.image.dims
        for name, expected in dataset.coords.items():
            xarray.testing.assert_identical(
                image.coords[name].drop_vars(name), expected.drop_vars(name)
            )
        np.testing.assert_array_equal(image, dataset.image)
    np.testing.assert_array_equal(image.hyperslab.affine, whole.affine)


@pytest.mark.parametrize("end", WAYS)
def test_a_place_in_mm_is_the_voxel_that_nibabel_finds(tmp_path: Path, end: str) -> None:
    whole = series(tmp_path / "a.nii", np.diag((-1, 1, 1)))
    image = image_of(written(tmp_path, end))
    x, y, z = apply_affine(whole.affine, (5, 2, 3))
    near = image.sel(x=x + 0.9, y=y - 1, z=z, method="nearest")
    np.testing.assert_array_equal(near, np.asarray(whole.dataobj)[5, 2, 3])


@each_value("every format, and every affine")
@pytest.mark.parametrize("end", WAYS)
@pytest.mark.parametrize("turn", SOURCES.values(), ids=SOURCES)
def test_a_flipped_and_cut_copy_lies_where_it_did(tmp_path: Path, end: str, turn: Any) -> None:
    whole = series(tmp_path / "a.nii", turn)
    image = image_of(written(tmp_path, end))
    dims = image.dims
    part = image.isel({dims[0]: FLIP, dims[1]: slice(1, None, 2), dims[3]: slice(2, None)})
    found = converted(stored(part.rename("image").to_dataset(), tmp_path, _way(end)), tmp_path)
    assert_alike(found, sliced(whole, (FLIP, slice(1, None, 2), slice(None), slice(2, None))), 6.0)


def _way(end: str) -> str:
    """How a changed image is stored again: netCDF4 writes no attribute of HDF5's matrices."""
    return {"nc": "netcdf4", "h5": "h5netcdf", "zarr": "zarr"}[end]


@pytest.mark.parametrize("end", WAYS)
def test_a_flip_alone_is_noticed(tmp_path: Path, end: str) -> None:
    whole = series(tmp_path / "a.nii")
    part = image_of(written(tmp_path, end)).isel(x=FLIP, t=FLIP)
    path = stored(part.rename("image").to_dataset(), tmp_path, _way(end))
    np.testing.assert_array_equal(
        hyperslab.open(path).affine, whole.affine @ [[-1, 0, 0, 7], *np.eye(4)[1:]]
    )
    told = call("convert", path, tmp_path / "c.nii", "--engine", "serial")
    assert "time runs backwards along t" in " ".join((told.out + told.err).split())


def test_means_lie_in_the_middle_of_what_they_are_of(tmp_path: Path) -> None:
    whole = series(tmp_path / "a.nii")
    image = image_of(written(tmp_path, "nc")).astype("f4").rename("image")
    found = converted(stored(image.coarsen(x=2, y=3).mean().to_dataset(), tmp_path), tmp_path)
    np.testing.assert_allclose(found.affine[:, 3], whole.affine @ (0.5, 1, 0, 1))


@each_value("every format, and every affine")
@pytest.mark.parametrize("end", WAYS)
@pytest.mark.parametrize("unit", [0, 2, 3])
def test_there_and_back_is_the_same_header(tmp_path: Path, end: str, unit: int) -> None:
    affine = placed(TURNED * np.pi, (0.1, 0.7, 1.3)).astype("f4")
    image: Any = saved(tmp_path / "plain.nii", affine, (4, 5, 6, 7), toffset=0.3)
    image.header["xyzt_units"] = unit + 16
    image.header["pixdim"][4] = 1234.5
    nib.save(image, tmp_path / "a.nii")
    hyperslab.convert(written(tmp_path, end), tmp_path / "c.nii", engine="serial")
    before, after = ((tmp_path / name).read_bytes() for name in ("a.nii", "c.nii"))
    assert before == after


@pytest.mark.parametrize("affine", [np.eye(4), np.diag([1e-7, 1, 1, 1]) + np.eye(4, k=3) * 1e9])
def test_places_that_float64_rounds_are_left_out(tmp_path: Path, affine: Any) -> None:
    whole: Any = saved(tmp_path / "a.nii", affine)
    path = written(tmp_path, "nc")
    np.testing.assert_array_equal(hyperslab.open(path).affine, whole.affine)


def test_two_dimensional_images_have_places(tmp_path: Path) -> None:
    whole = saved(tmp_path / "a.nii", placed(), (4, 5))
    image = image_of(written(tmp_path, "nc"))
    np.testing.assert_array_equal(
        image.y, apply_affine(whole.affine, [(0, n, 0) for n in range(5)])[:, 1]
    )
    np.testing.assert_array_equal(hyperslab.open(tmp_path / "b.nc").affine, whole.affine)


@pytest.mark.parametrize("end", WAYS)
def test_a_file_with_coordinates_is_one_array(tmp_path: Path, end: str) -> None:
    series(tmp_path / "a.nii")
    path = written(tmp_path, end)
    assert hyperslab.open(path).shape == (8, 6, 5, 7)
    assert call("diff", tmp_path / "a.nii", path, "--ignore-attributes").code == 0
    assert call("verify", path).code == 0
    done = call("info", path)
    assert (done.code, "choose" in done.out) == (0, False), done


def test_a_coordinate_of_a_store_that_was_changed_is_noticed(tmp_path: Path) -> None:
    series(tmp_path / "a.nii")
    path = written(tmp_path, "zarr")
    chunk = path / "x" / "c" / "0"
    chunk.write_bytes(chunk.read_bytes()[::-1])
    assert call("verify", path).code == 1


@pytest.mark.parametrize("version", [2, 3])
def test_coordinates_of_a_store_are_in_its_version(tmp_path: Path, version: int) -> None:
    series(tmp_path / "a.nii")
    encoding = hyperslab.Encoding(version=version, name="scans/one")
    hyperslab.convert(tmp_path / "a.nii", tmp_path / "b.zarr", encoding=encoding, engine="serial")
    group = zarr.open_group(tmp_path / "b.zarr/scans", mode="r")
    assert sorted(group.array_keys()) == ["one", "t", "x", "y", "z"]
    image = xarray.open_zarr(tmp_path / "b.zarr", group="scans").one
    assert image.x.attrs["units"] == "mm"


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("name", ["", "scans/one"])
def test_groups_hold_copies_of_what_is_below_them(tmp_path: Path, version: int, name: str) -> None:
    series(tmp_path / "a.nii")
    encoding = hyperslab.Encoding(version=version, name=name)
    hyperslab.convert(tmp_path / "a.nii", tmp_path / "b.zarr", encoding=encoding, engine="serial")
    for group in {"", name.rpartition("/")[0]}:
        copied = zarr.open_group(tmp_path / "b.zarr", path=group, use_consolidated=True, mode="r")
        found = zarr.open_group(tmp_path / "b.zarr", path=group, use_consolidated=False, mode="r")
        assert copied.metadata.consolidated_metadata is not None
        assert sorted(dict(copied.members(None))) == sorted(dict(found.members(None)))
        assert dict(copied.arrays()) == dict(found.arrays())


@pytest.mark.parametrize("version", [2, 3])
def test_a_store_may_be_the_array_itself(tmp_path: Path, version: int) -> None:
    whole = series(tmp_path / "a.nii")
    given = ("--name", "/", "--zarr-version", version, "--engine", "serial")
    assert call("convert", tmp_path / "a.nii", tmp_path / "b.zarr", *given).code == 0
    assert zarr.open_array(tmp_path / "b.zarr", mode="r").shape == (8, 6, 5, 7)
    np.testing.assert_array_equal(hyperslab.open(tmp_path / "b.zarr").affine, whole.affine)
    assert call("verify", tmp_path / "b.zarr").code == 0
    again = call("convert", tmp_path / "b.zarr", tmp_path / "c.nii", "--engine", "serial")
    assert (again.code, (tmp_path / "a.nii").read_bytes()) == (
        0,
        (tmp_path / "c.nii").read_bytes(),
    )


def test_what_a_run_makes_has_the_places_of_its_voxels(tmp_path: Path) -> None:
    whole = series(tmp_path / "a.nii")
    given = ("-p", "factor=2,2,1", "--keep", "volume", "--format", "nc", "--engine", "serial")
    done = call("run", "downsample", tmp_path / "a.nii", "-o", tmp_path / "out", *given)
    assert done.code == 0, done
    image = image_of(tmp_path / "out" / "a.nc")
    middles = apply_affine(whole.affine, [(n + 0.5, 0.5, 0) for n in (0, 2, 4, 6)])
    np.testing.assert_allclose(image.x, middles[:, 0])
    np.testing.assert_array_equal(image.t, [1, 3.5, 6, 8.5, 11, 13.5, 16])


def test_blocks_have_the_places_of_their_voxels(tmp_path: Path) -> None:
    series(tmp_path / "a.nii")
    split = ("--blocks", "2x1x1x1", "--format", "nc", "--engine", "serial")
    assert call("convert", tmp_path / "a.nii", tmp_path / "blocks", *split).code == 0
    first, second = (image_of(path).x for path in sorted((tmp_path / "blocks").glob("*.nc")))
    assert call("convert", tmp_path / "blocks", tmp_path / "c.nii", "--engine", "serial").code == 0
    with ours(tmp_path / "a.nii") as dataset:
        np.testing.assert_array_equal(np.r_[first, second], dataset.x)
    assert (tmp_path / "a.nii").read_bytes() == (tmp_path / "c.nii").read_bytes()


@each_value("every format, and every affine")
@pytest.mark.parametrize("end", WAYS)
@pytest.mark.parametrize("name", ["small.mnc", "minc2-4d-d.mnc"])
def test_images_of_minc_keep_their_axes(tmp_path: Path, end: str, name: str) -> None:
    expected: Any = nib.load(DATA / "minc" / name)
    hyperslab.convert(DATA / "minc" / name, tmp_path / f"b.{end}", engine="serial")
    image = image_of(tmp_path / f"b.{end}")
    with ours(DATA / "minc" / name) as dataset:
        assert image.dims == dataset.image.dims
        np.testing.assert_array_equal(image.zspace, dataset.zspace)
    part = image.isel(zspace=FLIP).rename("image").to_dataset()
    found = converted(stored(part, tmp_path, _way(end)), tmp_path)
    axis = [dim for dim in image.dims if "space" in str(dim)].index("zspace")
    motion = np.eye(4)
    motion[axis, axis] = -1
    motion[axis, 3] = image.sizes["zspace"] - 1
    np.testing.assert_allclose(found.affine, expected.affine @ motion, atol=1e-5)


def test_a_run_on_a_file_of_minc_has_lines_again(tmp_path: Path) -> None:
    hyperslab.convert(DATA / "minc" / "small.mnc", tmp_path / "b.nc", engine="serial")
    given = ("--keep", "volume", "--format", "nc", "--engine", "serial")
    assert call("run", "increment", tmp_path / "b.nc", "-o", tmp_path / "out", *given).code == 0
    before, after = (
        image_of(path) for path in (tmp_path / "b.nc", *(tmp_path / "out").glob("*.nc"))
    )
    assert before.dims == after.dims
    for dim in before.dims:
        np.testing.assert_allclose(after[dim], before[dim], atol=1e-9)
        np.testing.assert_allclose(
            after[dim].attrs["direction_cosines"], before[dim].attrs["direction_cosines"]
        )


@each_value("every format, and every affine")
@pytest.mark.parametrize("turn", [None, TURNED], ids=["straight", "oblique"])
@pytest.mark.parametrize("end", WAYS)
def test_a_file_of_transposed_axes_lies_where_it_did(tmp_path: Path, turn: Any, end: str) -> None:
    whole = series(tmp_path / "a.nii", turn)
    with ours(tmp_path / "a.nii") as dataset:
        space = dataset.image.dims[:3]
        turned = dataset.transpose(*reversed(space), "t").isel({space[0]: slice(1, 6)})
        path = stored(turned, tmp_path)
    hyperslab.convert(path, tmp_path / f"b.{end}", engine="serial")
    image = image_of(tmp_path / f"b.{end}").isel({space[0]: slice(2, None)})
    expected = whole.affine @ [[1, 0, 0, 1], *np.eye(4)[1:]]
    there: Any = hyperslab.open(tmp_path / f"b.{end}").affine
    np.testing.assert_allclose(there, expected[:, [2, 1, 0, 3]], atol=1e-6)
    found = image.hyperslab.affine
    moved = whole.affine @ [[1, 0, 0, 3], *np.eye(4)[1:]]
    np.testing.assert_allclose(found, moved[:, [2, 1, 0, 3]], atol=1e-6)


def test_an_array_that_is_no_image_stays_as_it_is(tmp_path: Path) -> None:
    hyperslab.run(hyperslab.Pipeline(np.arange(24.0).reshape(2, 3, 4)).write(tmp_path / "b.zarr"))
    assert zarr.open_array(tmp_path / "b.zarr", mode="r").shape == (2, 3, 4)
    assert "affine" not in json.loads((tmp_path / "b.zarr/zarr.json").read_text())["attributes"]
