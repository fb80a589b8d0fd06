"""MINC1 and MINC2: the conformance suite on real files against nibabel, and what it reads of made ones."""

from __future__ import annotations

import shutil
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import hdf5plugin  # noqa: F401  # before netCDF4, which would have HDF5 look for filters in its own folder
import netCDF4
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hyperslab import blockio, formats
from hyperslab.array import Array, Values
from hyperslab.errors import UsageError
from hyperslab.slab import Hyperslab
from hyperslab.testing import FormatTests
from hyperslab.testing.formats import assert_same, slabs
from tests.formats.files import DATA, real_files
from tests.formats.reference import minc_image

IMAGE = "/minc-2.0/image/0/image"
SMALL, SERIES, TINY = (DATA / "minc" / name for name in ("small.mnc", "minc2-4d-d.mnc", "tiny.mnc"))
ALL = [*real_files("hdf5", only=".mnc"), *real_files("netcdf", only=".mnc")]


class TestMinc2(FormatTests):
    @pytest.fixture(params=real_files("hdf5", only=".mnc"))
    def path(self, request: pytest.FixtureRequest) -> Path:
        return Path(request.param)

    def reference(self, url: str, slab: Hyperslab, values: Values) -> Array:
        path, name = formats.split_url(url)
        if values == "real" and name == IMAGE:
            return np.asarray(minc_image(path).values[slab.slices()])
        with h5py.File(path, "r", locking=False) as file:
            return np.asarray(np.asarray(file[name][()])[slab.slices()])


@pytest.mark.parametrize("path", ALL)
def test_the_image_is_opened_and_lies_where_nibabel_says(path: Path) -> None:
    source, image = formats.open_source(str(path)), minc_image(str(path))
    assert source.name.rpartition("/")[2] == "image"
    assert source.shape == image.shape
    if len(source.shape) == 3:
        np.testing.assert_array_equal(source.header.affine, image.affine)
        assert source.dims == ("zspace", "yspace", "xspace")
        return
    assert source.header.affine is None, "an affine speaks of the first three axes, and the first of these is time"
    assert source.dims == ("time", "xspace", "yspace", "zspace")
    np.testing.assert_array_equal(source.header.attributes["space_affine"], image.affine)


DTYPES = ["i1", "u1", "i2", "u2", "i4", "u4", "f4", "f8"]
SPACE = ["zspace", "yspace", "xspace"]


@st.composite
def volumes(draw: st.DrawFn) -> dict[str, Any]:
    """What a MINC file says of an image whose ranges are of its first 0, 1 or 2 axes."""
    dims = draw(st.permutations(SPACE))
    if draw(st.booleans()):
        dims = ["time", *dims] if draw(st.booleans()) else [*dims, "time"]
    shape, dtype = tuple(draw(st.integers(1, 4)) for _ in dims), np.dtype(draw(st.sampled_from(DTYPES)))
    scaled, numbers = draw(st.integers(0, 2)), np.random.default_rng(draw(st.integers(0, 99)))
    said: dict[str, Any] = {"dims": dims, "dtype": dtype, "low": numbers.normal(size=shape[:scaled])}
    said["high"] = said["low"] + numbers.uniform(0, 3, shape[:scaled])
    if dtype.kind == "f":
        return {**said, "values": numbers.normal(size=shape).astype(dtype), "range": None}
    info: Any = np.iinfo(dtype)
    said["values"] = numbers.integers(info.min, info.max, shape, dtype, endpoint=True)
    said["range"] = draw(st.sampled_from([None, (info.min, info.max), (1, 100), (0, info.max)]))
    said["steps"] = {name: draw(st.sampled_from([1.0, -2.5, 0.3])) for name in dims}
    said["tilt"] = draw(st.booleans())
    return said


def dimension(said: dict[str, Any], name: str) -> dict[str, Any]:
    attributes: dict[str, Any] = {"spacing": "regular__", "step": said.get("steps", {}).get(name, 1.0), "start": -7.25}
    if said.get("tilt") and name != "time":
        attributes["direction_cosines"] = np.roll([0.96, 0.28, 0.0], SPACE.index(name))
    return attributes


def write_minc2(path: Path, said: dict[str, Any]) -> None:
    with h5py.File(path, "w") as file:
        for name in said["dims"]:
            file[f"minc-2.0/dimensions/{name}"] = 0
            encoded = {k: np.bytes_(v) if isinstance(v, str) else v for k, v in dimension(said, name).items()}
            file[f"minc-2.0/dimensions/{name}"].attrs.update(encoded)
        for name, values in (("image", said["values"]), ("image-min", said["low"]), ("image-max", said["high"])):
            made = file.create_dataset(f"minc-2.0/image/0/{name}", data=values)
            if np.ndim(values):
                made.attrs["dimorder"] = np.bytes_(",".join(said["dims"][: np.ndim(values)]))
        if said["range"] is not None:
            file[IMAGE].attrs["valid_range"] = np.array(said["range"], "f8")


def write_minc1(path: Path, said: dict[str, Any]) -> None:
    dtype = said["dtype"]
    with warnings.catch_warnings(), netCDF4.Dataset(path, "w", format="NETCDF3_CLASSIC") as file:
        warnings.simplefilter("ignore")
        for name, extent in zip(said["dims"], said["values"].shape, strict=True):
            file.createDimension(name, extent)
            file.createVariable(name, "i4").setncatts(dimension(said, name))
        made = file.createVariable("image", dtype.str.replace("u", "i").replace("<", ""), said["dims"])
        if dtype.kind in "iu":
            made.signtype = "unsigned" if dtype.kind == "u" else "signed__"
        if said["range"] is not None:
            made.valid_range = np.array(said["range"], "f8")
        made.set_auto_maskandscale(False)
        made[:] = said["values"].view(made.dtype)
        for name, values in (("image-min", said["low"]), ("image-max", said["high"])):
            file.createVariable(name, "f8", said["dims"][: np.ndim(values)])[...] = values


@given(data=st.data(), said=volumes(), version=st.sampled_from([1, 2]))
@settings(max_examples=150, deadline=None)
def test_any_volume_reads_as_nibabel_reads_it(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject, said: dict[str, Any], version: int
) -> None:
    path = tmp_path_factory.mktemp("minc") / "any.mnc"
    (write_minc1 if version == 1 else write_minc2)(path, said)
    image, source = minc_image(str(path)), formats.open_source(str(path))
    assert source.unscalable == ""
    assert source.dims == tuple(said["dims"])
    affine = source.header.attributes["space_affine"] if said["dims"][0] == "time" else source.header.affine
    np.testing.assert_array_equal(affine, image.affine)
    slab = data.draw(slabs(source.shape))
    assert_same(blockio.read(source, slab, values="stored"), said["values"][slab.slices()])
    assert_same(blockio.read(source, slab), image.values[slab.slices()])


def changed(tmp_path: Path, change: Any) -> Path:
    path = tmp_path / "changed.mnc"
    shutil.copyfile(SMALL, path)
    path.chmod(0o644)
    with h5py.File(path, "a") as file:
        change(file["minc-2.0"])
    return path


def _drop_ranges(minc: Any) -> None:
    del minc["image/0/image-max"]


def _short_ranges(minc: Any) -> None:
    del minc["image/0/image-max"]
    minc["image/0/image-max"] = np.ones(3)


def say(name: str, attribute: str, value: Any) -> Callable[[Any], None]:
    return lambda minc: minc[name].attrs.create(attribute, np.bytes_(value) if isinstance(value, bytes) else value)


REFUSED: dict[str, Callable[[Any], Any]] = {
    "spacing along yspace is irregular": say("dimensions/yspace", "spacing", b"irregular"),
    "dimorder is wrong": say("image/0/image", "dimorder", b"zspace,yspace"),
    "no image-min and image-max": _drop_ranges,
    "no image-min and image-max of its first axes": _short_ranges,
    "is not one of int16": say("image/0/image", "valid_range", [-40000.0, 10.0]),
    "from 5 to 5": say("image/0/image", "valid_range", [5.0, 5.0]),
    "valid_range is not 2": say("image/0/image", "valid_range", [5.0]),
    "step is not 1": say("dimensions/yspace", "step", b"one"),
    "direction_cosines is not 3": say("dimensions/yspace", "direction_cosines", [1.0, 0.0]),
    "zspace has no variable": lambda minc: minc["dimensions"].pop("zspace"),
    "one number per slice": say("image/0/image-max", "dimorder", b"yspace"),
}


@pytest.mark.parametrize("why", REFUSED)
def test_volumes_that_are_not_understood_have_no_real_values(tmp_path: Path, why: str) -> None:
    source = formats.open_source(str(changed(tmp_path, REFUSED[why])))
    with pytest.raises(UsageError, match=f"{why}.*--values stored"):
        blockio.read(source, Hyperslab.full(source.shape))
    with h5py.File(SMALL) as file:
        assert_same(blockio.read(source, Hyperslab.full(source.shape), values="stored"), file[IMAGE][()])


def test_images_of_lower_resolution_are_read_as_stored(tmp_path: Path) -> None:
    path = changed(tmp_path, lambda minc: minc.copy("image/0", minc["image"], "1"))
    assert formats.open_source(str(path)).name == IMAGE
    source = formats.open_source(f"{path}::/minc-2.0/image/1/image")
    with pytest.raises(UsageError, match="lower resolution"):
        source.dtype("real")


def test_regular_spacing_in_other_words_is_taken_as_nibabel_takes_it(tmp_path: Path) -> None:
    path = changed(tmp_path, say("dimensions/yspace", "spacing", b"yspace"))
    source = formats.open_source(str(path))
    assert_same(blockio.read(source, Hyperslab.full(source.shape)), minc_image(str(path)).values)


def test_a_minc1_image_without_a_sign_has_no_real_values(tmp_path: Path) -> None:
    raw = TINY.read_bytes()
    path = tmp_path / "unsaid.mnc"
    path.write_bytes(raw.replace(b"unsigned", b"whatever", 2).replace(b"-byte -whatever", b"-byte -unsigned"))
    with pytest.raises(UsageError, match="signtype does not say"):
        formats.open_source(str(path)).dtype("real")
