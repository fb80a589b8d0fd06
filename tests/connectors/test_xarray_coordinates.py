"""Coordinates of images in xarray: millimetres along axes of space, seconds along time, MINC's own;
compared with nibabel's affines.
"""

from __future__ import annotations

from collections.abc import Sequence
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
from tests.formats.files import DATA

PAGE = Path(__file__).parents[2] / "docs" / "xarray-and-dask.md"

SHAPE = (5, 6, 7)


def apply_affine(affine: Any, voxels: Any) -> Any:
    """Places of voxels, by nibabel."""
    return nib.affines.apply_affine(affine, voxels)  # type: ignore[no-untyped-call]


def saved(
    path: Path, affine: Any, shape: Sequence[int] = SHAPE, **fields: Any
) -> nib.nifti1.Nifti1Image:
    """An image of distinct values in that place, as nibabel reads it again."""
    values = np.arange(np.prod(shape), dtype=np.int16).reshape(shape)
    image: Any = nib.Nifti1Image(values, affine)  # type: ignore[no-untyped-call]
    image.header.set_xyzt_units("mm", fields.pop("time", None))
    for name, value in fields.items():
        image.header[name] = value
    nib.save(image, path)
    return nib.load(path)  # type: ignore[return-value]


def placed(turn: Any = None, sizes: Sequence[float] = (2, 3, 4)) -> np.ndarray[Any, Any]:
    affine = np.eye(4)
    affine[:3, :3] = (np.eye(3) if turn is None else turn) * np.array(sizes)
    affine[:3, 3] = -31.5, 12.25, -70
    return affine


# Every way to lay the axes of an image along those of space: RAS, LAS, PIR, SAL, ...
@pytest.mark.parametrize("order", [(0, 1, 2), (1, 2, 0), (2, 0, 1), (0, 2, 1), (2, 1, 0)])
@pytest.mark.parametrize("signs", [(1, 1, 1), (-1, 1, 1), (1, -1, -1), (-1, -1, -1)])
def test_a_place_in_mm_is_the_voxel_that_nibabel_finds(
    tmp_path: Path, order: tuple[int, ...], signs: tuple[int, ...]
) -> None:
    turn = np.eye(3)[:, order] * signs
    expected = saved(tmp_path / "a.nii", placed(turn))
    values = np.asarray(expected.dataobj)
    with ours(tmp_path / "a.nii") as dataset:
        image = dataset.image
        assert image.dims == tuple("xyz"[along] for along in order)
        assert image.dims == hyperslab.open(tmp_path / "a.nii").dims
        assert {image[dim].attrs["units"] for dim in image.dims} == {"mm"}
        for voxel in [(0, 0, 0), (4, 1, 3), (2, 5, 6)]:
            place = dict(zip("xyz", apply_affine(expected.affine, voxel), strict=True))
            assert image.sel(place) == values[voxel]
            near = {name: mm + 0.9 for name, mm in place.items()}
            assert image.sel(near, method="nearest") == values[voxel]
        np.testing.assert_array_equal(image.hyperslab.affine, expected.affine)


def test_axes_that_run_between_those_of_space_have_no_millimetres(tmp_path: Path) -> None:
    turn = euler2mat(x=0.2)  # type: ignore[no-untyped-call]
    expected = saved(tmp_path / "a.nii", placed(turn))
    oblique = saved(tmp_path / "b.nii", placed(turn @ euler2mat(y=0.1)))  # type: ignore[no-untyped-call]
    with ours(tmp_path / "a.nii") as one, ours(tmp_path / "b.nii") as other:
        assert one.image.dims == ("x", "j", "k")
        assert other.image.dims == ("i", "j", "k")
        assert hyperslab.open(tmp_path / "a.nii").dims == one.image.dims
        assert hyperslab.open(tmp_path / "b.nii").dims == other.image.dims
        np.testing.assert_array_equal(one.x, apply_affine(expected.affine, _line(5))[:, 0])
        np.testing.assert_array_equal(other.k, np.arange(7))
        assert "units" not in other.k.attrs
        np.testing.assert_array_equal(other.image.hyperslab.affine, oblique.affine)


def _line(count: int) -> np.ndarray[Any, Any]:
    return np.stack([np.arange(count), np.zeros(count), np.zeros(count)], axis=1)


def test_what_float32_rounds_of_a_rotation_is_no_rotation(tmp_path: Path) -> None:
    turn = euler2mat(z=1e-7)  # type: ignore[no-untyped-call]
    saved(tmp_path / "a.nii", placed(turn))
    saved(tmp_path / "b.nii", placed(euler2mat(z=1e-2)))  # type: ignore[no-untyped-call]
    saved(tmp_path / "c.nii", placed([[1, 0.1, 0], [0, 1, 0], [0, 0, 1]]))
    for name, dims in (("a", "xyz"), ("b", "ijz"), ("c", "ijz")):
        with ours(tmp_path / f"{name}.nii") as dataset:
            assert "".join(dataset.image.dims) == dims


def test_images_without_a_form_are_where_nibabel_puts_them(tmp_path: Path) -> None:
    expected = saved(tmp_path / "a.nii", None)
    with ours(tmp_path / "a.nii") as dataset:  # the middle at 0
        np.testing.assert_array_equal(dataset.x, [2, 1, 0, -1, -2])
        np.testing.assert_array_equal(dataset.image.hyperslab.affine, expected.affine)


@pytest.mark.parametrize("row", [(np.nan, 0, 0, 0), (0, 0, 0, 0)])
def test_images_that_lie_nowhere_have_voxel_numbers(tmp_path: Path, row: Sequence[float]) -> None:
    saved(tmp_path / "a.nii", placed())
    header: Any = nib.load(tmp_path / "a.nii").header
    header["srow_x"], header["vox_offset"] = row, 352
    with (tmp_path / "a.nii").open("r+b") as file:
        file.write(header.binaryblock)
    with ours(tmp_path / "a.nii") as dataset:
        assert dataset.image.dims == ("i", "j", "k")


@pytest.mark.parametrize(
    ("unit", "parts", "says"),
    [("sec", 1, "s"), ("msec", 1e3, "s"), ("usec", 1e6, "s"), ("hz", 1, "Hz"), (None, 1, None)],
)
def test_volumes_of_a_series_are_at_their_seconds(
    tmp_path: Path, unit: str | None, parts: float, says: str | None
) -> None:
    shape = (2, 3, 4, 5)
    pixdim = np.array([1, 2, 3, 4, 2.5 * parts, 1, 1, 1])
    saved(tmp_path / "a.nii", placed(), shape, time=unit, pixdim=pixdim, toffset=7.5 * parts)
    with ours(tmp_path / "a.nii") as dataset:
        image = dataset.image
        np.testing.assert_array_equal(image.t, [7.5, 10, 12.5, 15, 17.5])
        assert image.t.attrs.get("units") == says
        np.testing.assert_array_equal(image.sel(t=12.4, method="nearest"), image[..., 2])


def test_a_series_without_a_time_step_has_no_times(tmp_path: Path) -> None:
    saved(tmp_path / "a.nii", placed(), (2, 3, 4, 5), pixdim=[1, 2, 3, 4, 0, 1, 1, 1])
    with ours(tmp_path / "a.nii") as dataset:
        assert list(dataset.coords) == ["x", "y", "z"]


@pytest.mark.parametrize(("unit", "says"), [(0, "mm"), (1, "m"), (2, "mm"), (3, "um")])
def test_the_unit_of_space_is_that_of_the_affine(tmp_path: Path, unit: int, says: str) -> None:
    expected = saved(tmp_path / "a.nii", placed())
    image: Any = nib.Nifti1Image(expected.dataobj, expected.affine)  # type: ignore[no-untyped-call]
    image.header["xyzt_units"] = unit
    nib.save(image, tmp_path / "a.nii")
    with ours(tmp_path / "a.nii") as dataset:
        assert dataset.x.attrs["units"] == says
        assert dataset.x[0] == expected.affine[0, 3]


@pytest.mark.parametrize("turn", [None, euler2mat(0.1, 0.2, 0.3)])  # type: ignore[no-untyped-call]
def test_the_affine_of_a_part_is_of_its_voxels(tmp_path: Path, turn: Any) -> None:
    expected: Any = saved(tmp_path / "a.nii", placed(turn), (8, 9, 10, 3))
    cut = expected.slicer[6:1:-2, 2:9:3, 4:5, 1:]
    with ours(tmp_path / "a.nii") as dataset:
        part = dataset.image[6:1:-2, 2:9:3, 4:5, 1:]
        np.testing.assert_allclose(part.hyperslab.affine[:, :3], cut.affine[:, :3], atol=1e-12)
        place = apply_affine(expected.affine, (6, 2, 4))
        np.testing.assert_allclose(part.hyperslab.affine[:3, 3], place, atol=1e-12)
        first, *others = part.dims[:3]
        turned = part.transpose(*others, first, ...).hyperslab.affine
        np.testing.assert_array_equal(turned[:, [2, 0, 1, 3]], part.hyperslab.affine)
        with pytest.raises(UsageError, match="has 2 axes of space"):
            _ = part[0].hyperslab.affine
        with pytest.raises(UsageError, match="not evenly spaced"):
            _ = dataset.image[[0, 1, 3]].hyperslab.affine
        with pytest.raises(UsageError, match=rf"keep {first} by a range, as {first}=slice"):
            _ = dataset.image.max(first, keep_attrs=True).hyperslab.affine
        with pytest.raises(UsageError, match="keep_attrs=True"):
            _ = dataset.image.max(first, keep_attrs=False).hyperslab.affine
        most = dataset.image.astype("f4").coarsen({first: 8}).max().hyperslab.affine
        middle = apply_affine(expected.affine, (3.5, 0, 0))
        np.testing.assert_allclose(most[:3, 3], middle, atol=1e-6)
    with pytest.raises(UsageError, match="no affine"):
        _ = xarray.DataArray([1]).hyperslab.affine


@pytest.mark.parametrize("name", ["small.mnc", "tiny.mnc", "minc2-4d-d.mnc"])
def test_minc_images_have_the_places_of_their_own_dimensions(name: str) -> None:
    expected: Any = nib.load(DATA / "minc" / name)
    with ours(DATA / "minc" / name) as dataset:
        image = dataset.image
        np.testing.assert_allclose(image.hyperslab.affine, expected.affine, atol=1e-12)
        first = {dim: float(image[dim][0]) for dim in ("xspace", "yspace", "zspace")}
        np.testing.assert_allclose(list(first.values()), expected.affine[:3, 3])
        assert {image[dim].attrs["units"] for dim in first} == {"mm"}
        cut = image.isel(zspace=slice(2, None, 2)).hyperslab.affine
        column = [dim for dim in image.dims if dim in first].index("zspace")
        voxel = 2 * np.eye(3)[column]
        np.testing.assert_allclose(cut[:3, 3], apply_affine(expected.affine, voxel))


def test_times_of_minc_are_seconds(tmp_path: Path) -> None:
    path = tmp_path / "a.mnc"
    path.write_bytes((DATA / "minc" / "minc2-4d-d.mnc").read_bytes())
    with h5py.File(path, "r+") as file:
        said = file["/minc-2.0/dimensions/time"].attrs
        said["units"], said["start"], said["step"] = np.bytes_("ms"), 500.0, 1500.0
    with ours(path) as dataset:
        assert dataset.time.attrs["units"] == "s"
        np.testing.assert_array_equal(dataset.time, [0.5, 2, 3.5, 5, 6.5])


def test_oblique_minc_images_keep_their_lines(tmp_path: Path) -> None:
    path = tmp_path / "a.mnc"
    path.write_bytes((DATA / "minc" / "small.mnc").read_bytes())
    turn = euler2mat(0.1, -0.2, 0.3)  # type: ignore[no-untyped-call]
    with h5py.File(path, "r+") as file:
        for column, dim in enumerate(("xspace", "yspace", "zspace")):
            said = file[f"/minc-2.0/dimensions/{dim}"].attrs
            said["direction_cosines"] = turn[:, column]
    expected: Any = nib.load(path)
    with ours(path) as dataset:
        np.testing.assert_array_equal(dataset.xspace.attrs["direction_cosines"], turn[:, 0])
        found = dataset.image[3:].hyperslab.affine
        np.testing.assert_allclose(found[:3, 3], apply_affine(expected.affine, (3, 0, 0)))


def test_coordinates_go_into_netcdf_files_and_back(tmp_path: Path) -> None:
    saved(tmp_path / "a.nii", placed(), (2, 3, 4, 5), time="sec")
    with ours(tmp_path / "a.nii") as dataset:
        dataset.to_netcdf(tmp_path / "a.nc")
        with ours(tmp_path / "a.nc") as again:
            xarray.testing.assert_identical(again.drop_attrs(), dataset.drop_attrs())
            assert again.x.attrs == dataset.x.attrs
            np.testing.assert_array_equal(
                again.image[1:].hyperslab.affine, dataset.image[1:].hyperslab.affine
            )


@pytest.mark.parametrize("sign", [1, -1])
def test_places_are_selected_whichever_way_an_axis_runs(tmp_path: Path, sign: int) -> None:
    turn = np.diag((sign, 1, 1))
    saved(tmp_path / "a.nii", placed(turn), (8, 9, 10, 3), pixdim=[1, 2, 3, 4, 2, 1, 1, 1])
    with ours(tmp_path / "a.nii") as dataset:
        image = dataset.image
        low, high = sorted(image.x.values[[2, 5]])
        for places in (slice(low, high), slice(high, low), slice(low - 0.5, high + 0.5)):
            part = image.hyperslab.sel(x=places, y=20, t=slice(2, None))
            assert part.shape == (4, 10, 2)
            xarray.testing.assert_identical(part, image[2:6, 3, :, 1:])
        held = image.compute()
        assert np.shares_memory(held.hyperslab.sel(x=slice(low, high)).values, held.values)
        upwards = image.hyperslab.sel(x=slice(low, None))
        assert upwards.x.min() == low
        assert upwards.sizes["x"] == 6
        with pytest.raises(UsageError, match="no places lie between these"):
            image.hyperslab.sel(x=slice(low + 0.1, low + 0.2))
        with pytest.raises(UsageError, match=r"no axis u: its axes are x, y, z, t$"):
            image.hyperslab.sel(u=1)
        wrong = slice(high, low) if sign > 0 else slice(low, high)
        with pytest.raises(UsageError, match=r"no elements along x: .*image.hyperslab.sel"):
            _ = image.sel(x=wrong).hyperslab.affine


def test_the_page_says_how_voxels_of_tilted_images_are_found(tmp_path: Path) -> None:
    page = PAGE.read_text(encoding="utf-8")
    recipe = page.split("**Tilted (oblique) images**")[1].split("```")[1].removeprefix("text\n")
    saved(tmp_path / "a.nii", placed(euler2mat(0.1, 0.2, 0.3)))  # type: ignore[no-untyped-call]
    with ours(tmp_path / "a.nii") as dataset:
        image = dataset.image
        place = image.hyperslab.affine @ (2, 1, 2, 1)
        assert "(30, 40.2, 10, 1)" in recipe
        recipe = recipe.replace("(30, 40.2, 10, 1)", str(tuple(place.tolist())))
        names: dict[str, Any] = {"numpy": np, "image": image}
        exec(recipe, names)
        assert (names["i"], names["j"], names["k"]) == (2, 1, 2)


def test_places_of_tilted_images_are_voxels(tmp_path: Path) -> None:
    saved(tmp_path / "a.nii", placed(euler2mat(0.1, 0.2, 0.3)))  # type: ignore[no-untyped-call]
    with ours(tmp_path / "a.nii") as dataset:
        with pytest.raises(UsageError, match=r"i, j, k run between .* image.isel\(i=30\)"):
            dataset.image.hyperslab.sel(x=30)
        assert dataset.image.hyperslab.sel(i=slice(1, 3)).sizes["i"] == 3


@pytest.mark.parametrize("dims", [SHAPE, (*SHAPE[:2], 1)], ids=["whole", "one slice"])
def test_a_place_outside_of_the_array_is_refused(tmp_path: Path, dims: tuple[int, ...]) -> None:
    saved(tmp_path / "a.nii", placed(), dims)
    with ours(tmp_path / "a.nii") as dataset:
        image = dataset.image
        last = -70 + 4 * (dims[2] - 1)
        assert image.hyperslab.sel(x=-32.4, z=last + 1.9).z == last
        with pytest.raises(UsageError, match=r"x=3000: .* reach from -32.5 to -22.5 along x"):
            image.hyperslab.sel(x=3000)
        for beyond in (-72.1, last + 2.1):
            with pytest.raises(UsageError, match="outside the array"):
                image.hyperslab.sel(z=beyond)


def test_advice_on_moved_coordinates_leads_to_an_affine(tmp_path: Path) -> None:
    expected = saved(tmp_path / "a.nii", placed())
    with ours(tmp_path / "a.nii") as dataset:
        image = dataset.image
        moved = image.assign_coords(x=("x", image.x.values + 5, image.x.attrs))
        with pytest.raises(UsageError, match="remove the coordinates, or the attribute affine"):
            _ = moved.hyperslab.affine
        np.testing.assert_array_equal(moved.drop_vars("x").hyperslab.affine, expected.affine)
        del moved.attrs["affine"]
        shifted = np.array(expected.affine)
        shifted[0, 3] += 5
        np.testing.assert_allclose(moved.hyperslab.affine, shifted, atol=1e-12)
        np.testing.assert_allclose(
            moved.to_dataset(name="image").hyperslab.affine, shifted, atol=1e-12
        )


def test_an_axis_under_another_name_is_named_back(tmp_path: Path) -> None:
    expected = saved(tmp_path / "a.nii", placed())
    with ours(tmp_path / "a.nii") as dataset:
        renamed = dataset.image.rename(x="X")
        with pytest.raises(UsageError, match=r"image\.rename\(X='x'\)\.hyperslab\.affine"):
            _ = renamed.hyperslab.affine
        back = renamed.rename(X="x")
        np.testing.assert_array_equal(back.hyperslab.affine, expected.affine)
