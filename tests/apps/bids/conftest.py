"""A small dataset, and where its derivatives go."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.apps.bids.datasets import make, t1w


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Three participants, of whom one has two sessions."""
    return make(tmp_path / "data", t1w("1"), t1w("10"), t1w("2", "a"), t1w("2", "b"))


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "out"
