"""What stored values mean, through a conversion: the same real values, or a refusal before anything
is written.

Of a netCDF variable with any attributes of packing, against netCDF4-python and nibabel.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import h5py

# before netCDF4, which would have HDF5 look for filters in its own folder
import hdf5plugin  # noqa: F401
import netCDF4
import numpy as np
import pytest
from hypothesis import HealthCheck, given, reject, settings
from hypothesis import strategies as st

import hyperslab
from hyperslab.apps.conversion import Wanted, conversion
from hyperslab.arrays import Array
from hyperslab.blocks import writing
from hyperslab.errors import BlockError, UsageError
from hyperslab.plan.becoming import become
from hyperslab.plan.pipeline import Write
from hyperslab.plan.sinks import output
from tests.formats.netcdf_made import TYPES, Variable, make, typical
from tests.system.end_to_end.command import real_values_of

pytestmark = pytest.mark.usefixtures("hurried")

FACTORS = [
    np.float32(0.1),
    np.float64(0.1),
    np.float32(0.5),
    np.float64(-2),
    np.float32(3),
    np.int32(2),
]
ONES = [np.float32(1), np.float64(1), np.int16(1)]
OFFSETS = [np.float32(-2.5), np.float64(273.15), np.float32(0), np.float64(0), np.int32(-7)]


@st.composite
def variables(draw: st.DrawFn) -> Variable:
    """A variable of few values, the smallest, the largest and the default fill value among them."""
    dtype = draw(st.sampled_from(TYPES))
    one = st.sampled_from(typical(dtype, (16,)).tolist()).map(np.dtype(dtype).type)
    several = st.lists(one, min_size=1, max_size=3).map(lambda values: np.array(values, dtype))
    both = st.lists(one, min_size=2, max_size=2).map(
        lambda values: np.sort(np.array(values, dtype))
    )
    said = st.fixed_dictionaries(
        {},
        optional={
            "scale_factor": st.sampled_from([*FACTORS, *ONES]),
            "add_offset": st.sampled_from(OFFSETS),
            "_FillValue": one,
            "missing_value": several,
            "valid_min": one,
            "valid_max": one,
            "valid_range": both,
            "_Unsigned": st.sampled_from(["true", "false"]),
            "empty": st.just(""),
        },
    )
    return Variable("v", dtype, ("x",), draw(said), values=typical(dtype, (16,)))


def by_netcdf(path: Path) -> tuple[Array, Array, dict[str, Any]]:
    """Values, mask and attributes, as netCDF4-python has them."""
    with warnings.catch_warnings(), netCDF4.Dataset(path) as file, np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        variable: Any = file["v"]
        try:
            found = np.ma.asarray(variable[...])
        except TypeError:  # it cannot mask unsigned bytes by their default fill value
            reject()
        said = {name: variable.getncattr(name) for name in variable.ncattrs()}
    return np.asarray(found.filled(0)), np.ma.getmaskarray(found), said


def assert_equal(found: Array, expected: Array) -> None:
    """The same numbers, also in the signs of zeros; NaN in the same places."""
    np.testing.assert_array_equal(found, expected)
    present = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(found[present]), np.signbit(expected[present]))


def write(source: Path, made: Path) -> str:
    """Convert in one step, without a run; returns why that is refused."""
    pipeline = conversion(source, made, Wanted(values="stored"))
    assert isinstance(pipeline.end, Write)
    try:
        (volume,) = output(pipeline.source, become(pipeline), pipeline.end).volumes
        writing.write(volume.sink, hyperslab.open(str(source), values="stored")[...])
    except (UsageError, BlockError) as error:
        return str(error)
    return ""


def save_hdf5(variable: Variable, path: Path) -> None:
    """The same without netCDF's dimensions, so that no default fill value is missing."""
    with h5py.File(path, "w") as file:
        file.create_dataset("v", data=variable.values).attrs.update(variable.said)


@given(variable=variables(), kind=st.sampled_from(["netCDF-4", "CDF-5", "HDF5"]))
@settings(
    deadline=None,
    max_examples=12,
    suppress_health_check=[
        HealthCheck.function_scoped_fixture,
        HealthCheck.differing_executors,
        HealthCheck.too_slow,
    ],
)
@pytest.mark.parametrize("target", ["new.nc", "new.h5", "new.zarr", "new.nii"])
def test_real_values_stay_or_the_conversion_is_refused(
    tmp_path_factory: pytest.TempPathFactory, target: str, variable: Variable, kind: str
) -> None:
    folder = tmp_path_factory.mktemp("meaning")
    source, made = folder / "in.nc", folder / target
    (
        save_hdf5(variable, source)
        if kind == "HDF5"
        else make([variable], source, kind=kind, sizes={"x": 16})
    )
    if refused := write(source, made):
        assert "--values real" in refused or "default fill value" in refused
        return
    expected = hyperslab.open(str(source))[...]
    assert_equal(hyperslab.open(str(made))[...], expected)
    if target == "new.nii":
        assert_equal(real_values_of(made), expected)
    if target == "new.nc" and kind != "HDF5":
        assert_same_to_netcdf(made, source)
    packing = [np.asarray(variable.said.get(name, 1.0)) for name in ("scale_factor", "add_offset")]
    # by integers netCDF4-python scales in integers, which wrap around
    if target == "new.nc" and {values.dtype.kind for values in (expected, *packing)} == {"f"}:
        values, masked, _ = by_netcdf(made)
        assert_equal(np.where(masked, np.nan, values), expected)


def assert_same_to_netcdf(made: Path, source: Path) -> None:
    """netCDF4-python's values, mask and attributes; of bytes the default fill value is missing
    where that is said.
    """
    (values, mask, said), (expected, masked, attributes) = by_netcdf(made), by_netcdf(source)
    are_bytes = hyperslab.open(str(source)).source.stored.itemsize == 1
    if are_bytes:
        np.testing.assert_array_equal(values[~masked], expected[~masked], strict=True)
    else:
        np.testing.assert_array_equal(values, expected, strict=True)
        np.testing.assert_array_equal(mask, masked)
    if are_bytes and "_FillValue" not in attributes:
        said.pop("_FillValue", None)
    assert repr(said) == repr(attributes)
