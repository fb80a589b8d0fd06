"""`hyperslab convert`: formats in every sensible direction, seen by their own libraries; dtypes,
chunks.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import h5py

# before netCDF4, which would have HDF5 look for filters in its own folder
import hdf5plugin  # noqa: F401
import netCDF4
import nibabel
import numpy as np
import pytest

import hyperslab
from hyperslab import formats
from hyperslab.arrays import Array
from tests.repetitions import each_value, few
from tests.system.end_to_end.command import (
    ANATOMICAL,
    DATA,
    EPI,
    FUNCTIONAL,
    Finished,
    affine_of,
    call,
    save,
    values_of,
)

nib: Any = nibabel
"Its functions carry no types."

MINC = DATA / "minc"
IMAGES = {
    "MINC1, scaled by slices": (MINC / "tiny.mnc", "real"),
    "MINC2, scaled by slices": (MINC / "small.mnc", "real"),
    "MINC2, one scale": (MINC / "minc2_1_scale.mnc", "real"),
    "MINC2 of floats": (MINC / "minc2-4d-d.mnc", "stored"),
    "NIfTI, big-endian": (ANATOMICAL, "stored"),
    "NIfTI, scaled, 4-D": (FUNCTIONAL, "stored"),
    "NIfTI, real values, 4-D": (FUNCTIONAL, "real"),
    "compressed NIfTI": (EPI, "stored"),
}
TARGETS = {
    "nii": ("new.nii", ()),
    "nii.gz": ("new.nii.gz", ()),
    "h5": ("new.h5", ()),
    "h5 gzip": ("new.h5", ("--compression", "gzip:4")),
    "h5 virtual": ("new.h5", ("--virtual",)),
    "nc": ("new.nc", ()),
    "nc gzip": ("new.nc4", ("--compression", "gzip")),
}
SMALL = ("--engine", "serial", "-q")


pytestmark = pytest.mark.usefixtures("hurried")


def convert(*arguments: object) -> None:
    """Convert in this process; it must succeed without a word."""
    done = call("convert", *arguments, *SMALL)
    assert done == Finished(0, "", ""), done


def real_values(path: Path) -> tuple[Array, Array]:
    """Real values and affine of a file with one array, by the library of its format."""
    if path.suffix in (".nii", ".gz", ".mnc"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            image = nib.load(path)
            return np.asarray(image.dataobj), np.asarray(image.affine)
    if path.suffix == ".h5":
        with h5py.File(path) as file:
            name = formats.only_array(str(path))
            affine = file[name].attrs.get("affine", np.eye(4))
            return h5py_real(file[name]), np.reshape(affine, (4, 4))
    with netCDF4.Dataset(path) as netcdf:
        (variable,) = [
            one for name, one in netcdf.variables.items() if name not in netcdf.dimensions
        ]
        affine = variable.affine if "affine" in variable.ncattrs() else np.eye(4)
        return np.ma.filled(variable[...].astype("f8"), np.nan), np.reshape(affine, (4, 4))


def h5py_real(dataset: Any) -> Array:
    """What the attributes of packing make of a dataset."""
    stored, said = dataset[()], dataset.attrs
    real = stored * said.get("scale_factor", np.float64(1)) + said.get("add_offset", np.float64(0))
    missing = np.append(said.get("missing_value", []), said.get("_FillValue", []))
    return np.where(np.isin(stored, missing), np.nan, real)


def pairs(*steps: int) -> list[tuple[str, str]]:
    """Every image in as many formats, every format of as many images or one more."""
    targets = list(TARGETS)
    return [
        (source, targets[(number + step) % len(targets)])
        for number, source in enumerate(IMAGES)
        for step in steps
    ]


ALIKE = "images are the same in every format"


@pytest.mark.parametrize(("source", "target"), few(pairs(0), pairs(0, 2, 3), ALIKE))
def test_images_are_the_same_in_every_format(tmp_path: Path, source: str, target: str) -> None:
    (path, values), (name, options) = IMAGES[source], TARGETS[target]
    convert(path, tmp_path / name, "--values", values, *options)
    convert(tmp_path / name, tmp_path / "back.nii", "--values", "real")
    for made in (tmp_path / name, tmp_path / "back.nii"):
        found, placed = real_values(made)
        expected, affine = real_values(path)
        if source == "MINC2 of floats" and ".nii" in made.name:
            expected = np.moveaxis(expected, 0, -1)  # its first axis is time
        np.testing.assert_array_equal(found, expected)
        np.testing.assert_allclose(placed, affine, rtol=1e-6, atol=1e-6)


KEPT = ("nii", "nii.gz", "h5 gzip", "h5 virtual", "nc gzip")


@pytest.mark.parametrize("target", few(KEPT, TARGETS, "stored values stay: compressed ones do"))
def test_stored_values_and_their_slope_stay(tmp_path: Path, target: str) -> None:
    """Nothing is rounded, nothing becomes larger: it is the same int16."""
    name, options = TARGETS[target]
    convert(FUNCTIONAL, tmp_path / name, *options)
    source = hyperslab.open(str(tmp_path / name), values="stored")
    assert source.dtype == np.dtype("i2")
    np.testing.assert_array_equal(source[...], values_of(FUNCTIONAL))


@pytest.mark.parametrize("path", ["tiny.mnc", "small.mnc"])
@pytest.mark.parametrize("name", ["new.nii", "new.h5"])
def test_stored_values_that_lose_their_meaning_are_refused(
    tmp_path: Path, path: str, name: str
) -> None:
    done = call("convert", MINC / path, tmp_path / name, "--values", "stored", *SMALL)
    assert done.code == 2
    assert "--values real" in done.err
    assert list(tmp_path.iterdir()) == []


def climate(path: Path, format: Any = "NETCDF4") -> Array:
    """Packed temperatures with missing ones, as climate models leave them."""
    packed = np.random.default_rng(1).integers(-3000, 3000, (6, 5, 7)).astype("i2")
    packed[0, 0], packed[3, 2, 1] = -9999, -32767
    with netCDF4.Dataset(path, "w", format=format) as file:
        for dim, extent in zip(("time", "lat", "lon"), packed.shape, strict=True):
            file.createDimension(dim, extent)
            file.createVariable(dim, "f8", (dim,))[:] = np.arange(extent) * 2.5
        variable = file.createVariable("tas", "i2", ("time", "lat", "lon"), fill_value=-9999)
        variable.setncatts(
            {
                "units": "K",
                "long_name": "air temperature",
                "scale_factor": 0.01,
                "add_offset": 273.15,
            }
        )
        variable.set_auto_maskandscale(False)
        variable[:] = packed
    return packed


@each_value("packing is kept")
@pytest.mark.parametrize("format", ["NETCDF4", "NETCDF3_CLASSIC", "NETCDF3_64BIT_DATA"])
@pytest.mark.parametrize("target", ["h5", "h5 gzip", "nc", "nc gzip"])
def test_packed_netcdf_stays_packed(tmp_path: Path, format: str, target: str) -> None:
    name, options = TARGETS[target]
    packed = climate(tmp_path / "in.nc", format)
    convert(f"{tmp_path / 'in.nc'}::tas", tmp_path / name, *options)
    expected = real_values_of(tmp_path / "in.nc", "tas")
    if name == "new.h5":
        with h5py.File(tmp_path / name) as file:
            dataset = file["tas"]
            assert dataset.attrs["units"] in ("K", b"K")
            assert dataset.dims[0].label == "time"
            np.testing.assert_array_equal(dataset[()], packed)
            np.testing.assert_array_equal(h5py_real(dataset), expected)
        return
    np.testing.assert_array_equal(real_values_of(tmp_path / name, "tas"), expected)
    with netCDF4.Dataset(tmp_path / name) as netcdf:
        variable: Any = netcdf["tas"]
        assert (variable.units, variable.long_name) == ("K", "air temperature")
        assert variable.dimensions == ("time", "lat", "lon")
        variable.set_auto_maskandscale(False)
        np.testing.assert_array_equal(variable[:], packed)


def test_real_values_of_packed_netcdf_are_nan_where_they_are_missing(tmp_path: Path) -> None:
    climate(tmp_path / "in.nc")
    convert(f"{tmp_path / 'in.nc'}::tas", tmp_path / "new.nii", "--values", "real")
    expected = real_values_of(tmp_path / "in.nc", "tas")
    np.testing.assert_array_equal(real_values(tmp_path / "new.nii")[0], expected)
    assert np.isnan(expected).sum() == 7
    stored = ("--values", "stored", *SMALL)
    done = call("convert", f"{tmp_path / 'in.nc'}::tas", tmp_path / "stored.nii", *stored)
    assert done.code == 2
    assert "NIfTI cannot say what these stored values mean: some stand for" in done.err


def real_values_of(path: Path, name: str) -> Array:
    """A variable as netCDF4-python unpacks it, NaN where it masks."""
    with netCDF4.Dataset(path) as file:
        return np.ma.filled(file[name][...].astype("f8"), np.nan)


@pytest.mark.parametrize(
    ("options", "chunks", "level"),
    [
        ((), (4, 5, 6), 6),
        (("--chunks", "7,3,2"), (7, 3, 2), 6),
        (("--compression", "gzip:9"), (4, 5, 6), 9),
        (("--compression", "gzip"), (4, 5, 6), 1),
        (("--compression", "none"), None, None),
        (("--compression", "none", "--chunks", "10x20x30"), (10, 20, 30), None),
        (("--chunks", "100,100,100"), (10, 20, 30), 6),
    ],
    ids=lambda value: (
        " ".join(value) if isinstance(value, tuple) and value and isinstance(value[0], str) else ""
    ),
)
def test_chunks_and_compression_are_carried_over_or_chosen(
    tmp_path: Path, options: tuple[str, ...], chunks: tuple[int, ...] | None, level: int | None
) -> None:
    values = np.random.default_rng(0).integers(0, 99, (10, 20, 30)).astype(">u4")
    with h5py.File(tmp_path / "in.h5", "w") as file:
        made = file.create_dataset(
            "a/b", data=values, chunks=(4, 5, 6), compression=6, shuffle=True, fletcher32=True
        )
        made.attrs["units"] = "counts"
    convert(tmp_path / "in.h5", tmp_path / "new.h5", *options)
    with h5py.File(tmp_path / "new.h5") as file:
        dataset = file["a/b"]
        assert (dataset.chunks, dataset.compression_opts) == (chunks, level)
        assert dataset.attrs["units"] == "counts"
        np.testing.assert_array_equal(dataset[()], values)


def test_every_file_of_a_directory_stays_stored_as_it_was(tmp_path: Path) -> None:
    """Level 0 of gzip, which leaves values as they are, becomes the lowest that is written."""
    (tmp_path / "in").mkdir()
    stored: dict[str, dict[str, Any]] = {
        "a": {},
        "b": {"chunks": (8, 8), "compression": "gzip", "compression_opts": 5},
        "c": {"chunks": (4, 16), "compression": "gzip", "compression_opts": 0},
    }
    for name, options in stored.items():
        with h5py.File(tmp_path / "in" / f"{name}.h5", "w") as file:
            file.create_dataset(f"of/{name}", data=np.ones((16, 16)), **options)
    convert(tmp_path / "in", tmp_path / "out", "--format", "h5")
    found = {}
    for path in sorted((tmp_path / "out").glob("*.h5")):
        with h5py.File(path) as file:
            (name,) = file["of"]
            found[name] = (file["of"][name].chunks, file["of"][name].compression_opts)
    assert found == {"a": (None, None), "b": ((8, 8), 5), "c": ((4, 16), 1)}


@pytest.mark.parametrize("axis", few([0, -1], [0, 1, -1], "files are joined along an axis"))
def test_many_small_files_are_joined_along_an_axis(tmp_path: Path, axis: int) -> None:
    """In natural order: 2 before 10."""
    rng, parts = np.random.default_rng(0), []
    (tmp_path / "in").mkdir()
    for number in range(12):
        shape = [3, 4, 2]
        shape[axis] = 1 + number % 3
        parts.append(rng.normal(size=shape))
        with h5py.File(tmp_path / "in" / f"part_{number}.h5", "w") as file:
            file["signal"] = parts[-1]
    convert(
        tmp_path / "in",
        tmp_path / "new.h5",
        "--axis",
        axis,
        "--chunks",
        "2,2,2",
        "--compression",
        "gzip",
    )
    with h5py.File(tmp_path / "new.h5") as file:
        np.testing.assert_array_equal(file["signal"][()], np.concatenate(parts, axis=axis))


def test_a_directory_of_images_becomes_as_many(tmp_path: Path) -> None:
    values = {name: np.full((4, 5, 6), number, "i2") for number, name in enumerate(("a", "b", "c"))}
    for name, block in values.items():
        save(tmp_path / "in" / f"{name}.nii", block)
    convert(tmp_path / "in", tmp_path / "out", "--format", "nii.gz")
    assert sorted(path.name for path in (tmp_path / "out").glob("[!.]*")) == [
        "a.nii.gz",
        "b.nii.gz",
        "c.nii.gz",
    ]
    for name, block in values.items():
        np.testing.assert_array_equal(values_of(tmp_path / "out" / f"{name}.nii.gz"), block)
        np.testing.assert_array_equal(
            affine_of(tmp_path / "out" / f"{name}.nii.gz"), np.diag([0.5, 0.75, 2, 1])
        )


def test_booleans_become_ones_and_zeros_in_nifti(tmp_path: Path) -> None:
    inner = np.random.default_rng(0).random((4, 5, 6)) > 0.5
    with h5py.File(tmp_path / "mask.h5", "w") as file:
        file["mask"] = inner
    hyperslab.convert(tmp_path / "mask.h5", tmp_path / "mask.nii.gz", engine="serial")
    made: Any = nibabel.load(tmp_path / "mask.nii.gz")
    assert made.get_data_dtype() == np.uint8
    assert np.array_equal(np.asarray(made.dataobj), inner)


def test_dtype_is_changed_on_request_and_only_if_every_value_fits(tmp_path: Path) -> None:
    source = save(tmp_path / "in.nii", np.arange(-10, 50, dtype="i2").reshape(3, 4, 5))
    convert(source, tmp_path / "new.nii", "--dtype", "float32")
    np.testing.assert_array_equal(values_of(tmp_path / "new.nii"), values_of(source))
    assert values_of(tmp_path / "new.nii").dtype == np.float32
    done = call("convert", source, tmp_path / "small.h5", "--dtype", "uint8", *SMALL)
    assert done.code == 1
    assert "--dtype uint8: the value -10 at (0, 0, 0) is below 0: choose" in done.err
    assert "cast" not in done.err, "a line of ours is none of the user's"
    assert not (tmp_path / "small.h5").exists()
    labels = save(tmp_path / "labels.nii", np.array([[[16777217, 16777215]]], "i4"))
    done = call("convert", labels, tmp_path / "labels.h5", "--dtype", "float32", *SMALL)
    assert done.code == 1
    assert "--dtype float32: the value 16777217 at (0, 0, 0) is a whole number that" in done.err
    assert not (tmp_path / "labels.h5").exists()
    convert(labels, tmp_path / "double.nii", "--dtype", "float64")
    assert values_of(tmp_path / "double.nii").ravel().tolist() == [16777217, 16777215]
    convert(FUNCTIONAL, tmp_path / "real.nii", "--dtype", "float64")
    np.testing.assert_array_equal(real_values(tmp_path / "real.nii")[0], real_values(FUNCTIONAL)[0])


REFUSED = [
    (("out.xyz",), "give a name that ends in .nii"),
    (("out.mnc",), "files of this kind cannot be written"),
    (("out.nii", "--values", "raw"), "--values raw: choose one of real, stored"),
    (("out.nii", "--dtype", "nonsense"), "--dtype nonsense: not a NumPy dtype"),
    (("out.nii", "--dtype", "S5"), "--dtype S5: that is not a number"),
    (("out.nii", "--blocks", "2"), "a split array becomes several files"),
    (("out.nii", "--format", "h5"), "is a name of another format"),
    (("out", "--format", "png"), "--format png: choose one of nii, nii.gz, h5"),
    (("out", "--blocks", "2x2"), "--blocks 2x2: give one number, or 3 joined by x"),
    (("out", "--block-shape", "5,5"), "--block-shape 5,5: the array has 3 dimensions"),
    (("out", "--blocks", "2", "--block-shape", "5,5,5"), "are different ways to cut"),
    (("out.h5", "--compression", "zip"), "--compression zip"),
    (("out.h5", "--compression", "gzip:x"), "--compression gzip:x"),
    (("out.nii", "--chunks", "2,2,2"), "NIfTI has neither chunks nor shards"),
    (("out.nc", "--virtual"), "netCDF has no virtual variables"),
    (("out.h5", "--sources", "pile"), "--sources pile: choose one of"),
    (("out.h5", "--engine", "abacus"), "abacus"),
    (("out.h5", "--memory", "0"), "--memory 0"),
]


@pytest.mark.parametrize(
    ("arguments", "sentence"), REFUSED, ids=lambda value: " ".join(value) if value else ""
)
def test_what_cannot_be_meant_is_refused_before_anything_is_made(
    tmp_path: Path, arguments: tuple[str, ...], sentence: str
) -> None:
    done = call("convert", ANATOMICAL, tmp_path / arguments[0], *arguments[1:], "-q")
    assert (done.code, done.out) == (2, ""), done
    assert sentence in done.err
    assert done.err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []
