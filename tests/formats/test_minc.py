"""MINC1 and MINC2: the conformance suite on real files against nibabel, and what it reads of made
ones.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py

# before netCDF4, which would have HDF5 look for filters in its own folder
import hdf5plugin  # noqa: F401
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hyperslab import formats
from hyperslab.arrays import Array
from hyperslab.arrays.slab import Hyperslab
from hyperslab.arrays.source import Values
from hyperslab.blocks import reading
from hyperslab.testing import FormatTests
from hyperslab.testing.formats import assert_same, slabs
from tests.examples import examples
from tests.formats.files import real_files
from tests.formats.minc_made import IMAGE, SPACE, write_minc1, write_minc2
from tests.formats.reference import minc_image

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
    np.testing.assert_array_equal(source.header.affine, image.affine)
    if len(source.shape) == 3:
        assert source.dims == ("zspace", "yspace", "xspace")
        return
    assert source.dims == ("time", "xspace", "yspace", "zspace")
    assert source.header.space == (1, 2, 3)


DTYPES = ["i1", "u1", "i2", "u2", "i4", "u4", "f4", "f8"]


@st.composite
def volumes(draw: st.DrawFn) -> dict[str, Any]:
    """What a MINC file says of an image whose ranges are of its first 0, 1 or 2 axes."""
    dims = draw(st.permutations(SPACE))
    if draw(st.booleans()):
        dims = ["time", *dims] if draw(st.booleans()) else [*dims, "time"]
    shape, dtype = (
        tuple(draw(st.integers(1, 4)) for _ in dims),
        np.dtype(draw(st.sampled_from(DTYPES))),
    )
    scaled, numbers = draw(st.integers(0, 2)), np.random.default_rng(draw(st.integers(0, 99)))
    said: dict[str, Any] = {
        "dims": dims,
        "dtype": dtype,
        "low": numbers.normal(size=shape[:scaled]),
    }
    said["high"] = said["low"] + numbers.uniform(0, 3, shape[:scaled])
    if dtype.kind == "f":
        return {**said, "values": numbers.normal(size=shape).astype(dtype), "range": None}
    info: Any = np.iinfo(dtype)
    said["values"] = numbers.integers(info.min, info.max, shape, dtype, endpoint=True)
    said["range"] = draw(st.sampled_from([None, (info.min, info.max), (1, 100), (0, info.max)]))
    said["steps"] = {name: draw(st.sampled_from([1.0, -2.5, 0.3])) for name in dims}
    said["tilt"] = draw(st.booleans())
    return said


@given(data=st.data(), said=volumes(), version=st.sampled_from([1, 2]))
@settings(max_examples=examples(150), deadline=None)
def test_any_volume_reads_as_nibabel_reads_it(
    tmp_path_factory: pytest.TempPathFactory,
    data: st.DataObject,
    said: dict[str, Any],
    version: int,
) -> None:
    path = tmp_path_factory.mktemp("minc") / "any.mnc"
    (write_minc1 if version == 1 else write_minc2)(path, said)
    image, source = minc_image(str(path)), formats.open_source(str(path))
    assert source.unscalable == ""
    assert source.dims == tuple(said["dims"])
    np.testing.assert_array_equal(source.header.affine, image.affine)
    slab = data.draw(slabs(source.shape))
    assert_same(reading.read(source, slab, values="stored"), said["values"][slab.slices()])
    assert_same(reading.read(source, slab), image.values[slab.slices()])
