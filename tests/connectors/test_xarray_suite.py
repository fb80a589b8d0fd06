"""xarray's own tests of its engines, with files that NetCDF-C and h5netcdf write and this engine
reads.

The suites are those of netCDF-4 through netcdf4, by itself and with `chunks={}`, of netCDF-4
through h5netcdf, and of netCDF classic through netcdf4. Its other suites (scipy, open files, bytes
in memory, Zarr) are of what this engine does not take. Left out: asynchronous loading, for which
the suite needs a plugin of pytest (`test_xarray.py` has it); examples that need Iris or the
network; encodings in h5netcdf's words. Changed: the class of the error for a group that is no name.
Marks of the suite for what xarray cannot do (xfail, skip) stay.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import xarray
from xarray.tests import test_backends as suite
from xarray.tests.conftest import time_unit, use_dask

from hyperslab.connectors.xarray import HyperslabBackend
from hyperslab.errors import UsageError
from tests.repetitions import only

__all__ = ["time_unit", "use_dask"]  # fixtures of the suite

# The suite is written for warnings that are not errors; those of this engine are.
pytestmark = pytest.mark.filterwarnings("default", "error:.*is left out")


LEFT_OUT = {"test_load_async", "test_compression_encoding_h5py", "test_dump_encodings_h5py"}
"Tests that TestByH5netcdf does not have."


class Reads:
    """Written as the suite writes, and opened by the engine that is tested, whichever it asks
    for.
    """

    @pytest.fixture(autouse=True)
    def _opened_here(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def opened(path: Any, engine: str | None = None, **options: Any) -> xarray.Dataset:
            return xarray.open_dataset(path, engine=HyperslabBackend, **options)

        monkeypatch.setattr(suite, "open_dataset", opened)


class Groups(Reads):
    """Of files that have some."""

    open: Any

    def test_open_group(self) -> None:
        """As the suite's, but for the error for a group that is no name."""
        with suite.create_tmp_file() as path:
            xarray.Dataset({"x": ("time", np.arange(10))}).to_netcdf(path, group="foo")
            for group in ("foo", "/foo", "foo/", "/foo/"):
                with self.open(path, group=group) as dataset:
                    np.testing.assert_array_equal(dataset.x, np.arange(10))
            with (
                pytest.raises(OSError, match="holds no group '/bar'"),
                self.open(path, group="bar"),
            ):
                pass
            with (
                pytest.raises(UsageError, match="must be a string"),
                self.open(path, group=(1, 2, 3)),
            ):
                pass


class TestNetcdf4(Groups, suite.TestNetCDF4Data):
    """All kinds of netCDF-4 variables, groups, encodings, indexing, pickling."""

    test_load_async: Any = None
    test_roundtrip_example_1_netcdf: Any = None
    test_coordinate_variables_after_iris_roundtrip: Any = None
    test_refresh_from_disk: Any = (
        suite.NetCDFBase.test_refresh_from_disk
    )  # which NetCDF-C is not good at

    def test_roundtrip_complex(self) -> None:
        """The suite's, without the option of netCDF4 that makes pairs complex when they are read:
        here they are.
        """
        expected = xarray.Dataset({"x": ("y", np.ones(5) + 1j * np.ones(5))})
        with self.roundtrip(expected, save_kwargs={"auto_complex": True}) as found:
            xarray.testing.assert_equal(found, expected)


class TestClassic(Reads, suite.TestNetCDF3ViaNetCDF4Data):
    """netCDF classic."""

    test_load_async: Any = None
    test_roundtrip_example_1_netcdf: Any = None
    test_coordinate_variables_after_iris_roundtrip: Any = None


READING = (
    "test_roundtrip_test_data",
    "test_roundtrip_string_encoded_characters",
    "test_orthogonal_indexing",
    "test_vectorized_indexing",
    "test_isel_dataarray",
    "test_pickle",
    "test_write_groups",
)
"""What a suite shows that differs from that of netCDF-4 by its writer, or by how it holds arrays:
values, texts, parts and groups. What variables and attributes mean is the same code.
"""


def _of(suite_of_others: type) -> set[str]:
    """The tests that a suite does not inherit."""
    return {name for name in vars(suite_of_others) if name.startswith("test_")}


@only({*READING, *_of(suite.TestNetCDF4ViaDaskData)})
class TestChunked(TestNetcdf4, suite.TestNetCDF4ViaDaskData):
    """netCDF-4 in Dask arrays of stored chunks."""

    @contextlib.contextmanager
    def roundtrip(
        self,
        data: Any,
        save_kwargs: Any = None,
        open_kwargs: Any = None,
        allow_cleanup_failure: Any = False,
    ) -> Iterator[Any]:
        how = {"chunks": {}, **(open_kwargs or {})}
        with super().roundtrip(data, save_kwargs, how, allow_cleanup_failure) as found:
            yield found


@only({*READING, *_of(suite.TestH5NetCDFData)} - LEFT_OUT)
class TestByH5netcdf(Groups, suite.TestH5NetCDFData):
    """netCDF-4 as h5netcdf writes it, but for h5netcdf's own words for filters."""

    test_load_async: Any = None
    test_compression_encoding_h5py: Any = None
    test_dump_encodings_h5py: Any = None
