"""xarray's own tests of its engines netcdf4 and scipy, with files that NetCDF-C writes and this engine reads.

Left out: what opens files that are in memory or already open, which this engine does not take; asynchronous loading,
for which the suite needs a plugin of pytest (`test_xarray.py` has it); examples that need Iris or the network. Changed:
the class of the error for a group that is not there. Marks of the suite for what xarray cannot do (xfail, skip) stay.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import xarray
from xarray.tests import test_backends as suite
from xarray.tests.conftest import time_unit, use_dask

from hyperslab.connectors.xarray import HyperslabBackend
from hyperslab.errors import UsageError

__all__ = ["time_unit", "use_dask"]  # fixtures of the suite

# The suite is written for warnings that are not errors; those of this engine are.
pytestmark = pytest.mark.filterwarnings("default", "error:.*is left out")


class Reads:
    """Written as the suite writes, and opened by the engine that is tested, whichever it asks for."""

    @pytest.fixture(autouse=True)
    def _opened_here(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def opened(path: Any, engine: str | None = None, **options: Any) -> xarray.Dataset:
            return xarray.open_dataset(path, engine=HyperslabBackend, **options)

        monkeypatch.setattr(suite, "open_dataset", opened)


class TestNetcdf4(Reads, suite.TestNetCDF4Data):
    """All kinds of netCDF-4 variables, groups, encodings, indexing, pickling."""

    test_load_async: Any = None
    test_roundtrip_example_1_netcdf: Any = None
    test_coordinate_variables_after_iris_roundtrip: Any = None
    test_refresh_from_disk: Any = suite.NetCDFBase.test_refresh_from_disk  # which NetCDF-C is not good at

    def test_open_group(self) -> None:
        """As the suite's, but for the error for a group that is not there."""
        with suite.create_tmp_file() as path:
            xarray.Dataset({"x": ("time", np.arange(10))}).to_netcdf(path, group="foo")
            for group in ("foo", "/foo", "foo/", "/foo/"):
                with self.open(path, group=group) as dataset:
                    np.testing.assert_array_equal(dataset.x, np.arange(10))
            for wrong in ("bar", (1, 2, 3)):
                with pytest.raises(UsageError), self.open(path, group=wrong):
                    pass

    def test_roundtrip_complex(self) -> None:
        """The suite's, without the option of netCDF4 that makes pairs complex when they are read: here they are."""
        expected = xarray.Dataset({"x": ("y", np.ones(5) + 1j * np.ones(5))})
        with self.roundtrip(expected, save_kwargs={"auto_complex": True}) as found:
            xarray.testing.assert_equal(found, expected)


class TestClassic(Reads, suite.TestNetCDF3ViaNetCDF4Data):
    """netCDF classic."""

    test_load_async: Any = None
    test_roundtrip_example_1_netcdf: Any = None
    test_coordinate_variables_after_iris_roundtrip: Any = None
