"""Tiers are measured as they are made, which needs processors that nobody else is at."""

from __future__ import annotations

import os

import pytest

QUIET = "HYPERSLAB_QUIET_MACHINE"


@pytest.fixture(autouse=True)
def _needs_a_quiet_machine() -> None:
    if not os.environ.get(QUIET):
        pytest.skip(f"bandwidths are off beside other tests; set {QUIET}=1 and run these alone")
