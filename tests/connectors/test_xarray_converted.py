"""Images that were changed in xarray, saved and converted: they lie where nibabel puts them."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import nibabel as nib
import numpy as np
import pytest
import xarray
from nibabel.eulerangles import euler2mat

import hyperslab
from hyperslab.errors import UsageError
from tests.connectors.opened import ours
from tests.connectors.test_xarray_coordinates import placed, saved
from tests.formats.files import DATA
from tests.repetitions import each_value
from tests.system.end_to_end.command import call

pytestmark = pytest.mark.usefixtures("hurried")
SHAPE = (8, 6, 5, 7)
TURNED = euler2mat(0.1, 0.2, 0.3)  # type: ignore[no-untyped-call]
SAGITTAL = np.eye(3)[:, [1, 2, 0]] * (1, -1, -1)
FLIP = slice(None, None, -1)
SOURCES = {"straight": None, "sagittal": SAGITTAL, "oblique": TURNED}
PLACE_ATTRIBUTES = ("affine", "affine_dims", "affine_shape")


def series(path: Path, turn: Any = None) -> Any:
    """A series of volumes 2.5 s apart, from 1 s on, as nibabel reads it."""
    pixdim = np.array([1, 2, 3, 4, 2.5, 1, 1, 1])
    return saved(path, placed(turn), SHAPE, time="sec", pixdim=pixdim, toffset=1)


def stored(dataset: xarray.Dataset, folder: Path, way: str = "netcdf4") -> str:
    """A changed dataset in a file, as hyperslab names its image."""
    if way == "zarr":
        dataset.to_zarr(folder / "part.zarr", consolidated=False)
        return f"{folder / 'part.zarr'}::image"
    dataset.to_netcdf(folder / "part.nc", engine=way)  # type: ignore[call-overload]
    return f"{folder / 'part.nc'}::image"


def converted(source: str, folder: Path) -> Any:
    """The file of NIfTI that a dataset becomes, as nibabel reads it."""
    hyperslab.convert(source, folder / "new.nii", engine="serial")
    return nib.load(folder / "new.nii")


def sliced(whole: Any, key: tuple[slice, ...]) -> Any:
    """A part of an image, its values by nibabel; which takes a flipped axis without a start for
    one that begins at voxel 0, so that the affine is made by hand.
    """
    motion = np.eye(4)
    for axis, one in enumerate(key[:3]):
        start, _, step = one.indices(whole.shape[axis])
        motion[axis, axis] = step
        motion[axis, 3] = start
    part = whole.slicer[key]
    made: Any = nib.Nifti1Image(np.asarray(part.dataobj), whole.affine @ motion, part.header)  # type: ignore[no-untyped-call]
    return made


def assert_alike(found: Any, expected: Any, toffset: float = 1.0) -> None:
    np.testing.assert_array_equal(np.asarray(found.dataobj), np.asarray(expected.dataobj))
    np.testing.assert_allclose(found.affine, expected.affine, rtol=1e-6, atol=1e-5)
    np.testing.assert_allclose(found.header.get_zooms(), expected.header.get_zooms(), rtol=1e-6)
    assert found.header.get_xyzt_units() == ("mm", "sec")
    assert found.header["toffset"] == toffset


@each_value("every part, and every affine")
@pytest.mark.parametrize("turn", SOURCES.values(), ids=SOURCES)
@pytest.mark.parametrize(
    ("key", "toffset"),
    [
        ((slice(None),) * 4, 1.0),
        ((slice(5, None), slice(None), slice(1, 4)), 1.0),
        ((slice(None, None, 2), slice(None), slice(None, None, 3)), 1.0),
        ((FLIP, slice(None), FLIP), 1.0),
        ((slice(6, 1, -2), slice(2, 3), slice(None), slice(2, None)), 6.0),
        ((slice(None), slice(None), slice(None), slice(1, None, 3)), 3.5),
        ((slice(None), slice(None), slice(None), slice(3, 4)), 8.5),
    ],
    ids=["whole", "cut", "step", "flip", "all at once", "t stepped", "one volume"],
)
def test_a_part_lies_where_nibabel_slices_it(
    tmp_path: Path, turn: Any, key: tuple[slice, ...], toffset: float
) -> None:
    whole = series(tmp_path / "a.nii", turn)
    with ours(tmp_path / "a.nii") as dataset:
        part = dataset.isel(dict(zip(dataset.image.dims, key, strict=False)))
        found = converted(stored(part, tmp_path), tmp_path)
    expected = sliced(whole, key)
    expected.header["pixdim"][4] = 2.5 * (key[3:] or (slice(None),))[0].indices(7)[2]
    assert_alike(found, expected, toffset)


@pytest.mark.parametrize("way", ["scipy", "zarr"])
def test_files_of_every_kind_are_read_alike(tmp_path: Path, way: str) -> None:
    whole = series(tmp_path / "a.nii")
    with ours(tmp_path / "a.nii") as dataset:
        part = dataset.isel(x=FLIP, y=slice(1, None, 2), t=slice(2, None))
        found = converted(stored(part, tmp_path, way), tmp_path)
    assert_alike(found, sliced(whole, (FLIP, slice(1, None, 2), slice(None), slice(2, None))), 6.0)


def test_means_lie_in_the_middle_of_what_they_are_of(tmp_path: Path) -> None:
    whole = series(tmp_path / "a.nii")
    with ours(tmp_path / "a.nii") as dataset:
        found = converted(stored(dataset.astype("f4").coarsen(x=2, y=3).mean(), tmp_path), tmp_path)
    middle = whole.affine @ (0.5, 1, 0, 1)
    np.testing.assert_allclose(found.affine[:, 3], middle)
    np.testing.assert_allclose(found.header.get_zooms(), (4, 9, 4, 2.5))


@pytest.mark.parametrize("turn", SOURCES.values(), ids=SOURCES)
def test_transposed_axes_take_their_places_along(tmp_path: Path, turn: Any) -> None:
    whole = series(tmp_path / "a.nii", turn)
    with ours(tmp_path / "a.nii") as dataset:
        turned = dataset.transpose(*reversed(dataset.image.dims))
        found = converted(stored(turned, tmp_path), tmp_path)
    values = np.asarray(whole.dataobj).transpose(2, 1, 0, 3)
    np.testing.assert_array_equal(np.asarray(found.dataobj), values)
    np.testing.assert_allclose(found.affine, whole.affine[:, [2, 1, 0, 3]], rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(found.header.get_zooms(), (4, 3, 2, 2.5))


@pytest.mark.parametrize("keep_attrs", [True, False])
def test_the_sum_over_time_stays_where_it_was(tmp_path: Path, keep_attrs: bool) -> None:
    whole = series(tmp_path / "a.nii", SAGITTAL)
    with ours(tmp_path / "a.nii") as dataset:
        total = dataset.sum("t", keep_attrs=keep_attrs)
        found = converted(stored(total, tmp_path), tmp_path)
    np.testing.assert_array_equal(found.dataobj, np.asarray(whole.dataobj).sum(3))
    np.testing.assert_allclose(found.affine, whole.affine)
    assert found.header.get_xyzt_units() == ("mm", "unknown")


def test_a_slice_of_a_volume_lies_where_it_was(tmp_path: Path) -> None:
    whole = series(tmp_path / "a.nii")
    with ours(tmp_path / "a.nii") as dataset:
        found = converted(stored(dataset.isel(t=0, y=2), tmp_path), tmp_path)
    expected = whole.affine[:, [0, 2, 1, 3]]
    expected[:, 3] = whole.affine @ (0, 2, 0, 1)
    np.testing.assert_allclose(found.affine, expected)
    np.testing.assert_array_equal(found.dataobj, np.asarray(whole.dataobj)[:, 2, :, 0])


# What has no affine is told, and has none in the new file.
@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda d: d.isel(x=[0, 1, 3]), "not evenly spaced along x"),
        (lambda d: d.isel(z=2), "an axis of space is gone, and its axes are x, y, t"),
        (lambda d: d.drop_vars("x").isel(x=slice(1, None)), "no coordinates along x"),
        (lambda d: d.mean("z", keep_attrs=True), "2 axes of space (x, y)"),
        (
            lambda d: d.assign_coords(x=2 * d.x.values),
            "the coordinates along x (unit '') are other places",
        ),
        (lambda d: d.rename(x="a", y="b", z="c").isel(a=FLIP), "other axes than a, b, c, t"),
    ],
    ids=["irregular", "an axis gone", "no coordinates", "a mean", "other places", "other names"],
)
def test_what_has_no_affine_is_said(
    tmp_path: Path, change: Callable[[xarray.Dataset], xarray.Dataset], why: str
) -> None:
    series(tmp_path / "a.nii", np.diag((-1, 1, 1)))
    with ours(tmp_path / "a.nii") as dataset:
        path = stored(change(dataset), tmp_path)
    done = call("convert", path, tmp_path / "new.nii", "--engine", "serial")
    assert done.code == 0, done
    assert why in " ".join((done.out + done.err).split())
    header: Any = nib.load(tmp_path / "new.nii").header
    assert (header["sform_code"], header["qform_code"]) == (0, 0)
    assert why in call("info", path).out


def test_oblique_voxels_without_an_affine_lie_nowhere(tmp_path: Path) -> None:
    series(tmp_path / "a.nii", TURNED)
    with ours(tmp_path / "a.nii") as dataset:
        path = stored(dataset.drop_attrs(deep=False).sum("t", keep_attrs=False), tmp_path)
    assert "its attribute affine is gone" in call("info", path).out


def test_time_that_runs_backwards_is_told(tmp_path: Path) -> None:
    series(tmp_path / "a.nii")
    with ours(tmp_path / "a.nii") as dataset:
        path = stored(dataset.isel(t=FLIP), tmp_path)
    done = call("convert", path, tmp_path / "new.nii", "--engine", "serial")
    assert "time runs backwards along t" in " ".join((done.out + done.err).split())


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (slice(None), ""),
        (FLIP, ""),
        (slice(1, None), "and lies elsewhere"),
        ([0, 1, 2, 3, 5, 4], "not evenly spaced along y"),
    ],
    ids=["in place", "flipped", "cut", "uneven"],
)
def test_a_mask_that_was_changed_is_not_in_place(tmp_path: Path, change: Any, why: str) -> None:
    series(tmp_path / "a.nii")
    with ours(tmp_path / "a.nii") as dataset:
        mask = (dataset.isel(t=0, drop=True) > 9).astype("u1")
        mask.image.attrs = dataset.image.attrs
        path = stored(mask.isel(y=change), tmp_path)
    given = (tmp_path / "a.nii", "-o", tmp_path / "out", "--mask", path, "--engine", "serial")
    done = call("run", "stats", *given)
    assert (done.code == 0) == (not why), done
    assert why in " ".join(done.err.split())


def test_files_of_other_kinds_of_one_image_do_not_differ(tmp_path: Path) -> None:
    series(tmp_path / "a.nii")
    with ours(tmp_path / "a.nii") as dataset:
        path = stored(dataset.isel(x=FLIP), tmp_path)
    hyperslab.convert(path, tmp_path / "new.nii", engine="serial")
    (pair,) = hyperslab.diff(path, tmp_path / "new.nii", attributes=False).pairs
    assert pair.same
    (pair,) = hyperslab.diff(path, tmp_path / "a.nii", attributes=False).pairs
    assert "affine" in [one.what for one in pair.headers]


@pytest.mark.parametrize("turn", [None, TURNED], ids=["straight", "oblique"])
def test_a_file_of_a_file_lies_where_the_first_one_did(tmp_path: Path, turn: Any) -> None:
    whole = series(tmp_path / "a.nii", turn)
    with ours(tmp_path / "a.nii") as dataset:
        first = stored(dataset.isel({dataset.image.dims[0]: slice(6, 1, -2)}), tmp_path)
    hyperslab.convert(first, tmp_path / "b.nc", engine="serial")
    with ours(tmp_path / "b.nc") as dataset:
        (name,) = dataset.data_vars
        dims = dataset[name].dims
        dataset.isel({dims[0]: slice(1, None), dims[1]: FLIP}).to_netcdf(tmp_path / "c.nc")
    found = converted(str(tmp_path / "c.nc"), tmp_path)
    assert_alike(found, sliced(whole, (slice(4, 1, -2), FLIP)))


def test_files_of_the_previous_version_are_read(tmp_path: Path) -> None:
    whole = series(tmp_path / "a.nii", TURNED)
    with ours(tmp_path / "a.nii") as dataset:
        for name in PLACE_ATTRIBUTES[1:]:
            del dataset.image.attrs[name]
        del dataset.t.attrs["step"]
        part = dataset.isel(i=FLIP, t=slice(2, None))
        found = converted(stored(part, tmp_path), tmp_path)
    key = (FLIP, slice(None), slice(None), slice(2, None))
    assert_alike(found, sliced(whole, key), 6.0)


def test_an_affine_of_an_array_that_was_cut_without_coordinates_is_noticed(tmp_path: Path) -> None:
    series(tmp_path / "a.nii")
    hyperslab.convert(tmp_path / "a.nii", tmp_path / "a.h5", engine="serial")
    with h5py.File(tmp_path / "a.h5") as file, h5py.File(tmp_path / "b.h5", "w") as cut:
        dataset = cut.create_dataset("data", data=file["data"][1:])
        dataset.attrs.update({name: file["data"].attrs[name] for name in PLACE_ATTRIBUTES})
    assert "no coordinates say which part it is" in call("info", tmp_path / "b.h5").out
    assert hyperslab.open(tmp_path / "b.h5").affine is None


MINC = [
    {},
    {"xspace": slice(2, None)},
    {"zspace": FLIP, "yspace": slice(1, None, 2)},
    {"time": slice(1, 4, 2), "xspace": FLIP},
]


@each_value("every part, by every way")
@pytest.mark.parametrize("key", MINC, ids=["whole", "cut", "flip", "time"])
@pytest.mark.parametrize("keep", [True, False], ids=["affine", "coordinates alone"])
@pytest.mark.parametrize("way", ["netcdf4", "zarr"])
def test_parts_of_minc_images(tmp_path: Path, key: dict[str, slice], keep: bool, way: str) -> None:
    image: Any = nib.load(DATA / "minc" / "minc2-4d-d.mnc")
    with ours(DATA / "minc" / "minc2-4d-d.mnc") as dataset:
        dims = dataset.image.dims
        part = dataset.isel(key)
        if not keep:
            part = part.assign(image=part.image.drop_attrs(deep=False))
        found = converted(stored(part, tmp_path, way), tmp_path)
    assert dims[0] == "time"
    values = np.asarray(image.dataobj).transpose(1, 2, 3, 0)
    whole: Any = nib.Nifti1Image(values, image.affine)  # type: ignore[no-untyped-call]
    slices = tuple(key.get(str(dim), slice(None)) for dim in (*dims[1:], dims[0]))
    expected = sliced(whole, slices)
    np.testing.assert_allclose(found.affine, expected.affine, atol=1e-5)
    np.testing.assert_allclose(np.asarray(found.dataobj), np.asarray(expected.dataobj))
    assert found.header.get_xyzt_units() == ("mm", "sec")


def test_the_affine_of_an_unknown_array_stays_unknown() -> None:
    with pytest.raises(UsageError, match="no affine"):
        _ = xarray.DataArray([1]).hyperslab.affine


ENGINES = {
    "nc": (None, "netcdf4", "h5netcdf", "hyperslab"),
    "h5": (None, "netcdf4", "h5netcdf", "hyperslab"),
    "zarr": (None, "zarr"),
}


@each_value("every engine, and both affines")
@pytest.mark.parametrize("turn", [None, TURNED], ids=["straight", "oblique"])
@pytest.mark.parametrize("end", ENGINES)
def test_converted_images_are_opened_by_any_engine(tmp_path: Path, turn: Any, end: str) -> None:
    whole = series(tmp_path / "a.nii", turn)
    hyperslab.convert(tmp_path / "a.nii", tmp_path / f"a.{end}", engine="serial")
    for engine in ENGINES[end]:
        with xarray.open_dataset(tmp_path / f"a.{end}", engine=engine) as dataset:
            assert dataset.t.values[0] == 1
            np.testing.assert_array_equal(dataset.data, np.asarray(whole.dataobj))
            np.testing.assert_allclose(dataset.data.hyperslab.affine, whole.affine, rtol=1e-6)


@pytest.mark.parametrize("end", ENGINES)
def test_converted_images_are_saved_by_xarray(tmp_path: Path, end: str) -> None:
    whole = series(tmp_path / "a.nii")
    hyperslab.convert(tmp_path / "a.nii", tmp_path / f"a.{end}", engine="serial")
    with xarray.open_dataset(tmp_path / f"a.{end}") as dataset:
        x = whole.affine[0, 0] * 3 + whole.affine[0, 3]
        found = dataset.data.sel(x=x + 0.1, method="nearest")
        np.testing.assert_array_equal(found, np.asarray(whole.dataobj)[3])
        dataset.isel(x=FLIP).to_netcdf(tmp_path / "part.nc")
    made = converted(f"{tmp_path / 'part.nc'}::data", tmp_path)
    assert_alike(made, sliced(whole, (FLIP,)))


def test_a_dataset_has_the_affine_of_its_image_also_when_saved(tmp_path: Path) -> None:
    whole = series(tmp_path / "a.nii", TURNED)
    moved = whole.affine @ [[2, 0, 0, 1], *np.eye(4)[1:]]  # every second voxel along the first axis
    with ours(tmp_path / "a.nii") as dataset:
        np.testing.assert_array_equal(dataset.hyperslab.affine, whole.affine)
        first = dataset.image.dims[0]
        part = dataset.isel({first: slice(1, None, 2)}).load()
        flat = part.image.max(first, keep_attrs=True)
        beside = part.assign(flat=flat, turned=part.image.transpose())
        np.testing.assert_allclose(beside.hyperslab.affine, moved, rtol=1e-6, atol=1e-5)
        with pytest.raises(UsageError, match="the array has 2 axes of space"):
            _ = beside[["flat"]].hyperslab.affine
        part.to_netcdf(tmp_path / "b.nc")
        part.to_zarr(tmp_path / "b.zarr", consolidated=False)
    for path, options in (
        ("b.nc", {"engine": "netcdf4"}),
        ("b.zarr", {"engine": "zarr", "consolidated": False}),
    ):
        with xarray.open_dataset(tmp_path / path, **options) as again:
            assert again.hyperslab.affine.shape == (4, 4)
            np.testing.assert_allclose(again.hyperslab.affine, moved, rtol=1e-6, atol=1e-5)
    with pytest.raises(UsageError, match="the dataset has no variable with an affine"):
        _ = xarray.Dataset().hyperslab.affine
    here = xarray.DataArray(
        np.zeros((2, 2, 2)), dims=list("xyz"), attrs={"affine": np.eye(4).ravel()}
    )
    there = here.copy().assign_attrs(affine=np.diag([2.0, 2, 2, 1]).ravel())
    with pytest.raises(UsageError, match=r"the images .* \(a, b\) lie in several places"):
        _ = xarray.Dataset({"a": here, "b": there}).hyperslab.affine


@pytest.mark.parametrize("first", ["hyperslab", "xarray"])
def test_a_fresh_process_has_the_accessor_whichever_is_imported_first(
    tmp_path: Path, first: str
) -> None:
    whole = series(tmp_path / "a.nii")
    hyperslab.convert(tmp_path / "a.nii", tmp_path / "a.nc", engine="serial")
    code = (
        f"import {first}, sys; 'xarray' in sys.modules or print('without');"
        " import hyperslab, xarray;"
        f" image = xarray.open_dataset({str(tmp_path / 'a.nc')!r}, engine='netcdf4').data;"
        " print(image.hyperslab.affine.ravel().tolist());"
        " print('hyperslab.connectors.xarray' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    *awaited, affine, has_our_engine = done.stdout.splitlines()
    assert awaited == ["without"] * (first == "hyperslab")
    np.testing.assert_allclose(json.loads(affine), whole.affine.ravel(), rtol=1e-6)
    assert has_our_engine == "False"
