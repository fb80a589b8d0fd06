"""What xarray's own tests need of pytest, and what importing them leaves behind."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path

import pytest
import xarray
import xarray.tests
from xarray.backends import plugins

from tests.connectors.opened import write_all_kinds
from tests.formats.files import ROOT

# Its tests want to hear of files that nobody closed; those of a file that cannot be opened nobody
# can close.
xarray.set_options(warn_for_unclosed_files=False)


@pytest.fixture(scope="module")
def netcdf4(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("netcdf4") / "all.nc"
    write_all_kinds(path, "NETCDF4")
    return path


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """xarray as it is where this package is installed: with the entry points that the project
    names.
    """
    named = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"][
        "xarray.backends"
    ]
    points = EntryPoints(
        EntryPoint(name, value, "xarray.backends") for name, value in named.items()
    )
    monkeypatch.setattr(plugins, "entry_points", lambda group: points)
    plugins.list_engines.cache_clear()
    yield
    plugins.list_engines.cache_clear()
