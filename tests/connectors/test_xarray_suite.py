"""xarray's own tests of its engines, with files that its engines write and this one reads."""

from __future__ import annotations

from typing import Any

import pytest
import xarray
from xarray.tests import test_backends as suite

from hyperslab.connectors.xarray import HyperslabBackend

pytestmark = pytest.mark.filterwarnings("default", "error:.*is left out")


class Reads:
    """Written as the suite writes, and opened by the engine that is tested, whichever it asks for."""

    @pytest.fixture(autouse=True)
    def _opened_here(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def opened(path: Any, engine: str | None = None, **options: Any) -> xarray.Dataset:
            return xarray.open_dataset(path, engine=HyperslabBackend, **options)

        monkeypatch.setattr(suite, "open_dataset", opened)


class TestNetcdf4(Reads, suite.TestNetCDF4Data): ...


class TestH5netcdf(Reads, suite.TestH5NetCDFData): ...


class TestClassic(Reads, suite.TestNetCDF3ViaNetCDF4Data): ...


class TestClassicModel(Reads, suite.TestNetCDF4ClassicViaNetCDF4Data): ...


class TestScipy(Reads, suite.TestScipyFilePath): ...


class TestDask(Reads, suite.TestNetCDF4ViaDaskData): ...
