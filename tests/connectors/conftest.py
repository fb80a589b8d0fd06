"""What xarray's own tests need of pytest."""

from __future__ import annotations

import pytest


def pytest_configure(config: pytest.Config) -> None:
    """Know the marks of xarray's tests."""
    for mark in ("asyncio", "flaky", "network", "skip_if_param", "skip_with_dask_array", "slow", "slow_hypothesis"):
        config.addinivalue_line("markers", f"{mark}: a mark of xarray's own tests")
