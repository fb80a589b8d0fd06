"""Scratch of a test is its own: it sees no other, wherever else on this machine tests run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from hyperslab.storage.scratch import registry
from hyperslab.storage.scratch.removing import remove
from tests.storage.scratch.stage import free_for_all


@pytest.fixture(autouse=True)
def runtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of records; whatever a test has left is removed."""
    with free_for_all() as place:
        monkeypatch.setenv("XDG_RUNTIME_DIR", str(place))
        yield place
        for scratch in registry.recorded():
            remove(scratch, by_force=True)


@pytest.fixture
def storage() -> Iterator[Path]:
    """A directory in which every user may write."""
    with free_for_all() as place:
        yield place
